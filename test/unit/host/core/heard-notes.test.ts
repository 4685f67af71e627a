/** What a peer tells of a relay. Design: notes of peers are signed by the relay, and checked with the pinned key. */
import { expect, test } from 'vitest';
import { hear, isAllHeard, seenFor, TOLD_EVIDENCE_MS, toldNoteOf } from '../../../../src/host/core/heard-notes.ts';
import {
  type EvidenceRow,
  type LookFacts,
  PENDING_NOTES_MAX,
  type PendingNote,
  type TrustState,
} from '../../../../src/host/core/relay-trust.ts';
import type { PeerId } from '../../../../src/host/core/rows.ts';
import { noteText } from '../../../../src/protocol/checkpoint.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { KNEW_BYTES, type SeenEntry, makeKnew, markOf, noteHash } from '../../../../src/protocol/seen.ts';
import { canonicalBytes } from '../../../../src/protocol/documents.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { carol, relay } from '../../../support/hosts.ts';
import { SmallLog } from '../../../support/small-log.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { keptOf, knowing, randomBytes } from '../../../support/trust/given-look.ts';

const FACTS: LookFacts = { nowMs: NOON_MS, randomBytes };
const BOB = 'bob' as PeerId;
const [FIRST, SECOND] = [epochNumbered(1), epochNumbered(2)];

function entryOf(note: string, knew: Buffer = Buffer.alloc(KNEW_BYTES)): SeenEntry {
  return { relay: relay.key, checkpoint: note, knew: knew.toString('base64') };
}

function shown(known: TrustState, evidence: EvidenceRow[] = [], turn = 0, nowMs = NOON_MS): SeenEntry | null {
  return seenFor(toldNoteOf(known, FACTS), { relayPubkey: relay.key, evidence }, turn, { ...FACTS, nowMs });
}

const log = new SmallLog(FIRST).append('a', 'b', 'c', 'd');
const other = new SmallLog(FIRST).append('a', 'b', 'C', 'd', 'e');

test('a note of a peer that this host has not joined is stored, and a look is owed', () => {
  const knew = makeKnew([], FACTS.randomBytes);
  const heard = hear(knowing(keptOf(log, 3)), { peerId: BOB, entry: entryOf(log.note(5, knew), knew) }, FACTS);
  const pending = { peerId: BOB, epoch: FIRST, note: log.note(5, knew), knew: knew.toString('base64'), atMs: NOON_MS };
  expect(heard).toEqual({ pending, evidence: [], isOwed: true });
});

test('what a peer says that it knew counts only when the relay signed the hash of it', () => {
  const knew = makeKnew([], FACTS.randomBytes);
  const told = hear(knowing(keptOf(log, 3)), { peerId: BOB, entry: entryOf(log.note(5, knew)) }, FACTS);
  expect(told.pending).toMatchObject({ note: log.note(5, knew), knew: null });
});

test('a note that this host has says nothing', () => {
  const entry = entryOf(log.note(3));
  expect(hear(knowing(keptOf(log, 3)), { peerId: BOB, entry }, FACTS)).toEqual({ evidence: [], isOwed: false });
});

test.each<[string, SeenEntry]>([
  ['of another relay', { ...entryOf(log.note()), relay: carol.key }],
  ['that the relay did not sign', entryOf(log.note().replace(/\n5\n/, '\n6\n'))],
  ['with more lines than one has', entryOf(log.note().replace('\n\n', '\nmore\n\n'))],
])('a note %s says nothing, and was not heard', (_which, entry) => {
  const heard = hear(knowing(keptOf(log, 3)), { peerId: BOB, entry }, FACTS);
  expect(heard).toEqual({ evidence: [], isOwed: false, passedOver: 'no note' });
});

test('a note of one size and another root than a kept one is a fork at once', () => {
  const kept = keptOf(log, 4);
  const { evidence, pending, isOwed } = hear(knowing(kept), { peerId: BOB, entry: entryOf(other.note(4)) }, FACTS);
  expect({ pending, isOwed }).toEqual({ pending: undefined, isOwed: true });
  expect(evidence).toEqual([
    {
      digest: sha256Hex(canonicalBytes([noteText(kept.note), noteText(other.note(4))].toSorted())),
      relayPubkey: relay.key,
      epoch: FIRST,
      kind: 'fork',
      isSigned: true,
      notes: [
        { note: kept.note, knew: null, peerId: null },
        { note: other.note(4), knew: null, peerId: BOB },
      ],
      proof: [],
      foundAtMs: NOON_MS,
      dismissedAtMs: null,
    },
  ]);
});

test('two pending notes of one size and two roots are a fork', () => {
  const known = knowing(keptOf(log, 3));
  const waiting = { peerId: 'carol' as PeerId, epoch: FIRST, note: log.note(5), knew: null, atMs: NOON_MS };
  const heard = hear({ ...known, pending: [waiting] }, { peerId: BOB, entry: entryOf(other.note(5)) }, FACTS);
  expect(heard.evidence).toMatchObject([{ kind: 'fork', isSigned: true }]);
  expect(heard.evidence[0]?.notes.map(({ peerId }) => peerId)).toEqual(['carol', BOB]);
});

test('one note a peer and epoch waits, the largest, and of one size the last', () => {
  const known = knowing(keptOf(log, 2));
  const waiting: PendingNote = { peerId: BOB, epoch: FIRST, note: log.note(4), knew: null, atMs: NOON_MS };
  const after = (note: string) =>
    hear({ ...known, pending: [waiting] }, { peerId: BOB, entry: entryOf(note) }, FACTS).pending?.note;
  expect(after(log.note(3))).toBeUndefined();
  expect(after(log.note(4))).toBeUndefined();
  const again = log.note(4, makeKnew([], FACTS.randomBytes));
  expect(after(again)).toBe(again);
  expect(after(log.note(5))).toBe(log.note(5));
});

test(`at most ${PENDING_NOTES_MAX} notes of one relay wait, and those that do are still renewed`, () => {
  const pending = Array.from({ length: PENDING_NOTES_MAX }, (_, nth): PendingNote => {
    return { peerId: `peer ${nth}` as PeerId, epoch: FIRST, note: log.note(4), knew: null, atMs: NOON_MS };
  });
  const known = { ...knowing(keptOf(log, 2)), pending };
  const heardOf = (peerId: PeerId) => hear(known, { peerId, entry: entryOf(log.note(5)) }, FACTS);
  expect(heardOf(BOB)).toEqual({ evidence: [], isOwed: false, passedOver: 'no room' });
  expect(heardOf('peer 7' as PeerId).pending).toMatchObject({ note: log.note(5) });
});

test('a note that this host has is stored when the relay signed it after an own note of another epoch', () => {
  const mine = keptOf(log.next(SECOND));
  const knew = makeKnew([noteHash(mine.note)], FACTS.randomBytes);
  const known = knowing(keptOf(log), mine);
  expect(hear(known, { peerId: BOB, entry: entryOf(log.note(), knew) }, FACTS).pending).toBeUndefined();
  const echo = log.note(log.size, knew);
  expect(hear(known, { peerId: BOB, entry: entryOf(echo, knew) }, FACTS).pending?.note).toBe(echo);
});

test('a peer is told the newest note with what this host knew; random bytes where the note has no `after`', () => {
  const knew = makeKnew([], FACTS.randomBytes);
  const known = knowing(keptOf(log), keptOf(log.next(SECOND), 1, knew));
  const entry = { relay: relay.key, checkpoint: known.kept[1]?.note, knew: knew.toString('base64') };
  expect(shown(known)).toEqual(entry);
  const told = shown(knowing(keptOf(log)));
  expect(told?.checkpoint).toBe(log.note());
  expect(Buffer.from(told?.knew ?? '', 'base64')).toHaveLength(KNEW_BYTES);
  expect(shown(knowing(keptOf(log)))?.knew).not.toBe(told?.knew);
  expect(shown(knowing())).toBeNull();
});

test('until its next look a host tells its note in the same bytes, so that the note has one mark', () => {
  const told = toldNoteOf(knowing(keptOf(log)), FACTS);
  const shownIn = (turn: number) => seenFor(told, { relayPubkey: relay.key, evidence: [] }, turn, FACTS);
  expect(shownIn(1)).toEqual(shownIn(0));
  expect(told?.mark).toBe(markOf(shownIn(7)!));
});

test('a peer that said that it heard the newest note is told no more, and another one is; of evidence each is', () => {
  const known = knowing(keptOf(log, 4));
  const [fork] = hear(known, { peerId: BOB, entry: entryOf(other.note(4)) }, FACTS).evidence;
  const told = toldNoteOf(known, FACTS)!;
  expect(isAllHeard(told, [], BOB, NOON_MS)).toBe(false);
  told.heardBy.add(BOB);
  expect(isAllHeard(told, [], BOB, NOON_MS)).toBe(true);
  expect(isAllHeard(told, [], 'carol' as PeerId, NOON_MS)).toBe(false);
  expect(isAllHeard(told, [fork!], BOB, NOON_MS)).toBe(false);
  expect(isAllHeard(told, [{ ...fork!, dismissedAtMs: NOON_MS }], BOB, NOON_MS)).toBe(true);
  expect(isAllHeard(told, [fork!], BOB, NOON_MS + TOLD_EVIDENCE_MS)).toBe(true);
  // After the next look there is something that it has not heard.
  expect(isAllHeard(toldNoteOf(known, FACTS), [], BOB, NOON_MS)).toBe(false);
  expect(isAllHeard(toldNoteOf(knowing(), FACTS), [], BOB, NOON_MS)).toBe(false);
});

test('every other time a note of evidence is told instead, in turn, for 30 days and until it is dismissed', () => {
  const known = knowing(keptOf(log, 4));
  const [fork] = hear(known, { peerId: BOB, entry: entryOf(other.note(4)) }, FACTS).evidence;
  const told = (changes: object, nowMs = NOON_MS) =>
    [0, 1, 2, 3, 4, 5].map((turn) => shown(known, [{ ...fork!, ...changes }], turn, nowMs)?.checkpoint);
  const [mine, theirs] = [log.note(4), other.note(4)];
  expect(told({})).toEqual([mine, mine, mine, theirs, mine, mine]);
  expect(new Set(told({ dismissedAtMs: NOON_MS }))).toEqual(new Set([mine]));
  expect(new Set(told({}, NOON_MS + TOLD_EVIDENCE_MS))).toEqual(new Set([mine]));
  expect(told({}, NOON_MS + TOLD_EVIDENCE_MS - 1)).toContain(theirs);
});
