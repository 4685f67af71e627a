/** What hosts make of the documents of home relays that they show each other: which counts, and who is told what. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type HomeDocumentRow,
  type HomeFacts,
  type HomeVia,
  type PeerHomeRow,
  type ShownHome,
  afterTelling,
  hearHome,
  nextHomeSeq,
  saidTo,
} from '../../../../src/host/core/home-documents.ts';
import type { PeerKey } from '../../../../src/host/core/rows.ts';
import type { Signer } from '../../../../src/protocol/ed25519.ts';
import { signDocument } from '../../../../src/protocol/documents.ts';
import { type SignedHomeRelays, signHomeRelays } from '../../../../src/protocol/home-relays.ts';
import { DAY_MS, HOUR_MS } from '../../../../src/protocol/limits.ts';
import { alice, bob, carol, dave, relay } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const FIRST = { relay_pubkey: relay.key, url: 'https://r1.example' };
const SECOND = { relay_pubkey: carol.key, url: 'https://r2.example' };

function signed(signer: Signer, seq: number, relays = [FIRST, SECOND], more: object = {}): SignedHomeRelays {
  return signHomeRelays(signer, { seq, relays, ...more });
}

function keys(...all: { key: PeerKey['publicKey'] }[]): PeerKey[] {
  return all.map(({ key }, at) => ({
    publicKey: key,
    pinnedAtMs: at,
    retiredAtMs: at === all.length - 1 ? null : NOON_MS,
  }));
}

/** Bob shows it to alice, who has pinned this key of his. */
const FACTS: HomeFacts = { peerKeys: keys(bob), own: undefined, nowMs: NOON_MS };
/** Bob after a rotation, whose key is dave's. */
const ROTATED: HomeFacts = { ...FACTS, peerKeys: keys(bob, dave) };

function shown(home: unknown, by: ShownHome['by'] = { type: 'other' }, via: HomeVia = relay.key): ShownHome {
  return { home, via, by };
}

/** Alice's document. */
function ownOf(seq: number, madeAtMs = NOON_MS - DAY_MS): HomeDocumentRow {
  return { ...signed(alice.signer, seq), madeAtMs };
}

function heldOf(home: unknown, facts = FACTS): PeerHomeRow | undefined {
  return hearHome(undefined, shown(home), facts).row;
}

describe('documents of a peer (§ "The relays of a host")', () => {
  const held = heldOf(signed(bob.signer, 7));

  test('the first one counts, with the way that it came', () => {
    const { doc, sig } = signed(bob.signer, 7);
    expect(held).toEqual({
      held: {
        hostPubkey: bob.key,
        seq: 7,
        relays: [FIRST, SECOND],
        doc: expect.stringContaining('"seq":7') as string,
        sig,
        learnedAtMs: NOON_MS,
        via: relay.key,
      },
    });
    expect(JSON.parse(held?.held?.doc ?? '')).toEqual(doc);
  });

  test('members that are unknown here stay in what is held, and not in its relays', () => {
    const relays = [{ ...FIRST, note: 1 }];
    const row = heldOf(signed(bob.signer, 7, relays, { more: { ['__proto__']: [1] } }));
    expect(row?.held?.relays).toEqual([FIRST]);
    expect(row?.held?.doc).toContain('"more":');
    expect(row?.held?.doc).toContain('"note":1');
  });

  const none = signed(bob.signer, 8, []);
  const twin = signed(bob.signer, 7, [SECOND]);
  test.each<[string, unknown, HomeFacts, Partial<PeerHomeRow>]>([
    [
      'a larger seq',
      signed(bob.signer, 8, [SECOND]),
      FACTS,
      { held: { ...heldOf(signed(bob.signer, 8, [SECOND]))!.held! } },
    ],
    ['no relay at all', none, FACTS, { held: heldOf(none)!.held! }],
    [
      'the first under a newer key, whatever its seq',
      signed(dave.signer, 1),
      ROTATED,
      { held: heldOf(signed(dave.signer, 1), ROTATED)!.held! },
    ],
    ['the same seq and other content', twin, FACTS, { ...held, twin: { seq: 7, atMs: NOON_MS } }],
  ])('%s', (_what, home, facts, expected) => {
    expect(hearHome(held, shown(home), facts)).toEqual({ row: expected, isBehind: false });
  });

  test.each<[string, unknown, HomeFacts]>([
    ['the same again', signed(bob.signer, 7), FACTS],
    ['a smaller seq', signed(bob.signer, 6), FACTS],
    ['a smaller seq that nobody signed', { ...signed(bob.signer, 6), sig: signed(bob.signer, 7).sig }, FACTS],
    ['a retired key, with a larger seq', signed(bob.signer, 9), ROTATED],
    ['no home', undefined, FACTS],
    ['what the peer knows alone', {}, FACTS],
  ])('%s changes nothing and is no fault', (_what, home, facts) => {
    const heard = hearHome(held, shown(home), facts);
    expect(heard).toEqual({ row: held, isBehind: false });
    expect(heard.row).toBe(held);
  });

  const bad = { ...signed(bob.signer, 9).doc, relays: [FIRST, FIRST] };
  test.each<[string, unknown, string]>([
    ['no object', 7, 'it is no document of type home-relays and version 1 with its signature'],
    ['a list', [signed(bob.signer, 9)], 'it is no document of type home-relays and version 1 with its signature'],
    [
      'a document without its signature',
      { doc: signed(bob.signer, 9).doc },
      'it is no document of type home-relays and version 1 with its signature',
    ],
    [
      'a signature without its document',
      { sig: signed(bob.signer, 9).sig },
      'it is no document of type home-relays and version 1 with its signature',
    ],
    ['the document of another host', signed(carol.signer, 9), 'host_pubkey is another key'],
    ['one that breaks a rule', { doc: bad, sig: signDocument(bob.signer, bad) }, 'a relay_pubkey stands there twice'],
    ['another signature', { ...signed(bob.signer, 9), sig: signed(bob.signer, 8).sig }, 'host_pubkey did not sign it'],
    [
      'a twin that nobody signed',
      { ...signed(bob.signer, 7, []), sig: signed(bob.signer, 7).sig },
      'host_pubkey did not sign it',
    ],
  ])('%s is a fault that costs itself', (_what, home, fault) => {
    expect(hearHome(held, shown(home), FACTS)).toEqual({ row: held, isBehind: false, fault });
  });

  test('a second twin of one seq writes nothing more', () => {
    const first = hearHome(held, shown(twin), FACTS).row;
    expect(hearHome(first, shown(signed(bob.signer, 7, [])), { ...FACTS, nowMs: NOON_MS + 1 }).row).toBe(first);
  });

  test('a key that was retired does not replace what the newer one signed, nor does it once that is held', () => {
    const newer = heldOf(signed(dave.signer, 1), ROTATED);
    expect(hearHome(newer, shown(signed(bob.signer, 100)), ROTATED)).toEqual({ row: newer, isBehind: false });
  });
});

test('property: whatever a peer shows, nothing is thrown, and no document is held that it did not sign', () => {
  const { doc, sig } = signed(bob.signer, 7);
  const held = heldOf({ doc, sig });
  const bent = fc.record({
    doc: fc.oneof(fc.jsonValue(), fc.constant(doc), bentOf(doc)),
    sig: fc.constantFrom(sig, 7),
  });
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), bent), fc.jsonValue(), (home, known) => {
      const both = typeof home === 'object' && home !== null && !Array.isArray(home) ? { ...home, known } : home;
      for (const row of [undefined, held]) {
        const heard = hearHome(row, shown(both, { type: 'message' }), FACTS);
        expect([undefined, held?.held]).toContainEqual(heard.row?.held);
        expect(heard.row?.twin).toBeUndefined();
      }
    }),
  );
});

/** The document with one member changed. */
function bentOf(doc: object): fc.Arbitrary<object> {
  return fc
    .tuple(fc.constantFrom(...Object.keys(doc), 'more'), fc.jsonValue())
    .map(([name, value]) => Object.assign({}, doc, { [name]: value }));
}

describe('what this host tells a peer', () => {
  const own = ownOf(NOON_MS);
  const { doc, sig } = own;
  const held = heldOf(signed(bob.signer, 7));
  test.each<[string, HomeDocumentRow | undefined, PeerHomeRow | undefined, unknown]>([
    ['nothing, with one relay and a peer with one', undefined, undefined, undefined],
    ['nothing, with one relay', undefined, { knownOurs: 5 }, undefined],
    ['the own document, at first', own, undefined, { doc, sig }],
    ['the seq of the held one', undefined, held, { known: 7 }],
    ['both', own, held, { doc, known: 7, sig }],
    ['the seq alone, once the peer knows the own document', own, { ...held, knownOurs: NOON_MS }, { known: 7 }],
    ['the own document, while it knows an older', own, { knownOurs: NOON_MS - 1 }, { doc, sig }],
    ['nothing, once it knows', own, { knownOurs: NOON_MS }, undefined],
  ])('%s', (_what, ours, row, said) => {
    expect(saidTo(ours, row, NOON_MS)).toEqual(said);
  });

  test('20 confirmed without a word of it, and then once a day, until it is echoed or another is made', () => {
    let row: PeerHomeRow | undefined;
    const hear = (by: ShownHome['by'], nowMs: number, home?: unknown): void => {
      ({ row } = hearHome(row, shown(home, by), { ...FACTS, own, nowMs }));
    };
    const isTold = (nowMs: number): boolean => saidTo(own, row, nowMs)?.doc !== undefined;
    row = afterTelling(row, { doc, sig }, NOON_MS);
    const before = row;
    expect(afterTelling(row, { doc, sig }, NOON_MS + 1)).toBe(row);
    // Sent before it was told, or repeated, or no receipt for mail; and mail that may have been on its way.
    hear({ type: 'confirmation', sentMs: NOON_MS - 1 }, NOON_MS);
    hear({ type: 'other' }, NOON_MS);
    hear({ type: 'lan' }, NOON_MS);
    hear({ type: 'message' }, NOON_MS + 1);
    expect(row).toBe(before);
    for (let nth = 0; nth < 10; nth++) {
      hear({ type: 'confirmation', sentMs: NOON_MS }, NOON_MS);
      hear({ type: 'message' }, NOON_MS + HOUR_MS);
      expect(isTold(NOON_MS)).toBe(nth < 9);
    }
    expect(row?.told?.unanswered).toBe(20);
    expect(isTold(NOON_MS + DAY_MS - 1)).toBe(false);
    expect(isTold(NOON_MS + DAY_MS)).toBe(true);
    // A clock that was set back makes no pause of years.
    expect(isTold(NOON_MS - DAY_MS)).toBe(true);
    row = afterTelling(row, { doc, sig }, NOON_MS + DAY_MS);
    expect(isTold(NOON_MS + DAY_MS)).toBe(false);
    expect(saidTo(ownOf(NOON_MS + 1), row, NOON_MS + DAY_MS)?.doc).toBeDefined();
    hear({ type: 'other' }, NOON_MS + DAY_MS, { known: NOON_MS });
    expect(isTold(NOON_MS + 3 * DAY_MS)).toBe(false);
  });

  test('what says the seq alone is no telling', () => {
    expect(afterTelling(held, { known: 7 }, NOON_MS)).toBe(held);
  });

  test('a peer that was set back to a copy says less, and is told again', () => {
    const facts = { ...FACTS, own };
    const knows: PeerHomeRow = { knownOurs: NOON_MS };
    const less = hearHome(knows, shown({ known: 5 }, { type: 'message' }), facts).row;
    expect(saidTo(own, less, NOON_MS)?.doc).toBeDefined();
    // Of mail and of receipts it may have been left out; over the LAN a host says all that it has to say.
    expect(hearHome(knows, shown(undefined, { type: 'message' }), facts).row).toBe(knows);
    expect(hearHome(knows, shown(undefined, { type: 'lan' }), facts).row).toEqual({});
    expect(hearHome(knows, shown({ known: '5' }, { type: 'message' }), facts).row).toEqual({});
  });
});

describe('this host was set back to a copy', () => {
  test.each<[string, HomeDocumentRow | undefined, number, boolean]>([
    ['a later one than the own', ownOf(10), 11, true],
    ['one, and there is none any more', undefined, 11, true],
    ['a later one, by no more than ten years', ownOf(10), NOON_MS + 10 * 366 * DAY_MS, true],
    ['the own', ownOf(10), 10, false],
    ['an older one', ownOf(10), 9, false],
    ['one that uses the numbers up', ownOf(10), Number.MAX_SAFE_INTEGER, false],
    ['a later one, just after this host made one', ownOf(10, NOON_MS - HOUR_MS + 1), 11, false],
    ['a later one, as this host made one in the future', ownOf(10, NOON_MS + 1), 11, true],
  ])('the peer holds %s', (_what, own, known, isBehind) => {
    expect(hearHome(undefined, shown({ known }), { ...FACTS, own }).isBehind).toBe(isBehind);
  });

  test('an answer over the LAN, which nobody signs, shows that the peer knows, and nothing later', () => {
    const facts = { ...FACTS, own: ownOf(10) };
    const answer = (known: number) => hearHome(undefined, shown({ known }, { type: 'answer' }, 'lan'), facts);
    expect(answer(11)).toEqual({ row: undefined, isBehind: false });
    expect(answer(10)).toEqual({ row: { knownOurs: 10 }, isBehind: false });
    expect(hearHome({ knownOurs: 10 }, shown(undefined, { type: 'answer' }), facts).row).toEqual({});
  });

  test('which relay said so stays, when the next document is made', () => {
    const own = ownOf(10);
    const { row } = hearHome(undefined, shown({ known: 11 }), { ...FACTS, own });
    expect(row).toEqual({ knownOurs: 11, later: { seq: 11, atMs: NOON_MS, via: relay.key } });
    const next = ownOf(nextHomeSeq(own, [row?.later?.seq ?? 0], 5));
    expect(next.doc.seq).toBe(12);
    const after = hearHome(row, shown({ known: 12 }), { ...FACTS, own: next }).row;
    expect(after).toEqual({ knownOurs: 12, later: row?.later });
  });
});

test.each<[string, HomeDocumentRow | undefined, number[], number, number]>([
  ['the first', undefined, [], NOON_MS, NOON_MS],
  ['the clock goes on', ownOf(5), [], NOON_MS, NOON_MS],
  ['the clock was set back', ownOf(NOON_MS), [], 5, NOON_MS + 1],
  ['a peer showed a later one', ownOf(5), [7, NOON_MS + 3], NOON_MS, NOON_MS + 4],
])('the seq of a new document: %s', (_what, own, later, nowMs, seq) => {
  expect(nextHomeSeq(own, later, nowMs)).toBe(seq);
});
