/** Backups over the control socket. */
import type { Exchange, Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { backupOf } from '../image/backup.ts';
import { BACKUP_BYTES_ABOUT } from './documents.ts';
import { controlProblem } from './hosts.ts';
import { NothingYet, type RelayState } from './relay-state.ts';

/** A snapshot holds on to what is deleted meanwhile. */
const BACKUPS_AT_ONCE = 2;

type StreamBackup = (exchange: Exchange, id: string, nowMs: number) => Promise<Reply | 'streamed'>;

/** Streams a few backups at a time. Each ends with its peer or the relay; the server cuts a peer that takes nothing. */
export function backupStreams(state: RelayState): StreamBackup {
  let underWay = 0;
  return async (exchange, id, nowMs) => {
    if (underWay >= BACKUPS_AT_ONCE)
      return controlProblem('BACKUPS_UNDER_WAY', 'other backups are being taken: wait for their end');
    underWay++;
    try {
      return await streamBackup(state, exchange, id, nowMs);
    } catch (error) {
      if (error instanceof NothingYet) return controlProblem('NOTHING_YET', `${error.message}: try again`);
      throw error;
    } finally {
      underWay--;
    }
  };
}

async function streamBackup(
  state: RelayState,
  exchange: Exchange,
  id: string,
  nowMs: number,
): Promise<Reply | 'streamed'> {
  const { subject, settings } = state;
  const snapshot = await subject.snapshot();
  try {
    // The damage in a complete backup has been handled by the relay when the client has it.
    const { version } = settings;
    const chunks = backupOf(snapshot, { created_at: nowMs, version }, (damage) => subject.foundByBackup(damage));
    const bytesAbout = await snapshot.bytesAbout();
    if (subject.isStopping) return problemReply('UNAVAILABLE', 'the relay is stopping', { close: true });
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
        if (subject.isStopping) break;
        await stream.write(chunk);
      }
      if (subject.isStopping) exchange.abort();
      else {
        stream.end();
        if (!exchange.isAborted) state.noteBackup(nowMs);
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
