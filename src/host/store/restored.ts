/**
 * Makes a store of a backup, and puts it in the place of the present one.
 *
 *     store.restoring-…   being made                             removed by the next restore
 *     store.restored      complete, about to be renamed          renamed at the next start when there is no `store`
 *     store.replaced-…    the store before the restore           its owner may delete it
 *
 * So a crash at any point leaves the old store or the new one, whole.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Pair } from '../../lib/pair-block.ts';
import { pathAside, syncFolder } from '../../lib/files.ts';
import { levelAt } from './host-store.ts';

/** Makes a store from runs of pairs at `folder`, which must not exist. */
export async function fillStore(folder: string, runs: AsyncIterable<readonly Pair[]>): Promise<void> {
  mkdirSync(folder, { mode: 0o700 });
  const level = levelAt(folder);
  await level.open({ createIfMissing: true, errorIfExists: true });
  try {
    for await (const run of runs) {
      await level.batch(
        run.map(([key, value]) => ({ type: 'put', key, value })),
        { sync: true },
      );
    }
  } finally {
    await level.close();
  }
}

/** Removes what interrupted restores left behind. The caller holds the lock of `store`, if there is one. */
export function removeUnfinished(store: string): void {
  for (const name of readdirSync(dirname(store))) {
    const isLeft = name.startsWith(`${basename(store)}.restoring-`) || name === basename(restoredName(store));
    if (isLeft) rmSync(join(dirname(store), name), { recursive: true, force: true });
  }
}

/** Renames the store at `made` to `store`. Returns where the store that was there is kept, if there was one. */
export async function takePlace(made: string, store: string, nowMs: number): Promise<string | null> {
  const aside = existsSync(store) ? pathAside(store, 'replaced', nowMs) : null;
  renameSync(made, restoredName(store));
  await syncFolder(dirname(store));
  if (aside !== null) renameSync(store, aside);
  renameSync(restoredName(store), store);
  await syncFolder(dirname(store));
  return aside;
}

/** Finishes a restore that was interrupted between its two renames. Call it before opening the store. */
export async function finishRestore(store: string): Promise<void> {
  if (existsSync(store) || !existsSync(restoredName(store))) return;
  renameSync(restoredName(store), store);
  await syncFolder(dirname(store));
}

/** Returns where the store is, or lies until `finishRestore`. */
export function storeToBe(store: string): string {
  return existsSync(store) || !existsSync(restoredName(store)) ? store : restoredName(store);
}

function restoredName(store: string): string {
  return `${store}.restored`;
}
