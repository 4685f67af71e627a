/** Enrolment by hand: the challenge and the signed claims of docs/protocol.md, each part of which may be wrong. */
import { canonicalize } from 'json-canonicalize';
import type { HttpRelay } from './http-relay.ts';
import { type TestHost, relay as relayHost } from './hosts.ts';
import { jsonOf } from './problems.ts';
import { type RawResponse, rawRequest, requestBytes } from './raw-http.ts';

type Headers = Readonly<Record<string, string>>;

export function postJson(relay: HttpRelay, path: string, body: unknown, headers: Headers = {}): Promise<RawResponse> {
  return rawRequest(relay.port, requestBytes('POST', path, headers, JSON.stringify(body)));
}

export function askChallenge(relay: HttpRelay, host: TestHost, headers: Headers = {}): Promise<RawResponse> {
  return postJson(relay, '/v1/relay/challenge', { pubkey: host.key }, headers);
}

/** A challenge that is now open for `host`. */
export async function openChallenge(relay: HttpRelay, host: TestHost): Promise<string> {
  const response = await askChallenge(relay, host);
  if (response.status !== 200) throw new Error(`no challenge: ${response.body.toString()}`);
  return jsonOf(response)['challenge'] as string;
}

export interface EnrolChanges {
  /** Signed instead of what is sent. */
  signed?: Readonly<Record<string, unknown>>;
  /** Sent instead of what is signed. */
  sent?: Readonly<Record<string, unknown>>;
  signer?: TestHost;
}

/** The body of an enrolment of `host` with `challenge`. */
export function enrolBody(host: TestHost, challenge: string, changes: EnrolChanges = {}): Record<string, unknown> {
  const { name, key } = host;
  const claim = {
    v: 1,
    type: 'relay-enrol',
    challenge,
    relay_pubkey: relayHost.key,
    host: name,
    pubkey: key,
    owner_fp: 'owner-1',
    ...changes.signed,
  };
  const sig = (changes.signer ?? host).signer.sign(Buffer.from(canonicalize(claim)));
  return { host: name, pubkey: key, owner_fp: 'owner-1', sig, ...changes.sent };
}

export function sendEnrol(
  relay: HttpRelay,
  body: Record<string, unknown>,
  headers: Headers = {},
): Promise<RawResponse> {
  return postJson(relay, '/v1/relay/enrol', body, headers);
}

/** Enrols `host` from challenge to answer. */
export async function enrolHost(relay: HttpRelay, host: TestHost, changes: EnrolChanges = {}): Promise<RawResponse> {
  return sendEnrol(relay, enrolBody(host, await openChallenge(relay, host), changes));
}
