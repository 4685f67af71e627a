/**
 * Carries a request of a host inside the pipeline (http/pipeline.ts):
 * enrolled → skew → body → signature → rate → content. What the headers decide is decided before the body is read.
 */
import { BODY_BYTES_MAX, WORK_OF_REQUEST } from '../../protocol/limits.ts';
import { addressGroup, networkOf } from '../../http/connections.ts';
import { signedTarget } from '../../protocol/hop.ts';
import type { HostName } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type HopClaim, isAdmitted, readHop, verifiedHop } from '../auth/hop.ts';
import type { RateLimiter } from '../../http/budget.ts';
import type { Signatures } from '../auth/signature-thread.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import { StoreFailed } from '../engine/committer.ts';
import type { Engine } from '../engine/engine.ts';
import { brokenQueueRefusal, damagedRowRefusal, isBrokenQueue, isDamagedRow, isRowFault } from '../engine/queues.ts';
import { type Body, BodyBudgets } from '../../http/framing.ts';
import type { Exchange, ExchangeHandler, Reply } from '../../http/exchange.ts';
import {
  type AcceptedRequest,
  type FinishedRequest,
  RequestPipeline,
  type RoutedHead,
  type RouteResult,
} from '../../http/pipeline.ts';
import { problemReply } from '../../http/replies.ts';
import { type CountedAs, type MaybeHopRequest, type RawQuery, type Route, refusalReply } from './operation.ts';
import type { HeldBytes } from './page-writer.ts';
import type { WorkBudget } from './work-budget.ts';

/** The share of one host key from one address: two bodies of full size. */
const BODIES_SHARE_BYTES = 16 << 20;
/** Bodies of requests without a hop, which are small: of all, and of one client address. */
const OPEN_BODIES_BYTES_MAX = 4 << 20;
const OPEN_BODIES_SHARE_BYTES = 256 << 10;

/** The one caller of a rate that all share. */
const ALL = 'all';

/** A full disk is emptied by acks and by expiry, not at once. */
const DISK_FULL_RETRY_S = 60;

export interface HandlerOptions {
  engine: Engine;
  routes: readonly Route[];
  relayPubkey: PublicKey;
  signatures: Signatures;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  /** Notes that so many bytes come. Returns true when there is room for them on the disk. */
  takeRoom: (bytes: number) => boolean;
  trustProxy: TrustProxy;
  /** True when hops of v1 are taken. */
  takesV1: boolean;
  heldBytes: HeldBytes;
  /** `strangers`: what is asked of the log without a hop, of all together. */
  rates: Readonly<Record<Exclude<CountedAs, 'work'> | 'strangers', RateLimiter>>;
  work: WorkBudget;
  log: Record<'info' | 'error', (facts: object, message: string) => void>;
  /** Sees every finished request, as the log does. */
  watch: { finished: (request: FinishedRequest) => void } | undefined;
}

export class Handler {
  readonly #options: HandlerOptions;
  readonly #pipeline: RequestPipeline<Route>;
  readonly #bodies: BodyBudgets;

  constructor(options: HandlerOptions) {
    this.#options = options;
    const { clock, log, watch } = options;
    const { monotonicMs } = clock;
    const { bodies, smallBodies } = options.heldBytes;
    this.#bodies = new BodyBudgets({
      hops: { bytesMax: bodies, smallBytesMax: smallBodies, shareBytesMax: BODIES_SHARE_BYTES },
      others: { bytesMax: OPEN_BODIES_BYTES_MAX, shareBytesMax: OPEN_BODIES_SHARE_BYTES },
      monotonicMs,
    });
    const unexpected = (err: unknown, requestId: string): void =>
      log.error({ err, requestId }, 'a request met an unexpected error');
    const finished = (request: FinishedRequest): void => {
      watch?.finished(request);
      log.info(request, 'request');
    };
    const neverStored = new Set(options.routes.filter((route) => route.isNeverStored).map(({ path }) => path));
    this.#pipeline = new RequestPipeline({
      ...options,
      routePath: signedTarget,
      stopping: 'the relay is stopping',
      discardBytesMax: BODY_BYTES_MAX,
      accept: (head) => this.#accept(head),
      unexpected,
      failed: (error, id) => failureReply(error, id, unexpected),
      complete: (reply, id, path) => withRequestId(neverStored.has(path) ? notStored(reply) : reply, id),
      observer: { finished, monotonicMs },
    });
  }

  get handle(): ExchangeHandler {
    return this.#pipeline.handle;
  }

  /** Answers new requests with 503 from now on; resolves when those under way are answered. */
  async drain(): Promise<void> {
    const drained = this.#pipeline.drain();
    this.#options.engine.endWaits();
    await drained;
  }

  /**
   * Judges, before the body, whether there is room on the disk and whose hop the headers claim; after it, whose hop it
   * is.
   */
  #accept({ route, exchange, id, query, framing }: RoutedHead<Route>): AcceptedRequest | Reply {
    const { engine, clock, takeRoom, trustProxy, takesV1 } = this.#options;
    if (route.fillsDisk && !takeRoom(framing.contentLength)) {
      return problemReply('UNAVAILABLE', 'the disk of this relay is almost full', { retryAfterS: DISK_FULL_RETRY_S });
    }
    const { peerAddress, headers } = exchange.head;
    const address = clientAddress(peerAddress, headers, trustProxy);
    exchange.isOf(address);
    let claim: HopClaim | undefined;
    if (route.access !== 'open') {
      const lookUps = {
        byKey: (key: PublicKey) => engine.directory.get(key),
        byName:
          takesV1 && route.path.startsWith('/v1/') ? (name: HostName) => engine.directory.namesakes(name) : undefined,
      };
      const read = readHop(framing.header, lookUps, clock.nowMs());
      if (read.type === 'HopClaim') claim = read;
      else if (route.access === 'hop') return refusalReply(read);
    }
    const required = route.access === 'hop' ? claim : undefined;
    return {
      room: this.#bodies.room(route.method, address, claim?.candidates[0]?.hostPubkey, framing.contentLength),
      ...(required && { watch: (end) => this.#whenEnded(required, () => end(hopRefusal('not enrolled'))) }),
      handle: async (body) => {
        const caller = claim && (await this.#verifiedCaller(claim, body, exchange));
        if (typeof caller === 'string' && route.access === 'hop') return hopRefusal(caller);
        // The time of the command is that of its last byte: a body may take a minute.
        const nowMs = clock.nowMs();
        const proven = typeof caller === 'string' ? undefined : caller;
        return this.#callRoute(route, { exchange, id, query, body, clientAddress: address, nowMs, caller: proven });
      },
    };
  }

  /** Calls `ended` when every host that a hop may come from lost its enrolment. Returns a function to stop it. */
  #whenEnded(claim: HopClaim, ended: () => void): () => void {
    const { engine, clock } = this.#options;
    const keys = claim.candidates.map(({ hostPubkey }) => hostPubkey);
    const look = (): void => {
      const isAnyLeft = keys.some((key) => {
        const row = engine.directory.get(key);
        return row && isAdmitted(row, clock.nowMs(), claim.version);
      });
      if (!isAnyLeft) ended();
    };
    const stops = keys.map((key) => engine.onEnrolmentEnded(key, look));
    return () => {
      for (const stop of stops) stop();
    };
  }

  async #callRoute(route: Route, request: MaybeHopRequest<RawQuery>): Promise<RouteResult> {
    const { caller, clientAddress } = request;
    if (route.access === 'hop' && !caller) throw new Error('invariant: a hop route is called by a verified host');
    return this.#rateRefusal(route.counted, clientAddress, caller?.hostPubkey) ?? route.handle(request);
  }

  async #verifiedCaller(claim: HopClaim, body: Body, exchange: Exchange): Promise<EnrolmentRow | HopFailure> {
    const { engine, clock, relayPubkey, signatures } = this.#options;
    const { method, target } = exchange.head;
    const request = { method, target, bodyHash: body.hash };
    const hostPubkey = (await verifiedHop(claim, request, relayPubkey, signatures))?.hostPubkey;
    // Looked up again: the enrolment may have ended while the body came in, and while the thread was at it.
    if (!hostPubkey) return 'bad signature';
    const enrolment = engine.directory.get(hostPubkey);
    const { version: hopVersion } = claim;
    const nowMs = clock.nowMs();
    if (!enrolment || !isAdmitted(enrolment, nowMs, hopVersion)) return 'not enrolled';
    exchange.isProven();
    const noted = engine.noteHostSeen({ type: 'NoteHostSeen', hostPubkey, hopVersion, nowMs });
    // A request over v2 is answered when no crash makes the relay forget that its host speaks v2.
    await noted?.catch((error: unknown) => {
      if (!isRowFault(error)) throw error;
    });
    return enrolment;
  }

  /** Counts for the host with this key, or without one for the client address, and of the log for all of these. */
  #rateRefusal(counted: CountedAs | undefined, address: string, key?: PublicKey): Reply | undefined {
    const { work, rates } = this.#options;
    if (!counted) return undefined;
    if (counted === 'work') return key && work.charge(key, address, WORK_OF_REQUEST);
    const owing = key && counted === 'push' ? work.debt(key) : undefined;
    if (owing) return owing;
    const isStrangers = counted === 'log' && key === undefined;
    const allWaitS = isStrangers ? rates.strangers.waitS(ALL, 1) : 0;
    const retryAfterS = allWaitS > 0 ? allWaitS : rates[counted].take(key ?? address);
    if (isStrangers && retryAfterS === 0) rates.strangers.add(ALL, 1);
    return retryAfterS === 0 ? undefined : problemReply('RATE_LIMITED', 'too many requests', { retryAfterS });
  }
}

/** Makes the reply of a route that threw. */
export function failureReply(error: unknown, id: string, unexpected: (error: unknown, id: string) => void): Reply {
  if (isBrokenQueue(error)) return refusalReply(brokenQueueRefusal());
  if (isDamagedRow(error)) return refusalReply(damagedRowRefusal());
  if (!(error instanceof StoreFailed)) unexpected(error, id);
  return problemReply('UNAVAILABLE', 'the relay cannot answer this now');
}

function notStored(reply: Reply): Reply {
  return { ...reply, headers: { ...reply.headers, 'cache-control': 'no-store' } };
}

export function withRequestId(reply: Reply, id: string): Reply {
  return { ...reply, headers: { 'x-request-id': id, ...reply.headers } };
}

/** The reason for which a hop is refused although its headers were good. */
type HopFailure = 'bad signature' | 'not enrolled';

function hopRefusal(failure: HopFailure): Reply {
  if (failure === 'not enrolled') return problemReply('NOT_ENROLLED', 'not enrolled');
  return problemReply('BAD_SIGNATURE', 'the hop signature does not verify');
}

export type TrustProxy = 'none' | 'xff' | 'cloudflare';

/**
 * The text by which rate tables count a request without a signature: the address of the client, or its network.
 *
 * Behind a proxy only the entry that the trusted proxy appended is believed: the rightmost one over all lines of the
 * forwarded-for header. Earlier entries are the client's own words.
 */
export function clientAddress(
  peerAddress: string,
  headers: readonly (readonly [string, string])[],
  trust: TrustProxy,
): string {
  const said = trust === 'none' ? undefined : saidByProxy(headers, trust);
  return addressGroup(said ?? peerAddress) ?? networkOf(peerAddress);
}

function saidByProxy(headers: readonly (readonly [string, string])[], trust: 'xff' | 'cloudflare'): string | undefined {
  const wanted = trust === 'xff' ? 'x-forwarded-for' : 'cf-connecting-ip';
  const line = headers.findLast(([name]) => name === wanted)?.[1];
  return line?.split(',').at(-1)?.trim();
}
