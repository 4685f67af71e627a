/** Pairing on a LAN: the code that people carry, and the two MACs that prove it and cover every word of both sides. */
import { createHmac } from 'node:crypto';
import { encodeBase64 } from '../../src/protocol/base64.ts';
import { canonicalBytes, canonicalJson } from '../../src/protocol/canonical-json.ts';
import { encodeCrockford } from '../../src/protocol/crockford.ts';
import { sha256Hex } from '../../src/protocol/digest.ts';
import { type LanPair, lanPair } from '../../src/protocol/documents.ts';
import { publicKeyBytes } from '../../src/protocol/public-key.ts';
import { AT, CONVENTIONS, type Party, alice, bob, carol, hostOf } from './parties.ts';
import { encKeyParts } from './publications.ts';
import { type SealKey, aliceSealKey, bobSealKey, carolSealKey } from './seal-keys.ts';

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

export function lanPairingVectors(): object {
  return {
    description: [
      'Pairing of two hosts on a LAN. "code" carries 32 bytes: the first 16 of the SHA-256 of the inviter\'s 32 key bytes,',
      'then the 16 bytes of "secret". They are written as one number in Crockford base32, most significant digit first: 52',
      'digits, the first of them 0 or 1 (the four spare bits stand in front), in groups of 4 joined by "-".',
      'The acceptor posts "request" to /v1/lan/pair and the inviter answers "answer". Each carries a MAC: HMAC-SHA256 under',
      'the 16 secret bytes over the RFC 8785 form of "document", in base64. "body" in it is everything of the request or',
      "the answer but its mac, members that you do not know included; the inviter's names the MAC that it answers.",
      CONVENTIONS,
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
