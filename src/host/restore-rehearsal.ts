/**
 * What a restore of this host would do, over copies in the folder for temporary files: the present store is not opened,
 * and a daemon may go on using it.
 */
import { cpSync, existsSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { readImage } from '../lib/image.ts';
import { isListening } from '../lib/unix-socket.ts';
import { DaemonClient } from './api/client.ts';
import type { HostPaths } from './base/paths.ts';
import { planOf, type RestorePlan, storeOfFile, unreadable } from './restore.ts';
import { HOST_BACKUP } from './store/backup.ts';
import type { HostStore } from './store/host-store.ts';
import { holdsStore, HostStoreRefused, openHostStore } from './store/open.ts';
import { fillStore, storeToBe } from './store/restored.ts';

export interface RestoreRehearsal extends RestorePlan {
  /** It has to be stopped before a restore. */
  isDaemonRunning: boolean;
}

export interface RehearsalOptions {
  file: string;
  paths: HostPaths;
  /** As of the restore. */
  force: boolean;
  signal: AbortSignal;
}

/** Changes nothing. Throws `RestoreRefused` where a restore would, `CallFailed`, or why the signal aborted. */
export async function rehearseRestore({ file, paths, force, signal }: RehearsalOptions): Promise<RestoreRehearsal> {
  const scratch = await mkdtemp(join(tmpdir(), 'poste-rehearsal-'));
  const opened: HostStore[] = [];
  try {
    const backup = await storeOfFile(file, join(scratch, 'restored'));
    const restored = await openHostStore(join(scratch, 'restored'), () => undefined);
    opened.push(restored);
    signal.throwIfAborted();
    const isDaemonRunning = await isListening(paths.socket);
    const copy = join(scratch, 'present');
    if (isDaemonRunning) await copyOfDaemon(paths, copy, signal);
    else copyOfStore(paths.store, copy);
    const present = await openCopy(copy, paths.store, force);
    if (present !== undefined && present !== 'unreadable') opened.push(present);
    const plan = await planOf({ backup, restored, replaced: present, place: paths.store, force });
    return { ...plan, isDaemonRunning };
  } finally {
    for (const store of opened) await store.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** What the daemon holds at this moment. */
async function copyOfDaemon({ socket, store }: HostPaths, copy: string, signal: AbortSignal): Promise<void> {
  const chunks = new DaemonClient(socket, store).backup(signal);
  const { pairs } = await readImage(chunks, HOST_BACKUP);
  await fillStore(copy, pairs);
}

function copyOfStore(store: string, copy: string): void {
  const place = storeToBe(store);
  if (!existsSync(place)) return;
  cpSync(place, copy, { recursive: true, filter: (path) => basename(path) !== 'LOCK' });
}

/** As the restore opens the store itself. */
async function openCopy(copy: string, shown: string, force: boolean): Promise<HostStore | 'unreadable' | undefined> {
  if (!holdsStore(copy)) return undefined;
  try {
    return await openHostStore(copy, () => undefined);
  } catch (error) {
    if (!(error instanceof HostStoreRefused)) throw error;
    if (force) return 'unreadable';
    throw unreadable(shown);
  }
}
