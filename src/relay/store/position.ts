/**
 * How far the log had come, written outside LevelDB after each batch and before any answer.
 *
 * A store copied back from ten minutes ago, or one whose last record was lost with a flipped bit, looks whole from
 * inside. The position says from outside what must be there. Two slots are written in turn, so that a torn write
 * leaves the other one:
 *
 *   0..3 "PSTP"   4..11 number of the write, u64   12..19 LSN, u64   20..51 SHA-256 of the record at that LSN
 *   52..77 epoch, ASCII   78..81 CRC-32 of what stands before, u32; padded with zeros to 512 bytes a slot
 */
import { constants } from 'node:fs';
import { type FileHandle, access, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Epoch } from '../../protocol/epoch.ts';
import { syncFolder } from '../../lib/sync-folder.ts';

export interface Position {
  lsn: number;
  /** SHA-256 of the record at `lsn`, as stored. */
  recordHash: Buffer;
  epoch: Epoch;
}

const MAGIC = 'PSTP';
const SLOT_BYTES = 512;
const CHECKED_BYTES = 78;

export class PositionFile {
  readonly #file: FileHandle;
  #writes: number;

  private constructor(file: FileHandle, writes: number) {
    this.#file = file;
    this.#writes = writes;
  }

  /** The file, made when it is missing, and the newest position whose slot is whole. */
  static async open(path: string): Promise<{ file: PositionFile; position: Position | undefined }> {
    const handle = await openOrCreate(path);
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
    await this.#file.datasync();
  }

  async close(): Promise<void> {
    await this.#file.close();
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

/** What keeps a position from being written there: a code of the system. `undefined` when nothing does. Changes nothing. */
export async function positionFault(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (found && !found.isFile()) return found.isDirectory() ? 'EISDIR' : 'no file';
    await access(dirname(path), constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown error';
  }
}

async function newestSlot(handle: FileHandle): Promise<ReturnType<typeof decodeSlot>> {
  const bytes = Buffer.alloc(2 * SLOT_BYTES);
  await handle.read(bytes, 0, bytes.length, 0);
  const slots = [decodeSlot(bytes.subarray(0, SLOT_BYTES)), decodeSlot(bytes.subarray(SLOT_BYTES))];
  return slots.reduce((best, slot) => (slot && (!best || slot.writes > best.writes) ? slot : best), undefined);
}

async function openOrCreate(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r+');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const file = await open(path, 'wx+', 0o600);
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
