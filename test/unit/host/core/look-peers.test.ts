/** Notes of peers, held against the newest head in a look: one test for each rule, named after it. */
import { expect, test } from 'vitest';
import type { PendingNote } from '../../../../src/host/core/relay-trust.ts';
import type { PeerId } from '../../../../src/host/core/rows.ts';
import { makeKnew, noteHash } from '../../../../src/protocol/seen.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { SmallLog } from '../../../support/small-log.ts';
import {
  NEW_EPOCH,
  type Otherwise,
  given,
  keptOf,
  knowing,
  randomBytes,
  refusing,
  shown,
} from '../../../support/trust/given-look.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const [E1, E2] = [epochNumbered(1), epochNumbered(2)];
const log = new SmallLog(E1).append('a', 'b', 'c', 'd');
const grown = log.copy().append('e');
const fork = log.copy(3).append('C', 'D');
const BOB = 'bob' as PeerId;

function heard(of: SmallLog, size = of.size, knew?: Buffer): PendingNote {
  const note = of.note(size, knew);
  return { peerId: BOB, epoch: of.epoch, note, knew: knew?.toString('base64') ?? null, atMs: NOON_MS };
}

function waiting(pending: PendingNote, ...kept: Parameters<typeof knowing>) {
  return given({ ...knowing(...kept), pending: [pending] });
}

test('same epoch and not larger: joined to the newest head, and over', () => {
  const pending = heard(log, 4);
  const looked = waiting(pending, keptOf(log)).when(shown(log));
  expect(looked.outcome).toMatchObject({ pendingOver: [pending], evidence: [], isOwed: false });
});

test('same epoch and another root: a fork, by the head of its size', () => {
  const looked = waiting(heard(fork, 4), keptOf(log)).when(shown(log));
  expect(looked.words).toEqual(['fork!']);
  expect(looked.outcome.evidence[0]?.notes).toEqual([
    { note: fork.note(4), knew: null, peerId: BOB },
    { note: log.note(4), knew: null, peerId: null },
  ]);
  expect(looked.outcome).toMatchObject({ pendingOver: [{}], pushAgain: false });
});

test('same epoch, and neither proof nor head of its size: unproven at the third look', () => {
  const liar = { ...shown(log), otherwise: refusing('consistency', 'headAt') };
  const second = waiting(heard(fork, 4), keptOf(log)).when(liar).later(10).when(liar);
  expect([second.words, second.outcome.pendingOver, second.outcome.isOwed]).toEqual([[], [], true]);
  const third = second.later(10).when(liar);
  expect([third.words, third.outcome.pendingOver.length]).toEqual([['unproven'], 1]);
  expect(third.trust.refused).toEqual({});
});

test('larger, and consistency to it is answered: this host is behind, and nothing is said', () => {
  const knowsIt: Otherwise = ({ ask }) =>
    ask === 'consistency' ? { type: 'answer', document: grown.consistency(5, 6) } : undefined;
  const old = { ...shown(log), givesAfter: false };
  const state = { ...knowing(keptOf(log)), pending: [heard(grown)] };
  let looked = given({ ...state, trust: { ...state.trust, givesAfter: false } }).when(old, knowsIt);
  for (let nth = 0; nth < 4; nth++) looked = looked.later(10).when(old, knowsIt);
  expect([looked.words, looked.outcome.pendingOver, looked.outcome.isOwed]).toEqual([[], [], true]);
  expect(looked.later(10).when(shown(grown)).outcome).toMatchObject({ pendingOver: [{}], evidence: [] });
});

test('larger, and three smaller heads were signed after it: withheld, though consistency is answered', () => {
  const frozen: Otherwise = ({ ask }) =>
    ask === 'consistency' ? { type: 'answer', document: grown.consistency(5, 6) } : undefined;
  const second = waiting(heard(grown), keptOf(log)).when(shown(log), frozen).later(10).when(shown(log), frozen);
  expect(second.words).toEqual([]);
  expect(second.later(10).when(shown(log), frozen).words).toEqual(['withheld!']);
});

test('larger, the newest head was signed after it, and no proof leads there: withheld, and shown to the relay', () => {
  const looked = waiting(heard(grown), keptOf(log)).when(shown(log));
  expect(looked.words).toEqual(['withheld!']);
  expect(looked.questions.find(({ ask }) => ask === 'show')).toMatchObject({ note: grown.note() });
  expect(looked.outcome.evidence[0]?.notes).toMatchObject([{ peerId: BOB }, { peerId: null }]);
});

const begins: Otherwise = ({ ask }) => (ask === 'show' ? NEW_EPOCH : undefined);

test('when the relay begins a new epoch because of it nothing is said', () => {
  const looked = waiting(heard(grown), keptOf(log)).when(shown(log), begins);
  expect([looked.words, looked.outcome.isSoon, looked.outcome.pendingOver]).toEqual([[], true, []]);
  const next = looked.later(1).when(shown(log, log.next(E2)));
  expect([next.words, next.trust.current]).toEqual([[], E2]);
  expect(looked.later(1).when(shown(log), begins).words).toEqual(['withheld!']);
});

test('without `after` it is testimony: said at the third look', () => {
  const state = { ...knowing(keptOf(log)), pending: [heard(grown)] };
  const before = { ...shown(log), givesAfter: false };
  const second = given({ ...state, trust: { ...state.trust, givesAfter: false } })
    .when(before)
    .later(10)
    .when(before);
  expect(second.words).toEqual([]);
  expect(second.later(10).when(before).words).toEqual(['withheld']);
});

test('an epoch that ended: joined to the end that the newest head commits to', () => {
  const second = log.next(E2);
  const looked = waiting(heard(log, 4), keptOf(second)).when(shown(log, second));
  expect(looked.outcome).toMatchObject({ pendingOver: [{}], evidence: [], isOwed: false });
  const forked = waiting(heard(fork, 5), keptOf(second)).when(shown(log, second));
  expect(forked.words).toEqual(['fork!']);
  expect(forked.outcome.evidence[0]?.proof).toEqual([second.leafAt(0)]);
});

test.each<[string, SmallLog]>([
  ['beyond the end of its epoch', grown],
  ['of an epoch that is not in the chain', new SmallLog(epochNumbered(9)).append('x')],
])('a note %s says nothing, and the relay is asked to sign that it goes on after it', (_which, of) => {
  const second = log.next(E2);
  const pending = heard(of);
  const looked = waiting(pending, keptOf(second)).when(shown(log, second));
  expect(looked.outcome).toMatchObject({ pendingOver: [pending], evidence: [] });
  expect(looked.knew).toContain(noteHash(pending.note));
  const later = looked.later(10).when(shown(log, second));
  expect(later.knew).toContain(noteHash(pending.note));
});

const second = log.next(E2);
const mine = keptOf(second);
const knew = makeKnew([noteHash(mine.note)], randomBytes);

test('two epochs: each says that it is younger than the other', () => {
  const looked = waiting(heard(log, 5, knew), mine).when(shown(log, second));
  expect(looked.words).toEqual(['two-epochs!']);
  expect(looked.outcome.evidence[0]?.notes).toMatchObject([
    { note: log.note(5, knew), knew: knew.toString('base64'), peerId: BOB },
    { note: looked.newest?.note, peerId: null },
    { note: mine.note, peerId: null },
  ]);
  expect(looked.questions.find(({ ask }) => ask === 'show')).toMatchObject({ older: mine.note });
});

test('two epochs: a note that the relay did not sign after an own one of the present epoch is none of them', () => {
  const other = makeKnew([noteHash(keptOf(log).note)], randomBytes);
  expect(waiting(heard(log, 5, other), mine).when(shown(log, second)).words).toEqual([]);
  expect(waiting(heard(log, 5), mine).when(shown(log, second)).words).toEqual([]);
});

test('two epochs: a relay that went on to the epoch of the peer signed both in order', () => {
  const third = second.next(epochNumbered(3));
  const looked = waiting(heard(third, 1, knew), mine).when(shown(log, second, third));
  expect([looked.words, looked.trust.current, looked.outcome.pendingOver.length]).toEqual([[], third.epoch, 1]);
});
