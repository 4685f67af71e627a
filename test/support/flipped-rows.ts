/** One bit of one stored row flipped in a closed store, as a disk or a memory does it: for tests of who finds it. */
import { prefixRange } from '../../src/relay/store/keys.ts';
import { withRawLevel } from './raw-level.ts';
import { found } from './found.ts';

/** The keys under a prefix, of a closed store. */
export function keysUnder(folder: string, prefix: number): Promise<Buffer[]> {
  return withRawLevel(folder, (level) => level.keys(prefixRange(prefix)).all());
}

/** Flips a bit of the value under `key`; those of a value are counted on and on. Answers the key. */
export function flipValue(folder: string, key: Buffer, bit: number): Promise<Buffer> {
  return withRawLevel(folder, async (level) => {
    const value = found(await level.get(key), `nothing is stored under ${key.toString('hex')}`);
    await level.put(key, flipped(value, (bit >>> 3) % value.length, bit & 7));
    return key;
  });
}

/** Flips a bit of the last byte of `key`: its value lies under another one then. Answers that one. */
export function flipKey(folder: string, key: Buffer, bit: number): Promise<Buffer> {
  const other = flipped(key, key.length - 1, bit & 7);
  return withRawLevel(folder, async (level) => {
    const value = found(await level.get(key), `nothing is stored under ${key.toString('hex')}`);
    await level.batch().del(key).put(other, value).write();
    return other;
  });
}

function flipped(bytes: Buffer, at: number, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(at) ^ (1 << bit), at);
  return copy;
}
