/**
 * Puts a restored or a rebuilt database in the place of the one that served (the cutover).
 *
 * A restore renames two folders and replaces a file, which no file system does in one step. So a journal,
 * `restore.json`, says what to do. Once the journal is on disk the restore has happened: the next process that opens
 * the store carries it out. Before that moment the old store serves on.
 *
 * A rebuild needs no journal, only renames:
 *   log.rebuilding                 being filled; worthless, any process may remove it
 *   log.rebuilt                    whole and durable
 *   log -> log.replaced-<time>     from here on the store has no database
 *   log.rebuilt -> log             until this
 * The next start completes a rebuild that a crash cut short between the last two steps. A crash before them leaves the
 * old database in use, and the next relay removes the outdated `log.rebuilt` beside it.
 *
 * Invariant: every step may be repeated, and a crash may follow any of them.
 */
import Type, { type Static } from 'typebox';
import { existsSync } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { replaceFile, syncFolder } from '../../lib/files.ts';
import { jsonIn } from '../../protocol/json.ts';
import { parserOf } from '../../protocol/schemas.ts';
import { LEVEL_FOLDER, levelAt } from './level.ts';
import { positionPathOf } from './position.ts';
import { StoreRefused, folderRefused } from './refused.ts';

const JOURNAL = 'restore.json';

/** A name in the store folder, never a path. */
const FileName = Type.String({ pattern: '^[A-Za-z0-9.-]{1,100}$' });

const Swap = Type.Object({
  /** The restored database, whole and synced, in the store folder. */
  restored: FileName,
  /** Its position, in the store folder. */
  restoredPosition: FileName,
  /** The name of the database that served, from now on; `null` when there was none, and then none is moved. */
  replaced: Type.Union([FileName, Type.Null()]),
  /** The file of the position that a flag or the config names; `null` without one (position.ts). */
  positionFile: Type.Union([Type.String({ minLength: 1 }), Type.Null()]),
});
type RestoreCutover = Static<typeof Swap>;

const parseCutover = parserOf(Swap);

/** Called with the name of each step before it is taken; a test may end the process there. */
export type StepObserver = (step: string) => Promise<void>;

const unobserved: StepObserver = () => Promise.resolve();

export function isRestoreUnderWay(folder: string): boolean {
  return existsSync(join(folder, JOURNAL));
}

/** Writes the journal: from here on the restore has happened. A journal that cannot be made durable is removed. */
export async function decideRestoreCutover(
  folder: string,
  cutover: RestoreCutover,
  write: (path: string, content: Buffer) => Promise<void> = replaceFile,
): Promise<void> {
  const journal = join(folder, JOURNAL);
  try {
    await write(journal, Buffer.from(JSON.stringify(cutover)));
  } catch (error) {
    await rm(journal, { force: true });
    throw error;
  }
}

interface FinishOptions {
  /** The file of the position that the relay reads, where that is known better than when the restore was decided. */
  positionFile?: string | undefined;
  step?: StepObserver | undefined;
}

/** A process that lost a step to another one tries again this often. */
const ATTEMPTS_MAX = 20;

/**
 * Carries out what the journal in `folder` says; does nothing without one. A restore and a starting relay may do this
 * at the same time: each step that one of them took counts for both. Throws `StoreRefused`.
 */
export async function finishRestore(folder: string, options: FinishOptions = {}): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const cutover = await readCutover(folder);
    if (!cutover) return;
    try {
      return await carryOut(folder, cutover, options);
    } catch (error) {
      const { code, errno, path = 'unknown place' } = error as NodeJS.ErrnoException;
      if (typeof code !== 'string' || typeof errno !== 'number') throw error;
      if (TAKEN.has(code) && attempt < ATTEMPTS_MAX) continue;
      throw new StoreRefused(
        'unusable',
        `the restore into ${folder} has happened, and cannot be carried out to its end (${code}: ${path}): mend ` +
          'that, and start the relay, which goes on with it',
      );
    }
  }
}

const TAKEN: ReadonlySet<string> = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST']);

async function carryOut(folder: string, cutover: RestoreCutover, options: FinishOptions): Promise<void> {
  const { step = unobserved } = options;
  const { replaced } = cutover;
  const positionPath = positionPathOf(folder, options.positionFile ?? cutover.positionFile ?? undefined);
  const [serving, restored] = [join(folder, LEVEL_FOLDER), join(folder, cutover.restored)];
  if (existsSync(restored)) {
    const positionAside = replaced && join(dirname(positionPath), basename(positionPath) + suffixOf(replaced));
    if (positionAside && existsSync(positionPath) && !existsSync(positionAside)) {
      await step('the replaced position is copied aside');
      await replaceFile(positionAside, await readFile(positionPath));
    }
    await step('the position is replaced');
    await replaceFile(positionPath, await readFile(join(folder, cutover.restoredPosition)));
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
  await rm(join(folder, cutover.restoredPosition), { force: true });
  await step('the journal is removed');
  await rm(join(folder, JOURNAL), { force: true });
  await syncFolder(folder);
}

/** `.replaced-…`, as the database has it. */
function suffixOf(replaced: string): string {
  return replaced.slice(LEVEL_FOLDER.length);
}

async function readCutover(folder: string): Promise<RestoreCutover | undefined> {
  let text: string;
  try {
    text = await readFile(join(folder, JOURNAL), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw folderRefused(folder, error) ?? error;
  }
  const cutover = parseCutover(jsonIn(text));
  if (cutover) return cutover;
  throw new StoreRefused(
    'damaged',
    `${join(folder, JOURNAL)}, the journal of an unfinished restore, cannot be read: move it away, and restore again`,
  );
}

/**
 * Completes a restore or a rebuild that was interrupted. Call this before the store of a folder is opened: until then
 * the folder may hold no database, or the replaced one. Does nothing when nothing was interrupted. Throws
 * `StoreRefused`.
 */
export async function finishCutovers(folder: string, options: FinishOptions = {}): Promise<void> {
  try {
    await finishRestore(folder, options);
    await finishRebuild(folder);
  } catch (error) {
    const { code, errno } = error as NodeJS.ErrnoException;
    if (typeof code !== 'string' || typeof errno !== 'number') throw error;
    throw new StoreRefused(
      'unusable',
      `what was interrupted in ${folder} cannot be finished (${code}): mend that, and give the command again`,
    );
  }
}

export const REBUILDING_FOLDER = `${LEVEL_FOLDER}.rebuilding`;
const REBUILT_FOLDER = `${LEVEL_FOLDER}.rebuilt`;

/**
 * Puts the finished `log.rebuilding` in the place of the database; returns where the former one is kept. No process may
 * have the former one open: LevelDB would write to, and delete from, the folder that now has its name. Throws
 * `StoreRefused`.
 */
export async function cutOverToRebuilt(folder: string, nowMs: number): Promise<string> {
  const place = (name: string): string => join(folder, name);
  await rm(place(REBUILT_FOLDER), { recursive: true, force: true });
  await rename(place(REBUILDING_FOLDER), place(REBUILT_FOLDER));
  await syncFolder(folder);
  const replaced = place(`${LEVEL_FOLDER}.replaced-${new Date(nowMs).toISOString().replace(/[:.]/g, '')}`);
  await rename(place(LEVEL_FOLDER), replaced);
  await refuseOpen(replaced, place(LEVEL_FOLDER));
  await syncFolder(folder);
  await takeLastStep(folder);
  return replaced;
}

/** Puts the former database back when a relay was started on it at the last moment. */
async function refuseOpen(replaced: string, current: string): Promise<void> {
  const level = levelAt(replaced);
  try {
    await level.open({ createIfMissing: false });
    await level.close();
  } catch (error) {
    if ((error as { cause?: { code?: string } }).cause?.code !== 'LEVEL_LOCKED') return;
    await rename(replaced, current);
    throw new StoreRefused(
      'locked',
      `a relay was started on the store at ${current} meanwhile: stop it, and begin again`,
    );
  }
}

/** Completes an interrupted cutover to a rebuilt database. Does nothing when a database is in its place. */
async function finishRebuild(folder: string): Promise<void> {
  const isUnderWay = !existsSync(join(folder, LEVEL_FOLDER)) && existsSync(join(folder, REBUILT_FOLDER));
  if (isUnderWay) await takeLastStep(folder);
}

/** Removes what an interrupted rebuild left beside the database that is in use. The caller holds its lock. */
export async function dropRebuilt(folder: string): Promise<void> {
  for (const name of [REBUILDING_FOLDER, REBUILT_FOLDER]) {
    await rm(join(folder, name), { recursive: true, force: true });
  }
}

async function takeLastStep(folder: string): Promise<void> {
  try {
    await rename(join(folder, REBUILT_FOLDER), join(folder, LEVEL_FOLDER));
  } catch (error) {
    // A relay that was started in between took it.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || !existsSync(join(folder, LEVEL_FOLDER))) throw error;
  }
  await syncFolder(folder);
}
