/**
 * One request and its reply: the interface of all our HTTP servers. Only the adapters (uws-connection.ts,
 * server-node.ts) know which server runs.
 */
import type { Tls } from './tls-files.ts';
import type { ProblemCode } from '../protocol/problem.ts';
import type { Connections } from './connections.ts';

/**
 * No server of ours closes a connection that has been idle for less. Proxies are told less, or a request goes out on a
 * connection that is just being closed and is lost.
 */
export const IDLE_TIMEOUT_MS = 12_000;

export interface RequestHead {
  /** The method as sent, which is case-sensitive. */
  method: string;
  /** Path and query, byte for byte as sent. */
  target: string;
  /** Every header line, names in lower case, in order. */
  headers: readonly (readonly [name: string, value: string])[];
  /** The peer of the connection: IPv4 or IPv6 text. */
  peerAddress: string;
  /** This end of the connection, where the server names it. */
  calledAt?: { host: string; port: number };
}

export interface Reply {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: Buffer | string;
  /** Close the connection afterwards: further data on it cannot be trusted, or shall not be read. */
  close?: boolean;
  /** The code of the refusal, for logs and metrics. */
  problem?: ProblemCode;
}

/** Receives a request's body. The bytes of a chunk are valid only during the call. */
export type BodySink = (chunk: Uint8Array, isLast: boolean) => void;

export interface Exchange {
  readonly head: RequestHead;
  /** Says whether the connection is gone; then a reply has no effect. */
  readonly isAborted: boolean;
  /** Directs the body to `sink`. Call it before the handler first yields. */
  receive(sink: BodySink): void;
  /** Calls `listener` once if the connection ends before the reply is sent. */
  onAborted(listener: () => void): void;
  reply(reply: Reply): void;
  /**
   * Begins a reply whose body is written in pieces. `taken` is called as the peer receives bytes, with at most as many
   * as it has really received.
   */
  startReply(status: number, headers: Readonly<Record<string, string>>, taken?: (bytes: number) => void): ReplyStream;
  /** Cuts the connection at once. */
  abort(): void;
  /**
   * Counts the connection against the client at `address` during this exchange. Behind a proxy that is not the peer.
   */
  isOf(address: string): void;
  /** Call this when the request is proven to come from a known host. */
  isProven(): void;
}

export interface ReplyStream {
  /**
   * Resolves when the peer has received almost all of it, so that more may be written, or when the connection ends.
   * From then on nothing reads the chunk any more.
   */
  write(chunk: Buffer): Promise<void>;
  end(): void;
}

/** Starts to handle an exchange. Never throws. */
export type ExchangeHandler = (exchange: Exchange) => void;

export interface HttpServer {
  /** Name and version of the server, for the start message. */
  readonly name: string;
  readonly port: number;
  /** Accepts no new connections; the open ones go on. */
  stopAccepting(): void;
  /**
   * New connections get this certificate; of a server that was started with one. When it throws, they get the one
   * before; or there are none (`NotListening`), until it is called again.
   */
  renewTls(tls: Tls): void;
  /** Cuts every connection. */
  close(): void;
}

export interface ListenOptions {
  host: string;
  /** 0 picks a free port. */
  port: number;
  handler: ExchangeHandler;
  /** Counts and limits the connections; absent: no limit. */
  connections?: Connections;
  /** Absent: without TLS. */
  tls?: Tls | undefined;
}

/** Starts a server. Throws `ListenFailed`. */
export type Listen = (options: ListenOptions) => Promise<HttpServer>;
