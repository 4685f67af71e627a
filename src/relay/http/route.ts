/** What a route is, what the handler gives it, and what routes share: replies to refused requests. */
import type { Reply, Exchange } from '../../http/exchange.ts';
import type { Body } from '../../http/body.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import { problemReply } from '../../http/replies.ts';
import type { Refusal } from '../core/decision.ts';

/** The part of a target behind `?`; `undefined` without one. */
export type RawQuery = string | undefined;

export interface RelayRequest<Query = unknown> {
  exchange: Exchange;
  /** The request id, for replies that the route writes itself. */
  id: string;
  /** To a route as it came; to an operation as its schema has it. */
  query: Query;
  body: Body;
  /** The client's address or network, for rates and challenges. */
  clientAddress: string;
  nowMs: number;
}

export interface HopRelayRequest<Query = unknown> extends RelayRequest<Query> {
  caller: EnrolmentRow;
}

/** A reply, or `streamed` when the route writes it piece by piece itself. */
export type RouteResult = Reply | 'streamed';

/** What requests are counted as, each against a limit of its own; `work` against the budget of work. */
export type CountedAs = 'challenge' | 'enrol' | 'rotate' | 'deny' | 'push' | 'senders' | 'encKey' | 'log' | 'work';
/** What is counted for each host; everything else is counted for each client address. */
export type CountedForHosts = 'push' | 'senders' | 'encKey' | 'work';
export type CountedForAddresses = Exclude<CountedAs, CountedForHosts>;

interface RouteBase {
  method: 'GET' | 'POST';
  path: string;
  bodyBytesMax: number;
  /** Whether it is refused while the disk is almost full. */
  fillsDisk?: true;
}

/** Anybody may call it; `counted` routes are counted per client address. */
interface OpenRoute extends RouteBase {
  access: 'open';
  counted: CountedForAddresses | undefined;
  handle: (request: RelayRequest<RawQuery>) => RouteResult | Promise<RouteResult>;
}

/** Anybody may call it; a signed hop, if there is a good one, is shown. */
interface OptionalHopRoute extends RouteBase {
  access: 'optional hop';
  handle: (request: RelayRequest<RawQuery>, caller: EnrolmentRow | undefined) => RouteResult | Promise<RouteResult>;
}

/** Only an enrolled host may call it. */
interface HopRoute extends RouteBase {
  access: 'hop';
  counted: CountedForHosts | undefined;
  handle: (request: HopRelayRequest<RawQuery>) => RouteResult | Promise<RouteResult>;
}

export type Route = OpenRoute | OptionalHopRoute | HopRoute;

export function refusalReply({ code, detail, members }: Refusal): Reply {
  return problemReply(code, detail, { members });
}

export function authorityUnavailable(): Reply {
  return problemReply('AUTHORITY_UNAVAILABLE', 'the authority of this relay cannot be asked now');
}

/** A well-encoded key whose point must not be enrolled or rotated to. */
export function unacceptablePoint(): Reply {
  return problemReply('ENROL_REFUSED', 'the key is not an acceptable Ed25519 point', {
    members: { reason: 'bad key' },
  });
}
