/**
 * Puts a restored database into the place of the one that served.
 *
 * Two folders and a file change their names, which no system does at once. So a journal says what is to be done, and
 * from the moment that it is on disk the restore has happened: whoever opens the store first carries it out to the
 * end. Before that moment the old store serves as if nothing had been.
 *
 * Invariant: every step may be repeated, and may be the last one before a crash.
 */
import { existsSync } from 'node:fs';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import Type, { type Static } from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';
import { LEVEL_FOLDER } from './level.ts';
import { StoreRefused } from './refused.ts';
import { syncFolder } from '../../system/sync-folder.ts';

/** The position slots inside the store folder, unless they are put elsewhere. */
export const POSITION_FILE = 'position';
const JOURNAL = 'restore.json';

/** A name in the store folder, never a path. */
const FileName = Type.String({ pattern: '^[A-Za-z0-9.-]{1,100}$' });

const Swap = Type.Object({
  /** The restored database, whole and synced, in the store folder. */
  restored: FileName,
  /** Its position, in the store folder. */
  restoredPosition: FileName,
  /** What the database that served is called from now on; `null` when there was none, and then none is moved. */
  replaced: Type.Union([FileName, Type.Null()]),
  /** Where the position is that the relay reads; `null` when it is in the store folder, which may be moved. */
  positionFile: Type.Union([Type.String({ minLength: 1 }), Type.Null()]),
});
export type Swap = Static<typeof Swap>;

const parseSwap = parserOf(Swap);

/** Told the name of each step before it is taken; a test may end everything there. */
export type StepObserver = (step: string) => Promise<void>;

const unobserved: StepObserver = () => Promise.resolve();

/** Whether a restore in `folder` has happened and is not carried out yet. */
export function isSwapUnderWay(folder: string): boolean {
  return existsSync(join(folder, JOURNAL));
}

/** From here on the restore has happened. Where it cannot be made durable it has not, and nobody may carry it out. */
export async function decideSwap(folder: string, swap: Swap, write = writeDurably): Promise<void> {
  const journal = join(folder, JOURNAL);
  try {
    await write(journal, Buffer.from(JSON.stringify(swap)));
  } catch (error) {
    await rm(journal, { force: true });
    throw error;
  }
}

export interface FinishOptions {
  /** Where the position is that the relay reads, where that is known better than when the restore was decided. */
  positionFile?: string | undefined;
  step?: StepObserver | undefined;
}

/** How often whoever lost a step to another looks again. */
const ATTEMPTS_MAX = 20;

/**
 * Carries out what a journal in `folder` says; does nothing without one. A restore and a relay that starts may do it at
 * once: what one of them did is done for both. Throws `StoreRefused`.
 */
export async function finishSwap(folder: string, options: FinishOptions = {}): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const swap = await readSwap(folder);
    if (!swap) return;
    try {
      return await carryOut(folder, swap, options);
    } catch (error) {
      const { code, errno, path = 'unknown place' } = error as NodeJS.ErrnoException;
      if (typeof code !== 'string' || typeof errno !== 'number') throw error;
      if (TAKEN.has(code) && attempt < ATTEMPTS_MAX) continue;
      throw new StoreRefused(
        'unusable',
        `the restore into ${folder} has happened, and cannot be carried out to its end (${code}: ${path}): mend that, and start the relay, which goes on with it`,
      );
    }
  }
}

/** What a step says that another has taken already. */
const TAKEN: ReadonlySet<string> = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST']);

async function carryOut(folder: string, swap: Swap, options: FinishOptions): Promise<void> {
  const { step = unobserved } = options;
  const { replaced } = swap;
  const positionPath = options.positionFile ?? swap.positionFile ?? join(folder, POSITION_FILE);
  const [serving, restored] = [join(folder, LEVEL_FOLDER), join(folder, swap.restored)];
  if (existsSync(restored)) {
    const positionAside = replaced && join(dirname(positionPath), basename(positionPath) + suffixOf(replaced));
    if (positionAside && existsSync(positionPath) && !existsSync(positionAside)) {
      await step('the replaced position is copied aside');
      await writeDurably(positionAside, await readFile(positionPath));
    }
    await step('the position is replaced');
    await writeDurably(positionPath, await readFile(join(folder, swap.restoredPosition)));
    if (replaced && existsSync(serving)) {
      await step('the replaced store goes aside');
      await rename(serving, join(folder, replaced));
      await syncFolder(folder);
    }
    await step('the restored store takes its place');
    await rename(restored, serving);
    await syncFolder(folder);
  }
  await step('the position that is in place is removed');
  await rm(join(folder, swap.restoredPosition), { force: true });
  await step('the journal is removed');
  await rm(join(folder, JOURNAL), { force: true });
  await syncFolder(folder);
}

/** `.replaced-…`, as the database has it. */
function suffixOf(replaced: string): string {
  return replaced.slice(LEVEL_FOLDER.length);
}

async function readSwap(folder: string): Promise<Swap | undefined> {
  let text: string;
  try {
    text = await readFile(join(folder, JOURNAL), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  let swap: Swap | undefined;
  try {
    swap = parseSwap(JSON.parse(text));
  } catch {
    // Said below.
  }
  if (swap) return swap;
  throw new StoreRefused(
    'damaged',
    `${join(folder, JOURNAL)}, which says how a restore goes on, cannot be read: move it away, and restore again`,
  );
}

/** Whole or not at all, whatever happens meanwhile. */
async function writeDurably(path: string, bytes: Buffer): Promise<void> {
  const aside = `${path}.new`;
  const file = await open(aside, 'w', 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(aside, path);
  await syncFolder(dirname(path));
}
