/** The trees that a store's log must have, made of its records with the RFC's own recursion. */
import { canonicalize } from 'json-canonicalize';
import { inclusionProof, leafHash, rootHash, verifyInclusion } from '../../src/protocol/merkle.ts';
import { decodeRecord } from '../../src/relay/store/record.ts';
import { storedRecords } from '../../src/relay/store/record-run.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import { naiveRoot } from './merkle-oracle.ts';
import { found } from './found.ts';

export interface NaiveTree {
  epoch: string;
  firstLsn: number;
  /** The link and the records. */
  leaves: Buffer[];
}

/** One tree for each epoch, in order. */
export async function naiveTrees(store: RelayStore): Promise<NaiveTree[]> {
  const trees: NaiveTree[] = [];
  const { relayPubkey } = store.get('relay', '') ?? {};
  for await (const [lsn, record] of storedRecords(store.level, store.firstLsn, store.lastLsn)) {
    const { event } = decodeRecord(lsn, record);
    if (event.type === 'RelayInitialised' || event.type === 'EpochRotated') {
      const last = trees.at(-1);
      const { epoch } = event;
      const previous = last
        ? { epoch: last.epoch, size: last.leaves.length, root_hash: naiveRoot(last.leaves).toString('hex') }
        : null;
      const link = { v: 1, type: 'relay-log-link', relay_pubkey: relayPubkey, epoch, previous };
      trees.push({ epoch, firstLsn: lsn, leaves: [Buffer.from(canonicalize(link))] });
    }
    trees.at(-1)?.leaves.push(record);
  }
  return trees;
}

export interface ShownTree {
  epoch: string;
  firstLsn: number;
  size: number;
  root: string;
  link: string;
}

/** Returns what the store says of its trees, and what the records say. */
export async function storedAndNaive(store: RelayStore): Promise<[stored: ShownTree[], naive: ShownTree[]]> {
  const trees = await naiveTrees(store);
  const naive = trees.map(({ epoch, firstLsn, leaves }) => {
    const root = naiveRoot(leaves).toString('hex');
    return { epoch, firstLsn, size: leaves.length, root, link: leaves[0]?.toString() ?? '' };
  });
  const stored = trees.map(({ epoch }) => shownTree(store, epoch));
  return [stored, naive];
}

/** A tree as the store has it; the current one unless an epoch is named. */
export function shownTree(store: RelayStore, epoch?: string): ShownTree {
  const view = found(store.tree.view(epoch), 'the store has no such tree');
  const { size, firstLsn, link, read } = view;
  return {
    epoch: view.epoch,
    firstLsn,
    size,
    root: rootHash(size, read).toString('hex'),
    link: link().toString(),
  };
}

/** The leaves of an epoch whose proof does not verify. */
export function unprovenLeaves(store: RelayStore, { epoch, leaves }: NaiveTree): number[] {
  const view = found(store.tree.view(epoch), 'the store has no such tree');
  const { size, read } = view;
  const root = rootHash(size, read);
  return [...leaves.keys()].filter((index) => {
    const proof = inclusionProof(index, size, read);
    return !verifyInclusion({ leafHash: leafHash(leaves[index]!), index, size, proof, rootHash: root });
  });
}
