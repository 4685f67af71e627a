/**
 * The floor of mail end to end: a program that does only the sealing, signing, verifying and synced writes of two
 * hosts, and of the relay between them, in one process and without a network. Writes that wait for a disk share the
 * next batch.
 *
 * Sealing is what HPKE does: an ephemeral key, a key agreement, two derivations, one encryption. It is by the same
 * libraries as that of hosts, and so are signatures.
 */
import { hkdfSync, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { type Signer, signerFromSeed, verifySignature } from '../src/protocol/ed25519.ts';
import { libsodium } from '../src/protocol/libsodium.ts';
import { GroupCommit } from './group-commit.ts';
import { BODY_BYTES } from './mail-host.ts';

const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const KEY_BYTES = 32;
const EMPTY = Buffer.alloc(0);

/** About as long as a receipt. */
const RECEIPT = Buffer.alloc(300, 'r');

/** About as long as the head of an envelope. */
const HEAD = Buffer.alloc(400, 'h');

interface MailWork {
  messages: number;
  senders: number;
  /** With the writes and receipts of a relay, for the message and for its receipt. */
  isRelayed: boolean;
}

/** An X25519 key. */
interface SealKey {
  secret: Buffer;
  publicKey: Buffer;
}

/** A host or a relay: its keys and its store. */
class Party {
  readonly seal = newSealKey();
  readonly #signer: Signer = signerFromSeed(randomBytes(KEY_BYTES));
  readonly #store: GroupCommit;
  #written = 0;

  constructor(level: ClassicLevel<Buffer, Buffer>) {
    this.#store = new GroupCommit(level);
  }

  sign(message: Buffer): string {
    return this.#signer.sign(message);
  }

  verify(message: Buffer, signature: string): void {
    if (!verifySignature(this.#signer.publicKey, message, signature)) throw new Error('a signature does not verify');
  }

  write(value: Buffer): Promise<void> {
    const key = Buffer.alloc(8);
    key.writeBigUInt64BE(BigInt(++this.#written));
    return this.#store.put([[key, value]]);
  }
}

/** Seconds from the first message to the last receipt. */
export async function mailFloor({ messages, senders, isRelayed }: MailWork): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const levels = ['alice', 'bob', 'relay'].map((name) => new ClassicLevel<Buffer, Buffer>(join(folder, name), BYTES));
  await Promise.all(levels.map((level) => level.open()));
  const [alice, bob, relay] = levels.map((level) => new Party(level)) as [Party, Party, Party];
  const body = Buffer.alloc(BODY_BYTES, 'x');
  const startedMs = performance.now();
  await Promise.all(
    Array.from({ length: senders }, async () => {
      for (let sent = 0; sent < messages / senders; sent++) await oneMessage({ alice, bob, relay, isRelayed }, body);
    }),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  await Promise.all(levels.map((level) => level.close()));
  await rm(folder, { recursive: true });
  return seconds;
}

const BYTES = { keyEncoding: 'buffer', valueEncoding: 'buffer' } as const;

interface Parties {
  alice: Party;
  bob: Party;
  relay: Party;
  isRelayed: boolean;
}

async function oneMessage({ alice, bob, relay, isRelayed }: Parties, body: Buffer): Promise<void> {
  const envelope = Buffer.concat([HEAD, sealed(body, bob.seal.publicKey)]);
  const signature = alice.sign(envelope);
  await alice.write(Buffer.concat([body, envelope, Buffer.from(signature)]));
  if (isRelayed) await relayed(envelope, relay);
  alice.verify(envelope, signature);
  const opened = unsealed(envelope.subarray(HEAD.length), bob.seal);
  const receipt = bob.sign(RECEIPT);
  await bob.write(Buffer.concat([opened, RECEIPT, Buffer.from(receipt)]));
  if (isRelayed) await relayed(RECEIPT, relay);
  bob.verify(RECEIPT, receipt);
  await alice.write(Buffer.concat([RECEIPT, Buffer.from(receipt)]));
}

/** The relay stores an item and signs a receipt for it, which the host that pushed it verifies. */
async function relayed(item: Buffer, relay: Party): Promise<void> {
  const written = relay.write(item);
  const accepted = relay.sign(RECEIPT);
  await written;
  relay.verify(RECEIPT, accepted);
}

const SODIUM = libsodium();
const ENC_BYTES = 32;

function sodium(): NonNullable<typeof SODIUM> {
  if (!SODIUM) throw new Error('the floor of mail is by libsodium, which does not load here');
  return SODIUM;
}

function newSealKey(): SealKey {
  const secret = randomBytes(KEY_BYTES);
  const publicKey = Buffer.alloc(KEY_BYTES);
  sodium().crypto_scalarmult_base(publicKey, secret);
  return { secret, publicKey };
}

function agreed(secret: Buffer, publicKey: Buffer): Buffer {
  const shared = Buffer.alloc(KEY_BYTES);
  sodium().crypto_scalarmult(shared, secret, publicKey);
  return shared;
}

function sealed(body: Buffer, to: Buffer): Buffer {
  const { secret, publicKey: enc } = newSealKey();
  const { key, nonce } = derived(agreed(secret, to), enc);
  const both = Buffer.alloc(ENC_BYTES + body.length + TAG_BYTES);
  enc.copy(both);
  sodium().crypto_aead_chacha20poly1305_ietf_encrypt(both.subarray(ENC_BYTES), body, EMPTY, null, nonce, key);
  return both;
}

function unsealed(envelope: Buffer, { secret }: SealKey): Buffer {
  const enc = envelope.subarray(0, ENC_BYTES);
  const { key, nonce } = derived(agreed(secret, enc), enc);
  const body = Buffer.alloc(envelope.length - ENC_BYTES - TAG_BYTES);
  sodium().crypto_aead_chacha20poly1305_ietf_decrypt(body, null, envelope.subarray(ENC_BYTES), EMPTY, nonce, key);
  return body;
}

function derived(secret: Buffer, enc: Buffer): { key: Buffer; nonce: Buffer } {
  const shared = hkdfSync('sha256', secret, EMPTY, enc, KEY_BYTES);
  const both = Buffer.from(hkdfSync('sha256', Buffer.from(shared), EMPTY, EMPTY, KEY_BYTES + NONCE_BYTES));
  return { key: both.subarray(0, KEY_BYTES), nonce: both.subarray(KEY_BYTES) };
}
