/**
 * `POST /v2/relay/rotate`: a host goes on under a new key. The record is signed by both, and needs no hop.
 * `GET /v2/relay/rotation?key=`: that record, for hosts that know only the old key. The relay vouches for nothing of
 * it.
 */
import type { Static } from 'typebox';
import { type HostOperation, type RelayParts, ok } from './operation.ts';
import { RotateResponse, RotationShown } from '../../protocol/responses.ts';
import { RotationQuery } from '../../protocol/parameters.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { WORK_OF_MOVED_ITEM } from '../../protocol/limits.ts';
import { canonicalJson } from '../../protocol/canonical-json.ts';
import { parsePublicKey } from '../../protocol/public-key.ts';
import { RotateRequest, parserOf } from '../../protocol/schemas.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { type HopRelayRequest, type RelayRequest, refusalReply, unacceptablePoint } from './route.ts';
import { isDocumentSigned } from '../../protocol/documents.ts';

export const ROTATE = {
  id: 'rotate',
  method: 'POST',
  path: '/v2/relay/rotate',
  access: 'open',
  summary: 'Goes on under a new host key: the mail of the old one is moved. Both keys sign the record.',
  request: { schema: RotateRequest },
  successes: [ok(RotateResponse, 'the new key stands for the host; a repeat moves nothing')],
  problems: ['IAT_IN_FUTURE', 'NOT_ENROLLED', 'BAD_SIGNATURE', 'ENROL_REFUSED', 'RATE_LIMITED'],
  counted: 'rotate',
  hasSmallBody: true,
  handle: rotate,
} as const satisfies HostOperation;

export const ROTATION = {
  id: 'rotation',
  method: 'GET',
  path: '/v2/relay/rotation',
  access: 'hop by key',
  summary: 'Shows the record by which a host replaced this key, as both keys signed it.',
  query: RotationQuery,
  successes: [ok(RotationShown, 'what the host signed')],
  problems: ['RATE_LIMITED'],
  counted: 'work',
  handle: showRotation,
} as const satisfies HostOperation<typeof RotationQuery>;

const parseRotate = parserOf(RotateRequest);

async function rotate({ body, clientAddress, nowMs }: RelayRequest, parts: RelayParts): Promise<Reply> {
  const { engine, keys, work } = parts;
  const parsed = parseRotate(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  const oldPubkey = parsePublicKey(parsed?.rotation.rec.old_pubkey);
  const newPubkey = parsePublicKey(parsed?.rotation.rec.new_pubkey);
  if (!parsed || !oldPubkey || !newPubkey || oldPubkey === newPubkey) {
    return problemReply('BAD_REQUEST', 'send {rotation: {rec, old_sig, new_sig}} as the protocol describes them');
  }
  const { rec, old_sig: oldSig, new_sig: newSig } = parsed.rotation;
  if (!engine.directory.get(oldPubkey)) return problemReply('NOT_ENROLLED', 'not enrolled');
  if (!keys.isAcceptable(newPubkey)) return unacceptablePoint();
  if (!isDocumentSigned(oldPubkey, rec, oldSig) || !isDocumentSigned(newPubkey, rec, newSig)) {
    return problemReply('BAD_SIGNATURE', 'the rotation is not signed by both keys');
  }
  const moving = engine.head(oldPubkey).queueItems * WORK_OF_MOVED_ITEM;
  const refused = moving > 0 ? work.charge(oldPubkey, clientAddress, moving) : undefined;
  if (refused) return refused;
  const signed = { record: canonicalJson(rec), oldSig, newSig };
  const outcome = await engine.admissions.rotateKey({
    type: 'RotateKey',
    oldPubkey,
    newPubkey,
    iatMs: rec.iat,
    signed,
    nowMs,
  });
  if (outcome.type === 'Refusal') {
    // Nothing was moved.
    work.owe(oldPubkey, clientAddress, -moving);
    return refusalReply(outcome);
  }
  const { hostPubkey, movedItems, headSeq } = outcome;
  return jsonReply(200, { host_pubkey: hostPubkey, moved_items: movedItems, head_seq: headSeq, epoch: engine.epoch });
}

/** One record a request: its `new_pubkey` asks for the next. */
async function showRotation(
  { query }: HopRelayRequest<Static<typeof RotationQuery>>,
  { engine }: RelayParts,
): Promise<Reply> {
  const row = await engine.rotation(query.key);
  if (!row) return jsonReply(200, { rotation: null });
  const rec = JSON.parse(row.record) as Record<string, unknown>;
  return jsonReply(200, { rotation: { rec, old_sig: row.oldSig, new_sig: row.newSig } });
}
