/**
 * Opens the view that a node keeps of a shared log, or a new one; a view that cannot be one of this log is put aside
 * and never deleted.
 *
 * A view lies where an embedded store would lie, so that everything that reads a stopped store reads a stopped view.
 */
import { existsSync } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { pathAside, replaceFile, syncFolder } from '../../lib/files.ts';
import { VIEW_KEY } from '../store/keys.ts';
import { LEVEL_FOLDER, type Level } from '../store/level.ts';
import { makeFolder, openLevel, damageIn, unusableStore } from '../store/refused.ts';
import { LogTree } from '../store/log-tree.ts';
import { checkNewestRecords, checkSchema, openServing } from '../store/open.ts';
import { declaredSchema, type ViewMark, logPlace, readViewMark, viewMarkPair, SCHEMA_VERSION } from '../store/marks.ts';
import { DamagedRecord } from '../store/record.ts';
import { RelayStore } from '../store/relay-store.ts';
import { WireThread } from '../store/wire-thread.ts';
import { type FillOptions, fillView } from './fill-view.ts';
import type { NodeOptions } from './node-options.ts';
import { LogRefused, type LogState } from './shared-log.ts';
import { SnapshotDamaged } from './snapshot.ts';
import { ViewLog } from './view-log.ts';
import { witnessFile } from './witness.ts';

export const NODE_FILE = 'node-name';
const NODE_BYTES = 4;
const REPLACED = 'Another log took the place of the one that this was a view of';
/** The effects of a view without a batch. */
const NO_EFFECTS = Buffer.alloc(0);

export interface View {
  store: RelayStore;
  log: ViewLog;
  /** The mark that the view had when it was opened: how far it had come, how it was left; `undefined` for a new one. */
  found: ViewMark | undefined;
  /** True when all that was written to it is still there: it was closed, or the machine did not go down since. */
  survived: boolean;
  notices: string[];
}

export interface ViewOptions
  extends Pick<NodeOptions, 'folder' | 'positionFile' | 'clock' | 'timers' | 'onStalled' | 'onUnreached' | 'onDoubt'>,
    FillOptions {
  state: LogState;
}

/** Throws `LogRefused` or `StoreRefused`. */
export async function openView(options: ViewOptions): Promise<View> {
  try {
    return await open(options);
  } catch (error) {
    throw unusableStore(error, options.folder);
  }
}

async function open(options: ViewOptions, notices: string[] = []): Promise<View> {
  const { folder, state, log } = options;
  await makeFolder(folder);
  const levelFolder = join(folder, LEVEL_FOLDER);
  const existed = hasDatabase(folder);
  const level = await openServing(folder, () =>
    openLevel(levelFolder, existed, witnessFile(options), { isShared: true }),
  );
  if (!level) return open(options, notices);
  try {
    const found = existed ? await readViewMark(level) : undefined;
    // A process that ended before it wrote the mark left a database without a key.
    if (existed && !found && !(await holdsOnly(level, VIEW_KEY))) throw new LogRefused(ownLogSentence(folder));
    const isOther = found !== undefined && found.logId !== state.logId;
    // At the same place another log took the place of that one; at another place the operator may have mistaken it.
    if (isOther && found.place !== log.place) throw new LogRefused(otherLogSentence(folder, found));
    if (found?.no === 0 && !(await holdsOnly(level, VIEW_KEY))) {
      await discard(level, levelFolder);
      return await open(options, [
        ...notices,
        'The last start was cut short while it filled the view: it is filled anew.',
      ]);
    }
    const isNew = !found || (found.no === 0 && !isOther);
    const ofThis = isNew || isOther ? undefined : await faultOf(level, found, state);
    const fault = isOther ? REPLACED : ofThis;
    if (isNew && state.snapshotNo > 0) return await openFilled(options, level, notices);
    if (fault === undefined) return await opened(options, level, found, notices);
    await level.close();
    const aside = await putAside(folder, options.clock.nowMs());
    return await open(options, [
      ...notices,
      `${fault}: it was put aside as ${aside}, and a new view is made from the log.`,
    ]);
  } catch (error) {
    await level.close();
    throw error;
  }
}

/** A new view that is filled from the snapshot of the log. */
async function openFilled(options: ViewOptions, level: Level, notices: string[]): Promise<View> {
  const { folder, log, state } = options;
  const levelFolder = join(folder, LEVEL_FOLDER);
  const begun = newMark(options, await thisBoot());
  await level.put(...viewMarkPair(begun), { sync: true });
  await syncFolder(folder);
  try {
    const filled = await fillView(level, state, folder, options);
    await level.put(...viewMarkPair({ ...begun, ...filled }), { sync: true });
    const notice = `A new view was filled from the snapshot of batch ${filled.no} of the log.`;
    return await opened(options, level, { ...begun, ...filled }, [...notices, notice]);
  } catch (error) {
    if (!(error instanceof SnapshotDamaged)) throw error;
    const { state: fresh } = await options.asked(() => log.open());
    if (fresh?.logId !== state.logId) throw new LogRefused('another log was put in the place of this one');
    await discard(level, levelFolder);
    // Another took its place meanwhile: its parts go then, and the record that vouches for it may be pruned.
    if (fresh.snapshotNo !== state.snapshotNo) return open({ ...options, state: fresh }, notices);
    const what = `the snapshot of batch ${state.snapshotNo} in the log is damaged (${error.message})`;
    if (fresh.prunedNo > 0)
      throw new LogRefused(
        `${what}, and the batches that it stands for are pruned: start a relay of this log whose view is whole, ` +
          'which replaces the snapshot while it leads; without one, restore the database of the log',
      );
    const withoutIt = { ...options, state: { ...fresh, snapshotNo: 0 } };
    return open(withoutIt, [...notices, `The view is made from the batches of the log, because ${what}.`]);
  }
}

async function opened(
  options: ViewOptions,
  level: Level,
  found: ViewMark | undefined,
  notices: string[],
): Promise<View> {
  const { folder, log } = options;
  const schema = await declaredSchema(level);
  if (schema !== undefined) checkSchema(schema, folder, SCHEMA_VERSION);
  const bounds = await checkNewestRecords(level);
  const bootId = await thisBoot();
  const mark: ViewMark = found ? { ...found, bootId, place: log.place } : newMark(options, bootId);
  if (!found) {
    await level.put(...viewMarkPair(mark), { sync: true });
    await syncFolder(folder);
  }
  const viewLog = new ViewLog({ ...options, mark });
  const tree = await LogTree.open(level, bounds.lastLsn);
  const store = new RelayStore(level, viewLog, bounds, tree, new WireThread(level.location));
  await store.findUncollected();
  const survived = found !== undefined && (found.isClosed || found.bootId === bootId);
  return { store, log: viewLog, found, survived, notices };
}

function newMark({ log, state }: ViewOptions, bootId: string): ViewMark {
  const { logId } = state;
  const { place } = log;
  return { logId, no: 0, lastLsn: 0, effects: NO_EFFECTS, tenure: undefined, bootId, isClosed: false, place };
}

/** True when there is no other key in it. */
async function holdsOnly(level: Level, key: Buffer): Promise<boolean> {
  const keys = await level.keys({ limit: 2 }).all();
  return keys.every((one) => one.equals(key));
}

/** Deletes a view that holds nothing but a part of what the log has. */
async function discard(level: Level, folder: string): Promise<void> {
  await level.close();
  await rm(folder, { recursive: true, force: true });
}

/** Says why this view cannot go on, as the beginning of a sentence. */
async function faultOf(level: Level, mark: ViewMark, state: LogState): Promise<string | undefined> {
  if (mark.no < state.prunedNo) return 'This view is older than what the log still holds';
  try {
    const { lastLsn } = await checkNewestRecords(level);
    return lastLsn === mark.lastLsn
      ? undefined
      : `This view lost records (it ends at ${lastLsn}, not at ${mark.lastLsn})`;
  } catch (error) {
    const damage = error instanceof DamagedRecord ? error.message : damageIn(error);
    if (damage === undefined) throw error;
    return `This view is damaged (${damage})`;
  }
}

/** True when there is a database in `folder`: a view, or a store of its own. */
export function hasDatabase(folder: string): boolean {
  return existsSync(join(folder, LEVEL_FOLDER, 'CURRENT'));
}

/** Marks the view as whole, and closes it. */
export async function closeView({ store, log }: View): Promise<void> {
  await log.closes();
  try {
    if (!store.isFailed) await store.append({ entries: [], changes: [], payloads: [] });
  } finally {
    await store.close();
  }
}

/** Puts the view of `folder` aside; the store must be closed. Returns where it is. */
export async function putAside(folder: string, nowMs: number): Promise<string> {
  const aside = pathAside(join(folder, LEVEL_FOLDER), 'aside', nowMs);
  await rename(join(folder, LEVEL_FOLDER), aside);
  await syncFolder(folder);
  return aside;
}

/** The name under which this node leads: of this machine, and of this folder. */
export async function nodeName(folder: string): Promise<string> {
  const path = join(folder, NODE_FILE);
  const stored = await readFile(path, 'utf8').catch(missing);
  if (stored !== undefined && stored.trim() !== '') return stored.trim();
  const name = `${hostname()}-${randomBytes(NODE_BYTES).toString('hex')}`;
  await replaceFile(path, `${name}\n`);
  return name;
}

/** What is written without a sync is there after a crash of the process, unless the machine started anew. */
export async function thisBoot(): Promise<string> {
  const text = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(missing);
  // Elsewhere every start counts as a new one: only a closed view proves anything then.
  return text?.trim() ?? randomBytes(16).toString('hex');
}

function missing(): undefined {
  return undefined;
}

function ownLogSentence(folder: string): string {
  return `the store at ${folder} is a relay with a log of its own: name another folder with --store-dir`;
}

function otherLogSentence(folder: string, mark: ViewMark): string {
  return (
    `the store at ${folder} is a view of another log, which is ${logPlace(mark)}: see that --log names the right ` +
    'one, name another folder with --store-dir, or move it aside'
  );
}
