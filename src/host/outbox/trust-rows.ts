/**
 * The rows that hold what this host knows of the logs of its relays: the notes that a relay signed for it, the state of
 * its looks, the notes that paired hosts showed it, and evidence, of which the owner of this host gets messages. Only
 * this file writes them. They stay when another relay is pinned.
 *
 * Invariants:
 *   - what a look found is written as a whole, and only over the state that the look began with;
 *   - of evidence a signed contradiction gives way to nothing, and words without proof to signed ones.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Epoch } from '../../protocol/names.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';
import { lastOf } from '../core/look-draft.ts';
import {
  type EvidenceRow,
  type KeptEvidence,
  LEFT_EPOCHS_MAX,
  type LookOutcome,
  NEW_TRUST,
  type TrustState,
} from '../core/relay-trust.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { KeyStart, Tables } from '../store/tables.ts';
import { afterAttempt } from './outbox.ts';
import { evidenceAlert, type HostOf, isToAlert, setBackReport } from '../core/evidence-text.ts';
import { OWNER_ID } from '../core/rows.ts';
import { reportToAgent } from '../mailbox/mailbox.ts';
import { relayRowOf } from './homes.ts';

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

/** Other evidence is told once this is stored. A reader that began before has the row before, and what goes with it. */
function tellEvidence(tx: Transaction, context: HostContext, relayPubkey: PublicKey): void {
  const look = tx.get('relayTrust', relayPubkey);
  if (look) tx.put('relayTrust', [relayPubkey], { ...look });
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

/** Keeps what a paired host showed of a relay, in the transaction of the mail that brought it. */
export async function putShown(
  tx: Transaction,
  context: HostContext,
  relayPubkey: PublicKey,
  { pending, evidence }: { pending?: Tables['pendingNote'] | undefined; evidence: readonly EvidenceRow[] },
): Promise<void> {
  if (pending) tx.put('pendingNote', [relayPubkey, pending.peerId, pending.epoch], pending);
  await putEvidence(tx, context, relayPubkey, evidence);
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

/** `known`: evidence against the same relay from before. `number`: as the list has it. */
function alertOfEvidence(
  tx: Transaction,
  context: HostContext,
  row: EvidenceRow,
  { known, number }: { known: readonly EvidenceRow[]; number: number },
): void {
  if (!isToAlert(row, known)) return;
  const relay = relayNameIn(tx, row.relayPubkey);
  const alert = evidenceAlert(row, { relay, number, hostOf: hostNamesIn(tx) });
  reportToAgent(tx, context, OWNER_ID, { ...alert, kind: 'alert' });
}

function reportSetBack(
  tx: Transaction,
  context: HostContext,
  relayPubkey: PublicKey,
  setBack: NonNullable<LookOutcome['setBack']>,
): void {
  const report = setBackReport(setBack, relayNameIn(tx, relayPubkey));
  reportToAgent(tx, context, OWNER_ID, { ...report, kind: 'status' });
}

/** The address of a relay that is in use, the fingerprint of another one. */
function relayNameIn(reader: Reader, relayPubkey: PublicKey): string {
  return relayRowOf(reader, relayPubkey)?.url ?? displayFingerprint(relayPubkey);
}

export function hostNamesIn(reader: Reader): HostOf {
  return (peerId) => reader.get('peer', peerId)?.hostName ?? 'a host that is unknown by now';
}
