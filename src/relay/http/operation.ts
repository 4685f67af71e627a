/**
 * An operation: its description, for the OpenAPI document and for the tests that hold each answer to it; and, of those
 * of hosts, what does it. So an operation without a handler, or a handler without a description, does not compile.
 */
import Type, { type Static, type TObject, type TSchema } from 'typebox';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { Clock, Timers } from '../../lib/clock.ts';
import type { Authority } from '../auth/authority.ts';
import type { Challenges } from '../auth/challenges.ts';
import type { InspectedKeys } from '../auth/inspected-keys.ts';
import type { Issuer } from '../auth/issuer.ts';
import type { SignatureThread } from '../auth/signature-thread.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { queryParserOf } from '../../http/query.ts';
import { problemReply } from '../../http/replies.ts';
import type { Reply } from '../../http/exchange.ts';
import type { PageWriter } from './page-writer.ts';
import type { WorkBudget } from './work-budget.ts';
import type {
  CountedForAddresses,
  CountedForHosts,
  HopRelayRequest,
  RawQuery,
  RelayRequest,
  Route,
  RouteResult,
} from './route.ts';

/** Where an operation is answered: to hosts, or to the operator alone. */
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
  /** Of the body; absent when the answer has none. */
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
  /** JSON unless a content type says otherwise. */
  request?: { schema: TSchema; contentType?: string };
  successes: readonly Success[];
  /** The problems of this operation, besides those that every operation of its access may answer. */
  problems: readonly ProblemCode[];
  /** Only a relay whose authority is an account service has it. */
  isHostedOnly?: true;
}

export function ok(schema: TSchema, description: string): Success {
  return { status: 200, schema, description };
}

export function text(contentType: string, description: string): Success {
  return { status: 200, contentType, schema: Type.String(), description };
}

/** What the operations of hosts work with. */
export interface RelayParts {
  engine: Engine;
  relayPubkey: PublicKey;
  signatures: SignatureThread;
  challenges: Challenges;
  keys: InspectedKeys;
  authority: Authority;
  issuer: Issuer | undefined;
  pageWriter: PageWriter;
  work: WorkBudget;
  newEpoch: () => Epoch;
  clock: Clock;
  timers: Timers;
  monotonicMs: () => number;
  version: string;
  bodyBytesMax: number;
}

type Handling = RouteResult | Promise<RouteResult>;

/** The query that `handle` gets. Of any schema it is nothing that can be used: so every operation is one of any. */
export type Asked<Shape extends TObject> = TObject extends Shape ? never : Static<Shape>;

export type HostOperation<Shape extends TObject = TObject> = Omit<Operation, 'listener' | 'query'> & {
  query?: Shape;
  /** Whether `SMALL_BODY_BYTES_MAX` bounds the body. */
  hasSmallBody?: true;
  /** Whether it is refused while the disk is almost full. */
  fillsDisk?: true;
} & (
    | {
        access: 'open';
        counted: CountedForAddresses;
        handle: (request: RelayRequest<Asked<Shape>>, parts: RelayParts) => Handling;
      }
    | {
        access: 'optional hop';
        handle: (request: RelayRequest<Asked<Shape>>, parts: RelayParts, caller: EnrolmentRow | undefined) => Handling;
      }
    | {
        access: 'hop by key' | 'hop by key or name';
        counted?: CountedForHosts;
        handle: (request: HopRelayRequest<Asked<Shape>>, parts: RelayParts) => Handling;
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

/** The route of an operation, in a relay of these parts. */
export function routeOf(operation: HostOperation, parts: RelayParts): Route {
  const { method, path, hasSmallBody, fillsDisk } = operation;
  const bodyBytesMax = hasSmallBody ? SMALL_BODY_BYTES_MAX : parts.bodyBytesMax;
  const shared = { method, path, bodyBytesMax, ...(fillsDisk && { fillsDisk }) };
  const asked = queriesOf(operation.query);
  switch (operation.access) {
    case 'open':
      return {
        ...shared,
        access: 'open',
        counted: operation.counted,
        handle: (request) => asked(request.query, (query) => operation.handle({ ...request, query }, parts)),
      };
    case 'optional hop':
      return {
        ...shared,
        access: 'optional hop',
        handle: (request, caller) =>
          asked(request.query, (query) => operation.handle({ ...request, query }, parts, caller)),
      };
    default:
      return {
        ...shared,
        access: 'hop',
        counted: operation.counted,
        handle: (request) => asked(request.query, (query) => operation.handle({ ...request, query }, parts)),
      };
  }
}
