/** Tests who may lead a shared log, and when the epoch goes on with the next leader. */
import { describe, expect, test } from 'vitest';
import { LEASE_MS, LeaseWatch } from '../../../../src/relay/shared-log/leadership.ts';
import type { Durability } from '../../../../src/relay/shared-log/durability.ts';
import type { LogState } from '../../../../src/relay/shared-log/shared-log.ts';
import { doubtWith, epochsOf, isSettled, lackingDoubt } from '../../../../src/relay/shared-log/doubt.ts';
import { clocked, epochFault, obstacle } from '../../../../src/relay/shared-log/takeover-rules.ts';
import type { LogTree } from '../../../../src/relay/store/log-tree.ts';
import { HEARTBEAT_STALE_MS } from '../../../../src/protocol/limits.ts';

const NOW_MS = 1_000_000_000;
const BEFORE = { systemId: '7', timeline: 1 };
const STATE: LogState = {
  logId: 'log',
  state: 'serving',
  format: 1,
  term: 4,
  tenure: 'the last',
  isFree: false,
  holder: 'one',
  beat: 9,
  beatMs: NOW_MS,
  lastNo: 20,
  lastLsn: 50,
  ackedNo: 20,
  ledOn: BEFORE,
  settings: Buffer.from('{"limits":1}'),
  doubt: undefined,
  wantedBy: undefined,
  prunedNo: 0,
  snapshotNo: 0,
};

type Given = Parameters<typeof epochFault>;

function reasonOf(state: Given[0], server: Given[1], durability: Given[2], proof: Given[3], seenMs = NOW_MS) {
  return epochFault(state, server, durability, proof, seenMs)?.reason;
}

function treeOf(...starts: [lsn: number, epoch: string][]): LogTree {
  const newest = (count: number) => starts.map(([firstLsn, epoch]) => ({ firstLsn, epoch })).slice(-count);
  return { newest } as unknown as LogTree;
}

function doubtOf(no: number, ...starts: [number, string][]): string {
  return lackingDoubt({ no, epochs: epochsOf(treeOf(...starts)) });
}

/** By how much a clock is off that says these times when it asks and when it hears. */
async function offMs(sentMs: number, serverMs: number, heardMs: number): Promise<number> {
  const times = [sentMs, heardMs];
  const clock = { nowMs: () => times.shift() ?? heardMs, monotonicMs: () => 0 };
  return (await clocked(clock, async () => ({ nowMs: serverMs }))).offMs;
}

describe('the epoch of the next leader', () => {
  const proof = { ledLast: 'the last', isWhole: true };
  const none = { ledLast: undefined, isWhole: false };
  const promoted = { systemId: '7', timeline: 2 };
  const restored = { systemId: '8', timeline: 1 };

  test.each<Durability>(['standby', 'storage', 'single'])('goes on where the server is the same, with %s', (kind) => {
    expect(reasonOf(STATE, { ...BEFORE }, kind, none)).toBeUndefined();
    expect(reasonOf({ ...STATE, term: 0 }, promoted, kind, none)).toBeUndefined();
  });

  test.each([promoted, restored])('needs a proof on another server', (server) => {
    expect(reasonOf(STATE, server, 'standby', proof)).toBeUndefined();
    expect(reasonOf(STATE, server, 'standby', { ...proof, isWhole: false })).toBe('log-server-changed');
    expect(reasonOf(STATE, server, 'standby', { ...proof, ledLast: 'one before' })).toBe('log-server-changed');
    expect(reasonOf(STATE, server, 'standby', none)).toBe('log-server-changed');
    expect(reasonOf({ ...STATE, tenure: undefined }, server, 'standby', none)).toBe('log-server-changed');
    expect(reasonOf(STATE, server, 'single', proof)).toBe('log-server-changed');
    expect(reasonOf(STATE, server, 'storage', none)).toBeUndefined();
  });
});

describe('Versioning 5: a heartbeat of a shared log', () => {
  const proof = { ledLast: 'the last', isWhole: true };

  test.each<Durability>(['standby', 'storage', 'single'])('must be recent, with %s', (kind) => {
    const reason = (beatMs: number): string | undefined => reasonOf({ ...STATE, beatMs }, BEFORE, kind, proof);
    expect(reason(NOW_MS - HEARTBEAT_STALE_MS)).toBeUndefined();
    expect(reason(NOW_MS - HEARTBEAT_STALE_MS - 1)).toBe('stale-heartbeat');
    expect(reason(NOW_MS + 60_000)).toBeUndefined();
    expect(reason(NOW_MS + 60_001)).toBe('future-heartbeat');
  });

  test('that was seen while it was recent is not stale, however long the server was away since', () => {
    const watch = new LeaseWatch({ leaseMs: LEASE_MS, monotonicMs: () => 0, holder: 'two', hasLed: () => false });
    watch.isFree(STATE, NOW_MS + 1000);
    watch.isFree(STATE, NOW_MS + 10 * HEARTBEAT_STALE_MS);
    expect(watch.seenMs).toBe(NOW_MS + 1000);
    watch.isFree({ ...STATE, beat: STATE.beat - 1 }, NOW_MS + 10 * HEARTBEAT_STALE_MS);
    expect(watch.seenMs).toBe(NOW_MS + 10 * HEARTBEAT_STALE_MS);
  });
});

describe('a doubt of a node that had seen more', () => {
  test('is answered by an epoch that began where the histories part, and by no other', () => {
    const doubt = doubtOf(9, [1, 'A'], [7, 'B']);
    expect(isSettled(doubt, treeOf([1, 'A'], [7, 'B']))).toBe(false);
    expect(isSettled(doubt, treeOf([1, 'A']))).toBe(false);
    expect(isSettled(doubt, treeOf([1, 'A'], [7, 'C']))).toBe(true);
    expect(isSettled(doubt, treeOf([1, 'A'], [7, 'B'], [8, 'C']))).toBe(true);
    // Older than all that the node knows: the log went back behind them.
    expect(isSettled(doubtOf(9, [7, 'B']), treeOf([1, 'A']))).toBe(false);
    expect(isSettled(doubtOf(9), treeOf([1, 'A']))).toBe(false);
  });

  test('is answered with each of its reasons; what an operator asks for is not', () => {
    const [one, other] = [doubtOf(9, [1, 'A']), doubtOf(8, [1, 'A'], [3, 'B'])];
    const both = doubtWith(one, other) ?? '';
    // As the log has it: who ends a doubt names all of its text.
    for (const known of [one, other, undefined]) expect(doubtWith(both, known)).toBe(both);
    expect(isSettled(both, treeOf([1, 'A'], [3, 'B']))).toBe(false);
    expect(isSettled(both, treeOf([1, 'A'], [3, 'C']))).toBe(true);
    expect(isSettled(doubtWith(one, 'somebody asked for it') ?? '', treeOf([1, 'A'], [3, 'C']))).toBe(false);
  });
});

describe('a candidate', () => {
  const own = { holder: 'two', settings: STATE.settings, acceptsSettings: false, offMs: 0 };

  test('has a clock like that of the server, and settings like those of the last leader', () => {
    expect(obstacle(STATE, own)).toBeUndefined();
    expect(obstacle(STATE, { ...own, offMs: 60_000 })).toBeUndefined();
    expect(obstacle(STATE, { ...own, offMs: 60_001 })).toContain('its clock differs by 60 s');
    const other = { ...own, settings: Buffer.from('{"limits":2,"more":1}') };
    expect(obstacle(STATE, other)).toContain('other settings than one (limits, more)');
    expect(obstacle(STATE, { ...other, holder: 'one' })).toBeUndefined();
    expect(obstacle(STATE, { ...other, acceptsSettings: true })).toBeUndefined();
    expect(obstacle({ ...STATE, settings: Buffer.alloc(0) }, other)).toBeUndefined();
  });

  test('has a clock that is off by what the answer of the server cannot explain', async () => {
    expect([await offMs(10, 10, 10), await offMs(10, 500, 900), await offMs(10, 11, 12)]).toEqual([0, 0, 0]);
    expect([await offMs(3600, 0, 3610), await offMs(0, 3600, 10), await offMs(10, 7200, 3610)]).toEqual([
      3600, 3590, 3590,
    ]);
  });

  test('waits for a whole lease without any sign of life, by its own clock', () => {
    let nowMs = 5_000_000;
    const watch = new LeaseWatch({ leaseMs: LEASE_MS, monotonicMs: () => nowMs, holder: 'two', hasLed: () => false });
    const signs: Partial<LogState>[] = [{}, { beat: 10 }, { lastNo: 21 }, { term: 5 }];
    for (const sign of signs) {
      expect(watch.isFree({ ...STATE, ...sign }, NOW_MS)).toBe(false);
      nowMs += LEASE_MS - 1;
      expect(watch.isFree({ ...STATE, ...sign }, NOW_MS)).toBe(false);
    }
    nowMs += 1;
    expect(watch.isFree({ ...STATE, term: 5 }, NOW_MS)).toBe(true);
  });

  test('does not wait for a lead that was given back, or that is its own', () => {
    const given = { leaseMs: LEASE_MS, monotonicMs: () => 0, hasLed: (tenure: string) => tenure === STATE.tenure };
    expect(new LeaseWatch({ ...given, holder: 'two' }).isFree({ ...STATE, isFree: true }, NOW_MS)).toBe(true);
    expect(new LeaseWatch({ ...given, holder: 'one' }).isFree(STATE, NOW_MS)).toBe(true);
    expect(new LeaseWatch({ ...given, holder: 'one' }).isFree({ ...STATE, tenure: 'of another run' }, NOW_MS)).toBe(
      false,
    );
  });

  test('leaves a lead for a lease to the node that is to have it', () => {
    let nowMs = 0;
    const given = { leaseMs: LEASE_MS, monotonicMs: () => nowMs, hasLed: () => true };
    const wanted = { ...STATE, isFree: true, wantedBy: 'two' };
    expect(new LeaseWatch({ ...given, holder: 'two' }).isFree(wanted, NOW_MS)).toBe(true);
    for (const holder of ['one', 'three']) {
      const watch = new LeaseWatch({ ...given, holder });
      expect(watch.isFree(wanted, NOW_MS)).toBe(false);
      nowMs += LEASE_MS;
      expect(watch.isFree(wanted, NOW_MS)).toBe(true);
    }
  });

  test('refuses to be one of two that have one name', () => {
    const watch = new LeaseWatch({ leaseMs: LEASE_MS, monotonicMs: () => 0, holder: 'one', hasLed: () => false });
    const beats = (beat: number): boolean => watch.isFree({ ...STATE, beat }, NOW_MS);
    // What a process of before had sent may come late.
    for (const beat of [10, 11, 12]) expect(beats(beat)).toBe(false);
    expect(() => beats(13)).toThrow('its store folder was copied');
  });
});
