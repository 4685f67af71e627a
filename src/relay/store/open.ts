/**
 * Opens the relay's store, or refuses with one sentence.
 *
 * It checks the lock, the schema, the newest log records (no gap, every checksum), the key, the position outside
 * LevelDB and the heartbeat. A damaged log is refused. When the relay cannot prove that its store is current (the log
 * ends before the noted position, or the heartbeat is too old or in the future), it starts a new epoch and logs why:
 * senders push again, and dedup absorbs what is still here. Nothing is repaired silently.
 */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/names.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import type { RelayRow } from '../core/rows.ts';
import { PREFIX, lsnOf, prefixRange } from './keys.ts';
import { holdsDatabase, makeFolder, openLevel, refusedIfDamaged, StoreRefused, unusableStore } from './refused.ts';
import { LEVEL_FOLDER, type Level, type LevelSharing } from './level.ts';
import { LogTree } from './log-tree.ts';
import {
  type OpenedPosition,
  PositionFile,
  heartbeatFault,
  heartbeatOf,
  positionFault,
  positionAt,
  type PositionPlace,
  positionPathOf,
  settlePosition,
} from './position.ts';
import { type ViewMark, declaredSchema, logPlace, readPruned, readViewMark } from './marks.ts';
import { migrate, NEWEST_SCHEMA, relayRowOf, type Schema } from './migrate.ts';
import { DamagedRecord, checkRecord } from './record.ts';
import { recordRuns } from './record-run.ts';
import { dropRebuilt, finishCutovers, isRestoreUnderWay } from './cutover.ts';
import { syncFolder } from '../../lib/files.ts';
import { createRelayKey, readRelayKey } from './relay-key.ts';
import { RelayStore } from './relay-store.ts';
import { WireThread } from './wire-thread.ts';
import type { LogBounds } from './store-reader.ts';
import { EmbeddedLog, type LogBatch } from './durable-log.ts';

/** The number of the newest records that are checked: far more than LevelDB's write-ahead log ever holds. */
const CHECKED_RECORDS = 200_000;
const CHECKED_AT_ONCE = 4096;

export interface OpenStoreOptions extends PositionPlace {
  folder: string;
  /** The deploy secret's key, when there is one; else `relay.key` in the folder, made on first start. */
  signer?: Signer;
  nowMs: number;
  newEpoch: () => Epoch;
  /** The schema to bring the store to, and how: this software's when absent. */
  schema?: Schema;
}

export interface OpenedStore {
  store: RelayStore;
  signer: Signer;
  initialised: boolean;
  /** Sentences for the operator: what was found, and what was done about it. */
  notices: string[];
  /** Says why the opening began an epoch; `undefined` when the stored one goes on. */
  epochBegun: EpochReason | undefined;
  /** Says whether the stored heartbeat and the clock contradict each other. */
  isClockSuspect: boolean;
}

export async function openStore(options: OpenStoreOptions): Promise<OpenedStore> {
  try {
    return await open(options);
  } catch (error) {
    throw unusableStore(error, options.folder);
  }
}

async function open(options: OpenStoreOptions): Promise<OpenedStore> {
  const { folder } = options;
  await makeFolder(folder);
  await finishCutovers(folder, { positionFile: options.positionFile });
  const levelFolder = join(folder, LEVEL_FOLDER);
  const positionPath = positionPathOf(folder, options.positionFile);
  const existed = existsSync(positionPath) || holdsDatabase(levelFolder);
  const level = await openServing(folder, () => openLevel(levelFolder, existed, positionPath, { isShared: true }));
  if (!level) return open(options);
  const opened: { close(): Promise<void> }[] = [level];
  try {
    const view = await readViewMark(level);
    if (view) throw new StoreRefused('view', viewSentence(folder, view));
    await dropRebuilt(folder);
    const schema = await declaredSchema(level);
    if (schema !== undefined) checkSchema(schema, levelFolder, (options.schema ?? NEWEST_SCHEMA).version);
    const signer = options.signer ?? (await readRelayKey(folder)) ?? (await firstKey(folder, schema !== undefined));
    const { file, position } = await PositionFile.openOrRefuse(await settlePosition(folder, options));
    opened.push(file);
    const wires = new WireThread(level.location);
    const found = await storeOver({ level, wires, schema, signer, file, position }, options);
    if (found.initialised) {
      await syncFolder(folder);
      await syncFolder(dirname(folder));
    }
    return { ...found, signer };
  } catch (error) {
    for (const resource of opened.toReversed()) await resource.close();
    throw refusedIfDamaged(error, levelFolder);
  }
}

/** The files of a store, opened: what decides is what they hold, wherever they lie. */
export interface StoreFiles extends OpenedPosition {
  level: Level;
  /** Threads read it too: where the level is shared. */
  wires?: WireThread;
  /** The schema of it, as `declaredSchema` says. */
  schema: number | undefined;
  signer: Signer;
}

/** The store that the files hold, judged as at every start; a new one where they are empty. */
export async function storeOver(
  { level, wires, schema, signer, file, position }: StoreFiles,
  options: Pick<OpenStoreOptions, 'folder' | 'nowMs' | 'newEpoch' | 'schema'>,
): Promise<Omit<OpenedStore, 'signer'>> {
  const { folder, nowMs, newEpoch } = options;
  const levelFolder = join(folder, LEVEL_FOLDER);
  const newest = options.schema ?? NEWEST_SCHEMA;
  const bounds = await checkNewestRecords(level);
  const { lastLsn } = bounds;
  if (schema === undefined && (lastLsn > 0 || position)) throw damaged(levelFolder, 'it holds no schema version');
  const store = new RelayStore(level, new EmbeddedLog(file), bounds, await LogTree.open(level, lastLsn), wires);
  const relay = await relayRowOf(level, schema ?? newest.version);
  if (!relay) {
    if (schema !== undefined) throw damaged(levelFolder, 'it holds no relay row');
    const event: RelayEvent = {
      type: 'RelayInitialised',
      relayPubkey: signer.publicKey,
      epoch: newEpoch(),
      schemaVersion: newest.version,
      atMs: nowMs,
    };
    await appendAtOnce(store, event, nowMs);
    return { store, initialised: true, notices: [], epochBegun: undefined, isClockSuspect: false };
  }
  refuseForeignKey(relay, signer, 'store', folder);
  const notices: string[] = [];
  refuseContradiction(schema, relay.schemaVersion, levelFolder);
  if (relay.schemaVersion < newest.version) {
    await migrate(level, store, relay, newest.version, newest.migrations, nowMs);
    notices.push(`The store was brought from schema ${relay.schemaVersion} to ${newest.version}; its epoch goes on.`);
  }
  const ofHeartbeat = heartbeatFault(heartbeatOf(store), nowMs);
  const reset = (await positionFault(level, position, bounds.pruned)) ?? ofHeartbeat;
  if (reset) {
    notices.push(`${capitalised(reset.clause)}. A new epoch begins; senders will push again what was not confirmed.`);
    await appendAtOnce(store, { type: 'EpochRotated', epoch: newEpoch(), reason: reset.reason, atMs: nowMs }, nowMs);
  } else if (position && position.lsn < store.lastLsn) {
    // The end came after a batch was synced and before its position was noted. The relay will answer from that batch: a
    // host that pushes an item of it again gets `duplicate`. So the position is noted before any host is served.
    await file.write(await positionAt(store));
  }
  await store.findUncollected();
  return {
    store,
    initialised: false,
    notices,
    epochBegun: reset?.reason,
    isClockSuspect: ofHeartbeat !== undefined,
  };
}

/**
 * The database that serves, opened and locked; `undefined` when a restore put another into its place since it was
 * looked for: what was locked then is the one that went aside.
 */
export async function openServing(folder: string, openIt: () => Promise<Level>): Promise<Level | undefined> {
  const levelFolder = join(folder, LEVEL_FOLDER);
  const before = identityOf(levelFolder);
  const level = await openIt();
  // Without a database before, this open made it.
  if (!isRestoreUnderWay(folder) && (before === undefined || before === identityOf(levelFolder))) return level;
  await level.close();
  return undefined;
}

interface OpenStoppedOptions extends LevelSharing {
  positionFile?: string | undefined;
  /** The file that says how far the log had come, as a refusal names it. */
  place: string;
  /** Called before LevelDB opens the database. */
  check?: (() => Promise<void>) | undefined;
}

/** The database of a store that no relay serves from, opened and locked. Throws `StoreRefused`. */
export async function openStopped(
  folder: string,
  { positionFile, place, check, ...sharing }: OpenStoppedOptions,
): Promise<Level> {
  for (;;) {
    await finishCutovers(folder, { positionFile });
    const levelFolder = join(folder, LEVEL_FOLDER);
    if (!existsSync(levelFolder)) throw missingStore(folder);
    await check?.();
    const level = await openServing(folder, () => openLevel(levelFolder, true, place, sharing));
    if (level) return level;
  }
}

export function missingStore(folder: string): StoreRefused {
  return new StoreRefused('missing', `there is no store at ${folder}: name its folder with --store-dir`);
}

function identityOf(folder: string): bigint | undefined {
  return statSync(folder, { bigint: true, throwIfNoEntry: false })?.ino;
}

/** Throws `StoreRefused` unless the schema that a store declares is `newest` or older. */
export function checkSchema(said: number, folder: string, newest: number): void {
  if (said < 1) throw damaged(folder, 'its schema version is unreadable');
  if (said <= newest) return;
  throw new StoreRefused(
    'newer-schema',
    `the store has schema ${said} and this software knows schemas up to ${newest}: start the newer software`,
  );
}

/** A store declares the schema of its relay row, or the next one while a migration is under way. */
function refuseContradiction(said: number | undefined, ofRelay: number, folder: string): void {
  if (said === ofRelay || said === ofRelay + 1) return;
  throw damaged(folder, `it declares schema ${String(said)}, and its relay row has schema ${ofRelay}`);
}

async function firstKey(folder: string, initialised: boolean): Promise<Signer> {
  if (initialised) {
    throw new StoreRefused(
      'missing-key',
      `the store at ${folder} has no relay.key: put its own key back, or give it as MAIL_RELAY_KEY`,
    );
  }
  return createRelayKey(folder);
}

/** Throws `StoreRefused` unless what is at `place` is of the relay of `signer`. */
export function refuseForeignKey(relay: RelayRow, signer: Signer, what: 'store' | 'log', place: string): void {
  if (relay.relayPubkey === signer.publicKey) return;
  throw new StoreRefused(
    'foreign-key',
    `the relay key is not the one of the ${what} at ${place}: that one has the fingerprint ` +
      `${displayFingerprint(relay.relayPubkey)}; give the ${what} its own key`,
  );
}

function viewSentence(folder: string, mark: ViewMark): string {
  return (
    `the store at ${folder} is a view of a log that is kept ${logPlace(mark)}: start the relay with --log, name ` +
    'another folder with --store-dir, or move the log back with poste relay cluster withdraw'
  );
}

function damaged(folder: string, what: string): StoreRefused {
  return new StoreRefused(
    'damaged',
    `the store at ${folder} is damaged (${what}): restore a backup, or move the folder aside to begin empty; ` +
      'senders will push again what was not confirmed',
  );
}

/** The bounds of the log, once the newest records are all found there and unaltered. Throws `DamagedRecord`. */
export async function checkNewestRecords(level: Level, atMost: number = CHECKED_RECORDS): Promise<LogBounds> {
  const pruned = await readPruned(level);
  const [last] = await level.keys({ ...prefixRange(PREFIX.log), reverse: true, limit: 1 }).all();
  if (!last && pruned.throughLsn === 0) return { lastLsn: 0, pruned };
  const lastLsn = last ? lsnOf(last) : 0;
  if (last && lastLsn === 0) throw new DamagedRecord('a key among its log records is none of theirs');
  // The event of the checkpoint that stands for what was pruned comes after it.
  if (!last || lastLsn <= pruned.throughLsn)
    throw new DamagedRecord(`log record ${pruned.throughLsn + 1} is missing, and those before it were pruned`);
  const fromLsn = Math.max(pruned.throughLsn + 1, lastLsn - atMost + 1);
  for await (const run of recordRuns(level, fromLsn, lastLsn, { pairs: CHECKED_AT_ONCE }))
    for (const [lsn, record] of run) checkRecord(lsn, record);
  return { lastLsn, pruned };
}

/** Commits one event and a heartbeat, with what `node` says besides. For a store that no engine runs on. */
export async function appendAtOnce(
  store: RelayStore,
  event: RelayEvent,
  nowMs: number,
  node: LogBatch['node'] = {},
): Promise<void> {
  const entry = { lsn: store.lastLsn + 1, event };
  await store.append({
    entries: [entry],
    changes: reduce(entry, store),
    payloads: [],
    node: { heartbeatMs: nowMs, ...node },
  });
}

function capitalised(clause: string): string {
  return clause.slice(0, 1).toUpperCase() + clause.slice(1);
}
