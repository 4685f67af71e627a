/**
 * Pairing on a LAN: the code that people carry, and the two MACs that prove it and cover every word of both sides. And
 * the answers of `hello`.
 */
import { createHmac } from 'node:crypto';
import { encodeBase64, encodeCrockford, sha256Hex } from '../../src/protocol/encodings.ts';
import { canonicalBytes, canonicalJson, type LanPair, lanHelloWord, lanPair } from '../../src/protocol/documents.ts';
import { LAN_ROUTES } from '../../src/protocol/lan.ts';
import { publicKeyBytes } from '../../src/protocol/public-key.ts';
import {
  AT,
  type Party,
  type SealKey,
  alice,
  aliceSealKey,
  bob,
  bobSealKey,
  carol,
  carolSealKey,
  hostOf,
  signed,
} from './parties.ts';
import { encKeyParts } from './documents.ts';

const FINGERPRINT_BYTES = 16;

interface Side {
  host: Party;
  sealKey: SealKey;
  /** Members beside host, pubkey and enc_key. */
  others: object;
}

function bodyOf({ host, sealKey, others }: Side): Record<string, unknown> {
  const { enc_key } = encKeyParts(host, sealKey, AT).shown;
  return { host: host.host, pubkey: host.signer.publicKey, enc_key, ...others };
}

function macParts(document: LanPair, secret: Buffer): { document: LanPair; canonical: string; mac: string } {
  const value = createHmac('sha256', secret).update(canonicalBytes(document)).digest();
  return { document, canonical: canonicalJson(document), mac: encodeBase64(value) };
}

function pairingCase(name: string, inviter: Side, acceptor: Side, secret: Buffer): object {
  const inviterBytes = publicKeyBytes(inviter.host.signer.publicKey);
  const fingerprint = Buffer.from(sha256Hex(inviterBytes), 'hex').subarray(0, FINGERPRINT_BYTES);
  const codeBytes = Buffer.concat([fingerprint, secret]);
  const keys = {
    inviter_pubkey: inviter.host.signer.publicKey,
    acceptor_pubkey: acceptor.host.signer.publicKey,
  };
  const asked = bodyOf(acceptor);
  const answered = bodyOf(inviter);
  const acceptorMac = macParts(lanPair({ role: 'acceptor', ...keys, body: asked }), secret);
  const inviterMac = macParts(
    lanPair({ role: 'inviter', ...keys, body: answered, acceptor_mac: acceptorMac.mac }),
    secret,
  );
  return {
    name,
    inviter: hostOf(inviter.host),
    acceptor: hostOf(acceptor.host),
    secret: encodeBase64(secret),
    code_bytes_hex: codeBytes.toString('hex'),
    code: encodeCrockford(codeBytes).replace(/(?<=^(?:.{4})+)(?!$)/g, '-'),
    acceptor_mac: acceptorMac,
    request: { ...asked, mac: acceptorMac.mac },
    inviter_mac: inviterMac,
    answer: { ...answered, mac: inviterMac.mac },
  };
}

export function lanPairingVectors() {
  return {
    description: [
      'Pairing of two hosts on a LAN. "code" carries 32 bytes: the first 16 of the SHA-256 of the inviter\'s 32 key',
      'bytes, then the 16 bytes of "secret". They are written as one number in Crockford base32, most significant',
      'digit first: 52 digits, the first of them 0 or 1 (the four spare bits stand in front), in groups of 4 joined',
      'by "-". The acceptor posts "request" to /v1/lan/pair and the inviter answers "answer". Each carries a MAC:',
      'HMAC-SHA256 under the 16 secret bytes over the RFC 8785 form of "document", in base64. "body" in it is',
      "everything of the request or the answer but its mac, members that you do not know included; the inviter's",
      'names the MAC that it answers.',
    ],
    cases: [
      pairingCase(
        'bob invites alice',
        { host: bob, sealKey: bobSealKey, others: { port: 8789 } },
        { host: alice, sealKey: aliceSealKey, others: { port: 8790 } },
        Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'),
      ),
      pairingCase(
        'alice invites carol, both say an address, and carol a word that alice does not know',
        { host: alice, sealKey: aliceSealKey, others: { port: 8790, address: 'alice.example:8790' } },
        { host: carol, sealKey: carolSealKey, others: { address: '[2001:db8::7]:9', note: 'gr\u00fc\u00dfe' } },
        Buffer.from('f0e1d2c3b4a5968778695a4b3c2d1e0f', 'hex'),
      ),
    ],
  };
}

/** Signed answers of `hello`: that a host listens at the address that was dialled. */
function helloCase(name: string, nonce: Buffer, address: string): object {
  const text = nonce.toString('base64url');
  const { publicKey } = bob.signer;
  const parts = signed(lanHelloWord({ nonce: text, pubkey: publicKey, address, now: AT }), bob.signer);
  return {
    name,
    target: `${LAN_ROUTES.hello}?nonce=${text}&address=${encodeURIComponent(address)}`,
    ...parts,
    answer: { host: bob.host, pubkey: publicKey, version: '0.1.0', now: AT, sig: parts.signature },
  };
}

export function lanHelloVectors() {
  return {
    description: [
      'Signed answers of GET /v1/lan/hello. A host that wants to know whether a paired host listens at an address',
      'dials it, asks with a nonce of 16 to 32 random bytes in base64url and with the address as it dialled it, and',
      'builds "document" of the two, of the key that it pinned and of the time in the answer. The other host signs',
      'only an address that is its own: one that passes the question on to the right host gets an answer without a',
      'signature.',
    ],
    host: hostOf(bob),
    cases: [
      helloCase('an IPv4 address', Buffer.alloc(16, 0x61), '192.168.1.7:8789'),
      helloCase(
        'an IPv6 address, percent-encoded in the query and signed as it was dialled',
        Buffer.alloc(32, 0x62),
        '[2001:DB8::7]:8789',
      ),
      helloCase('a name that the host advertises', Buffer.alloc(20, 0x63), 'bob.example:9'),
    ],
  };
}
