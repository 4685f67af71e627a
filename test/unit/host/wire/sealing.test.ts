/** The suite by node:crypto is the library's own to the byte: by RFC 9180, and each opening what the other sealed. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { Chacha20Poly1305 } from '@hpke/chacha20poly1305';
import { CipherSuite, DhkemX25519HkdfSha256, EncapError, HkdfSha256 } from '@hpke/core';
import { expect, test } from 'vitest';
import {
  type EnvelopeHead,
  generateSealKey,
  NotOpened,
  openSeal,
  type SealedContent,
  sealEnvelope,
} from '../../../../src/host/wire/sealing.ts';
import { sealSuite } from '../../../../src/host/wire/seal-suite.ts';
import { signerFromSeed } from '../../../../src/protocol/ed25519.ts';
import { LOW_ORDER } from './low-order-points.ts';

const librarySuite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Chacha20Poly1305(),
});

function hex(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(text, 'hex'));
}

test('RFC 9180, A.2.1: base mode of DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305', async () => {
  const { kem } = sealSuite;
  const info = hex('4f6465206f6e2061204772656369616e2055726e');
  const recipient = {
    privateKey: await kem.deserializePrivateKey(
      hex('8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb'),
    ),
    publicKey: await kem.deserializePublicKey(hex('4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a')),
  };
  const enc = hex('1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a');
  const ekm = {
    privateKey: await kem.deserializePrivateKey(
      hex('f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600'),
    ),
    publicKey: await kem.deserializePublicKey(enc),
  };
  const sender = await sealSuite.createSenderContext({ recipientPublicKey: recipient.publicKey, info, ekm });
  const plaintext = hex('4265617574792069732074727574682c20747275746820626561757479');
  const aad = hex('436f756e742d30');
  const sealed = new Uint8Array(await sender.seal(plaintext, aad));
  expect(Buffer.from(sealed).toString('hex')).toBe(
    '1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28',
  );
  const receiver = await sealSuite.createRecipientContext({ recipientKey: recipient, enc, info });
  expect(new Uint8Array(await receiver.open(sealed, aad))).toEqual(plaintext);
});

test.each([0, 1, 300_000])('what one of the two suites seals, of %i bytes, the other opens', async (length) => {
  const [plaintext, aad] = [new Uint8Array(randomBytes(length)), new Uint8Array(randomBytes(20))];
  const info = new Uint8Array(randomBytes(16));
  for (const [sealing, opening] of [
    [sealSuite, librarySuite],
    [librarySuite, sealSuite],
  ] as const) {
    const { publicKey: ofOpening, privateKey } = await opening.kem.generateKeyPair();
    const publicKey = await sealing.kem.deserializePublicKey(await opening.kem.serializePublicKey(ofOpening));
    const { enc, ct } = await sealing.seal({ recipientPublicKey: publicKey, info }, plaintext, aad);
    const opened = await opening.open({ recipientKey: privateKey, enc, info }, ct, aad);
    expect(Buffer.from(opened).equals(plaintext)).toBe(true);
  }
});

test('with a key whose secret with any other is zero nothing is sealed or opened, nor with another key', async () => {
  const signer = signerFromSeed(Buffer.alloc(32, 7));
  const [key, other] = [await generateSealKey(), await generateSealKey()];
  const ofKey = { encPub: key.enc_pub, secret: key.secret };
  const head: EnvelopeHead = {
    v: 1,
    type: 'envelope',
    id: 'm1',
    from: 'anna@alice',
    from_host_pubkey: signer.publicKey,
    to: ['bert@bob'],
    to_host: 'bob',
    subject: 'Nightly build',
    created_at: 1,
  };
  const content: SealedContent = {
    kind: 'message',
    needs_reply: false,
    origin: null,
    refs: [],
    reply_to: null,
    thread: 'm1',
    body: 'The build is red.',
  };
  const envelope = await sealEnvelope(head, content, key.enc_pub, signer);
  expect(JSON.parse((await openSeal(envelope, ofKey)).toString('utf8'))).toEqual(content);
  for (const lowOrder of LOW_ORDER) {
    const enc = Buffer.from(lowOrder, 'hex').toString('base64');
    await expect(openSeal({ ...envelope, sealed: { ...envelope.sealed, enc } }, ofKey)).rejects.toThrow(NotOpened);
    await expect(sealEnvelope(head, content, enc, signer)).rejects.toThrow(EncapError);
  }
  await expect(openSeal(envelope, { encPub: other.enc_pub, secret: other.secret })).rejects.toThrow(NotOpened);
  await expect(openSeal(envelope, { encPub: key.enc_pub, secret: other.secret })).rejects.toThrow(NotOpened);
});

/** A process that waits for itself never ends. */
const HANGS_AFTER_MS = 90_000;
const MANY = 12_000;

test('a process that collects garbage again and again while it makes keys does not wait for itself', async () => {
  const program = join(import.meta.dirname, 'many-seal-keys.ts');
  const flags = ['--gc-global', '--max-semi-space-size=1', '--import', 'tsx'];
  const child = spawn(process.execPath, [...flags, program, String(MANY)], {
    timeout: HANGS_AFTER_MS,
    stdio: 'inherit',
  });
  expect(await once(child, 'close')).toEqual([0, null]);
});
