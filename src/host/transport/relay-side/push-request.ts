/** One request with rows for a relay, in the words of its protocol, and what its answer makes happen to each of them. */
import { encodeBase64 } from '../../../protocol/base64.ts';
import type { Epoch } from '../../../protocol/epoch.ts';
import type { PublicKey } from '../../../protocol/public-key.ts';
import type { OutboxHappening } from '../../core/outbox.ts';
import { happeningOfResult } from '../../core/push-result.ts';
import type { OutboxRow } from '../../core/rows.ts';
import type { ItemToPush } from '../relay-client.ts';
import type { RelayProblem } from '../relay-request.ts';
import type { V1Stored } from '../relay-v1-client.ts';
import type { RelaySession, V1Session, V2Session } from './relay-session.ts';

/** A row whose bytes may leave. */
export interface Pushed {
  row: OutboxRow;
  targetPubkey: PublicKey;
  wire: Buffer;
}

export interface PushAnswer {
  /** For each of the rows, in their order. */
  happenings: OutboxHappening[];
  /** The relay's, as far as it says. */
  epoch: Epoch;
  /** The relay took some and wants to be left alone: a limit of v1. */
  stopped?: RelayProblem | undefined;
}

/** Throws `RelayCallFailed`. */
export function requestPush(session: RelaySession, rows: readonly Pushed[], nowMs: number): Promise<PushAnswer> {
  return session.protocol === 2 ? pushInV2(session, rows, nowMs) : pushInV1(session, rows);
}

async function pushInV2(
  { client, scope, retentionMs }: V2Session,
  rows: readonly Pushed[],
  nowMs: number,
): Promise<PushAnswer> {
  const items = rows.map(({ row, targetPubkey, wire }): ItemToPush => {
    const targets = [{ host_pubkey: targetPubkey, wire_b64: encodeBase64(wire) }];
    return { kind: row.kind, item_id: row.itemId, targets };
  });
  const answer = await client.push(items);
  const epoch = answer.epoch as Epoch;
  const { relayPubkey, hostPubkey: senderPubkey } = scope;
  const happenings = rows.map(({ row, targetPubkey }, at) => {
    const { itemId, wireHash } = row;
    const asked = { relayPubkey, epoch, senderPubkey, itemId, targetPubkey, wireHash };
    return happeningOfResult(answer.results[at] ?? { status: '' }, asked, { retentionMs, nowMs });
  });
  return { happenings, epoch };
}

/** The wire bytes are the canonical form of the envelope, so the relay makes the same of what is parsed of them. */
async function pushInV1({ client, scope }: V1Session, rows: readonly Pushed[]): Promise<PushAnswer> {
  const { results, stopped } = await client.push(rows.map(({ wire }) => JSON.parse(wire.toString('utf8')) as unknown));
  const happenings = rows.map(({ row }, at) => happeningInV1(results[at], row));
  return { happenings, epoch: scope.epoch, stopped };
}

function happeningInV1(result: V1Stored | undefined, { itemId }: OutboxRow): OutboxHappening {
  if (!result) return { type: 'relay-failed', reason: 'the relay stopped at a limit before it' };
  if (result.error !== undefined && result.error !== '')
    return { type: 'relay-refused', code: result.error.slice(0, 100) };
  if (result.id !== itemId) return { type: 'relay-failed', reason: 'the relay gave no result for it' };
  return { type: 'relay-stored' };
}
