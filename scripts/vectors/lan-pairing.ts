/** Pairing on a LAN: the code that people carry, and the two MACs that prove it. */
import { createHmac } from 'node:crypto';
import { encodeBase64 } from '../../src/protocol/base64.ts';
import { canonicalBytes, canonicalJson } from '../../src/protocol/canonical-json.ts';
import { encodeCrockford } from '../../src/protocol/crockford.ts';
import { sha256Hex } from '../../src/protocol/digest.ts';
import { type LanPair, lanPair } from '../../src/protocol/documents.ts';
import { publicKeyBytes } from '../../src/protocol/public-key.ts';
import { CONVENTIONS, type Party, alice, bob, carol, hostOf } from './parties.ts';

const FINGERPRINT_BYTES = 16;

function pairingCase(name: string, inviter: Party, acceptor: Party, secret: Buffer): object {
  const inviterBytes = publicKeyBytes(inviter.signer.publicKey);
  const fingerprint = Buffer.from(sha256Hex(inviterBytes), 'hex').subarray(0, FINGERPRINT_BYTES);
  const codeBytes = Buffer.concat([fingerprint, secret]);
  const mac = (role: LanPair['role']): object => {
    const keys = { inviter_pubkey: inviter.signer.publicKey, acceptor_pubkey: acceptor.signer.publicKey };
    const document = lanPair({ role, ...keys });
    const value = createHmac('sha256', secret).update(canonicalBytes(document)).digest();
    return { document, canonical: canonicalJson(document), mac: encodeBase64(value) };
  };
  return {
    name,
    inviter: hostOf(inviter),
    acceptor: hostOf(acceptor),
    secret: encodeBase64(secret),
    code_bytes_hex: codeBytes.toString('hex'),
    code: encodeCrockford(codeBytes).replace(/(?<=^(?:.{4})+)(?!$)/g, '-'),
    acceptor_mac: mac('acceptor'),
    inviter_mac: mac('inviter'),
  };
}

export function lanPairingVectors(): object {
  return {
    description: [
      'Pairing of two hosts on a LAN. "code" carries 32 bytes: the first 16 of the SHA-256 of the inviter\'s 32 key bytes,',
      'then the 16 bytes of "secret". They are written as one number in Crockford base32, most significant digit first: 52',
      'digits, the first of them 0 or 1, in groups of 4 joined by "-". Each side makes a MAC: HMAC-SHA256 under the 16',
      'secret bytes over the RFC 8785 form of "document", in base64.',
      CONVENTIONS,
    ],
    cases: [
      pairingCase('bob invites alice', bob, alice, Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex')),
      pairingCase('alice invites carol', alice, carol, Buffer.from('f0e1d2c3b4a5968778695a4b3c2d1e0f', 'hex')),
    ],
  };
}
