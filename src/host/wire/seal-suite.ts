/**
 * The suite of sealed mail: HPKE (RFC 9180) by its library, and what it rests on by libsodium where that loads, and by
 * node:crypto.
 *
 * Through Web Cryptography, as the library does it, each step imports a key object and runs as a job of the thread
 * pool, a dozen of them for a message: that costs several times as much as the arithmetic.
 */
import {
  type KeyObject,
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
} from 'node:crypto';
import { Chacha20Poly1305 } from '@hpke/chacha20poly1305';
import { CipherSuite, DeserializeError, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core';
import { systemRandom } from '../../lib/clock.ts';
import { libsodium } from '../../protocol/libsodium.ts';

type Bytes = Parameters<HkdfSha256['extract']>[0];
type LibraryKey = Parameters<DhkemX25519HkdfSha256['serializePublicKey']>[0];
type LibraryKeyPair = Awaited<ReturnType<DhkemX25519HkdfSha256['generateKeyPair']>>;
type Aead = ReturnType<Chacha20Poly1305['createEncryptionContext']>;

const HASH_BYTES = 32;
const NO_BYTES = Buffer.alloc(0);

/** Labels of what a key schedule extracts from nothing but its PSK id and its info: the same for all mail. */
const OF_ALL_MAIL: ReadonlySet<string> = new Set(['psk_id_hash', 'info_hash']);
/** The PSK id, and the infos of mail and of both that receipts show. */
const OF_ALL_MAIL_MAX = 4;

class NodeHkdfSha256 extends HkdfSha256 {
  readonly #ofAllMail = new Map<string, Promise<ArrayBuffer>>();
  /** By the keying material: a key schedule expands what it extracts from it three times. */
  readonly #extracted = new WeakMap<object, { salt: Bytes; key: Promise<ArrayBuffer> }>();

  override labeledExtract(salt: Bytes, label: Uint8Array<ArrayBuffer>, ikm: Bytes): Promise<ArrayBuffer> {
    const name = Buffer.from(label).toString('latin1');
    const extract = (): Promise<ArrayBuffer> => this.extract(salt, this.buildLabeledIkm(label, viewOf(ikm)));
    if (!OF_ALL_MAIL.has(name) || salt.byteLength > 0) return extract();
    const wanted = `${name} ${Buffer.from(viewOf(ikm)).toString('latin1')}`;
    const known = this.#ofAllMail.get(wanted);
    if (known) return known;
    const extracted = extract();
    if (this.#ofAllMail.size < OF_ALL_MAIL_MAX) this.#ofAllMail.set(wanted, extracted);
    return extracted;
  }

  /** An empty salt equals one of zeros: HMAC pads its key with zeros. */
  override extract(salt: Bytes, ikm: Bytes): Promise<ArrayBuffer> {
    return Promise.resolve(arrayBufferOf(createHmac('sha256', viewOf(salt)).update(viewOf(ikm)).digest()));
  }

  /** RFC 5869. Two to three times as fast as `hkdfSync`, which makes a key object and a job of each call. */
  override async extractAndExpand(salt: Bytes, ikm: Bytes, info: Bytes, length: number): Promise<ArrayBuffer> {
    const key = viewOf(await this.#keyFrom(salt, ikm));
    const blocks: Buffer[] = [];
    for (let at = 1; at <= Math.ceil(length / HASH_BYTES); at++) {
      const hmac = createHmac('sha256', key).update(blocks.at(-1) ?? NO_BYTES);
      blocks.push(
        hmac
          .update(viewOf(info))
          .update(Buffer.from([at]))
          .digest(),
      );
    }
    return arrayBufferOf(Buffer.concat(blocks).subarray(0, length));
  }

  #keyFrom(salt: Bytes, ikm: Bytes): Promise<ArrayBuffer> {
    const known = this.#extracted.get(ikm);
    if (known?.salt === salt) return known.key;
    const key = this.extract(salt, ikm);
    this.#extracted.set(ikm, { salt, key });
    return key;
  }
}

const KEY_BYTES = 32;

/** As a JSON Web Key (RFC 8037): OpenSSL needs ten times as long to read a key in DER. */
const CURVE = { kty: 'OKP', crv: 'X25519' } as const;

/** A half of an X25519 pair. The library hands keys on and never looks into them. */
class X25519Key {
  readonly raw: ArrayBuffer;
  readonly #read: () => KeyObject;
  #keyObject: KeyObject | undefined;

  private constructor(raw: ArrayBuffer, read: () => KeyObject) {
    this.raw = raw;
    this.#read = read;
  }

  /** Of an ephemeral key nothing but the bytes is ever wanted. */
  get keyObject(): KeyObject {
    return (this.#keyObject ??= this.#read());
  }

  static public(bytes: Bytes): LibraryKey {
    return X25519Key.#of(bytes, (x) => createPublicKey({ key: { ...CURVE, x }, format: 'jwk' }));
  }

  /** OpenSSL computes the public half from `bytes` and ignores the one that is named. */
  static private(bytes: Bytes): LibraryKey {
    return X25519Key.#of(bytes, (d) => createPrivateKey({ key: { ...CURVE, x: d, d }, format: 'jwk' }));
  }

  static #of(bytes: Bytes, read: (base64Url: string) => KeyObject): LibraryKey {
    const { byteLength } = bytes;
    if (byteLength !== KEY_BYTES) throw new DeserializeError(new RangeError('an X25519 key has 32 bytes'));
    const raw = new Uint8Array(viewOf(bytes)).buffer;
    return new X25519Key(raw, () => read(Buffer.from(raw).toString('base64url')));
  }

  static read(key: LibraryKey): X25519Key {
    if (!(key instanceof X25519Key)) throw new TypeError('invariant: a key comes from the KEM of this suite');
    return key;
  }
}

/** RFC 9180, section 4.1: `"KEM"` and the id of the KEM, in two bytes. */
const KEM_SUITE_ID = Buffer.from([0x4b, 0x45, 0x4d, 0x00, 0x20]);

class NodeDhkem extends DhkemX25519HkdfSha256 {
  constructor() {
    super();
    this._kdf = new NodeHkdfSha256();
    this._kdf.init(KEM_SUITE_ID);
    const library = this._prim;
    this._prim = {
      serializePublicKey: (key) => Promise.resolve(X25519Key.read(key).raw),
      serializePrivateKey: (key) => Promise.resolve(X25519Key.read(key).raw),
      deserializePublicKey: async (bytes) => X25519Key.public(bytes),
      deserializePrivateKey: async (bytes) => X25519Key.private(bytes),
      importKey: async (_format, _key, _isPublic) => {
        throw new DeserializeError(new Error('keys come as their 32 bytes'));
      },
      generateKeyPair: async () => newKeyPair(),
      // Test vectors alone derive a key from given bytes.
      deriveKeyPair: async (ikm) => {
        const { publicKey, privateKey } = await library.deriveKeyPair(ikm);
        return {
          publicKey: X25519Key.public(await library.serializePublicKey(publicKey)),
          privateKey: X25519Key.private(await library.serializePrivateKey(privateKey)),
        };
      },
      derivePublicKey: async (key) => publicOf(X25519Key.read(key)),
      dh: async (privateKey, publicKey) => sharedSecret(X25519Key.read(privateKey), X25519Key.read(publicKey)),
    };
  }
}

/**
 * Any 32 bytes are a private key (RFC 7748, section 5). A pair by `generateKeyPairSync` must not be exported: the
 * collector may free what made the pair while its lock is held, takes that lock again, and the process waits for itself
 * for ever (seen in Node.js 20.20 within 10,000 exports).
 */
function newKeyPair(): LibraryKeyPair {
  const privateKey = X25519Key.private(systemRandom(KEY_BYTES));
  return { publicKey: publicOf(X25519Key.read(privateKey)), privateKey };
}

function publicOf(privateKey: X25519Key): LibraryKey {
  const sodium = libsodium();
  if (sodium) {
    const bytes = new Uint8Array(KEY_BYTES);
    sodium.crypto_scalarmult_base(bytes, viewOf(privateKey.raw));
    return X25519Key.public(bytes);
  }
  const { x = '' } = privateKey.keyObject.export({ format: 'jwk' });
  return X25519Key.public(Buffer.from(x, 'base64url'));
}

/** Throws where the result is zero: both libraries refuse it, as RFC 7748 says. */
function sharedSecret(privateKey: X25519Key, publicKey: X25519Key): ArrayBuffer {
  const sodium = libsodium();
  if (!sodium) {
    return arrayBufferOf(diffieHellman({ privateKey: privateKey.keyObject, publicKey: publicKey.keyObject }));
  }
  const shared = new Uint8Array(KEY_BYTES);
  sodium.crypto_scalarmult(shared, viewOf(privateKey.raw), viewOf(publicKey.raw));
  return shared.buffer;
}

const CIPHER = 'chacha20-poly1305';
const TAG = { authTagLength: 16 };

class NodeChacha20Poly1305 extends Chacha20Poly1305 {
  override createEncryptionContext(key: Bytes): Aead {
    return {
      seal: async (iv, data, aad) => {
        const sodium = libsodium();
        if (sodium) {
          const both = new Uint8Array(data.byteLength + TAG.authTagLength);
          const parts = [viewOf(data), viewOf(aad)] as const;
          sodium.crypto_aead_chacha20poly1305_ietf_encrypt(both, ...parts, null, viewOf(iv), viewOf(key));
          return both.buffer;
        }
        const cipher = createCipheriv(CIPHER, viewOf(key), viewOf(iv), TAG);
        cipher.setAAD(viewOf(aad), { plaintextLength: data.byteLength });
        const sealed = [cipher.update(viewOf(data)), cipher.final()];
        return arrayBufferOf(Buffer.concat([...sealed, cipher.getAuthTag()]));
      },
      open: async (iv, data, aad) => {
        const length = data.byteLength - TAG.authTagLength;
        if (length < 0) throw new RangeError('shorter than its tag');
        const sodium = libsodium();
        if (sodium) {
          const message = new Uint8Array(length);
          const parts = [viewOf(data), viewOf(aad), viewOf(iv), viewOf(key)] as const;
          sodium.crypto_aead_chacha20poly1305_ietf_decrypt(message, null, ...parts);
          return message.buffer;
        }
        const decipher = createDecipheriv(CIPHER, viewOf(key), viewOf(iv), TAG);
        decipher.setAuthTag(viewOf(data).subarray(length));
        decipher.setAAD(viewOf(aad), { plaintextLength: length });
        const opened = decipher.update(viewOf(data).subarray(0, length));
        return arrayBufferOf(Buffer.concat([opened, decipher.final()]));
      },
    };
  }
}

export const sealSuite = new CipherSuite({
  kem: new NodeDhkem(),
  kdf: new NodeHkdfSha256(),
  aead: new NodeChacha20Poly1305(),
});

function viewOf(bytes: Bytes): Uint8Array {
  return ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
}

/** A copy with its own ArrayBuffer: small Node buffers share one. */
function arrayBufferOf(bytes: Buffer): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}
