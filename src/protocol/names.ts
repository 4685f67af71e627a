/** The identifiers of the protocol and their patterns. */
import { encodeCrockford, decodeCrockford } from './encodings.ts';

export const HOST_NAME_PATTERN = '^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$';
export const OWNER_FP_PATTERN = '^[A-Za-z0-9._:+/=@-]{0,64}$';
export const ITEM_ID_CHARACTERS_MAX = 320;

const MESSAGE_ID = '[A-Za-z0-9._-]{1,128}';
const AGENT_NAME = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}';
const HOST_NAME = HOST_NAME_PATTERN.slice(1, -1);
const messageIdPattern = new RegExp(`^${MESSAGE_ID}$`);
export const AGENT_NAME_PATTERN = `^${AGENT_NAME}$`;
const agentNamePattern = new RegExp(AGENT_NAME_PATTERN);
const receiptIdPattern = new RegExp(`^receipt:(${MESSAGE_ID}):(${AGENT_NAME}@${HOST_NAME}):(0|[1-9][0-9]{0,15})$`);
const hostNamePattern = new RegExp(HOST_NAME_PATTERN);

declare const hostNameBrand: unique symbol;
/** A host name as its owner wrote it. To compare two, compare what `foldHostName` returns. */
export type HostName = string & { readonly [hostNameBrand]: true };

export function parseHostName(text: string): HostName | undefined {
  return hostNamePattern.test(text) ? (text as HostName) : undefined;
}

/** Host names are compared lowercased. */
export function foldHostName(name: string): string {
  return name.toLowerCase();
}

/** Says whether this is a valid agent name. Agent names are compared lowercased, as host names are. */
export function isAgentName(text: string): boolean {
  return agentNamePattern.test(text);
}

declare const itemIdBrand: unique symbol;
/** A message id, or `receipt:<msg>:<recipient>:<seq>`, or `expired:<msg>:<target_pubkey>`. ASCII. */
export type ItemId = string & { readonly [itemIdBrand]: true };

/** The id of an envelope item: the message id. */
export function parseMessageId(text: string): ItemId | undefined {
  return messageIdPattern.test(text) ? (text as ItemId) : undefined;
}

/** The id of a receipt item; its sequence number must be a safe integer. */
export function parseReceiptId(text: string): ItemId | undefined {
  const seq = receiptIdPattern.exec(text)?.[3];
  return seq !== undefined && Number.isSafeInteger(Number(seq)) ? (text as ItemId) : undefined;
}

declare const epochBrand: unique symbol;
/** The random id of a store generation: 128 bits in Crockford base32, 26 characters. Epochs have no order. */
export type Epoch = string & { readonly [epochBrand]: true };

export const EPOCH_RANDOM_BYTES = 16;

/** Throws `RangeError` unless given 16 bytes. */
export function epochFromRandom(random: Uint8Array): Epoch {
  if (random.length !== EPOCH_RANDOM_BYTES) throw new RangeError('an epoch is made of 16 random bytes');
  return encodeCrockford(random) as Epoch;
}

export function randomEpoch(randomBytes: (count: number) => Uint8Array): Epoch {
  return epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
}

/** An epoch that any relay may have made: opaque, of characters that a key of our store can hold. */
export function parseEpoch(text: string): Epoch | undefined {
  return /^[!-~]{1,64}$/.test(text) ? (text as Epoch) : undefined;
}

/** A message id that a host makes has 48 bits of time, then 80 random bits, so that ids sort by time. */
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
