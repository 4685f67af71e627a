/** The bytes of a row: msgpack of its version and itself. */
import { Packr } from 'msgpackr';
import type { TableName, Tables } from './keys.ts';

/** DO NOT CHANGE what a version means: a row that changes its meaning gets a version of its own and is read as both. */
const VERSION = 1;
// Every row must be readable by itself, and own its bytes.
const packr = new Packr({ useRecords: false, copyBuffers: true });

/** msgpack of `[version, row]`; wire bytes and bodies stand as they are. */
export function encodeRow<T extends TableName>(table: T, row: Tables[T]): Buffer {
  if (table === 'outboxWire' || table === 'quarantineWire') return row as Buffer;
  if (table === 'body') return Buffer.from(row as string, 'utf8');
  return Buffer.from(packr.pack([VERSION, row]));
}

/** Throws when the bytes are no row: the store is damaged. */
export function decodeRow<T extends TableName>(table: T, bytes: Buffer): Tables[T] {
  if (table === 'outboxWire' || table === 'quarantineWire') return Buffer.from(bytes) as Tables[T];
  if (table === 'body') return bytes.toString('utf8') as Tables[T];
  const stored: unknown = packr.unpack(bytes);
  if (!Array.isArray(stored) || stored.length !== 2 || stored[0] !== VERSION) {
    throw new RangeError(`a row of ${table} has a layout that this software does not know`);
  }
  return stored[1] as Tables[T];
}
