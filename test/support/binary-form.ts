/** Documents of the binary form as JSON has them, and the other way: so a test of the one is a test of both. */
import { BINARY_TYPE, framesIn } from '../../src/protocol/binary-form.ts';
import { decodeBase64 } from '../../src/protocol/encodings.ts';
import { REQUEST_JSON_BOUNDS } from '../../src/protocol/json.ts';
import type { Packable } from '../../src/protocol/message-pack.ts';
import { readPlainly } from './plain-message-pack.ts';

export const FORMS = ['json', 'binary'] as const;
export type Form = (typeof FORMS)[number];

/** Members that are bytes in the binary form. */
const BYTES = new Set(['host_pubkey', 'sender_pubkey', 'sig', 'wire_b64']);

/** A document of JSON in the binary form. A text that is no base64 stays one, and so is wrong there too. */
export function inBinary(value: unknown): Packable {
  if (Array.isArray(value)) return value.map(inBinary);
  if (typeof value !== 'object' || value === null) return value as Packable;
  const members = Object.entries(value).map(([name, member]: [string, unknown]) => {
    const isBytes = BYTES.has(name) && typeof member === 'string';
    return [name === 'wire_b64' ? 'wire' : name, (isBytes && decodeBase64(member)) || inBinary(member)] as const;
  });
  return Object.fromEntries(members);
}

/** What the bytes of an answer are, in the form that its content type names. Throws when they are no such thing. */
export function answerIn(contentType: string | undefined, bytes: Buffer, isPage = false): unknown {
  if (contentType !== BINARY_TYPE) return JSON.parse(bytes.toString('utf8'));
  if (!isPage) return readWhole(bytes);
  const frames = framesIn(bytes, Infinity);
  const length = frames.reduce((sum, frame) => sum + 4 + frame.length, 0);
  if (length !== bytes.length) throw new Error('it ends inside a frame');
  return frames.map(readWhole);
}

function readWhole(bytes: Buffer): unknown {
  const value = readPlainly(bytes, REQUEST_JSON_BOUNDS);
  if (value === undefined) throw new Error('it is no MessagePack of the protocol');
  return value;
}
