/** The mail that the benchmarks push, made before anything is timed. */
import { createHash, randomBytes } from 'node:crypto';
import { type Signer, signerFromSeed } from '../src/protocol/ed25519.ts';
import { BINARY_TYPE, packedBytes } from '../src/protocol/message-pack.ts';
import { RECEIPTS_HEADER, TREE_RECEIPTS, hopV2Message } from '../src/protocol/hop.ts';
import { sha256Hex } from '../src/protocol/encodings.ts';
import { type PublicKey, publicKeyBytes } from '../src/protocol/public-key.ts';

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

export interface PushWork {
  sender: Signer;
  target: PublicKey;
  requests: number;
  itemsPerRequest: number;
  itemBytes: number;
  relayPubkey: PublicKey;
  form: Form;
}

/** JSON, with a signature for each receipt or one for all of a request; or the binary form, also with one for all. */
export type Form = 'JSON' | 'tree' | 'binary';

/** The headers that ask for a form. */
export function headersOf(form: Form): Record<string, string> {
  const binary = form === 'binary' ? { accept: BINARY_TYPE, 'content-type': BINARY_TYPE } : {};
  return form === 'JSON' ? {} : { ...binary, [RECEIPTS_HEADER]: TREE_RECEIPTS };
}

export const PUSH_TARGET = '/v2/relay/items';

/** Signed push requests of fresh items, as they go over the wire. */
export function pushRequests(work: PushWork): Buffer[] {
  const { sender, target, requests, itemsPerRequest, itemBytes, relayPubkey, form } = work;
  const timestamp = String(Date.now());
  return Array.from({ length: requests }, () => {
    const items = Array.from({ length: itemsPerRequest }, () => {
      const id = randomBytes(13).toString('hex');
      const wire = sealedEnvelope(id, itemBytes);
      const sent =
        form === 'binary'
          ? { host_pubkey: publicKeyBytes(target), wire }
          : { host_pubkey: target, wire_b64: wire.toString('base64') };
      return { kind: 'envelope', item_id: id, targets: [sent] };
    });
    const body = form === 'binary' ? packedBytes({ items }) : Buffer.from(JSON.stringify({ items }));
    const fields = { method: 'POST', target: PUSH_TARGET, timestamp, bodyHash: sha256Hex(body) };
    const signature = sender.sign(hopV2Message(fields, relayPubkey));
    const hop = { 'x-mail-key': sender.publicKey, 'x-mail-ts': timestamp, 'x-mail-sig': signature };
    return requestBytes('POST', PUSH_TARGET, { ...hop, ...headersOf(form) }, body);
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
