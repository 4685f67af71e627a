/** Makes accept receipts that the relay signed together, and documents that look like one and are none. */
import { createHash } from 'node:crypto';
import { canonicalBytes, type AcceptTree, acceptTree, receiptTree } from '../../src/protocol/documents.ts';
import { type Sha256Hex, decodeBase64, encodeBase64 } from '../../src/protocol/encodings.ts';
import type { Epoch } from '../../src/protocol/names.ts';
import { HASH_BYTES, leafHash } from '../../src/protocol/merkle.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { ReceiptPlace } from '../../src/protocol/receipt-tree.ts';
import { acceptOf } from './documents.ts';
import { AT, EPOCH, type Party, alice, bob, carol, keysOf, relay, signed } from './parties.ts';

/** What a sender keeps of a result, and hands on. */
interface Alone {
  item_id: string;
  accept: object;
  proof: ReceiptPlace;
  tree: AcceptTree;
  tree_sig: string;
}

interface Receipts {
  leafHashes: Buffer[];
  tree: AcceptTree;
  canonical: string;
  tree_sig: string;
  receipts: Alone[];
}

/** The receipts of `size` items for one target, signed together. */
function receiptsOf(size: number): Receipts {
  const wire = canonicalBytes({ id: 'm', sealed: { alg: 'a', enc: 'e', ct: 'c' } });
  const accepts = Array.from({ length: size }, (_none, at) => ({
    item_id: `m${at}`,
    ...acceptOf(alice, `m${at}`, [{ host: bob, seq: AT + at, wire }], AT),
  }));
  const leafHashes = accepts.map(({ canonical }) => leafHash(Buffer.from(canonical)));
  const { tree, pathOf: pathInTree } = receiptTree(relay.signer.publicKey, leafHashes);
  const { canonical, signature } = signed(tree, relay.signer);
  const receipts = accepts.map(({ item_id, document }, index) => {
    const proof = { index, path: encodeBase64(pathInTree(index)) };
    return { item_id, accept: document, proof, tree, tree_sig: signature };
  });
  return { leafHashes, tree, canonical, tree_sig: signature, receipts };
}

function treeCase(name: string, size: number, shown = (_index: number): boolean => true): object {
  const { leafHashes, canonical, tree_sig: signature, receipts } = receiptsOf(size);
  return {
    name,
    size,
    canonical,
    signature,
    leaf_hashes: leafHashes.map(encodeBase64),
    receipts: receipts.filter((_one, index) => shown(index)),
  };
}

/** A result as it is shown; one that is rejected has only the first two members. */
interface ShownResult {
  item_id: string;
  status: string;
  targets?: { host_pubkey: PublicKey; seq: number }[];
  accept?: object;
  proof?: ReceiptPlace;
}

interface TreeAnswer {
  epoch: Epoch;
  results: ShownResult[];
  tree: AcceptTree;
  tree_sig: string;
}

/** The answer of a push of three items, of which the second was rejected: it has no leaf. */
export function answerOfTree(): TreeAnswer {
  const { tree, tree_sig, receipts } = receiptsOf(2);
  const stored = receipts.map(({ item_id, accept, proof }, at) => ({
    item_id,
    status: at === 0 ? 'accepted' : 'duplicate',
    targets: [{ host_pubkey: bob.signer.publicKey, seq: AT + at }],
    accept,
    proof,
  }));
  const rejected = { item_id: 'm9', status: 'rejected:unknown target' };
  return { epoch: EPOCH, results: [stored[0]!, rejected, stored[1]!], tree, tree_sig };
}

function answerCase(): object {
  const { canonical, tree_sig, leafHashes, receipts } = receiptsOf(2);
  return {
    name: 'the answer of a push, with a rejected item between two receipts',
    size: 2,
    canonical,
    signature: tree_sig,
    leaf_hashes: leafHashes.map(encodeBase64),
    receipts,
    response: answerOfTree(),
  };
}

function refusedCase(name: string, of: Alone, changes: Partial<Alone>): object {
  return { name, refused: { ...of, ...changes } };
}

/** The statement with other members, signed by `signer`. */
function statement(tree: AcceptTree, changes: object, { signer }: Party = relay): Pick<Alone, 'tree' | 'tree_sig'> {
  const other = { ...tree, ...changes };
  return { tree: other, tree_sig: signed(other, signer).signature };
}

function digest(prefix: number, ...parts: Buffer[]): Buffer {
  return createHash('sha256').update(Buffer.of(prefix)).update(Buffer.concat(parts)).digest();
}

function pathOf(bytes: Uint8Array): Partial<Alone> {
  return { proof: { index: 0, path: encodeBase64(bytes) } };
}

/** A tree of two receipts in which the prefixes of leaves and nodes stand for each other. */
function swappedPrefixes({ tree }: Alone, [left, right]: readonly Alone[]): Partial<Alone> {
  const hashes = [left, right].map((one) => digest(1, canonicalBytes(one?.accept)));
  const root_hash = digest(0, ...hashes).toString('hex') as Sha256Hex;
  return {
    proof: { index: 0, path: encodeBase64(hashes[1] ?? Buffer.alloc(0)) },
    ...statement(tree, { root_hash }),
  };
}

/** The last leaf of a tree of 65,537: its path has one hash, which can be any. */
function tooLarge({ accept, tree, proof }: Alone): Partial<Alone> {
  const size = 65_537;
  const sibling = (decodeBase64(proof.path) ?? Buffer.alloc(0)).subarray(0, HASH_BYTES);
  const root_hash = digest(1, sibling, leafHash(canonicalBytes(accept))).toString('hex') as Sha256Hex;
  return { proof: { index: size - 1, path: encodeBase64(sibling) }, ...statement(tree, { size, root_hash }) };
}

function refusedCases(): object[] {
  const two = receiptsOf(2).receipts;
  const seven = receiptsOf(7).receipts;
  const [first, last, pairFirst] = [seven[0], seven[6], two[0]];
  if (!first || !last || !pairFirst) throw new Error('invariant: a tree has its receipts');
  const path = decodeBase64(first.proof.path) ?? Buffer.alloc(0);
  const { relay_pubkey, size, root_hash } = first.tree;
  const root = Buffer.from(root_hash, 'hex');
  return [
    refusedCase('the index of another receipt', first, { proof: { ...first.proof, index: 1 } }),
    refusedCase('an index beyond the tree', first, { proof: { ...first.proof, index: 7 } }),
    refusedCase('a path that is one hash short', first, pathOf(path.subarray(0, -HASH_BYTES))),
    refusedCase('a path that is one hash long', first, pathOf(Buffer.concat([path, path.subarray(0, HASH_BYTES)]))),
    refusedCase('a path that is one hash long and leads to the signed root', first, {
      ...pathOf(Buffer.concat([path, path.subarray(0, HASH_BYTES)])),
      ...statement(first.tree, { root_hash: digest(1, path.subarray(0, HASH_BYTES), root).toString('hex') }),
    }),
    refusedCase('a path that is cut in the middle of a hash', first, pathOf(path.subarray(0, -1))),
    refusedCase('the path of another receipt', first, { proof: { index: 0, path: last.proof.path } }),
    refusedCase('the prefixes of leaves and nodes exchanged', pairFirst, swappedPrefixes(pairFirst, two)),
    refusedCase("another relay's tree, signed by that relay", first, {
      ...statement(first.tree, { relay_pubkey: carol.signer.publicKey }, carol),
    }),
    refusedCase("another relay's tree, signed by this one", first, {
      ...statement(first.tree, { relay_pubkey: carol.signer.publicKey }),
    }),
    refusedCase('a statement that another key signed', first, statement(first.tree, {}, carol)),
    refusedCase('another size than the one that was signed', last, { tree: { ...last.tree, size: 8 } }),
    refusedCase('a signed size in which the path leads elsewhere', last, statement(last.tree, { size: 8 })),
    refusedCase('a signed size in which the path is too short', first, statement(first.tree, { size: 9 })),
    refusedCase('a size of more than 65,536', first, tooLarge(first)),
    refusedCase('a root of another tree', first, statement(first.tree, { root_hash: pairFirst.tree.root_hash })),
    refusedCase('another time in the receipt', first, { accept: { ...first.accept, at: AT + 1 } }),
    refusedCase('a statement of another type', first, statement(first.tree, { type: 'relay-accept' })),
    refusedCase('a statement of another version', first, {
      ...statement(acceptTree({ relay_pubkey, size, root_hash }), { v: 2 }),
    }),
  ];
}

export function receiptTreeVectors() {
  const SHOWN = new Set([0, 127, 128, 191, 199]);
  return {
    description: [
      'Accept receipts that the relay signed together, as it does for a push with the header "x-mail-receipts: tree".',
      'A leaf is the SHA-256 of 0x00 and the canonical bytes of "accept", a node that of 0x01 and the two hashes below',
      '(RFC 9162, section 2.1); "leaf_hashes" are all leaves in order. "tree" is what is signed: "canonical" is its',
      'RFC 8785 form and "signature" (also "tree_sig") the signature. Each of "receipts" is what a sender keeps of a',
      'result and can verify alone: the hashes of "path", of 32 bytes each, lead from the leaf to "root_hash". Nothing',
      'in "refused" may be accepted as a receipt of this relay.',
    ],
    relay: keysOf(relay),
    cases: [
      answerCase(),
      treeCase('two receipts', 2),
      treeCase('three receipts', 3),
      treeCase('seven receipts', 7),
      treeCase('eight receipts, a perfect tree', 8),
      treeCase('200 receipts, of which five are shown', 200, (index) => SHOWN.has(index)),
      ...refusedCases(),
    ],
  };
}
