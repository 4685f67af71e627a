/** The vectors of what hosts sign, checked without the code that made them. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  type Document,
  type HostKeys,
  type Keys,
  type SignedCase,
  base64Of,
  bytes,
  expectSigned,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from '../../support/vector-oracle.ts';

interface HostFile<C> {
  host: HostKeys;
  cases: (SignedCase & C)[];
}

const senderFile = readVectors('sender-list.json') as HostFile<{ request: Document }>;
const encKeyFile = readVectors('enc-key.json') as HostFile<{ secret: string; request: Document; shown: Document }>;
const cloudKeyFile = readVectors('cloud-key.json') as HostFile<{
  jkt: string;
  proof_without_token: { cloud_key: Record<string, string>; cert: string };
}>;
const rotationFile = readVectors('rotation.json') as {
  cases: {
    name: string;
    old_key: Keys;
    new_key: Keys;
    document: Document;
    canonical: string;
    old_sig: string;
    new_sig: string;
    request: Document;
  }[];
};
const receiptFile = readVectors('delivery-receipt.json') as {
  cases: (SignedCase & { host: HostKeys; wire: string; wire_hash: string; push_item: Document })[];
};

const integer = expect.any(Number) as number;

describe('sender-list.json', () => {
  it.each(senderFile.cases)('$name', async ({ document, canonical, signature, request }) => {
    const { note: _note, ...known } = document;
    expect(known).toEqual({
      v: 1,
      type: 'relay-senders',
      host_pubkey: senderFile.host.pubkey,
      senders: expect.any(Array) as unknown[],
      iat: integer,
    });
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), signature, senderFile.host);
    expect(request).toEqual({ list: document, sig: signature });
  });

  it('has the empty list, a list whose order is not that of the letters, and a member that nobody knows', () => {
    const lists = senderFile.cases.map(({ document }) => document['senders'] as string[]);
    expect(lists.some((list) => list.length === 0)).toBe(true);
    expect(lists.some((list) => list.join() !== list.toSorted().join())).toBe(true);
    expect(senderFile.cases.some(({ canonical }) => canonical.includes('"note":'))).toBe(true);
  });
});

describe('enc-key.json', () => {
  it.each(encKeyFile.cases)('$name', async ({ secret, document, canonical, signature, request, shown }) => {
    const { pubkey } = encKeyFile.host;
    const { enc_pub, at } = document;
    expect(document).toEqual({ v: 1, type: 'relay-enc-key', host_pubkey: pubkey, enc_pub, at: integer });
    expect(await publicOf(secret)).toBe(enc_pub);
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), signature, encKeyFile.host);
    expect(request).toEqual({ enc_pub, at, sig: signature });
    expect(shown).toEqual({ enc_key: { host_pubkey: pubkey, enc_pub, at, sig: signature } });
  });
});

/** By WebCrypto: the base point times the secret. */
async function publicOf(secret: string): Promise<string> {
  const { subtle } = globalThis.crypto;
  const basePoint = new Uint8Array(32).fill(9, 0, 1);
  const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b656e04220420', 'hex'), bytes(secret)]);
  const privateKey = await subtle.importKey('pkcs8', pkcs8, 'X25519', false, ['deriveBits']);
  const publicKey = await subtle.importKey('raw', basePoint, 'X25519', false, []);
  const shared = await subtle.deriveBits({ name: 'X25519', public: publicKey }, privateKey, 256);
  return Buffer.from(shared).toString('base64');
}

/** RFC 7638, section 3.2: the required members of each kind of key. */
const REQUIRED_MEMBERS: Record<string, string[]> = { EC: ['crv', 'kty', 'x', 'y'], OKP: ['crv', 'kty', 'x'] };

describe('cloud-key.json', () => {
  it.each(cloudKeyFile.cases)('$name', async ({ jkt, document, canonical, signature, proof_without_token }) => {
    const { cloud_key: key, cert } = proof_without_token;
    const required = (REQUIRED_MEMBERS[key['kty'] ?? ''] ?? []).map((name) => [name, key[name]]);
    expect(
      createHash('sha256')
        .update(jcs(Object.fromEntries(required)))
        .digest('base64url'),
    ).toBe(jkt);
    expect(document).toEqual({ v: 1, type: 'relay-cloud-key', host_pubkey: cloudKeyFile.host.pubkey, jkt });
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), signature, cloudKeyFile.host);
    expect(cert).toBe(signature);
  });

  it('has the key of RFC 8037, appendix A.3, with the thumbprint that stands there', () => {
    expect(cloudKeyFile.cases.map(({ jkt }) => jkt)).toContain('kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k');
  });
});

describe('rotation.json', () => {
  it.each(rotationFile.cases)('$name', async ({ old_key, new_key, document, canonical, old_sig, new_sig, request }) => {
    const keys = { old_pubkey: old_key.pubkey, new_pubkey: new_key.pubkey };
    expect(document).toEqual({ v: 1, type: 'host-rotation', ...keys, iat: integer });
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), old_sig, old_key);
    await expectSigned(utf8(canonical), new_sig, new_key);
    expect(request).toEqual({ rotation: { rec: document, old_sig, new_sig } });
  });

  it('is a chain: each goes on from the key that the one before went to', () => {
    const { cases } = rotationFile;
    for (const [position, { old_key }] of cases.slice(1).entries()) {
      expect(old_key).toEqual(cases[position]?.new_key);
    }
    expect(new Set(cases.flatMap(({ old_key, new_key }) => [old_key.pubkey, new_key.pubkey])).size).toBe(
      cases.length + 1,
    );
  });
});

describe('delivery-receipt.json', () => {
  it.each(receiptFile.cases)('$name', async ({ host, document, canonical, signature, wire, wire_hash, push_item }) => {
    const { msg, recipient, seq, sender_host_pubkey } = document;
    expect(document).toEqual({
      v: 1,
      type: 'receipt',
      msg: expect.any(String) as string,
      recipient: expect.stringMatching(new RegExp(`^[^@]+@${host.name}$`)) as string,
      seq: integer,
      state: expect.stringMatching(/^(?:delivered|notified|read|acked)$/) as string,
      at: integer,
      host_pubkey: host.pubkey,
      sender_host_pubkey: expect.any(String) as string,
      wire_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    });
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), signature, host);
    expect(wire).toBe(jcs({ rec: document, sig: signature }));
    expect(wire_hash).toBe(sha256Of(utf8(wire)));
    expect(push_item).toEqual({
      kind: 'receipt',
      item_id: `receipt:${String(msg)}:${String(recipient)}:${String(seq)}`,
      targets: [{ host_pubkey: sender_host_pubkey, wire_b64: base64Of(wire) }],
    });
  });
});
