/**
 * The listener that paired hosts call: node:http, with the pipeline, the connections and the budget that every listener
 * of hosts has (http/). Here is what the LAN asks of a request: whose hop it is, and how often strangers may call.
 *
 * Only what proves nothing counts against the rate of its address. What claims to prove something is judged first, so
 * that nobody at the address of a paired host can silence it; but after as many lies as strangers may tell, no body in
 * the name of that host is read from there that is more than small.
 */
import { randomBytes } from 'node:crypto';
import { type Body, BodyBudgets, type Framing, SMALL_CLAIM_BYTES_MAX, isReply } from '../../http/framing.ts';
import { Connections, addressGroup } from '../../http/connections.ts';
import type { HttpServer, Reply } from '../../http/exchange.ts';
import { type AcceptedRequest, RequestPipeline, type RoutedHead } from '../../http/pipeline.ts';
import { RateLimiter } from '../../http/budget.ts';
import { problemReply } from '../../http/replies.ts';
import { listenNode } from '../../http/server-node.ts';
import { systemTimers } from '../../lib/clock.ts';
import { limitedSignal } from '../../lib/http-request.ts';
import type { ListenAddress } from '../../lib/listen-address.ts';
import { LAN_BODY_BYTES_MAX } from '../../protocol/lan.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { RETIRED_KEY_MS, retiredAt } from '../core/peer-keys.ts';
import type { PeerRow } from '../core/rows.ts';
import { peerOfKey } from '../peers/peers.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import { type ClaimedHop, HopNonces, claimedHop, isHopSigned } from './lan-hop.ts';
import type { LanRequest, LanRoute } from './lan-routes.ts';

const CONNECTIONS = { max: 512, perAddressMax: 64 };
/** All the small bodies that there can be at once: a connection has one. */
const SMALL_BODIES_BYTES = CONNECTIONS.max * SMALL_CLAIM_BYTES_MAX;
const HOP_BODIES = { bytesMax: 64 << 20, smallBytesMax: SMALL_BODIES_BYTES, shareBytesMax: 2 * LAN_BODY_BYTES_MAX };
const OTHER_BODIES = { bytesMax: 16 << 20, smallBytesMax: SMALL_BODIES_BYTES, shareBytesMax: LAN_BODY_BYTES_MAX };
/** Requests of one address that prove nothing; those that name a paired host falsely count for its key alone. */
const STRANGER_REQUESTS_PER_MINUTE = 60;
/** The time that answers may take to leave when the listener closes. */
const CLOSE_MS = 5_000;

const REPLAYED = problemReply(
  'REPLAYED_HOP',
  'this hop may have been taken before: send the request again with another nonce',
);

/** The host that the hop's headers name, before the body is there. */
interface Claim {
  hop: ClaimedHop;
  peer: PeerRow | undefined;
}

interface LanServerOptions {
  context: HostContext;
  routes: readonly LanRoute[];
  /** Called for every hop that verified of a paired host. */
  called: (peer: PeerRow, fromAddress: string) => void;
}

export class LanServer {
  readonly #options: LanServerOptions;
  readonly #pipeline: RequestPipeline<LanRoute>;
  readonly #bodies: BodyBudgets;
  readonly #strangers: RateLimiter;
  readonly #nonces: HopNonces;
  #server: HttpServer | undefined;

  private constructor(options: LanServerOptions) {
    const { context, routes } = options;
    const { monotonicMs } = context;
    const unexpected = (error: unknown): void => {
      if (!isStoreFailure(error)) context.log('error', 'a request of the LAN failed', { err: error });
    };
    this.#options = options;
    this.#bodies = new BodyBudgets({ hops: HOP_BODIES, others: OTHER_BODIES, monotonicMs });
    this.#strangers = new RateLimiter(STRANGER_REQUESTS_PER_MINUTE, monotonicMs);
    this.#nonces = new HopNonces(context);
    this.#pipeline = new RequestPipeline({
      routes,
      timers: systemTimers,
      randomBytes,
      stopping: 'this host is stopping',
      discardBytesMax: LAN_BODY_BYTES_MAX,
      accept: (head) => this.#accept(head),
      failed: (error) => {
        unexpected(error);
        return problemReply('UNAVAILABLE', 'try again later');
      },
      unexpected,
    });
  }

  /** Throws `ListenFailed`. */
  static async listen({ host, port }: ListenAddress, options: LanServerOptions): Promise<LanServer> {
    const lan = new LanServer(options);
    lan.#server = await listenNode({
      host,
      port,
      handler: lan.#pipeline.handle,
      connections: new Connections({ ...CONNECTIONS, arePeersProxies: false, groupOf }),
    });
    return lan;
  }

  get port(): number {
    return this.#server?.port ?? 0;
  }

  /** Takes no new request, lets those that came be answered for a while, and cuts what is left. */
  async close(): Promise<void> {
    this.#server?.stopAccepting();
    const { signal, over } = limitedSignal(CLOSE_MS);
    const late = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await Promise.race([this.#pipeline.drain(), late]);
    over();
    this.#server?.close();
  }

  async #accept({ route, exchange, framing }: RoutedHead<LanRoute>): Promise<AcceptedRequest | Reply> {
    const { method, target, peerAddress, calledAt = { host: '', port: 0 } } = exchange.head;
    const group = groupOf(peerAddress);
    const isHop = route.access === 'signed' || route.access === 'paired';
    const claim = isHop ? await this.#claim(framing, route) : undefined;
    if (claim && isReply(claim)) return claim;
    const { contentLength } = framing;
    const named = claim?.peer && claim.hop.key;
    const liar = named ? `${group} ${named}` : group;
    const isLarge = contentLength > SMALL_CLAIM_BYTES_MAX;
    const isJudgedFirst = route.access === 'proof' || (named !== undefined && !isLarge);
    const waitS = named ? this.#strangers.waitS(liar, 1) : undefined;
    const refused = isJudgedFirst ? undefined : this.#rateRefusal(liar, waitS);
    if (refused) return { ...refused, close: isLarge };
    const request = {
      method,
      target,
      callerAddress: unmapAddress(peerAddress),
      calledAt: { ...calledAt, host: unmapAddress(calledAt.host) },
    };
    return {
      room: this.#bodies.room(method, group, named, contentLength),
      handle: async (body) => {
        const caller = claim && (await this.#signed(claim, request, body));
        if (caller && isReply(caller)) return caller === REPLAYED ? REPLAYED : (this.#rateRefusal(liar) ?? caller);
        if (caller?.peer) {
          exchange.isProven();
          this.#options.called(caller.peer, request.callerAddress);
        }
        const reply = await route.handle({ ...request, body: body.bytes, ...(caller && { caller }) });
        const isProven = route.access !== 'proof' || reply.status === 200;
        return isProven ? reply : (this.#rateRefusal(group) ?? reply);
      },
    };
  }

  #rateRefusal(caller: string, retryAfterS = this.#strangers.take(caller)): Reply | undefined {
    if (retryAfterS === 0) return undefined;
    return problemReply('RATE_LIMITED', 'too many requests from this address', { retryAfterS });
  }

  async #claim({ header }: Framing, { access }: LanRoute): Promise<Claim | Reply> {
    const { context } = this.#options;
    const nowMs = context.nowMs();
    const hop = claimedHop(header, nowMs);
    if ('code' in hop) {
      return problemReply(hop.code, hop.detail, hop.code === 'CLOCK_SKEW' ? { members: { now: nowMs } } : {});
    }
    const peer = await context.store.read((reader) => livePeerOf(peerOfKey(reader, hop.key), hop.key));
    if (!peer && access === 'paired') return problemReply('NOT_ENROLLED', 'the hosts are not paired');
    // Before the body is read: a request that is sent again costs no more than this.
    return this.#nonces.isUsed(hop, pairedSince(peer)) ? REPLAYED : { hop, peer };
  }

  async #signed(
    { hop, peer }: Claim,
    { method, target }: Pick<LanRequest, 'method' | 'target'>,
    { hash }: Body,
  ): Promise<{ key: PublicKey; peer: PeerRow | undefined } | Reply> {
    const { context } = this.#options;
    const keys = await context.store.read((reader) => reader.get('identity')?.keys ?? []);
    const sinceMs = context.nowMs() - RETIRED_KEY_MS;
    const called = keys
      .filter(({ retiredAtMs }) => retiredAtMs === null || context.momentMs(retiredAtMs) > sinceMs)
      .map(({ publicKey }) => publicKey)
      .toReversed();
    if (!isHopSigned(hop, { method, target, bodyHash: hash }, called, peer !== undefined)) {
      return problemReply('BAD_SIGNATURE', 'the hop is not signed by its key for this host');
    }
    return this.#nonces.take(hop, pairedSince(peer)) ? { key: hop.key, peer } : REPLAYED;
  }
}

/** A peer by the key it has now; who calls by a retired key, or was let go, is not paired. */
function livePeerOf(peer: PeerRow | undefined, key: PublicKey): PeerRow | undefined {
  return peer?.unpairedAtMs === null && retiredAt(peer, key) === null ? peer : undefined;
}

function pairedSince(peer: PeerRow | undefined): number | null {
  return peer?.pairedAtMs ?? null;
}

/** An IPv4 address as it is written, also when it came mapped into IPv6. */
function unmapAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice('::ffff:'.length) : address;
}

/** All link-local addresses are one network, whatever their zone. */
function groupOf(address: string): string {
  return addressGroup(address.replace(/%.*$/, '')) ?? address;
}
