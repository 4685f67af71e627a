/**
 * Moves the log of a store into a shared log: epoch, sequence numbers, hash tree and what waits stay as they are.
 *
 *   1. the row says that the store is loaded: from here on the log before leads nowhere, and nothing of it is lost
 *   2. what the store holds is loaded beside it, under a log id that was never used, with a snapshot for other nodes
 *   3. the store is marked as a view of that log, and synced: from here on it refuses to serve by itself
 *   4. the row names that log: from here on it serves, and any node that has a view of it may lead
 *
 * Steps 1, 3 and 4 are each one write, and what they found is read again when the command is given again: it goes on after the
 * last one that was taken, and loads anew what was not loaded to its end. Before step 4 it can be given up. Then the row
 * first says so, which no late statement of step 4 outlives; the mark is taken back; and the row says again what it said.
 */
import { countText } from '../core/count-text.ts';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Level } from '../store/level.ts';
import { POSITION_FILE, openStore } from '../store/open.ts';
import { becomeOwnLog } from '../store/own-log.ts';
import { StoreRefused } from '../store/refused.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { ViewMark } from '../store/view-mark.ts';
import type { MoveOptions } from './lead-now.ts';
import { FIRST_NO, type Loaded, loadStore } from './load-store.ts';
import { SERVING, phaseText, whyNotServed } from './log-phase.ts';
import { NODE_FILE, nodeName, thisBoot } from './open-view.ts';
import { type ChangedLog, type SeenLog, begunLog, changeRow } from './row-change.ts';
import { Fenced, LogRefused, type SharedLog } from './shared-log.ts';
import { SnapshotDamaged } from './snapshot-format.ts';
import { inStoppedStore } from './stopped-store.ts';
import { checkSnapshot } from './write-snapshot.ts';

export interface PublishOptions extends MoveOptions {
  /** Whether the log may take the place of another one. */
  replaces: boolean;
}

export interface PublishReport {
  logId: string;
  /** What was loaded now; `undefined` when an earlier command had loaded it. */
  loaded: Pick<Loaded, 'items' | 'damaged'> | undefined;
  notices: string[];
}

/** Throws `StoreRefused`, `LogRefused`, `Fenced`, what `confirm` throws, and what the log throws when it is not reached. */
export async function publishStore(options: PublishOptions): Promise<PublishReport> {
  const { log, folder, step } = options;
  const found = await inStoppedStore(options, async (_level, mark) => mark);
  const resumed = found && (await resume(options, found));
  const report = resumed ?? (await publishOwn(options));
  await step(`what is left of other logs goes from ${log.place}`);
  while ((await log.sweep()) > 0);
  await step(`the log of ${folder} is in its place`);
  return report;
}

/** Gives up what `publishStore` began. Returns whether the store of `folder` holds its own log. */
export async function abortPublish(options: MoveOptions): Promise<boolean> {
  const { log, folder } = options;
  const isThere = await isStoreThere(options);
  // Before anything is changed: a wrong address may name an empty database, which stays empty.
  await begunLog(log);
  const node = await nodeName(folder);
  await changeRow(log, ({ state, phase }) => {
    if ((phase.type === 'loading' || phase.type === 'aborting') && phase.node === node)
      return { state: phaseText({ ...phase, type: 'aborting' }) };
    const why = whyNotServed(phase) ?? `the log ${state.logId} serves`;
    throw new LogRefused(`no move of ${folder} into the log is under way, so there is nothing to give up (${why})`);
  });
  return finishAbort(options, node, isThere);
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

/** Takes the mark back, if it was made, and then lets the log before serve again. */
async function finishAbort(options: MoveOptions, node: string, isThere: boolean): Promise<boolean> {
  const { log, folder, positionFile, clock, step } = options;
  const { phase } = await begunLog(log);
  const takeBack = async (level: Level, mark: ViewMark | undefined): Promise<boolean> => {
    if (!mark) return true;
    if (phase.type !== 'aborting' || phase.node !== node || phase.logId !== mark.logId) return false;
    await step('the mark of the store is taken back');
    await becomeOwnLog(level, positionFile ?? join(folder, POSITION_FILE), clock.nowMs());
    return true;
  };
  const isOwn = isThere && (await inStoppedStore(options, takeBack));
  await step('the log before serves again');
  await changeRow(log, ({ phase }) => {
    if (phase.type === 'aborting' && phase.node === node) return { state: phase.before };
    throw new Fenced();
  });
  while ((await log.sweep()) > 0);
  return isOwn;
}

/** For a store that is marked already; `undefined` when it is a store of its own log again. */
async function resume(options: PublishOptions, mark: ViewMark): Promise<PublishReport | undefined> {
  const { log, folder, signal } = options;
  const node = await nodeName(folder);
  const seen = await begunLog(log);
  const { state, phase } = seen;
  const done = { logId: mark.logId, loaded: undefined, notices: [] };
  if (state.logId === mark.logId) {
    if (phase.type === 'serving') return done;
    // A move back that did not come as far as the store.
    if (phase.type === 'moved' && phase.node === node) {
      await changeRow(log, (now) => sameAs(seen, now, { state: SERVING }));
      return done;
    }
    throw new LogRefused(whyNotServed(phase) ?? '');
  }
  if (phase.type === 'loading' && phase.logId === mark.logId) {
    await checkLoaded(log, mark, state, signal);
    await replace(options, mark, (now) => now.state.state === state.state);
    return done;
  }
  if (phase.type !== 'aborting' || phase.logId !== mark.logId)
    throw new LogRefused(
      `the store at ${folder} is a view of the log ${mark.logId}, and ${log.place} holds another one: see that --log names the right database`,
    );
  await changeRow(log, (now) => sameAs(seen, now, { state: state.state }));
  await finishAbort(options, node, true);
  return undefined;
}

/** A database that was restored meanwhile may lack what was loaded. Throws `LogRefused`, and why the signal aborted. */
async function checkLoaded(
  log: SharedLog,
  { logId, effects }: ViewMark,
  { term, tenure = '' }: SeenLog['state'],
  signal: AbortSignal,
): Promise<void> {
  try {
    await checkSnapshot(log, logId, FIRST_NO, signal);
    // An interrupted check says nothing of what was not read.
    signal.throwIfAborted();
    const [first] = await log.batches(logId, 0, { logId, term, tenure });
    if (first?.no !== FIRST_NO || !first.effects.equals(effects)) throw new SnapshotDamaged('its batch is missing');
  } catch (error) {
    if (!(error instanceof SnapshotDamaged)) throw error;
    throw new LogRefused(
      `what was loaded into ${log.place} is not whole there (${error.message}): give up the move with poste relay log publish --abort, and begin again`,
    );
  }
}

async function publishOwn(options: PublishOptions): Promise<PublishReport> {
  const { log, folder, positionFile, signer, clock, newEpoch, signal, step } = options;
  const node = await nodeName(folder);
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
    const held = await hold(options, { node, logId });
    await step('what the store holds is loaded');
    const loading = { log, hold: held.hold, logId, clock, signal };
    const { items, damaged, mark } = await loadStore(store, loading);
    await step('the store is marked as moved');
    const bootId = await thisBoot();
    const marked: ViewMark = { ...mark, tenure, bootId, isClosed: true, place: log.place };
    await store.becomeView(marked);
    await replace(options, marked, ({ state }) => state.tenure === held.hold.tenure);
    return { logId, loaded: { items, damaged }, notices };
  } finally {
    await store.close();
  }
}

/** Step 1. Whether the log that is there may be replaced is decided by what it says of itself. */
async function hold(options: PublishOptions, own: { node: string; logId: string }): Promise<ChangedLog> {
  const { log, confirm, step } = options;
  let isConfirmed = false;
  await step('the log is held');
  return changeRow(log, async (seen) => {
    const stake = stakeOf(seen, own.node, options);
    if (!isConfirmed && stake !== undefined) await confirm(stake);
    isConfirmed = true;
    const { phase } = seen;
    const before = phase.type === 'loading' || phase.type === 'aborting' ? phase.before : phaseText(phase);
    return { state: phaseText({ type: 'loading', before, ...own }) };
  });
}

/** What is replaced, as a clause; `undefined` when that is nothing. Throws `LogRefused` when it may not be. */
function stakeOf({ state, phase }: SeenLog, node: string, { replaces, log }: PublishOptions): string | undefined {
  const isOwn = phase.type !== 'serving' && phase.type !== 'unknown' && phase.node === node;
  if (isOwn) return undefined;
  if (phase.type === 'serving') {
    if (state.lastNo === 0) return undefined;
    if (replaces) return `this log takes the place of the one at ${log.place}, whose relays stop`;
    throw new LogRefused(
      `${log.place} holds a log already, with ${countText(state.lastNo, 'batch', 'batches')}: name an empty database with --log, or say --replace to put this log in its place`,
    );
  }
  if (phase.type === 'unknown' || !replaces) throw new LogRefused(whyNotServed(phase) ?? '');
  // Its store may be marked already: it would serve nowhere any more.
  if (phase.type !== 'moved')
    throw new LogRefused(
      `--replace cannot take the place of what node ${phase.node} is moving into ${log.place}, because its store may not serve by itself any more: end that move first, with poste relay log publish there, or give it up there with --abort`,
    );
  return `this log takes the place of the one at ${log.place}, which went to node ${phase.node}: if its relay does not serve without --log yet, end the move there first`;
}

/** Step 4. `isAsBefore` tells from the row whether it may still be taken. */
async function replace(
  { log, step }: PublishOptions,
  { logId, tenure }: ViewMark,
  isAsBefore: (seen: SeenLog) => boolean,
): Promise<void> {
  await step('the log takes its place');
  await changeRow(log, (seen) => {
    if (!isAsBefore(seen)) throw new Fenced();
    return { state: SERVING, replacedBy: { logId, no: FIRST_NO }, ...(tenure !== undefined && { tenure }) };
  });
}

/** The same row as before, or nothing: what was decided rests on it. Changed to be on every copy, whatever it says. */
function sameAs(before: SeenLog, now: SeenLog, change: { state: string }): { state: string } {
  if (now.state.logId === before.state.logId && now.state.state === before.state.state) return change;
  throw new Fenced();
}

/** Other nodes would stop at such a row, which this one passes over. */
async function refuseDamagedRows(store: RelayStore, folder: string): Promise<void> {
  for (let place: Buffer | undefined = Buffer.alloc(0); place; ) place = await store.checkRows(place);
  if (store.damagedRows.count === 0) return;
  throw new StoreRefused(
    'damaged',
    `the store at ${folder} holds damaged rows, and other relays could not follow it: run poste relay log verify and then poste relay log rebuild, and move it afterwards`,
  );
}
