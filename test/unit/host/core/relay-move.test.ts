/** A move from one relay to another: each clause of its rules, in a row, what is known, and what follows. */
import { describe, expect, test } from 'vitest';
import {
  cancelledMove,
  isDoorShut,
  isLeft,
  MOVE_HELD_MS,
  MOVE_QUIET_MS,
  MOVE_STATES,
  MOVE_WRITE_AFTER_MS,
  moveLetter,
  type MoveEffect,
  type MoveFacts,
  type MovePeer,
  newMove,
  type RelayMoveRow,
  stepMove,
} from '../../../../src/host/core/relay-move.ts';
import type { PeerId } from '../../../../src/host/core/rows.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const DAY_MS = 86_400_000;
const OLD = { pubkey: alice.key, url: 'https://old.example' };
const NEW = { pubkey: bob.key, url: 'https://new.example' };

const row = (changes: Partial<RelayMoveRow> = {}): RelayMoveRow => ({
  ...newMove(OLD, NEW, true, NOON_MS),
  ...changes,
});
const BOTH = { state: 'both', namedAtMs: NOON_MS, namedSeq: 7 } as const;
const LEAVING = { state: 'leaving', namedAtMs: NOON_MS, namedSeq: 7, leftSeq: 8 } as const;

const peer = (name: string, knownSeq: number, pairedAtMs = 0): MovePeer => ({
  peerId: name as PeerId,
  pairedAtMs,
  knownSeq,
});

/** So long after the move began. */
const facts = (afterMs: number, changes: Partial<MoveFacts> = {}): MoveFacts => ({
  nowMs: NOON_MS + afterMs,
  momentMs: (atMs) => atMs,
  hasOld: true,
  hasNew: true,
  isNewWell: true,
  document: null,
  peers: [],
  lastItemAtMs: null,
  heldAtOld: 0,
  isShut: false,
  isDrained: false,
  ...changes,
});

interface Clause {
  given: Partial<RelayMoveRow>;
  when: MoveFacts;
  /** What changes in the row; null: it goes. */
  becomes: Partial<RelayMoveRow> | null;
  effects?: MoveEffect['type'][];
  next?: number | null;
}

const CLAUSES: Record<string, Clause> = {
  'adding: a new relay that is not well is waited for': {
    given: {},
    when: facts(DAY_MS, { isNewWell: false }),
    becomes: {},
  },
  'adding: once it is well, the document names it first, before the old one': {
    given: {},
    when: facts(5),
    becomes: { state: 'both', sinceMs: NOON_MS + 5, namedAtMs: NOON_MS + 5 },
    effects: ['PreferNew'],
  },
  'both: a document that does not name the new relay yet tells nobody anything': {
    given: { ...BOTH, namedSeq: null },
    when: facts(5, { document: { seq: 6, relays: [OLD.pubkey] }, peers: [peer('bob', 6)] }),
    becomes: {},
  },
  'both: the first document that names it is the one to be known': {
    given: { ...BOTH, namedSeq: null },
    when: facts(5, { document: { seq: 7, relays: [NEW.pubkey, OLD.pubkey] } }),
    becomes: { namedSeq: 7 },
  },
  'both: a host that did not show it is waited for, at most 7 days': {
    given: BOTH,
    when: facts(5, { peers: [peer('bob', 7), peer('carol', 6)] }),
    becomes: {},
    next: NOON_MS + MOVE_WRITE_AFTER_MS,
  },
  'told: once every host showed this document or a later one': {
    given: BOTH,
    when: facts(5, { peers: [peer('bob', 7), peer('carol', 9)] }),
    becomes: { state: 'told', sinceMs: NOON_MS + 5 },
  },
  'told: at once for a host without paired ones': {
    given: BOTH,
    when: facts(5),
    becomes: { state: 'told', sinceMs: NOON_MS + 5 },
  },
  'both: after 7 days the owners of those who did not are told in words': {
    given: BOTH,
    when: facts(MOVE_WRITE_AFTER_MS, { peers: [peer('bob', 7), peer('carol', 0), peer('dave', 0)] }),
    becomes: { written: ['carol', 'dave'] as PeerId[] },
    effects: ['Write'],
  },
  'both: the 7 days of a host that was paired later begin with the pairing': {
    given: BOTH,
    when: facts(MOVE_WRITE_AFTER_MS, { peers: [peer('carol', 0, NOON_MS + DAY_MS)] }),
    becomes: {},
    next: NOON_MS + MOVE_WRITE_AFTER_MS + DAY_MS,
  },
  'told: who was told in words holds it no longer, and is told once': {
    given: { ...BOTH, written: ['carol'] as PeerId[] },
    when: facts(MOVE_WRITE_AFTER_MS, { peers: [peer('bob', 7), peer('carol', 0)] }),
    becomes: { state: 'told', sinceMs: NOON_MS + MOVE_WRITE_AFTER_MS },
  },
  'leaving: the document names the old relay no more': {
    given: { ...BOTH, state: 'told' },
    when: facts(5),
    becomes: { state: 'leaving', sinceMs: NOON_MS + 5 },
    effects: ['LeaveOld'],
  },
  'leaving: a document that still names the old relay is not the last one': {
    given: { ...LEAVING, leftSeq: null },
    when: facts(MOVE_QUIET_MS, { document: { seq: 7, relays: [NEW.pubkey, OLD.pubkey] } }),
    becomes: {},
  },
  'leaving: the first one without it is': {
    given: { ...LEAVING, leftSeq: null },
    when: facts(5, { document: { seq: 8, relays: [NEW.pubkey] } }),
    becomes: { leftSeq: 8 },
  },
  'leaving: 24 hours without an item are waited for': {
    given: LEAVING,
    when: facts(MOVE_QUIET_MS - 1, { peers: [peer('bob', 8)] }),
    becomes: {},
    next: NOON_MS + MOVE_QUIET_MS,
  },
  'leaving: an item that came at the old relay is noted': {
    given: LEAVING,
    when: facts(MOVE_QUIET_MS, { lastItemAtMs: NOON_MS + 9 }),
    becomes: { lastItemAtMs: NOON_MS + 9 },
  },
  'leaving: the 24 hours begin anew with it, also when its record is gone': {
    given: { ...LEAVING, lastItemAtMs: NOON_MS + 9 },
    when: facts(MOVE_QUIET_MS),
    becomes: {},
    next: NOON_MS + MOVE_QUIET_MS + 9,
  },
  'closing: every host showed the last document, and nothing came for 24 hours': {
    given: LEAVING,
    when: facts(MOVE_QUIET_MS, { peers: [peer('bob', 8)] }),
    becomes: { state: 'closing', sinceMs: NOON_MS + MOVE_QUIET_MS },
    effects: ['ShutOld'],
  },
  'leaving: a message that the old relay alone can say expired holds it': {
    given: LEAVING,
    when: facts(MOVE_QUIET_MS, { heldAtOld: 1 }),
    becomes: {},
  },
  'leaving: a new relay that is not well holds it': {
    given: LEAVING,
    when: facts(MOVE_QUIET_MS, { isNewWell: false }),
    becomes: {},
  },
  'leaving: a host that did not show the last document holds it for 60 days': {
    given: LEAVING,
    when: facts(MOVE_QUIET_MS, { peers: [peer('bob', 7)] }),
    becomes: {},
    next: NOON_MS + MOVE_HELD_MS,
  },
  'leaving: these begin with the last item': {
    given: { ...LEAVING, lastItemAtMs: NOON_MS + DAY_MS, written: ['bob'] as PeerId[] },
    when: facts(MOVE_HELD_MS, { peers: [peer('bob', 0)] }),
    becomes: {},
    next: NOON_MS + MOVE_HELD_MS + DAY_MS,
  },
  'closing: after these 60 days without it': {
    given: { ...LEAVING, written: ['bob'] as PeerId[] },
    when: facts(MOVE_HELD_MS, { peers: [peer('bob', 0)] }),
    becomes: { state: 'closing', sinceMs: NOON_MS + MOVE_HELD_MS },
    effects: ['ShutOld'],
  },
  'leaving: a host that is paired while it is left is told in words after 7 days too': {
    given: LEAVING,
    when: facts(MOVE_WRITE_AFTER_MS, { peers: [peer('bob', 0)] }),
    becomes: { written: ['bob'] as PeerId[] },
    effects: ['Write'],
  },
  'closing: an empty queue says nothing while the door is open': {
    given: { ...LEAVING, state: 'closing' },
    when: facts(5, { isDrained: true }),
    becomes: {},
  },
  'closing: what waits behind the shut door is received first': {
    given: { ...LEAVING, state: 'closing' },
    when: facts(5, { isShut: true }),
    becomes: {},
  },
  'done: the door is shut and the queue was seen empty after that': {
    given: { ...LEAVING, state: 'closing' },
    when: facts(5, { isShut: true, isDrained: true }),
    becomes: { state: 'done', sinceMs: NOON_MS + 5 },
    effects: ['RemoveOld'],
  },
  'done: nothing follows': { given: { state: 'done' }, when: facts(MOVE_HELD_MS, { hasOld: false }), becomes: {} },
  'the owner removed the old relay: done, over the new one': {
    given: {},
    when: facts(5, { hasOld: false, isNewWell: false }),
    becomes: { state: 'done', sinceMs: NOON_MS + 5 },
    effects: ['PreferNew'],
  },
  'the owner removed the new relay: this host stays at the old one, whatever it refused by then': {
    given: { ...LEAVING, state: 'closing' },
    when: facts(5, { hasNew: false, isShut: true, isDrained: true }),
    becomes: null,
    effects: ['StayAtOld'],
  },
};

describe('a move', () => {
  test.each(Object.entries(CLAUSES))('%s', (_name, { given, when, becomes, effects = [], next = null }) => {
    const before = row(given);
    const step = stepMove(before, when);
    expect(step.row).toEqual(becomes && { ...before, ...becomes });
    // A runner steps until nothing changed.
    expect(step.row === before).toBe(becomes !== null && Object.keys(becomes).length === 0);
    expect(step.effects.map(({ type }) => type)).toEqual(effects);
    expect(step.nextMs).toBe(next);
  });

  test('deadlines count the time that passed where the clock jumped', () => {
    const ahead = facts(MOVE_QUIET_MS, { momentMs: (atMs) => atMs + DAY_MS });
    expect(stepMove(row(LEAVING), ahead).nextMs).toBe(NOON_MS + MOVE_QUIET_MS + DAY_MS);
  });
});

function cancelledIn(hasAdded: boolean): ReturnType<typeof cancelledMove>[] {
  return MOVE_STATES.map((state) => cancelledMove(row({ state, hasAdded })));
}

function statesOf(is: typeof isLeft, relay = OLD.pubkey): RelayMoveRow['state'][] {
  return MOVE_STATES.filter((state) => is(row({ state }), relay));
}

test('it can be cancelled until the door is shut; only a relay that nobody was told of goes again', () => {
  expect(cancelledIn(true)).toEqual(['remove-new', 'keep-both', 'keep-both', 'keep-both', undefined, undefined]);
  expect(cancelledIn(false)[0]).toBe('keep-both');
});

test('only the old relay is left, and only in closing it refuses everybody', () => {
  expect(statesOf(isLeft)).toEqual(['leaving', 'closing']);
  expect(statesOf(isDoorShut)).toEqual(['closing']);
  for (const is of [isLeft, isDoorShut]) {
    expect(statesOf(is, NEW.pubkey)).toEqual([]);
    expect(is(undefined, carol.key)).toBe(false);
  }
});

test('the message in words names both addresses, the key, and what to do', () => {
  const { subject, body } = moveLetter(row(), 'studio', "'https://new.example/a;b'");
  expect(subject).toBe('studio takes mail at another relay');
  for (const command of ['add', 'set'])
    expect(body).toContain(`poste relay ${command} 'https://new.example/a;b' --key ${displayFingerprint(NEW.pubkey)}`);
  expect(body).toContain(NEW.url);
  expect(body).toContain(`It leaves ${OLD.url}`);
});
