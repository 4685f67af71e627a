/** Evidence as a look finds it, of notes that the test relay signed. */
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { openCheckpoint } from '../../src/protocol/checkpoint.ts';
import { type EvidenceRow, type LookOutcome, NEW_TRUST } from '../../src/host/core/relay-trust.ts';
import type { PeerId } from '../../src/host/core/rows.ts';
import type { HostContext } from '../../src/host/base/context.ts';
import { applyLook, trustIn } from '../../src/host/outbox/trust-rows.ts';
import { relay, type TestHost } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';
import { type Signed, SignedLog } from './signed-log.ts';

/** Of each note the paired host that showed it; null for one of this host. */
export function evidenceRow(
  signed: readonly (Signed & { peerId?: PeerId | null })[],
  changes: Partial<EvidenceRow> = {},
  by: TestHost = relay,
): EvidenceRow {
  const notes = signed.map(({ note, knew = null, peerId = null }) => ({ note, knew, peerId }));
  return {
    digest: sha256Hex(JSON.stringify(notes)),
    relayPubkey: by.key,
    epoch: openCheckpoint(notes[0]!.note, by.key)!.epoch,
    kind: 'fork',
    isSigned: true,
    notes,
    proof: [],
    foundAtMs: NOON_MS,
    dismissedAtMs: null,
    ...changes,
  };
}

/** Two histories of one size of an epoch; others with another number. */
export function forkRow(number = 1, changes: Partial<EvidenceRow> = {}, by: TestHost = relay): EvidenceRow {
  const log = SignedLog.begin(number, null, by).grow('a');
  return evidenceRow([log.sign(), log.copy(1).grow('b').sign()], { foundAtMs: NOON_MS + number, ...changes }, by);
}

/** Writes what a look found, as the looks do. */
export async function findEvidence(
  context: HostContext,
  evidence: readonly EvidenceRow[],
  changes: Partial<LookOutcome> = {},
  by: Pick<TestHost, 'key'> = relay,
): Promise<void> {
  await context.store.transact(async (tx) => {
    const known = await trustIn(tx, by.key);
    const outcome: LookOutcome = {
      isEnded: true,
      trust: tx.get('relayTrust', by.key) ?? NEW_TRUST,
      kept: known.kept,
      pendingOver: [],
      evidence: [...evidence],
      rows: [],
      pushAgain: false,
      isOwed: false,
      isSoon: false,
      ...changes,
    };
    await applyLook(tx, context, { ...known, rows: [] }, outcome);
  });
}
