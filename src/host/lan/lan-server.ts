/**
 * The listener that paired hosts call: HTTP by node:http, one way for every request.
 *
 *     framing ─▶ route ─▶ length ─▶ hop: headers ─▶ room for the body ─▶ body ─▶ hop: signature, nonce ─▶ route's answer
 *
 * What a caller may cost is bounded (caller-limits.ts), strangers' share more than that of paired hosts.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { isReply, readFraming, readTarget } from '../../http/framing.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { headOf, isUpgrade } from '../../http/server-node.ts';
import { type ListenAddress, parseListenAddress } from '../../lib/listen-address.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { RETIRED_KEY_MS, retiredAt } from '../core/peer-keys.ts';
import type { PeerRow } from '../core/rows.ts';
import { peerOfKey } from '../inbound/verify.ts';
import { type HostContext, isStoreFailure } from '../context.ts';
import { livePeers } from '../peers/peers.ts';
import { CallerLimits, CONNECTIONS_MAX, ConnectionRoom } from './caller-limits.ts';
import { HopNonces, claimedHop, isHopSigned } from './lan-hop.ts';
import type { LanRequest, LanRoute } from './lan-routes.ts';

const HEADER_BYTES_MAX = 8192;
/** For the head of a request to come, and for the whole of it: links are slow, and bodies have 8 MiB. */
const HEADERS_TIMEOUT_MS = 20_000;
const REQUEST_TIMEOUT_MS = 150_000;
/** How often that is looked at. */
const TIMEOUT_CHECK_MS = 5_000;
/** How long answers may take to leave when the listener closes. */
const CLOSE_MS = 5_000;
/** After these nothing more is taken: what follows may be no request, but a part of this one. */
const ENDS_CONNECTION: ReadonlySet<ProblemCode> = new Set([
  'BAD_REQUEST',
  'LENGTH_REQUIRED',
  'BODY_TOO_LARGE',
  'NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'RATE_LIMITED',
]);

/** What a refusal for want of room asks the caller to wait. */
const RETRY_AFTER_S = 10;

const REPLAYED = problemReply(
  'REPLAYED_HOP',
  'this hop may have been taken before: send the request again with another nonce',
);

/** Who the hop's headers name, before the body is there. */
interface Claim {
  hop: Exclude<ReturnType<typeof claimedHop>, { code: ProblemCode }>;
  peer: PeerRow | undefined;
}

interface LanServerOptions {
  context: HostContext;
  routes: readonly LanRoute[];
  /** Told of every hop that verified of a paired host. */
  called: (peer: PeerRow, fromAddress: string) => void;
}

export class LanServer {
  readonly #options: LanServerOptions;
  readonly #server: Server;
  readonly #limits: CallerLimits;
  readonly #nonces: HopNonces;
  readonly #room: ConnectionRoom;
  readonly #unlisten: () => void;
  /** The last request that came over a connection: whether the connection goes on behind its answer. */
  readonly #last = new WeakMap<Socket, Promise<boolean>>();
  #underWay = 0;
  #idle: (() => void) | undefined;

  private constructor(options: LanServerOptions) {
    this.#options = options;
    this.#limits = new CallerLimits(() => options.context.monotonicMs());
    this.#nonces = new HopNonces(options.context);
    this.#room = new ConnectionRoom(() => options.context.monotonicMs());
    const limits = {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      // Node would answer a request without Host itself, and go on with the data behind it. framing.ts refuses it.
      requireHostHeader: false,
    };
    const requested = (request: IncomingMessage, response: ServerResponse): void => {
      this.#underWay++;
      void this.#serveInTurn(request, response).finally(() => {
        this.#underWay--;
        if (this.#underWay === 0) this.#idle?.();
      });
    };
    this.#server = createServer(limits, requested);
    // Node would answer an expectation that it does not know itself, before the framing is judged.
    this.#server.on('checkExpectation', requested);
    // Their bytes are limited. Node would leave headers out beyond a number of them, and framing.ts would not see those.
    this.#server.maxHeadersCount = 0;
    // Those that were ended to make room are there for a moment still.
    this.#server.maxConnections = 2 * CONNECTIONS_MAX;
    this.#server.on('connection', (socket) => {
      if (this.#room.enter(socket, unmapped(socket.remoteAddress ?? ''))) {
        socket.once('close', () => this.#room.leave(socket));
      } else socket.destroy();
    });
    this.#unlisten = options.context.subscribe(({ type }) => {
      if (type === 'peers-changed') void this.#learnAddresses();
    });
  }

  /** Throws what `listen` throws: `EADDRINUSE`, say. */
  static async listen(address: ListenAddress, options: LanServerOptions): Promise<LanServer> {
    const lan = new LanServer(options);
    await lan.#learnAddresses();
    await new Promise<void>((resolve, reject) => {
      lan.#server.once('error', reject);
      lan.#server.listen({ host: address.host, port: address.port, exclusive: true }, () => {
        lan.#server.off('error', reject);
        // A connection that cannot be accepted is told here too, and unheard it would end the process.
        lan.#server.on('error', (error) => options.context.log('warn', 'a connection failed', { err: error }));
        resolve();
      });
    });
    return lan;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Takes no new request, lets those that came be answered for a while, and cuts what is left. */
  async close(): Promise<void> {
    this.#unlisten();
    this.#server.close();
    this.#server.closeIdleConnections();
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, CLOSE_MS);
        this.#idle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#server.closeAllConnections();
  }

  /**
   * Requests that come at once over one connection are served one after the other. What comes behind a refusal that ends
   * the connection is not served at all: it may be a part of what was refused.
   */
  #serveInTurn(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    const before = this.#last.get(request.socket);
    const served = before
      ? before.then((goesOn) => goesOn && this.#serve(request, response))
      : this.#serve(request, response);
    this.#last.set(request.socket, served);
    return served;
  }

  /** Whether the connection goes on. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const { context } = this.#options;
    try {
      return answer(request, response, await this.#replyTo(request));
    } catch (error) {
      if (request.destroyed && !request.complete) return false;
      if (!isStoreFailure(error)) context.log('error', 'a request of the LAN failed', { err: error });
      return answer(request, response, noRoom('UNAVAILABLE', 'try again later'));
    }
  }

  async #replyTo(request: IncomingMessage): Promise<Reply> {
    const { method = '', url: target = '' } = request;
    const callerAddress = unmapped(request.socket.remoteAddress ?? '');
    this.#room.noteRequest(request.socket);
    const head = headOf(request);
    const asked = readTarget(head);
    if (isReply(asked)) return asked;
    const framing = readFraming(head);
    if (isReply(framing)) return framing;
    const route = this.#route(method, target);
    if (isReply(route)) return route;
    const { contentLength: length } = framing;
    if (length > route.bodyBytesMax) {
      return problemReply('BODY_TOO_LARGE', `a body has at most ${route.bodyBytesMax} bytes here`);
    }
    const claim = route.access === 'open' ? undefined : await this.#claim(request, route);
    if (claim && isReply(claim)) return claim;
    const isStranger = !claim?.peer || this.#limits.isLiar(callerAddress);
    if (isStranger && this.#limits.isStrangerTooOften(callerAddress)) {
      return noRoom('RATE_LIMITED', 'too many requests from this address');
    }
    const release = this.#limits.hold(callerAddress, length, isStranger);
    if (!release) return noRoom('UNAVAILABLE', 'too many bodies at once');
    try {
      const body = await bodyOf(request, length);
      if (!body) return problemReply('BODY_TOO_LARGE', 'the body is longer than was said');
      const { localAddress = '', localPort = 0 } = request.socket;
      const calledAt = { host: unmapped(localAddress), port: localPort };
      const lanRequest: LanRequest = { method, target, body, callerAddress, calledAt };
      if (!claim) return await route.handle(lanRequest);
      const caller = await this.#signed(claim, lanRequest);
      if (isReply(caller)) {
        if (caller.problem === 'BAD_SIGNATURE') this.#limits.markLiar(callerAddress);
        return caller;
      }
      if (caller.peer) {
        this.#room.notePaired(request.socket);
        this.#options.called(caller.peer, callerAddress);
      }
      return await route.handle({ method, target, body, callerAddress, calledAt, caller });
    } finally {
      release();
    }
  }

  /** Where paired hosts are to be called, their connections come from. */
  async #learnAddresses(): Promise<void> {
    const { context } = this.#options;
    try {
      const peers = await context.store.read(livePeers);
      const addresses = peers.flatMap(({ address }) => (address === null ? [] : (parseListenAddress(address) ?? [])));
      this.#room.setKnown(addresses.map(({ host }) => host));
    } catch (error) {
      if (!isStoreFailure(error)) context.log('warn', 'the addresses of paired hosts are not known', { err: error });
    }
  }

  #route(method: string, target: string): LanRoute | Reply {
    const path = target.split('?', 1)[0];
    const ofPath = this.#options.routes.filter((route) => route.path === path);
    if (ofPath.length === 0) return problemReply('NOT_FOUND', 'there is no such route');
    const route = ofPath.find((candidate) => candidate.method === method);
    const allow = ofPath.map(({ method: allowed }) => allowed).join(', ');
    return route ?? problemReply('METHOD_NOT_ALLOWED', `this route takes ${allow}`, { headers: { allow } });
  }

  async #claim(request: IncomingMessage, { access }: LanRoute): Promise<Claim | Reply> {
    const { context } = this.#options;
    const nowMs = context.nowMs();
    const hop = claimedHop(request.headers, nowMs);
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
    request: LanRequest,
  ): Promise<{ key: PublicKey; peer: PeerRow | undefined } | Reply> {
    const { context } = this.#options;
    const keys = await context.store.read((reader) => reader.get('identity')?.keys ?? []);
    const sinceMs = context.nowMs() - RETIRED_KEY_MS;
    const called = keys
      .filter(({ retiredAtMs }) => retiredAtMs === null || retiredAtMs > sinceMs)
      .map(({ publicKey }) => publicKey)
      .toReversed();
    if (!isHopSigned(hop, request, called, peer !== undefined)) {
      return problemReply('BAD_SIGNATURE', 'the hop is not signed by its key for this host');
    }
    return this.#nonces.take(hop, pairedSince(peer)) ? { key: hop.key, peer } : REPLAYED;
  }
}

function noRoom(code: 'RATE_LIMITED' | 'UNAVAILABLE', detail: string): Reply {
  return problemReply(code, detail, { retryAfterS: RETRY_AFTER_S });
}

/** Whether the connection goes on. */
function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body, problem }: Reply,
): boolean {
  if (response.headersSent || response.destroyed) return false;
  // What is left of other bodies is passed over, so that the answer is read.
  const isLast = (problem && ENDS_CONNECTION.has(problem)) || isUpgrade(request);
  if (isLast) response.setHeader('connection', 'close');
  response.writeHead(status, { 'content-length': Buffer.byteLength(body), ...headers });
  response.end(body);
  return !isLast;
}

/** A peer by the key it has now; who calls by a retired key, or was let go, is not paired. */
function livePeerOf(peer: PeerRow | undefined, key: PublicKey): PeerRow | undefined {
  return peer?.unpairedAtMs === null && retiredAt(peer, key) === null ? peer : undefined;
}

function pairedSince(peer: PeerRow | undefined): number | null {
  return peer?.pairedAtMs ?? null;
}

/** An IPv4 address as it is written, also when it came mapped into IPv6. */
function unmapped(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice('::ffff:'.length) : address;
}

/** The body; `undefined` when more comes than was said. */
async function bodyOf(request: IncomingMessage, length: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > length) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
