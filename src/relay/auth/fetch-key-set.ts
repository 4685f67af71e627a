/**
 * Fetches a JWK Set: one request, no redirect, a bounded answer.
 *
 * The keys decide who is let in, so the settings take a URL only of https or of this machine (`trustedUrl` in
 * cli/relay/values.ts).
 */
import { type JsonBounds, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { KeySet } from './key-set.ts';

export const KEY_SET_BYTES_MAX = 262_144;
const KEY_SET_JSON_BOUNDS: JsonBounds = { depthMax: 8, valuesMax: 20_000, membersMax: 1000 };

/** As `fetch` of the platform, with what is used of it. */
export type Fetch = (
  url: string,
  init: { headers: Readonly<Record<string, string>>; redirect: 'error'; signal: AbortSignal },
) => Promise<Response>;

/** Why there is no key set; the message is for the operator's log. */
export class FetchFailed extends Error {}

/** Throws `FetchFailed`, and whatever `fetch` throws. */
export async function fetchKeySet(fetch: Fetch, url: string, signal: AbortSignal): Promise<KeySet> {
  const headers = { accept: 'application/jwk-set+json, application/json' };
  const response = await fetch(url, { headers, redirect: 'error', signal });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new FetchFailed(`the answer was ${response.status}`);
  }
  const keySet = KeySet.from(parseJsonBounded(await boundedBytes(response), KEY_SET_JSON_BOUNDS));
  if (!keySet) throw new FetchFailed('the answer was no JWK Set');
  return keySet;
}

/** Counted as they arrive, unpacked: a length header proves nothing. */
async function boundedBytes(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    // Leaving the loop cancels the rest.
    if (bytes > KEY_SET_BYTES_MAX) throw new FetchFailed(`the answer has more than ${KEY_SET_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}
