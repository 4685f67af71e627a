/** Requests to the listener of a host, signed or not, each over a connection of its own. */
import { request as httpRequest } from 'node:http';
import { lanHopHeaders } from '../../src/host/lan/lan-hop.ts';
import type { Signer } from '../../src/protocol/ed25519.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { LanHost } from './lan-hosts.ts';
import { callingAddress } from './loopback.ts';

export interface Answer {
  status: number;
  document: Record<string, unknown>;
}

export interface Asked {
  signer: Signer;
  /** The key that the hop is for. */
  called: PublicKey;
  method: string;
  target: string;
  body?: object;
  nowMs?: number;
  from?: string;
}

export const keyOf = ({ context }: LanHost): PublicKey => context.identity().signer.publicKey;
export const signerOf = ({ context }: LanHost): Signer => context.identity().signer;

/** A hop to `host`, over a connection of its own. */
export function hop(host: LanHost, asked: Asked): Promise<Answer> {
  return signedHop(asked)(host, asked.from);
}

/** One signed request. A thief who saw it can send it as often as he likes, from any address. */
export function signedHop({ signer, called, method, target, body, nowMs = Date.now() }: Asked) {
  const text = body === undefined ? '' : JSON.stringify(body);
  const headers = lanHopHeaders({ signer, hostName: 'anyhost', nowMs }, called, method, target, text);
  return (host: LanHost, from?: string): Promise<Answer> =>
    ask(host, method, target, { ...headers, connection: 'close' }, text, from);
}

export function ask(
  { lan }: LanHost,
  method: string,
  path: string,
  headers: Record<string, string>,
  text: string,
  localAddress = '127.0.0.1',
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length = text === '' ? {} : { 'content-length': String(Buffer.byteLength(text)) };
    const options = {
      host: '127.0.0.1',
      port: lan.port,
      method,
      path,
      headers: { ...headers, ...length },
      localAddress: callingAddress(localAddress),
    };
    const asked = httpRequest(options, (response) => {
      let said = '';
      response.on('data', (chunk: Buffer) => {
        said += chunk.toString();
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, document: JSON.parse(said) as Answer['document'] }),
      );
    });
    asked.on('error', reject);
    asked.end(text);
  });
}
