/** The vectors of the relay's log, checked without the code that made them. */
import { createHash } from 'node:crypto';
import { verifyAsync } from '@noble/ed25519';
import { unpack } from 'msgpackr';
import { expect } from 'vitest';
import { naiveConsistency, naivePath, naiveRoot } from '../merkle-oracle.ts';
import {
  type Document,
  type Keys,
  type VectorChecks,
  bytes,
  each,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from './oracle.ts';

interface Proven {
  name: string;
  leaf_hash: string;
  response: {
    relay_pubkey: string;
    epoch: string;
    checkpoint: string;
    index: number;
    record_b64: string;
    proof: string[];
  };
  result?: { accept: Document; sig: string };
}

interface Continued {
  name: string;
  old: string;
  new: string;
  response: { relay_pubkey: string; epoch: string; from: number; to: number; proof: string[] };
}

interface Signed {
  name: string;
  epoch: string;
  size: number;
  root_hash: string;
  note: string;
  /** Of one that was asked for by `query`. */
  knew?: string;
  query?: string;
}

const file = readVectors('log-proof.json') as {
  relay: Keys;
  trees: { epoch: string; leaves_b64: string[] }[];
  cases: (Proven | Continued | Signed)[];
};
const checkpoints = file.cases.filter((one) => 'note' in one);
const proofs = file.cases.filter((one) => 'leaf_hash' in one);
const growths = file.cases.filter((one) => 'old' in one);
/** Every leaf of each epoch. */
export const trees: ReadonlyMap<string, readonly Buffer[]> = new Map(
  file.trees.map(({ epoch, leaves_b64 }) => [epoch, leaves_b64.map(bytes)]),
);
const base64 = (hashes: readonly Uint8Array[]): string[] => hashes.map((hash) => Buffer.from(hash).toString('base64'));

/** c2sp.org/signed-note and tlog-checkpoint, by their words: what the relay key signed. */
async function opened(note: string, ...lines: string[]): Promise<{ epoch: string; size: number; root: string }> {
  const key = bytes(file.relay.pubkey);
  const [text = '', signatures = ''] = note.split('\n\n');
  const [origin = '', size = '', root = '', ...more] = text.split('\n');
  expect(more).toEqual(lines);
  const [dash, name, signature = '', ...others] = signatures.trimEnd().split(' ');
  expect([dash, name, others, signatures.endsWith('\n')]).toEqual(['\u2014', origin, [], true]);
  const signed = bytes(signature);
  const keyId = createHash('sha256').update(`${origin}\n\u0001`).update(key).digest().subarray(0, 4);
  expect(signed.subarray(0, 4)).toEqual(keyId);
  expect(await verifyAsync(signed.subarray(4), utf8(`${text}\n`), key, { zip215: false })).toBe(true);
  const [, epoch = ''] = /^poste\/[0-9a-f]{64}\/(.*)$/.exec(origin) ?? [];
  expect(origin).toBe(`poste/${sha256Of(key)}/${epoch}`);
  return { epoch, size: Number(size), root };
}

const leavesOf = (epoch: string, size?: number): Buffer[] => (trees.get(epoch) ?? []).slice(0, size);

export const LOG: VectorChecks = {
  file: 'log-proof.json',
  checks: [
    ...each(checkpoints, '', async ({ epoch, size, root_hash, note, knew, query }) => {
      const after = knew === undefined ? undefined : createHash('sha256').update(bytes(knew)).digest();
      const lines = after ? [`after ${after.toString('base64')}`] : [];
      expect(await opened(note, ...lines)).toEqual({ epoch, size, root: root_hash });
      expect(query).toBe(after && `?after=${after.toString('base64url')}`);
      expect(base64([naiveRoot(leavesOf(epoch, size))])).toEqual([root_hash]);
    }),

    {
      name: 'what a host knew holds the hashes of two whole notes behind 16 bytes, and random bytes behind them',
      run: () => {
        const [two, last] = checkpoints.map(({ note }) => sha256Of(utf8(note)));
        const random = 'a5'.repeat(32);
        const knew = checkpoints.flatMap((one) => (one.knew === undefined ? [] : [bytes(one.knew).toString('hex')]));
        expect(knew).toEqual([`${'a5'.repeat(16)}${two}${last}${random}${random}`]);
      },
    },

    ...each(proofs, '', async ({ leaf_hash, response }) => {
      const { relay_pubkey, epoch, checkpoint, index, record_b64, proof } = response;
      const [, size] = checkpoint.split('\n');
      const leaves = leavesOf(epoch, Number(size));
      expect(relay_pubkey).toBe(file.relay.pubkey);
      expect(bytes(record_b64)).toEqual(leaves[index]);
      expect(base64([naiveRoot([bytes(record_b64)])])).toEqual([leaf_hash]);
      expect(proof).toEqual(base64(naivePath(index, leaves)));
      const [root] = base64([naiveRoot(leaves)]);
      expect(await opened(checkpoint)).toEqual({ epoch, size: leaves.length, root });
    }),

    ...each(growths, '', async ({ old, new: newer, response }) => {
      const { relay_pubkey, epoch, from, to, proof } = response;
      expect(relay_pubkey).toBe(file.relay.pubkey);
      for (const [note, size] of [
        [old, from],
        [newer, to],
      ] as const) {
        const [root] = base64([naiveRoot(leavesOf(epoch, size))]);
        expect(await opened(note)).toEqual({ epoch, size, root });
      }
      expect(proof).toEqual(base64(naiveConsistency(from, leavesOf(epoch, to))));
    }),

    {
      name: 'the first leaf of each tree links to the tree before',
      run: () => {
        const [first, second] = file.trees;
        const link = { v: 1, type: 'relay-log-link', relay_pubkey: file.relay.pubkey };
        expect(bytes(first!.leaves_b64[0]!).toString()).toBe(jcs({ ...link, epoch: first!.epoch, previous: null }));
        const leaves = leavesOf(first!.epoch);
        const root_hash = naiveRoot(leaves).toString('hex');
        const previous = { epoch: first!.epoch, size: leaves.length, root_hash };
        expect(bytes(second!.leaves_b64[0]!).toString()).toBe(jcs({ ...link, epoch: second!.epoch, previous }));
      },
    },

    {
      name: 'the record of an item is what the document says, and what its accept receipt says',
      run: async () => {
        const proven = proofs.find(({ result }) => result);
        const { accept, sig } = proven!.result!;
        expect(await verifyAsync(bytes(sig), utf8(jcs(accept)), bytes(file.relay.pubkey), { zip215: false })).toBe(
          true,
        );
        const record = bytes(proven!.response.record_b64);
        expect(record[0]).toBe(1);
        const [tag, version, sender, itemId, kind, targets, at] = unpack(record.subarray(5)) as [
          number,
          number,
          Uint8Array,
          string,
          number,
          [Uint8Array, number, Uint8Array, number][],
          number,
        ];
        expect([tag, version, kind]).toEqual([20, 1, 0]);
        expect(accept).toMatchObject({
          sender_pubkey: Buffer.from(sender).toString('base64'),
          item_id: itemId,
          at,
          targets: targets.map(([key, seq, wireHash]) => ({
            host_pubkey: Buffer.from(key).toString('base64'),
            seq,
            wire_hash: Buffer.from(wireHash).toString('hex'),
          })),
        });
      },
    },

    {
      name: 'has every kind of answer',
      run: () => {
        expect([checkpoints.length, proofs.length, growths.length].every((count) => count >= 3)).toBe(true);
        expect(checkpoints.length + proofs.length + growths.length).toBe(file.cases.length);
      },
    },
  ],
};
