/** Notes that a relay signed, and what a host knows of it after a look that a test makes up. */
import { type EvidenceRow, NEW_TRUST } from '../../src/host/core/relay-trust.ts';
import { applyLook, trustIn } from '../../src/host/outbox/trust-rows.ts';
import type { HostContext } from '../../src/host/base/context.ts';
import { signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { type Sha256Hex, sha256Hex } from '../../src/protocol/encodings.ts';
import { KNEW_BYTES, type SeenEntry, afterOf } from '../../src/protocol/seen.ts';
import { epochNumbered } from './epochs.ts';
import { relay } from './hosts.ts';

const EPOCH = epochNumbered(1);
const KNEW = Buffer.alloc(KNEW_BYTES, 9);
const ROOT = Buffer.alloc(32, 7);

export function seenEntry(size: number, at = relay): SeenEntry {
  const parts = { epoch: EPOCH, size, rootHash: ROOT, after: afterOf(KNEW) };
  return { relay: at.key, checkpoint: signCheckpoint(parts, at.signer), knew: KNEW.toString('base64') };
}

/** An entry of the same size, of another history. */
export function forkedEntry(size: number): SeenEntry {
  const parts = { epoch: EPOCH, size, rootHash: Buffer.alloc(ROOT.length, 9), after: afterOf(KNEW) };
  return { ...seenEntry(size), checkpoint: signCheckpoint(parts, relay.signer) };
}

/** The host has looked: the newest note has `size` leaves, and each of `contradict` is evidence. */
export async function looked(
  context: HostContext,
  size: number,
  contradict: readonly number[] = [],
  at = relay,
): Promise<void> {
  const state = { ...(await context.store.read((reader) => trustIn(reader, at.key))), rows: [] };
  const { checkpoint: note, knew } = seenEntry(size, at);
  const root = ROOT.toString('hex') as Sha256Hex;
  const evidence = contradict.map((nth): EvidenceRow => {
    const notes = [{ note: seenEntry(nth).checkpoint, knew: seenEntry(nth).knew, peerId: null }];
    const found = { isSigned: true, notes, proof: [], foundAtMs: context.nowMs(), dismissedAtMs: null };
    return { ...found, kind: 'fork', digest: sha256Hex(`${nth}`), relayPubkey: relay.key, epoch: EPOCH };
  });
  const outcome = {
    trust: { ...NEW_TRUST, current: EPOCH, looks: state.trust.looks + 1 },
    kept: [{ epoch: EPOCH, size, root, note, knew, atMs: context.nowMs() }],
    evidence,
  };
  const nothing = { isEnded: true, pendingOver: [], rows: [], pushAgain: false, isOwed: false, isSoon: false };
  await context.store.transact((tx) => applyLook(tx, context, state, { ...nothing, ...outcome }));
}
