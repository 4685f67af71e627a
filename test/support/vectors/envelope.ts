/**
 * The vectors of sealed envelopes, sealed and opened again by an HPKE of its own: RFC 9180 written out over
 * node:crypto, base mode and one message, as somebody would in a language without a library for it.
 */
import {
  type KeyObject,
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  verify,
} from 'node:crypto';
import { expect } from 'vitest';
import { receiptChecks } from './documents.ts';
import {
  type Check,
  type Document,
  type HostKeys,
  type SignedCase,
  type VectorChecks,
  base64Of,
  bytes,
  each,
  eachSigned,
  expectSigned,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from './oracle.ts';

/** What was sealed, and all that sealing it again takes. */
interface SealedCase {
  name: string;
  target: { name: string; pubkey: string; enc_pub: string; secret: string };
  ephemeral_secret: string;
  info: string;
  aad: string;
  plaintext: string;
}

interface EnvelopeCase extends SignedCase, SealedCase {
  content: Document;
  envelope: Document & { sealed: { key_id: string; alg: string; enc: string; ct: string } };
  wire: string;
  wire_hash: string;
  push_item: Document;
}

const TAG_BYTES = 16;
/** RFC 9180, section 7: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305. */
const KEM_SUITE = Buffer.concat([Buffer.from('KEM'), Buffer.from('0020', 'hex')]);
const HPKE_SUITE = Buffer.concat([Buffer.from('HPKE'), Buffer.from('002000010003', 'hex')]);

function privateKey(secret: Buffer): KeyObject {
  const der = Buffer.concat([Buffer.from('302e020100300506032b656e04220420', 'hex'), secret]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}

const [X25519, ED25519] = ['302a300506032b656e032100', '302a300506032b6570032100'];

function publicKey(raw: Buffer, prefix = X25519): KeyObject {
  const der = Buffer.concat([Buffer.from(prefix, 'hex'), raw]);
  return createPublicKey({ key: der, format: 'der', type: 'spki' });
}

function hmac(key: Uint8Array, ...parts: Uint8Array[]): Buffer {
  return createHmac('sha256', key).update(Buffer.concat(parts)).digest();
}

function labeledExtract(suite: Buffer, salt: Buffer, label: string, secret: Buffer): Buffer {
  return hmac(salt, Buffer.from('HPKE-v1'), suite, Buffer.from(label), secret);
}

/** At most one block of HKDF, which is all that this suite asks for. */
function labeledExpand(suite: Buffer, key: Buffer, label: string, info: Buffer, length: number): Buffer {
  const size = Buffer.from([length >> 8, length & 255]);
  return hmac(key, size, Buffer.from('HPKE-v1'), suite, Buffer.from(label), info, Buffer.from([1])).subarray(0, length);
}

interface MessageKeys {
  key: Buffer;
  nonce: Buffer;
}

function messageKeys(secret: Buffer, ofOther: Buffer, enc: Buffer, recipient: Buffer, info: string): MessageKeys {
  const exchanged = diffieHellman({ privateKey: privateKey(secret), publicKey: publicKey(ofOther) });
  const none = Buffer.alloc(0);
  const extracted = labeledExtract(KEM_SUITE, none, 'eae_prk', exchanged);
  const shared = labeledExpand(KEM_SUITE, extracted, 'shared_secret', Buffer.concat([enc, recipient]), 32);
  const context = Buffer.concat([
    Buffer.from([0]),
    labeledExtract(HPKE_SUITE, none, 'psk_id_hash', none),
    labeledExtract(HPKE_SUITE, none, 'info_hash', Buffer.from(info)),
  ]);
  const root = labeledExtract(HPKE_SUITE, shared, 'secret', none);
  return {
    key: labeledExpand(HPKE_SUITE, root, 'key', context, 32),
    nonce: labeledExpand(HPKE_SUITE, root, 'base_nonce', context, 12),
  };
}

function seal({ key, nonce }: MessageKeys, aad: string, plaintext: string): Buffer {
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(utf8(aad), { plaintextLength: Buffer.byteLength(plaintext) });
  return Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

function open({ key, nonce }: MessageKeys, aad: string, sealed: Buffer): string {
  const decipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(utf8(aad), { plaintextLength: sealed.length - TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8');
}

const { host, cases } = readVectors('envelope.json') as { host: HostKeys; cases: EnvelopeCase[] };

interface Box {
  key_id: string;
  enc: string;
  ct: string;
}

/** That what was sealed is that, under this info, for who opens it and for who seals it. */
function sealChecks<C extends SealedCase>(of: readonly C[], infoText: string, boxOf: (one: C) => Box): Check[] {
  const opened = each(of, 'the recipient opens it', (one) => {
    const { target, info, aad, plaintext } = one;
    const { enc, ct, key_id } = boxOf(one);
    const [recipient, sender] = [bytes(target.enc_pub), bytes(enc)];
    const keys = messageKeys(bytes(target.secret), sender, sender, recipient, info);
    expect(open(keys, aad, bytes(ct))).toBe(plaintext);
    expect(() => open(keys, `${aad} `, bytes(ct))).toThrow(/authenticate/);
    expect(info).toBe(infoText);
    expect(key_id).toBe(sha256Of(recipient).slice(0, 16));
  });
  const sealed = each(of, 'the sender seals the same bytes', (one) => {
    const { target, ephemeral_secret, info, aad, plaintext } = one;
    const { enc, ct } = boxOf(one);
    const recipient = bytes(target.enc_pub);
    const keys = messageKeys(bytes(ephemeral_secret), recipient, bytes(enc), recipient, info);
    expect(seal(keys, aad, plaintext).toString('base64')).toBe(ct);
    const spki = createPublicKey(privateKey(bytes(ephemeral_secret))).export({ format: 'der', type: 'spki' });
    expect(spki.subarray(-32).toString('base64')).toBe(enc);
  });
  return [...opened, ...sealed];
}

interface ShownCase extends SignedCase, SealedCase {
  host: HostKeys;
  document: Document & { sender_host_pubkey: string };
  /** What `seen` shows; null before the host has a note. */
  entry?: Document | null;
  /** What `home` says. */
  home?: Document;
}

/** The relay signed the checkpoint of an entry, and the SHA-256 of `knew` stands in it. */
function expectEntry({ relay, checkpoint, knew }: Document): void {
  const [text = '', signature = ''] = String(checkpoint).split('\n\n');
  expect(text.split('\n')[3]).toBe(`after ${Buffer.from(sha256Of(bytes(String(knew))), 'hex').toString('base64')}`);
  expect(bytes(String(knew))).toHaveLength(144);
  const signed = bytes(signature.trimEnd().split(' ').at(-1) ?? '').subarray(4);
  expect(verify(null, utf8(`${text}\n`), publicKey(bytes(String(relay)), ED25519), signed)).toBe(true);
}

const IS_BOX = { key_id: expect.any(String), enc: expect.any(String), ct: expect.any(String) } as Document;

/** What `member` of a receipt shows: each of one of these sizes, between these two hosts. */
function shownChecks<C extends ShownCase>(
  of: readonly C[],
  member: 'seen' | 'home',
  sizeOf: (one: C) => number,
): Check[] {
  const boxOf = ({ document }: C): Box => document[member] as Box;
  const plain = each(of, 'says what it is to say, in as much room as it must', (one) => {
    const { document, host: from, target, aad, plaintext } = one;
    const said = one[member === 'seen' ? 'entry' : 'home'] ?? null;
    expect(document.sender_host_pubkey).toBe(target.pubkey);
    expect(aad).toBe(jcs({ v: 1, type: `mail-${member}`, from: from.pubkey, to: target.pubkey }));
    expect(plaintext.trimEnd()).toBe(said ? jcs(said) : '');
    expect(utf8(plaintext)).toHaveLength(sizeOf(one));
    expect(bytes(boxOf(one).ct)).toHaveLength(sizeOf(one) + TAG_BYTES);
  });
  return [...plain, ...sealChecks(of, `mail-${member}-v1`, boxOf), ...receiptChecks(of, { [member]: IS_BOX })];
}

function seen(): VectorChecks {
  const { cases: of } = readVectors('seen.json') as { cases: ShownCase[] };
  const entries = each(of, 'the relay signed it', ({ entry }) => {
    expect(entry).toBeDefined();
    if (entry) expectEntry(entry);
  });
  return { file: 'seen.json', checks: [...shownChecks(of, 'seen', () => 704), ...entries] };
}

interface HeardCase extends SignedCase {
  host: HostKeys;
  entries: Document[];
  texts: string[];
}

function heard(): VectorChecks {
  const { cases: of } = readVectors('heard.json') as { cases: HeardCase[] };
  const marks = each(of, 'its marks are of what was shown', ({ document, entries, texts }) => {
    expect(entries.length).toBeGreaterThan(0);
    for (const entry of entries) expectEntry(entry);
    expect(texts).toEqual(entries.map(jcs));
    const digests = texts.map((text) => Buffer.from(sha256Of(utf8(text)), 'hex').subarray(0, 16));
    expect(document['heard']).toEqual(digests.map((digest) => digest.toString('base64url')));
  });
  const checks = receiptChecks(of, { heard: expect.any(Array) as string[] });
  return { file: 'heard.json', checks: [...marks, ...checks] };
}

function home(): VectorChecks {
  const { cases: of } = readVectors('home.json') as { cases: ShownCase[] };
  const documents = each(of, 'the host signed its document', async ({ host: from, home: said }) => {
    const { doc, sig, known } = said ?? {};
    expect(Number.isSafeInteger(known)).toBe(true);
    if (doc === undefined) return;
    expect(doc).toMatchObject({ v: 1, type: 'home-relays', host_pubkey: from.pubkey });
    await expectSigned(utf8(jcs(doc)), String(sig), from);
  });
  const name = 'has both sizes';
  const run = (): void => expect(of.map((one) => one.home?.['doc'] !== undefined)).toEqual([false, true]);
  const checks = shownChecks(of, 'home', (one) => (one.home?.['doc'] === undefined ? 128 : 2_176));
  return { file: 'home.json', checks: [...checks, ...documents, { name, run }] };
}

const content = each(cases, 'its content', ({ content: written, plaintext, envelope }) => {
  expect(plaintext).toBe(jcs(written));
  expect(envelope.sealed.alg).toBe('HPKE-v1/X25519-HKDF-SHA256/HKDF-SHA256/ChaCha20Poly1305');
  for (const entry of (written['seen'] ?? []) as Document[]) expectEntry(entry);
});
const sealing = sealChecks(cases, 'mail-envelope-v1', ({ envelope }) => envelope.sealed);

const HEAD_MEMBERS = ['created_at', 'from', 'from_host_pubkey', 'id', 'subject', 'to', 'to_host', 'type', 'v'];

/** Signed, and pushed as it is. */
const pushed = eachSigned(
  cases,
  ({ envelope, target, signature }) => {
    const { sealed: box, hops: _hops, sig: _sig, ...head } = envelope;
    const wire = jcs(envelope);
    const targets = [{ host_pubkey: target.pubkey, wire_b64: base64Of(wire) }];
    return {
      document: { ...head, sealed: box },
      signed: [[signature, host]],
      members: {
        aad: jcs(head),
        wire,
        wire_hash: sha256Of(utf8(wire)),
        push_item: { kind: 'envelope', item_id: head['id'], targets },
      },
    };
  },
  ({ envelope, target, signature }) => {
    const { sealed: _sealed, hops, sig, ...head } = envelope;
    expect(Object.keys(head).toSorted()).toEqual(HEAD_MEMBERS);
    expect(head).toMatchObject({ v: 1, type: 'envelope', from_host_pubkey: host.pubkey, to_host: target.name });
    expect(hops).toBe(0);
    expect(sig).toBe(signature);
  },
);

const keysOnce = {
  name: 'no one-time key is used twice',
  run: () => expect(new Set(cases.map(({ ephemeral_secret }) => ephemeral_secret)).size).toBe(cases.length),
};

export const SEALED: readonly VectorChecks[] = [
  { file: 'envelope.json', checks: [...content, ...sealing, ...pushed, keysOnce] },
  seen(),
  heard(),
  home(),
];
