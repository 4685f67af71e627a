/**
 * Decides what the documents of home relays that hosts show each other change here (protocol/home-relays.ts). Pure.
 *
 * Invariants:
 *   - a document counts under the key that is pinned of its host now; under one key the seq held only grows;
 *   - the seq of this host's document that a peer names decides whether this host sends it again, and its next seq;
 *   - what does not count changes nothing that was held.
 */
import { isObject } from '../../protocol/json.ts';
import { canonicalBytesIfAny, type HomeRelay } from '../../protocol/documents.ts';
import { type HomeRelaysFault, type SignedHomeRelays, readHomeRelays } from '../../protocol/home-relays.ts';
import { DAY_MS, HOUR_MS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PeerKey } from './rows.ts';

/** This host's own document: present since it had two relays. */
export interface HomeDocumentRow extends SignedHomeRelays {
  madeAtMs: number;
}

/** The LAN, or the relay that brought it. */
export type HomeVia = 'lan' | PublicKey;

/** The document of a peer that counts. */
export interface HeldHome {
  hostPubkey: PublicKey;
  seq: number;
  /** In the peer's order. */
  relays: readonly HomeRelay[];
  /** Its canonical form, as it may hold members that are unknown here. */
  doc: string;
  sig: string;
  learnedAtMs: number;
  via: HomeVia;
}

/** What this host and a paired one know of each other's relays. */
export interface PeerHomeRow {
  held?: HeldHome;
  /** The seq of this host's document that the peer holds, as it said last. */
  knownOurs?: number;
  /** This host's document of this seq is put into what goes to the peer since then. */
  told?: { seq: number; sinceMs: number; lastMs: number /** Confirmed without a word of it. */; unanswered: number };
  /** Other content came under the key and seq that is held: two copies of that host may run. */
  twin?: { seq: number; atMs: number };
  /** The peer held a later document of this host than this host itself. */
  later?: { seq: number; atMs: number; via: HomeVia };
  /** The owner was told that no relay of this document is used here. */
  reported?: Pick<HeldHome, 'hostPubkey' | 'seq'>;
}

/** What goes to a peer: at least one of both. */
export interface SaidHome extends Partial<SignedHomeRelays> {
  known?: number;
}

/** So many are confirmed without a word of the document before it rides once a day. */
const UNANSWERED_MAX = 20;
/** Nothing says that a receipt came: what the peer writes so long after it was told should show it. */
const HEARD_WITHIN_MS = 600_000;
/** A peer that names a later seq lies, or had it from a clock that was wrong: numbers must not run out. */
const AHEAD_MAX_MS = 10 * 366 * DAY_MS;
/** A peer's word makes this host sign no more often. */
const ANEW_AFTER_MS = HOUR_MS;

/** Undefined when there is nothing to say. */
export function saidTo(
  own: HomeDocumentRow | undefined,
  row: PeerHomeRow | undefined,
  nowMs: number,
): SaidHome | undefined {
  const known = row?.held?.seq;
  const doc = own && isTold(own, row, nowMs) ? { doc: own.doc, sig: own.sig } : undefined;
  // In the order of the names, which is how it is sealed.
  return doc || known !== undefined
    ? { ...(doc && { doc: doc.doc }), ...(known !== undefined && { known }), ...(doc && { sig: doc.sig }) }
    : undefined;
}

function isTold({ doc }: HomeDocumentRow, row: PeerHomeRow | undefined, nowMs: number): boolean {
  if (row?.knownOurs === doc.seq) return false;
  const told = row?.told;
  if (told?.seq !== doc.seq || told.unanswered < UNANSWERED_MAX) return true;
  return !isWithin(DAY_MS, told.lastMs, nowMs);
}

/** Returns the row after this was put into mail or a receipt. */
export function afterTelling(row: PeerHomeRow | undefined, { doc }: SaidHome, nowMs: number): PeerHomeRow | undefined {
  if (!doc) return row;
  const told = row?.told;
  if (told?.seq !== doc.seq) return { ...row, told: { seq: doc.seq, sinceMs: nowMs, lastMs: nowMs, unanswered: 0 } };
  return told.unanswered < UNANSWERED_MAX ? row : { ...row, told: { ...told, lastMs: nowMs } };
}

/** What a peer showed, with an item that counts or over the LAN. */
export interface ShownHome {
  /** Untrusted; undefined where there was none. */
  home: unknown;
  via: HomeVia;
  /**
   * What brought it. `lan`: the peer signed the request. `answer`: one over the LAN, which nobody signs.
   * `confirmation`: the first receipt of a recipient for a message that this host queued at `sentMs`; `other`: a later
   * one.
   */
  by: { type: 'lan' | 'answer' | 'message' | 'other' } | { type: 'confirmation'; sentMs: number };
}

export interface HomeFacts {
  peerKeys: readonly PeerKey[];
  own: HomeDocumentRow | undefined;
  nowMs: number;
}

export interface HeardHome {
  /** The same object when nothing changed. */
  row: PeerHomeRow | undefined;
  /** Why the document does not count. None where it is known, older, or of a key that the peer gave up. */
  fault?: HomeRelaysFault;
  /** This host is to sign a document that is later than the one that the peer holds. */
  isBehind: boolean;
}

/** Returns what is known of a peer after it showed this. */
export function hearHome(before: PeerHomeRow | undefined, shown: ShownHome, facts: HomeFacts): HeardHome {
  const { row, fault } = takeDocument(before, shown, facts);
  const after = countUnanswered(hearKnown(row, shown, facts), shown, facts);
  const { own, nowMs } = facts;
  const isLater = after?.knownOurs !== undefined && after.knownOurs > (own?.doc.seq ?? 0);
  const isBehind = isLater && (!own || !isWithin(ANEW_AFTER_MS, own.madeAtMs, nowMs));
  return { row: after, isBehind, ...(fault && { fault }) };
}

/** The seq of a document that this host makes now. `laterSeqs`: those of its own that peers showed. */
export function nextHomeSeq(own: HomeDocumentRow | undefined, laterSeqs: readonly number[], nowMs: number): number {
  return Math.max(nowMs, ...[own?.doc.seq ?? 0, ...laterSeqs].map((seq) => seq + 1));
}

function takeDocument(
  row: PeerHomeRow | undefined,
  { home, via }: ShownHome,
  { peerKeys, nowMs }: HomeFacts,
): Pick<HeardHome, 'row' | 'fault'> {
  if (home === undefined || (isObject(home) && home['doc'] === undefined && home['sig'] === undefined)) return { row };
  const present = peerKeys.find(({ retiredAtMs }) => retiredAtMs === null)?.publicKey;
  const { doc } = isObject(home) ? home : {};
  const { host_pubkey: key, seq } = isObject(doc) ? doc : {};
  const held = row?.held?.hostPubkey === present ? row?.held : undefined;
  // Of a key that it gave up it may still have been on its way; an older one is no news, and not worth a verification.
  if (key !== present && peerKeys.some(({ publicKey }) => publicKey === key)) return { row };
  if (held && key === present && typeof seq === 'number' && seq < held.seq) return { row };
  const text = canonicalBytesIfAny(doc)?.toString('utf8');
  if (held && text === held.doc) return { row };
  const read = readHomeRelays(home, present as PublicKey);
  if (typeof read === 'string') return { row, fault: read };
  if (held && read.doc.seq === held.seq)
    return { row: row?.twin?.seq === held.seq ? row : { ...row, twin: { seq: held.seq, atMs: nowMs } } };
  const relays = read.doc.relays.map(({ relay_pubkey, url }) => ({ relay_pubkey, url }));
  const known = { hostPubkey: read.doc.host_pubkey, seq: read.doc.seq, relays, doc: text ?? '', sig: read.sig };
  return { row: { ...row, held: { ...known, learnedAtMs: nowMs, via } } };
}

/** What came last holds: a peer that was set back to a copy is told again. */
function hearKnown(
  row: PeerHomeRow | undefined,
  { home, via, by }: ShownHome,
  { own, nowMs }: HomeFacts,
): PeerHomeRow | undefined {
  // Of mail and receipts it may have been left out, for want of room.
  if (home === undefined && by.type !== 'lan' && by.type !== 'answer') return row;
  const said = isObject(home) ? home['known'] : undefined;
  const isSeq = Number.isSafeInteger(said) && (said as number) > 0 && (said as number) <= nowMs + AHEAD_MAX_MS;
  const known = isSeq ? (said as number) : undefined;
  if (known === row?.knownOurs) return row;
  if (known === undefined) {
    const { knownOurs: _knownOurs, ...others } = row ?? {};
    return others;
  }
  const isLater = known > (own?.doc.seq ?? 0);
  if (isLater && by.type === 'answer') return row;
  return { ...row, knownOurs: known, ...(isLater && { later: { seq: known, atMs: nowMs, via } }) };
}

function countUnanswered(
  row: PeerHomeRow | undefined,
  { by }: ShownHome,
  { own, nowMs }: HomeFacts,
): PeerHomeRow | undefined {
  const told = row?.told;
  if (!told || told.seq !== own?.doc.seq || row.knownOurs === told.seq || told.unanswered >= UNANSWERED_MAX) return row;
  const isConfirmed =
    by.type === 'confirmation'
      ? by.sentMs >= told.sinceMs
      : by.type === 'message' && nowMs - told.sinceMs >= HEARD_WITHIN_MS;
  return isConfirmed ? { ...row, told: { ...told, unanswered: told.unanswered + 1 } } : row;
}

/** False also when the clock was set back behind it. */
function isWithin(spanMs: number, sinceMs: number, nowMs: number): boolean {
  return nowMs >= sinceMs && nowMs - sinceMs < spanMs;
}
