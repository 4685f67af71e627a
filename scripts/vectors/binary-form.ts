/** The binary form of push, pull and ack: what JSON has, to the byte, and bytes that are none of it. */
import {
  BINARY_TYPE,
  frame,
  pulledFrameHead,
  type Packable,
  packed,
  packedBytes,
} from '../../src/protocol/message-pack.ts';
import { canonicalJson } from '../../src/protocol/documents.ts';
import { encodeBase64 } from '../../src/protocol/encodings.ts';
import type { ItemHead } from '../../src/protocol/items.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import { publicKeyBytes } from '../../src/protocol/public-key.ts';
import { acceptOf } from './documents.ts';
import { FIRST_STORY, sealedAgain } from './envelope.ts';
import { AT, EPOCH, alice, bob, hostOf, keysOf, relay } from './parties.ts';
import { answerOfTree } from './receipt-tree.ts';

type Kind = 'push' | 'answer' | 'page' | 'ack';

/** `json` is the document that the bytes stand for; of a page that was cut, what came of it. */
function formCase(name: string, kind: Kind, json: object, bytes: Buffer): object {
  return { name, kind, json, hex: bytes.toString('hex') };
}

function refusedCase(name: string, kind: Kind, hex: string): object {
  return { name, kind, refused: hex.replaceAll(' ', '') };
}

/** A page with these items. */
function pageOf(items: readonly (ItemHead & { wire: Buffer })[], headSeq: number, lastSeq: number): Buffer {
  const frames = items.map((item) => pulledFrameHead(item, item.wire.length) + item.wire.toString('latin1'));
  const first = frame(packed({ epoch: EPOCH, head_seq: headSeq }));
  const last = frame(packed({ last_seq: lastSeq, more: false }));
  return Buffer.from(first + frames.join('') + last, 'latin1');
}

function pushCases(itemId: string, wire: Buffer): object[] {
  const { publicKey: host_pubkey } = bob.signer;
  const target = { host_pubkey: publicKeyBytes(host_pubkey), wire };
  const item = { kind: 'envelope', item_id: itemId, targets: [target] };
  const inJson = { kind: 'envelope', item_id: itemId, targets: [{ host_pubkey, wire_b64: encodeBase64(wire) }] };
  const members = Buffer.concat([Buffer.from('df00000001d9056974656d73dd00000001', 'hex'), packedBytes(item)]);
  const tiny = { ...inJson, item_id: 'm', targets: [{ host_pubkey, wire_b64: 'e30=' }] };
  const tinyItem = { ...item, item_id: 'm', targets: [{ ...target, wire: Buffer.from('{}') }] };
  const order = { note: 1, targets: [{ wire, host_pubkey: target.host_pubkey }], item_id: itemId, kind: 'envelope' };
  return [
    formCase('a push of two bytes', 'push', { items: [tiny] }, packedBytes({ items: [tinyItem] })),
    formCase('a push of an envelope', 'push', { items: [inJson] }, packedBytes({ items: [item] })),
    formCase('a push of nothing', 'push', { items: [] }, packedBytes({ items: [] })),
    formCase('a push in longer forms than it needs', 'push', { items: [inJson] }, members),
    formCase(
      'a push in another order, with a member that nobody knows',
      'push',
      { items: [{ note: 1, ...inJson }] },
      packedBytes({ items: [order] }),
    ),
  ];
}

function answerCases(itemId: string, wire: Buffer): object[] {
  const { publicKey: host_pubkey } = bob.signer;
  const { document: accept, canonical, signature: sig } = acceptOf(alice, itemId, [{ host: bob, seq: AT, wire }], AT);
  const stored = { item_id: itemId, status: 'accepted' };
  const rejected = { item_id: null, status: 'rejected:malformed' };
  const json = {
    epoch: EPOCH,
    results: [{ ...stored, targets: [{ host_pubkey, seq: AT }], accept, sig }, rejected],
  };
  const targets = [{ host_pubkey: publicKeyBytes(host_pubkey), seq: AT }];
  const bytes = packedBytes({
    epoch: EPOCH,
    results: [{ ...stored, targets, accept: canonical, sig: Buffer.from(sig, 'base64') }, rejected],
  });
  const inTree = answerOfTree();
  return [
    formCase('the answer to a push', 'answer', json, bytes),
    formCase('an answer whose receipts are signed together', 'answer', inTree, packedAnswerOf(inTree)),
  ];
}

function packedAnswerOf({ epoch, results, tree, tree_sig }: ReturnType<typeof answerOfTree>): Buffer {
  const inBinary = results.map(
    ({ targets, accept, proof, ...result }): Packable => ({
      ...result,
      targets: targets?.map(({ host_pubkey: key, seq }) => ({ host_pubkey: publicKeyBytes(key), seq })),
      accept: accept && canonicalJson(accept),
      proof: proof && { index: proof.index, path: Buffer.from(proof.path, 'base64') },
    }),
  );
  const signature = Buffer.from(tree_sig, 'base64');
  return packedBytes({ epoch, results: inBinary, tree: canonicalJson(tree), tree_sig: signature });
}

function pageCases(itemId: string, wire: Buffer): object[] {
  const { publicKey: senderPubkey } = alice.signer;
  const item = { seq: AT, kind: 'envelope', itemId: itemId as ItemId, senderPubkey, wire } as const;
  const inJson = {
    seq: AT,
    kind: 'envelope',
    item_id: itemId,
    sender_pubkey: senderPubkey,
    wire_b64: encodeBase64(wire),
  };
  const head = { epoch: EPOCH, head_seq: AT + 1 };
  const page = pageOf([item, { ...item, seq: AT + 1 }], AT + 1, AT + 1);
  const second = { ...inJson, seq: AT + 1 };
  const whole = { ...head, items: [inJson, second], last_seq: AT + 1, more: false };
  const came = { ...head, items: [inJson], last_seq: AT, more: true };
  return [
    formCase('an empty page', 'page', { ...head, items: [], last_seq: AT, more: false }, pageOf([], AT + 1, AT)),
    formCase('a page of two items', 'page', whole, page),
    formCase('a page that was cut in its second item', 'page', came, page.subarray(0, page.length - 100)),
  ];
}

function ackCases(): object[] {
  const asked = { epoch: EPOCH, through: AT };
  const answered = { acked_through: AT, deleted: 1, head_seq: AT };
  return [
    formCase('an ack', 'ack', asked, packedBytes(asked)),
    formCase('the answer to an ack', 'answer', answered, packedBytes(answered)),
  ];
}

const REFUSED = [
  refusedCase('JSON', 'push', Buffer.from('{"items":[]}').toString('hex')),
  refusedCase('no bytes', 'push', ''),
  refusedCase('a byte behind the map', 'push', '81 a56974656d73 90 c0'),
  refusedCase('a member twice', 'push', '82 a56974656d73 90 a56974656d73 90'),
  refusedCase('a member that no text names', 'push', '82 a56974656d73 90 01 02'),
  refusedCase('a text that is no UTF-8', 'push', '82 a56974656d73 90 a178 a1ff'),
  refusedCase('a float', 'push', '82 a56974656d73 90 a178 cb3ff0000000000000'),
  refusedCase('an extension', 'push', '82 a56974656d73 90 a178 d40100'),
  refusedCase('a number of 2^53', 'push', '82 a56974656d73 90 a178 cf0020000000000000'),
  refusedCase('an array of 2^32 - 1 values', 'push', '81 a56974656d73 ddffffffff'),
  refusedCase('a text of 4 GiB', 'push', '82 a56974656d73 90 a178 dbffffffff'),
  refusedCase('33 levels', 'push', `82 a56974656d73 90 a178 ${'91'.repeat(32)}c0`),
  refusedCase('a map that is cut', 'push', '81 a56974656d73'),
];

export async function binaryFormVectors() {
  const { wire } = await sealedAgain(FIRST_STORY);
  const { id } = FIRST_STORY.head;
  return {
    description: [
      `The binary form (${BINARY_TYPE}) of push, pull and ack. "hex" are the bytes, and "json" is the same document in`,
      'JSON: what is bytes here is base64 there, "wire" is called "wire_b64", and "accept" and "tree", which are the',
      'canonical texts here, are objects there. A page is frames, each a length of 4 bytes and one map; the "json" of',
      'one that was cut is what came of it. A writer that keeps to the order and the shortest forms makes the same',
      'bytes, but for the two cases that say otherwise. The bytes in "refused" are answered with 400 BAD_REQUEST.',
    ],
    relay: keysOf(relay),
    hosts: [alice, bob].map(hostOf),
    cases: [...pushCases(id, wire), ...answerCases(id, wire), ...pageCases(id, wire), ...ackCases(), ...REFUSED],
  };
}
