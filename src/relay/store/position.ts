/**
 * Says how far the log has come, in which file that stands, and whether a store that is opened can be current.
 *
 * The position is written outside LevelDB after each batch and before any answer. A store copied back from ten minutes
 * ago, or one whose last record was lost with a flipped bit, looks whole from inside; the position says from outside
 * what must be there. Two slots are written in turn, so that a torn write leaves the other one:
 *
 *   0..3 "PSTP"   4..11 number of the write, u64   12..19 LSN, u64   20..51 SHA-256 of the record at that LSN
 *   52..77 epoch, ASCII   78..81 CRC-32 of what stands before, u32; padded with zeros to 512 bytes a slot
 *
 * DO NOT CHANGE the layout.
 *
 * Every command that opens, checks or replaces the store looks for the position:
 *
 *   1. in the file that a flag or the config names;
 *   2. else in the file that `position-place` in the store folder names, while the folder of that file is there;
 *   3. else in `position` in the store folder.
 *
 * A relay without a named file chooses one outside the store folder at its start, so that an older copy of the
 * folder brings no older position along. The pointer says which folder it was written for: in a copy elsewhere it
 * counts for nothing, and two stores never share a position. DO NOT CHANGE its name or its members.
 *
 * Invariant: a position is on the disk in its new place before the pointer names that, and leaves the old one after.
 */
import { StoreRefused } from './refused.ts';
import type { Pruned } from './marks.ts';
import { constants, existsSync, readFileSync, realpathSync, statSync, statfsSync } from 'node:fs';
import { type FileHandle, access, open, stat, readFile, rm } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { crc32 } from 'node:zlib';
import { caught, nothing, onlyOf } from '../../lib/caught.ts';
import type { Epoch } from '../../protocol/names.ts';
import { syncFolder, makeFolders, replaceFile } from '../../lib/files.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { DamagedRow } from './checksum.ts';
import type { Level } from './level.ts';
import { DamagedRecord } from './record.ts';
import { recordAt } from './record-run.ts';
import { hash, randomUUID } from 'node:crypto';
import { HEARTBEAT_STALE_MS } from '../../protocol/limits.ts';
import type { EpochReason } from '../core/event.ts';
import { rowKey, type RowReader } from '../core/rows.ts';
import Type from 'typebox';
import { parserOf } from '../../protocol/schemas.ts';

export interface Position {
  lsn: number;
  recordHash: Buffer;
  epoch: Epoch;
}

const MAGIC = 'PSTP';
const SLOT_BYTES = 512;
const CHECKED_BYTES = 78;

/** The position is written to it, and read from it: a file of the system. */
export interface PositionHandle {
  read(into: Buffer, offset: number, length: number, position: number): Promise<unknown>;
  write(from: Buffer, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>;
  /** Absent where a write is durable when it resolves. */
  datasync?(): Promise<void>;
  close(): Promise<void>;
}

/**
 * With this flag a write of Linux is durable when it returns. A write with a sync behind it takes two turns of the
 * thread pool and of the event loop, for which every answer of the batch would wait. On macOS the flag promises less
 * than a sync does.
 */
const DURABLE_WRITES = process.platform === 'linux' ? constants.O_DSYNC : 0;

export interface OpenedPosition {
  file: PositionFile;
  /** The newest one whose slot is whole. */
  position: Position | undefined;
}

export class PositionFile {
  readonly #file: PositionHandle;
  #writes: number;

  private constructor(file: PositionHandle, writes: number) {
    this.#file = file;
    this.#writes = writes;
  }

  /** The file, made when it is missing, and the newest position whose slot is whole. */
  static async open(path: string): Promise<OpenedPosition> {
    const file = await openOrCreate(path);
    return PositionFile.over(DURABLE_WRITES === 0 ? file : handleOfDurableWrites(file));
  }

  /** As `open`. Throws `StoreRefused`. */
  static async openOrRefuse(path: string): Promise<OpenedPosition> {
    try {
      return await PositionFile.open(path);
    } catch (error) {
      throw unusablePosition(path, fileFault(error));
    }
  }

  /** As `open`, of a file that is open. It is closed where it cannot be read. */
  static async over(handle: PositionHandle): Promise<OpenedPosition> {
    try {
      const newest = await newestSlot(handle);
      return { file: new PositionFile(handle, newest?.writes ?? 0), position: newest?.position };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Durable when it resolves. */
  async write(position: Position): Promise<void> {
    this.#writes++;
    const slot = encodeSlot(position, this.#writes);
    const { bytesWritten } = await this.#file.write(slot, 0, slot.length, (this.#writes % 2) * SLOT_BYTES);
    if (bytesWritten !== slot.length) throw new Error('the position was written in part only');
    await this.#file.datasync?.();
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}

interface EndedLog extends RowReader {
  readonly lastLsn: number;
  record(lsn: number): Promise<Buffer | undefined>;
}

/** The position of a store that has come to its last record. */
export async function positionAt(store: EndedLog): Promise<Position> {
  const { lastLsn: lsn } = store;
  const record = await store.record(lsn);
  const relay = store.get('relay', rowKey.relay);
  if (!record || !relay) throw new Error('invariant: a store with records has a relay row');
  return { lsn, recordHash: hash('sha256', record, 'buffer'), epoch: relay.epoch };
}

/** Notes a position in the file at `path`, which nobody else writes; durable when it resolves. */
export async function notePosition(path: string, position: Position): Promise<void> {
  const { file } = await PositionFile.open(path);
  try {
    await file.write(position);
  } finally {
    await file.close();
  }
}

/** The newest position, of a file that nobody writes; `undefined` when there is none. Changes nothing. */
export async function readPosition(path: string): Promise<Position | undefined> {
  const handle = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  try {
    return handle && (await newestSlot(handle))?.position;
  } finally {
    await handle?.close();
  }
}

/** Returns what keeps a position from being written there, in words. `undefined` when nothing does. Changes nothing. */
export async function positionPathFault(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (found && !found.isFile()) return found.isDirectory() ? 'it is a folder' : 'it is no file';
    await access(dirname(path), constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return fileFault(error);
  }
}

export function unusablePosition(path: string, fault: string): StoreRefused {
  return new StoreRefused(
    'unusable',
    `the position file ${path} cannot be used (${fault}): name another place with --position-file`,
  );
}

async function newestSlot(handle: PositionHandle): Promise<ReturnType<typeof decodeSlot>> {
  const bytes = Buffer.alloc(2 * SLOT_BYTES);
  await handle.read(bytes, 0, bytes.length, 0);
  const slots = [decodeSlot(bytes.subarray(0, SLOT_BYTES)), decodeSlot(bytes.subarray(SLOT_BYTES))];
  return slots.reduce((best, slot) => (slot && (!best || slot.writes > best.writes) ? slot : best), undefined);
}

function handleOfDurableWrites(file: FileHandle): PositionHandle {
  return {
    read: (into, offset, length, position) => file.read(into, offset, length, position),
    write: (from, offset, length, position) => file.write(from, offset, length, position),
    close: () => file.close(),
  };
}

async function openOrCreate(path: string): Promise<FileHandle> {
  try {
    return await open(path, constants.O_RDWR | DURABLE_WRITES);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | DURABLE_WRITES, 0o600);
    await syncFolder(dirname(path));
    return file;
  }
}

function encodeSlot({ lsn, recordHash, epoch }: Position, writes: number): Buffer {
  const slot = Buffer.alloc(SLOT_BYTES);
  slot.write(MAGIC, 0, 'latin1');
  slot.writeBigUInt64BE(BigInt(writes), 4);
  slot.writeBigUInt64BE(BigInt(lsn), 12);
  recordHash.copy(slot, 20);
  slot.write(epoch, 52, 'latin1');
  slot.writeUInt32BE(crc32(slot.subarray(0, CHECKED_BYTES)), CHECKED_BYTES);
  return slot;
}

function decodeSlot(slot: Buffer): { writes: number; position: Position } | undefined {
  if (slot.toString('latin1', 0, 4) !== MAGIC) return undefined;
  if (slot.readUInt32BE(CHECKED_BYTES) !== crc32(slot.subarray(0, CHECKED_BYTES))) return undefined;
  const position: Position = {
    lsn: Number(slot.readBigUInt64BE(12)),
    recordHash: Buffer.from(slot.subarray(20, 52)),
    epoch: slot.toString('latin1', 52, CHECKED_BYTES) as Epoch,
  };
  return { writes: Number(slot.readBigUInt64BE(4)), position };
}

/** A heartbeat may be this far ahead: small clock steps are common. */
const HEARTBEAT_AHEAD_MS = 60_000;

/** The reason for which the store may not be current, so that a new epoch must begin. */
interface EpochReset {
  reason: EpochReason;
  clause: string;
}

/** Says why the position does not prove that the store is current; `undefined` when it does. */
export async function positionFault(
  level: Level,
  position: Position | undefined,
  pruned: Pruned,
): Promise<EpochReset | undefined> {
  if (!position) {
    const clause = 'the position file is missing or unreadable, so nothing outside the store says how far it had come';
    return { reason: 'position-missing', clause };
  }
  if (position.lsn <= pruned.throughLsn) {
    const clause =
      `the position file is of log record ${position.lsn}, and the log was pruned through ${pruned.throughLsn} ` +
      'since: it is an older copy, and cannot tell whether this is its history';
    return { reason: 'position-differs', clause };
  }
  const recordHash = await hashOfRecord(level, position.lsn);
  if (recordHash === undefined) {
    const clause =
      `the store ends before log record ${position.lsn}, which it had committed: it is an ` +
      'older copy, or it lost its end';
    return { reason: 'position-ahead', clause };
  }
  if (recordHash?.equals(position.recordHash)) return undefined;
  const clause = `log record ${position.lsn} is not the one that was committed: this is another history of the store`;
  return { reason: 'position-differs', clause };
}

/** `undefined` for a record that is not there, `null` for one that cannot be told in its run. */
async function hashOfRecord(level: Level, lsn: number): Promise<Buffer | undefined | null> {
  const record = await recordAt(level, lsn).catch(onlyOf(DamagedRecord, () => null));
  return record && hash('sha256', record, 'buffer');
}

/**
 * Says why a heartbeat does not show that what holds it is recent; `undefined` when it does. The rule of every log: of
 * one in its own store by the relay's clock, of one that is shared by the clock of its server.
 */
export function heartbeatFault(
  atMs: number | undefined,
  nowMs: number,
  where: 'store' | 'log' = 'store',
): EpochReset | undefined {
  if (atMs === undefined) {
    const clause = `the heartbeat in the ${where} is missing or unreadable, so nothing says how old this copy of it is`;
    return { reason: 'stale-heartbeat', clause };
  }
  const ageMs = nowMs - atMs;
  if (ageMs > HEARTBEAT_STALE_MS) {
    const minutes = Math.floor(ageMs / 60_000);
    const clause = `the last heartbeat in the ${where} is ${minutes} minutes old: it may be an older copy`;
    return { reason: 'stale-heartbeat', clause };
  }
  if (ageMs >= -HEARTBEAT_AHEAD_MS) return undefined;
  const clause = `the last heartbeat in the ${where} lies in the future: this clock, or the one before it, is wrong`;
  return { reason: 'future-heartbeat', clause };
}

/** Every store has one from its first record on; `undefined` when it cannot be read. */
export function heartbeatOf(rows: RowReader): number | undefined {
  const atMs = caught(() => rows.get('heartbeat', rowKey.heartbeat)?.atMs, DamagedRow, nothing);
  return Number.isSafeInteger(atMs) ? atMs : undefined;
}

/** The position slots inside the store folder. */
export const POSITION_FILE = 'position';
const POINTER = 'position-place';

const Pointer = Type.Object({
  /** The store folder that it lies in, without symbolic links. */
  store: Type.String({ minLength: 1 }),
  position: Type.String({ minLength: 1 }),
});

const parsePointer = parserOf(Pointer);

export interface PositionPlace {
  /** The file that a flag or the config names. */
  positionFile?: string | undefined;
  /** The folder in which a start may choose a file; absent: none is chosen. */
  positionHome?: string | undefined;
}

/** The file that the position of the store in `folder` stands in, or will. */
export function positionPathOf(folder: string, named: string | undefined): string {
  return named ?? pointedFrom(folder) ?? join(folder, POSITION_FILE);
}

function pointedFrom(folder: string): string | undefined {
  try {
    const { store, position } = parsePointer(JSON.parse(readFileSync(join(folder, POINTER), 'utf8'))) ?? {};
    return position !== undefined && store === realpathSync(folder) && existsSync(dirname(position))
      ? position
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * As `positionPathOf`, at an opening of the store: chooses a file, and carries over a position that stands in the store
 * folder, unless the other is as new. The caller holds the lock of the store. Where no file can be chosen, the position
 * stays where it is.
 */
export async function settlePosition(folder: string, place: PositionPlace): Promise<string> {
  const { positionFile, positionHome } = place;
  const inFolder = join(folder, POSITION_FILE);
  const isOpen = positionFile === undefined && positionPathOf(folder, undefined) === inFolder;
  if (isOpen && positionHome !== undefined) await chooseFile(folder, inFolder, positionHome);
  const path = positionPathOf(folder, positionFile);
  if (positionFile === undefined && path !== inFolder && existsSync(inFolder)) {
    // An older version noted more there, or a start that did not find the folder of the other.
    const [there, here] = [await readPosition(inFolder), await readPosition(path)];
    if (there && there.lsn > (here?.lsn ?? 0)) await replaceFile(path, await readFile(inFolder));
    await rm(inFolder);
    await syncFolder(folder);
  }
  return path;
}

async function chooseFile(folder: string, inFolder: string, home: string): Promise<void> {
  try {
    await makeFolders(home);
    if (!outlives(home, folder)) return;
    const position = join(home, `relay-position-${randomUUID()}`);
    if (existsSync(inFolder)) await replaceFile(position, await readFile(inFolder));
    await syncFolder(dirname(home));
    await replaceFile(join(folder, POINTER), `${JSON.stringify({ store: realpathSync(folder), position })}\n`);
  } catch (error) {
    if (typeof (error as NodeJS.ErrnoException).errno !== 'number') throw error;
  }
}

/** File systems that go with the machine's memory or with a container: those of tmpfs, ramfs and overlayfs. */
const PASSING: ReadonlySet<number> = new Set([0x01021994, 0x858458f6, 0x794c7630]);

/** Says whether `home` lies beyond the store folder, and is there for as long as that. */
function outlives(home: string, folder: string): boolean {
  if (`${realpathSync(home)}${sep}`.startsWith(`${realpathSync(folder)}${sep}`)) return false;
  return statSync(home).dev === statSync(folder).dev || !PASSING.has(statfsSync(home).type);
}
