/**
 * The rows that hold what this host knows of the logs of its relays: the notes that a relay signed for it, the state of
 * its looks, the notes that paired hosts showed it, and evidence. Only this file writes them. They stay when another
 * relay is pinned.
 *
 * Invariants:
 *   - what a look found is written as a whole, and only over the state that the look began with;
 *   - a note of a paired host and the mail that brought it are written in one transaction;
 *   - of evidence a signed contradiction gives way to nothing, and words without proof to signed ones.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { SEEN_ENTRIES_MAX, type SeenEntry } from '../../protocol/seen.ts';
import { type HostContext, ofEachContext } from '../base/context.ts';
import { hear, isAllHeard, seenFor, type ToldNote, toldNoteOf } from '../core/heard-notes.ts';
import { lastOf } from '../core/look-draft.ts';
import {
  type EvidenceRow,
  type KeptEvidence,
  LEFT_EPOCHS_MAX,
  type LookFacts,
  type LookOutcome,
  NEW_TRUST,
  type RelayTrustRow,
  type TrustState,
} from '../core/relay-trust.ts';
import { relaysOfPeer } from '../core/relay-rows.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { relayRowOf } from '../store/own-relays.ts';
import type { KeyStart, Tables } from '../store/tables.ts';
import { homeOf } from './homes.ts';
import { alertOfEvidence, reportSetBack } from './evidence-alert.ts';
import { afterAttempt } from './outbox.ts';

/** Evidence of one relay, and of these of one epoch and kind. */
const EVIDENCE_MAX = 100;
const EVIDENCE_OF_KIND_MAX = 8;

/** What is known of a relay; its rows to be proven are not in it. */
export type KnownTrust = Omit<TrustState, 'rows'>;

export async function trustIn(reader: Reader, relayPubkey: PublicKey): Promise<KnownTrust> {
  const trust = reader.get('relayTrust', relayPubkey) ?? NEW_TRUST;
  const [kept, pending] = [
    await rowsOf(reader, 'checkpoint', relayPubkey),
    await rowsOf(reader, 'pendingNote', relayPubkey),
  ];
  return { relayPubkey, trust, kept, pending };
}

export function evidenceIn(reader: Reader, relayPubkey: PublicKey): Promise<KeptEvidence[]> {
  return rowsOf(reader, 'evidence', relayPubkey);
}

/** Against all relays, the oldest first. */
export async function evidenceOfAll(reader: Reader): Promise<KeptEvidence[]> {
  const rows: KeptEvidence[] = [];
  for await (const { row } of reader.range('evidence', [])) rows.push(row);
  return rows.toSorted((a, b) => a.number - b.number);
}

/** Returns the row as it is kept then. */
export function putDismissed(tx: Transaction, context: HostContext, row: KeptEvidence): KeptEvidence {
  const dismissed = { ...row, dismissedAtMs: row.dismissedAtMs ?? context.nowMs() };
  tx.put('evidence', [row.relayPubkey, row.digest], dismissed);
  tellEvidence(tx, context, row.relayPubkey);
  return dismissed;
}

/** These tables are small, and read as a whole they come from memory. */
async function rowsOf<T extends 'checkpoint' | 'pendingNote' | 'evidence'>(
  reader: Reader,
  table: T,
  relayPubkey: PublicKey,
): Promise<Tables[T][]> {
  const rows: Tables[T][] = [];
  for await (const { key, row } of reader.range<T>(table, [] as unknown as KeyStart<T>))
    if (key[0] === relayPubkey) rows.push(row);
  return rows;
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
    const name = `${peerId} ${entry.relay} ${entry.knew} ${entry.checkpoint}`;
    const pinned = relayRowOf(tx, entry.relay);
    if (!pinned || pinned.isV1) continue;
    const wasTaken = heardLately(context).get(name);
    if (wasTaken) taken.push(entry);
    if (wasTaken !== undefined) continue;
    const known = await trustIn(tx, entry.relay);
    const { pending, evidence, isOwed, passedOver } = hear(known, { peerId, entry }, factsOf(context));
    if (pending) tx.put('pendingNote', [entry.relay, peerId, pending.epoch], pending);
    await putEvidence(tx, context, entry.relay, evidence);
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
export async function noteHeard(
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
export function hasHeardAll(reader: Reader, context: HostContext, peerId: PeerId, relayPubkey: PublicKey): boolean {
  const look = reader.get('relayTrust', relayPubkey);
  const known = look && toldSince.get(look);
  return known !== undefined && isAllHeard(known.told, known.evidence, peerId, context.nowMs());
}

/** What a host shows stays the same for minutes: it is not verified with each mail. */
const HEARD_LATELY_MAX = 512;
const heardBy = ofEachContext(() => new Map<string, boolean>());

/** What peers showed lately, each with whether this host took it. */
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
/** The newest note of such a state. Evidence leaves it as it is, with those that have heard it. */
const newestNotes = new WeakMap<RelayTrustRow, ToldNote>();

async function readToldSince(
  reader: Reader,
  context: HostContext,
  relayPubkey: PublicKey,
  look: RelayTrustRow,
): Promise<ToldSince> {
  const known = toldSince.get(look);
  if (known) return known;
  const [trust, evidence] = [await trustIn(reader, relayPubkey), await evidenceIn(reader, relayPubkey)];
  // Another reader may have been quicker, and a peer may have said meanwhile that it heard it.
  const told = newestNotes.get(look) ?? toldNoteOf(trust, factsOf(context));
  if (told) newestNotes.set(look, told);
  const anew = toldSince.get(look) ?? { told, evidence };
  toldSince.set(look, anew);
  return anew;
}

/** Other evidence is told once this is stored. A reader that began before has the row before, and what goes with it. */
function tellEvidence(tx: Transaction, context: HostContext, relayPubkey: PublicKey): void {
  const look = tx.get('relayTrust', relayPubkey);
  if (look) {
    const withEvidence = { ...look };
    tx.put('relayTrust', [relayPubkey], withEvidence);
    const told = newestNotes.get(look);
    if (told) newestNotes.set(withEvidence, told);
  }
  tx.afterCommit(() => context.emit({ type: 'evidence-changed' }));
}

/** Writes what a look found. Writes nothing, and says so, when the state that it began with is another by now. */
export async function applyLook(
  tx: Transaction,
  context: HostContext,
  { relayPubkey, trust, rows }: TrustState,
  found: LookOutcome,
): Promise<boolean> {
  if (!isDeepStrictEqual(tx.get('relayTrust', relayPubkey) ?? NEW_TRUST, trust)) return false;
  tx.put('relayTrust', [relayPubkey], found.trust);
  for (const { epoch } of await rowsOf(tx, 'checkpoint', relayPubkey)) tx.delete('checkpoint', [relayPubkey, epoch]);
  for (const note of found.kept) tx.put('checkpoint', [relayPubkey, note.epoch], note);
  for (const over of found.pendingOver) {
    const key = [relayPubkey, over.peerId, over.epoch] as const;
    // A newer one of the peer came meanwhile.
    if (isDeepStrictEqual(tx.get('pendingNote', ...key), over)) tx.delete('pendingNote', [...key]);
  }
  await putEvidence(tx, context, relayPubkey, found.evidence);
  if (found.setBack) reportSetBack(tx, context, relayPubkey, found.setBack);
  for (const { rowId, proven, denied } of found.rows) {
    const epoch = rows.find((row) => row.rowId === rowId)?.epoch;
    if (epoch === undefined) continue;
    const at = { relayPubkey, epoch };
    if (proven) afterAttempt(tx, context, rowId, { type: 'relay-proven', ...at, proven });
    const again = denied && afterAttempt(tx, context, rowId, { type: 'relay-denied', ...at, denied });
    if (again) tx.afterCommit(() => context.emit({ type: 'outbox-changed', peerId: again.peerId }));
  }
  return true;
}

/** The relay named another epoch than this one, which it was in before. */
export function leaveEpoch(tx: Transaction, relayPubkey: PublicKey, epoch: Epoch): void {
  const trust = tx.get('relayTrust', relayPubkey) ?? NEW_TRUST;
  tx.put('relayTrust', [relayPubkey], { ...trust, left: lastOf(trust.left, epoch, LEFT_EPOCHS_MAX) });
}

/** Keeps what is new of it, as far as there is room. */
async function putEvidence(
  tx: Transaction,
  context: HostContext,
  relayPubkey: PublicKey,
  found: readonly EvidenceRow[],
): Promise<void> {
  for (const row of found) {
    const all = await evidenceOfAll(tx);
    const known = all.filter((other) => other.relayPubkey === relayPubkey);
    if (known.some(({ digest }) => digest === row.digest)) continue;
    const alike = known.filter(({ epoch, kind }) => epoch === row.epoch && kind === row.kind);
    const full = alike.length >= EVIDENCE_OF_KIND_MAX ? alike : known.length >= EVIDENCE_MAX ? known : [];
    const oldest = full.filter(({ isSigned }) => !isSigned).toSorted((a, b) => a.foundAtMs - b.foundAtMs)[0];
    if (full.length > 0 && (!oldest || !row.isSigned)) continue;
    if (oldest) tx.delete('evidence', [relayPubkey, oldest.digest]);
    // What gave way had the last number at most, and each new one is above that.
    const number = (all.at(-1)?.number ?? 0) + 1;
    tx.put('evidence', [relayPubkey, row.digest], { ...row, number });
    tellEvidence(tx, context, relayPubkey);
    alertOfEvidence(tx, context, row, { known, number });
  }
}

function factsOf(context: HostContext): LookFacts {
  return { nowMs: context.nowMs(), randomBytes: (count) => context.randomBytes(count) };
}
