/**
 * An operation: its description, for the OpenAPI document and for the tests that hold each answer to it; and, of those
 * of hosts, what does it. So an operation without a handler, or a handler without a description, does not compile. Its
 * route is what handler.ts calls. Problems are JSON, also where the answer has two forms.
 */
import Type, { type Static, type TObject, type TSchema } from 'typebox';
import { BINARY_TYPE, type Packable, packedBytes, readMessagePack } from '../../protocol/message-pack.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/json.ts';
import type { Epoch } from '../../protocol/names.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import type { Body } from '../../http/framing.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import type { RouteResult } from '../../http/pipeline.ts';
import { queryParserOf } from '../../http/query.ts';
import { problemReply } from '../../http/replies.ts';
import type { Authority } from '../auth/authority.ts';
import type { Challenges } from '../auth/challenges.ts';
import type { InspectedKeys } from '../auth/inspected-keys.ts';
import type { Issuer } from '../auth/issuer.ts';
import type { Signatures } from '../auth/signature-thread.ts';
import type { Refusal } from '../core/decision.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import type { PageWriter } from './page-writer.ts';
import type { WorkBudget } from './work-budget.ts';

/** The listener that answers an operation: that of hosts, or that of the operator alone. */
export type Listener = 'relay' | 'operator';

/**
 * `hop by key or name`: the earlier protocol finds callers by name too. Of the console: its page needs the address of
 * the listener, the entry a one-time token, the rest a session.
 */
export type Access =
  | 'open'
  | 'optional hop'
  | 'hop by key'
  | 'hop by key or name'
  | 'console page'
  | 'console entry'
  | 'console read'
  | 'console action';

/** An answer that is no problem document of the protocol. */
export interface Success {
  status: 200 | 202 | 308 | 401 | 403 | 404 | 409 | 429 | 500 | 503;
  /** The schema of the body; absent when the answer has none. */
  schema?: TSchema;
  /** JSON unless it says otherwise. */
  contentType?: string;
  description: string;
}

export interface Operation {
  /** The name of the operation, for generated clients. */
  id: string;
  method: 'GET' | 'POST';
  path: string;
  listener: Listener;
  access: Access;
  summary: string;
  query?: TObject;
  /** The headers besides those of the hop. */
  headers?: TObject;
  /** JSON unless a content type says otherwise; `inBinary` where the binary form is taken too. */
  request?: { schema: TSchema; contentType?: string; inBinary?: TSchema };
  successes: readonly Success[];
  /** The problems of this operation, besides those that every operation of its access may answer. */
  problems: readonly ProblemCode[];
  /** Only a relay whose authority is an account service has it. */
  isHostedOnly?: true;
  /** True when nothing on the way may keep an answer: it has `cache-control: no-store`. */
  isNeverStored?: boolean;
}

export function ok(schema: TSchema, description: string): Success {
  return { status: 200, schema, description };
}

/** The same answer in the binary form. */
export function okInBinary(schema: TSchema): Success {
  return { status: 200, schema, contentType: BINARY_TYPE, description: 'the same in the binary form' };
}

export function text(contentType: string, description: string): Success {
  return { status: 200, contentType, schema: Type.String(), description };
}

/** The parts with which the operations of hosts work. */
export interface RelayParts {
  engine: Engine;
  relayPubkey: PublicKey;
  signatures: Signatures;
  challenges: Challenges;
  keys: InspectedKeys;
  authority: Authority;
  issuer: Issuer | undefined;
  pageWriter: PageWriter;
  work: WorkBudget;
  randomBytes: RandomBytes;
  /** Ends an epoch that a signed checkpoint contradicts, once. Resolves with the epoch that is current then. */
  endEpoch: (contradicted: Epoch) => Promise<Epoch>;
  clock: Clock;
  timers: Timers;
  version: string;
  bodyBytesMax: number;
}

/** The part of a target behind `?`; `undefined` without one. */
export type RawQuery = string | undefined;

export interface RelayRequest<Query = unknown> {
  exchange: Exchange;
  /** The request id, for replies that the route writes itself. */
  id: string;
  /** The query: to a route as it came, to an operation as its schema has it. */
  query: Query;
  body: Body;
  /** The client's address or network, for rates and challenges. */
  clientAddress: string;
  nowMs: number;
}

/** A request with the host whose good hop it has, if it has one. */
export interface MaybeHopRequest<Query = unknown> extends RelayRequest<Query> {
  caller: EnrolmentRow | undefined;
}

export interface HopRelayRequest<Query = unknown> extends RelayRequest<Query> {
  caller: EnrolmentRow;
}

/** The kinds by which requests are counted, each against a limit of its own; `work` against the budget of work. */
export type CountedAs = 'challenge' | 'enrol' | 'rotate' | 'deny' | 'push' | 'senders' | 'encKey' | 'log' | 'work';
/**
 * The kinds that are counted for each host. `log` is so where there is a hop, and else for the client address and for
 * all strangers together; all others are counted for each client address.
 */
type CountedForHosts = 'push' | 'senders' | 'encKey' | 'work';

type Handle<Request> = (request: Request, parts: RelayParts) => RouteResult | Promise<RouteResult>;

/** The query that `handle` gets. Of any schema it is nothing that can be used: so every operation is one of any. */
export type QueryOf<Shape extends TObject> = TObject extends Shape ? never : Static<Shape>;

export type HostOperation<Shape extends TObject = TObject> = Omit<Operation, 'listener' | 'query'> & {
  query?: Shape;
  /** True when `SMALL_BODY_BYTES_MAX` bounds the body. */
  hasSmallBody?: true;
  /** True when the operation is refused while the disk is almost full. */
  fillsDisk?: true;
} & (
    | {
        access: 'open';
        counted: Exclude<CountedAs, CountedForHosts | 'log'>;
        handle: Handle<RelayRequest<QueryOf<Shape>>>;
      }
    | { access: 'optional hop'; counted?: 'log'; handle: Handle<MaybeHopRequest<QueryOf<Shape>>> }
    | {
        access: 'hop by key' | 'hop by key or name';
        counted?: CountedForHosts | 'log';
        handle: Handle<HopRelayRequest<QueryOf<Shape>>>;
      }
  );

/** Compiles what an operation does with a query: it answers with its value, or refuses what is not in its schema. */
export function queriesOf(
  shape: TObject | undefined,
): <Result>(query: RawQuery, answer: (query: never) => Result) => Result | Reply {
  const parse = shape && queryParserOf(shape);
  return (query, answer) => {
    const value = parse?.(query);
    return typeof value === 'string' ? problemReply('BAD_REQUEST', value) : answer(value as never);
  };
}

/** Compiles a parser of JSON bodies; it returns `undefined` for a body that is not in the schema. */
export function bodyParserOf<Shape extends TSchema>(shape: Shape): (body: Body) => Static<Shape> | undefined {
  const parse = parserOf(shape);
  return ({ bytes }) => parse(parseJsonBounded(bytes, REQUEST_JSON_BOUNDS));
}

/** An operation in a relay. Anybody may call it, a good hop is shown to it, or only an enrolled host may call it. */
export interface Route {
  method: 'GET' | 'POST';
  path: string;
  bodyBytesMax: number;
  fillsDisk: boolean;
  isNeverStored: boolean;
  access: 'open' | 'optional hop' | 'hop';
  counted: CountedAs | undefined;
  handle: (request: MaybeHopRequest<RawQuery>) => RouteResult | Promise<RouteResult>;
}

/** The route of an operation, in a relay of these parts. A route of access `hop` is called with a caller alone. */
export function routeOf(operation: HostOperation, parts: RelayParts): Route {
  const { method, path, access, counted, hasSmallBody = false, fillsDisk = false, isNeverStored = false } = operation;
  const asked = queriesOf(operation.query);
  const handle = operation.handle as Handle<MaybeHopRequest>;
  return {
    method,
    path,
    bodyBytesMax: hasSmallBody ? SMALL_BODY_BYTES_MAX : parts.bodyBytesMax,
    fillsDisk,
    isNeverStored,
    access: access === 'open' || access === 'optional hop' ? access : 'hop',
    counted,
    handle: (request) => asked(request.query, (query) => handle({ ...request, query }, parts)),
  };
}

export function refusalReply({ code, detail, members }: Refusal): Reply {
  return problemReply(code, detail, { members });
}

/** A push, a pull or an ack: its headers say whether its body and its answer are JSON or in the binary form. */
type FormRequest = Pick<RelayRequest, 'exchange' | 'body'>;

export function hasBinaryBody({ exchange }: FormRequest): boolean {
  const type = exchange.head.headers.findLast(([name]) => name === 'content-type')?.[1];
  return type?.trim().toLowerCase() === BINARY_TYPE;
}

/** Says whether `accept` names the binary form itself, and not with a weight of 0. */
export function takesBinary({ exchange }: Pick<FormRequest, 'exchange'>): boolean {
  const ranges = exchange.head.headers.flatMap(([name, value]) => (name === 'accept' ? value.split(',') : []));
  return ranges.some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    // The form itself has no parameters, so each is a weight.
    return type === BINARY_TYPE && parameters.every((one) => one.startsWith('q=') && Number(one.slice(2)) > 0);
  });
}

/** Compiles a parser of bodies in both forms; it returns `undefined` for a body that is not in the schema. */
export function formParserOf<Shape extends TSchema>(
  shape: Shape,
  readBinary = (bytes: Buffer): unknown => readMessagePack(bytes, REQUEST_JSON_BOUNDS),
): (request: FormRequest) => Static<Shape> | undefined {
  const parse = parserOf(shape);
  return (request) => {
    const { bytes } = request.body;
    return parse(hasBinaryBody(request) ? readBinary(bytes) : parseJsonBounded(bytes, REQUEST_JSON_BOUNDS));
  };
}

/** The headers of an answer in the binary form, or in JSON. */
export function formHeaders(isBinary: boolean): Readonly<Record<string, string>> {
  return { 'content-type': isBinary ? BINARY_TYPE : 'application/json', vary: 'accept' };
}

/** Answers with a value that both forms have alike. */
export function formReply(request: FormRequest, value: Packable): Reply {
  const isBinary = takesBinary(request);
  const body = isBinary ? packedBytes(value) : JSON.stringify(value);
  return { status: 200, headers: formHeaders(isBinary), body };
}
