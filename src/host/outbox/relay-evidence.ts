/** The evidence against relays, for the owner of this host: lists it, shows a piece as it is exported, dismisses it. */
import type { RelayEvidence } from '../../protocol/evidence.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import type { HostContext } from '../base/context.ts';
import type { EvidenceInput, EvidenceResult, EvidenceShowResult, EvidenceView } from '../contract/relays.ts';
import { evidenceClause, evidenceText, hostsOf, showsTwoHistories } from '../core/evidence-text.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { EvidenceRow, KeptEvidence } from '../core/relay-trust.ts';
import type { Reader } from '../store/host-store.ts';
import { hostNamesIn, evidenceOfAll, putDismissed } from './trust-rows.ts';

/** The oldest first. */
export function listEvidence(context: HostContext): Promise<EvidenceResult> {
  return context.store.read(async (reader) => ({
    evidence: (await evidenceOfAll(reader)).map((row) => viewOf(reader, row)),
  }));
}

export function showEvidence(context: HostContext, { number }: EvidenceInput): Promise<EvidenceShowResult | Refusal> {
  return context.store.read(async (reader) => {
    const row = await evidenceNumbered(reader, number);
    return row ? { evidence: viewOf(reader, row), document: evidenceDocument(row) } : noSuchEvidence(number);
  });
}

/** Ends the warnings about it; the row stays. */
export function dismissEvidence(context: HostContext, { number }: EvidenceInput): Promise<EvidenceView | Refusal> {
  return context.store.transact(async (tx) => {
    const row = await evidenceNumbered(tx, number);
    return row ? viewOf(tx, putDismissed(tx, context, row)) : noSuchEvidence(number);
  });
}

/** What the owner has not dismissed, of one relay: its number, what the relay did, and whether signatures show it. */
export async function openEvidence(
  reader: Reader,
  relayPubkey: PublicKey,
): Promise<{ number: number; clause: string; isTwoHistories: boolean }[]> {
  const hostOf = hostNamesIn(reader);
  const open = (await evidenceOfAll(reader)).filter(
    (row) => row.relayPubkey === relayPubkey && row.dismissedAtMs === null,
  );
  return open.map((row) => ({
    number: row.number,
    clause: evidenceClause(row, hostOf),
    isTwoHistories: showsTwoHistories(row),
  }));
}

async function evidenceNumbered(reader: Reader, number: number): Promise<KeptEvidence | undefined> {
  return (await evidenceOfAll(reader)).find((row) => row.number === number);
}

function noSuchEvidence(number: number): Refusal {
  return refusal('NO_SUCH_ROW', `There is no evidence ${number}: see poste relay evidence.`, { number });
}

function viewOf(reader: Reader, row: KeptEvidence): EvidenceView {
  const hostOf = hostNamesIn(reader);
  return {
    number: row.number,
    digest: row.digest,
    relay_pubkey: row.relayPubkey,
    fingerprint: displayFingerprint(row.relayPubkey),
    epoch: row.epoch,
    kind: row.kind,
    signed: row.isSigned,
    sentence: evidenceText(row, hostOf),
    hosts: hostsOf(row, hostOf),
    item_id: row.item?.itemId ?? null,
    found_at: isoTime(row.foundAtMs),
    dismissed_at: isoTimeOrNull(row.dismissedAtMs),
  };
}

/** As it is exported. */
export function evidenceDocument({ kind, relayPubkey, notes, proof }: EvidenceRow): RelayEvidence {
  const knew = notes.flatMap((note) => note.knew ?? []);
  return {
    v: 1,
    type: 'relay-evidence',
    kind,
    relay_pubkey: relayPubkey,
    notes: notes.map(({ note }) => note),
    ...(knew.length > 0 && { knew }),
    ...(proof.length > 0 && { proof }),
  };
}
