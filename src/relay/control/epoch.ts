/** `POST /v1/epoch`: begins a new epoch, after a restore that this software did not do. */
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../../protocol/epoch.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { RandomBytes } from '../engine/ambient.ts';
import type { Engine } from '../engine/engine.ts';
import { jsonReply } from '../../http/replies.ts';
import type { OpenRoute } from '../http/route.ts';
import type { EpochDocument } from './documents.ts';

export interface EpochRouteOptions {
  engine: Engine;
  randomBytes: RandomBytes;
}

export function epochRoute({ engine, randomBytes }: EpochRouteOptions): OpenRoute {
  return {
    method: 'POST',
    path: '/v1/epoch',
    access: 'open',
    counted: undefined,
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: async ({ nowMs }) => {
      const epoch = epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
      await engine.rotateEpoch({ type: 'RotateEpoch', epoch, reason: 'reset', nowMs });
      const document: EpochDocument = { epoch };
      return jsonReply(200, document);
    },
  };
}
