/**
 * The vectors of cosignatures, checked without the code that made them, and with it: a witness of this software answers
 * the requests so, and the code of hosts and relays finds these cosignatures.
 */
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { openCosignature, parseWitnessKey } from '../../../src/protocol/cosignature.ts';
import { signerFromSeed } from '../../../src/protocol/ed25519.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { Witness } from '../../../src/relay/witness/witness.ts';
import { WitnessStore } from '../../../src/relay/witness/witness-store.ts';
import { isSignedBy } from '../evidence-oracle.ts';
import { naiveConsistency, naiveRoot } from '../merkle-oracle.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { trees } from './log.ts';
import { type HostKeys, type Keys, type VectorChecks, bytes, each, readVectors } from './oracle.ts';

interface WitnessKeys extends HostKeys {
  vkey: string;
}

interface Asked {
  name: string;
  request: { path: string; body: string };
  response: { status: number; type?: string; body?: string };
  time?: number;
}

interface Cosigned {
  name: string;
  time: number;
  cosigned: string;
  by?: string[];
}

interface Refused {
  name: string;
  refused: string;
}

const file = readVectors('cosignature.json') as {
  relay: Keys;
  witnesses: WitnessKeys[];
  cases: (Asked | Cosigned | Refused)[];
};
const { relay, witnesses, cases } = file;
const first = witnesses[0]!;
const asked = cases.filter((one) => 'request' in one);
const cosigned = cases.filter((one) => 'cosigned' in one);
const refused = cases.filter((one) => 'refused' in one);

/** c2sp.org/tlog-cosignature by its words: the times at which the witness cosigned the note. */
function timesIn(note: string, { name, pubkey }: WitnessKeys): bigint[] {
  const key = bytes(pubkey);
  const keyId = createHash('sha256').update(`${name}\n\u0004`).update(key).digest().subarray(0, 4);
  const [text = '', lines = ''] = note.split('\n\n');
  return lines.split('\n').flatMap((line) => {
    const [dash, signer, base64 = ''] = line.split(' ');
    const signed = Buffer.from(base64, 'base64');
    if (dash !== '\u2014' || signer !== name || !signed.subarray(0, 4).equals(keyId) || signed.length !== 76) return [];
    const time = signed.readBigUInt64BE(4);
    return isSignedBy(key, `cosignature/v1\ntime ${time}\n${text}\n`, signed.subarray(12)) ? [time] : [];
  });
}

/** What a witness of this software answers to the requests, one after the other. */
async function answers(): Promise<Asked['response'][]> {
  const store = await WitnessStore.open(await temporaryFolder());
  let nowMs = 0;
  const witness = new Witness({
    store,
    name: first.name,
    signer: signerFromSeed(bytes(first.seed)),
    relays: [relay.pubkey as PublicKey],
    nowMs: () => nowMs,
    onContradiction: () => undefined,
  });
  const statuses = {
    opened: 200,
    'not open': 404,
    'not consistent': 422,
    malformed: 400,
    unknown: 404,
    'not signed': 403,
  };
  const given: Asked['response'][] = [];
  for (const { request, time = 0 } of asked) {
    nowMs = time * 1000;
    const { path, body } = request;
    const answer = await (path === '/add-epoch' ? witness.addEpoch(JSON.parse(body)) : witness.addCheckpoint(body));
    if (answer.type === 'cosigned') given.push({ status: 200, body: `${answer.line}\n` });
    else if (answer.type === 'other size')
      given.push({ status: 409, type: 'text/x.tlog.size', body: `${answer.size}\n` });
    else given.push({ status: statuses[answer.type] });
  }
  await store.close();
  return given;
}

/** The line of the checkpoint in a request that says after which note it was signed. */
function afterLine({ request }: Asked): string | undefined {
  return (JSON.parse(request.body) as { checkpoint: string }).checkpoint.split('\n')[3];
}

export const COSIGNATURE: VectorChecks = {
  file: 'cosignature.json',
  checks: [
    ...each(cosigned, 'the cosignatures', ({ time, cosigned: note, by = [first.name] }) => {
      for (const witness of witnesses) {
        const times = by.includes(witness.name) ? [BigInt(time)] : [];
        expect(timesIn(note, witness)).toEqual(times);
        expect(openCosignature(note, parseWitnessKey(witness.vkey)!)?.timeS).toBe(times[0] && Number(times[0]));
      }
    }),

    ...each(refused, 'has no cosignature of the first witness', ({ refused: note }) => {
      expect(note).toContain('\n\n\u2014 poste/');
      expect(timesIn(note, first)).toEqual([]);
      expect(openCosignature(note, parseWitnessKey(first.vkey)!)).toBeUndefined();
    }),

    ...each(
      asked.filter(({ response }) => response.status === 200 && response.body !== undefined),
      'the request proves that the log goes on',
      ({ request }) => {
        const [head = '', ...note] = request.body.split('\n\n');
        const [old = '', ...proof] = head.split('\n');
        const [origin = '', size = '', root = ''] = note.join('\n\n').split('\n');
        const from = Number(/^old ([0-9]+)$/.exec(old)![1]);
        const leaves = trees.get(origin.split('/').at(-1)!)!.slice(0, Number(size));
        expect(naiveRoot(leaves).toString('base64')).toBe(root);
        const path = from === 0 ? [] : naiveConsistency(from, leaves);
        expect(proof).toEqual(path.map((one) => Buffer.from(one).toString('base64')));
      },
    ),

    {
      name: 'each verifier key is of its name and key',
      run: () => {
        for (const { name, pubkey, vkey } of witnesses) {
          const key = bytes(pubkey);
          const keyId = createHash('sha256').update(`${name}\n\u0004`).update(key).digest('hex').slice(0, 8);
          expect(vkey).toBe(`${name}+${keyId}+${Buffer.concat([Buffer.of(4), key]).toString('base64')}`);
          expect(parseWitnessKey(vkey)).toEqual({ name, publicKey: pubkey });
        }
      },
    },

    {
      name: 'a witness of this software answers the requests so, one after the other',
      run: async () => {
        expect(await answers()).toEqual(asked.map(({ response }) => response));
        expect(new Set(asked.map(({ response }) => response.status))).toEqual(new Set([200, 404, 409, 422]));
      },
    },

    {
      name: 'the next epoch opens by a link that the relay signed after the newest note that the witness has',
      run: () => {
        const [without, opening] = asked.filter(({ request }) => request.path === '/add-epoch');
        const newest = cosigned.findLast(({ name }) => name.startsWith('the log has not grown'))!.cosigned;
        const plain = newest.split('\n').slice(0, -2).join('\n');
        const after = createHash('sha256').update(`${plain}\n`).digest('base64');
        expect(afterLine(opening!)).toBe(`after ${after}`);
        expect(afterLine(without!)).not.toBe(`after ${after}`);
      },
    },
  ],
};
