/**
 * The adapter of node:http. It serves the LAN's and the operator's listeners, the owner's page and the daemon's socket,
 * and hosts of a relay where uWebSockets.js does not load (another C library or platform).
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Connection, Connections } from './connections.ts';
import { type IncomingMessage, STATUS_CODES, type Server, type ServerResponse, createServer } from 'node:http';
import { type Server as TlsServer, createServer as createTlsServer } from 'node:https';
import {
  type BodySink,
  type Exchange,
  type ExchangeHandler,
  type HttpServer,
  IDLE_TIMEOUT_MS,
  type Listen,
  type Reply,
  type ReplyStream,
  type RequestHead,
} from './exchange.ts';
import { ListenFailed } from './listen-failed.ts';
import type { Tls } from './tls-files.ts';

/** The other adapter accepts as many. */
const HEADER_BYTES_MAX = 4096;
/** A head that has not come whole within this time ends its connection, however its bytes are spread over it. */
const HEAD_TIMEOUT_MS = 10_000;
/** That is looked at this often, at most. */
const TIMEOUT_CHECK_MS = 5_000;
/** The handler has its own deadlines; this one ends requests that never reach it. */
const REQUEST_TIMEOUT_MS = 120_000;
/** A request without traffic for this long ends with its connection; longer than any long poll. */
const SILENCE_TIMEOUT_MS = 60_000;

/** Replies are written in pieces of this size, to measure how fast the peer receives. */
const PIECE_BYTES = 64 << 10;

/** A peer that does not end its TLS handshake within this is cut off. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

export interface ServerLimits {
  /** Counts and limits the connections; absent: no limit. */
  connections?: Connections | undefined;
  /** A request may be without traffic for this time; 0: no limit. */
  silenceTimeoutMs?: number;
  /** A connection may be without a request for this time; 0: no limit. */
  idleTimeoutMs?: number;
  /** The head of a request may take this time. */
  headTimeoutMs?: number;
  /** Absent: without TLS. */
  tls?: Tls | undefined;
}

/** A server that passes its requests to `handler`. The caller makes it listen. */
export function exchangeServer(handler: ExchangeHandler, limits: ServerLimits = {}): Server | TlsServer {
  const { connections, silenceTimeoutMs = SILENCE_TIMEOUT_MS, headTimeoutMs = HEAD_TIMEOUT_MS, tls } = limits;
  const open = new WeakMap<Socket, Connection>();
  // A request that arrives before the one ahead of it is answered, or after a closing answer, is never served: after
  // invalid framing it may not be a request at all. The other adapter does the same.
  const current = new WeakMap<Socket, NodeExchange>();
  const options = {
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: headTimeoutMs,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: limits.idleTimeoutMs ?? IDLE_TIMEOUT_MS,
    connectionsCheckingInterval: Math.min(headTimeoutMs, TIMEOUT_CHECK_MS),
    joinDuplicateHeaders: false,
    // Node would answer a request without Host itself, and go on with the data after it. framing.ts refuses it.
    requireHostHeader: false,
  };
  const requested = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = request;
    const earlier = current.get(socket);
    if (earlier) {
      earlier.closeAfterwards();
      return;
    }
    const connection = open.get(socket);
    connection?.moved();
    const exchange = new NodeExchange(request, response, connection);
    current.set(socket, exchange);
    response.once('close', () => {
      connection?.settled();
      if (!exchange.closes) current.delete(socket);
    });
    if (isUpgrade(request)) exchange.closeAfterwards();
    handler(exchange);
  };
  const server = tls
    ? createTlsServer(
        { ...options, cert: tls.cert, key: tls.key, handshakeTimeout: HANDSHAKE_TIMEOUT_MS, minVersion: 'TLSv1.2' },
        requested,
      )
    : createServer(options, requested);
  // Node would answer an Expect that it does not know with a 417 of its own; a server may pass over it (RFC 9110,
  // 10.1.1).
  server.on('checkExpectation', requested);
  // Their bytes are limited. Node would leave headers out beyond a number of them, and framing.ts would not see those.
  server.maxHeadersCount = 0;
  if (connections) count(server, connections, open);
  server.setTimeout(silenceTimeoutMs);
  return server;
}

/** Counts each connection from the moment it is accepted on: over TLS before its handshake. */
function count(server: Server | TlsServer, connections: Connections, open: WeakMap<Socket, Connection>): void {
  const accepted = new Map<string, Connection>();
  server.on('connection', (socket: Socket) => {
    const connection = connections.opened(socket.remoteAddress ?? '', () => socket.destroy());
    const peer = peerOf(socket);
    open.set(socket, connection);
    accepted.set(peer, connection);
    socket.once('close', () => {
      connection.closed();
      if (accepted.get(peer) === connection) accepted.delete(peer);
    });
  });
  // Requests come on another socket then, which has the same peer.
  server.on('secureConnection', (socket: Socket) => {
    const connection = accepted.get(peerOf(socket));
    if (connection) open.set(socket, connection);
  });
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

export const listenNode: Listen = ({ host, port, handler, connections, tls }) =>
  new Promise<HttpServer>((resolve, reject) => {
    const server = exchangeServer(handler, { connections, tls });
    // `on`, not `once`: a connection that cannot be accepted also comes here, and unhandled it would end the process.
    server.on('error', (error: NodeJS.ErrnoException) => {
      reject(ListenFailed.at(host, port, error.code));
    });
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      resolve({
        name: `node:http ${process.versions.node}`,
        port: typeof address === 'object' && address ? address.port : port,
        stopAccepting: () => server.close(),
        renewTls: ({ cert, key }) => {
          if ('setSecureContext' in server) server.setSecureContext({ cert, key, minVersion: 'TLSv1.2' });
        },
        close: () => {
          server.close();
          server.closeAllConnections();
        },
      });
    });
  });

/**
 * Says whether the request asks for another protocol. It is answered in this one. Node drops what comes in the same
 * piece behind it and reads the next piece as a new request, which may be the middle of one: so the connection ends
 * with the answer.
 */
function isUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined;
}

/** The head of a request of node:http. */
function headOf(request: IncomingMessage): RequestHead {
  const headers: [string, string][] = [];
  const { rawHeaders } = request;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    headers.push([(rawHeaders[at] ?? '').toLowerCase(), rawHeaders[at + 1] ?? '']);
  }
  return {
    method: request.method ?? '',
    target: request.url ?? '',
    headers,
    peerAddress: request.socket.remoteAddress ?? '',
    calledAt: { host: request.socket.localAddress ?? '', port: request.socket.localPort ?? 0 },
  };
}

class NodeExchange implements Exchange, ReplyStream {
  readonly head: RequestHead;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #connection: Connection | undefined;
  #taken: ((bytes: number) => void) | undefined;
  #isAborted = false;
  #closes = false;
  readonly #abortListeners: (() => void)[] = [];

  constructor(request: IncomingMessage, response: ServerResponse, connection: Connection | undefined) {
    this.#request = request;
    this.#response = response;
    this.#connection = connection;
    this.head = headOf(request);
    response.on('close', () => {
      if (response.writableFinished || this.#isAborted) return;
      this.#isAborted = true;
      for (const listener of this.#abortListeners) listener();
    });
    // 'close' follows every error; but without a listener the error would end the process.
    request.on('error', () => undefined);
    response.on('error', () => undefined);
  }

  get isAborted(): boolean {
    return this.#isAborted;
  }

  /** Says whether this is the last exchange of its connection. */
  get closes(): boolean {
    return this.#closes;
  }

  closeAfterwards(): void {
    this.#closes = true;
    if (this.#response.writableEnded) this.#request.socket.destroySoon();
  }

  receive(sink: BodySink): void {
    this.#request.on('data', (chunk: Buffer) => {
      this.#connection?.moved();
      sink(chunk, false);
    });
    this.#request.on('end', () => sink(new Uint8Array(0), true));
  }

  onAborted(listener: () => void): void {
    this.#abortListeners.push(listener);
  }

  reply({ status, headers, body, close = false }: Reply): void {
    if (this.#isAborted || this.#response.headersSent) return;
    if (close) this.#closes = true;
    const connection = this.#closes ? { connection: 'close' } : {};
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    this.#response.writeHead(status, STATUS_CODES[status] ?? '', { ...headers, ...length, ...connection });
    this.#end(body);
  }

  startReply(status: number, headers: Readonly<Record<string, string>>, taken?: (bytes: number) => void): ReplyStream {
    this.#taken = taken;
    if (!this.#isAborted) this.#response.writeHead(status, STATUS_CODES[status] ?? '', headers);
    return this;
  }

  async write(chunk: Buffer): Promise<void> {
    for (let at = 0; at < chunk.length && !this.#isAborted; at += PIECE_BYTES) {
      const piece = chunk.subarray(at, at + PIECE_BYTES);
      // A copy: the socket may keep what it has not sent, while the chunk is used again.
      if (!this.#response.write(Buffer.from(piece))) await this.#drained();
      this.#taken?.(piece.length);
      this.#connection?.moved();
    }
  }

  end(): void {
    if (!this.#isAborted) this.#end('');
  }

  abort(): void {
    const { socket } = this.#request;
    // A reset also drops unsent data. Unix sockets have no reset, and Node refuses one over TLS.
    if (socket.remoteAddress === undefined || socket instanceof TLSSocket) socket.destroy();
    else socket.resetAndDestroy();
  }

  isOf(address: string): void {
    this.#connection?.named(address);
  }

  isProven(): void {
    this.#connection?.proven();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#response.off('drain', done);
        this.#response.off('close', done);
        resolve();
      };
      this.#response.on('drain', done);
      this.#response.on('close', done);
    });
  }

  /** A closing reply is sent completely; what the peer still sends is not read. */
  #end(body: Buffer | string): void {
    this.#response.end(body, () => {
      if (this.#closes) this.#request.socket.destroySoon();
    });
  }
}
