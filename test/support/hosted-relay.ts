/** A hosted relay in this process with its issuer beside it. */
import type { IssuerSettings } from '../../src/relay/auth/issuer.ts';
import type { Adapter } from './adapters.ts';
import { enrolHost } from './enrolments.ts';
import { type HttpRelay, type HttpRelayChanges, relayForTest } from './http-relay.ts';
import type { TestHost } from './hosts.ts';
import { type LocalIssuer, type TokenChanges, denyToken, issuerForTest, proofOf } from './local-issuer.ts';
import { type RawResponse, rawRequest, requestBytes } from './raw-http.ts';

export interface HostedRelay {
  relay: HttpRelay;
  issuer: LocalIssuer;
}

/** For one test; call it inside. */
export async function hostedRelayForTest(
  adapter: Adapter,
  changes: Omit<HttpRelayChanges, 'issuer'> & { issuer?: Partial<IssuerSettings> } = {},
): Promise<HostedRelay> {
  const issuer = await issuerForTest();
  const settings = { ...issuer.settings, ...changes.issuer };
  return { issuer, relay: await relayForTest(adapter, { ...changes, issuer: settings }) };
}

/** Enrols `host` with a token of 15 minutes. */
export async function enrolWithToken(
  { relay, issuer }: HostedRelay,
  host: TestHost,
  claims: TokenChanges['claims'] = {},
  ownerFp = 'owner-1',
): Promise<RawResponse> {
  const proof = await proofOf(issuer.url, host, { nowMs: relay.clock.nowMs(), claims });
  return enrolHost(relay, host, { signed: { owner_fp: ownerFp }, sent: { proof, owner_fp: ownerFp } });
}

/** Enrols each host, and throws when it is refused. */
export async function enrolAll(
  hosted: HostedRelay,
  hosts: readonly TestHost[],
  claims: TokenChanges['claims'] = {},
): Promise<void> {
  for (const host of hosts) {
    const response = await enrolWithToken(hosted, host, claims);
    if (response.status !== 200) throw new Error(`${host.name}: ${response.body.toString()}`);
  }
}

/** Posts the body as a security event token, with these headers over the usual ones. */
export function postDeny(
  { relay }: HostedRelay,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawResponse> {
  const all = { 'content-type': 'application/secevent+jwt', ...headers };
  return rawRequest(relay.port, requestBytes('POST', '/v2/relay/deny', all, body));
}

/** Denies whom `event` selects. */
export async function deny(hosted: HostedRelay, event: Readonly<Record<string, unknown>>): Promise<RawResponse> {
  const nowMs = hosted.relay.clock.nowMs();
  return postDeny(hosted, await denyToken(hosted.issuer.url, event, { nowMs }));
}
