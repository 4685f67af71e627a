/**
 * What a client sends and reads in the two forms of the protocol: JSON, and the binary one where the relay has it. What
 * was read is the same in both.
 */
import { Type } from 'typebox';
import { framesIn, packedBytes, readMessagePack } from '../../protocol/message-pack.ts';
import { decodeBase64, encodeBase64 } from '../../protocol/encodings.ts';
import type { ItemKind, PushedKind } from '../../protocol/items.ts';
import { ITEM_JSON_BOUNDS, REQUEST_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { type PublicKey, publicKeyBytes } from '../../protocol/public-key.ts';
import { PullResponse } from '../../protocol/responses.ts';
import {
  ELEMENTS_MAX,
  type RelayAnswer,
  RelayCallFailed,
  type SplitAnswer,
  noRelay,
  openParser,
  parseOrFail,
  parsedAnswer,
  splitAnswer,
} from './relay-request.ts';

const NO_BYTES = Buffer.alloc(0);

export interface ItemToPush {
  kind: PushedKind;
  item_id: string;
  targets: TargetToPush[];
}

/** The wire bytes for one host: as bytes, or in base64. */
export type TargetToPush = { host_pubkey: PublicKey } & (
  | { wire: Uint8Array; wire_b64?: undefined }
  | { wire_b64: string; wire?: undefined }
);

/** The body of a push. */
export function pushBody(items: readonly ItemToPush[], isBinary: boolean): string | Buffer {
  if (!isBinary) return JSON.stringify({ items }, asBase64);
  const packable = items.map(({ kind, item_id, targets }) => ({ kind, item_id, targets: targets.map(asBytes) }));
  return packedBytes({ items: packable });
}

/** Of a value in JSON: a target whose wire bytes are bytes has them in base64. */
function asBase64(_name: string, value: unknown): unknown {
  const { wire, ...others } = isObject(value) ? value : {};
  return wire instanceof Uint8Array ? { ...others, wire_b64: encodeBase64(wire) } : value;
}

function asBytes({ host_pubkey: key, wire, wire_b64: text }: TargetToPush): { host_pubkey: Buffer; wire: Uint8Array } {
  return { host_pubkey: publicKeyBytes(key), wire: wire ?? Buffer.from(text, 'base64') };
}

/** The answer as JSON has it; `undefined` when it is none. */
export function answerOf({ body, isBinary }: RelayAnswer): Record<string, unknown> | undefined {
  return isBinary ? mapOf(asJson(readMessagePack(body, REQUEST_JSON_BOUNDS))) : parsedAnswer(body);
}

/** Bytes become base64, and texts that were signed become what they say. */
function asJson(value: unknown, name = ''): unknown {
  if (Buffer.isBuffer(value)) return encodeBase64(value);
  if (Array.isArray(value)) return value.map((element: unknown) => asJson(element));
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, asJson(one, key)]));
  const isSigned = typeof value === 'string' && (name === 'accept' || name === 'tree');
  return isSigned ? parseJsonBounded(Buffer.from(value), REQUEST_JSON_BOUNDS) : value;
}

function mapOf(value: unknown): Record<string, unknown> | undefined {
  return isObject(value) ? value : undefined;
}

export interface PulledItem {
  seq: number;
  kind: ItemKind;
  item_id: string;
  sender_pubkey: PublicKey;
  /** Exactly as pushed; a text that is no base64 is here as the relay showed it. */
  wire: Buffer;
}

export interface PulledPage {
  epoch: string;
  head_seq: number;
  items: PulledItem[];
  /** Items of the page that have not this shape. Their seq is null where it cannot be read. */
  unreadable: { seq: number | null; bytes: Buffer }[];
  /** Of a page that was cut, the last seq that came. */
  last_seq: number;
  more: boolean;
}

const { wire_b64: _wire, ...itemHead } = PullResponse.properties.items.items.properties;
const isItemHead = openParser(Type.Object(itemHead));
const parsePage = openParser(Type.Object({ ...PullResponse.properties, items: Type.Array(Type.Unknown()) }));

/** The page. Throws `RelayCallFailed` when the answer is none, or was cut before its first item. */
export function pageOf(answer: RelayAnswer): PulledPage {
  const items: PulledItem[] = [];
  const unreadable: PulledPage['unreadable'] = [];
  const { elements, ...page } = answer.isBinary ? framedPage(answer.body) : splitAnswer(answer.body, 'items');
  // One item that cannot be read does not make the others unreadable.
  for (const bytes of elements) {
    const { wire, ...head } = membersOf(bytes);
    if (wire && isItemHead(head)) items.push({ ...(head as PulledItem), wire });
    else unreadable.push({ seq: Number.isSafeInteger(head.seq) ? (head.seq as number) : null, bytes });
  }
  const last = items.at(-1)?.seq;
  if (!('last_seq' in page.rest) && last === undefined) throw new RelayCallFailed('the page of the relay was cut', 200);
  return { ...parseOrFail({ last_seq: last, more: true, ...page.rest, items: [] }, parsePage), items, unreadable };
}

/** The first and the last map of a page, and the frames of its items. A page that was cut has no last map. */
function framedPage(body: Buffer): SplitAnswer {
  const [first, ...frames] = framesIn(body, ELEMENTS_MAX);
  const head = first && mapOf(readMessagePack(first, ITEM_JSON_BOUNDS));
  if (!head) throw noRelay();
  const end = mapOf(readMessagePack(frames.at(-1) ?? NO_BYTES, ITEM_JSON_BOUNDS));
  const isWhole = end !== undefined && Object.hasOwn(end, 'last_seq');
  return { rest: { ...head, ...(isWhole && end) }, elements: isWhole ? frames.slice(0, -1) : frames };
}

/** The members of an item, as JSON has them but for the wire bytes; each may be missing, or of any type. */
interface ItemMembers {
  seq: unknown;
  kind: unknown;
  item_id: unknown;
  sender_pubkey: unknown;
  wire: Buffer | undefined;
}

/** What can be read of an item, whose first byte tells its form. */
export function membersOf(bytes: Buffer): ItemMembers {
  const isBinary = (bytes[0] ?? 0) > 0x7f;
  const value = mapOf((isBinary ? readMessagePack : parseJsonBounded)(bytes, ITEM_JSON_BOUNDS)) ?? {};
  const { seq, kind, item_id, sender_pubkey: key, wire, wire_b64: text } = value;
  if (isBinary) {
    const sender_pubkey = Buffer.isBuffer(key) ? encodeBase64(key) : undefined;
    return { seq, kind, item_id, sender_pubkey, wire: Buffer.isBuffer(wire) ? wire : undefined };
  }
  const shown = typeof text === 'string' ? (decodeBase64(text) ?? Buffer.from(text)) : undefined;
  return { seq, kind, item_id, sender_pubkey: key, wire: shown };
}
