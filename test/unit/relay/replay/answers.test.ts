/** How the rehearsals of two versions are compared. */
import { describe, expect, test } from 'vitest';
import {
  type Answer,
  answerOf,
  compareRehearsals,
  parseRehearsal,
  type Rehearsal,
} from '../../../../src/relay/replay/answers.ts';

function rehearsal(...answers: Answer[]): Rehearsal {
  const log = { relay_pubkey: 'key', epoch: 'epoch', lsn: 9, tree_size: 4, root_hash: 'root' };
  return { rehearsed: true, version: '1', ...log, answers };
}

const compared = (newer: Answer, older: Answer) => compareRehearsals(rehearsal(newer), rehearsal(older));

/** Two members deep, as pages and `info` are. */
const page = (...items: unknown[]): Answer => answerOf('/items', 200, { items, you: { seq: 1 } });

describe('an answer', () => {
  test('of two rehearsals is one, whatever key they had and in whatever order its members come', () => {
    const one = answerOf('/info', 200, { relay_pubkey: 'a', version: '1', you: { head_seq: 1, pubkey: 'k' } });
    const other = answerOf('/info', 200, { you: { pubkey: 'k', head_seq: 1 }, version: '2', relay_pubkey: 'b' });
    expect(one).toEqual(other);
    expect(Object.keys(one.members).toSorted()).toEqual(['you.head_seq', 'you.pubkey']);
  });

  test('that is no document is known by its bytes', () => {
    expect(answerOf('/items', 200, Buffer.from('a')).members).not.toEqual(
      answerOf('/items', 200, Buffer.from('b')).members,
    );
  });
});

describe('two versions', () => {
  const before = answerOf('/items', 200, { items: [1], more: false });

  test.each<[string, Answer, string[], string[]]>([
    ['the same', before, [], []],
    ['another value', answerOf('/items', 200, { items: [2], more: false }), ['/items: items[] is another'], []],
    ['a member less', answerOf('/items', 200, { items: [1] }), ['/items: more is not answered any more'], []],
    ['a member more', answerOf('/items', 200, { items: [1], more: false, new: 1 }), [], ['new']],
    [
      'another status',
      answerOf('/items', 404, { items: [1], more: false }),
      ['/items: answered with 404, and before with 200'],
      [],
    ],
    [
      'another question',
      answerOf('/other', 200, {}),
      ['/items: only the older version came to ask it', '/other: only the newer version came to ask it'],
      [],
    ],
  ])('%s', (_what, newer, differences, added) => {
    expect(compared(newer, before)).toEqual({ differences, added });
  });

  const item = { seq: 1, wire: Buffer.from('a') };

  test.each<[string, Answer, string[], string[]]>([
    ['a member more, in some element', page(item, { ...item, new: 1 }), [], ['items[].new']],
    ['a member less, in some element', page(item, { seq: 1 }), ['/items: items[].wire is another'], []],
    ['other bytes', page(item, { ...item, wire: Buffer.from('b') }), ['/items: items[].wire is another'], []],
    ['elements in another order', page({ ...item, seq: 2 }, item), ['/items: items[].seq is another'], []],
    [
      'an element less',
      page(item),
      ['/items: items is another', '/items: items[].seq is another', '/items: items[].wire is another'],
      [],
    ],
    [
      'a list in the place of a member',
      answerOf('/items', 200, { items: [item, item], you: [] }),
      ['/items: you.seq is not answered any more'],
      ['you'],
    ],
  ])('with %s', (_what, newer, differences, added) => {
    expect(compared(newer, page(item, item))).toEqual({ differences, added });
  });

  test('that verify another tree are not the same', () => {
    const older = { ...rehearsal(before), root_hash: 'other' };
    expect(compareRehearsals(rehearsal(before), older).differences).toEqual([
      'the versions verified another root_hash of the log',
    ]);
  });
});

test('a document with members that are not known is read, and one that lacks some is not', () => {
  const { lsn: _lsn, ...partial } = rehearsal();
  expect(parseRehearsal({ ...rehearsal(), later: 1 })).toBeDefined();
  expect(parseRehearsal(partial)).toBeUndefined();
});
