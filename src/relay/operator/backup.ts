/**
 * `GET /v1/backup`: everything that is durable at one moment, as a backup file, while the relay goes on.
 *
 * The snapshot holds on to what is deleted meanwhile, so few are made at once, each ends with its peer or with the
 * relay, and a peer that takes nothing is cut by the server.
 */
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { Engine } from '../engine/engine.ts';
import type { LostItems } from '../engine/lost-items.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import type { OpenRoute, RelayRequest } from '../http/route.ts';
import { BACKUP_BYTES_ABOUT } from './documents.ts';
import { controlProblem } from './problems.ts';
import { backupOf } from '../backup/backup.ts';

const BACKUPS_AT_ONCE = 2;

interface BackupRouteOptions {
  engine: Engine;
  /** Gets the damage that the backup finds. */
  lostItems: LostItems;
  /** Called when a backup was sent to its end. */
  taken: (atMs: number) => void;
  version: string;
}

export function backupRoute(options: BackupRouteOptions): OpenRoute {
  let underWay = 0;
  return {
    method: 'GET',
    path: '/v1/backup',
    access: 'open',
    counted: undefined,
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: async (request) => {
      if (underWay >= BACKUPS_AT_ONCE) {
        return controlProblem('BACKUPS_UNDER_WAY', 'other backups are being taken: wait for their end');
      }
      underWay++;
      try {
        return await backUp(request, options);
      } finally {
        underWay--;
      }
    },
  };
}

async function backUp(
  { exchange, id, nowMs }: RelayRequest,
  { engine, lostItems, taken, version }: BackupRouteOptions,
): Promise<Reply | 'streamed'> {
  const snapshot = await engine.snapshot();
  try {
    // The damage in a complete backup has been handled by the relay when the client has it.
    const chunks = backupOf(snapshot, { created_at: nowMs, version }, (damage) => lostItems.foundByBackup(damage));
    const bytesAbout = await snapshot.bytesAbout();
    if (engine.isDraining) return problemReply('UNAVAILABLE', 'the relay is stopping', { close: true });
    const headers = {
      'content-type': 'application/octet-stream',
      'x-request-id': id,
      [BACKUP_BYTES_ABOUT]: String(bytesAbout),
    };
    const stream = exchange.startReply(200, headers);
    try {
      for await (const chunk of chunks) {
        if (exchange.isAborted) return 'streamed';
        // Half a backup is none: the peer sees the connection end.
        if (engine.isDraining) break;
        await stream.write(chunk);
      }
      if (engine.isDraining) exchange.abort();
      else {
        stream.end();
        if (!exchange.isAborted) taken(nowMs);
      }
    } catch (error) {
      exchange.abort();
      throw error;
    }
    return 'streamed';
  } finally {
    await snapshot.close();
  }
}
