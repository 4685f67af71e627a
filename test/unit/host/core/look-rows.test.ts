/** Own rows that a relay accepted, and its log, in a look: one test for each rule, named after it. */
import { expect, test } from 'vitest';
import type { RowToProve } from '../../../../src/host/core/relay-trust.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { encodeRecord } from '../../../../src/relay/store/record.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { SmallLog } from '../../../support/small-log.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type Otherwise, REFUSED, given, keptOf, knowing, shown } from '../../../support/trust/given-look.ts';

const [E1, E2] = [epochNumbered(1), epochNumbered(2)];
const M1 = 'm1' as ItemId;
const DAY_MS = 86_400_000;

function recordOf(itemId: ItemId, seq = 7, wire = 'wire'): Buffer {
  const target = { hostPubkey: bob.key, seq, wireHash: sha256Hex(wire), bytes: 4 };
  const times = { acceptedAtMs: NOON_MS, expiresAtMs: NOON_MS + DAY_MS, dedupUntilMs: NOON_MS + 2 * DAY_MS };
  const item = { senderPubkey: alice.key, itemId, kind: 'envelope' as const };
  return encodeRecord({ lsn: 2, event: { type: 'ItemAccepted', ...item, targets: [target], ...times } });
}

const log = new SmallLog(E1).append('a', recordOf(M1), 'b');
const ROW: RowToProve = {
  rowId: 1,
  itemId: M1,
  target: bob.key,
  acceptedAtMs: NOON_MS,
  epoch: E1,
  proven: null,
  denied: null,
  wireHash: sha256Hex('wire'),
  seq: 7,
};

/** Proves leaf `index` of a log: in so many leaves as are asked for, or in all of them. */
function proving(of: SmallLog, index: number): Otherwise {
  return (question) => {
    if (question.ask !== 'proof') return undefined;
    const { size = of.size } = question;
    return size > of.size || index >= size ? REFUSED : { type: 'answer', document: of.leafAt(index, size) };
  };
}

function withRow(changes: Partial<RowToProve> = {}, of = log) {
  return given({ ...knowing(keptOf(of)), rows: [{ ...ROW, ...changes }] });
}

test('a row is proven in the newest head', () => {
  const looked = withRow().when(shown(log), proving(log, 2));
  expect(looked.questions.at(-1)).toEqual({ ask: 'proof', itemId: M1, target: bob.key, size: 4 });
  expect(looked.outcome).toMatchObject({ rows: [{ rowId: 1, proven: { epoch: E1, size: 4 } }], isOwed: false });
});

test('a relay of before proves it in its own head, which the newest one is joined to', () => {
  const grown = log.copy().append('c');
  const looked = withRow().when(shown(log), (question) => {
    if (question.ask === 'consistency') return { type: 'answer', document: grown.consistency(4, 5) };
    return question.ask === 'proof' ? { type: 'answer', document: grown.leafAt(2) } : undefined;
  });
  expect(looked.outcome.rows).toEqual([{ rowId: 1, proven: { epoch: E1, size: 5 } }]);
});

test('an item that the relay had already is proven under the end of an earlier epoch', () => {
  const second = log.next(E2);
  const looked = withRow({ epoch: E2 }, second).when(shown(log, second), proving(log, 2));
  expect(looked.outcome.rows).toEqual([{ rowId: 1, proven: { epoch: E1, size: 4 } }]);
  expect(looked.asked).toContain('link');
});

test.each<[string, SmallLog, number]>([
  ['of another item', new SmallLog(E1).append('a', recordOf('m2' as ItemId), 'b'), 2],
  ['of other bytes', new SmallLog(E1).append('a', recordOf(M1, 7, 'other'), 'b'), 2],
  ['under another number', new SmallLog(E1).append('a', recordOf(M1, 8), 'b'), 2],
  ['that is no record', log, 1],
])('a leaf %s is no proof: the row is denied', (_which, of, index) => {
  const looked = withRow({}, of).when(shown(of), proving(of, index));
  expect(looked.outcome.rows).toEqual([{ rowId: 1, denied: { times: 1, atMs: NOON_MS } }]);
});

test('a proof in a tree that the newest head does not commit to is none', () => {
  const fork = log.copy(3).append('B', 'C');
  expect(withRow().when(shown(log), proving(fork, 2)).outcome.rows).toMatchObject([{ denied: { times: 1 } }]);
  const second = log.next(E2);
  const ofEnded = withRow({ epoch: E1 }, second).when(shown(log, second), proving(fork, 2));
  expect(ofEnded.outcome.rows).toMatchObject([{ denied: { times: 1 } }]);
});

test('what was accepted before the newest head was signed, and is behind it, is withheld from it', () => {
  const grown = new SmallLog(E1).append('a', 'b', 'c', recordOf(M1));
  const frozen = grown.copy(4);
  const looked = withRow({}, frozen).when(shown(frozen), (question) => {
    if (question.ask === 'consistency') return { type: 'answer', document: grown.consistency(4, 5) };
    return proving(grown, 4)(question);
  });
  expect(looked.outcome.rows).toMatchObject([{ denied: { times: 1 } }]);
});

test('a denied row is pushed again, asked about after ten minutes, and not in the log at the third time', () => {
  const first = withRow().when(shown(log));
  expect(first.outcome).toMatchObject({ rows: [{ denied: { times: 1, atMs: NOON_MS } }], isOwed: true, evidence: [] });
  const asked = (times: number, minutes: number) => {
    const rows = [{ ...ROW, denied: { times, atMs: NOON_MS } }];
    return first.later(minutes, { rows }).when(shown(log));
  };
  expect(asked(1, 5).outcome.rows).toEqual([]);
  expect(asked(1, 10).outcome).toMatchObject({ rows: [{ denied: { times: 2 } }], evidence: [] });
  const third = asked(2, 10);
  expect(third.words).toEqual(['not-in-log']);
  expect(third.outcome.evidence[0]).toMatchObject({ epoch: E1, item: { itemId: M1, rowId: 1 } });
  expect(asked(3, 60).outcome.rows).toEqual([]);
  const daily = asked(3, 24 * 60);
  expect([daily.words, daily.outcome.rows]).toMatchObject([[], [{ denied: { times: 4 } }]]);
});

test('two rows that one head leaves out are two pieces of evidence', () => {
  const denied = { times: 2, atMs: NOON_MS };
  const rows = [
    { ...ROW, denied },
    { ...ROW, rowId: 2, itemId: 'm2' as ItemId, denied },
  ];
  const looked = withRow().when(shown(log)).later(10, { rows }).when(shown(log));
  expect(new Set(looked.outcome.evidence.map(({ digest }) => digest)).size).toBe(2);
});

const pruned: Otherwise = ({ ask }) =>
  ask === 'proof' ? { type: 'refused', status: 404, code: 'RECORD_PRUNED' } : undefined;

test('a record that was pruned is no denial, unless it is younger than a day', () => {
  const { outcome } = withRow({ acceptedAtMs: NOON_MS - DAY_MS }).when(shown(log), pruned);
  expect([outcome.rows, outcome.isOwed]).toEqual([[{ rowId: 1 }], false]);
  expect(withRow().when(shown(log), pruned).outcome.rows).toMatchObject([{ denied: { times: 1 } }]);
});

test('a row that is proven already is not asked about', () => {
  expect(withRow({ proven: { epoch: E1, size: 4 } }).when(shown(log)).asked).not.toContain('proof');
});
