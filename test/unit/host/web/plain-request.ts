/** One request over loopback with exactly these headers, as no browser would send it. */
import { type OutgoingHttpHeaders, request } from 'node:http';
import { PATIENCE_MS } from '../../../support/patience.ts';

export interface PlainAnswer {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  text: string;
  /** The body as JSON; an empty object when it is none. */
  document: Readonly<Record<string, unknown>>;
}

export interface PlainRequest {
  method?: string;
  path: string;
  headers?: OutgoingHttpHeaders;
  body?: string;
}

export function plainRequest(
  port: number,
  { method = 'GET', path, headers = {}, body = '' }: PlainRequest,
): Promise<PlainAnswer> {
  return new Promise((resolve, reject) => {
    const length = method === 'GET' ? {} : { 'content-length': Buffer.byteLength(body) };
    const options = { host: '127.0.0.1', port, method, path, headers: { ...length, ...headers }, agent: false };
    const outgoing = request({ ...options, timeout: PATIENCE_MS }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('error', reject);
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, document: parsed(text) });
      });
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')));
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
