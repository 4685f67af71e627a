/**
 * What a node has seen of the log, kept in a file beside the view: a log that lacks it has lost something, and a server
 * that is older than the one where it was seen was replaced by another.
 */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Timers } from '../../lib/clock.ts';
import { replaceFile, syncFolder } from '../../lib/files.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { LogRefused, type LogServer, type SharedLog } from './shared-log.ts';
import type { ViewLog } from './view-log.ts';

const WITNESS_FILE = 'witness.json';
const WITNESS_EVERY_MS = 1_000;

/** A batch that was seen. */
export type SeenBatch = Pick<ViewMark, 'logId' | 'no' | 'lastLsn' | 'effects'>;

interface Witness extends SeenBatch {
  /** Where the log lay. */
  server: LogServer;
}

export function witnessFile(folder: string): string {
  return join(folder, WITNESS_FILE);
}

/** What this node noted last; `undefined` when it noted nothing that can be read. */
export async function readWitness(folder: string): Promise<Witness | undefined> {
  const text = await readFile(witnessFile(folder), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    const { effects, ...witness } = JSON.parse(text) as Omit<Witness, 'effects'> & { effects: string };
    return { ...witness, effects: Buffer.from(effects, 'hex') };
  } catch {
    return undefined;
  }
}

export async function writeWitness(folder: string, { logId, no, lastLsn, effects }: SeenBatch, server: LogServer) {
  const text = JSON.stringify({ logId, no, lastLsn, effects: effects.toString('hex'), server });
  await replaceFile(witnessFile(folder), `${text}\n`);
}

/** To be called when the log was told of what it lacks: it is told once. */
export async function forgetWitness(folder: string): Promise<void> {
  await rm(witnessFile(folder), { force: true });
  await syncFolder(folder);
}

/** Notes once a second how far the view has come. The function that it returns notes it once more, and ends that. */
export function keepWitness(
  folder: string,
  view: ViewLog,
  server: LogServer,
  { timers, onError }: { timers: Timers; onError: (error: unknown) => void },
): () => Promise<void> {
  let noted = -1;
  let writing: Promise<void> = Promise.resolve();
  const write = (): void => {
    const { mark } = view;
    if (mark.no === noted) return;
    noted = mark.no;
    writing = writing.then(() => writeWitness(folder, mark, server)).catch(onError);
  };
  const cancel = timers.every(WITNESS_EVERY_MS, write);
  return () => {
    cancel();
    write();
    return writing;
  };
}

/** Throws `LogRefused` for a server that another took the place of. */
export function refuseOlder(server: LogServer, seen: LogServer): void {
  if (server.systemId !== seen.systemId || server.timeline >= seen.timeline) return;
  throw new LogRefused(
    'the server of the log is older than what this node has seen: it was replaced by another, which is to be named in --log',
  );
}

/** Whether the log holds the batch with everything before it. One that is pruned cannot be compared, and counts as held. */
export async function isHeld(
  log: SharedLog,
  logId: string,
  { no, effects }: Pick<SeenBatch, 'no' | 'effects'>,
): Promise<boolean> {
  if (no === 0) return true;
  const found = await log.batch(logId, no);
  return found === 'pruned' || found?.effects.equals(effects) === true;
}
