/**
 * MessagePack by the words of docs/protocol.md, without a thought of what it costs: what the reader of
 * src/protocol/message-pack.ts is compared with. And a writer that takes any of the forms that a value may have.
 */
import type { JsonBounds } from '../../src/protocol/json.ts';
import type { Packable } from '../../src/protocol/message-pack.ts';
import { found } from './found.ts';

/** The value, or `undefined` where `readMessagePack` must return it. */
export function readPlainly(bytes: Buffer, bounds: JsonBounds): unknown {
  const input = { bytes, at: 0, values: 0 };
  try {
    const value = valueOf(input, bounds, 0);
    return input.at === bytes.length && input.values <= bounds.valuesMax ? value : undefined;
  } catch {
    return undefined;
  }
}

interface Input {
  bytes: Buffer;
  at: number;
  values: number;
}

const FAMILIES: readonly [family: string, first: number, sizes: number[]][] = [
  ['bytes', 0xc4, [1, 2, 4]],
  ['text', 0xd9, [1, 2, 4]],
  ['array', 0xdc, [2, 4]],
  ['map', 0xde, [2, 4]],
];
/** By the first byte: what follows it is a length of so many bytes. */
const SIZED = new Map(
  FAMILIES.flatMap(([family, first, sizes]) => sizes.map((size, at) => [first + at, { family, size }] as const)),
);

function valueOf(input: Input, bounds: JsonBounds, depth: number): unknown {
  input.values++;
  const type = taken(input, 1)[0]!;
  if (type <= 0x7f) return type;
  if (type <= 0x8f) return mapOf(input, type & 0x0f, bounds, depth);
  if (type <= 0x9f) return arrayOf(input, type & 0x0f, bounds, depth);
  if (type <= 0xbf) return textOf(input, type & 0x1f);
  if (type >= 0xe0) return type - 256;
  if (type === 0xc0) return null;
  if (type === 0xc2) return false;
  if (type === 0xc3) return true;
  if (type >= 0xcc && type <= 0xd3) return integerOf(taken(input, 2 ** ((type - 0xcc) % 4)), type >= 0xd0);
  const sized = found(SIZED.get(type), 'no type of the protocol');
  const length = integerOf(taken(input, sized.size), false);
  if (sized.family === 'bytes') return taken(input, length);
  if (sized.family === 'text') return textOf(input, length);
  return sized.family === 'array' ? arrayOf(input, length, bounds, depth) : mapOf(input, length, bounds, depth);
}

function taken(input: Input, length: number): Buffer {
  if (input.at + length > input.bytes.length) throw new Error('cut');
  input.at += length;
  return input.bytes.subarray(input.at - length, input.at);
}

function integerOf(bytes: Buffer, isSigned: boolean): number {
  const unsigned = BigInt(`0x${bytes.toString('hex')}`);
  const value = isSigned ? BigInt.asIntN(bytes.length * 8, unsigned) : unsigned;
  if (!Number.isSafeInteger(Number(value))) throw new Error('too large');
  return Number(value);
}

function textOf(input: Input, length: number): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(taken(input, length));
}

function arrayOf(input: Input, length: number, bounds: JsonBounds, depth: number): unknown[] {
  if (depth + 1 > bounds.depthMax) throw new Error('too deep');
  const values: unknown[] = [];
  for (let at = 0; at < length; at++) values.push(valueOf(input, bounds, depth + 1));
  return values;
}

function mapOf(input: Input, length: number, bounds: JsonBounds, depth: number): Record<string, unknown> {
  if (depth + 1 > bounds.depthMax || length > bounds.membersMax) throw new Error('too deep, or too many');
  const members = new Map<string, unknown>();
  for (let at = 0; at < length; at++) {
    const values = input.values;
    const key = valueOf(input, bounds, depth + 1);
    // Keys do not count.
    input.values = values;
    if (typeof key !== 'string' || members.has(key)) throw new Error('no key, or twice');
    members.set(key, valueOf(input, bounds, depth + 1));
  }
  return Object.fromEntries(members);
}

/** Writes a value, each head in one of its forms: `choose(n)` returns a number from 0 to n - 1. */
export function packedLoosely(value: Packable, choose: (count: number) => number): Buffer {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === 'boolean') return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === 'number') return numberIn(value, choose);
  if (typeof value === 'string') return sizedIn(Buffer.from(value), Buffer.byteLength(value), 'text', choose);
  if (value instanceof Uint8Array) return sizedIn(value, value.length, 'bytes', choose);
  const inner = (one: Packable): Buffer => packedLoosely(one, choose);
  if (Array.isArray(value)) {
    return sizedIn(Buffer.concat((value as Packable[]).map(inner)), value.length, 'array', choose);
  }
  const members = Object.entries(value).flatMap(([name, member]) => [inner(name), inner(member ?? null)]);
  return sizedIn(Buffer.concat(members), members.length / 2, 'map', choose);
}

/** A number that is no integer of the protocol is a float. */
function numberIn(value: number, choose: (count: number) => number): Buffer {
  if (!Number.isSafeInteger(value)) {
    const float = Buffer.alloc(9, 0xcb);
    float.writeDoubleBE(value, 1);
    return float;
  }
  const forms: Buffer[] = value >= -32 && value <= 127 ? [Buffer.from([value & 0xff])] : [];
  for (const [at, bits] of [8, 16, 32, 64].entries()) {
    const bytes = (type: number): Buffer => {
      const hex = BigInt.asUintN(bits, BigInt(value)).toString(16);
      return Buffer.from(type.toString(16) + hex.padStart(bits / 4, '0'), 'hex');
    };
    if (value >= 0 && BigInt(value) < 1n << BigInt(bits)) forms.push(bytes(0xcc + at));
    if (BigInt.asIntN(bits, BigInt(value)) === BigInt(value)) forms.push(bytes(0xd0 + at));
  }
  return forms[choose(forms.length)]!;
}

function sizedIn(content: Uint8Array, count: number, family: string, choose: (count: number) => number): Buffer {
  const [small, smallMax] = { text: [0xa0, 31], array: [0x90, 15], map: [0x80, 15] }[family] ?? [0, -1];
  const forms: Buffer[] = count <= smallMax! ? [Buffer.from([small! + count])] : [];
  for (const [type, { family: its, size }] of SIZED) {
    if (its !== family || count >= 256 ** size) continue;
    const head = Buffer.alloc(1 + size, type);
    head.writeUIntBE(count, 1, size);
    forms.push(head);
  }
  return Buffer.concat([forms[choose(forms.length)]!, content]);
}
