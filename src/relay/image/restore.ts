/**
 * Puts a backup in the place of the store, and preserves what a rewind must not undo (core/decide-restore.ts).
 *
 * One way: lock → unpack beside what is there → check all of it → read the replaced store → append what it says
 * → ask → sync → cutover (store/cutover.ts). Until the cutover is decided nothing of the store that is there changes,
 * and whatever ends a restore before leaves that store as it was. A rehearsal does the same over a copy, which it
 * throws away.
 */
import { existsSync, statSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type PreservedFigures, RestoreMerge } from './restore-merge.ts';
import { type ReplacedStore, decideRestore } from '../core/decide-restore.ts';
import { relayRow } from '../core/decision.ts';
import { rowKey } from '../core/rows.ts';
import { type BackupHeader, unpackBackup, unreadableCopy } from './backup.ts';
import { VIEW_KEY } from '../store/keys.ts';
import { LEVEL_FOLDER, type Level } from '../store/level.ts';
import { makeFolder, StoreRefused } from '../store/refused.ts';
import { MIGRATIONS, migrate } from '../store/migrate.ts';
import { unusablePosition, PositionFile, positionPathFault } from '../store/position.ts';
import { readPruned, SCHEMA_VERSION } from '../store/marks.ts';
import { syncFiles, syncFolder } from '../../lib/files.ts';
import { fileFault, systemRemedy } from '../../lib/file-fault.ts';
import { readRelayKey } from '../store/relay-key.ts';
import { LogTree } from '../store/log-tree.ts';
import { RelayStore } from '../store/relay-store.ts';
import {
  checkUnpacked,
  openReplaced,
  readableOf,
  readOrRefuse,
  type ReadReplaced,
  type RestoreNames,
  cloneLevel,
  removeLeftovers,
  restoreNames,
} from './restorable.ts';
import { decideRestoreCutover, finishRestore, finishCutovers, type StepObserver } from '../store/cutover.ts';
import { waitingRows } from '../store/scan.ts';
import { EmbeddedLog } from '../store/durable-log.ts';

export interface RestoreOptions {
  file: string;
  folder: string;
  /** The folder in which the position slots lie; inside `folder` when absent. */
  positionFile?: string;
  /** The deploy secret's key, when there is one; else `relay.key` in the folder. */
  signer?: Signer;
  nowMs: number;
  newEpoch: () => Epoch;
  /** Shows what a restore would do, and changes nothing but to finish what was interrupted before. */
  isRehearsal: boolean;
  /** Says whether to go on when the store that is there cannot be read, or not wholly. */
  acceptsUnreadable: boolean;
  /** Asked when everything is ready; throws to leave everything as it is. */
  confirm: (report: RestoreReport) => Promise<void>;
  /** Called with each step before it is taken. */
  step?: StepObserver;
  /** Leaves everything as it is, as long as nothing is decided. */
  signal?: AbortSignal;
}

export interface RestoreReport {
  backup: BackupHeader;
  /** The name of the database that served, from now on; `null` when there was none. */
  keptAside: string | null;
  /** The store that gives way; `null` when there was none, or none that could be read. */
  replaced: { epoch: Epoch; lsn: number; continuesBackup: boolean } | null;
  /** Rows of it that could not be read. */
  unreadable: number;
  /** Its table files that are damaged: nothing was read of them. */
  damagedTables: number;
  epoch: Epoch;
  /** The last record of the restored store. */
  lsn: number;
  /** Items that wait in the restored store. */
  items: number;
  carried: PreservedFigures;
  /** Items that wait in the replaced store alone, by who has to push them again; `null` when that cannot be told. */
  missing: MissingItems[] | null;
}

interface MissingItems {
  senderPubkey: PublicKey;
  hostName: string;
  items: number;
}

/** Throws `StoreRefused`, what `confirm` throws, and why the signal aborted. */
export async function restoreRelay(options: RestoreOptions): Promise<RestoreReport> {
  try {
    refuseMissingBackup(options.file);
    const signer = options.signer ?? (await readRelayKey(options.folder));
    if (!signer) throw withoutKey(options.folder);
    if (options.positionFile !== undefined) await refuseUnusablePosition(options.positionFile);
    return await (options.isRehearsal ? rehearse({ ...options, signer }) : restore({ ...options, signer }));
  } catch (error) {
    const { code, errno, message } = error as NodeJS.ErrnoException;
    // Errors of the system have a number as well; those of commands have an exit.
    const isOfSystem = typeof errno === 'number';
    if (typeof code !== 'string' || !(isOfSystem || code.startsWith('LEVEL_'))) throw error;
    const what = isOfSystem ? fileFault(error) : message;
    throw new StoreRefused(
      'unusable',
      `the store at ${options.folder} cannot be restored (${what}): ${systemRemedy(`${code} ${message}`)} first`,
    );
  }
}

/** Before a key is asked for that a restore of a mistyped name does not need. */
function refuseMissingBackup(file: string): void {
  try {
    statSync(file);
  } catch (error) {
    throw unreadableCopy(error, file);
  }
}

/** Found out before anything is decided: from then on no other place will do without being asked for. */
async function refuseUnusablePosition(path: string): Promise<void> {
  const fault = await positionPathFault(path);
  if (fault === undefined) return;
  throw unusablePosition(path, fault);
}

type KeyedOptions = RestoreOptions & { signer: Signer };

function withoutKey(folder: string): StoreRefused {
  return new StoreRefused(
    'missing-key',
    `there is no relay.key in ${folder}, and no backup holds it: put the relay's own key ` +
      'there, or give it as MAIL_RELAY_KEY',
  );
}

function positionFileOf({ positionFile }: RestoreOptions): string | undefined {
  return positionFile === undefined ? undefined : resolve(positionFile);
}

/** Finishes what was interrupted before: the store that a restore would replace is the one after that. */
async function rehearse(options: KeyedOptions): Promise<RestoreReport> {
  await finishCutovers(options.folder, { positionFile: positionFileOf(options) });
  const scratch = await mkdtemp(join(tmpdir(), 'poste-rehearsal-'));
  try {
    const levelFolder = join(options.folder, LEVEL_FOLDER);
    if (existsSync(levelFolder)) await cloneLevel(levelFolder, join(scratch, LEVEL_FOLDER));
    const prepared = await prepare(options, scratch);
    await prepared.discard();
    return prepared.report;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function restore(options: KeyedOptions): Promise<RestoreReport> {
  const { folder, confirm, step } = options;
  const positionFile = positionFileOf(options);
  await makeFolder(folder);
  await finishCutovers(folder, { positionFile, step });
  const prepared = await prepare(options, folder);
  const { report, names } = prepared;
  try {
    await confirm(report);
    await step?.('the restored store is synced');
    await prepared.closeRestored();
    await syncFiles(join(folder, names.restored));
    await syncFolder(folder);
    await step?.('the restore is decided');
    options.signal?.throwIfAborted();
    if (report.keptAside === null && existsSync(join(folder, LEVEL_FOLDER))) throw begunMeanwhile(options.folder);
    const replaced = report.keptAside === null ? null : names.replaced;
    await decideRestoreCutover(folder, { ...names, replaced, positionFile: positionFile ?? null });
  } catch (error) {
    await prepared.discard();
    throw error;
  }
  // The restore has happened: if it is interrupted from here on, the next process that opens the store continues it.
  await step?.('the replaced store is unlocked');
  await prepared.unlock();
  await finishRestore(folder, { positionFile, step });
  return report;
}

/** Where there is no store there is no lock to hold. */
function begunMeanwhile(folder: string): StoreRefused {
  return new StoreRefused('locked', `a relay began a store at ${folder} meanwhile: stop it, and restore then`);
}

interface Prepared {
  report: RestoreReport;
  names: RestoreNames;
  closeRestored: () => Promise<void>;
  unlock: () => Promise<void>;
  /** Leaves nothing but what was there. */
  discard: () => Promise<void>;
}

/** Everything short of the cutover, in `folder`, which is that of the options or a copy of it. */
async function prepare(options: KeyedOptions, folder: string): Promise<Prepared> {
  const { file, nowMs, acceptsUnreadable, signer, step } = options;
  const place = { folder, shown: options.folder, acceptsUnreadable };
  const found = await openReplaced(place);
  const names = restoreNames(options.folder, nowMs);
  const opened = new Set<{ close(): Promise<void> }>();
  if (found?.lock) opened.add(found.lock);
  const closeOne = async (resource: { close(): Promise<void> }): Promise<void> => {
    if (opened.delete(resource)) await resource.close();
  };
  const discard = async (): Promise<void> => {
    for (const resource of opened) await closeOne(resource);
    await giveUpRestored(folder, names);
    for (const name of [names.restoredPosition, names.replacedCopy])
      await rm(join(folder, name), { recursive: true, force: true });
  };
  try {
    await removeLeftovers(folder);
    await step?.('the backup is unpacked');
    const { level, header } = await unpackBackup(file, join(folder, names.restored), options.signal);
    opened.add(level);
    await checkUnpacked(level, header, signer.publicKey, file);
    // A store that was the view of a shared log has a log of its own from now on.
    await level.del(VIEW_KEY);
    const copy = join(folder, names.replacedCopy);
    const readable = found && (await readableOf(found, folder, copy));
    if (readable) opened.add(readable);
    const isPartial = found !== undefined && found.damagedTables.size > 0;
    const read = readable && (await readOrRefuse(readable, isPartial, { level, header }, place));
    await step?.('the replaced store is taken over');
    const { file: position } = await PositionFile.open(join(folder, names.restoredPosition));
    const epoch = options.newEpoch();
    opened.add(position);
    const { store, figures } = await takenOver({ level, header, position }, read?.store, { epoch, nowMs });
    for (const owned of [level, position]) opened.delete(owned);
    opened.add(store);
    const report: RestoreReport = {
      backup: header,
      keptAside: found ? join(options.folder, names.replaced) : null,
      replaced: replacedOf(read),
      unreadable: read?.unreadable ?? 0,
      damagedTables: found?.damagedTables.size ?? 0,
      epoch,
      lsn: store.lastLsn,
      items: await countWaiting(level),
      carried: figures,
      missing: readable && read && !isPartial ? await missingItems(readable, read.store, store) : null,
    };
    if (readable && readable !== found?.level) await closeOne(readable);
    await rm(copy, { recursive: true, force: true });
    const { lock } = found ?? {};
    return {
      report,
      names,
      closeRestored: () => closeOne(store),
      unlock: async () => (lock ? closeOne(lock) : undefined),
      discard,
    };
  } catch (error) {
    await discard();
    throw error;
  }
}

/**
 * Removes the restored database under another name, so that no journal of a decision that was taken back brings what is
 * half removed into use, should the disk show that one again after a crash.
 */
async function giveUpRestored(folder: string, { restored, replacedCopy }: RestoreNames): Promise<void> {
  await rm(join(folder, replacedCopy), { recursive: true, force: true });
  if (existsSync(join(folder, restored))) await rename(join(folder, restored), join(folder, replacedCopy));
}

/** A checked backup in a new database, and the file that will hold its position. */
export interface UnpackedBackup {
  level: Level;
  header: BackupHeader;
  position: PositionFile;
}

/** The store of a backup, with what is preserved of the store that it replaces; durable when it resolves. */
export async function takenOver(
  { level, header, position }: UnpackedBackup,
  replaced: ReplacedStore | undefined,
  { epoch, nowMs }: { epoch: Epoch; nowMs: number },
): Promise<{ store: RelayStore; figures: PreservedFigures }> {
  const bounds = { lastLsn: header.lsn, pruned: await readPruned(level) };
  const store = new RelayStore(level, new EmbeddedLog(position), bounds, await LogTree.open(level, header.lsn));
  await migrate(level, store, relayRow(store), SCHEMA_VERSION, MIGRATIONS, nowMs);
  return { store, figures: await mergeInto(store, level, header, replaced, { epoch, nowMs }) };
}

/** Begins the epoch, and appends what is preserved of the replaced store. */
async function mergeInto(
  store: RelayStore,
  level: Level,
  { epoch: backupEpoch, lsn, created_at }: BackupHeader,
  replaced: ReplacedStore | undefined,
  { epoch, nowMs }: { epoch: Epoch; nowMs: number },
): Promise<PreservedFigures> {
  const merge = await RestoreMerge.start(store, level, nowMs);
  const command = {
    epoch,
    backupEpoch: backupEpoch as Epoch,
    backupLsn: lsn,
    backupCreatedAtMs: created_at,
    nowMs,
  };
  await merge.apply(decideRestore(command, replaced, merge.rows));
  await merge.merge(replaced);
  return merge.figures;
}

function replacedOf(read: ReadReplaced | undefined): RestoreReport['replaced'] {
  if (!read) return null;
  const { epoch, lastLsn: lsn, continuesBackup } = read.store;
  return { epoch, lsn, continuesBackup };
}

async function countWaiting(level: Level): Promise<number> {
  let items = 0;
  for await (const { rows } of waitingRows(level)) items += rows.length;
  return items;
}

/** Notices are left out: nobody pushes those. */
async function missingItems(level: Level, replaced: ReplacedStore, restored: RelayStore): Promise<MissingItems[]> {
  const missing = new Map<PublicKey, number>();
  for await (const { rows } of waitingRows(level)) {
    for (const { kind, senderPubkey, payloadTarget, itemId } of rows) {
      if (kind === 'expired' || restored.get('dedup', rowKey.dedup(senderPubkey, payloadTarget, itemId))) continue;
      missing.set(senderPubkey, (missing.get(senderPubkey) ?? 0) + 1);
    }
  }
  return Array.from(missing, ([senderPubkey, items]) => ({
    senderPubkey,
    hostName: replaced.enrolments.get(senderPubkey)?.hostName ?? '',
    items,
  })).toSorted((a, b) => b.items - a.items);
}
