/**
 * Moves the log of a stopped store into an empty shared log: what the store holds becomes the image with which that log
 * begins. Epoch, sequence numbers, hash tree and what waits stay as they are.
 *
 *   1. the row says that the store is loaded: from here on nobody leads the log
 *   2. the image is loaded beside it, under a log id that was never used
 *   3. the store is marked as a view of that log, and synced: from here on it refuses to serve by itself
 *   4. the row names that log: from here on it serves, and any node that has a view of it may lead
 *
 * Steps 1, 3 and 4 are each one write. Before step 4 a move can be given up, and a command that finds one of this store gives
 * it up and begins anew. To give up, the row first says so, which no late statement of step 4 outlives; the mark is taken
 * back; and the row says again what it said before step 1.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { openStore } from '../store/open.ts';
import { StoreRefused } from '../store/refused.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { FIRST_NO, type Loaded, loadStore } from './load-store.ts';
import { type LoadPhase, type LogPhase, SERVING, phaseText, whyNotServed } from './log-phase.ts';
import { type ChangedLog, type MoveOptions, becomeOwnLog, changeRow, inStoppedStore, seenLog } from './move-log.ts';
import { NODE_FILE, nodeName, thisBoot } from './open-view.ts';
import { Fenced, LogRefused, copied } from './shared-log.ts';

export interface PublishReport {
  logId: string;
  /** What was loaded now; `undefined` when an earlier command had moved it. */
  loaded: Pick<Loaded, 'items' | 'damaged'> | undefined;
  notices: string[];
}

/** Throws `StoreRefused`, `LogRefused`, `Fenced`, and what the log throws when it is not reached. */
export async function publishStore(options: MoveOptions): Promise<PublishReport> {
  const { log, folder, step } = options;
  const mark = await inStoppedStore(options, async (_level, found) => found);
  const node = await nodeName(folder);
  const isDone = mark !== undefined && (await isPublished(options, mark, node));
  const report = isDone ? { logId: mark.logId, loaded: undefined, notices: [] } : await publishOwn(options, node);
  await step(`what is left of other logs goes from ${log.place}`);
  while ((await log.sweep()) > 0);
  await step(`the log of ${folder} is in its place`);
  return report;
}

/** Gives up what `publishStore` began. Returns whether the store of `folder` holds its own log. */
export async function abortPublish(options: MoveOptions): Promise<boolean> {
  const { log, folder, step } = options;
  const isThere = await isStoreThere(options);
  // Before anything is changed: a wrong address may name an empty database, which stays empty.
  await seenLog(log);
  const node = await nodeName(folder);
  const isOwn = await giveUp(options, node, isThere);
  await step('the log before serves again');
  await changeRow(log, ({ phase }) => {
    if (phase.type === 'aborting' && phase.node === node) return { state: phase.before };
    throw new Fenced();
  });
  while ((await log.sweep()) > 0);
  return isOwn;
}

/**
 * Whether there is a store that may be marked; a command that is at it has the lock. Where the store is lost, the name of its
 * node is enough to give its move up: nothing is left that could be marked.
 */
async function isStoreThere(options: MoveOptions): Promise<boolean> {
  try {
    await inStoppedStore(options, async () => undefined);
    return true;
  } catch (error) {
    const isLost = error instanceof StoreRefused && error.reason === 'missing';
    if (isLost && existsSync(join(options.folder, NODE_FILE))) return false;
    throw error;
  }
}

/**
 * The row says that the move of this node is given up; then the mark of its store is taken back, if it was made. Returns
 * whether the store holds its own log.
 */
async function giveUp(options: MoveOptions, node: string, isThere = true): Promise<boolean> {
  const { log, folder, step } = options;
  const { phase } = await changeRow(log, ({ state, phase: found }) => {
    if (isMoveOf(found, node)) return { state: phaseText({ ...found, type: 'aborting' }) };
    const why = whyNotServed(found) ?? `the log ${state.logId} serves`;
    throw new LogRefused(`no move of ${folder} into the log is under way, so there is nothing to give up (${why})`);
  });
  if (!isThere) return false;
  return inStoppedStore(options, async (level, mark) => {
    if (!mark) return true;
    if (!isMoveOf(phase, node) || phase.logId !== mark.logId) return false;
    await step('the mark of the store is taken back');
    await becomeOwnLog(level, options);
    return true;
  });
}

function isMoveOf(phase: LogPhase, node: string): phase is LoadPhase {
  return (phase.type === 'loading' || phase.type === 'aborting') && phase.node === node;
}

/**
 * Whether the log of the mark serves: one that was on its way back serves again. A move that was cut short after the mark is
 * given up.
 */
async function isPublished(options: MoveOptions, { logId }: ViewMark, node: string): Promise<boolean> {
  const { log, folder } = options;
  const { state, phase } = await seenLog(log);
  if (state.logId === logId) {
    const why = whyNotServed(phase);
    if (why === undefined) return true;
    if (phase.type !== 'moved' || phase.node !== node) throw new LogRefused(why);
    // A move back that did not come as far as the store.
    await changeRow(log, ({ state: now }) => {
      if (now.logId === logId && now.state === state.state) return { state: SERVING };
      throw new Fenced();
    });
    return true;
  }
  if (!isMoveOf(phase, node) || phase.logId !== logId)
    throw new LogRefused(
      `the store at ${folder} is a view of the log ${logId}, and ${log.place} holds another one: see that --log names the right database`,
    );
  await giveUp(options, node);
  return false;
}

async function publishOwn(options: MoveOptions, node: string): Promise<PublishReport> {
  const { log, folder, positionFile, signer, clock, newEpoch, signal, step } = options;
  const opened = await openStore({
    folder,
    ...(positionFile !== undefined && { positionFile }),
    signer,
    nowMs: clock.nowMs(),
    newEpoch,
  });
  const { store, notices } = opened;
  try {
    await refuseDamagedRows(store, folder);
    const [logId, tenure] = [randomUUID(), randomUUID()];
    const { hold } = await holdLog(options, { node, logId });
    await step('what the store holds is loaded');
    const { items, damaged, mark } = await loadStore(store, { log, hold, logId, clock, signal });
    await step('the store is marked as moved');
    const bootId = await thisBoot();
    await store.becomeView({ ...mark, tenure, bootId, isClosed: true, place: log.place });
    await step('the log takes its place');
    await changeRow(log, ({ state }) => {
      if (state.tenure !== hold.tenure) throw new Fenced();
      return { state: SERVING, replacedBy: { logId, no: FIRST_NO }, tenure };
    });
    return { logId, loaded: { items, damaged }, notices };
  } finally {
    await store.close();
  }
}

/** Step 1. Throws `LogRefused` for a log that is not empty. */
async function holdLog({ log, step }: MoveOptions, own: Pick<LoadPhase, 'node' | 'logId'>): Promise<ChangedLog> {
  await step('the log is held');
  if (!copied(await log.open()).state) await log.initialise(randomUUID());
  return changeRow(log, ({ state, phase }) => {
    const isMove = isMoveOf(phase, own.node);
    const isBack = phase.type === 'moved' && phase.node === own.node;
    const why = isMove || isBack ? undefined : whyNotServed(phase);
    if (why !== undefined) throw new LogRefused(why);
    if (phase.type === 'serving' && state.lastNo > 0)
      throw new LogRefused(`${log.place} holds a log already: name an empty database with --log`);
    const before = isMove ? phase.before : phaseText(phase);
    return { state: phaseText({ type: 'loading', before, ...own }) };
  });
}

/** Other nodes would stop at such a row, which this one passes over. */
async function refuseDamagedRows(store: RelayStore, folder: string): Promise<void> {
  for (let place: Buffer | undefined = Buffer.alloc(0); place; ) place = await store.checkRows(place);
  if (store.damagedRows.count === 0) return;
  throw new StoreRefused(
    'damaged',
    `the store at ${folder} holds damaged rows: run poste relay log verify and poste relay log rebuild, and move it then`,
  );
}
