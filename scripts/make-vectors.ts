/**
 * Writes the test vectors of the wire protocol to test/vectors, for whoever writes a client in another language:
 *
 *   npm run vectors
 *
 * Everything comes from fixed seeds and fixed times, and Ed25519 signatures are deterministic, so a run changes
 * nothing unless the protocol changed. test/unit/protocol/vectors.test.ts fails when the files and this script differ.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { encodeBase64 } from '../src/protocol/base64.ts';
import { canonicalBytes, canonicalJson } from '../src/protocol/canonical-json.ts';
import { sha256Hex } from '../src/protocol/digest.ts';
import { acceptReceipt, enrolClaim, expiryNotice } from '../src/protocol/documents.ts';
import { type Signer, signerFromSeed } from '../src/protocol/ed25519.ts';
import { epochFromRandom } from '../src/protocol/epoch.ts';
import { HOP_HEADERS, type HopFields, hopV1Message, hopV2Message, signedTarget } from '../src/protocol/hop.ts';
import type { ItemId } from '../src/protocol/names.ts';

export const VECTOR_FOLDER = join(import.meta.dirname, '../test/vectors');

interface Party {
  host: string;
  seed: Buffer;
  signer: Signer;
}

/** A host or relay whose seed is 32 times the same byte: nobody can take it for a real one. */
function party(host: string, seedByte: number): Party {
  const seed = Buffer.alloc(32, seedByte);
  return { host, seed, signer: signerFromSeed(seed) };
}

const relay = party('relay', 0x01);
const alice = party('alice-mac', 0x02);
const bob = party('bob.example', 0x03);
const carol = party('carol_7', 0x04);

/** The seed and public key as every file shows them. */
function keysOf({ seed, signer }: Party): { seed: string; pubkey: string } {
  return { seed: encodeBase64(seed), pubkey: signer.publicKey };
}

const CONVENTIONS =
  'Keys, seeds, signatures and wire bytes are RFC 4648 section 4 base64, padded. Times are milliseconds since the ' +
  'Unix epoch. Signatures are Ed25519 (RFC 8032); with the seed you can make them yourself, and they must come out ' +
  'the same. "canonical" is the RFC 8785 (JCS) form of the document: its UTF-8 bytes are what is signed.';

const AT = 1_763_675_303_000;
const EPOCH = epochFromRandom(Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'));

interface HopRequest {
  name: string;
  note: string;
  version: 1 | 2;
  method: string;
  /** The request target as sent, with the path prefix of the relay if there is one. */
  target: string;
  /** `null`: a request without a body, which is hashed like an empty one. */
  body: string | null;
}

const PUSH_BODY = canonicalJson({
  items: [{ kind: 'envelope', item_id: 'm1', targets: [{ host_pubkey: bob.signer.publicKey, wire_b64: 'e30=' }] }],
});

const HOP_REQUESTS: HopRequest[] = [
  {
    name: 'v2 without query',
    note: 'The plain case: six lines, joined by one newline each, and none at the end.',
    version: 2,
    method: 'POST',
    target: '/v2/relay/items',
    body: PUSH_BODY,
  },
  {
    name: 'v2 with query',
    note: 'The query is signed byte for byte as sent: nothing is decoded and nothing is put in order.',
    version: 2,
    method: 'GET',
    target: `/v2/relay/items?limit=500&after=${AT}&epoch=${EPOCH}`,
    body: null,
  },
  {
    name: 'v2 with an encoded query',
    note: 'Percent signs stay as they are, capital or small.',
    version: 2,
    method: 'GET',
    target: `/v2/relay/enc-key?key=${encodeURIComponent(bob.signer.publicKey).replace('%3D', '%3d')}`,
    body: null,
  },
  {
    name: 'v2 with a question mark and an empty query',
    note: 'The question mark is part of the target, so this is not the message of the case without it.',
    version: 2,
    method: 'GET',
    target: '/v2/relay/info?',
    body: null,
  },
  {
    name: 'v2 with neither',
    note: 'Compare with the case before: only the question mark differs, and so does the signature.',
    version: 2,
    method: 'GET',
    target: '/v2/relay/info',
    body: null,
  },
  {
    name: 'v2 with an empty body',
    note: 'No body and an empty body have the same hash, that of no bytes.',
    version: 2,
    method: 'POST',
    target: '/v2/relay/ack',
    body: '',
  },
  {
    name: 'v2 with a body outside ASCII',
    note: 'The hash is over the bytes as sent, here UTF-8.',
    version: 2,
    method: 'POST',
    target: '/v2/relay/senders',
    body: '{"note":"gr\u00fc\u00dfe \u{1f4ee}"}',
  },
  {
    name: 'v2 behind a path prefix',
    note: 'A relay at https://example.org/mail: what is signed begins at /v2/relay.',
    version: 2,
    method: 'GET',
    target: '/mail/v2/relay/items?after=0',
    body: null,
  },
  {
    name: 'v1 without query',
    note: 'Five lines: no relay key. The host is found by its name, so there is no x-mail-key.',
    version: 1,
    method: 'POST',
    target: '/v1/relay/ack',
    body: '{"cursor":"c1"}',
  },
  {
    name: 'v1 with query',
    note: 'A v1 hop never signs its query: the path ends before the question mark.',
    version: 1,
    method: 'GET',
    target: '/v1/relay/messages?after=c1',
    body: null,
  },
  {
    name: 'v1 with a question mark and an empty query',
    note: 'The question mark is not signed either.',
    version: 1,
    method: 'GET',
    target: '/v1/relay/messages?',
    body: null,
  },
  {
    name: 'v1 behind a path prefix',
    note: 'What is signed begins at /v1/relay and ends before the question mark.',
    version: 1,
    method: 'GET',
    target: '/a/b/v1/relay/messages?after=c1',
    body: null,
  },
];

function hopCase(request: HopRequest): object {
  const fields: HopFields = {
    method: request.method,
    target: signedTarget(request.target),
    timestamp: String(AT),
    bodyHash: sha256Hex(request.body ?? ''),
  };
  const message = request.version === 2 ? hopV2Message(fields, relay.signer.publicKey) : hopV1Message(fields);
  const signature = alice.signer.sign(message);
  return {
    ...request,
    body_sha256: fields.bodyHash,
    timestamp: fields.timestamp,
    signed_message: message.toString('utf8'),
    signed_message_hex: message.toString('hex'),
    signature,
    headers: {
      [HOP_HEADERS.host]: alice.host,
      [HOP_HEADERS.timestamp]: fields.timestamp,
      [HOP_HEADERS.signature]: signature,
      ...(request.version === 2 ? { [HOP_HEADERS.key]: alice.signer.publicKey } : {}),
    },
  };
}

function hopVectors(): object {
  return {
    description: [
      'Signed hops. Each case is one HTTP request of the host below to the relay below, with the exact bytes it signs.',
      'v2 signs six lines: "mail-hop-v2", method, path with ?query, x-mail-ts, SHA-256 of the body in lowercase hex, the public key of the relay.',
      'v1 signs five: "mail-hop-v1", method, path without query, x-mail-ts, the hash of the body.',
      'The lines are joined by one newline (0x0a), with none at the end. "target" is the request target as sent.',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    host: { name: alice.host, ...keysOf(alice) },
    cases: HOP_REQUESTS.map(hopCase),
  };
}

function enrolmentCase(name: string, host: Party, ownerFp: string, challengeByte: number): object {
  const document = enrolClaim({
    challenge: encodeBase64(Buffer.alloc(32, challengeByte)),
    relay_pubkey: relay.signer.publicKey,
    host: host.host,
    pubkey: host.signer.publicKey,
    owner_fp: ownerFp,
  });
  const signature = host.signer.sign(canonicalBytes(document));
  return {
    name,
    host: { name: host.host, ...keysOf(host) },
    challenge_request: { pubkey: host.signer.publicKey },
    document,
    canonical: canonicalJson(document),
    signature,
    enrol_request: { host: document.host, pubkey: document.pubkey, owner_fp: document.owner_fp, sig: signature },
  };
}

function enrolmentVectors(): object {
  return {
    description: [
      'Enrolment. POST /v1/relay/challenge with "challenge_request" answers the challenge and the public key of the relay;',
      'the host signs "document", which binds both to its claims, and posts "enrol_request" to /v1/relay/enrol.',
      'The challenge itself is not sent back: the relay tries the ones it has open for that key.',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    cases: [
      enrolmentCase('without an owner_fp', alice, '', 0x10),
      enrolmentCase('with an owner_fp', bob, 'SHA256:c2FtcGxl+/=', 0x20),
      enrolmentCase(
        'a host name in capitals, signed as it is written',
        { ...carol, host: 'CAROL_7' },
        'carol@example',
        0x30,
      ),
    ],
  };
}

function acceptCase(name: string, itemId: string, targets: { host: Party; seq: number; wire: Buffer }[]): object {
  const document = acceptReceipt({
    relay_pubkey: relay.signer.publicKey,
    epoch: EPOCH,
    sender_pubkey: alice.signer.publicKey,
    item_id: itemId as ItemId,
    targets: targets.map(({ host, seq, wire }) => ({
      host_pubkey: host.signer.publicKey,
      seq,
      wire_hash: sha256Hex(wire),
    })),
    at: AT,
  });
  return {
    name,
    wires_b64: targets.map(({ wire }) => encodeBase64(wire)),
    document,
    canonical: canonicalJson(document),
    signature: relay.signer.sign(canonicalBytes(document)),
  };
}

/** The bytes that go to one target: they name it, so they differ from those that go to another. */
function envelopeFor({ host }: Party): Buffer {
  return canonicalBytes({ id: 'm1', sealed: { alg: 'a', enc: 'e', ct: 'c' }, subject: 'caf\u00e9', to_host: host });
}

function acceptVectors(): object {
  const rec = { v: 1, type: 'receipt', msg: 'm0', recipient: 'coder@alice-mac', seq: 3, state: 'read', at: AT };
  const signedRec = { ...rec, host_pubkey: alice.signer.publicKey };
  const receipt = canonicalBytes({ rec: signedRec, sig: alice.signer.sign(canonicalBytes(signedRec)) });
  return {
    description: [
      'Accept receipts: what the relay signs in each result of POST /v2/relay/items, beside it as "accept" and "sig".',
      'A sender takes a row for relay-accepted only when the signature is that of the relay key it pinned, and item_id,',
      'host_pubkey and wire_hash match the row. wire_hash is the SHA-256, in lowercase hex, of the exact bytes that were',
      'pushed: the bytes that "wires_b64" decodes to, in the order of "targets".',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    cases: [
      acceptCase('an envelope for one target', 'm1', [{ host: bob, seq: AT, wire: envelopeFor(bob) }]),
      acceptCase('an envelope for two targets, in the order they were pushed in', 'm1', [
        { host: carol, seq: AT + 1, wire: envelopeFor(carol) },
        { host: bob, seq: AT, wire: envelopeFor(bob) },
      ]),
      acceptCase('a delivery receipt', `receipt:${rec.msg}:${rec.recipient}:${rec.seq}`, [
        { host: bob, seq: AT + 2, wire: receipt },
      ]),
    ],
  };
}

function expiryCase(name: string, itemId: string, target: Party, acceptedAtMs: number, expiredAtMs: number): object {
  const document = expiryNotice({
    item_id: itemId as ItemId,
    target_pubkey: target.signer.publicKey,
    accepted_at: acceptedAtMs,
    expired_at: expiredAtMs,
  });
  const signature = relay.signer.sign(canonicalBytes(document));
  const wire = canonicalBytes({ rec: document, sig: signature });
  return {
    name,
    document,
    canonical: canonicalJson(document),
    signature,
    wire: wire.toString('utf8'),
    wire_hash: sha256Hex(wire),
    item: {
      seq: expiredAtMs,
      kind: 'expired',
      item_id: `expired:${itemId}:${target.signer.publicKey}`,
      sender_pubkey: relay.signer.publicKey,
      wire_b64: encodeBase64(wire),
    },
  };
}

function expiryVectors(): object {
  const retentionMs = 14 * 86_400_000;
  return {
    description: [
      'Expiry notices: what the relay signs when an envelope passes its retention without being acked, and the item of',
      'GET /v2/relay/items by which the sender learns it. The wire bytes are the RFC 8785 form of {rec, sig}, with the',
      'notice as "rec". "target_pubkey" is the key the sender pushed to, whatever was rotated since.',
      CONVENTIONS,
    ],
    relay: keysOf(relay),
    cases: [
      expiryCase('after 14 days', 'm1', bob, AT, AT + retentionMs),
      expiryCase('swept a while later, with the longest id', 'm'.repeat(128), carol, AT, AT + retentionMs + 60_001),
    ],
  };
}

/** Every file by its name, as it is to be on disk. */
export function vectorFiles(): Map<string, string> {
  const files: [string, object][] = [
    ['hop.json', hopVectors()],
    ['enrolment.json', enrolmentVectors()],
    ['accept-receipt.json', acceptVectors()],
    ['expiry-notice.json', expiryVectors()],
  ];
  return new Map(files.map(([name, content]) => [name, `${JSON.stringify(content, null, 2)}\n`]));
}

function writeVectors(): void {
  for (const [name, text] of vectorFiles()) {
    const path = join(VECTOR_FOLDER, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.error(`wrote ${path}`);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeVectors();
