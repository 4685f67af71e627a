/** What a route is, what the handler gives it, and what routes share: query parameters, replies to refused requests. */
import type { Reply, Exchange } from '../../http/exchange.ts';
import type { Body } from '../../http/body.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import { problemReply } from '../../http/replies.ts';
import type { Refusal } from '../core/decision.ts';

export interface RelayRequest {
  exchange: Exchange;
  /** The request id, for replies that the route writes itself. */
  id: string;
  /** What follows `?`; `undefined` without one. */
  query: string | undefined;
  body: Body;
  /** The client's address or network, for rates and challenges. */
  clientAddress: string;
  nowMs: number;
}

export interface HopRelayRequest extends RelayRequest {
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
export interface OpenRoute extends RouteBase {
  access: 'open';
  counted: CountedForAddresses | undefined;
  handle: (request: RelayRequest) => RouteResult | Promise<RouteResult>;
}

/** Anybody may call it; a signed hop, if there is a good one, is shown. */
interface OptionalHopRoute extends RouteBase {
  access: 'optional hop';
  handle: (request: RelayRequest, caller: EnrolmentRow | undefined) => RouteResult | Promise<RouteResult>;
}

/** Only an enrolled host may call it. */
interface HopRoute extends RouteBase {
  access: 'hop';
  counted: CountedForHosts | undefined;
  handle: (request: HopRelayRequest) => RouteResult | Promise<RouteResult>;
}

export type Route = OpenRoute | OptionalHopRoute | HopRoute;

/** The value of a parameter that is there exactly once. */
export function onlyParameter(query: string | undefined, name: string): string | undefined {
  const values = new URLSearchParams(query ?? '').getAll(name);
  return values.length === 1 ? values[0] : undefined;
}

export function isRepeated(query: string | undefined, name: string): boolean {
  return new URLSearchParams(query ?? '').getAll(name).length > 1;
}

/** A whole number of at most 16 digits, sign and fraction left out. */
export function wholeNumber(text: string): number | undefined {
  if (!/^[0-9]{1,16}$/.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

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
