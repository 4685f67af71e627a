/** The vectors of home relays, held to the rules of the protocol document written out anew; and our code's verdicts. */
import { expect } from 'vitest';
import { readHomeRelays } from '../../../src/protocol/home-relays.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import {
  type Document,
  type HostKeys,
  type SignedCase,
  type VectorChecks,
  bytes,
  each,
  expectSigned,
  jcs,
  readVectors,
  utf8,
} from './oracle.ts';

interface HomeCase extends SignedCase {
  host: HostKeys;
  bytes: number;
  fault: string | null;
}

const { cases } = readVectors('home-relays.json') as { cases: HomeCase[] };

/** The points of small order, as RFC 8032 writes them: y and, in the last bit, the sign of x. */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

function isKey(text: unknown): boolean {
  if (typeof text !== 'string') return false;
  const key = Buffer.from(text, 'base64');
  return key.length === 32 && key.toString('base64') === text && !SMALL_ORDER.has(key.toString('hex'));
}

function isUrl(text: unknown): boolean {
  if (typeof text !== 'string' || !/^[!-~]{8,256}$/.test(text)) return false;
  const parts = /^(https?):\/\/([a-z0-9.-]+)(?::([0-9]+))?((?:\/[\w.-]+)*)$/.exec(text);
  const [, scheme, name, port] = parts ?? [];
  const isUsual = port === (scheme === 'https' ? '443' : '80');
  return parts !== null && !isUsual && (scheme === 'https' || name === '127.0.0.1');
}

/** Each rule by its own words, and whether the document keeps it. */
function rules({ document, signature, host, ...of }: HomeCase, isSigned: boolean): Record<string, boolean> {
  const listed = document['relays'];
  const relays = (Array.isArray(listed) ? listed : []) as Document[];
  const keys = relays.map((one) => one['relay_pubkey']);
  const isForm = document['v'] === 1 && document['type'] === 'home-relays' && bytes(signature).length === 64;
  const seq = document['seq'];
  return {
    'it is no document of type home-relays and version 1 with its signature': isForm,
    'host_pubkey is another key': document['host_pubkey'] === host.pubkey,
    'seq is no whole number from 1 to 2^53 - 1':
      typeof seq === 'number' && Number.isInteger(seq) && seq >= 1 && seq < 2 ** 53,
    'relays is no list of at most 4': Array.isArray(listed) && listed.length <= 4,
    'a relay_pubkey is no key, or none that is taken': keys.every(isKey),
    'a relay_pubkey stands there twice': new Set(keys).size === keys.length,
    'a url is not written as it must be': relays.every(({ url }) => isUrl(url)),
    'it has more than 2,048 bytes': of.bytes <= 2_048,
    'host_pubkey did not sign it': isSigned,
  };
}

async function isSignedBy({ canonical, signature }: HomeCase, keys: HostKeys): Promise<boolean> {
  return expectSigned(utf8(canonical), signature, keys).then(
    () => true,
    () => false,
  );
}

export const HOME_RELAYS: VectorChecks = {
  file: 'home-relays.json',
  checks: [
    ...each(cases, 'breaks the rule that it names, and no other', async (one) => {
      const { document, canonical, signature, host, fault } = one;
      expect(canonical).toBe(jcs(document));
      expect(one.bytes).toBe(utf8(jcs({ doc: document, sig: signature })).length);
      // The key of the document signed it, which a host may have given up.
      const signer = cases.find((other) => other.host.pubkey === document['host_pubkey'])?.host ?? host;
      const kept = rules(one, await isSignedBy(one, signer));
      const broken = Object.entries(kept).flatMap(([rule, isKept]) => (isKept ? [] : [rule]));
      expect(broken).toEqual(fault === null ? [] : [fault]);
    }),
    ...each(cases, 'our code says the same', ({ document, signature, host, fault }) => {
      const value = { doc: document, sig: signature, known: 1 };
      const counts = { doc: document, sig: signature };
      expect(readHomeRelays(value, host.pubkey as PublicKey)).toEqual(fault ?? counts);
    }),
    {
      name: 'each rule is broken by one at least, and two keys of one host sign documents that count',
      run: () => {
        const broken = new Set(cases.flatMap(({ fault }) => fault ?? []));
        expect([...broken].toSorted()).toEqual(Object.keys(rules(cases[0] as HomeCase, true)).toSorted());
        const counting = cases.filter(({ fault }) => fault === null);
        expect(new Set(counting.map(({ host }) => host.name)).size).toBe(1);
        expect(new Set(counting.map(({ host }) => host.pubkey)).size).toBe(2);
      },
    },
  ],
};
