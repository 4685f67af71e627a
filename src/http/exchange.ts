/**
 * One request and its reply, as every HTTP server of ours shows it. The adapters (uws-connection.ts, server-node.ts) make
 * these; nothing else knows which server runs.
 */
import type { ProblemCode } from '../protocol/problem.ts';
import type { Connections } from './connections.ts';

export interface RequestHead {
  /** As sent: methods are case-sensitive. */
  method: string;
  /** Path and query, byte for byte as sent. */
  target: string;
  /** Every header line, names in lower case, in order. */
  headers: readonly (readonly [name: string, value: string])[];
  /** The peer of the connection: IPv4 or IPv6 text. */
  peerAddress: string;
}

export interface Reply {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: Buffer | string;
  /** Close the connection afterwards: what follows on it is not to be trusted or not to be read. */
  close?: boolean;
  /** What it refuses with, for logs and metrics. */
  problem?: ProblemCode;
}

/** Takes a request's body. A chunk's bytes are valid during the call only. */
export type BodySink = (chunk: Uint8Array, isLast: boolean) => void;

export interface Exchange {
  readonly head: RequestHead;
  /** Whether the connection is gone; replying is then without effect. */
  readonly isAborted: boolean;
  /** Directs the body to `sink`. To be called before the handler first yields. */
  receive(sink: BodySink): void;
  /** Calls `listener` once, when the connection goes before the reply is sent. */
  onAborted(listener: () => void): void;
  reply(reply: Reply): void;
  /**
   * Begins a reply whose body is written in pieces. `taken` is told of bytes that the peer took, as they go and at
   * least as many as are told of.
   */
  startReply(status: number, headers: Readonly<Record<string, string>>, taken?: (bytes: number) => void): ReplyStream;
  /** Cuts the connection. */
  abort(): void;
  /** The connection counts against the client at `address` while this exchange lasts: behind a proxy that is not the peer. */
  isOf(address: string): void;
  /** The request is proven to come from a host that we know. */
  isProven(): void;
}

export interface ReplyStream {
  /** Resolves when the peer has taken almost all of it, so that more may be written; also when the connection goes. */
  write(chunk: Buffer): Promise<void>;
  end(): void;
}

/** Begins to handle an exchange. Never throws. */
export type ExchangeHandler = (exchange: Exchange) => void;

export interface HttpServer {
  /** What serves, for the start line: name and version. */
  readonly name: string;
  readonly port: number;
  /** Takes no new connections; goes on with those it has. */
  stopAccepting(): void;
  /** Cuts every connection. */
  close(): void;
}

export interface ListenOptions {
  host: string;
  /** 0 takes a free one. */
  port: number;
  handler: ExchangeHandler;
  /** Counts and limits the connections; absent: nobody does. */
  connections?: Connections;
}

/** Thrown when the address cannot be had. */
export class ListenFailed extends Error {}

/** Starts a server. Throws `ListenFailed`. */
export type Listen = (options: ListenOptions) => Promise<HttpServer>;
