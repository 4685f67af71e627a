/**
 * The routes of what a host publishes. `POST /v2/relay/senders`: whose mail the caller takes from now on. `POST
 * /v1/relay/enc-key`, `GET /v1/relay/enc-key?host=` and `GET /v2/relay/enc-key?key=`: the keys that mail is sealed to.
 * The relay shows what the host signed; a reader decides whether to trust it, by the host key that it pinned.
 */
import type { Static } from 'typebox';
import { decodeBase64 } from '../../protocol/encodings.ts';
import { encKeyAdvertisement, isDocumentSigned } from '../../protocol/documents.ts';
import { EncKeyByKeyQuery, EncKeyByNameQuery } from '../../protocol/parameters.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { EncKeyPublished, EncKeyShown, SendersResponse } from '../../protocol/responses.ts';
import { EncKeyRequest, SendersRequest } from '../../protocol/schemas.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { Engine } from '../engine/engine.ts';
import { TimeSlice } from '../../lib/clock.ts';
import {
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
  bodyParserOf,
  ok,
  refusalReply,
} from './operation.ts';

export const PUBLISH_SENDERS = {
  id: 'publishSenders',
  method: 'POST',
  path: '/v2/relay/senders',
  access: 'hop by key',
  summary: 'Publishes the senders whose mail the caller takes.',
  request: { schema: SendersRequest },
  successes: [ok(SendersResponse, 'the list is in force')],
  problems: ['IAT_IN_FUTURE', 'KEY_MISMATCH', 'STALE_LIST', 'RATE_LIMITED'],
  counted: 'senders',
  fillsDisk: true,
  handle: publishSenders,
} as const satisfies HostOperation;

const parseSenders = bodyParserOf(SendersRequest);

async function publishSenders({ body, caller, nowMs }: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { engine } = parts;
  const parsed = parseSenders(body);
  const hostPubkey = parsePublicKey(parsed?.list.host_pubkey);
  if (!parsed || !hostPubkey) return problemReply('BAD_REQUEST', 'send {list, sig} as the protocol describes them');
  const { list, sig } = parsed;
  if (hostPubkey !== caller.hostPubkey) return problemReply('KEY_MISMATCH', 'the list names another host key');
  if (!isDocumentSigned(hostPubkey, list, sig)) return problemReply('BAD_SIGNATURE', 'sig does not cover the list');
  const senders = await acceptableKeys(list.senders, parts);
  if (!senders) return problemReply('BAD_REQUEST', 'the list holds a key that is no acceptable Ed25519 point');
  // The caller was rotated or revoked while the keys were inspected: a list under the old key would be lost.
  if (engine.directory.get(hostPubkey)?.revokedAtMs !== null) return problemReply('NOT_ENROLLED', 'not enrolled');
  const callerPubkey = caller.hostPubkey;
  const command = { type: 'PublishSenders', callerPubkey, hostPubkey, senders, iatMs: list.iat, nowMs } as const;
  const outcome = await engine.publishSenders(command);
  if (outcome.type === 'Refusal') return refusalReply(outcome);
  return jsonReply(200, { senders: outcome.senders, iat: outcome.iatMs });
}

/** The keys, or `undefined` when one is none. */
async function acceptableKeys(
  texts: readonly string[],
  { keys: inspected, clock }: RelayParts,
): Promise<PublicKey[] | undefined> {
  const slice = new TimeSlice(clock.monotonicMs);
  const keys = new Set<PublicKey>();
  for (const text of texts) {
    if (slice.isOver) await slice.pause();
    const key = parsePublicKey(text);
    if (!key || !inspected.isAcceptable(key)) return undefined;
    keys.add(key);
  }
  return [...keys];
}

export const PUBLISH_ENC_KEY = {
  id: 'publishEncKey',
  method: 'POST',
  path: '/v1/relay/enc-key',
  access: 'hop by key or name',
  summary: 'Publishes the key that mail for the caller is sealed to.',
  request: { schema: EncKeyRequest },
  successes: [ok(EncKeyPublished, 'the advertisement is shown to hosts that ask')],
  problems: ['IAT_IN_FUTURE', 'STALE_LIST', 'RATE_LIMITED'],
  counted: 'encKey',
  fillsDisk: true,
  handle: publishEncKey,
} as const satisfies HostOperation;

export const ENC_KEY_BY_NAME = {
  id: 'encKeyByName',
  method: 'GET',
  path: '/v1/relay/enc-key',
  access: 'hop by key or name',
  summary: 'Shows the advertised key of the host with this name.',
  query: EncKeyByNameQuery,
  successes: [ok(EncKeyShown, 'what the host signed')],
  problems: ['RATE_LIMITED'],
  counted: 'work',
  handle: readByName,
} as const satisfies HostOperation<typeof EncKeyByNameQuery>;

export const ENC_KEY_BY_KEY = {
  id: 'encKeyByKey',
  method: 'GET',
  path: '/v2/relay/enc-key',
  access: 'hop by key',
  summary: 'Shows the advertised key of the host with this host key.',
  query: EncKeyByKeyQuery,
  successes: [ok(EncKeyShown, 'what the host signed')],
  problems: ['RATE_LIMITED'],
  counted: 'work',
  handle: readByKey,
} as const satisfies HostOperation<typeof EncKeyByKeyQuery>;

const ENC_KEY_BYTES = 32;
const parseEncKey = bodyParserOf(EncKeyRequest);

async function publishEncKey({ body, caller, nowMs }: HopRelayRequest, { engine }: RelayParts): Promise<Reply> {
  const parsed = parseEncKey(body);
  if (!parsed || decodeBase64(parsed.enc_pub)?.length !== ENC_KEY_BYTES) {
    return problemReply('BAD_REQUEST', 'send {enc_pub, at, sig} as the protocol describes them');
  }
  const { enc_pub: encPub, at, sig } = parsed;
  const { hostPubkey } = caller;
  const advertisement = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at });
  if (!isDocumentSigned(hostPubkey, advertisement, sig)) {
    return problemReply('BAD_SIGNATURE', 'sig does not cover the advertisement');
  }
  const command = { type: 'PublishEncKey', hostPubkey, encPub, advertisedAtMs: at, sig, nowMs } as const;
  const outcome = await engine.publishEncKey(command);
  return outcome.type === 'Refusal' ? refusalReply(outcome) : jsonReply(200, { at: outcome.atMs });
}

function readByKey(
  { query }: HopRelayRequest<Static<typeof EncKeyByKeyQuery>>,
  { engine }: RelayParts,
): Promise<Reply> {
  return encKeyReply(query.key, engine);
}

/** A name is a label: it answers only when exactly one live host carries it, or exactly one of the caller's account. */
async function readByName(
  { query, caller }: HopRelayRequest<Static<typeof EncKeyByNameQuery>>,
  { engine }: RelayParts,
): Promise<Reply> {
  const found = engine.directory.findByName(query.host, caller.account);
  return typeof found === 'string' ? jsonReply(200, { enc_key: null }) : encKeyReply(found.hostPubkey, engine);
}

async function encKeyReply(hostPubkey: PublicKey, engine: Engine): Promise<Reply> {
  const row = await engine.encKey(hostPubkey);
  const encKey = row ? { host_pubkey: hostPubkey, enc_pub: row.encPub, at: row.atMs, sig: row.sig } : null;
  return jsonReply(200, { enc_key: encKey });
}
