/**
 * The relays that this host uses; the documents of home relays, this host's own and those of paired hosts
 * (core/home-documents.ts decides); and the paired hosts with which this host shares no relay, of which the owner gets
 * one message. Only this file writes the rows of documents, and nothing here calls an address: the owner alone adds a
 * relay.
 *
 * Invariants: the own document is signed by the present key, and is made anew in the transaction that changes the
 * relays or the key; a host that never had two relays has none, unless a peer shows that it had one. What a peer showed
 * is stored in the transaction of what brought it, and nothing is sent for it.
 */
import { isDeepStrictEqual } from 'node:util';
import type { HomeRelay, ReceiptParties } from '../../protocol/documents.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import { HOME_RELAYS_MAX, isHomeUrl, signHomeRelays } from '../../protocol/home-relays.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { type HostContext, ofEachContext } from '../base/context.ts';
import {
  type HomeDocumentRow,
  type PeerHomeRow,
  type SaidHome,
  type ShownHome,
  afterTelling,
  hearHome,
  nextHomeSeq,
  saidTo,
} from '../core/home-documents.ts';
import { isLeft } from '../core/relay-move.ts';
import { type PeerId, type PeerRow, type SealKey, type OutboxRow, OWNER_ID } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { Sealed } from '../wire/sealing.ts';
import { HOME_SEAL, OpenedLast, openInReceipt, SealedAhead, sealInReceipt } from './receipt-seals.ts';
import { shellWord } from '../../lib/shell-word.ts';
import type { RelayOfHost } from '../contract/relays.ts';
import { relaysOfPeer, type RelayRole, type RelayRow } from '../core/relay-rows.ts';
import { type RelayFacts, wayOfMail } from '../core/transport-choice.ts';
import { reportToAgent } from '../mailbox/mailbox.ts';

export interface OwnRelay {
  row: RelayRow;
  /** Its place in the owner's order: 0 for the first home. */
  rank: number;
  role: RelayRole;
}

/** All of them, in the owner's order. */
export async function ownRelays(reader: Reader): Promise<OwnRelay[]> {
  const first = reader.get('relay');
  const found: OwnRelay[] = first ? [{ row: first, rank: 0, role: 'home' }] : [];
  for await (const { row: further } of reader.range('relayMore', [])) {
    const { rank, role, ...row } = further;
    found.push({ row, rank, role });
  }
  return found.toSorted((a, b) => a.rank - b.rank);
}

/** Undefined when this host uses no relay of this key. */
export function relayRowOf(reader: Reader, relayPubkey: PublicKey): RelayRow | undefined {
  const first = reader.get('relay');
  return first?.pubkey === relayPubkey ? first : reader.get('relayMore', relayPubkey);
}

/** Writes the row of a relay that is in use already. */
export function putRelayRow(tx: Transaction, row: RelayRow): void {
  if (tx.get('relay')?.pubkey === row.pubkey) tx.put('relay', [], row);
  else {
    const further = tx.get('relayMore', row.pubkey);
    if (further) tx.put('relayMore', [row.pubkey], { ...row, rank: further.rank, role: further.role });
  }
}

/** The relays at which a peer takes mail, in its order; undefined when it showed no document. Empty: the LAN alone. */
export function homeOf(reader: Reader, peerId: PeerId): readonly HomeRelay[] | undefined {
  return reader.get('peerHome', peerId)?.held?.relays;
}

/** This host's own document. */
export function ownHome(reader: Reader): HomeDocumentRow | undefined {
  return reader.get('homeDocument');
}

/** What is known of the documents of a peer and of this host there. */
export interface PeerHome {
  peerId: PeerId;
  row: PeerHomeRow;
  /** It showed that it holds the present document of this host. */
  knowsOurs: boolean;
}

/** Of all peers that showed a document, or what they know. */
export async function peerHomes(reader: Reader): Promise<PeerHome[]> {
  const seq = ownHome(reader)?.doc.seq;
  const found: PeerHome[] = [];
  for await (const { key, row } of reader.range('peerHome', []))
    found.push({ peerId: key[0], row, knowsOurs: seq !== undefined && row.knownOurs === seq });
  return found;
}

/** What this host tells a peer, or a host that it pairs with, of its relays now; undefined for nothing. */
export function homeFor(reader: Reader, context: HostContext, peerId: PeerId | undefined): SaidHome | undefined {
  return saidTo(ownHome(reader), peerId && reader.get('peerHome', peerId), context.nowMs());
}

/** This was put into mail or a receipt for the peer. */
export function noteTold(tx: Transaction, context: HostContext, peerId: PeerId, said: SaidHome): void {
  const row = tx.get('peerHome', peerId);
  putPeerHome(tx, peerId, row, afterTelling(row, said, context.nowMs()));
}

interface Shown {
  sealed: SealedAhead;
  /** Many receipts carry the same. */
  opened: OpenedLast<unknown>;
  /** When a document of a peer was last logged as bad, by the clock that never goes back. */
  badAtMs: Map<PeerId, number>;
}

const shownBy = ofEachContext(
  (): Shown => ({ sealed: new SealedAhead(), opened: new OpenedLast(), badAtMs: new Map() }),
);

/**
 * Seals what the next receipts for mail under `to`, a key of the peer, say: once for each content. `shown`: the peer
 * shows this with the mail. Undefined where that is done, and where there is nothing to say.
 */
export function sealHomeForReceipts(
  reader: Reader,
  context: HostContext,
  peer: PeerRow,
  to: PublicKey,
  shown?: ShownHome,
): Promise<void> | undefined {
  const row = shown ? hear(reader, context, peer.peerId, shown)?.row : reader.get('peerHome', peer.peerId);
  const said = saidTo(ownHome(reader), row, context.nowMs());
  const parties = { host_pubkey: context.identity().signer.publicKey, sender_host_pubkey: to };
  const seal = (): Promise<Sealed> => sealInReceipt(HOME_SEAL, said, parties, peer.encKey.encPub);
  return said && shownBy(context).sealed.prepare(context, peer, to, contentOf(said), seal);
}

/** What a receipt says that is written now, as it was sealed before; undefined where something else was. */
export function homeForReceipt(
  tx: Transaction,
  context: HostContext,
  peer: PeerRow,
  { host_pubkey: from, sender_host_pubkey: to }: ReceiptParties,
): Sealed | undefined {
  const said = homeFor(tx, context, peer.peerId);
  const sealed = said && shownBy(context).sealed.get(peer, from, to, contentOf(said));
  if (said && sealed) noteTold(tx, context, peer.peerId, said);
  return sealed;
}

/** A document has one signature. */
function contentOf({ sig, known }: SaidHome): readonly unknown[] {
  return [sig, known];
}

/** What the receipt of a peer says; undefined where it does not open. */
export function openedHome(
  context: HostContext,
  peerId: PeerId,
  rec: ReceiptParties & { home?: unknown },
  keys: readonly SealKey[],
): Promise<unknown> {
  const { home } = rec;
  return shownBy(context).opened.get(peerId, home, () => openInReceipt(HOME_SEAL, home, rec, keys));
}

/** Takes what a peer showed, in the transaction of what brought it. A document that does not count costs itself. */
export async function takeHome(tx: Transaction, context: HostContext, peerId: PeerId, shown: ShownHome): Promise<void> {
  const heard = hear(tx, context, peerId, shown);
  if (!heard) return;
  const before = tx.get('peerHome', peerId);
  putPeerHome(tx, peerId, before, heard.row);
  if (heard.row?.knownOurs !== before?.knownOurs) tx.afterCommit(() => context.emit({ type: 'home-heard' }));
  if (heard.fault) logBad(tx, context, peerId, heard.fault);
  if (heard.isBehind) await renewOwnHome(tx, context, { isBehind: true });
}

function hear(
  reader: Reader,
  context: HostContext,
  peerId: PeerId,
  shown: ShownHome,
): ReturnType<typeof hearHome> | undefined {
  const peer = reader.get('peer', peerId);
  if (peer?.unpairedAtMs !== null) return undefined;
  const facts = { peerKeys: peer.keys, own: ownHome(reader), nowMs: context.nowMs() };
  return hearHome(reader.get('peerHome', peerId), shown, facts);
}

/** True when the owner was told of the relays of the peer's document, or when it showed none. */
function isReported(reader: Reader, peerId: PeerId): boolean {
  const { held, reported } = reader.get('peerHome', peerId) ?? {};
  return !held || (reported?.hostPubkey === held.hostPubkey && reported.seq === held.seq);
}

function noteReported(tx: Transaction, peerId: PeerId): void {
  const row = tx.get('peerHome', peerId);
  if (!row?.held) return;
  const { hostPubkey, seq } = row.held;
  tx.put('peerHome', [peerId], { ...row, reported: { hostPubkey, seq } });
}

/** The pairing ended. */
export function dropPeerHome(tx: Transaction, peerId: PeerId): void {
  if (tx.get('peerHome', peerId)) tx.delete('peerHome', [peerId]);
}

function putPeerHome(
  tx: Transaction,
  peerId: PeerId,
  before: PeerHomeRow | undefined,
  after: PeerHomeRow | undefined,
): void {
  if (after && after !== before) tx.put('peerHome', [peerId], after);
}

/**
 * Signs this host's document anew where its relays or its key are others than in the last one. `isBehind`: a peer holds
 * a later one, so this host was set back to a copy.
 */
export async function renewOwnHome(
  tx: Transaction,
  context: HostContext,
  { signer = context.identity().signer, isBehind = false }: { signer?: Signer; isBehind?: boolean } = {},
): Promise<void> {
  const own = ownHome(tx);
  const all = await ownRelays(tx);
  if (!own && all.length < 2 && !isBehind) return;
  const move = tx.get('relayMove');
  const isNewThere = all.some(({ row }) => row.pubkey === move?.to.pubkey);
  const homes = all.filter(({ row, role }) => role === 'home' && !(isNewThere && isLeft(move, row.pubkey)));
  const shown = homes.filter(isShown).slice(0, HOME_RELAYS_MAX);
  const relays = shown.map(({ row }) => ({ relay_pubkey: row.pubkey, url: row.url }));
  const isSame = own?.doc.host_pubkey === signer.publicKey && isDeepStrictEqual(own.doc.relays, relays);
  if (isSame && !isBehind) return;
  const nowMs = context.nowMs();
  const laterSeqs = (await peerHomes(tx)).map(({ row }) => row.later?.seq ?? 0);
  const signed = signHomeRelays(signer, { seq: nextHomeSeq(own, laterSeqs, nowMs), relays });
  tx.put('homeDocument', [], { ...signed, madeAtMs: nowMs });
  tx.afterCommit(() => {
    for (const { row } of homes.filter((relay) => !shown.includes(relay)))
      context.log('warn', 'paired hosts are not told of a relay: its address is too long', { url: row.url });
    context.emit({ type: 'home-changed' });
  });
}

/** A relay of v1 proves nothing, and no other host could use an address that a document may not have. */
function isShown({ row }: OwnRelay): boolean {
  return !row.isV1 && isHomeUrl(row.url) && isAcceptablePoint(row.pubkey);
}

function logBad(tx: Transaction, context: HostContext, peerId: PeerId, reason: string): void {
  const { badAtMs } = shownBy(context);
  const nowMs = context.monotonicMs();
  if (nowMs - (badAtMs.get(peerId) ?? Number.NEGATIVE_INFINITY) < DAY_MS) return;
  const host = tx.get('peer', peerId)?.hostName;
  tx.afterCommit(() => {
    badAtMs.set(peerId, nowMs);
    context.log('warn', 'a paired host showed relays of its own in a document that does not count', { host, reason });
  });
}

/** Mail waits so long before the owner is told. */
const REPORT_AFTER_MS = 600_000;

/** The relays at which a host takes mail, as it says. */
export interface PeerHomes {
  /** Undefined when it said nothing. Empty: the LAN alone. */
  relays: RelayOfHost[] | undefined;
  /** It takes mail at no relay of this host. One that it left may still have it enrolled. */
  isNoneShared: boolean;
}

export function homesOf(reader: Reader, peer: PeerRow): PeerHomes {
  const isOwn = (key: PublicKey): boolean => relayRowOf(reader, key) !== undefined;
  const relays = homeOf(reader, peer.peerId)?.map(({ relay_pubkey: key, url }) => {
    return { url, fingerprint: displayFingerprint(key), is_shared: isOwn(key) };
  });
  const isListed = relays === undefined || relays.some((relay) => relay.is_shared);
  const isNoneShared = !isListed && (relays.length === 0 || !relaysOfPeer(peer).some(isOwn));
  return { relays, isNoneShared };
}

/** Where the host takes mail, while this host knows no way for mail that is sent now. `facts`: of the relays. */
export function takesMailAt(
  peer: PeerRow,
  { relays, isNoneShared }: PeerHomes,
  facts: RelayFacts | null | 'unknown',
): { takes_mail_at?: RelayOfHost[] } {
  return relays && wayOfMail(peer, isNoneShared ? null : facts) === 'none' ? { takes_mail_at: relays } : {};
}

/**
 * Tells the owner, once for each document of the host, when a message that waits for it has had no way for so long.
 * Returns the row, which is due no later than that.
 */
export function reportNoCommonRelay(tx: Transaction, context: HostContext, row: OutboxRow, peer: PeerRow): OutboxRow {
  const { peerId } = peer;
  if (row.kind !== 'envelope' || row.state !== 'pending' || isReported(tx, peerId)) return row;
  const { relays = [], isNoneShared } = homesOf(tx, peer);
  if (!isNoneShared || relays.length === 0) return row;
  const leftMs = REPORT_AFTER_MS - (context.nowMs() - context.momentMs(row.createdAtMs));
  if (leftMs > 0) return { ...row, nextAtMs: Math.min(row.nextAtMs ?? Infinity, context.nowMs() + leftMs) };
  noteReported(tx, peerId);
  reportToAgent(tx, context, OWNER_ID, { ...reportText(peer.hostName, relays), kind: 'status' });
  return row;
}

/** The addresses are the other host's words: printable ASCII, as its document was parsed. */
function reportText(host: string, relays: readonly RelayOfHost[]): { subject: string; body: string } {
  const commands = relays.map(
    ({ url, fingerprint }) => `    poste relay add ${shellWord(url)} --key ${fingerprint} --guest\n`,
  );
  return {
    subject: `No common relay with ${host}`,
    body:
      `Mail for ${host} waits: the LAN does not reach it, and this host uses no relay where ${host} takes mail. ` +
      `${host} says that it takes mail at what stands below. These are its words: this host checked nothing of them ` +
      'and called no address. If you know the relay, one command lets this host write there:\n\n' +
      `${commands.join('')}\n` +
      'Its operator sees the addresses, subjects, sizes and times of that mail, and never a body.',
  };
}

/** What the sender of a message that is not delivered is told besides; empty when some relay is shared. */
export function elsewhereSentence(reader: Reader, peer: PeerRow): string {
  const { relays = [], isNoneShared } = homesOf(reader, peer);
  const at = relays.map(({ url, fingerprint }) => `${url} (${fingerprint})`).join(', ');
  return !isNoneShared || at === '' ? '' : `There is no common relay; ${peer.hostName} takes mail at ${at}.`;
}
