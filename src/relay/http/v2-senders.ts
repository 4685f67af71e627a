/** `POST /v2/relay/senders`: whose mail the caller takes from now on. */
import { type HostOperation, type RelayParts, ok } from './operation.ts';
import { SendersResponse } from '../../protocol/responses.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { SendersRequest, parserOf } from '../../protocol/schemas.ts';
import { TimeSlice } from '../engine/time-slice.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { type HopRelayRequest, refusalReply } from './route.ts';
import { isDocumentSigned } from '../../protocol/documents.ts';

export const PUBLISH_SENDERS = {
  id: 'publishSenders',
  method: 'POST',
  path: '/v2/relay/senders',
  access: 'hop by key',
  summary: 'Publishes the senders whose mail the caller takes.',
  request: { schema: SendersRequest },
  successes: [ok(SendersResponse, 'the list is in force')],
  problems: ['IAT_IN_FUTURE', 'KEY_MISMATCH', 'STALE_LIST', 'RATE_LIMITED'],
  counted: 'senders',
  fillsDisk: true,
  handle: publish,
} as const satisfies HostOperation;

const parseSenders = parserOf(SendersRequest);

async function publish({ body, caller, nowMs }: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { engine } = parts;
  const parsed = parseSenders(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const hostPubkey = parsePublicKey(parsed?.list.host_pubkey);
  if (!parsed || !hostPubkey) return problemReply('BAD_REQUEST', 'send {list, sig} as the protocol describes them');
  const { list, sig } = parsed;
  if (hostPubkey !== caller.hostPubkey) return problemReply('KEY_MISMATCH', 'the list names another host key');
  if (!isDocumentSigned(hostPubkey, list, sig)) return problemReply('BAD_SIGNATURE', 'sig does not cover the list');
  const senders = await acceptableKeys(list.senders, parts);
  if (!senders) return problemReply('BAD_REQUEST', 'the list holds a key that is no acceptable Ed25519 point');
  // The caller was rotated or revoked while the keys were inspected: a list under the old key would be lost.
  if (engine.directory.get(hostPubkey)?.revokedAtMs !== null) return problemReply('NOT_ENROLLED', 'not enrolled');
  const callerPubkey = caller.hostPubkey;
  const command = { type: 'PublishSenders', callerPubkey, hostPubkey, senders, iatMs: list.iat, nowMs } as const;
  const outcome = await engine.publishSenders(command);
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  return jsonReply(200, { senders: outcome.senders, iat: outcome.iatMs });
}

/** The keys, or `undefined` when one is none. */
async function acceptableKeys(
  texts: readonly string[],
  { keys: inspected, monotonicMs }: RelayParts,
): Promise<PublicKey[] | undefined> {
  const slice = new TimeSlice(monotonicMs);
  const keys = new Set<PublicKey>();
  for (const text of texts) {
    if (slice.isOver) await slice.pause();
    const key = parsePublicKey(text);
    if (!key || !inspected.isAcceptable(key)) return undefined;
    keys.add(key);
  }
  return [...keys];
}
