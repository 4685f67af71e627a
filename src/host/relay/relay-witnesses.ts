/**
 * Asks the relay for its newest cosigned checkpoint, and finds which of the witnesses that the owner named cosigned it.
 *
 * A cosignature counts when the checkpoint joins the one that this host kept, and when its time is of the last hour.
 * After each look at the log that is done, and what counted last is noted in the row of the relay: so a day without a
 * cosignature is known.
 */
import { openCheckpoint, plainNote } from '../../protocol/checkpoint.ts';
import { openCosignature, parseWitnessKey } from '../../protocol/cosignature.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import { HOUR_MS } from '../../protocol/limits.ts';
import type { HostContext } from '../base/context.ts';
import type { WitnessOfRelay, RelayRow } from '../core/relay-rows.ts';
import { isPartOf } from '../core/look-questions.ts';
import { askedAll } from './look-answers.ts';
import type { RelayClient } from './relay-client.ts';
import { RelayProblem } from './relay-request.ts';
import { noteWitness } from './relay-rows.ts';

/** Clocks that differ by more say nothing about the time of a cosignature. */
export const JUDGED_SKEW_MAX_MS = 600_000;

export interface WitnessFact {
  name: string;
  /** Why it does not count, as a clause; null when it does. */
  fault: string | null;
  /** When it counted last, or when the owner named the witness. */
  lastMs: number;
  /** Says whether the log has changed since. */
  hasGrown: boolean;
}

/** Asks over `client`; throws what it throws. */
export async function witnessesAt(client: RelayClient, context: HostContext, row: RelayRow): Promise<WitnessFact[]> {
  const head = openCheckpoint(await client.logCheckpoint(), row.pubkey);
  const note = await cosignedNote(client);
  const fault = note === undefined ? 'the relay has no cosigned checkpoint' : await faultOf(client, context, row, note);
  const nowMs = context.nowMs();
  const facts: WitnessFact[] = [];
  for (const witness of row.witnesses ?? []) {
    const key = parseWitnessKey(witness.vkey);
    const timeS = key && note !== undefined ? openCosignature(note, key)?.timeS : undefined;
    const atMs = (timeS ?? 0) * 1000;
    const isYoung = nowMs - atMs < HOUR_MS && atMs - nowMs < JUDGED_SKEW_MAX_MS;
    const missing =
      timeS === undefined ? 'it did not cosign the newest one' : isYoung ? null : 'its cosignature is old';
    const last = (fault ?? missing) === null && note !== undefined ? lastOf(note, row, witness.vkey, atMs) : undefined;
    if (last && last.atMs !== witness.atMs) await context.store.transact((tx) => noteWitness(tx, row, last));
    facts.push({
      name: key?.name ?? witness.vkey,
      fault: fault ?? missing,
      lastMs: last?.atMs ?? witness.atMs,
      hasGrown: head !== undefined && (head.epoch !== witness.epoch || head.size > witness.size),
    });
  }
  return facts;
}

async function cosignedNote(client: RelayClient): Promise<string | undefined> {
  try {
    return await client.logCheckpoint({ isCosigned: true });
  } catch (error) {
    if (error instanceof RelayProblem && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/** Says why this host refuses a note before it looks at the cosignatures; null when it does not refuse it. */
async function faultOf(client: RelayClient, context: HostContext, row: RelayRow, note: string): Promise<string | null> {
  const checkpoint = plainNote(note, row.pubkey)?.checkpoint;
  if (!checkpoint) return 'the relay did not sign the cosigned checkpoint';
  const { epoch, size, rootHash } = checkpoint;
  const { kept, current } = await context.store.read((reader) => ({
    kept: reader.get('checkpoint', row.pubkey, epoch),
    current: reader.get('relayTrust', row.pubkey)?.current ?? null,
  }));
  if (current !== null && epoch !== current)
    return 'the cosigned checkpoint is of another epoch than this host is shown';
  if (!kept) return null;
  const cosigned = { epoch, size, root: rootHash.toString('hex') as Sha256Hex };
  const isJoined = await askedAll(client, size < kept.size ? isPartOf(cosigned, kept) : isPartOf(kept, cosigned));
  return isJoined ? null : 'the cosigned checkpoint does not belong to the log that this host knows';
}

function lastOf(note: string, { pubkey }: RelayRow, vkey: string, atMs: number): WitnessOfRelay | undefined {
  const checkpoint = openCheckpoint(note, pubkey);
  return checkpoint && { vkey, atMs, epoch: checkpoint.epoch, size: checkpoint.size };
}
