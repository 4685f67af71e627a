/**
 * `POST /v1/relay/enc-key`, `GET /v1/relay/enc-key?host=` and `GET /v2/relay/enc-key?key=`: the keys that mail is sealed to.
 * The relay shows what the host signed; whether to believe it is decided by whoever pinned the host's key.
 */
import { decodeBase64 } from '../../protocol/base64.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import { encKeyAdvertisement } from '../../protocol/documents.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import { parseHostName } from '../../protocol/names.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { EncKeyRequest, parserOf } from '../../protocol/schemas.ts';
import type { Engine } from '../engine/engine.ts';
import type { Reply } from '../../http/exchange.ts';
import { onlyParameter } from './query.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { refusalReply } from './refusals.ts';
import type { HopRelayRequest, HopRoute } from './route.ts';

const ENC_KEY_BYTES = 32;
const parseEncKey = parserOf(EncKeyRequest);

export function encKeyRoutes({ engine, bodyBytesMax }: { engine: Engine; bodyBytesMax: number }): HopRoute[] {
  const shared = { access: 'hop', counted: undefined, bodyBytesMax } as const;
  const [v1, v2] = ['/v1/relay/enc-key', '/v2/relay/enc-key'];
  return [
    {
      ...shared,
      method: 'POST',
      path: v1,
      counted: 'push',
      fillsDisk: true,
      handle: (request) => publish(request, engine),
    },
    { ...shared, method: 'GET', path: v1, handle: (request) => readByName(request, engine) },
    { ...shared, method: 'GET', path: v2, handle: (request) => readByKey(request, engine) },
  ];
}

async function publish({ body, caller, nowMs }: HopRelayRequest, engine: Engine): Promise<Reply> {
  const parsed = parseEncKey(parseJsonBounded(body.bytes, REQUEST_JSON_BOUNDS));
  if (!parsed || decodeBase64(parsed.enc_pub)?.length !== ENC_KEY_BYTES) {
    return problemReply('BAD_REQUEST', 'send {enc_pub, at, sig} as the protocol describes them');
  }
  const { enc_pub: encPub, at, sig } = parsed;
  const { hostPubkey } = caller;
  const advertisement = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at });
  if (!verifySignature(hostPubkey, canonicalBytes(advertisement), sig)) {
    return problemReply('BAD_SIGNATURE', 'sig does not cover the advertisement');
  }
  const command = { type: 'PublishEncKey', hostPubkey, encPub, advertisedAtMs: at, sig, nowMs } as const;
  const outcome = await engine.publishEncKey(command);
  return outcome.type === 'Refusal' ? refusalReply(outcome) : jsonReply(200, { at: outcome.atMs });
}

async function readByKey({ query }: HopRelayRequest, engine: Engine): Promise<Reply> {
  const key = parsePublicKey(onlyParameter(query, 'key'));
  if (!key) return problemReply('BAD_REQUEST', 'key is the percent-encoded base64 of a host key');
  return shown(key, engine);
}

/** A name is a label: it answers only when exactly one live host carries it, or exactly one of the caller's account. */
async function readByName({ query, caller }: HopRelayRequest, engine: Engine): Promise<Reply> {
  const name = parseHostName(onlyParameter(query, 'host') ?? '');
  if (!name) return problemReply('BAD_REQUEST', 'host is a host name');
  const found = engine.findByName(name, caller.account);
  return typeof found === 'string' ? jsonReply(200, { enc_key: null }) : shown(found.hostPubkey, engine);
}

async function shown(hostPubkey: PublicKey, engine: Engine): Promise<Reply> {
  const row = await engine.encKey(hostPubkey);
  const encKey = row ? { host_pubkey: hostPubkey, enc_pub: row.encPub, at: row.atMs, sig: row.sig } : null;
  return jsonReply(200, { enc_key: encKey });
}
