/** Holds what random requests of every server share: what is sent, what happens to it, and what comes back. */
import { type RawConnection, type RawResponse, requestBytes } from './raw-http.ts';
import type { SeededRandom } from './seeded-random.ts';

/** A request that may be half a request is given this time; one that is whole is given as long as it takes. */
const QUIET_MS = 250;

export interface FuzzedRequest {
  bytes: Buffer;
  /** Says whether there will be one answer, and when it has come nothing more is to be waited for. */
  isWhole: boolean;
}

export const METHODS = ['GET', 'GET', 'POST', 'POST', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'get', 'X'] as const;
/** Each means something to a server, or is long. */
const HEADERS: readonly (readonly [string, string])[] = [
  ['content-length', '99999999'],
  ['content-length', '-1'],
  ['content-length', '0'],
  ['transfer-encoding', 'chunked'],
  ['transfer-encoding', 'identity'],
  ['host', 'other'],
  ['connection', 'close'],
  ['connection', 'upgrade'],
  ['upgrade', 'websocket'],
  ['expect', '100-continue'],
  ['x-forwarded-for', '1.2.3.4, not an address'],
  ['x-mail-ts', '1'],
  ['x-mail-key', 'AAAA'],
  ['x-mail-sig', ''],
  ['x-mail-host', '\xff'],
  ['a', 'x'.repeat(4000)],
];

interface RequestParts {
  method: string;
  target: string;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array;
}

/** The request, or what more headers, no length or other bytes make of it. */
export function varied({ method, target, headers, body }: RequestParts, random: SeededRandom): FuzzedRequest {
  const all = { ...headers };
  let isWhole = true;
  for (let more = random.below(3); more > 0 && random.chance(0.3); more--) {
    isWhole = false;
    const [name, value] = random.pick(HEADERS);
    // In other letters, so that it stands beside the one that is there.
    all[random.chance(0.5) ? name : name.toUpperCase()] = value;
  }
  let bytes = requestBytes(method, target, all, body);
  if (random.chance(0.05)) bytes = withLength(bytes, '');
  for (let mutations = random.chance(0.3) ? 1 + random.below(3) : 0; mutations > 0; mutations--) {
    isWhole = false;
    bytes = mutated(bytes, random);
  }
  return { bytes, isWhole };
}

interface Fuzz<Request extends FuzzedRequest> {
  next: (number: number) => Request | Promise<Request>;
  /** A connection of its own for each request. */
  open: (request: Request) => Promise<RawConnection>;
  /** Returns what is wrong with an answer; `undefined` when nothing is. */
  faultOf: (response: RawResponse, request: Request) => string | undefined;
}

interface FuzzResult {
  /** The number of answers with each status. */
  statuses: Map<number, number>;
  faults: string[];
  perSecond: number;
}

const AT_ONCE = 64;

/** Sends `count` random requests, many at once. */
export async function sendRandom<Request extends FuzzedRequest>(
  count: number,
  { next, open, faultOf }: Fuzz<Request>,
): Promise<FuzzResult> {
  const statuses = new Map<number, number>();
  const faults: string[] = [];
  const startedMs = performance.now();
  let sent = 0;
  const sendMany = async (): Promise<void> => {
    while (sent < count) {
      const number = ++sent;
      const request = await next(number);
      for (const response of await responsesTo(await open(request), request)) {
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        const fault = faultOf(response, request);
        const said = request.bytes.toString('latin1').slice(0, 300);
        if (fault !== undefined) faults.push(`${fault}: request ${number} ${said}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sendMany));
  return { statuses, faults, perSecond: Math.round((count * 1000) / (performance.now() - startedMs)) };
}

/** For the figures of `npm run torture`. */
export function toldOf({ statuses, perSecond }: FuzzResult): string {
  const counts = [...statuses].toSorted(([a], [b]) => a - b).map(([status, count]) => `${status} ${count}`);
  return `${perSecond} a second, answered ${counts.join(', ')}`;
}

/** With another content-length, or with none. */
export function withLength(bytes: Buffer, length: string): Buffer {
  const field = length === '' ? '' : `content-length: ${length}\r\n`;
  return Buffer.from(bytes.toString('latin1').replace(/content-length: [0-9]+\r\n/, field), 'latin1');
}

export function mutated(bytes: Buffer, random: SeededRandom): Buffer {
  const at = random.below(bytes.length + 1);
  const to = Math.min(bytes.length, at + random.below(20));
  const [before, middle, after] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)];
  switch (random.below(5)) {
    case 0:
      return Buffer.concat([before, after]);
    case 1:
      return Buffer.concat([before, middle, middle, after]);
    case 2:
      return Buffer.concat([before, random.bytes(random.below(10)), after]);
    case 3:
      return before;
    default:
      return Buffer.concat([before, Buffer.from(random.pick(['\r\n', '\0', ':', ' ', '"', '{', '\\', '}'])), after]);
  }
}

/**
 * Returns what comes back on `connection`: one answer to a whole request, otherwise all until it ends or stays quiet.
 */
async function responsesTo(connection: RawConnection, { bytes, isWhole }: FuzzedRequest): Promise<RawResponse[]> {
  const to = bytes.subarray(0, 4).toString('latin1') === 'HEAD' ? 'HEAD' : 'GET';
  connection.send(bytes);
  if (isWhole) {
    const response = await connection.response(to);
    connection.close();
    return response ? [response] : [];
  }
  const responses: RawResponse[] = [];
  const quiet = setTimeout(() => connection.close(), QUIET_MS);
  for (let response = await connection.response(to); response; response = await connection.response(to)) {
    responses.push(response);
    if (response.status !== 200) quiet.refresh();
  }
  clearTimeout(quiet);
  return responses;
}
