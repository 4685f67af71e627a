/**
 * The binary form of push, pull and ack, beside JSON: the same members, in MessagePack, where wire bytes, keys and
 * signatures are bytes. A page is a sequence of frames, each a length of four bytes and one map.
 */
import type { ItemHead } from './items.ts';
import { REQUEST_JSON_BOUNDS } from './json.ts';
import { MessagePackReader, bytesHead, fourBytes, packed, readMessagePack } from './message-pack.ts';
import { publicKeyBytes } from './public-key.ts';

/** Has no parameters. */
export const BINARY_TYPE = 'application/vnd.poste+msgpack';

/**
 * The value of a push body, as `readMessagePack` returns it. Where the members stand in the order in which `packed`
 * writes them, their names are compared and not read, in one pass.
 */
export function readPush(bytes: Buffer): unknown {
  return usualPush(bytes) ?? readMessagePack(bytes, REQUEST_JSON_BOUNDS);
}

const ITEMS = Buffer.from(`\x81${packed('items')}`, 'latin1');
const KIND = Buffer.from(`\x83${packed('kind')}`, 'latin1');
const ITEM_ID = Buffer.from(packed('item_id'), 'latin1');
const TARGETS = Buffer.from(packed('targets'), 'latin1');
const HOST_PUBKEY = Buffer.from(`\x82${packed('host_pubkey')}`, 'latin1');
const WIRE = Buffer.from(packed('wire'), 'latin1');
/** Arrays and maps around a member of an item, and of a target. */
const IN_ITEM = 3;
const IN_TARGET = 5;

function usualPush(bytes: Buffer): object | undefined {
  const reader = new MessagePackReader(bytes, REQUEST_JSON_BOUNDS);
  const member = (name: Buffer, depth: number): unknown => (reader.skip(name) ? reader.value(depth) : undefined);
  const target = (): object | undefined => {
    const key = reader.skip(HOST_PUBKEY, 1) ? reader.value(IN_TARGET) : undefined;
    const wire = key === undefined ? undefined : member(WIRE, IN_TARGET);
    return wire === undefined ? undefined : { host_pubkey: key, wire };
  };
  const item = (): object | undefined => {
    const kind = reader.skip(KIND, 1) ? reader.value(IN_ITEM) : undefined;
    const id = kind === undefined ? undefined : member(ITEM_ID, IN_ITEM);
    const targets = id !== undefined && reader.skip(TARGETS) ? reader.array(IN_ITEM, target) : undefined;
    return targets && { kind, item_id: id, targets };
  };
  const items = reader.skip(ITEMS, 1) ? reader.array(1, item) : undefined;
  return items && reader.isAtEnd ? { items } : undefined;
}

/** One map of a page, with its length in front: as a text with one character for each byte. */
export function frame(map: string, bytesBehind = 0): string {
  return fourBytes(map.length + bytesBehind) + map;
}

const [SEQ, ITS_KIND, ITS_ID, SENDER, ITS_WIRE] = ['seq', 'kind', 'item_id', 'sender_pubkey', 'wire'].map(packed);

/** The frame of an item up to its wire bytes, of which there are so many. */
export function pulledFrameHead({ seq, kind, itemId, senderPubkey }: ItemHead, wireBytes: number): string {
  const item = `\x85${SEQ}${packed(seq)}${ITS_KIND}${packed(kind)}${ITS_ID}${packed(itemId)}`;
  const sender = SENDER + packed(publicKeyBytes(senderPubkey));
  return frame(item + sender + ITS_WIRE + bytesHead(wireBytes), wireBytes);
}

/** The maps of the frames that are whole, at most so many of them. */
export function framesIn(page: Buffer, framesMax: number): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at + 4 <= page.length && frames.length < framesMax; ) {
    const from = at + 4;
    at = from + page.readUInt32BE(at);
    if (at > page.length) break;
    frames.push(page.subarray(from, at));
  }
  return frames;
}
