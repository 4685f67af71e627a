/**
 * What this host shows its peers of the logs of its relays, in mail and in delivery receipts, and hears of theirs. For
 * receipts it is sealed once a look at the relay to which they are pushed first, and again when evidence comes. The
 * rows are those of trust-rows.ts.
 *
 * What a peer showed and this host has, it names by its mark in the next thing that goes there, once for each time
 * that it came: the peer then shows it no more in mail and receipts. Nothing of that is stored. What is forgotten, or
 * lost on the way, is shown again, and named again.
 *
 * Invariant: a note of a paired host and the mail that brought it are written in one transaction.
 */
import type { ReceiptParties } from '../../protocol/documents.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { afterOf, markOf, parseSeen, SEEN_ENTRIES_MAX, type SeenEntry } from '../../protocol/seen.ts';
import { type HostContext, ofEachContext } from '../base/context.ts';
import type { PeerId, PeerRow, SealKey } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { openInReceipt, SEEN_SEAL, sealInReceipt, OpenedLast, SealedAhead } from './receipt-seals.ts';
import { homeOf, relayRowOf } from './homes.ts';
import { evidenceIn, putShown, trustIn } from './trust-rows.ts';
import { hear, isAllHeard, newestNoteOf, seenFor, type ToldNote, toldNoteOf } from '../core/heard-notes.ts';
import { relaysOfPeer } from '../core/relay-rows.ts';
import type { EvidenceRow, KeptNote, LookFacts, RelayTrustRow } from '../core/relay-trust.ts';

interface Shown {
  /** The messages and answers to a peer, counted: what contradicts itself is shown in turn. */
  turns: Map<PeerId, number>;
  /** By the relay to which receipts are pushed first. */
  sealed: Map<PublicKey | undefined, SealedAhead>;
  /** Until its next look the receipts of a peer show the same. */
  opened: OpenedLast<SeenEntry[]>;
  /** The marks of what peers showed, to be said to them. */
  toSay: Map<PeerId, string[]>;
}

const shownBy = ofEachContext(
  (): Shown => ({ turns: new Map(), sealed: new Map(), opened: new OpenedLast(), toSay: new Map() }),
);

/**
 * What the next message to a peer shows, or the next answer over the LAN: there it is all of it (`isUnheard` is false),
 * as no relay can keep any of it back, and no message waits for it.
 */
export function nextSeen(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  { isUnheard }: { isUnheard: boolean },
): Promise<SeenEntry[]> {
  const { turns } = shownBy(context);
  const turn = turns.get(peer.peerId) ?? 0;
  turns.set(peer.peerId, turn + 1);
  return seenForPeer(reader, context, peer, turn, { isUnheard });
}

/** Takes what a peer showed of relays, and what it says that it has heard, in the transaction of what brought it. */
export async function takeSeen(
  tx: Transaction,
  context: HostContext,
  peerId: PeerId,
  { entries, heard }: { entries: readonly SeenEntry[]; heard: readonly string[] },
): Promise<void> {
  if (heard.length > 0) await noteHeard(tx, context, peerId, heard);
  const taken = await hearSeen(tx, context, peerId, entries);
  if (taken.length === 0) return;
  // Only what is stored by then is heard: the peer may show it no more.
  tx.afterCommit(() => {
    const { toSay } = shownBy(context);
    toSay.set(peerId, newestMarks(taken.map(markOf), toSay.get(peerId)));
  });
}

/**
 * The marks of what a peer showed since this was last asked for it, and those that an item said whose place this one
 * takes. Undefined where there are none.
 */
export function marksToSay(context: HostContext, peerId: PeerId, before: readonly string[] = []): string[] | undefined {
  const { toSay } = shownBy(context);
  const marks = newestMarks(toSay.get(peerId) ?? [], before);
  toSay.delete(peerId);
  return marks.length > 0 ? marks : undefined;
}

function newestMarks(newer: readonly string[], older: readonly string[] = []): string[] {
  return [...new Set([...newer, ...older])].slice(0, SEEN_ENTRIES_MAX);
}

/**
 * Seals what the next receipts for mail under `to`, a key of the peer, show, which the relay `over` brought. Undefined
 * where that is done, or the peer has heard it, and where this host uses no relay: then none carries its receipts, so
 * they need not hide from it whether they show anything.
 */
export function sealForReceipts(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  to: PublicKey,
  over?: PublicKey,
): Promise<void> | undefined {
  const { sealed } = shownBy(context);
  const relay = relayOfReceipts(reader, peer, over);
  if (!relay && !reader.get('relay')) {
    sealed.clear();
    return undefined;
  }
  if (relay && hasHeardAll(reader, context, peer.peerId, relay)) return undefined;
  const parties = { host_pubkey: context.identity().signer.publicKey, sender_host_pubkey: to };
  // In this state of the looks at the relay it shows the same.
  const look = relay && reader.get('relayTrust', relay);
  const ahead = sealed.get(relay) ?? new SealedAhead();
  sealed.set(relay, ahead);
  return ahead.prepare(context, peer, to, [look], async (turn) => {
    const [entry] = await seenForPeer(reader, context, peer, turn, { relays: relay ? [relay] : [] });
    return sealInReceipt(SEEN_SEAL, entry, parties, peer.encKey.encPub);
  });
}

/** The relay that brought the message, or over which the peer prefers its mail. */
function relayOfReceipts(reader: Reader, peer: PeerRow, over: PublicKey | undefined): PublicKey | undefined {
  const shared = sharedRelays(reader, peer);
  return over && shared.includes(over) ? over : shared[0];
}

/**
 * What a receipt between these keys shows, for mail that the relay `over` brought: what was sealed last, or else what
 * the receipt showed whose place it takes. Undefined where the peer has heard it.
 */
export function seenForReceipt(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  parties: ReceiptParties,
  { over, before }: { over?: PublicKey | undefined; before?: object | undefined },
): object | undefined {
  const relay = relayOfReceipts(reader, peer, over);
  if (relay && hasHeardAll(reader, context, peer.peerId, relay)) return undefined;
  const ahead = shownBy(context).sealed.get(relay);
  return ahead?.get(peer, parties.host_pubkey, parties.sender_host_pubkey) ?? before;
}

/** What the receipt of a peer shows. What many receipts of it carry is opened once. */
export function openedSeen(
  context: HostContext,
  peerId: PeerId,
  rec: ReceiptParties & { seen?: unknown },
  keys: readonly SealKey[],
): Promise<SeenEntry[]> {
  return shownBy(context).opened.get(peerId, rec.seen, async () => {
    return parseSeen([await openInReceipt(SEEN_SEAL, rec.seen, rec, keys)]);
  });
}

/**
 * Takes note of what a paired host showed of the relays that are pinned here, as part of the transaction that receives
 * it. Entries of other relays, and those that the relay did not sign, are passed over.
 *
 * Returns those that this host then has: the others are to be shown again.
 */
export async function hearSeen(
  tx: Transaction,
  context: HostContext,
  peerId: PeerId,
  entries: readonly SeenEntry[],
): Promise<SeenEntry[]> {
  const taken: SeenEntry[] = [];
  for (const entry of entries) {
    const name = `${peerId} ${entry.relay} ${signedKnew(entry)} ${entry.checkpoint}`;
    const pinned = relayRowOf(tx, entry.relay);
    if (!pinned || pinned.isV1) continue;
    const wasTaken = heardLately(context).get(name);
    if (wasTaken) taken.push(entry);
    if (wasTaken !== undefined) continue;
    const known = await trustIn(tx, entry.relay);
    const { pending, evidence, isOwed, passedOver } = hear(known, { peerId, entry }, factsOf(context));
    await putShown(tx, context, entry.relay, { pending, evidence });
    if (!passedOver) taken.push(entry);
    tx.afterCommit(() => {
      // There may be room for it the next time.
      if (passedOver !== 'no room') heardLately(context).set(name, !passedOver);
      if (isOwed) context.emit({ type: 'relay-note-heard' });
    });
  }
  return taken;
}

/** The peer names the marks of the notes that it has heard: this host tells it no more of those. */
async function noteHeard(
  reader: Reader,
  context: HostContext,
  peerId: PeerId,
  marks: readonly string[],
): Promise<void> {
  const peer = reader.get('peer', peerId);
  for (const relayPubkey of peer ? sharedRelays(reader, peer) : []) {
    const look = reader.get('relayTrust', relayPubkey);
    const { told } = (look && (await readToldSince(reader, context, relayPubkey, look))) ?? {};
    if (told && marks.includes(told.mark)) told.heardBy.add(peerId);
  }
}

/** True when a peer need not be told of this relay, as far as this is in memory. */
function hasHeardAll(reader: Reader, context: HostContext, peerId: PeerId, relayPubkey: PublicKey): boolean {
  const look = reader.get('relayTrust', relayPubkey);
  const known = look && toldSince.get(look);
  return known !== undefined && isAllHeard(known.told, known.evidence, peerId, context.nowMs());
}

/** A host shows the same notes for minutes: they are not verified with each mail. */
const HEARD_LATELY_MAX = 512;
const heardBy = ofEachContext(() => new Map<string, boolean>());

/** Bytes that the note was not signed after say nothing, and are others each time. */
function signedKnew({ checkpoint, knew }: SeenEntry): string {
  return checkpoint.includes(`\nafter ${afterOf(Buffer.from(knew, 'base64')).toString('base64')}\n`) ? knew : '';
}

/** The notes that peers showed lately, each with whether this host took it. */
function heardLately(context: HostContext): Map<string, boolean> {
  const known = heardBy(context);
  if (known.size >= HEARD_LATELY_MAX) known.clear();
  return known;
}

/** The relays of this host that were seen to know the peer: first those that it prefers, in its order. */
export function sharedRelays(reader: Reader, peer: PeerRow): PublicKey[] {
  const shared = relaysOfPeer(peer).filter((pubkey) => relayRowOf(reader, pubkey));
  const preferred = homeOf(reader, peer.peerId)?.map(({ relay_pubkey: pubkey }) => pubkey) ?? [];
  return [...new Set([...preferred.filter((pubkey) => shared.includes(pubkey)), ...shared])];
}

/**
 * What this host tells a peer of these relays; of those that both use, where none are named. `turn` counts what is told
 * to the peer: with evidence, every other time has one of its notes. `isUnheard`: without what the peer says it heard.
 */
export async function seenForPeer(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  turn: number,
  { relays = sharedRelays(reader, peer), isUnheard = false }: { relays?: PublicKey[]; isUnheard?: boolean } = {},
): Promise<SeenEntry[]> {
  const entries: SeenEntry[] = [];
  for (const relayPubkey of relays.slice(0, SEEN_ENTRIES_MAX)) {
    const look = reader.get('relayTrust', relayPubkey);
    if (!look) continue;
    const { told, evidence } = await readToldSince(reader, context, relayPubkey, look);
    if (isUnheard && isAllHeard(told, evidence, peer.peerId, context.nowMs())) continue;
    const entry = seenFor(told, { relayPubkey, evidence }, turn, factsOf(context));
    if (entry) entries.push(entry);
  }
  return entries;
}

interface ToldSince {
  told: ToldNote | undefined;
  evidence: EvidenceRow[];
}

/** Every message tells it: it is read once for each state of the looks, of which new evidence makes another. */
const toldSince = new WeakMap<RelayTrustRow, ToldSince>();
/** What is told of a note until the next look keeps another: evidence changes neither it nor who has heard it. */
const toldNotes = new WeakMap<KeptNote, ToldNote>();

async function readToldSince(
  reader: Reader,
  context: HostContext,
  relayPubkey: PublicKey,
  look: RelayTrustRow,
): Promise<ToldSince> {
  const known = toldSince.get(look);
  if (known) return known;
  const [trust, evidence] = [await trustIn(reader, relayPubkey), await evidenceIn(reader, relayPubkey)];
  const newest = newestNoteOf(trust);
  // Another reader may have been quicker, and a peer may have said meanwhile that it heard it.
  const told = newest && (toldNotes.get(newest) ?? toldNoteOf(trust, factsOf(context)));
  if (newest && told) toldNotes.set(newest, told);
  const anew = toldSince.get(look) ?? { told, evidence };
  toldSince.set(look, anew);
  return anew;
}

function factsOf(context: HostContext): LookFacts {
  return { nowMs: context.nowMs(), randomBytes: context.randomBytes };
}
