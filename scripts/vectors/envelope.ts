/**
 * Sealed envelopes with a fixed one-time key, so that a client can seal the same bytes and not only open them.
 *
 * `sealEnvelope` has no place for such a key, and must not: a reader of two messages under one key can open both.
 * So it is sealed here with the suite and the info of sealing.ts, and opened with `openSeal` itself.
 */
import { strict as assert } from 'node:assert';
import {
  type Envelope,
  type EnvelopeHead,
  openSeal,
  SEAL_ALGORITHM,
  SEAL_INFO,
  type Sealed,
  type SealedContent,
  sealKeyId,
} from '../../src/host/wire/sealing.ts';
import { sealSuite } from '../../src/host/wire/seal-suite.ts';
import { signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { encodeBase64, sha256Hex } from '../../src/protocol/encodings.ts';
import { leafHash } from '../../src/protocol/merkle.ts';
import { type SeenEntry, afterOf, makeKnew, noteHash } from '../../src/protocol/seen.ts';
import { canonicalBytes, canonicalJson } from '../../src/protocol/documents.ts';
import {
  AT,
  EPOCH,
  type Party,
  type SealKey,
  alice,
  bob,
  bobSealKey,
  carol,
  carolSealKey,
  firstEphemeralKey,
  hostOf,
  relay,
  secondEphemeralKey,
  secondRelay,
  thirdEphemeralKey,
} from './parties.ts';

export interface EnvelopeStory {
  head: EnvelopeHead;
  content: SealedContent;
  from: Party;
  target: Party;
  targetKey: SealKey;
  ephemeralKey: SealKey;
}

/** The story that alice writes to bob, in the session too. */
export const FIRST_STORY: EnvelopeStory = {
  head: {
    v: 1,
    type: 'envelope',
    id: 'm1',
    from: `builder@${alice.host}`,
    from_host_pubkey: alice.signer.publicKey,
    to: [`reviewer@${bob.host}`],
    to_host: bob.host,
    subject: 'Nightly build',
    created_at: AT,
  },
  content: {
    kind: 'request',
    needs_reply: true,
    origin: null,
    refs: [],
    reply_to: null,
    thread: 'm1',
    body: 'The build is red.',
  },
  from: alice,
  target: bob,
  targetKey: bobSealKey,
  ephemeralKey: firstEphemeralKey,
};

const SECOND_STORY: EnvelopeStory = {
  head: {
    ...FIRST_STORY.head,
    id: 'm2',
    to: [`build.bot_2@${carol.host}`, `reviewer@${carol.host}`],
    to_host: carol.host,
    subject: 'gr\u00fc\u00dfe \u{1f4ee}',
    created_at: AT + 1,
  },
  content: {
    kind: 'reply',
    needs_reply: false,
    origin: 'external',
    refs: ['https://example.org/a?b=c', 'm0'],
    reply_to: 'm0',
    thread: 'm0',
    body: 'Zeile 1\nZeile 2 \u{1f4ee} \u20ac "q" \\',
  },
  from: alice,
  target: carol,
  targetKey: carolSealKey,
  ephemeralKey: secondEphemeralKey,
};

/** What a host has seen of a relay: its head at some size, signed after a note that the host had before. */
function seenOf({ signer }: Party): SeenEntry {
  const headAt = (size: number, after?: Buffer): string =>
    signCheckpoint({ epoch: EPOCH, size, rootHash: leafHash(Buffer.of(size)), ...(after && { after }) }, signer);
  const knew = makeKnew([noteHash(headAt(16))], (count) => Buffer.alloc(count, 0x51));
  return { relay: signer.publicKey, checkpoint: headAt(17, afterOf(knew)), knew: encodeBase64(knew) };
}

export const SEEN_ENTRY = seenOf(relay);
export const SECOND_SEEN_ENTRY = seenOf(secondRelay);

const THIRD_STORY: EnvelopeStory = {
  ...FIRST_STORY,
  head: { ...FIRST_STORY.head, id: 'm3', created_at: AT + 2 },
  content: { ...FIRST_STORY.content, thread: 'm3', seen: [SEEN_ENTRY] },
  ephemeralKey: thirdEphemeralKey,
};

/** What is sealed under a one-time key that is fixed. */
export async function sealedOnce(
  { targetKey, ephemeralKey, info }: { targetKey: SealKey; ephemeralKey: SealKey; info: Buffer },
  plaintext: Buffer,
  additional: Buffer,
): Promise<Sealed> {
  const { kem } = sealSuite;
  const context = await sealSuite.createSenderContext({
    recipientPublicKey: await kem.deserializePublicKey(keyBytes(targetKey.encPub)),
    info,
    ekm: {
      privateKey: await kem.deserializePrivateKey(keyBytes(ephemeralKey.secret)),
      publicKey: await kem.deserializePublicKey(keyBytes(ephemeralKey.encPub)),
    },
  });
  const ct = encodeBase64(new Uint8Array(await context.seal(plaintext, additional)));
  return { key_id: sealKeyId(targetKey.encPub), enc: encodeBase64(new Uint8Array(context.enc)), ct };
}

/** The envelope, always the same. Throws when it does not open again. */
export async function sealedAgain(story: EnvelopeStory): Promise<{ envelope: Envelope; wire: Buffer }> {
  const { head, content, from, targetKey, ephemeralKey } = story;
  const plaintext = canonicalBytes(content);
  const box = await sealedOnce({ targetKey, ephemeralKey, info: SEAL_INFO }, plaintext, canonicalBytes(head));
  const sealed = { ...box, alg: SEAL_ALGORITHM };
  const envelope = { ...head, hops: 0, sealed, sig: from.signer.sign(canonicalBytes({ ...head, sealed })) };
  assert.deepEqual(await openSeal(envelope, targetKey), plaintext);
  return { envelope, wire: canonicalBytes(envelope) };
}

async function envelopeCase(name: string, story: EnvelopeStory): Promise<object> {
  const { head, content, target, targetKey, ephemeralKey } = story;
  const { envelope, wire } = await sealedAgain(story);
  const { sig: signature, hops: _hops, ...unsigned } = envelope;
  return {
    name,
    target: { name: target.host, pubkey: target.signer.publicKey, enc_pub: targetKey.encPub, secret: targetKey.secret },
    ephemeral_secret: ephemeralKey.secret,
    info: SEAL_INFO.toString('utf8'),
    aad: canonicalJson(head),
    content,
    plaintext: canonicalJson(content),
    document: unsigned,
    canonical: canonicalJson(unsigned),
    signature,
    envelope,
    wire: wire.toString('utf8'),
    wire_hash: sha256Hex(wire),
    push_item: {
      kind: 'envelope',
      item_id: head.id,
      targets: [{ host_pubkey: target.signer.publicKey, wire_b64: encodeBase64(wire) }],
    },
  };
}

export async function envelopeVectors() {
  return {
    description: [
      'Sealed envelopes: HPKE (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, one',
      'message. The key sealed to is "target.enc_pub", its private key "target.secret"; "info" is the info text,',
      '"aad" the associated data (the RFC 8785 form of the envelope without sealed, sig and hops), "plaintext" what',
      'is sealed (the RFC 8785 form of "content"). "ephemeral_secret" is the one-time private key of the sender,',
      'which is fixed here so that you can seal the same bytes: never do so outside a test. "document" (the envelope',
      'without sig and hops) is what the host signs. "wire" is the RFC 8785 form of the whole envelope, and',
      '"push_item" the element of "items" in POST /v2/relay/items. "seen" in the content is what the sending host has',
      'seen of its relay: of each a checkpoint that it signed, and the bytes whose SHA-256 the line "after" has.',
    ],
    host: hostOf(alice),
    cases: [
      await envelopeCase('a short message', FIRST_STORY),
      await envelopeCase('two agents of one host, and texts outside ASCII', SECOND_STORY),
      await envelopeCase('a message with what its host has seen of the relay', THIRD_STORY),
    ],
  };
}

function keyBytes(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(text, 'base64'));
}
