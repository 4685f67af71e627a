/**
 * The questions of a look at a relay's log, and whether its answers are what they should be.
 *
 * Pure: each function yields its questions and is resumed with the answers. An answer that is refused, does not verify,
 * or is of something else than was asked is `undefined`: all of these are the same refusal.
 */
import { type Sha256Hex, decodeBase64 } from '../../protocol/encodings.ts';
import type { Epoch } from '../../protocol/names.ts';
import { isObject } from '../../protocol/json.ts';
import { leafDocument } from '../../protocol/log-leaf.ts';
import { type LogLink, parseLogLink } from '../../protocol/log-link.ts';
import { HASH_BYTES, leafHash, verifyConsistency, verifyInclusion } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Answer, LogEnd, Question } from './relay-trust.ts';
import { type SignedHead, isSameHead, openHead } from './signed-heads.ts';

/** Something that a look finds out by asking. */
export type Asking<T> = Generator<Question, T, Answer>;

/** The newest head; its `knew` is null when the relay did not sign that it is the newest after this. */
export function* newestHead(relayPubkey: PublicKey, knew: Buffer): Asking<SignedHead | undefined> {
  const note = yield* documentOf({ ask: 'head', knew });
  return typeof note === 'string' ? openHead(note, relayPubkey, { knew: knew.toString('base64') }) : undefined;
}

/** The head of the first `size` leaves of an epoch. */
export function* headAt(relayPubkey: PublicKey, epoch: Epoch, size: number): Asking<SignedHead | undefined> {
  const note = yield* documentOf({ ask: 'headAt', epoch, size });
  const head = typeof note === 'string' ? openHead(note, relayPubkey) : undefined;
  return head?.epoch === epoch && head.size === size ? head : undefined;
}

/** Says whether the larger tree begins with the smaller one, as far as the relay proves it. */
export function* isPartOf(small: LogEnd, large: LogEnd): Asking<boolean> {
  const { epoch, size: from } = small;
  const to = large.size;
  if (epoch !== large.epoch || from > to) return false;
  if (from === to) return small.root === large.root;
  const document = yield* documentOf({ ask: 'consistency', epoch, from, to });
  const proof = isObject(document) ? hashesIn(document['proof']) : undefined;
  return proof !== undefined && verifyConsistency({ from, to, proof, fromRoot: rootOf(small), toRoot: rootOf(large) });
}

/** More than a link of any epoch has. */
const LINK_BYTES_MAX = 1024;

/** A link that is proven to be the first leaf of a tree. */
export interface ProvenLink {
  previous: LogEnd | null;
  leafHash: Sha256Hex;
  /** The answer, without what a relay may have added: it is kept as evidence. */
  document: unknown;
}

/** The link of the epoch of `tree`. A log that grew since is asked for its consistency too. */
export function* linkOf(relayPubkey: PublicKey, tree: LogEnd): Asking<ProvenLink | undefined> {
  const document = yield* documentOf({ ask: 'link', epoch: tree.epoch });
  const shown = provenLeaf(document, relayPubkey);
  const link = shown?.index === 0 ? parseLogLink(shown.leaf) : undefined;
  if (!shown || !link || link.relay_pubkey !== relayPubkey || link.epoch !== tree.epoch) return undefined;
  if (shown.leaf.length > LINK_BYTES_MAX) return undefined;
  const root = leafHash(shown.leaf).toString('hex') as Sha256Hex;
  const isIn = isSameHead(shown.head, tree) || (yield* isPartOf({ epoch: link.epoch, size: 1, root }, tree));
  if (!isIn) return undefined;
  const { epoch, note: checkpoint } = shown.head;
  return {
    previous: endIn(link),
    leafHash: root,
    document: leafDocument(relayPubkey, { ...shown, epoch, checkpoint }),
  };
}

function endIn({ previous }: LogLink): LogEnd | null {
  return previous && { epoch: previous.epoch, size: previous.size, root: previous.root_hash };
}

export interface ProvenLeaf {
  leaf: Buffer;
  index: number;
  proof: readonly Buffer[];
  /** The tree that it is proven in, as the relay signed it. */
  head: SignedHead;
}

/** An answer of `log/link` or `log/proof`. */
export function provenLeaf(document: unknown, relayPubkey: PublicKey): ProvenLeaf | undefined {
  if (!isObject(document)) return undefined;
  const { checkpoint, index, record_b64: record, proof: list } = document;
  const head = typeof checkpoint === 'string' ? openHead(checkpoint, relayPubkey) : undefined;
  const leaf = typeof record === 'string' ? decodeBase64(record) : undefined;
  const proof = hashesIn(list);
  if (!head || !leaf || !proof || typeof index !== 'number') return undefined;
  const { size } = head;
  const isIn = verifyInclusion({ leafHash: leafHash(leaf), index, size, proof, rootHash: rootOf(head) });
  return isIn ? { leaf, index, proof, head } : undefined;
}

/** Shows the relay what it signed; true when it begins a new epoch therefore. */
export function* isContradicted(head: SignedHead, older: string | undefined): Asking<boolean> {
  const { note, knew } = head;
  const answer = yield { ask: 'show', note, ...(knew !== null && { knew }), ...(older !== undefined && { older }) };
  return answer.type === 'refused' && answer.status === 409;
}

export function* documentOf(question: Question): Asking<unknown> {
  const answer = yield question;
  return answer.type === 'answer' ? answer.document : undefined;
}

/** As many as a proof in a tree of 2^53 leaves can have. */
const PROOF_HASHES_MAX = 64;

function hashesIn(value: unknown): Buffer[] | undefined {
  if (!Array.isArray(value) || value.length > PROOF_HASHES_MAX) return undefined;
  const hashes = value.map((text: unknown) => (typeof text === 'string' ? decodeBase64(text) : undefined));
  return hashes.every((hash): hash is Buffer => hash?.length === HASH_BYTES) ? hashes : undefined;
}

function rootOf({ root }: LogEnd): Buffer {
  return Buffer.from(root, 'hex');
}
