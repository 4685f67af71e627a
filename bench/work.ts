/** The mail that the benchmarks push, made before anything is timed. */
import { createHash, randomBytes } from 'node:crypto';
import { type Signer, signerFromSeed } from '../src/protocol/ed25519.ts';
import { hopV2Message } from '../src/protocol/hop.ts';
import { sha256Hex } from '../src/protocol/encodings.ts';
import type { PublicKey } from '../src/protocol/public-key.ts';

/** A signer from a name, the same in every run. */
export function namedSigner(name: string): Signer {
  return signerFromSeed(createHash('sha256').update(`bench ${name}`).digest());
}

/** A sealed envelope of exactly `bytes` bytes, its ciphertext as random as ciphertext is. */
export function sealedEnvelope(id: string, bytes: number): Buffer {
  const frame = JSON.stringify({ v: 1, type: 'envelope', id, sealed: { alg: 'HPKE', enc: 'x'.repeat(44), ct: '' } });
  const room = bytes - frame.length;
  const ciphertext = randomBytes(Math.ceil((room * 3) / 4) + 3)
    .toString('base64')
    .slice(0, room);
  return Buffer.from(frame.replace('"ct":""', `"ct":"${ciphertext}"`));
}

export interface PushRequest {
  body: Buffer;
  /** The time that `x-mail-sig` covers, for the floor, which verifies the same hop. */
  timestamp: string;
  signature: string;
  items: number;
}

export interface PushWork {
  sender: Signer;
  target: PublicKey;
  requests: number;
  itemsPerRequest: number;
  itemBytes: number;
  relayPubkey: PublicKey;
}

export const PUSH_TARGET = '/v2/relay/items';

/** Signed push requests of fresh items. */
export function pushRequests(work: PushWork): PushRequest[] {
  const { sender, target, requests, itemsPerRequest, itemBytes, relayPubkey } = work;
  const timestamp = String(Date.now());
  return Array.from({ length: requests }, () => {
    const items = Array.from({ length: itemsPerRequest }, () => {
      const id = randomBytes(13).toString('hex');
      const wire = sealedEnvelope(id, itemBytes).toString('base64');
      return { kind: 'envelope', item_id: id, targets: [{ host_pubkey: target, wire_b64: wire }] };
    });
    const body = Buffer.from(JSON.stringify({ items }));
    const fields = { method: 'POST', target: PUSH_TARGET, timestamp, bodyHash: sha256Hex(body) };
    return { body, timestamp, signature: sender.sign(hopV2Message(fields, relayPubkey)), items: itemsPerRequest };
  });
}

/** The request as it goes over the wire. */
export function requestBytes(method: string, target: string, headers: Record<string, string>, body: Buffer): Buffer {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = method === 'GET' ? '' : `content-length: ${body.length}\r\n`;
  return Buffer.concat([
    Buffer.from(`${method} ${target} HTTP/1.1\r\nhost: bench\r\n${lines.join('')}${length}\r\n`),
    body,
  ]);
}
