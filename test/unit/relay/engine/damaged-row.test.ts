/** Rows of which a bit flipped while nobody looked: who finds them, what is refused then, and that the rest goes on. */
import { describe, expect, test } from 'vitest';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { rowKey } from '../../../../src/relay/core/rows.ts';
import { PREFIX, collectedKey, queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { isRowFault } from '../../../../src/relay/engine/queues.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { ROW_PREFIXES, rowKind, rowName } from '../../../../src/relay/store/checksum.ts';
import { refusedIfDamaged, StoreRefused } from '../../../../src/relay/store/refused.ts';
import { rebuilt, verified } from '../../../support/audits.ts';
import { fixtureStore } from '../../../support/fixture-stores.ts';
import { flipKey, flipValue, keysUnder } from '../../../support/flipped-rows.ts';
import { pushOf } from '../../../support/commands.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { NOON_MS, TestClock } from '../../../support/test-clock.ts';
import { TestRelay, enrolledTestRelay, outcomeOf } from '../../../support/test-relay.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';
import { FIRST_ROW } from '../../../../src/relay/store/scan.ts';

const RETENTION_MS = 14 * 86_400_000;
const KNOWN_MS = 2 * RETENTION_MS;

/** Mail of alice for bob and carol, and nothing open any more. */
async function closedRelay(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(alice, bob, carol);
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
  relay.clock.move(1000);
  await relay.pushOne(pushOf(alice, 'm2', [[carol, 'two']]));
  await relay.close();
  return relay;
}

function dedupKey(id: string): Buffer {
  return rowKeyBytes('dedup', rowKey.dedup(alice.key, bob.key, id as ItemId));
}

/** Everything is as the log says, and nothing ended the relay. */
async function expectMended(relay: TestRelay): Promise<void> {
  expect(relay.failures).toEqual([]);
  expect(relay.engine.damagedRows).toEqual([]);
  await expectReplayed(relay.store);
}

async function rebuildAndOpen(relay: TestRelay): Promise<void> {
  await relay.close();
  await rebuilt(relay.folder);
  await relay.open();
}

describe('a push of an item whose dedup row is damaged', () => {
  test.each(Array.from({ length: 12 }, (_none, at) => at * 59))(
    'stores it no second time, whichever bit it is (%i): it is told to come again, and others of the request are taken',
    async (bit) => {
      const relay = await closedRelay();
      await flipValue(relay.folder, dedupKey('m1'), bit);
      await relay.open();
      const before = relay.engine.head(bob.key);
      const outcomes = await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm3', [[carol, 'three']]));
      expect(outcomes.map((outcome) => outcomeOf(outcome).verdict)).toEqual([
        'rejected:target unavailable',
        'accepted',
      ]);
      expect(relay.engine.head(bob.key)).toEqual(before);
      expect(relay.engine.damagedRows).toEqual([{ kind: 'dedup', name: rowName(dedupKey('m1')) }]);
      await rebuildAndOpen(relay);
      expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).toEqual({
        verdict: 'duplicate',
        seqs: [NOON_MS],
      });
      await expectMended(relay);
    },
  );

  test('is the same where two rows lie under each other’s keys', async () => {
    const relay = await enrolledTestRelay(alice, bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[bob, 'two']]));
    await relay.altered(async (level) => {
      const [one, two] = await level.getMany([dedupKey('m1'), dedupKey('m2')]);
      await level.batch().put(dedupKey('m1'), two!).put(dedupKey('m2'), one!).write();
    });
    const outcomes = await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[bob, 'two']]));
    expect(outcomes.map((outcome) => outcomeOf(outcome).verdict)).toEqual([
      'rejected:target unavailable',
      'rejected:target unavailable',
    ]);
    expect(relay.engine.damagedRows).toHaveLength(2);
  });
});

const ADVISED = /^the store at .* is damaged \(.*poste relay log rebuild/;

/** Verify calls it this, where it is no row of a table. */
const CODES: Record<string, string> = {
  heartbeat: 'MARK_DIFFERS',
  collected: 'MARK_DIFFERS',
  expiry: 'DUE_DAMAGED',
  dedupUntil: 'DUE_DAMAGED',
};

function codesOf(key: Buffer): unknown {
  return expect.arrayContaining([CODES[rowKind(key)] ?? 'ROW_DAMAGED']);
}

/** One key of every kind that the store has. */
async function oneOfEach(folder: string): Promise<Buffer[]> {
  const last: Buffer[] = [];
  for (const prefix of ROW_PREFIXES) last.push(...(await keysUnder(folder, prefix)).slice(-1));
  return last;
}

/**
 * Returns who finds it first: the sentence of a start, or what is found by the time that the scrub has seen every row.
 */
async function found(folder: string, clock: TestClock): Promise<{ refusal: string } | { names: string[] }> {
  const relay = new TestRelay(folder, { clock });
  try {
    await relay.open();
    for (let place: Buffer | undefined = FIRST_ROW; place; ) place = await relay.engine.checkRows(place);
    const names = relay.engine.damagedRows.map(({ name }) => name);
    await relay.close();
    return { names };
  } catch (error) {
    // As the relay refuses to start (serve.ts).
    const refused = refusedIfDamaged(error, folder);
    if (!(refused instanceof StoreRefused)) throw error;
    if (refused !== error) await relay.store.close();
    return { refusal: refused.message };
  }
}

/** By whom a flipped bit is found; the one that is looked for, and what is wrong with the answers. */
async function flippedAndFound(
  flip: typeof flipValue,
  key: Buffer,
): Promise<{ name: string; codes: string[]; by: string }> {
  const { folder, header } = await fixtureStore(SCHEMA_VERSION);
  const name = rowName(await flip(folder, key, 77));
  const codes = (await verified(folder)).findings.map(({ code }) => code);
  const byWhom = await found(folder, new TestClock(header.created_at));
  const isNamed =
    'names' in byWhom ? byWhom.names.join() === name : ADVISED.test(byWhom.refusal) && byWhom.refusal.includes(name);
  return { name, codes, by: isNamed ? 'name' : JSON.stringify(byWhom) };
}

/** `npm test` flips a bit either of the value or of the key of a kind, the other one in some other run. */
const BEGUN = Math.floor(Math.random() * 2);
const triedOf = (keys: readonly Buffer[], part: 'value' | 'key'): Buffer[] =>
  keys.filter((_, at) => IS_THOROUGH || at % 2 === (part === 'value' ? BEGUN : 1 - BEGUN));

describe('a flipped bit is found, at the start or by the scrub, and by verify', () => {
  test('of a value', async () => {
    const { folder } = await fixtureStore(SCHEMA_VERSION);
    const keys = await oneOfEach(folder);
    // The mark of a collector is written anew as soon as it collects: see below.
    for (const key of triedOf(keys, 'value').filter(([prefix]) => prefix !== PREFIX.collected))
      expect(await flippedAndFound(flipValue, key)).toMatchObject({ by: 'name', codes: codesOf(key) });
    const kinds = keys.map(rowKind);
    for (const kind of ['relay', 'heartbeat', 'enrolment', 'target', 'share', 'queue', 'dedup', 'dedupUntil'])
      expect(kinds).toContain(kind);
  });

  test('of a key', async () => {
    const { folder } = await fixtureStore(SCHEMA_VERSION);
    for (const key of triedOf(await oneOfEach(folder), 'key').filter(({ length }) => length > 1))
      expect(await flippedAndFound(flipKey, key)).toMatchObject({ by: 'name', codes: codesOf(key) });
  });

  test('of a collector’s mark does no harm: the queue is collected from its beginning', async () => {
    const relay = await closedRelay();
    await relay.open();
    await relay.ack(bob, NOON_MS);
    await relay.close();
    await flipValue(relay.folder, collectedKey(bob.key), 70);
    await relay.open();
    expect((await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]))).verdict).toBe('accepted');
    await relay.ack(bob, relay.engine.head(bob.key).headSeq);
    await relay.close();
    expect(await keysUnder(relay.folder, PREFIX.queue)).toHaveLength(1);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});

describe('where a row is damaged, only what needs it is refused', () => {
  test('a pull of its queue, until the rows are made anew', async () => {
    const relay = await closedRelay();
    await flipValue(relay.folder, queueKey(bob.key, NOON_MS), 100);
    await relay.open();
    await expect(relay.queue(bob)).rejects.toThrow('a queue row does not match its checksum');
    expect(await relay.wires(carol)).toEqual(['two']);
    expect(relay.engine.damagedRows).toEqual([{ kind: 'queue', name: rowName(queueKey(bob.key, NOON_MS)) }]);
    await rebuildAndOpen(relay);
    expect(await relay.wires(bob)).toEqual(['one']);
    await expectMended(relay);
  });

  test('what an entry of due items named, and everything else expires', async () => {
    const relay = await closedRelay();
    const [first] = await keysUnder(relay.folder, PREFIX.expiry);
    await flipValue(relay.folder, first!, 100);
    await relay.open();
    relay.clock.move(RETENTION_MS);
    for (let sweeps = 0; sweeps < 2; sweeps++) await relay.sweep();
    expect(await relay.queue(carol)).toEqual([]);
    expect(await relay.wires(bob)).toEqual(['one']);
    // What waits is known, however long it does.
    relay.clock.move(KNOWN_MS);
    await relay.sweep();
    expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).verdict).toBe('duplicate');
    expect(relay.engine.damagedRows).toEqual([{ kind: 'expiry', name: rowName(first!) }]);
    await rebuildAndOpen(relay);
    await relay.sweep();
    expect(await relay.queue(bob)).toEqual([]);
    await expectMended(relay);
  });

  test.each([
    ['an entry of dedup rows that may go', PREFIX.dedupUntil],
    ['a dedup row', PREFIX.dedup],
    ['the row of a sender', PREFIX.sender],
  ])('what is to be forgotten, by %s, and the relay goes on', async (_what, prefix) => {
    const relay = await closedRelay();
    const [first] = await keysUnder(relay.folder, prefix);
    await flipValue(relay.folder, first!, 50);
    await relay.open();
    relay.clock.move(RETENTION_MS);
    await relay.expire();
    relay.clock.move(KNOWN_MS);
    const { lastLsn } = relay.store;
    // Without the row of its sender the purge is refused, and the sweep goes on to what comes after it.
    await relay.purge().catch((error: unknown) => {
      if (!isRowFault(error)) throw error;
    });
    expect(relay.failures).toEqual([]);
    expect(relay.engine.damagedRows.map(({ kind }) => kind)).toContain(rowKind(first!));
    expect(relay.store.lastLsn - lastLsn).toBeLessThanOrEqual(1);
    await rebuildAndOpen(relay);
    await relay.sweep();
    // What could not expire in time is known for as long from then on.
    relay.clock.move(KNOWN_MS);
    await relay.sweep();
    await relay.close();
    expect(await keysUnder(relay.folder, PREFIX.dedupUntil)).toEqual([]);
    expect((await verified(relay.folder)).findings).toEqual([]);
  });
});
