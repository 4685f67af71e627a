/**
 * The vector files are what the script makes, and what those of the relay's own words and of hops say is true. The others
 * are checked in vectors-documents, vectors-envelope, vectors-lan and vectors-session.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { VECTOR_FOLDER, vectorFiles } from '../../../scripts/make-vectors.ts';
import {
  type Document,
  type HostKeys,
  type Keys,
  type SignedCase,
  base64Of,
  bytes,
  expectSigned,
  hopLines,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from '../../support/vector-oracle.ts';

interface HopFile {
  relay: Keys;
  host: HostKeys;
  cases: {
    name: string;
    version: 1 | 2;
    method: string;
    target: string;
    body: string | null;
    body_sha256: string;
    timestamp: string;
    signed_message: string;
    signed_message_hex: string;
    signature: string;
    headers: Record<string, string>;
  }[];
}

interface EnrolmentFile {
  relay: Keys;
  cases: (SignedCase & { host: HostKeys; challenge_request: Document; enrol_request: Document })[];
}

interface AcceptFile {
  relay: Keys;
  cases: (SignedCase & { wires_b64: string[]; document: { targets: { wire_hash: string; seq: number }[] } })[];
}

interface ExpiryFile {
  relay: Keys;
  cases: (SignedCase & { wire: string; wire_hash: string; item: Document })[];
}

const hopFile = readVectors('hop.json') as HopFile;
const enrolmentFile = readVectors('enrolment.json') as EnrolmentFile;
const acceptFile = readVectors('accept-receipt.json') as AcceptFile;
const expiryFile = readVectors('expiry-notice.json') as ExpiryFile;

const files = await vectorFiles();

describe('vector files', () => {
  it.each([...files])('%s is what the script makes (npm run vectors)', (name, text) => {
    expect(readFileSync(join(VECTOR_FOLDER, name), 'utf8')).toBe(text);
  });

  it('a second run makes the same bytes, and there is no file that it does not make', async () => {
    expect(await vectorFiles()).toEqual(files);
    const entries = readdirSync(VECTOR_FOLDER, { withFileTypes: true }).filter((entry) => entry.isFile());
    expect(entries.map(({ name }) => name).toSorted()).toEqual([...files.keys()].toSorted());
  });

  it('each tells somebody without this repository what it holds', () => {
    for (const name of files.keys()) {
      const { description, cases } = readVectors(name) as { description: string[]; cases: { name: string }[] };
      expect(description.join(' ').length).toBeGreaterThan(200);
      expect(new Set(cases.map((one) => one.name)).size).toBe(cases.length);
      expect(cases.length).toBeGreaterThan(1);
    }
  });
});

function signatureOf(version: 1 | 2, target: string): string | undefined {
  return hopFile.cases.find((one) => one.version === version && one.target === target)?.signature;
}

describe('hop.json', () => {
  const { relay, host, cases } = hopFile;

  it('has the cases in which clients go wrong', () => {
    for (const version of [1, 2] as const) {
      const targets = cases.filter((one) => one.version === version).map(({ target }) => target);
      expect(targets.some((target) => !target.includes('?'))).toBe(true);
      expect(targets.some((target) => target.endsWith('?'))).toBe(true);
      expect(targets.some((target) => /\?./.test(target))).toBe(true);
      expect(targets.some((target) => !/^\/v[12]\/relay\//.test(target))).toBe(true);
    }
    expect(cases.map(({ body }) => body)).toEqual(expect.arrayContaining([null, '']));
  });

  it.each(cases)('$name', async (one) => {
    const [path = '', query] = one.target.split(/(?=\?)/s);
    const signedPath = path.slice(path.search(/\/v[12]\/relay\//));
    const message =
      one.version === 2
        ? hopLines('mail-hop-v2', { ...one, target: signedPath + (query ?? '') }, relay.pubkey)
        : hopLines('mail-hop-v1', { ...one, target: signedPath });
    expect(one.body_sha256).toBe(sha256Of(utf8(one.body ?? '')));
    expect(one.signed_message).toBe(message);
    expect(one.signed_message_hex).toBe(Buffer.from(one.signed_message, 'utf8').toString('hex'));
    await expectSigned(utf8(one.signed_message), one.signature, host);
    expect(one.headers).toEqual({
      'x-mail-host': host.name,
      'x-mail-ts': one.timestamp,
      'x-mail-sig': one.signature,
      ...(one.version === 2 && { 'x-mail-key': host.pubkey }),
    });
  });

  it('a question mark alone changes a v2 signature and no v1 signature', () => {
    expect(signatureOf(2, '/v2/relay/info?')).toBeDefined();
    expect(signatureOf(2, '/v2/relay/info?')).not.toBe(signatureOf(2, '/v2/relay/info'));
    expect(signatureOf(1, '/v1/relay/messages?')).toBeDefined();
    expect(signatureOf(1, '/v1/relay/messages?')).toBe(signatureOf(1, '/v1/relay/messages?after=c1'));
  });
});

describe('enrolment.json', () => {
  it.each(enrolmentFile.cases)(
    '$name',
    async ({ host, challenge_request, document, canonical, signature, enrol_request }) => {
      expect(document).toEqual({
        v: 1,
        type: 'relay-enrol',
        challenge: expect.any(String) as string,
        relay_pubkey: enrolmentFile.relay.pubkey,
        host: host.name,
        pubkey: host.pubkey,
        owner_fp: expect.any(String) as string,
      });
      expect(bytes(document['challenge'] as string)).toHaveLength(32);
      expect(canonical).toBe(jcs(document));
      await expectSigned(utf8(canonical), signature, host);
      expect(challenge_request).toEqual({ pubkey: host.pubkey });
      const { owner_fp } = document;
      expect(enrol_request).toEqual({ host: host.name, pubkey: host.pubkey, owner_fp, sig: signature });
    },
  );
});

describe('accept-receipt.json', () => {
  it.each(acceptFile.cases)('$name', async ({ wires_b64, document, canonical, signature }) => {
    expect(Object.keys(document).toSorted()).toEqual([
      'at',
      'epoch',
      'item_id',
      'relay_pubkey',
      'sender_pubkey',
      'targets',
      'type',
      'v',
    ]);
    expect(document).toMatchObject({ v: 1, type: 'relay-accept', relay_pubkey: acceptFile.relay.pubkey });
    expect(document.targets.map(({ wire_hash }) => wire_hash)).toEqual(wires_b64.map((wire) => sha256Of(bytes(wire))));
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), signature, acceptFile.relay);
  });

  it('has an item for several targets, each with bytes of its own', () => {
    const hashes = acceptFile.cases.map(({ document }) => document.targets.map(({ wire_hash }) => wire_hash));
    expect(hashes.some((ofTargets) => ofTargets.length > 1 && new Set(ofTargets).size === ofTargets.length)).toBe(true);
  });
});

describe('expiry-notice.json', () => {
  it.each(expiryFile.cases)('$name', async ({ document, canonical, signature, wire, wire_hash, item }) => {
    expect(Object.keys(document).toSorted()).toEqual([
      'accepted_at',
      'expired_at',
      'item_id',
      'target_pubkey',
      'type',
      'v',
    ]);
    expect(document).toMatchObject({ v: 1, type: 'relay-expired' });
    expect(canonical).toBe(jcs(document));
    await expectSigned(utf8(canonical), signature, expiryFile.relay);
    expect(wire).toBe(jcs({ rec: document, sig: signature }));
    expect(wire_hash).toBe(sha256Of(utf8(wire)));
    expect(item).toEqual({
      seq: expect.any(Number) as number,
      kind: 'expired',
      item_id: `expired:${String(document['item_id'])}:${String(document['target_pubkey'])}`,
      sender_pubkey: expiryFile.relay.pubkey,
      wire_b64: base64Of(wire),
    });
  });
});
