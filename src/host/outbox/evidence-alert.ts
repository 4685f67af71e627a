/** Messages to the owner of this host about what a relay signed. */
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { HostContext } from '../base/context.ts';
import { evidenceAlert, type HostOf, isToAlert, setBackReport } from '../core/evidence-text.ts';
import type { EvidenceRow, LookOutcome } from '../core/relay-trust.ts';
import { OWNER_ID } from '../core/rows.ts';
import { reportToAgent } from '../mailbox/mailbox.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { relayRowOf } from '../store/own-relays.ts';

/** `known`: evidence against the same relay from before. `number`: as the list has it. */
export function alertOfEvidence(
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

export function reportSetBack(
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
