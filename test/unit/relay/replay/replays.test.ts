/** `at`, `trace` and `show`, over one life. */
import { beforeAll, afterAll, describe, expect, test } from 'vitest';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';
import { relayRow, sendersRow, targetRow } from '../../../../src/relay/core/decision.ts';
import {
  type StateThen,
  enrolmentsThen,
  lsnAt,
  queueThen,
  sharesThen,
  stateAt,
} from '../../../../src/relay/replay/at.ts';
import { describeEvent, hostsOf } from '../../../../src/relay/core/describe-event.ts';
import {
  chosenEvents,
  type EventChoice,
  eventDocument,
  type TraceChoice,
  trace,
} from '../../../../src/relay/replay/records.ts';
import { type Scratch, openScratch } from '../../../../src/relay/store/scratch.ts';
import { logKey } from '../../../../src/relay/store/keys.ts';
import { type OfflineStore, openOffline } from '../../../../src/relay/replay/offline.ts';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { resultOf } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol, dave } from '../../../support/hosts.ts';
import { carolAfter, liveALife } from '../../../support/life.ts';
import { unpackRecords } from '../../../support/raw-level.ts';
import { disposableFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';

let offline: OfflineStore;
let remove: () => Promise<void>;
let scratch: Scratch | undefined;

beforeAll(async () => {
  const disposable = await disposableFolder();
  ({ remove } = disposable);
  const relay = new TestRelay(disposable.folder, {});
  await relay.open();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  offline = await openOffline(disposable.folder);
});

afterAll(async () => {
  await offline.close();
  await remove();
});

async function then(lsn: number, look: (state: StateThen) => Promise<void>): Promise<void> {
  scratch = await openScratch();
  try {
    await look(await resultOf(stateAt(offline, lsn, scratch)));
  } finally {
    await scratch.close();
  }
}

async function queueAt(state: StateThen, host: TestHost): Promise<string[]> {
  return (await queueThen(state, host.key)).map(({ itemId }) => itemId);
}

/** LSN of the first event of a type. */
async function lsnOfFirst(type: RelayEvent['type']): Promise<number> {
  const [first] = await collected(chosenEvents(offline, { types: new Set([type]), limit: 1 }));
  return first?.lsn ?? 0;
}

describe('the state as it was', () => {
  test('after each record is what the replay of the records before it gives', async () => {
    await then((await lsnOfFirst('ItemsAcked')) - 1, async (state) => {
      expect(await queueAt(state, bob)).toEqual(['m1', 'm2', 'm3']);
      expect(await queueAt(state, carol)).toEqual(['both', 'c1']);
      expect(targetRow(state.rows, bob.key)).toMatchObject({ queueItems: 3, queueBytes: 30, ackedThrough: 0 });
      expect(await sharesThen(state, bob.key)).toEqual([{ senderPubkey: alice.key, usage: { items: 3, bytes: 30 } }]);
      expect(state.rows.get('account', 'acme')).toEqual({ items: 1, bytes: 13 });
      expect(sendersRow(state.rows, bob.key)?.senders).toEqual([alice.key, carol.key].toSorted());
      expect(sendersRow(state.rows, carol.key)).toBeUndefined();
      expect((await enrolmentsThen(state)).every(({ revokedAtMs }) => revokedAtMs === null)).toBe(true);
    });
    await then(await lsnOfFirst('ItemsAcked'), async (state) => {
      expect(await queueAt(state, bob)).toEqual(['m2', 'm3']);
      expect(state.timeMs).toBe(NOON_MS + 1000);
    });
    await then(await lsnOfFirst('ItemsMoved'), async (state) => {
      expect(await queueAt(state, carol)).toEqual([]);
      expect(await queueAt(state, carolAfter)).toEqual(['both', 'c1']);
    });
    await then(offline.store.lastLsn, async (state) => {
      expect(await queueAt(state, bob)).toEqual(['last']);
      expect(state.rows.get('account', 'acme')).toBeUndefined();
      expect(relayRow(state.rows)).toEqual(offline.store.get('relay', ''));
    });
  });

  test('at a time is that of the last record by then', async () => {
    const at = (timeMs: number) => resultOf(lsnAt(offline, timeMs));
    expect(await at(NOON_MS - 1)).toBe(0);
    expect(await at(NOON_MS)).toBe((await lsnOfFirst('ItemAccepted')) - 1);
    expect(await at(NOON_MS + 999)).toBe(await at(NOON_MS));
    expect(await at(NOON_MS + 1000 * DAY_MS)).toBe(offline.store.lastLsn);
  });

  test('of a host that is unknown is empty', async () => {
    await then(3, async (state) => {
      expect(await queueAt(state, dave)).toEqual([]);
      expect(await sharesThen(state, dave.key)).toEqual([]);
      expect(targetRow(state.rows, dave.key).headSeq).toBe(0);
    });
  });
});

describe('the life of an item', () => {
  test('is told to its end, whichever that is', async () => {
    expect(await lives('m1')).toEqual([
      { state: 'acked', targetPubkey: bob.key, steps: ['accepted', 'acked', 'forgotten'] },
    ]);
    expect(await lives('m2')).toMatchObject([{ steps: ['accepted', 'expired', 'noticed', 'forgotten'] }]);
    expect(await lives('m3')).toMatchObject([{ state: 'lost', steps: ['accepted', 'lost'] }]);
    expect(await lives('c1')).toMatchObject([
      { state: 'expired', steps: ['accepted', 'rotated', 'moved', 'expired', 'noticed', 'forgotten'] },
    ]);
    expect(await lives('last')).toMatchObject([
      { state: 'waiting', steps: ['accepted'] },
      { state: 'waiting', steps: ['accepted'] },
    ]);
  });

  test('is one for each target, chosen by sender and target', async () => {
    expect(await lives('both')).toMatchObject([
      { targetPubkey: carol.key },
      { targetPubkey: dave.key, steps: ['accepted', 'target revoked', 'expired', 'noticed', 'forgotten'] },
    ]);
    expect(await lives('both', { targets: new Set([dave.key]) })).toHaveLength(1);
    expect(await lives('both', { senders: new Set([alice.key]) })).toEqual([]);
    expect(await lives('never')).toEqual([]);
  });

  test('says where it was: each seq under each key', async () => {
    const [life] = await resultOf(trace(offline, { itemId: 'c1' }));
    expect(life?.steps[0]).toMatchObject({ targetPubkey: carol.key, seq: NOON_MS + 1001 });
    expect(life?.steps[2]).toMatchObject({
      targetPubkey: carolAfter.key,
      fromSeq: NOON_MS + 1001,
      seq: NOON_MS + 2001,
    });
  });

  test('begins anew when it was forgotten and is accepted again', async () => {
    const relay = await enrolledTestRelay(bob, carol);
    await relay.push(pushOf(alice, 'm1', [[bob, 'x']]));
    relay.clock.move(100 * DAY_MS);
    await relay.sweep();
    relay.clock.move(100 * DAY_MS);
    await relay.purge();
    await relay.push(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.rotate(rotateOf(bob, dave, { iatMs: relay.clock.nowMs }));
    await relay.close();
    const other = await openOffline(relay.folder);
    const [first, second] = await resultOf(trace(other, { itemId: 'm1' }));
    await other.close();
    expect([first?.state, second?.state]).toEqual(['expired', 'waiting']);
    expect(second?.steps.map(({ type }) => type)).toEqual(['accepted', 'rotated', 'moved']);
  });
});

describe('the events', () => {
  test('are chosen by host, item, type, time and place, all of which must be met', async () => {
    expect(await types({})).toHaveLength(offline.store.lastLsn);
    expect(await types({ fromLsn: 3, limit: 2 })).toEqual(['HostEnrolled', 'HostEnrolled']);
    expect(await types({ fromLsn: 1_000 })).toEqual([]);
    expect(await types({ itemId: 'm2' })).toEqual(['ItemAccepted', 'ItemsExpired']);
    expect(await types({ hosts: new Set([dave.key]) })).toEqual([
      'HostEnrolled',
      'ItemAccepted',
      'HostRevoked',
      'ItemsExpired',
    ]);
    const oneSecond = { sinceMs: NOON_MS + 1000, untilMs: NOON_MS + 1999 };
    expect(await types({ ...oneSecond, types: new Set(['ItemAccepted', 'ItemsAcked']) })).toEqual([
      ...Array.from({ length: 5 }, () => 'ItemAccepted'),
      'ItemsAcked',
    ]);
  });

  test('are each told in words and as a document', async () => {
    for (const entry of await collected(chosenEvents(offline, {}))) {
      expect(describeEvent(entry.event).sentence((key) => key)).toMatch(/\S/);
      const document = eventDocument(entry);
      expect(document).toMatchObject({ lsn: entry.lsn, type: entry.event.type, time: expect.any(Number) });
      expect(JSON.stringify(document)).not.toMatch(/"[a-z_]*[A-Z][A-Za-z]*":/);
      for (const key of hostsOf(entry.event)) expect(JSON.stringify(document)).toContain(key);
    }
  });

  test('before a damaged record are shown, and then the damage', async () => {
    const relay = await enrolledTestRelay(bob, carol);
    await relay.atRest(async (level) => {
      await unpackRecords(level);
      await level.del(logKey(2));
    });
    const damaged = await openOffline(relay.folder);
    const seen: number[] = [];
    const shown = (async () => {
      for await (const { lsn } of chosenEvents(damaged, {})) seen.push(lsn);
    })();
    await expect(shown).rejects.toThrow('log record 2 is missing');
    await damaged.close();
    expect(seen).toEqual([1]);
  });
});

async function lives(
  itemId: string,
  choice: Partial<TraceChoice> = {},
): Promise<{ state: string; targetPubkey: string; steps: string[] }[]> {
  const traced = await resultOf(trace(offline, { itemId, ...choice }));
  return traced.map(({ state, targetPubkey, steps }) => ({
    state,
    targetPubkey,
    steps: steps.map(({ type }) => type),
  }));
}

async function types(choice: EventChoice): Promise<string[]> {
  return (await collected(chosenEvents(offline, choice))).map(({ event }) => event.type);
}
