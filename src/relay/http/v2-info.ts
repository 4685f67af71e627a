/** `GET /v2/relay/info`: who this relay is. It never fails because of its hop: `you` is simply absent. */
import { type HostOperation, type MaybeHopRequest, type RelayParts, ok } from './operation.ts';
import { BINARY_TYPE } from '../../protocol/message-pack.ts';
import { TREE_RECEIPTS } from '../../protocol/hop.ts';
import { InfoResponse } from '../../protocol/responses.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { jsonReply } from '../../http/replies.ts';
import type { Reply } from '../../http/exchange.ts';

export const INFO = {
  id: 'info',
  method: 'GET',
  path: '/v2/relay/info',
  access: 'optional hop',
  summary: 'Says who the relay is, and with a good hop what it holds for the caller.',
  successes: [ok(InfoResponse, 'the identity of the relay')],
  problems: [],
  handle: info,
} as const satisfies HostOperation;

async function info({ nowMs, caller }: MaybeHopRequest, { engine, relayPubkey, version }: RelayParts): Promise<Reply> {
  // The members about the caller rest on its enrolment.
  await engine.durable();
  return jsonReply(200, {
    v: 2,
    relay_pubkey: relayPubkey,
    epoch: engine.epoch,
    limits: engine.settings.limits,
    forms: [BINARY_TYPE],
    receipts: [TREE_RECEIPTS],
    version,
    now: nowMs,
    ...(caller && { you: you(caller, engine) }),
  });
}

function you({ hostName, hostPubkey }: EnrolmentRow, engine: Engine): object {
  const { headSeq, ackedThrough } = engine.head(hostPubkey);
  return { host: hostName, pubkey: hostPubkey, head_seq: headSeq, acked_through: ackedThrough };
}
