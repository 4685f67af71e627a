/** Documents of the binary form as JSON has them, and the other way: so a test of the one is a test of both. */
import { canonicalize } from 'json-canonicalize';
import { BINARY_TYPE, framesIn, type Packable, fourBytes, packedBytes } from '../../src/protocol/message-pack.ts';
import { decodeBase64 } from '../../src/protocol/encodings.ts';
import { REQUEST_JSON_BOUNDS } from '../../src/protocol/json.ts';
import { readPlainly } from './plain-message-pack.ts';
import { found } from './found.ts';

export const FORMS = ['json', 'binary'] as const;
export type Form = (typeof FORMS)[number];

/** Members that are bytes in the binary form, and objects that are texts there. */
const BYTES = new Set(['host_pubkey', 'sender_pubkey', 'sig', 'tree_sig', 'path', 'wire_b64']);
const SIGNED = new Set(['accept', 'tree']);

/** A document of JSON in the binary form. A text that is no base64 stays one, and so is wrong there too. */
export function inBinary(value: unknown): Packable {
  if (Array.isArray(value)) return value.map(inBinary);
  if (typeof value !== 'object' || value === null) return value as Packable;
  const members = Object.entries(value).map(([name, member]: [string, unknown]) => {
    if (SIGNED.has(name)) return [name, canonicalize(member) ?? ''] as const;
    const isBytes = BYTES.has(name) && typeof member === 'string';
    return [name === 'wire_b64' ? 'wire' : name, (isBytes && decodeBase64(member)) || inBinary(member)] as const;
  });
  return Object.fromEntries(members);
}

/** A page in frames. */
export function framesOf(page: object): Buffer {
  const { epoch, head_seq, items, ...end } = page as { epoch: string; head_seq: number; items: unknown[] };
  const maps = [{ epoch, head_seq }, ...items, end].map((map) => packedBytes(inBinary(map)));
  return Buffer.concat(maps.flatMap((map) => [Buffer.from(fourBytes(map.length), 'latin1'), map]));
}

/** Reads an answer of the binary form; of a page, the maps of its frames. Throws when it is no such thing. */
export function valueOf(bytes: Buffer, isPage: boolean): unknown {
  if (!isPage) return readWhole(bytes);
  const frames = framesIn(bytes, Infinity);
  const length = frames.reduce((sum, frame) => sum + 4 + frame.length, 0);
  if (length !== bytes.length) throw new Error('it ends inside a frame');
  return frames.map(readWhole);
}

function readWhole(bytes: Buffer): unknown {
  return found(readPlainly(bytes, REQUEST_JSON_BOUNDS), 'it is no MessagePack of the protocol');
}

/** The document that an answer is in JSON, whichever form it came in. */
export function documentOf(contentType: string | undefined, bytes: Buffer): Record<string, unknown> {
  if (contentType !== BINARY_TYPE) return JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
  // A page begins with the length of its first frame, any other answer with a map.
  const value = inJson(valueOf(bytes, bytes[0] === 0));
  if (!Array.isArray(value)) return value as Record<string, unknown>;
  return { ...(value[0] as object), items: value.slice(1, -1) as unknown[], ...(value.at(-1) as object) };
}

/** The same the other way. */
export function inJson(value: unknown, name = ''): unknown {
  if (Buffer.isBuffer(value)) return value.toString('base64');
  if (Array.isArray(value)) return value.map((one: unknown) => inJson(one));
  if (typeof value === 'string') return SIGNED.has(name) ? (JSON.parse(value) as unknown) : value;
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, member]) => [
    key === 'wire' ? 'wire_b64' : key,
    inJson(member, key),
  ]);
  return Object.fromEntries(members) as object;
}
