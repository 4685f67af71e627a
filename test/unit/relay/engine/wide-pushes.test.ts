/** Items whose sender and targets had so many keys between them that what is known of them is looked for before. */
import { expect, test } from 'vitest';
import { KNOWN_ROWS_ASKED_MAX, type KnownKeys, knownKeys } from '../../../../src/relay/core/decide-push.ts';
import type { PushItem } from '../../../../src/relay/core/command.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, hostNamed } from '../../../support/hosts.ts';
import { type TestRelay, openTestRelay, outcomeOf } from '../../../support/test-relay.ts';

const senderAt = (turn: number): TestHost => hostNamed(`wide sender ${turn}`);
const sender = senderAt(63);
const first = Array.from({ length: 64 }, (_none, at) => hostNamed(`wide target ${at}`));
/** Two of the targets have rotated. */
const anew = [hostNamed('wide target 0 anew'), hostNamed('wide target 1 anew')];
const targets = [...anew, ...first.slice(2)];

function itemFor(hosts: readonly TestHost[], from: TestHost, id: string, text = 'x'): PushItem {
  return pushOf(
    from,
    id,
    hosts.map((host) => [host, text] as const),
  );
}

/**
 * Every key of the sender keeps rows, so that there are 64 × 66 places; `old` was pushed when all had their first key.
 */
async function relayOfManyKeys(): Promise<{ relay: TestRelay; seqs: number[] }> {
  let ticks = 0;
  // Each look at the clock is a millisecond: a search pauses all the time, and others come in between.
  const relay = await openTestRelay({ monotonicMs: () => ++ticks, hosts: [senderAt(0), alice, ...first] });
  const { seqs } = await relay.pushOne(itemFor(first, senderAt(0), 'old'));
  for (let turn = 0; turn < 63; turn++) {
    await relay.pushOne(itemFor([alice], senderAt(turn), `own ${turn}`));
    await relay.rotate(rotateOf(senderAt(turn), senderAt(turn + 1)));
  }
  await relay.pushOne(itemFor([alice], sender, 'own 63'));
  for (const [at, key] of anew.entries()) await relay.rotate(rotateOf(first[at] ?? alice, key));
  return { relay, seqs };
}

function keysOf({ store, settings }: TestRelay, id: string, hosts: readonly TestHost[] = targets): KnownKeys {
  return knownKeys(itemFor(hosts, sender, id), store, settings, (...keys) => store.knownPairs(...keys));
}

async function countOf(relay: TestRelay, host: TestHost, id: string): Promise<number> {
  return (await relay.queue(host)).filter(({ itemId }) => itemId === id).length;
}

test('since the start of the relay, only the pairs of keys under which an item may be known are asked', async () => {
  const { relay, seqs } = await relayOfManyKeys();
  const askedFor = (id: string): number => keysOf(relay, id).asked;
  expect([askedFor('old'), askedFor('new')]).toEqual([64, 0]);
  expect(await relay.pushOne(itemFor(targets, sender, 'old'))).toEqual({ verdict: 'duplicate', seqs });
  const once = relay.push(itemFor(targets, sender, 'new'), itemFor(targets, sender, 'new', 'y'));
  // Known from the moment at which it is admitted, before it is durable.
  expect((await once).map((outcome) => outcomeOf(outcome).verdict)).toEqual(['accepted', 'rejected:conflict']);
  expect(askedFor('new')).toBe(64);
});

test('are decided as others, whatever comes in between', async () => {
  const { relay, seqs } = await relayOfManyKeys();
  // Of rows from before the start it is known whose they are, and no more.
  await relay.reopen();
  const { asked } = keysOf(relay, 'old');
  expect(asked).toBe(64 * 66);
  expect(asked).toBeGreaterThan(KNOWN_ROWS_ASKED_MAX);

  // What was pushed under the first keys is known.
  expect(await relay.pushOne(itemFor(targets, sender, 'old'))).toEqual({ verdict: 'duplicate', seqs });
  expect((await relay.pushOne(itemFor(targets, sender, 'old', 'y'))).verdict).toBe('rejected:conflict');

  // The same id from several sides at once is stored once.
  const [one, other, narrow] = await Promise.all([
    relay.pushOne(itemFor(targets, sender, 'm1')),
    relay.pushOne(itemFor(targets, sender, 'm1')),
    relay.pushOne(itemFor(targets.slice(3, 5), sender, 'm1')),
  ]);
  expect([one.verdict, other.verdict].toSorted((a, b) => a.localeCompare(b))).toEqual(['accepted', 'duplicate']);
  expect(['accepted', 'duplicate']).toContain(narrow.verdict);
  expect(one.seqs).toEqual(other.seqs);
  for (const host of targets) expect(await countOf(relay, host, 'm1')).toBe(1);

  // One request asks for so many places, and what is left of it is pushed in another.
  const twice = [...targets.slice(1), first[9] ?? alice];
  const many = ['r1', 'r2', 'r3'].map((id) => itemFor(targets, sender, id));
  const verdicts = (await relay.push(itemFor(twice, sender, 'r0'), ...many)).map(
    (outcome) => outcomeOf(outcome).verdict,
  );
  expect(verdicts).toEqual(['rejected:duplicate target', 'accepted', 'accepted', 'rejected:quota:places']);
  expect(keysOf(relay, 'r0', twice).asked).toBe(0);
  expect((await relay.push(...many.toReversed())).map((outcome) => outcomeOf(outcome).verdict)).toEqual([
    'accepted',
    'duplicate',
    'rejected:quota:places',
  ]);

  // The ack has the index of the queue read, so that the rotation is decided while the search runs.
  await relay.ack(targets[9] ?? alice, 1);
  // Others are served meanwhile, and a target that rotates in the middle is told of.
  const [late, small, rotated] = await Promise.all([
    relay.pushOne(itemFor(targets, sender, 'm2')),
    relay.push(itemFor([alice], sender, 'small')),
    relay.rotate(rotateOf(targets[9] ?? alice, hostNamed('wide target 9 anew'))),
  ]);
  expect([late.verdict, outcomeOf(small[0]).verdict]).toEqual(['rejected:target revoked', 'accepted']);
  expect(rotated).toMatchObject({ type: 'KeyRotated' });
  const present = targets.map((host, at) => (at === 9 ? hostNamed('wide target 9 anew') : host));
  expect((await relay.pushOne(itemFor(present, sender, 'm2'))).verdict).toBe('accepted');
  for (const host of present) expect(await countOf(relay, host, 'm2')).toBe(1);
  expect(await relay.pushOne(itemFor(present, sender, 'old'))).toEqual({ verdict: 'duplicate', seqs });
  expect(relay.failures).toEqual([]);
});
