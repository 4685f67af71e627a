/**
 * Reads a deny entry out of a Security Event Token (RFC 8417) that the issuer pushed.
 *
 * - `typ` must be `secevent+jwt`.
 * - A token may be delivered again, by the issuer or by a third party that saw it: the entry it makes is the same, and
 *   its time to stand begins anew. Were it good for ever, it could keep out hosts that the issuer let in again later.
 *   So it is taken for a day after `iat`, as long as an entry stands; one that took longer is to be issued anew.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import { isObject } from '../../protocol/json-object.ts';
import { DENY_KEPT_MS } from '../../protocol/limits.ts';
import type { DenySelectors } from '../core/rows.ts';
import { type Issuer, type JwtRefused, type TokenKind, isName, jwtRefused } from './issuer.ts';

export const DENY_EVENT = 'urn:mail-relay:deny';
const SECURITY_EVENT: TokenKind = { name: 'security event token', types: ['secevent+jwt'] };
const HOST_FP_PATTERN = /^[0-9a-f]{64}$/;
const REASON_CHARACTERS_MAX = 256;

interface DenyEvent extends DenySelectors {
  type: 'DenyEvent';
  reason: string;
}

export async function readDenyEvent(token: string, issuer: Issuer, nowMs: number): Promise<DenyEvent | JwtRefused> {
  const jwt = await issuer.verify(token, SECURITY_EVENT);
  if (jwt.type === 'JwtRefused') return jwt;
  if (nowMs - jwt.iatMs >= DENY_KEPT_MS) {
    return jwtRefused('claims', 'the token was issued more than a day ago: issue it anew');
  }
  const { events } = jwt.claims;
  const deny = isObject(events) && Object.keys(events).length === 1 ? events[DENY_EVENT] : undefined;
  return denyEvent(deny) ?? jwtRefused('form', `the token does not hold one event, ${DENY_EVENT}, with a selector`);
}

/** `undefined` unless some selector is set and all set ones are valid: an entry without any would match every host. */
function denyEvent(event: unknown): DenyEvent | undefined {
  if (!isObject(event)) return undefined;
  const { host_fp: hostFp, client_id: clientId, account, org, reason } = event;
  const selectors = [hostFp, clientId, account, org];
  const isEachOne = selectors.every((selector) => selector === undefined || isName(selector));
  if (!isEachOne || selectors.every((selector) => selector === undefined)) return undefined;
  if (hostFp !== undefined && !HOST_FP_PATTERN.test(hostFp as string)) return undefined;
  if (typeof reason !== 'string') return undefined;
  return {
    type: 'DenyEvent',
    hostFp: (hostFp as Sha256Hex | undefined) ?? null,
    clientId: (clientId as string | undefined) ?? null,
    account: (account as string | undefined) ?? null,
    org: (org as string | undefined) ?? null,
    // For people; however long it is, the entry counts.
    reason: reason.slice(0, REASON_CHARACTERS_MAX).toWellFormed(),
  };
}
