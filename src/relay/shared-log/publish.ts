/**
 * Moves the log of a stopped store into an empty shared log: what the store holds becomes the image with which that log
 * begins. Epoch, sequence numbers, hash tree and what waits stay as they are.
 *
 *   1. the row says that the store is loaded: from here on nobody leads the log
 *   2. the image is loaded beside it, under a log id that was never used
 *   3. the store is marked as a view of that log, and synced: from here on it refuses to serve by itself
 *   4. the row names that log: from here on it serves, and any node that has a view of it may lead
 *
 * Steps 1, 3 and 4 are each one write. Before step 4 a move can be given up, and a command that finds one of this store
 * gives it up and begins anew. To give up, the row first says so, which no late statement of step 4 outlives; the mark
 * is taken back; and the row says again what it said before step 1.
 *
 * The image is the wire bytes that wait, a snapshot, and a first batch without a record: the snapshot stands for that
 * batch and everything before it. The last record of the store vouches for the rows of the snapshot.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../lib/clock.ts';
import { hasHash } from '../../protocol/encodings.ts';
import { decideCheckpoint } from '../core/decide-log.ts';
import { BatchEffects } from '../store/durable-log.ts';
import { appendAtOnce, openStore } from '../store/open.ts';
import { StoreRefused } from '../store/refused.ts';
import type { RelayStore } from '../store/relay-store.ts';
import { RowsDigest } from '../store/row-checkpoints.ts';
import { waitingRows } from '../store/scan.ts';
import type { ViewMark } from '../store/marks.ts';
import { encodeShared } from './batch-body.ts';
import { type LoadPhase, type LogPhase, SERVING, phaseText, whyNotServed } from './log-phase.ts';
import { type ChangedLog, type MoveOptions, becomeOwnLog, changeRow, inStoppedStore, seenLog } from './move-log.ts';
import { NODE_FILE, nodeName, thisBoot } from './open-view.ts';
import {
  type EncodedBatch,
  Fenced,
  LogRefused,
  type SharedLog,
  type StoredPayload,
  type Tenure,
  copied,
} from './shared-log.ts';
import { type StoreImage, imageNow, writeSnapshot } from './snapshot.ts';
import { placeOf } from './take-lead.ts';

/** Wire bytes of one statement, about. */
const LOADED_BYTES = 4 << 20;
/** The number of the batch with which a loaded log begins. */
const FIRST_NO = 1;
const NOTHING = { forgotten: { expiryEntries: [], dedupEntries: [], dedupRows: [] }, collected: undefined };

interface Loaded {
  /** Items that wait, and are in the log. */
  items: number;
  /** Those whose wire bytes the store lacks: the log has none either, and their senders push them again. */
  damaged: number;
  /** The mark of a view that holds exactly this. */
  mark: Pick<ViewMark, 'logId' | 'no' | 'lastLsn' | 'effects'>;
}

export interface PublishReport {
  logId: string;
  /** The items that were loaded now; `undefined` when an earlier command had moved it. */
  loaded: Pick<Loaded, 'items' | 'damaged'> | undefined;
  notices: string[];
}

/** Throws `StoreRefused`, `LogRefused`, `Fenced`, and what the log throws when it is not reached. */
export async function publishStore(options: MoveOptions): Promise<PublishReport> {
  const { log, folder, step } = options;
  // A move back makes the store its own under the same lock, while the row says that it went there.
  const found = await inStoppedStore(options, async (_level, mark) => {
    return mark && { logId: mark.logId, isServed: await isServed(options, mark) };
  });
  const node = await nodeName(folder);
  if (found && !found.isServed) await giveUp(options, node);
  const report = found?.isServed
    ? { logId: found.logId, loaded: undefined, notices: [] }
    : await publishOwn(options, node);
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
 * Says whether there is a store that may be marked; a command that is at it has the lock. Where the store is lost, the
 * name of its node is enough to give its move up: nothing is left that could be marked.
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
 * The row says that the move of this node is given up; then the mark of its store is taken back, if it was made.
 * Returns whether the store holds its own log.
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

/** True when the log of the mark serves: one that was on its way back serves again. Else its move was cut short. */
async function isServed({ log, folder }: MoveOptions, { logId }: ViewMark): Promise<boolean> {
  const node = await nodeName(folder);
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
      `the store at ${folder} is a view of the log ${logId}, and ${log.place} holds another one: see that ` +
        '--log names the right database',
    );
  return false;
}

async function publishOwn(options: MoveOptions, node: string): Promise<PublishReport> {
  const { log, folder, positionFile, signer, clock, newEpoch, signal, step } = options;
  const opened = await openStore({
    folder,
    positionFile,
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
    `the store at ${folder} holds damaged rows: run poste relay log verify and ` +
      'poste relay log rebuild, and move it then',
  );
}

interface LoadOptions {
  log: SharedLog;
  /** The row says this since the load began. */
  hold: Tenure;
  /** The log that is loaded. */
  logId: string;
  clock: Clock;
  signal: AbortSignal;
}

/** Step 2. Throws `Fenced` when the row is not that of `hold` any more, and why the signal aborted. */
async function loadStore(store: RelayStore, options: LoadOptions): Promise<Loaded> {
  const { log, hold, logId, clock, signal } = options;
  const checkpointLsn = await vouchForRows(store, clock.nowMs());
  const image = imageNow(store);
  try {
    const figures = await loadPayloads(store, image, options);
    const first = firstBatch(image.snapshot.lsn);
    await writeSnapshot({
      parts: {
        put: (part, body) => log.loadPart(hold, logId, FIRST_NO, part, body),
        get: (part) => log.part(logId, FIRST_NO, part),
      },
      image,
      mark: first,
      checkpointLsn,
      atMs: clock.nowMs(),
      monotonicMs: clock.monotonicMs,
      signal,
    });
    signal.throwIfAborted();
    await log.loadBatch(hold, logId, first);
    const { no, lastLsn, effects } = first;
    return { ...figures, mark: { logId, no, lastLsn, effects } };
  } finally {
    await image.snapshot.close();
  }
}

/** Appends the record that says what the rows are. Returns the one before it. */
async function vouchForRows(store: RelayStore, nowMs: number): Promise<number> {
  const digest = new RowsDigest();
  const snapshot = store.snapshot();
  try {
    for await (const run of snapshot.rows()) digest.add(run);
  } finally {
    await snapshot.close();
  }
  const throughLsn = store.lastLsn;
  const [event] = decideCheckpoint({ type: 'TakeCheckpoint', throughLsn, ...digest.taken(), nowMs }).events;
  if (!event) throw new Error('invariant: a checkpoint is an event');
  await appendAtOnce(store, event, nowMs, { lacksParts: () => true });
  return throughLsn;
}

async function loadPayloads(
  store: RelayStore,
  { snapshot }: StoreImage,
  { log, hold, logId, signal }: LoadOptions,
): Promise<Pick<Loaded, 'items' | 'damaged'>> {
  const figures = { items: 0, damaged: 0 };
  let [loading, bytes]: [StoredPayload[], number] = [[], 0];
  const load = async (): Promise<void> => {
    if (loading.length > 0) await log.loadPayloads(hold, logId, loading);
    [loading, bytes] = [[], 0];
  };
  for await (const { rows } of waitingRows(snapshot.level)) {
    signal.throwIfAborted();
    const wires = await store.payloads(rows);
    for (const [at, row] of rows.entries()) {
      const wire = wires[at];
      if (!wire || !hasHash(wire, row.wireHash)) {
        figures.damaged++;
        continue;
      }
      figures.items++;
      loading.push({ place: placeOf(row), wire });
      bytes += wire.length;
      if (bytes >= LOADED_BYTES) await load();
    }
  }
  await load();
  return figures;
}

function firstBatch(lastLsn: number): EncodedBatch {
  const { effects } = new BatchEffects().taken(Buffer.alloc(0));
  const nothing = { records: [], payloads: [], dropped: [], shared: encodeShared(NOTHING) };
  return { no: FIRST_NO, firstLsn: lastLsn + 1, lastLsn, effects, ...nothing };
}
