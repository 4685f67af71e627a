/** `POST /v2/relay/rotate`: a host goes on under a new key. The record is signed by both, and needs no hop. */
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { isAcceptablePoint, parsePublicKey } from '../../protocol/public-key.ts';
import { RotateRequest, parserOf } from '../../protocol/schemas.ts';
import type { Engine } from '../engine/engine.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { refusalReply, unacceptablePoint } from './refusals.ts';
import type { OpenRoute, RelayRequest } from './route.ts';
import { isDocumentSigned } from './signed-document.ts';

export interface RotateRouteOptions {
  engine: Engine;
}

const parseRotate = parserOf(RotateRequest);

export function rotateRoute(options: RotateRouteOptions): OpenRoute {
  return {
    method: 'POST',
    path: '/v2/relay/rotate',
    access: 'open',
    counted: 'rotate',
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: (request) => rotate(request, options),
  };
}

async function rotate({ body, nowMs }: RelayRequest, { engine }: RotateRouteOptions): Promise<Reply> {
  const parsed = parseRotate(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const oldPubkey = parsePublicKey(parsed?.rotation.rec.old_pubkey);
  const newPubkey = parsePublicKey(parsed?.rotation.rec.new_pubkey);
  if (!parsed || !oldPubkey || !newPubkey || oldPubkey === newPubkey) {
    return problemReply('BAD_REQUEST', 'send {rotation: {rec, old_sig, new_sig}} as the protocol describes them');
  }
  const { rec, old_sig: oldSig, new_sig: newSig } = parsed.rotation;
  // Keys that are enrolled were inspected then; the inspection costs a millisecond.
  if (!engine.enrolment(oldPubkey)) return problemReply('NOT_ENROLLED', 'not enrolled');
  if (!engine.enrolment(newPubkey) && !isAcceptablePoint(newPubkey)) return unacceptablePoint();
  if (!isDocumentSigned(oldPubkey, rec, oldSig) || !isDocumentSigned(newPubkey, rec, newSig)) {
    return problemReply('BAD_SIGNATURE', 'the rotation is not signed by both keys');
  }
  const outcome = await engine.rotateKey({ type: 'RotateKey', oldPubkey, newPubkey, iatMs: rec.iat, nowMs });
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  const { hostPubkey, movedItems, headSeq } = outcome;
  return jsonReply(200, { host_pubkey: hostPubkey, moved_items: movedItems, head_seq: headSeq, epoch: engine.epoch });
}
