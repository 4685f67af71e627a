/**
 * The uWebSockets.js adapter: its server, the connections, and which exchange is on which of them.
 *
 * A throw in a handler, or a return without reply and without `onAborted`, ends the whole process (SIGABRT); so nothing
 * throws, every connection has an `onAborted` at all times, and nothing touches `res` after an abort or an end. Chunks
 * are neutered after the callback.
 *
 * uWebSockets.js reports a connection by a `res` when it opens and by another one with each request, and does not say
 * which belong together. What can be relied upon: a request's data, be it empty, is given at once to the `onData` of
 * its connection. So each connection waits with an `onData` of its own, and an exchange begins with the first call of
 * that.
 *
 * Invariants: every connection has its own `onAborted` at all times, set again in the very call that ended a reply (an
 * end takes it away), so that it is known when `res` is gone; and its own `onData` whenever a request may come (the
 * last chunk takes it away).
 *
 * A request whose framing leaves open whether there is any data (`isDoubtful`) cannot be joined to its connection. It
 * is refused in any case, and its reply ends with the connection; it is left alone when any connection without an
 * exchange of its address closes before, as that may be its own.
 */
import { type Connection, type Connections, connectionsOfAll } from '../../http/connections.ts';
import {
  type ExchangeHandler,
  type HttpServer,
  IDLE_TIMEOUT_MS,
  type Listen,
  type RequestHead,
} from '../../http/exchange.ts';
import { ListenFailed, whyNotListening } from '../../http/listen-failed.ts';
import { DoubtfulExchange, type ExchangeConnection, UwsExchange } from './uws-exchange.ts';
import { NotListening, type Tls } from '../../http/tls-files.ts';
import type { HttpRequest, HttpResponse, TemplatedApp, UwsBinding, us_listen_socket } from './uws-binding.ts';

/** A content length that both releases read. */
const PLAIN_LENGTH = /^[0-9]{1,9}$/;

/** uWebSockets.js closes an idle connection 8 to 12 s after its last answer or `resume`, whichever is later. */
const UWS_IDLE_MS = 8_000;

class UwsConnections {
  readonly #handler: ExchangeHandler;
  readonly #connections: Connections;
  /** The connections without an `onData`: their last request has come whole. */
  readonly #unarmed = new Set<UwsConnection>();
  #arriving: { res: HttpResponse; head: SentHead } | undefined;
  /** Requests of doubtful framing that are not answered yet. */
  readonly #doubtful = new Set<DoubtfulExchange>();
  #isClosingDoubtful = false;
  /** The connection of the reply that is just being ended. */
  #ending: UwsConnection | undefined;

  constructor(handler: ExchangeHandler, connections: Connections) {
    this.#handler = handler;
    this.#connections = connections;
  }

  opened(res: HttpResponse): void {
    const peerAddress = addressOf(res);
    const connection = new UwsConnection(res, peerAddress, this);
    connection.counted = this.#connections.opened(peerAddress, () => connection.close());
  }

  /** uWebSockets.js names no connection: for all but the one whose reply is being ended, `onAborted` follows. */
  closing(): void {
    if (this.#ending) this.#ending.gone();
  }

  requested(res: HttpResponse, req: HttpRequest): void {
    // A second request may have come in the same bytes as the one before.
    for (const connection of this.#unarmed) connection.awaitData();
    this.#unarmed.clear();
    const head = headOf(req);
    if (isDoubtful(head)) this.#refuse(res, wholeHead(head, addressOf(res)));
    else this.#arriving = { res, head };
  }

  #refuse(res: HttpResponse, head: RequestHead): void {
    const exchange = new DoubtfulExchange(res, head, (close) => {
      this.#doubtful.delete(exchange);
      this.#isClosingDoubtful = true;
      close();
      this.#isClosingDoubtful = false;
    });
    this.#doubtful.add(exchange);
    this.#handler(exchange);
  }

  /** The exchange that begins with data on `connection`; `undefined` for data that no exchange waits for. */
  begun(connection: UwsConnection): UwsExchange | undefined {
    const { res, head } = this.#arriving ?? {};
    this.#arriving = undefined;
    return res && head && new UwsExchange(res, wholeHead(head, connection.peerAddress), connection);
  }

  handle(exchange: UwsExchange): void {
    this.#handler(exchange);
  }

  /** Nothing more comes of the request on `connection`: its `onData` is gone. */
  hasData(connection: UwsConnection): void {
    this.#unarmed.add(connection);
  }

  /** Runs `end`, which ends the reply on `connection`. */
  ending(connection: UwsConnection, end: () => void): void {
    this.#ending = connection;
    end();
    this.#ending = undefined;
  }

  /** `peerAddress` of a connection that had no exchange. */
  gone(connection: UwsConnection, peerAddress: string | undefined): void {
    this.#unarmed.delete(connection);
    if (this.#isClosingDoubtful) return;
    for (const exchange of this.#doubtful) {
      if (exchange.head.peerAddress !== peerAddress) continue;
      this.#doubtful.delete(exchange);
      exchange.peerGone();
    }
  }
}

class UwsConnection implements ExchangeConnection {
  /** The connection as it is counted, from the moment on in which it is. */
  counted: Connection | undefined;
  readonly #res: HttpResponse;
  readonly peerAddress: string;
  readonly #all: UwsConnections;
  readonly #whenData = (chunk: ArrayBuffer, isLast: boolean): void => this.#data(new Uint8Array(chunk), isLast);
  readonly #whenAborted = (): void => this.gone();
  #exchange: UwsExchange | undefined;
  #isGone = false;
  /** Fires while the connection is idle, before uWebSockets.js would close it. */
  #idling: NodeJS.Timeout | undefined;

  constructor(res: HttpResponse, peerAddress: string, all: UwsConnections) {
    this.#res = res;
    this.peerAddress = peerAddress;
    this.#all = all;
    this.#awaitEnd();
    this.awaitData();
  }

  awaitData(): void {
    this.#res.onData(this.#whenData);
  }

  endReply(end: () => void): void {
    this.#exchange = undefined;
    this.#all.ending(this, end);
    if (this.#isGone) return;
    this.#awaitEnd();
    this.#idling = this.#idling?.refresh() ?? setTimeout(() => this.#stayOpen(), IDLE_TIMEOUT_MS - UWS_IDLE_MS).unref();
    this.counted?.settled();
  }

  #stayOpen(): void {
    if (!this.#exchange && !this.#isGone) this.#res.resume();
  }

  close(): void {
    if (!this.#isGone) this.#res.close();
  }

  /** It is closed: nothing may touch its `res` any more. */
  gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    clearTimeout(this.#idling);
    this.counted?.closed();
    this.#all.gone(this, this.#exchange ? undefined : this.peerAddress);
    this.#exchange?.peerGone();
  }

  #awaitEnd(): void {
    this.#res.onAborted(this.#whenAborted);
  }

  #data(chunk: Uint8Array, isLast: boolean): void {
    this.counted?.moved();
    if (isLast) this.#all.hasData(this);
    if (!this.#exchange) {
      this.#exchange = this.#all.begun(this);
      if (this.#exchange) this.#all.handle(this.#exchange);
    }
    this.#exchange?.bodyChunk(chunk, isLast);
  }
}

/** The head as the peer sent it. Its address takes a system call, and that of its connection is known. */
type SentHead = Omit<RequestHead, 'peerAddress'>;

function wholeHead({ method, target, headers }: SentHead, peerAddress: string): RequestHead {
  return { method, target, headers, peerAddress };
}

function headOf(req: HttpRequest): SentHead {
  const headers: [string, string][] = [];
  req.forEach((name, value) => headers.push([name, value]));
  const query = req.getQuery() as string | undefined;
  return {
    method: req.getCaseSensitiveMethod(),
    target: query === undefined ? req.getUrl() : `${req.getUrl()}?${query}`,
    headers,
  };
}

function addressOf(res: HttpResponse): string {
  return Buffer.from(res.getRemoteAddressAsText()).toString('latin1');
}

/** True when its data may come later than its head, or never. framing.ts refuses every such request. */
function isDoubtful({ headers }: SentHead): boolean {
  return headers.some(
    ([name, value]) => name === 'transfer-encoding' || (name === 'content-length' && !PLAIN_LENGTH.test(value)),
  );
}

export function listenUws({ uws, version }: UwsBinding): Listen {
  return async ({ host, port, handler, connections, tls }): Promise<HttpServer> => {
    const open = new UwsConnections(handler, connections ?? connectionsOfAll(Infinity));
    const first = uwsApp(uws, open, tls);
    const apps = [first];
    let socket = listening(uws, first, host, port);
    if (!socket) throw ListenFailed.at(host, port, await whyNotListening(host, port));
    const ownPort = uws.us_socket_local_port(socket);
    if (tls && port === 0) {
      // Only a port that was asked for can be listened on again while connections to it are open.
      uws.us_listen_socket_close(socket);
      socket = listening(uws, first, host, ownPort);
    }
    let isStopped = false;
    const stopListening = (): void => {
      if (socket) uws.us_listen_socket_close(socket);
      socket = false;
    };
    return {
      name: `uWebSockets.js ${version}`,
      port: ownPort,
      stopAccepting: () => {
        isStopped = true;
        stopListening();
      },
      renewTls: (renewed) => {
        if (isStopped) return;
        const [before = first] = apps.slice(-1);
        const app = uwsApp(uws, open, renewed);
        stopListening();
        // In the same turn of the event loop: nobody else gets the port in between.
        socket = listening(uws, app, host, ownPort);
        if (socket) {
          apps.push(app);
          return;
        }
        app.close();
        socket = listening(uws, before, host, ownPort);
        if (socket) throw new Error(`${host}:${ownPort} cannot be listened on with it`);
        throw new NotListening(`${host}:${ownPort} cannot be listened on again`);
      },
      close: () => {
        isStopped = true;
        stopListening();
        // After the replies that wait for their turn, see `UwsExchange.reply`.
        setImmediate(() => {
          for (const app of apps) app.close();
        });
      },
    };
  };
}

/** Refuses a port that another process has, instead of sharing it. The callback comes before `listen` returns. */
function listening(uws: UwsBinding['uws'], app: TemplatedApp, host: string, port: number): us_listen_socket | false {
  let socket: us_listen_socket | false = false;
  app.listen(host, port, uws.LIBUS_LISTEN_EXCLUSIVE_PORT, (found) => void (socket = found));
  return socket;
}

/** uWebSockets.js reads the files itself. Throws where it cannot use them. */
function uwsApp(uws: UwsBinding['uws'], open: UwsConnections, tls: Tls | undefined): TemplatedApp {
  const app = tls ? uws.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile }) : uws.App();
  app.filter((res, count) => {
    if (Number(count) > 0) open.opened(res);
    else open.closing();
  });
  app.any('/*', (res, req) => open.requested(res, req));
  return app;
}
