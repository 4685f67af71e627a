/**
 * Signed hops, made here from docs/protocol.md ("The signed hop") and not with the code under test, each part of which
 * a test may get wrong on purpose.
 */
import { createHash } from 'node:crypto';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { TestHost } from './hosts.ts';
import { requestBytes } from './raw-http.ts';

export interface Hop {
  host: TestHost;
  relayPubkey: PublicKey;
  method: string;
  /** As sent. */
  target: string;
  body?: string | Uint8Array;
  timestamp: number | string;
}

/** These are signed instead of what is sent. */
export interface Signed {
  tag?: string;
  method?: string;
  target?: string;
  timestamp?: string;
  bodyHash?: string;
  relayPubkey?: string;
}

/** The four headers of a v2 hop. */
export function hopHeaders(hop: Hop, signed: Signed = {}): Record<string, string> {
  const timestamp = String(hop.timestamp);
  const lines = [
    signed.tag ?? 'mail-hop-v2',
    signed.method ?? hop.method,
    signed.target ?? hop.target,
    signed.timestamp ?? timestamp,
    signed.bodyHash ?? sha256(hop.body ?? ''),
    signed.relayPubkey ?? hop.relayPubkey,
  ];
  return {
    'x-mail-host': hop.host.name,
    'x-mail-key': hop.host.key,
    'x-mail-ts': timestamp,
    'x-mail-sig': hop.host.signer.sign(Buffer.from(lines.join('\n'))),
  };
}

/** The whole request as bytes; `headers` are put over those of the hop, and `undefined` takes one away. */
export function hopBytes(
  hop: Hop,
  signed: Signed = {},
  headers: Readonly<Record<string, string | undefined>> = {},
): Buffer {
  const all: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...hopHeaders(hop, signed), ...headers })) {
    if (value !== undefined) all[name] = value;
  }
  return requestBytes(hop.method, hop.target, all, hop.body);
}

export function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The three headers of a v1 hop: the query is not signed, and neither is the relay's key. */
export function hopV1Headers({ host, method, target, body, timestamp }: Hop): Record<string, string> {
  const [path = ''] = target.split('?');
  const lines = ['mail-hop-v1', method, path, String(timestamp), sha256(body ?? '')];
  const signature = host.signer.sign(Buffer.from(lines.join('\n')));
  return { 'x-mail-host': host.name, 'x-mail-ts': String(timestamp), 'x-mail-sig': signature };
}

export function hopV1Bytes(hop: Hop, headers: Readonly<Record<string, string>> = {}): Buffer {
  return requestBytes(hop.method, hop.target, { ...hopV1Headers(hop), ...headers }, hop.body);
}
