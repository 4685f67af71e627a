/** Signed hops: relay v2, relay v1, and the LAN. */
import { canonicalJson } from '../../src/protocol/documents.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import {
  HOP_HEADERS,
  HOP_NONCE_BYTES,
  type HopFields,
  hopLanMessage,
  hopV1Message,
  hopV2Message,
  signedTarget,
} from '../../src/protocol/hop.ts';
import { AT, EPOCH, alice, bob, hostOf, keysOf, relay } from './parties.ts';

interface HopRequest {
  name: string;
  note: string;
  /** The request target as sent, with the path prefix of the relay if there is one. */
  target: string;
  /** The body of a POST. A GET has none, which is hashed like an empty one. */
  body?: string;
}

const PUSH_BODY = canonicalJson({
  items: [{ kind: 'envelope', item_id: 'm1', targets: [{ host_pubkey: bob.signer.publicKey, wire_b64: 'e30=' }] }],
});

const HOP_REQUESTS: HopRequest[] = [
  {
    name: 'v2 without query',
    note: 'The plain case: six lines, joined by one newline each, and none at the end.',
    target: '/v2/relay/items',
    body: PUSH_BODY,
  },
  {
    name: 'v2 with query',
    note: 'The query is signed byte for byte as sent: nothing is decoded and nothing is put in order.',
    target: `/v2/relay/items?limit=500&after=${AT}&epoch=${EPOCH}`,
  },
  {
    name: 'v2 with an encoded query',
    note: 'Percent signs stay as they are, capital or small.',
    target: `/v2/relay/enc-key?key=${encodeURIComponent(bob.signer.publicKey).replace('%3D', '%3d')}`,
  },
  {
    name: 'v2 with a question mark and an empty query',
    note: 'The question mark is part of the target, so this is not the message of the case without it.',
    target: '/v2/relay/info?',
  },
  {
    name: 'v2 with neither',
    note: 'Compare with the case before: only the question mark differs, and so does the signature.',
    target: '/v2/relay/info',
  },
  {
    name: 'v2 with an empty body',
    note: 'No body and an empty body have the same hash, that of no bytes.',
    target: '/v2/relay/ack',
    body: '',
  },
  {
    name: 'v2 with a body outside ASCII',
    note: 'The hash is over the bytes as sent, here UTF-8.',
    target: '/v2/relay/senders',
    body: '{"note":"gr\u00fc\u00dfe \u{1f4ee}"}',
  },
  {
    name: 'v2 behind a path prefix',
    note: 'A relay at https://example.org/mail: what is signed begins at /v2/relay.',
    target: '/mail/v2/relay/items?after=0',
  },
  {
    name: 'v1 without query',
    note: 'Five lines: no relay key. The host is found by its name, so there is no x-mail-key.',
    target: '/v1/relay/ack',
    body: '{"cursor":"c1"}',
  },
  {
    name: 'v1 with query',
    note: 'A v1 hop never signs its query: the path ends before the question mark.',
    target: '/v1/relay/messages?after=c1',
  },
  {
    name: 'v1 with a question mark and an empty query',
    note: 'The question mark is not signed either.',
    target: '/v1/relay/messages?',
  },
  {
    name: 'v1 behind a path prefix',
    note: 'What is signed begins at /v1/relay and ends before the question mark.',
    target: '/a/b/v1/relay/messages?after=c1',
  },
];

function hopCase({ name, note, target, body }: HopRequest): object {
  const version = target.includes('/v2/relay/') ? 2 : 1;
  const method = body === undefined ? 'GET' : 'POST';
  const fields: HopFields = {
    method,
    target: signedTarget(target),
    timestamp: String(AT),
    bodyHash: sha256Hex(body ?? ''),
  };
  const message = version === 2 ? hopV2Message(fields, relay.signer.publicKey) : hopV1Message(fields);
  return { name, note, version, method, target, body: body ?? null, ...hopParts(fields, message, version === 2) };
}

export function hopVectors() {
  return {
    description: [
      'Signed hops. Each case is one HTTP request of the host below to the relay below, with the exact bytes it',
      'signs. v2 signs six lines: "mail-hop-v2", method, path with ?query, x-mail-ts, SHA-256 of the body in',
      'lowercase hex, the public key of the relay. v1 signs five: "mail-hop-v1", method, path without query,',
      'x-mail-ts, the hash of the body. The lines are joined by one newline (0x0a), with none at the end. "target" is',
      'the request target as sent.',
    ],
    relay: keysOf(relay),
    host: hostOf(alice),
    cases: HOP_REQUESTS.map(hopCase),
  };
}

const LAN_REQUESTS: (HopRequest & { nonceByte: number })[] = [
  {
    name: 'with a body',
    note: 'Seven lines, under a tag of their own: behind the key of the host that is called stands the nonce.',
    target: '/v1/lan/items',
    body: '{"items":[]}',
    nonceByte: 0x51,
  },
  {
    name: 'the same request again',
    note: 'A try of its own has a nonce of its own: the receiver takes each once.',
    target: '/v1/lan/items',
    body: '{"items":[]}',
    nonceByte: 0x52,
  },
  {
    name: 'without a body',
    note: 'The hash is that of no bytes.',
    target: '/v1/lan/agents',
    nonceByte: 0x53,
  },
  {
    name: 'with a query',
    note: 'The query is signed byte for byte as sent.',
    target: '/v1/lan/agents?known=%C3%BC',
    nonceByte: 0xff,
  },
];

function lanHopCase({ name, note, target, body, nonceByte }: (typeof LAN_REQUESTS)[number]): object {
  const method = body === undefined ? 'GET' : 'POST';
  const fields = { method, target, timestamp: String(AT), bodyHash: sha256Hex(body ?? '') };
  const nonce = Buffer.alloc(HOP_NONCE_BYTES, nonceByte).toString('base64url');
  const message = hopLanMessage(fields, bob.signer.publicKey, nonce);
  return { name, note, method, target, body: body ?? null, nonce, ...hopParts(fields, message, true, nonce) };
}

export function lanHopVectors() {
  return {
    description: [
      'Signed hops between paired hosts on a LAN. Each case is one HTTP request of "host" to "receiver". Signed are',
      'seven lines: "mail-hop-lan-2", method, path with ?query, x-mail-ts, SHA-256 of the body in lowercase hex, the',
      'public key of the receiving host, x-mail-nonce; joined by one newline (0x0a), with none at the end. The nonce',
      'is 16 random bytes in base64url (RFC 4648 section 5, no padding), here 16 equal ones.',
    ],
    receiver: hostOf(bob),
    host: hostOf(alice),
    cases: LAN_REQUESTS.map(lanHopCase),
  };
}

/** Returns what is hashed, signed and sent of a hop of alice. */
function hopParts(fields: HopFields, message: Buffer, isByKey: boolean, nonce?: string): object {
  const signature = alice.signer.sign(message);
  return {
    body_sha256: fields.bodyHash,
    timestamp: fields.timestamp,
    signed_message: message.toString('utf8'),
    signed_message_hex: message.toString('hex'),
    signature,
    headers: {
      [HOP_HEADERS.host]: alice.host,
      [HOP_HEADERS.timestamp]: fields.timestamp,
      [HOP_HEADERS.signature]: signature,
      ...(isByKey && { [HOP_HEADERS.key]: alice.signer.publicKey }),
      ...(nonce !== undefined && { [HOP_HEADERS.nonce]: nonce }),
    },
  };
}
