/** `POST /v2/relay/senders`: whose mail the caller takes from now on. */
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { type PublicKey, isAcceptablePoint, parsePublicKey } from '../../protocol/public-key.ts';
import { SendersRequest, parserOf } from '../../protocol/schemas.ts';
import type { Engine } from '../engine/engine.ts';
import { Stretch } from '../engine/stretch.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { refusalReply } from './refusals.ts';
import type { HopRelayRequest, HopRoute } from './route.ts';
import { isDocumentSigned } from './signed-document.ts';

export interface SendersRouteOptions {
  engine: Engine;
  monotonicMs: () => number;
  bodyBytesMax: number;
}

const parseSenders = parserOf(SendersRequest);

export function sendersRoute(options: SendersRouteOptions): HopRoute {
  return {
    method: 'POST',
    path: '/v2/relay/senders',
    access: 'hop',
    counted: 'push',
    fillsDisk: true,
    bodyBytesMax: options.bodyBytesMax,
    handle: (request) => publish(request, options),
  };
}

async function publish({ body, caller, nowMs }: HopRelayRequest, options: SendersRouteOptions): Promise<Reply> {
  const { engine } = options;
  const parsed = parseSenders(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const hostPubkey = parsePublicKey(parsed?.list.host_pubkey);
  if (!parsed || !hostPubkey) return problemReply('BAD_REQUEST', 'send {list, sig} as the protocol describes them');
  const { list, sig } = parsed;
  if (hostPubkey !== caller.hostPubkey) return problemReply('KEY_MISMATCH', 'the list names another host key');
  if (!isDocumentSigned(hostPubkey, list, sig)) return problemReply('BAD_SIGNATURE', 'sig does not cover the list');
  const senders = await acceptableKeys(list.senders, options);
  if (!senders) return problemReply('BAD_REQUEST', 'the list holds a key that is no acceptable Ed25519 point');
  // Rotated or revoked while the keys were inspected: a list that stays behind with the old key helps nobody.
  if (engine.enrolment(hostPubkey)?.revokedAtMs !== null) return problemReply('NOT_ENROLLED', 'not enrolled');
  const callerPubkey = caller.hostPubkey;
  const command = { type: 'PublishSenders', callerPubkey, hostPubkey, senders, iatMs: list.iat, nowMs } as const;
  const outcome = await engine.publishSenders(command);
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  return jsonReply(200, { senders: outcome.senders, iat: outcome.iatMs });
}

/** The keys, or `undefined` when one is none. Keys that are enrolled were inspected then; others cost a millisecond. */
async function acceptableKeys(
  texts: readonly string[],
  { engine, monotonicMs }: SendersRouteOptions,
): Promise<PublicKey[] | undefined> {
  const stretch = new Stretch(monotonicMs);
  const keys = new Set<PublicKey>();
  for (const text of texts) {
    if (stretch.isOver) await stretch.pause();
    const key = parsePublicKey(text);
    if (!key || !(engine.enrolment(key) || keys.has(key) || isAcceptablePoint(key))) return undefined;
    keys.add(key);
  }
  return [...keys];
}
