/** `GET /v2/relay/info`: who this relay is. It never fails because of its hop: `you` is simply absent. */
import type { PublicKey } from '../../protocol/public-key.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { jsonReply } from '../../http/replies.ts';
import type { OptionalHopRoute } from './route.ts';

export interface InfoRouteOptions {
  engine: Engine;
  relayPubkey: PublicKey;
  /** The software version. */
  version: string;
  bodyBytesMax: number;
}

export function infoRoute({ engine, relayPubkey, version, bodyBytesMax }: InfoRouteOptions): OptionalHopRoute {
  return {
    method: 'GET',
    path: '/v2/relay/info',
    access: 'optional hop',
    bodyBytesMax,
    handle: async ({ nowMs }, caller) => {
      // What is said of the caller rests on its enrolment.
      await engine.durable();
      return jsonReply(200, {
        v: 2,
        relay_pubkey: relayPubkey,
        epoch: engine.epoch,
        limits: engine.settings.limits,
        version,
        now: nowMs,
        ...(caller && { you: you(caller, engine) }),
      });
    },
  };
}

function you({ hostName, hostPubkey }: EnrolmentRow, engine: Engine): object {
  const { headSeq, ackedThrough } = engine.head(hostPubkey);
  return { host: hostName, pubkey: hostPubkey, head_seq: headSeq, acked_through: ackedThrough };
}
