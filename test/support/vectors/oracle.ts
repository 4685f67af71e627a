/**
 * Knows what somebody has who holds nothing but the vector files and the protocol document: a reader, and the
 * cryptography of @noble and node:crypto under plain code of its own. None of it is the code under test. And the form
 * of a check, of which each vector file has a list (the other files of this folder; unit/protocol/vectors.test.ts runs
 * them all).
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getPublicKeyAsync, signAsync, verifyAsync } from '@noble/ed25519';
import { sha256 } from '@noble/hashes/sha2.js';
import { expect } from 'vitest';
import { VECTOR_FOLDER } from '../../../scripts/make-vectors.ts';

export interface Keys {
  seed: string;
  pubkey: string;
}

export interface HostKeys extends Keys {
  name: string;
}

export type Document = Record<string, unknown>;

export interface SignedCase {
  name: string;
  document: Document;
  canonical: string;
  signature: string;
}

export function readVectors(name: string): unknown {
  return JSON.parse(readFileSync(join(VECTOR_FOLDER, name), 'utf8'));
}

/** The bytes of canonical base64; anything else fails the test. */
export function bytes(base64: string): Buffer {
  const decoded = Buffer.from(base64, 'base64');
  expect(decoded.toString('base64')).toBe(base64);
  return decoded;
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function base64Of(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64');
}

/** Lowercase hex; both implementations have to agree. */
export function sha256Of(data: Uint8Array): string {
  const hex = Buffer.from(sha256(data)).toString('hex');
  expect(createHash('sha256').update(data).digest('hex')).toBe(hex);
  return hex;
}

/** RFC 8785 for documents of ASCII names, texts, integers, lists and objects. */
export function jcs(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jcs).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${jcs(member)}`).join(',')}}`;
}

/** That the signature is the one which the seed makes, and that it verifies. */
export async function expectSigned(message: Uint8Array, signature: string, { seed, pubkey }: Keys): Promise<void> {
  expect(Buffer.from(await getPublicKeyAsync(bytes(seed))).toString('base64')).toBe(pubkey);
  expect(Buffer.from(await signAsync(message, bytes(seed))).toString('base64')).toBe(signature);
  expect(await verifyAsync(bytes(signature), message, bytes(pubkey), { zip215: false })).toBe(true);
}

/** The lines that a hop signs. */
export function hopLines(
  tag: string,
  { method, target, timestamp, body }: { method: string; target: string; timestamp: string; body: string | null },
  ...calledKey: string[]
): string {
  return [tag, method, target, timestamp, sha256Of(utf8(body ?? '')), ...calledKey].join('\n');
}

export interface SessionCase {
  name: string;
  at: number;
  request: {
    method: string;
    target: string;
    headers: Record<string, string>;
    body: string | null;
    signed_message?: string;
  };
  response: { status: number; body: Record<string, unknown> };
}

export interface SessionFile {
  relay: Keys;
  hosts: HostKeys[];
  cases: SessionCase[];
}

export interface Check {
  name: string;
  run: () => void | Promise<void>;
}

export interface VectorChecks {
  file: string;
  checks: readonly Check[];
}

/** One check for each case, named after it. */
export function each<C extends { name: string }>(
  cases: readonly C[],
  what: string,
  holds: (one: C) => void | Promise<void>,
): Check[] {
  return cases.map((one) => ({ name: what === '' ? one.name : `${one.name}: ${what}`, run: () => holds(one) }));
}

/** The document of a case must be this, with this signer, and other members of the case must be these. */
export interface Expected {
  document: Document;
  signed: readonly (readonly [signature: string, by: Keys])[];
  members?: Document;
}

/** One check for each case of a signed document: it is what it should be, written canonically, and signed as that. */
export function eachSigned<C extends Omit<SignedCase, 'signature'>>(
  cases: readonly C[],
  expectedOf: (one: C) => Expected,
  also: (one: C) => void | Promise<void> = () => undefined,
): Check[] {
  return each(cases, '', async (one) => {
    const { document, signed, members = {} } = expectedOf(one);
    expect(one.document).toEqual(document);
    expect(one.canonical).toBe(jcs(one.document));
    expect(signed.length).toBeGreaterThan(0);
    for (const [signature, by] of signed) await expectSigned(utf8(one.canonical), signature, by);
    for (const [name, member] of Object.entries(members)) {
      expect([name, (one as Document)[name]]).toEqual([name, member]);
    }
    await also(one);
  });
}
