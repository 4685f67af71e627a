/**
 * Opens the relay's store, or refuses with one sentence.
 *
 * What is looked at: the lock, the schema, the newest log records (no gap, every checksum), the key, the position noted
 * outside LevelDB, the heartbeat. Damage inside the log refuses. A log that ends before the noted
 * position, or a heartbeat that tells of time that this store did not live, begins a new epoch: senders push again
 * and dedup absorbs what is still here. Nothing is repaired in silence.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { hash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { HEARTBEAT_STALE_MS } from '../../protocol/limits.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import { type RelayRow, rowKey } from '../core/rows.ts';
import { PREFIX, SCHEMA_KEY, logKey, lsnOf, prefixRange } from './keys.ts';
import { isOfTheSystem, refusedIfDamaged } from './damage.ts';
import { LEVEL_FOLDER, type Level, levelAt } from './level.ts';
import { LogTree } from './log-tree.ts';
import { MIGRATIONS, type Migration, migrate } from './migrate.ts';
import { type Position, PositionFile } from './position.ts';
import { DamagedRecord, checkRecord } from './record.ts';
import { readPruned } from './pruned.ts';
import { dropRebuilt } from './rebuild-swap.ts';
import { StoreRefused } from './refused.ts';
import { syncFolder } from '../../system/sync-folder.ts';
import { createRelayKey, readRelayKey } from './relay-key.ts';
import { type LogBounds, RelayStore } from './relay-store.ts';
import { DamagedRow } from './row-codec.ts';
import { POSITION_FILE, isSwapUnderWay } from './restore-swap.ts';
import { finishSwaps } from './unfinished-swaps.ts';

export { LEVEL_FOLDER, POSITION_FILE };
export const SCHEMA_VERSION = 1;
/** How many of the newest records are checked: far more than LevelDB's own log ever holds. */
const CHECKED_RECORDS = 200_000;
/** A heartbeat may be this far ahead: clocks are stepped by a little all the time. */
const HEARTBEAT_AHEAD_MS = 60_000;

export interface OpenStoreOptions {
  folder: string;
  /** Where the position slots lie; inside `folder` when absent. */
  positionFile?: string;
  /** The deploy secret's key, when there is one; else `relay.key` in the folder, made on first start. */
  signer?: Signer;
  nowMs: number;
  newEpoch: () => Epoch;
  /** The schema to bring the store to, and how: this software's when absent. */
  schema?: { version: number; migrations: readonly Migration[] };
}

export interface OpenedStore {
  store: RelayStore;
  signer: Signer;
  initialised: boolean;
  /** Sentences for the operator: what was found, and what was done about it. */
  notices: string[];
  /** Why the opening began an epoch; `undefined` when the stored one goes on. */
  epochBegun: EpochReason | undefined;
  /** Whether the stored heartbeat and the clock contradict each other. */
  isClockDoubted: boolean;
}

/** Throws `StoreRefused`. */
export async function openStore(options: OpenStoreOptions): Promise<OpenedStore> {
  try {
    return await open(options);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof StoreRefused || typeof code !== 'string') throw error;
    throw new StoreRefused(
      'unusable',
      `the store at ${options.folder} cannot be used (${code}): mend that, and start the relay again`,
    );
  }
}

async function open(options: OpenStoreOptions): Promise<OpenedStore> {
  const { folder, nowMs, newEpoch } = options;
  await makeFolder(folder);
  await finishSwaps(folder, { positionFile: options.positionFile });
  const levelFolder = join(folder, LEVEL_FOLDER);
  const positionPath = options.positionFile ?? join(folder, POSITION_FILE);
  const existed = existsSync(positionPath) || holdsDatabase(levelFolder);
  const level = await openServing(folder, () => openLevel(levelFolder, existed, positionPath));
  if (!level) return open(options);
  const opened: { close(): Promise<void> }[] = [level];
  try {
    await dropRebuilt(folder);
    const schema = await level.get(SCHEMA_KEY);
    const newest = options.schema ?? { version: SCHEMA_VERSION, migrations: MIGRATIONS };
    const checked = schema ? checkSchema(schema, levelFolder, newest.version) : undefined;
    const signer = options.signer ?? (await readRelayKey(folder)) ?? (await firstKey(folder, checked !== undefined));
    const { file, position } = await openPosition(positionPath);
    opened.push(file);
    const bounds = await checkNewestRecords(level);
    const { lastLsn } = bounds;
    if (checked === undefined && (lastLsn > 0 || position)) throw damaged(levelFolder, 'it holds no schema version');
    const store = new RelayStore(level, file, bounds, await LogTree.open(level, lastLsn));
    const relay = store.get('relay', rowKey.relay);
    if (!relay) {
      if (checked !== undefined) throw damaged(levelFolder, 'it holds no relay row');
      const event: RelayEvent = {
        type: 'RelayInitialised',
        relayPubkey: signer.publicKey,
        epoch: newEpoch(),
        schemaVersion: newest.version,
        atMs: nowMs,
      };
      await appendAtOnce(store, event, nowMs);
      await syncFolder(folder);
      await syncFolder(dirname(folder));
      return { store, signer, initialised: true, notices: [], epochBegun: undefined, isClockDoubted: false };
    }
    refuseForeignKey(relay, signer, folder);
    const notices: string[] = [];
    if (checked !== undefined && checked < newest.version) {
      await migrate(level, store, checked, newest.version, newest.migrations, nowMs);
      notices.push(`The store was brought from schema ${checked} to ${newest.version}; its epoch goes on.`);
    }
    const clockDoubt = doubtOfHeartbeat(store, nowMs);
    const doubt = (await doubtOfPosition(level, position, bounds)) ?? clockDoubt;
    if (doubt) {
      notices.push(`${doubt.sentence} A new epoch begins; senders will push again what was not confirmed.`);
      await appendAtOnce(store, { type: 'EpochRotated', epoch: newEpoch(), reason: doubt.reason, atMs: nowMs }, nowMs);
    }
    await store.findUncollected();
    return {
      store,
      signer,
      initialised: false,
      notices,
      epochBegun: doubt?.reason,
      isClockDoubted: clockDoubt !== undefined,
    };
  } catch (error) {
    for (const resource of opened.toReversed()) await resource.close();
    throw refusedIfDamaged(error, levelFolder);
  }
}

/**
 * The database that serves, opened and locked; `undefined` when a restore put another into its place since it was looked
 * for: what was locked then is the one that went aside.
 */
export async function openServing(folder: string, openIt: () => Promise<Level>): Promise<Level | undefined> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  const before = identityOf(levelFolder);
  const level = await openIt();
  // Where there was none, it was made just now.
  if (!isSwapUnderWay(folder) && (before === undefined || before === identityOf(levelFolder))) return level;
  await level.close();
  return undefined;
}

function identityOf(folder: string): bigint | undefined {
  return statSync(folder, { bigint: true, throwIfNoEntry: false })?.ino;
}

/** The store folder, with its parents. Throws `StoreRefused`. */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await makeWithParents(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StoreRefused(
      'unusable',
      `${folder} cannot be used as the store folder (${code ?? 'unknown error'}): name another one with --store-dir`,
    );
  }
}

/** As `mkdir -p`. Node's own recursion never ends where a folder cannot be made but its parent exists, as in /proc. */
async function makeWithParents(folder: string): Promise<void> {
  if (existsSync(folder) && statSync(folder).isDirectory()) return;
  const parent = dirname(folder);
  if (parent !== folder) await makeWithParents(parent);
  await mkdir(folder, { mode: 0o700 });
}

/** Whether LevelDB ever finished creating itself there, whatever was lost since. */
function holdsDatabase(folder: string): boolean {
  return existsSync(folder) && readdirSync(folder).some((name) => name === 'CURRENT' || /\.(?:ldb|log)$/.test(name));
}

export async function openLevel(folder: string, existed: boolean, positionPath: string): Promise<Level> {
  const level = levelAt(folder);
  try {
    await level.open({ createIfMissing: !existed });
    return level;
  } catch (error) {
    const cause = (error as { cause?: { code?: string; message?: string } }).cause;
    if (cause?.code === 'LEVEL_LOCKED') {
      throw new StoreRefused(
        'locked',
        `another process is using the store at ${folder}: stop it first, or name another folder with --store-dir`,
      );
    }
    if (!existsSync(join(folder, 'CURRENT'))) {
      throw new StoreRefused(
        'damaged',
        `the database at ${folder} is missing or lost its CURRENT file although the relay has run here before: restore a backup, or move ${folder} and ${positionPath} aside to begin empty`,
      );
    }
    const said = cause?.message ?? 'unknown error';
    if (isOfTheSystem(said)) {
      throw new StoreRefused(
        'unusable',
        `the database at ${folder} cannot be opened (${said}): mend that, and start the relay again`,
      );
    }
    throw new StoreRefused(
      'damaged',
      `the database at ${folder} cannot be opened (${said}): restore a backup, or move it aside to begin empty`,
    );
  }
}

async function openPosition(path: string): ReturnType<typeof PositionFile.open> {
  try {
    return await PositionFile.open(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StoreRefused(
      'unusable',
      `the position file ${path} cannot be used (${code ?? 'unknown error'}): name another place with --position-file`,
    );
  }
}

/** The stored schema, which is `newest` or older. Throws `StoreRefused`. */
export function checkSchema(stored: Buffer, folder: string, newest: number): number {
  const version = stored.length === 4 ? stored.readUInt32BE(0) : 0;
  if (version < 1) throw damaged(folder, 'its schema version is unreadable');
  if (version > newest) {
    throw new StoreRefused(
      'newer-schema',
      `the store has schema ${version} and this software knows schemas up to ${newest}: start the newer software`,
    );
  }
  return version;
}

/** The key of a store that has none beside it yet. */
async function firstKey(folder: string, initialised: boolean): Promise<Signer> {
  if (initialised) {
    throw new StoreRefused(
      'missing-key',
      `the store at ${folder} has no relay.key: put its own key back, or give it as MAIL_RELAY_KEY`,
    );
  }
  return createRelayKey(folder);
}

function refuseForeignKey(relay: RelayRow, signer: Signer, folder: string): void {
  if (relay.relayPubkey === signer.publicKey) return;
  throw new StoreRefused(
    'foreign-key',
    `the relay key is not the one of the store at ${folder}: that one has the fingerprint ${displayFingerprint(relay.relayPubkey)}; give the store its own key`,
  );
}

function damaged(folder: string, what: string): StoreRefused {
  return new StoreRefused(
    'damaged',
    `the store at ${folder} is damaged (${what}): restore a backup, or move the folder aside to begin empty; senders will push again what was not confirmed`,
  );
}

/** The bounds of the log, after checking that the newest records are all there and unaltered. Throws `DamagedRecord`. */
export async function checkNewestRecords(level: Level, atMost: number = CHECKED_RECORDS): Promise<LogBounds> {
  const pruned = await readPruned(level);
  const [last] = await level.keys({ ...prefixRange(PREFIX.log), reverse: true, limit: 1 }).all();
  if (!last && pruned.throughLsn === 0) return { lastLsn: 0, pruned };
  const lastLsn = last ? lsnOf(last) : 0;
  if (last && lastLsn === 0) throw new DamagedRecord('a key among its log records is none of theirs');
  // The event of the checkpoint that stands for what was pruned comes after it.
  if (!last || lastLsn <= pruned.throughLsn)
    throw new DamagedRecord(`log record ${pruned.throughLsn + 1} is missing, and those before it were pruned`);
  let expected = Math.max(pruned.throughLsn + 1, lastLsn - atMost + 1);
  const iterator = level.iterator({ gte: logKey(expected), lte: last, fillCache: false, highWaterMarkBytes: 4 << 20 });
  try {
    for (;;) {
      const run = await iterator.nextv(4096);
      if (run.length === 0) break;
      for (const [key, record] of run) {
        if (lsnOf(key) !== expected) throw new DamagedRecord(`log record ${expected} is missing`);
        checkRecord(expected++, record);
      }
    }
  } finally {
    await iterator.close();
  }
  return { lastLsn, pruned };
}

interface Doubt {
  reason: EpochReason;
  sentence: string;
}

async function doubtOfPosition(
  level: Level,
  position: Position | undefined,
  { pruned }: LogBounds,
): Promise<Doubt | undefined> {
  if (!position) {
    return {
      reason: 'position-missing',
      sentence: 'The position file is missing or unreadable, so nothing outside the store says how far it had come.',
    };
  }
  if (position.lsn <= pruned.throughLsn) {
    return {
      reason: 'position-differs',
      sentence: `The position file is of log record ${position.lsn}, and the log was pruned through ${pruned.throughLsn} since: it is an older copy, and cannot tell whether this is its history.`,
    };
  }
  const record = await level.get(logKey(position.lsn));
  if (!record) {
    return {
      reason: 'position-ahead',
      sentence: `The store ends before log record ${position.lsn}, which it had committed: it is an older copy, or it lost its end.`,
    };
  }
  if (!hash('sha256', record, 'buffer').equals(position.recordHash)) {
    return {
      reason: 'position-differs',
      sentence: `Log record ${position.lsn} is not the one that was committed: this is another history of the store.`,
    };
  }
  return undefined;
}

function doubtOfHeartbeat(store: RelayStore, nowMs: number): Doubt | undefined {
  const atMs = heartbeatOf(store);
  if (atMs === undefined) {
    return {
      reason: 'stale-heartbeat',
      sentence: 'The heartbeat in the store is missing or unreadable, so nothing says how old this copy of it is.',
    };
  }
  const ageMs = nowMs - atMs;
  if (ageMs > HEARTBEAT_STALE_MS) {
    const minutes = Math.floor(ageMs / 60_000);
    return {
      reason: 'stale-heartbeat',
      sentence: `The last heartbeat in the store is ${minutes} minutes old: it may be an older copy.`,
    };
  }
  if (ageMs < -HEARTBEAT_AHEAD_MS) {
    return {
      reason: 'future-heartbeat',
      sentence: 'The last heartbeat in the store lies in the future: this clock, or the one before it, is wrong.',
    };
  }
  return undefined;
}

/** Every store has one from its first record on. */
function heartbeatOf(store: RelayStore): number | undefined {
  try {
    const atMs = store.get('heartbeat', rowKey.heartbeat)?.atMs;
    return Number.isSafeInteger(atMs) ? atMs : undefined;
  } catch (error) {
    if (error instanceof DamagedRow) return undefined;
    throw error;
  }
}

/** Commits one event and a heartbeat. For a store that no engine runs on. */
export async function appendAtOnce(store: RelayStore, event: RelayEvent, nowMs: number): Promise<void> {
  const entry = { lsn: store.lastLsn + 1, event };
  await store.append({
    entries: [entry],
    changes: [...reduce(entry, store), { table: 'heartbeat', key: rowKey.heartbeat, row: { atMs: nowMs } }],
    payloads: [],
    collected: undefined,
    forgotten: [],
  });
}
