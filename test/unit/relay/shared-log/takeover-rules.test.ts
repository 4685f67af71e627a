/** Who may lead a shared log, and when the epoch goes on with the next leader. */
import { describe, expect, test } from 'vitest';
import { LEASE_MS, LeaseWatch } from '../../../../src/relay/shared-log/leadership.ts';
import type { Durability } from '../../../../src/relay/shared-log/durability.ts';
import type { LogState } from '../../../../src/relay/shared-log/shared-log.ts';
import { epochFault, obstacle } from '../../../../src/relay/shared-log/takeover-rules.ts';

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

function reasonOf(...given: Parameters<typeof epochFault>): string | undefined {
  return epochFault(...given)?.reason;
}

describe('the epoch of the next leader', () => {
  const proof = { ledLast: 'the last', isWhole: true };
  const none = { ledLast: undefined, isWhole: false };
  const promoted = { systemId: '7', timeline: 2 };
  const restored = { systemId: '8', timeline: 1 };

  test.each<Durability>(['standby', 'storage', 'single'])('goes on where the server is the same, with %s', (kind) => {
    expect(reasonOf(STATE, { ...BEFORE }, kind, none)).toBeUndefined();
    expect(reasonOf({ ...STATE, doubt: 'a batch is missing' }, BEFORE, kind, proof)).toBe('log-in-doubt');
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

describe('a candidate', () => {
  const own = { holder: 'two', settings: STATE.settings, acceptsSettings: false, offMs: 0 };

  test('has a clock like that of the server, and settings like those of the last leader', () => {
    expect(obstacle(STATE, own)).toBeUndefined();
    for (const sign of [1, -1]) {
      expect(obstacle(STATE, { ...own, offMs: sign * 60_000 })).toBeUndefined();
      expect(obstacle(STATE, { ...own, offMs: sign * 60_001 })).toContain('its clock differs by 60 s');
    }
    const other = { ...own, settings: Buffer.from('{"limits":2,"more":1}') };
    expect(obstacle(STATE, other)).toContain('other settings than one (limits, more)');
    expect(obstacle(STATE, { ...other, holder: 'one' })).toBeUndefined();
    expect(obstacle(STATE, { ...other, acceptsSettings: true })).toBeUndefined();
    expect(obstacle({ ...STATE, settings: Buffer.alloc(0) }, other)).toBeUndefined();
  });

  test('waits for a whole lease without any sign of life, by its own clock', () => {
    let nowMs = 5_000_000;
    const watch = new LeaseWatch({ leaseMs: LEASE_MS, monotonicMs: () => nowMs, holder: 'two', hasLed: () => false });
    const signs: Partial<LogState>[] = [{}, { beat: 10 }, { lastNo: 21 }, { term: 5 }];
    for (const sign of signs) {
      expect(watch.isFree({ ...STATE, ...sign })).toBe(false);
      nowMs += LEASE_MS - 1;
      expect(watch.isFree({ ...STATE, ...sign })).toBe(false);
    }
    nowMs += 1;
    expect(watch.isFree({ ...STATE, term: 5 })).toBe(true);
  });

  test('does not wait for a lead that was given back, or that is its own', () => {
    const given = { leaseMs: LEASE_MS, monotonicMs: () => 0, hasLed: (tenure: string) => tenure === STATE.tenure };
    expect(new LeaseWatch({ ...given, holder: 'two' }).isFree({ ...STATE, isFree: true })).toBe(true);
    expect(new LeaseWatch({ ...given, holder: 'one' }).isFree(STATE)).toBe(true);
    expect(new LeaseWatch({ ...given, holder: 'one' }).isFree({ ...STATE, tenure: 'of another run' })).toBe(false);
  });

  test('leaves a lead for a lease to the node that is to have it', () => {
    let nowMs = 0;
    const given = { leaseMs: LEASE_MS, monotonicMs: () => nowMs, hasLed: () => true };
    const wanted = { ...STATE, isFree: true, wantedBy: 'two' };
    expect(new LeaseWatch({ ...given, holder: 'two' }).isFree(wanted)).toBe(true);
    for (const holder of ['one', 'three']) {
      const watch = new LeaseWatch({ ...given, holder });
      expect(watch.isFree(wanted)).toBe(false);
      nowMs += LEASE_MS;
      expect(watch.isFree(wanted)).toBe(true);
    }
  });

  test('refuses to be one of two that have one name', () => {
    const watch = new LeaseWatch({ leaseMs: LEASE_MS, monotonicMs: () => 0, holder: 'one', hasLed: () => false });
    const beats = (beat: number): boolean => watch.isFree({ ...STATE, beat });
    // What a process of before had sent may come late.
    for (const beat of [10, 11, 12]) expect(beats(beat)).toBe(false);
    expect(() => beats(13)).toThrow('its store folder was copied');
  });
});
