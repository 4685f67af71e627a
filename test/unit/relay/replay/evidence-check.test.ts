import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { noteText, signCheckpoint, signNote } from '../../../../src/protocol/checkpoint.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { afterOf, makeKnew } from '../../../../src/protocol/seen.ts';
import { checkEvidence } from '../../../../src/relay/replay/evidence-check.ts';
import { NotVerified } from '../../../../src/relay/replay/proof-check.ts';
import { type EvidenceDocument, oracleVerdict } from '../../../support/evidence-oracle.ts';
import { alice, relay } from '../../../support/hosts.ts';
import { evidenceOf, type Signed, SignedLog } from '../../../support/signed-log.ts';
import { share } from '../../../support/thorough.ts';

function verdictOf(document: EvidenceDocument): string {
  const { verdict } = checkEvidence(document, relay.key);
  expect(oracleVerdict(document, relay.key)).toBe(verdict);
  return verdict;
}

function findingsOf(document: EvidenceDocument): string[] {
  return checkEvidence(document, relay.key).findings;
}

function cosigned(one: Signed): Signed {
  const [, line] = signNote(noteText(one.note), 'witness.example', alice.signer).split('\n\n');
  return { ...one, note: `${one.note}${line}` };
}

/** An epoch of five leaves, and a copy of its first three that went on by itself. */
function forked(): { main: SignedLog; other: SignedLog } {
  const main = SignedLog.begin(1).grow('a', 'b', 'c', 'd');
  return { main, other: main.copy(3).grow('x', 'y') };
}

describe('notes contradict each other', () => {
  test('with one origin and size and two roots', () => {
    const { main, other } = forked();
    const document = evidenceOf([main.sign(), other.sign()]);
    expect(verdictOf(document)).toBe('contradict');
    expect(findingsOf(document)).toEqual([
      expect.stringMatching(
        /^The relay signed two roots for the first 5 leaves of epoch \w+: \w{64} in note 1, \w{64} in note 2\.$/,
      ),
    ]);
  });

  test('with another root than the link of the next epoch names for the end of theirs', () => {
    const { main, other } = forked();
    const next = SignedLog.begin(2, other).grow('z');
    const document = evidenceOf([main.sign(), next.sign()], [next.link()]);
    expect(verdictOf(document)).toBe('contradict');
    expect(findingsOf(document)[0]).toContain('in the link of proof 1');
    expect(verdictOf(evidenceOf([main.sign(), next.sign()]))).toBe('cannot-tell');
  });

  test('with two first leaves of one epoch, whatever their sizes', () => {
    const { main, other } = forked();
    const [one, two] = [SignedLog.begin(2, main).grow('z'), SignedLog.begin(2, other)];
    expect(verdictOf(evidenceOf([one.sign(), two.sign()], [one.link(), two.link()]))).toBe('contradict');
  });

  test('when the smaller one was signed after the larger one', () => {
    const { main } = forked();
    const larger = main.sign();
    const smaller = main.sign({ size: 3, after: [larger] });
    const document = evidenceOf([larger, smaller], [main.consistency(3)]);
    expect(verdictOf(document)).toBe('contradict');
    expect(findingsOf(document)).toEqual([
      expect.stringMatching(
        /^The relay signed 3 leaves of epoch \w+ \(note 2\) as its newest after the 5 leaves of note 1: a log does not/,
      ),
    ]);
  });

  test('when each of two epochs was signed as the newest after the other', () => {
    const { main } = forked();
    const mine = main.sign();
    const other = SignedLog.begin(2).sign({ after: [mine] });
    const document = evidenceOf([mine, other, main.grow('e').sign({ after: [other] })]);
    expect(verdictOf(document)).toBe('contradict');
    expect(findingsOf(document)[0]).toMatch(
      /^The relay signed note 2 of epoch \w+ as its newest after note 1 of epoch \w+, and after that note 3 of the/,
    );
  });

  test('when an epoch is the newest again after two others, one signed after the other', () => {
    const { main } = forked();
    const mine = main.sign();
    const second = SignedLog.begin(2).sign({ after: [mine] });
    const third = SignedLog.begin(3).sign({ after: [second] });
    const notes = [mine, second, third, main.sign({ after: [third] })];
    expect(verdictOf(evidenceOf(notes))).toBe('contradict');
    expect(verdictOf(evidenceOf(notes.toSpliced(1, 1)))).toBe('cannot-tell');
  });

  test('when an epoch that a later link ended is the newest again', () => {
    const { main } = forked();
    const [next, third] = [SignedLog.begin(2, main), SignedLog.begin(3, SignedLog.begin(2, main))];
    const later = third.sign({ after: [] });
    const again = main.sign({ after: [later] });
    const document = evidenceOf([later, again], [third.link(), next.link()]);
    expect(verdictOf(document)).toBe('contradict');
    expect(findingsOf(document)[0]).toMatch(/^The relay signed note 2 of epoch \w+, which had ended before epoch/);
    expect(verdictOf(evidenceOf([later, again], [third.link()]))).toBe('cannot-tell');
  });

  test('whatever signatures of others are below them, and whatever was put beside them', () => {
    const { main, other } = forked();
    expect(verdictOf(evidenceOf([cosigned(main.sign()), other.sign()]))).toBe('contradict');
    const larger = main.sign();
    expect(verdictOf(evidenceOf([cosigned(larger), main.sign({ size: 3, after: [larger] })]))).toBe('contradict');
    const document = { ...evidenceOf([main.sign(), other.sign()]), kind: 'withheld', more: 1 };
    expect(verdictOf(document)).toBe('contradict');
  });
});

describe('notes of one history', () => {
  test('agree when proofs join them, within an epoch and over its end', () => {
    const { main } = forked();
    const next = SignedLog.begin(2, main).grow('z', 'q');
    const notes = [main.sign({ size: 2 }), main.sign({ size: 4 }), next.sign()];
    const joined = [main.consistency(2, 4), main.consistency(4), next.link()];
    expect(verdictOf(evidenceOf(notes, joined))).toBe('agree');
    expect(findingsOf(evidenceOf(notes, joined))).toEqual([]);
    for (const left of joined.keys())
      expect(verdictOf(evidenceOf(notes, joined.toSpliced(left, 1)))).toBe('cannot-tell');
  });

  test('agree when they are of one head, and say nothing alone', () => {
    const { main } = forked();
    expect(verdictOf(evidenceOf([main.sign(), main.sign({ after: [] })]))).toBe('agree');
    expect(verdictOf(evidenceOf([main.sign()]))).toBe('cannot-tell');
    expect(verdictOf(evidenceOf([main.sign(), main.sign()]))).toBe('cannot-tell');
  });

  test('may end with fewer leaves than were signed: a restore that the next link declares is no contradiction', () => {
    const { main } = forked();
    const restored = SignedLog.begin(2, main.copy(3)).grow('x');
    const before = main.sign();
    const notes = [before, restored.sign({ after: [before] })];
    expect(verdictOf(evidenceOf(notes, [restored.link()]))).toBe('cannot-tell');
    expect(verdictOf(evidenceOf(notes, [restored.link(), main.consistency(3)]))).toBe('agree');
  });
});

describe('the order of notes', () => {
  test('is unknown without knew, with the knew of another note, and for a note without the line after', () => {
    const { main } = forked();
    const larger = main.sign();
    const smaller = main.sign({ size: 3, after: [larger] });
    const plain = main.sign({ size: 3 });
    expect(verdictOf(evidenceOf([larger, { note: smaller.note }]))).toBe('cannot-tell');
    expect(verdictOf(evidenceOf([larger, { ...plain, knew: smaller.knew! }]))).toBe('cannot-tell');
    const other = main.sign({ size: 2, after: [] });
    expect(verdictOf(evidenceOf([larger, { ...smaller, knew: other.knew! }]))).toBe('cannot-tell');
  });

  test('does not follow from a text that was guessed before the relay signed it', () => {
    const { main } = forked();
    const guessed = main.sign();
    const knew = makeKnew([sha256Hex(noteText(guessed.note))], (count) => Buffer.alloc(count));
    const head = main.sign({ size: 3 }).note.split('\n');
    const rootHash = Buffer.from(head[2]!, 'base64');
    const note = signCheckpoint({ epoch: main.epoch, size: 3, rootHash, after: afterOf(knew) }, relay.signer);
    expect(verdictOf(evidenceOf([guessed, { note, knew: knew.toString('base64') }]))).toBe('cannot-tell');
  });
});

describe('what is no evidence of the relay', () => {
  const { main, other } = forked();
  const good = evidenceOf([main.sign(), other.sign()]);
  const foreign = SignedLog.begin(1, null, alice).sign();
  const withLink = main.copy().grow(Buffer.from(main.link().record_b64, 'base64').toString());
  const flipped = good.notes[1]!.replace('\n5\n', '\n6\n');

  test.each<[what: string, document: unknown, says: RegExp]>([
    ['nothing', undefined, /has not the members/],
    ['a list', [good], /has not the members/],
    ['another version', { ...good, v: 2 }, /has not the members/],
    ['another type', { ...good, type: 'relay-log-link' }, /has not the members/],
    ['a kind with control characters', { ...good, kind: '\u001b[31m' }, /has not the members/],
    ['no note', { ...good, notes: [] }, /has not the members/],
    ['too many notes', { ...good, notes: Array(17).fill(good.notes[0]) }, /has not the members/],
    ['notes that are no texts', { ...good, notes: [1, 2] }, /has not the members/],
    ['a short knew', { ...good, knew: ['AAAA'] }, /has not the members/],
    ['too many proofs', { ...good, proof: Array(65).fill('x') }, /has not the members/],
    ['a key that is none', { ...good, relay_pubkey: 'A'.repeat(44) }, /names no relay key/],
    ['another relay', { ...good, relay_pubkey: alice.key }, /is not the one that is trusted/],
    ['a note of another relay', { ...good, notes: [good.notes[0], foreign.note] }, /in note 2 is none that the relay/],
    ['a note that was altered', { ...good, notes: [good.notes[0], flipped] }, /in note 2 is none that the relay key/],
    ['a note with control characters', { ...good, notes: [`\u001b[2J${good.notes[0]}`] }, /in note 1 is none that/],
    ['a note of 20,000 characters', { ...good, notes: [`${good.notes[0]}${'x'.repeat(20_000)}`] }, /in note 1 is none/],
  ])('%s', (_what, document, says) => {
    expect(() => checkEvidence(document, relay.key)).toThrow(NotVerified);
    expect(() => checkEvidence(document, relay.key)).toThrow(says);
  });

  test('the fingerprint of the relay is taken for its key', () => {
    expect(checkEvidence(good, displayFingerprint(relay.key)).verdict).toBe('contradict');
    expect(() => checkEvidence(good, displayFingerprint(alice.key))).toThrow(/is not the one that is trusted/);
  });

  test.each<[what: string, proof: unknown, says: RegExp]>([
    ['null', null, /^The proof 1 shows nothing: the proof has not the members of one\.$/],
    ['a text', 'x', /has not the members of one/],
    ['a link of another relay', SignedLog.begin(1, null, alice).link(), /none that the relay key signed/],
    ['a leaf that is no link', main.link(5, 1), /it is of no first leaf of an epoch/],
    ['a link that is no first leaf', withLink.link(6, 5), /it is of no first leaf of an epoch/],
    ['a first leaf that is no link', { ...main.link(), index: 1 }, /not in the tree/],
    ['a proof between other heads', main.consistency(1, 2), /leads from none of the heads here/],
    ['a proof of another history', main.copy(3).grow('y', 'z').consistency(2, 5), /leads from none of the heads here/],
    ['a hash that is none', { ...main.consistency(2), proof: ['AAAA'.repeat(11)] }, /no hash/],
  ])('a proof that shows nothing spoils nothing, and the check says so: %s', (_what, proof, says) => {
    const { verdict, findings } = checkEvidence({ ...good, proof: [proof] }, relay.key);
    expect([verdict, findings]).toEqual(['contradict', [expect.any(String), expect.stringMatching(says)]]);
  });
});

/** What a relay and those who ask it may do, each with numbers that choose among what there is. */
type Step = [what: 'grow' | 'sign' | 'sign after' | 'rotate' | 'restore' | 'fork' | 'put back', ...picks: number[]];

interface Played {
  signed: Signed[];
  proof: NonNullable<EvidenceDocument['proof']>;
}

function pick<T>(list: readonly T[], number: number): T {
  return list[number % list.length]!;
}

/** Plays the steps of a relay. Each store of it is the chain of its epochs, the newest last. */
function play(steps: readonly Step[], isHonest: boolean): Played {
  const stores = [[SignedLog.begin(1)]];
  let epochs = 1;
  const all: Played = { signed: [stores[0]![0]!.sign()], proof: [] };
  for (const [what, a, b, c] of steps as [Step[0], number, number, number][]) {
    const store = pick(stores, a);
    const newest = store.at(-1)!;
    if (what === 'grow') newest.grow(`${b}`, `${c}`);
    else if (what === 'sign') {
      const log = pick(store, b);
      all.signed.push(log.sign({ size: 1 + (c % log.size) }));
      const to = 1 + (b % log.size);
      all.proof.push(log.link(), log.consistency(1 + (c % to), to));
    } else if (what === 'sign after') {
      const after = [b, c].map((number) => pick(all.signed, number));
      all.signed.push(newest.sign({ after }));
    } else if (what === 'rotate') store.push(SignedLog.begin(++epochs, newest));
    else if (what === 'restore') {
      // A backup has the first leaves of some epoch, and the restore begins another one.
      const at = b % store.length;
      const restored = store[at]!.copy(1 + (c % store[at]!.size));
      stores[stores.indexOf(store)] = [...store.slice(0, at), restored, SignedLog.begin(++epochs, restored)];
    } else if (isHonest) continue;
    else if (what === 'fork') stores.push([...store.slice(0, -1), newest.copy(1 + (c % newest.size))]);
    else stores[stores.indexOf(store)] = [...store.slice(0, b % store.length), pick(store, b).copy()];
  }
  return all;
}

const number = fc.nat({ max: 1000 });
const step = fc.tuple(
  fc.constantFrom('grow', 'grow', 'sign', 'sign after', 'sign after', 'rotate', 'restore', 'fork', 'put back'),
  number,
  number,
  number,
) as fc.Arbitrary<Step>;
const story = fc.tuple(fc.array(step, { minLength: 4, maxLength: 24 }), fc.infiniteStream(number));

/** Some of what was signed, as evidence. */
function evidenceAmong({ signed, proof }: Played, chosen: Iterator<number>): EvidenceDocument {
  const some = <T>(list: readonly T[], most: number): T[] =>
    list.filter(() => chosen.next().value! % 3 !== 0).slice(-most);
  const notes = some(signed, 6);
  return evidenceOf(notes.length === 0 ? signed.slice(0, 1) : notes, some(proof, 12));
}

test('the check finds what the independent reader finds, whatever the relay signs', () => {
  const found = { contradict: 0, agree: 0, 'cannot-tell': 0 };
  // Few stories of a run may have no case of one verdict.
  for (let round = 0; round < 20 && Object.values(found).includes(0); round++)
    fc.assert(
      fc.property(story, ([steps, chosen]) => {
        found[verdictOf(evidenceAmong(play(steps, false), chosen)) as keyof typeof found]++;
      }),
      { numRuns: share(2000, 32) },
    );
  expect(Object.values(found).every((count) => count > 0)).toBe(true);
});

test('an honest relay restores backups and hosts ask after any notes: the check finds no contradiction', () => {
  fc.assert(
    fc.property(story, ([steps, chosen]) => {
      expect(verdictOf(evidenceAmong(play(steps, true), chosen))).not.toBe('contradict');
    }),
    { numRuns: share(2000, 32) },
  );
});
