/** The vectors of signed documents, of hosts and of the relay, checked without the code that made them. */
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import {
  type Check,
  type Document,
  type HostKeys,
  type Keys,
  type SignedCase,
  type VectorChecks,
  base64Of,
  bytes,
  eachSigned,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from './oracle.ts';

const integer = expect.any(Number) as number;
const text = expect.any(String) as string;
const list = expect.any(Array) as unknown[];

/** The members that a record has as it goes over the wire. */
function wireMembers({ document, signature }: SignedCase): { wire: string; wire_hash: string } {
  const wire = jcs({ rec: document, sig: signature });
  return { wire, wire_hash: sha256Of(utf8(wire)) };
}

function senderList(): VectorChecks {
  const { host, cases } = readVectors('sender-list.json') as { host: HostKeys; cases: (SignedCase & Document)[] };
  const checks = eachSigned(cases, ({ document, signature }) => ({
    document: {
      v: 1,
      type: 'relay-senders',
      host_pubkey: host.pubkey,
      senders: list,
      iat: integer,
      // A member that nobody knows, which one case has.
      ...('note' in document && { note: text }),
    },
    signed: [[signature, host]],
    members: { request: { list: document, sig: signature } },
  }));
  const name = 'has the empty list, a list whose order is not that of the letters, and a member that nobody knows';
  const run = (): void => {
    const lists = cases.map(({ document }) => document['senders'] as string[]);
    expect(lists.some((one) => one.length === 0)).toBe(true);
    expect(lists.some((one) => one.join() !== one.toSorted().join())).toBe(true);
    expect(cases.some(({ canonical }) => canonical.includes('"note":'))).toBe(true);
  };
  return { file: 'sender-list.json', checks: [...checks, { name, run }] };
}

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

function encKey(): VectorChecks {
  type EncKeyCase = SignedCase & { secret: string };
  const { host, cases } = readVectors('enc-key.json') as { host: HostKeys; cases: EncKeyCase[] };
  const checks = eachSigned(
    cases,
    ({ document: { enc_pub, at }, signature: sig }) => ({
      document: { v: 1, type: 'relay-enc-key', host_pubkey: host.pubkey, enc_pub, at: integer },
      signed: [[sig, host]],
      members: { request: { enc_pub, at, sig }, shown: { enc_key: { host_pubkey: host.pubkey, enc_pub, at, sig } } },
    }),
    async ({ secret, document }) => expect(await publicOf(secret)).toBe(document['enc_pub']),
  );
  return { file: 'enc-key.json', checks };
}

/** RFC 7638, section 3.2: the required members of each kind of key. */
const REQUIRED_MEMBERS: Record<string, string[]> = { EC: ['crv', 'kty', 'x', 'y'], OKP: ['crv', 'kty', 'x'] };

function thumbprintOf(key: Record<string, string>): string {
  const required = (REQUIRED_MEMBERS[key['kty'] ?? ''] ?? []).map((name) => [name, key[name]]);
  const canonical = jcs(Object.fromEntries(required));
  return createHash('sha256').update(canonical).digest('base64url');
}

function cloudKey(): VectorChecks {
  const { host, cases } = readVectors('cloud-key.json') as {
    host: HostKeys;
    cases: (SignedCase & {
      jkt: string;
      proof_without_token: { cloud_key: Record<string, string>; cert: string };
    })[];
  };
  const checks = eachSigned(
    cases,
    ({ jkt, signature }) => ({
      document: { v: 1, type: 'relay-cloud-key', host_pubkey: host.pubkey, jkt },
      signed: [[signature, host]],
    }),
    ({ jkt, signature, proof_without_token: { cloud_key: key, cert } }) => {
      expect(thumbprintOf(key)).toBe(jkt);
      expect(cert).toBe(signature);
    },
  );
  const name = 'has the key of RFC 8037, appendix A.3, with the thumbprint that stands there';
  const run = (): void => expect(cases.map(({ jkt }) => jkt)).toContain('kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k');
  return { file: 'cloud-key.json', checks: [...checks, { name, run }] };
}

function rotation(): VectorChecks {
  const { cases } = readVectors('rotation.json') as {
    cases: {
      name: string;
      old_key: Keys;
      new_key: Keys;
      document: Document;
      canonical: string;
      old_sig: string;
      new_sig: string;
    }[];
  };
  const checks = eachSigned(cases, ({ old_key, new_key, document, old_sig, new_sig }) => ({
    document: {
      v: 1,
      type: 'host-rotation',
      old_pubkey: old_key.pubkey,
      new_pubkey: new_key.pubkey,
      iat: integer,
    },
    signed: [
      [old_sig, old_key],
      [new_sig, new_key],
    ],
    members: {
      request: { rotation: { rec: document, old_sig, new_sig } },
      asked: `/v2/relay/rotation?key=${encodeURIComponent(old_key.pubkey)}`,
    },
  }));
  const run = (): void => {
    for (const [position, { old_key }] of cases.slice(1).entries()) {
      expect(old_key).toEqual(cases[position]?.new_key);
    }
    const keys = cases.flatMap(({ old_key, new_key }) => [old_key.pubkey, new_key.pubkey]);
    expect(new Set(keys).size).toBe(cases.length + 1);
  };
  const name = 'is a chain: each goes on from the key that the one before went to';
  return { file: 'rotation.json', checks: [...checks, { name, run }] };
}

interface ReceiptCase extends SignedCase {
  host: HostKeys;
}

/** Those of delivery receipts, which all have these members besides. */
export function receiptChecks(cases: readonly ReceiptCase[], others: Document = {}): Check[] {
  return eachSigned(cases, (one) => {
    const { msg, recipient, seq, sender_host_pubkey } = one.document;
    const { wire, wire_hash } = wireMembers(one);
    return {
      document: {
        v: 1,
        type: 'receipt',
        msg: text,
        recipient: expect.stringMatching(new RegExp(`^[^@]+@${one.host.name}$`)) as string,
        seq: integer,
        state: expect.stringMatching(/^(?:delivered|notified|read|acked)$/) as string,
        at: integer,
        host_pubkey: one.host.pubkey,
        sender_host_pubkey: text,
        wire_hash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
        ...others,
      },
      signed: [[one.signature, one.host]],
      members: {
        wire,
        wire_hash,
        push_item: {
          kind: 'receipt',
          item_id: `receipt:${String(msg)}:${String(recipient)}:${String(seq)}`,
          targets: [{ host_pubkey: sender_host_pubkey, wire_b64: base64Of(wire) }],
        },
      },
    };
  });
}

function deliveryReceipt(): VectorChecks {
  const { cases } = readVectors('delivery-receipt.json') as { cases: ReceiptCase[] };
  return { file: 'delivery-receipt.json', checks: receiptChecks(cases) };
}

function enrolment(): VectorChecks {
  const { relay, cases } = readVectors('enrolment.json') as {
    relay: Keys;
    cases: (SignedCase & { host: HostKeys })[];
  };
  const checks = eachSigned(
    cases,
    ({ host: { name: host, pubkey, seed }, document: { owner_fp }, signature: sig }) => ({
      document: {
        v: 1,
        type: 'relay-enrol',
        challenge: text,
        relay_pubkey: relay.pubkey,
        host,
        pubkey,
        owner_fp: text,
      },
      signed: [[sig, { pubkey, seed }]],
      members: { challenge_request: { pubkey }, enrol_request: { host, pubkey, owner_fp, sig } },
    }),
    ({ document }) => expect(bytes(document['challenge'] as string)).toHaveLength(32),
  );
  return { file: 'enrolment.json', checks };
}

function acceptReceipt(): VectorChecks {
  type AcceptCase = SignedCase & { wires_b64: string[]; document: { targets: { wire_hash: string }[] } };
  const { relay, cases } = readVectors('accept-receipt.json') as { relay: Keys; cases: AcceptCase[] };
  const hashesOf = ({ document }: AcceptCase): string[] => document.targets.map(({ wire_hash }) => wire_hash);
  const checks = eachSigned(
    cases,
    ({ signature }) => ({
      document: {
        v: 1,
        type: 'relay-accept',
        relay_pubkey: relay.pubkey,
        at: integer,
        epoch: text,
        item_id: text,
        sender_pubkey: text,
        targets: list,
      },
      signed: [[signature, relay]],
    }),
    (one) => expect(hashesOf(one)).toEqual(one.wires_b64.map((wire) => sha256Of(bytes(wire)))),
  );
  const run = (): void => {
    const hashes = cases.map(hashesOf);
    expect(hashes.some((one) => one.length > 1 && new Set(one).size === one.length)).toBe(true);
  };
  const name = 'has an item for several targets, each with bytes of its own';
  return { file: 'accept-receipt.json', checks: [...checks, { name, run }] };
}

function expiryNotice(): VectorChecks {
  const { relay, cases } = readVectors('expiry-notice.json') as { relay: Keys; cases: SignedCase[] };
  const checks = eachSigned(cases, (one) => {
    const { item_id, target_pubkey } = one.document;
    const { wire, wire_hash } = wireMembers(one);
    return {
      document: {
        v: 1,
        type: 'relay-expired',
        accepted_at: integer,
        expired_at: integer,
        item_id: text,
        target_pubkey: text,
      },
      signed: [[one.signature, relay]],
      members: {
        wire,
        wire_hash,
        item: {
          seq: integer,
          kind: 'expired',
          item_id: `expired:${String(item_id)}:${String(target_pubkey)}`,
          sender_pubkey: relay.pubkey,
          wire_b64: base64Of(wire),
        },
      },
    };
  });
  return { file: 'expiry-notice.json', checks };
}

function lanHello(): VectorChecks {
  const { host, cases } = readVectors('lan-hello.json') as {
    host: HostKeys;
    cases: (SignedCase & { target: string; answer: Document })[];
  };
  const checks = eachSigned(cases, ({ target, answer, signature }) => {
    const query = new URLSearchParams(target.slice(target.indexOf('?') + 1));
    const nonce = expect.stringMatching(/^[A-Za-z0-9_-]{22,43}$/) as string;
    expect(query.get('nonce')).toEqual(nonce);
    const asked = { nonce: query.get('nonce') ?? '', address: query.get('address') ?? '' };
    return {
      document: { v: 1, type: 'lan-hello', ...asked, pubkey: host.pubkey, now: answer['now'] },
      signed: [[signature, host]],
      members: {
        target: `/v1/lan/hello?nonce=${asked.nonce}&address=${encodeURIComponent(asked.address)}`,
        answer: expect.objectContaining({ host: host.name, pubkey: host.pubkey, sig: signature }) as Document,
      },
    };
  });
  return { file: 'lan-hello.json', checks };
}

export const DOCUMENTS: readonly VectorChecks[] = [
  senderList(),
  encKey(),
  cloudKey(),
  rotation(),
  deliveryReceipt(),
  enrolment(),
  acceptReceipt(),
  expiryNotice(),
  lanHello(),
];
