/** Ids of messages that this host sends: 48 bits of time, then 80 random bits, so that ids sort by time. */
import { decodeCrockford, encodeCrockford } from '../../protocol/encodings.ts';
import type { ItemId } from '../../protocol/names.ts';

export const MESSAGE_ID_RANDOM_BYTES = 10;
const TIME_BYTES = 6;

/** 26 characters. Throws `RangeError` unless given 10 bytes and a time that fits 48 bits. */
export function messageIdFrom(nowMs: number, random: Uint8Array): ItemId {
  if (random.length !== MESSAGE_ID_RANDOM_BYTES) throw new RangeError('a message id is made of 10 random bytes');
  const bytes = new Uint8Array(TIME_BYTES + MESSAGE_ID_RANDOM_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(nowMs) << 16n);
  bytes.set(random, TIME_BYTES);
  return encodeCrockford(bytes) as ItemId;
}

/** When a message of this host was sent, by its id; `undefined` for an id of another kind. */
export function messageIdTimeMs(id: string): number | undefined {
  const bytes = decodeCrockford(id, TIME_BYTES + MESSAGE_ID_RANDOM_BYTES);
  return bytes?.readUIntBE(0, TIME_BYTES);
}
