/** `POST /v2/relay/ack`: the caller has everything up to `through`. */
import { type Operation, ok } from './operation.ts';
import { AckResponse } from '../../protocol/responses.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { AckRequest, parserOf } from '../../protocol/schemas.ts';
import type { Engine } from '../engine/engine.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { refusalReply } from './refusals.ts';
import { type HopRoute, hopRoute } from './route.ts';

export const ACK = {
  listener: 'relay',
  id: 'ack',
  method: 'POST',
  path: '/v2/relay/ack',
  access: 'hop by key',
  summary: 'Says that the caller has everything up to `through`: it is deleted.',
  request: { schema: AckRequest },
  successes: [ok(AckResponse, 'what is acked')],
  problems: ['BAD_ACK', 'EPOCH_CHANGED'],
} as const satisfies Operation;

const parseAck = parserOf(AckRequest);

export function ackRoute({ engine, bodyBytesMax }: { engine: Engine; bodyBytesMax: number }): HopRoute {
  return hopRoute(ACK, {
    counted: undefined,
    bodyBytesMax,
    handle: async ({ body, caller, nowMs }) => {
      const parsed = parseAck(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
      if (!parsed) return problemReply('BAD_REQUEST', 'send {epoch, through}: a text and a sequence number');
      const { epoch, through } = parsed;
      const targetPubkey = caller.hostPubkey;
      const outcome = await engine.ack({ type: 'AckItems', targetPubkey, epoch: epoch as Epoch, through, nowMs });
      if (outcome.type === 'Refusal') return refusalReply(outcome);
      const { ackedThrough, deleted, headSeq } = outcome;
      return jsonReply(200, { acked_through: ackedThrough, deleted, head_seq: headSeq });
    },
  });
}
