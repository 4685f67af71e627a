/**
 * The HPKE suite of sealed envelopes (RFC 9180): DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305.
 *
 * What HPKE does is the library's; HMAC and HKDF are those of node:crypto. Through Web Cryptography, as the library calls
 * them, each is an import of a key and a job in the thread pool, six times a message: more than half of what one costs.
 */
import { createHmac, hkdfSync } from 'node:crypto';
import { Chacha20Poly1305 } from '@hpke/chacha20poly1305';
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core';

type Bytes = Parameters<HkdfSha256['extract']>[0];

class NodeHkdfSha256 extends HkdfSha256 {
  /** An empty salt is as one of zeros: HMAC fills its key up with them. */
  override extract(salt: Bytes, ikm: Bytes): Promise<ArrayBuffer> {
    return Promise.resolve(arrayBufferOf(createHmac('sha256', viewOf(salt)).update(viewOf(ikm)).digest()));
  }

  override extractAndExpand(salt: Bytes, ikm: Bytes, info: Bytes, length: number): Promise<ArrayBuffer> {
    return Promise.resolve(hkdfSync('sha256', viewOf(ikm), viewOf(salt), viewOf(info), length));
  }
}

/** RFC 9180, section 4.1: `"KEM"` and the id of the KEM, in two bytes. */
const KEM_SUITE_ID = Buffer.from([0x4b, 0x45, 0x4d, 0x00, 0x20]);

class NodeDhkem extends DhkemX25519HkdfSha256 {
  constructor() {
    super();
    this._kdf = new NodeHkdfSha256();
    this._kdf.init(KEM_SUITE_ID);
  }
}

export const sealSuite = new CipherSuite({
  kem: new NodeDhkem(),
  kdf: new NodeHkdfSha256(),
  aead: new Chacha20Poly1305(),
});

function viewOf(bytes: Bytes): Uint8Array {
  return ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
}

/** A buffer of its own: small ones of Node share theirs. */
function arrayBufferOf(bytes: Buffer): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}
