/** Cloud-key certificates: a host key vouches for the key that an account token is bound to. */
import { createECDH } from 'node:crypto';
import { type JWK, calculateJwkThumbprint } from 'jose';
import { cloudKeyCertificate } from '../../src/protocol/documents.ts';
import { CONVENTIONS, alice, hostOf, signed } from './parties.ts';

/** The P-256 key whose private number is 32 times the byte 0x31. */
function ellipticKey(): JWK {
  const exchange = createECDH('prime256v1');
  exchange.setPrivateKey(Buffer.alloc(32, 0x31));
  const point = exchange.getPublicKey();
  const coordinate = (from: number): string => point.subarray(from, from + 32).toString('base64url');
  return { kty: 'EC', crv: 'P-256', x: coordinate(1), y: coordinate(33) };
}

/** The key of RFC 8037, appendix A, whose thumbprint stands there too. */
const EDWARDS_KEY: JWK = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' };

async function cloudKeyCase(name: string, cloudKey: JWK): Promise<object> {
  const jkt = await calculateJwkThumbprint(cloudKey, 'sha256');
  const parts = signed(cloudKeyCertificate({ host_pubkey: alice.signer.publicKey, jkt }), alice.signer);
  return { name, jkt, ...parts, proof_without_token: { cloud_key: cloudKey, cert: parts.signature } };
}

export async function cloudKeyVectors(): Promise<object> {
  return {
    description: [
      'Cloud-key certificates, for enrolment at a hosted relay. "jkt" is the RFC 7638 SHA-256 thumbprint of the cloud key in',
      'base64url without padding, over its required members alone; the host signs "document". With the account token as',
      '"token" beside them, the members of "proof_without_token" are the "proof" of POST /v1/relay/enrol.',
      CONVENTIONS,
    ],
    host: hostOf(alice),
    cases: [
      await cloudKeyCase('an ES256 key', ellipticKey()),
      await cloudKeyCase('an ES256 key with members that the thumbprint leaves out', {
        ...ellipticKey(),
        alg: 'ES256',
        kid: 'cloud-1',
        use: 'sig',
      }),
      await cloudKeyCase('an EdDSA key', EDWARDS_KEY),
    ],
  };
}
