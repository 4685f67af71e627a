/**
 * Values with a checksum of our own, to the byte. DO NOT CHANGE.
 *
 *   0..3   CRC-32 (ISO-HDLC) of the key followed by what comes next, u32, big-endian
 *   4..    the bytes, at least one
 *
 * LevelDB passes over damage in silence. The checksum covers the key, so that no value is taken for another.
 */
import { crc32 } from 'node:zlib';
import { DamagedRecord } from './record.ts';

const CHECKSUM_BYTES = 4;

export function encodeChecked(key: Buffer, bytes: Buffer): Buffer {
  const checksum = Buffer.allocUnsafe(CHECKSUM_BYTES);
  checksum.writeUInt32BE(crc32(bytes, crc32(key)));
  return Buffer.concat([checksum, bytes]);
}

/** Throws `DamagedRecord` for bytes that were not written under this key; `what` begins its sentence. */
export function decodeChecked(key: Buffer, value: Buffer | undefined, what: string): Buffer {
  if (!value) throw new DamagedRecord(`${what} is missing`);
  const bytes = value.subarray(CHECKSUM_BYTES);
  if (value.length <= CHECKSUM_BYTES || value.readUInt32BE(0) !== crc32(bytes, crc32(key)))
    throw new DamagedRecord(`${what} does not match its checksum`);
  return bytes;
}
