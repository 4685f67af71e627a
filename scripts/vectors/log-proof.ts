/** Makes what the relay proves of its log: a small log of two epochs, and every kind of answer about it. */
import { type Sha256Hex, encodeBase64, sha256Hex } from '../../src/protocol/encodings.ts';
import { signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { canonicalBytes, type AcceptReceipt, acceptReceipt } from '../../src/protocol/documents.ts';
import { type Epoch, epochFromRandom, type HostName, type ItemId } from '../../src/protocol/names.ts';
import { type LogLink, logLinkBytes } from '../../src/protocol/log-link.ts';
import {
  type HashReader,
  consistencyProof,
  inclusionProof,
  leafHash,
  nodeHash,
  rootHash,
} from '../../src/protocol/merkle.ts';
import { afterOf, makeKnew, noteHash } from '../../src/protocol/seen.ts';
import type { ItemAccepted, RelayEvent } from '../../src/relay/core/event.ts';
import { encodeRecord } from '../../src/relay/store/record.ts';
import { AT, EPOCH, type Party, alice, bob, carol, keysOf, relay } from './parties.ts';

const SECOND_EPOCH = epochFromRandom(Buffer.from('101112131415161718191a1b1c1d1e1f', 'hex'));
const DAY_MS = 86_400_000;

function enrolled({ host, signer }: Party): RelayEvent {
  return {
    type: 'HostEnrolled',
    hostPubkey: signer.publicKey,
    hostName: host as HostName,
    ownerFp: '',
    account: null,
    org: null,
    clientId: null,
    authorizedBy: 'host-key',
    enrolledAtMs: AT,
    validUntilMs: null,
    formerAccount: null,
    chargedItems: 0,
    chargedBytes: 0,
    atMs: AT,
  };
}

function accepted(itemId: string, atMs: number, ...targets: Party[]): ItemAccepted {
  return {
    type: 'ItemAccepted',
    senderPubkey: alice.signer.publicKey,
    itemId: itemId as ItemId,
    kind: 'envelope',
    targets: targets.map(({ host, signer }, at) => {
      const wire = canonicalBytes({ id: itemId, sealed: { alg: 'a', enc: 'e', ct: 'c' }, to_host: host });
      return { hostPubkey: signer.publicKey, seq: atMs + at, wireHash: sha256Hex(wire), bytes: wire.length };
    }),
    acceptedAtMs: atMs,
    expiresAtMs: atMs + 14 * DAY_MS,
    dedupUntilMs: atMs + 35 * DAY_MS,
  };
}

const item = accepted('m1', AT + 1000, bob, carol);
const FIRST_EVENTS: RelayEvent[] = [
  { type: 'RelayInitialised', relayPubkey: relay.signer.publicKey, epoch: EPOCH, schemaVersion: 1, atMs: AT },
  enrolled(alice),
  enrolled(bob),
  enrolled(carol),
  item,
  accepted('m2', AT + 2000, bob),
];
const SECOND_EVENTS: RelayEvent[] = [
  { type: 'EpochRotated', epoch: SECOND_EPOCH, reason: 'restore', atMs: AT + 3000 },
  accepted('m3', AT + 4000, carol),
];

export interface Tree {
  epoch: Epoch;
  leaves: Buffer[];
}

function treeOf(epoch: Epoch, firstLsn: number, events: readonly RelayEvent[], previous: LogLink['previous']): Tree {
  const link = logLinkBytes({ relay_pubkey: relay.signer.publicKey, epoch, previous });
  return { epoch, leaves: [link, ...events.map((event, at) => encodeRecord({ lsn: firstLsn + at, event }))] };
}

export function readerOf({ leaves }: Tree): HashReader {
  const read: HashReader = (level, index) =>
    level === 0
      ? leafHash(leaves[index] ?? Buffer.alloc(0))
      : nodeHash(read(level - 1, 2 * index), read(level - 1, 2 * index + 1));
  return read;
}

export function checkpoint(tree: Tree, size = tree.leaves.length, after?: Buffer): string {
  const { epoch } = tree;
  return signCheckpoint(
    { epoch, size, rootHash: rootHash(size, readerOf(tree)), ...(after && { after }) },
    relay.signer,
  );
}

function checkpointCase(name: string, tree: Tree, size: number): object {
  const root = rootHash(size, readerOf(tree));
  return { name, epoch: tree.epoch, size, root_hash: encodeBase64(root), note: checkpoint(tree, size) };
}

/** As a host asks for it that knows these notes. */
function newestCase(name: string, tree: Tree, ...notes: string[]): object {
  const knew = makeKnew(notes.map(noteHash), (count) => Buffer.alloc(count, 0xa5));
  const { epoch, leaves } = tree;
  const [size, after] = [leaves.length, afterOf(knew)];
  return {
    name,
    epoch,
    size,
    root_hash: encodeBase64(rootHash(size, readerOf(tree))),
    knew: encodeBase64(knew),
    query: `?after=${after.toString('base64url')}`,
    note: checkpoint(tree, size, after),
  };
}

/** The answer to `log/proof` and `log/link`. */
export function inclusionOf(tree: Tree, index: number, size = tree.leaves.length, note = checkpoint(tree, size)) {
  return {
    relay_pubkey: relay.signer.publicKey,
    epoch: tree.epoch,
    checkpoint: note,
    index,
    record_b64: encodeBase64(leafAt(tree, index)),
    proof: inclusionProof(index, size, readerOf(tree)).map(encodeBase64),
  };
}

function leafAt({ leaves }: Tree, index: number): Buffer {
  return leaves[index] ?? Buffer.alloc(0);
}

function inclusionCase(name: string, tree: Tree, index: number, receipt?: AcceptReceipt, size?: number): object {
  return {
    name,
    leaf_hash: encodeBase64(leafHash(leafAt(tree, index))),
    response: inclusionOf(tree, index, size),
    ...(receipt && { result: { accept: receipt, sig: relay.signer.sign(canonicalBytes(receipt)) } }),
  };
}

function consistencyCase(name: string, tree: Tree, from: number, to: number): object {
  const proof = consistencyProof(from, to, readerOf(tree)).map(encodeBase64);
  return {
    name,
    old: checkpoint(tree, from),
    new: checkpoint(tree, to),
    response: { relay_pubkey: relay.signer.publicKey, epoch: tree.epoch, from, to, proof },
  };
}

function receiptOf({ itemId, targets, acceptedAtMs }: ItemAccepted): AcceptReceipt {
  return acceptReceipt({
    relay_pubkey: relay.signer.publicKey,
    epoch: EPOCH,
    sender_pubkey: alice.signer.publicKey,
    item_id: itemId,
    targets: targets.map(({ hostPubkey, seq, wireHash }) => ({ host_pubkey: hostPubkey, seq, wire_hash: wireHash })),
    at: acceptedAtMs,
  });
}

/** The log of two epochs. */
export function logOfVectors(): { first: Tree; second: Tree } {
  const first = treeOf(EPOCH, 1, FIRST_EVENTS, null);
  const { length: size } = first.leaves;
  const root_hash = rootHash(size, readerOf(first)).toString('hex') as Sha256Hex;
  const second = treeOf(SECOND_EPOCH, 1 + FIRST_EVENTS.length, SECOND_EVENTS, { epoch: EPOCH, size, root_hash });
  return { first, second };
}

export function logProofVectors() {
  const { first, second } = logOfVectors();
  const { length: size } = first.leaves;
  const itemIndex = 1 + FIRST_EVENTS.indexOf(item);
  return {
    description: [
      'The log of a relay with two epochs, and what the relay proves of it. "trees" holds every leaf of each epoch:',
      'the hash of a leaf is the SHA-256 of 0x00 and the leaf, that of a node the SHA-256 of 0x01 and the two hashes',
      'below (RFC 6962, section 2.1). A checkpoint is a C2SP signed note under the relay key, an Ed25519 signature',
      '(type 0x01) whose key name is the origin. "response" is the answer of the relay, "result" that of the push',
      'that it is about. The note beside "knew" was asked for by "query": "after" is the SHA-256 of "knew", whose',
      'random bytes are 0xa5 here, and which holds the SHA-256 of two notes of this file.',
    ],
    relay: keysOf(relay),
    trees: [first, second].map(({ epoch, leaves }) => ({ epoch, leaves_b64: leaves.map(encodeBase64) })),
    cases: [
      checkpointCase('a checkpoint of two leaves', first, 2),
      checkpointCase('the last checkpoint of the first epoch', first, size),
      checkpointCase('a checkpoint of the second epoch', second, second.leaves.length),
      newestCase('the newest checkpoint after two older ones', second, checkpoint(first, 2), checkpoint(first, size)),
      inclusionCase('an item for two targets', first, itemIndex, receiptOf(item)),
      inclusionCase('an item of the second epoch', second, 2),
      inclusionCase('an item at a size, in the smallest tree that has it', first, itemIndex, undefined, itemIndex + 1),
      inclusionCase('the link of the first epoch', first, 0),
      inclusionCase('the link of the second epoch', second, 0),
      consistencyCase('seven leaves after three', first, 3, size),
      consistencyCase('seven leaves after four, a perfect tree', first, 4, size),
      consistencyCase('a tree and itself', first, size, size),
    ],
  };
}
