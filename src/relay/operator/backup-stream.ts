/** Backups over the control socket: of a relay that serves, and of one that follows. */
import type { Exchange, Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { backupOf } from '../image/backup.ts';
import type { StoreSnapshot } from '../store/store-reader.ts';
import type { WireDamage } from '../store/wire-check.ts';
import { BACKUP_BYTES_ABOUT } from './documents.ts';
import { controlProblem } from './hosts.ts';

/** A snapshot holds on to what is deleted meanwhile. */
const BACKUPS_AT_ONCE = 2;

interface BackupSource {
  /** Everything that is durable at one moment. */
  snapshot: () => Promise<StoreSnapshot>;
  /** Gets the damage that a backup finds. */
  found: (damage: WireDamage) => Promise<void>;
  isStopping: () => boolean;
  /** Called when a backup was sent to its end. */
  taken: (atMs: number) => void;
  version: string;
}

type StreamBackup = (exchange: Exchange, id: string, nowMs: number) => Promise<Reply | 'streamed'>;

/** Streams backups, a few at a time. Each ends with its peer or with the relay; the server cuts a peer that takes nothing. */
export function backupStreams(source: BackupSource): StreamBackup {
  let underWay = 0;
  return async (exchange, id, nowMs) => {
    if (underWay >= BACKUPS_AT_ONCE)
      return controlProblem('BACKUPS_UNDER_WAY', 'other backups are being taken: wait for their end');
    underWay++;
    try {
      return await streamed(source, exchange, id, nowMs);
    } finally {
      underWay--;
    }
  };
}

async function streamed(
  { snapshot: taken, found, isStopping, ...source }: BackupSource,
  exchange: Exchange,
  id: string,
  nowMs: number,
): Promise<Reply | 'streamed'> {
  const snapshot = await taken();
  try {
    // The damage in a complete backup has been handled by the relay when the client has it.
    const chunks = backupOf(snapshot, { created_at: nowMs, version: source.version }, found);
    const bytesAbout = await snapshot.bytesAbout();
    if (isStopping()) return problemReply('UNAVAILABLE', 'the relay is stopping', { close: true });
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
        if (isStopping()) break;
        await stream.write(chunk);
      }
      if (isStopping()) exchange.abort();
      else {
        stream.end();
        if (!exchange.isAborted) source.taken(nowMs);
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
