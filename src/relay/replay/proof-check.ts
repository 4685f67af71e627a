/**
 * Verifies what a relay proves of its log, with nothing but the documents: no relay is asked, no store is read.
 *
 * Pure. Every function answers what it found, in sentences, or throws `NotVerified` with the first thing that fails.
 * A key that came with the proof proves that the documents belong together and nothing more: `isPinned` says whether it
 * was compared with one that the caller trusts.
 */
import { countText } from '../core/count-text.ts';
import Type from 'typebox';
import { decodeBase64 } from '../../protocol/encodings.ts';
import { type Checkpoint, openCheckpoint } from '../../protocol/checkpoint.ts';
import { type AcceptReceipt, isDocumentSigned } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/names.ts';
import { isObject } from '../../protocol/json.ts';
import { type LogLink, parseLogLink } from '../../protocol/log-link.ts';
import { HASH_BYTES, leafHash, verifyConsistency, verifyInclusion } from '../../protocol/merkle.ts';
import { displayFingerprint, parsePublicKey, type PublicKey } from '../../protocol/public-key.ts';
import { isReceiptSigned, receiptSignatureOf } from '../../protocol/receipt-tree.ts';
import { isAcceptablePoint } from '../../protocol/acceptable-point.ts';
import { AcceptReceiptShape, LogConsistencyResponse, LogProofResponse } from '../../protocol/responses.ts';
import { parserOf, RotateRequest } from '../../protocol/schemas.ts';
import { isoTime } from '../../protocol/time.ts';
import type { ItemAccepted, RelayEvent } from '../core/event.ts';
import { DamagedRecord, decodeProvenRecord } from '../store/record.ts';

/** Says why keys may differ, and what then shows that they are of one host. */
const ROTATED = '; where a key was rotated since, give the rotation too';

/** The first thing that fails, as a clause. */
export class NotVerified extends Error {}

export interface ProofDocuments {
  /** Answers of `log/proof`, `log/link` and `log/consistency`, parsed. */
  proofs: readonly unknown[];
  /**
   * A result of a push, or its `accept` alone, parsed. One that was signed together with others has `tree` and
   * `tree_sig` of the answer too.
   */
  accept?: unknown;
  /** The rotations as they were posted, parsed, of keys that the receipt names in the place of those of the record. */
  rotations?: readonly unknown[];
  /** Notes, for a consistency proof; `old` for a link too. */
  old?: string;
  new?: string;
  /** The key that is trusted, or its fingerprint `SHA256:…`. */
  relayKey?: string;
}

export interface VerifiedCheck {
  check: 'checkpoint' | 'inclusion' | 'item' | 'link' | 'consistency' | 'rotation' | 'accept';
  sentence: string;
}

export interface CheckedProofs {
  relayPubkey: PublicKey;
  isPinned: boolean;
  verified: VerifiedCheck[];
  /** The records that are proven, of those that are of items. */
  items: ItemAccepted[];
}

// Members that this software does not know do no harm.
const parseProof = parserOf(Type.Object({ ...LogProofResponse.properties, checkpoint: Type.String() }));
const parseConsistency = parserOf(Type.Object(LogConsistencyResponse.properties));
const parseAccept = parserOf(Type.Object(AcceptReceiptShape.properties));

export function checkProofs(documents: ProofDocuments): CheckedProofs {
  const { proofs, accept, relayKey, rotations = [] } = documents;
  const relayPubkey = keyOf(proofs, relayKey);
  const found = proofs.map((proof) => checkProof(proof, relayPubkey, documents));
  const verified = found.flatMap((one) => one.verified);
  refuseUnchecked(documents, verified);
  const items = found.flatMap(({ item }) => (item ? [item] : []));
  if (accept !== undefined) {
    const proven = rotations.map(checkRotation);
    for (const { oldPubkey, newPubkey } of proven)
      verified.push({
        check: 'rotation',
        sentence: `${oldPubkey} was rotated into ${newPubkey}, as both keys signed.`,
      });
    verified.push(checkAccept(accept, relayPubkey, items, hostsOf(proven)));
  } else if (rotations.length > 0) throw new NotVerified('a rotation is for an accept receipt, and there is none');
  return { relayPubkey, isPinned: relayKey !== undefined, verified, items };
}

/** The one relay that all proofs name, which is the one that is trusted if one is. */
function keyOf(proofs: readonly unknown[], trusted: string | undefined): PublicKey {
  const named = proofs.map((proof) => (isObject(proof) ? proof['relay_pubkey'] : undefined));
  const key = relayKeyOf(named[0], trusted, 'the proof');
  if (named.some((other) => other !== key)) throw new NotVerified('the proofs are of different relays');
  return key;
}

/** The key that a document names, if it is the one that is trusted or none is. Throws `NotVerified`. */
export function relayKeyOf(named: unknown, trusted: string | undefined, what: string): PublicKey {
  const key = parsePublicKey(named);
  if (!key || !isAcceptablePoint(key)) throw new NotVerified(`${what} names no relay key`);
  if (trusted === undefined || trusted === key || trusted === displayFingerprint(key)) return key;
  throw new NotVerified(`${what} is of the relay ${displayFingerprint(key)}, which is not the one that is trusted`);
}

/** A caller that gives a checkpoint relies on its being compared with something. */
function refuseUnchecked(documents: ProofDocuments, verified: readonly VerifiedCheck[]): void {
  const has = (check: VerifiedCheck['check']): boolean => verified.some((one) => one.check === check);
  if (documents.new !== undefined && !has('consistency'))
    throw new NotVerified('a newer checkpoint is for a consistency proof, and there is none');
  if (documents.old !== undefined && !has('consistency') && !has('link'))
    throw new NotVerified('an older checkpoint is for a consistency proof or a link, and there is neither');
}

interface FoundProof {
  verified: VerifiedCheck[];
  /** The record that is proven, when it is of an item. */
  item?: ItemAccepted;
}

function checkProof(document: unknown, relayPubkey: PublicKey, documents: ProofDocuments): FoundProof {
  if (isObject(document) && Object.hasOwn(document, 'record_b64'))
    return checkLeaf(document, relayPubkey, documents.old);
  return checkConsistency(document, relayPubkey, documents);
}

function checkLeaf(document: unknown, relayPubkey: PublicKey, old: string | undefined): FoundProof {
  const { leaf, index, checkpoint } = provenLeaf(document, relayPubkey);
  const { epoch, size } = checkpoint;
  const ofTree: VerifiedCheck[] = [
    signedCheckpoint(checkpoint, relayPubkey),
    { check: 'inclusion', sentence: `The record is leaf ${index} of the ${size} of epoch ${epoch}.` },
  ];
  if (index === 0) return { verified: [...ofTree, checkLink(linkIn(leaf, relayPubkey, epoch), relayPubkey, old)] };
  const item = acceptedItem(leaf);
  return { verified: [...ofTree, { check: 'item', sentence: itemSentence(item) }], item };
}

/** The leaf that an answer of `log/proof` or `log/link` proves under the checkpoint in it. Throws `NotVerified`. */
export function provenLeaf(
  document: unknown,
  relayPubkey: PublicKey,
): { leaf: Buffer; index: number; checkpoint: Checkpoint } {
  const proof = parseProof(document);
  const leaf = proof && decodeBase64(proof.record_b64);
  if (!proof || !leaf) throw new NotVerified('the proof has not the members of one');
  const checkpoint = openNote(proof.checkpoint, relayPubkey, 'of the proof');
  if (checkpoint.epoch !== proof.epoch) throw new NotVerified('the checkpoint is of another epoch than the proof says');
  const { size, rootHash } = checkpoint;
  const { index } = proof;
  if (!verifyInclusion({ leafHash: leafHash(leaf), index, size, proof: hashesOf(proof.proof), rootHash })) {
    throw new NotVerified('the record is not in the tree of the checkpoint');
  }
  return { leaf, index, checkpoint };
}

/** The link that the first leaf of an epoch is. Throws `NotVerified`. */
export function linkIn(leaf: Buffer, relayPubkey: PublicKey, epoch: Epoch): LogLink {
  const link = parseLogLink(leaf);
  if (link?.relay_pubkey === relayPubkey && link.epoch === epoch) return link;
  throw new NotVerified('the first leaf is no link of this relay and epoch');
}

function signedCheckpoint({ size, epoch }: Checkpoint, relayPubkey: PublicKey): VerifiedCheck {
  const relay = displayFingerprint(relayPubkey);
  const sentence = `The relay ${relay} signed a checkpoint of ${leavesText(size)} in epoch ${epoch}.`;
  return { check: 'checkpoint', sentence };
}

export function leavesText(count: number): string {
  return countText(count, 'leaf', 'leaves');
}

function acceptedItem(record: Buffer): ItemAccepted {
  let event: RelayEvent;
  try {
    event = decodeProvenRecord(record);
  } catch (error) {
    if (error instanceof DamagedRecord) throw new NotVerified(error.message);
    throw error;
  }
  if (event.type !== 'ItemAccepted') throw new NotVerified('the record is of no accepted item');
  return event;
}

function itemSentence({ senderPubkey, itemId, targets, acceptedAtMs }: ItemAccepted): string {
  const list = targets.map(({ hostPubkey, seq, wireHash }) => `${hostPubkey} (seq ${seq}, wire bytes ${wireHash})`);
  return `It says that ${itemId} of ${senderPubkey} was accepted at ${isoTime(acceptedAtMs)} for ${list.join(', ')}.`;
}

function checkLink({ previous }: LogLink, relayPubkey: PublicKey, old: string | undefined): VerifiedCheck {
  if (old !== undefined) {
    const last = openNote(old, relayPubkey, 'of --old');
    if (last.epoch !== previous?.epoch) throw new NotVerified('the old checkpoint is not of the epoch before');
    if (last.size !== previous.size || last.rootHash.toString('hex') !== previous.root_hash) {
      throw new NotVerified('the old checkpoint is not the one that the epoch links to');
    }
  }
  const before = previous
    ? `epoch ${previous.epoch} ended with ${leavesText(previous.size)} and the root ${previous.root_hash}`
    : 'there was no epoch before';
  const checked = old === undefined ? '' : ', as the old checkpoint says';
  return { check: 'link', sentence: `It says that ${before}${checked}.` };
}

function checkConsistency(document: unknown, relayPubkey: PublicKey, documents: ProofDocuments): FoundProof {
  const { epoch, from, to, proof } = consistencyOf(document);
  if (documents.old === undefined || documents.new === undefined) {
    throw new NotVerified('a consistency proof needs both checkpoints: give --old and --new');
  }
  const [older, newer] = [
    openNote(documents.old, relayPubkey, 'of --old'),
    openNote(documents.new, relayPubkey, 'of --new'),
  ];
  if (older.epoch !== epoch || newer.epoch !== epoch) {
    throw new NotVerified('the checkpoints and the proof are of different epochs');
  }
  if (older.size !== from || newer.size !== to) {
    throw new NotVerified(
      `the checkpoints have ${older.size} and ${leavesText(newer.size)}, the proof ${from} and ${to}`,
    );
  }
  const roots = { fromRoot: older.rootHash, toRoot: newer.rootHash };
  if (!verifyConsistency({ from, to, proof, ...roots })) {
    throw new NotVerified('the newer checkpoint does not continue the older one');
  }
  const sentence =
    `The ${leavesText(to)} of the newer checkpoint ${to === 1 ? 'begins' : 'begin'} ` +
    `with the ${from} of the older one.`;
  return {
    verified: [
      signedCheckpoint(older, relayPubkey),
      signedCheckpoint(newer, relayPubkey),
      { check: 'consistency', sentence },
    ],
  };
}

/** An answer of `log/consistency`, which is not verified yet. Throws `NotVerified`. */
export function consistencyOf(document: unknown): { epoch: string; from: number; to: number; proof: Buffer[] } {
  const answer = parseConsistency(document);
  if (!answer) throw new NotVerified('the proof has not the members of one');
  return { ...answer, proof: hashesOf(answer.proof) };
}

function checkRotation(document: unknown): ProvenRotation {
  const rotation = provenRotation(document);
  if (!rotation) throw new NotVerified('a rotation is not signed by both of its keys');
  return rotation;
}

/** Every target of the receipt is in some record: an item known for some targets is accepted again for others. */
function checkAccept(
  value: unknown,
  relayPubkey: PublicKey,
  items: readonly ItemAccepted[],
  isOneHost: (one: PublicKey, other: PublicKey) => boolean,
): VerifiedCheck {
  const { accept, signed } = acceptOf(value, relayPubkey);
  if (accept.relay_pubkey !== relayPubkey) throw new NotVerified('the accept receipt is of another relay');
  if (items.length === 0) throw new NotVerified('an accept receipt needs the proof of its item');
  for (const { itemId, senderPubkey } of items) {
    if (itemId !== accept.item_id) throw new NotVerified('the accept receipt is of another item than the record');
    if (!isOneHost(senderPubkey, accept.sender_pubkey))
      throw new NotVerified(`the accept receipt names another sender key than the record${ROTATED}`);
  }
  const recorded = items.flatMap(({ targets }) => targets);
  for (const { host_pubkey: host, seq, wire_hash: wireHash } of accept.targets) {
    const ofHost = recorded.filter(({ hostPubkey }) => isOneHost(hostPubkey, host));
    if (ofHost.length === 0)
      throw new NotVerified(`the target ${host} of the accept receipt is in no record: give its proof too${ROTATED}`);
    const target = ofHost.find((one) => one.seq === seq);
    if (!target) throw new NotVerified(`the target ${host} has another seq in the record`);
    if (target.wireHash !== wireHash) throw new NotVerified(`the target ${host} has another wire hash in the record`);
  }
  if (accept.at !== Math.max(...items.map(({ acceptedAtMs }) => acceptedAtMs))) {
    throw new NotVerified('the accept receipt is of another time than the record');
  }
  const sentence = `The accept receipt${signed} is in the log: every target with its seq and its wire bytes.`;
  return { check: 'accept', sentence };
}

/** The receipt, and in words how the relay signed it. */
function acceptOf(value: unknown, relayPubkey: PublicKey): { accept: AcceptReceipt; signed: string } {
  const isResult = isObject(value) && Object.hasOwn(value, 'accept');
  const document = isResult ? value['accept'] : value;
  if (!parseAccept(document)) throw new NotVerified('the accept receipt has not the members of one');
  const accept = document as AcceptReceipt;
  if (!isResult) return { accept, signed: '' };
  if (!isReceiptSigned(relayPubkey, value)) throw new NotVerified(notSigned(value));
  const signature = receiptSignatureOf(value);
  const together = signature && 'tree' in signature ? ` ${signedWithOthers(signature.tree)}` : '';
  return { accept, signed: `, signed by the relay${together},` };
}

function notSigned(result: Record<string, unknown>): string {
  if (Object.hasOwn(result, 'proof') && !Object.hasOwn(result, 'tree')) {
    return 'the accept receipt was signed with others: add tree and tree_sig of the answer to the result';
  }
  return 'the accept receipt is not signed by the relay';
}

/** Says of a receipt that it has no signature of its own. */
export function signedWithOthers({ size }: { size: number }): string {
  return `with ${countText(size - 1, 'other')} in one statement`;
}

/** Throws `NotVerified`; `which` says in words which note it is. */
export function openNote(note: string, relayPubkey: PublicKey, which: string): Checkpoint {
  const checkpoint = openCheckpoint(note, relayPubkey);
  if (!checkpoint) throw new NotVerified(`the checkpoint ${which} is none that the relay key signed`);
  return checkpoint;
}

function hashesOf(texts: readonly string[]): Buffer[] {
  return texts.map((text) => {
    const hash = decodeBase64(text);
    if (hash?.length !== HASH_BYTES) throw new NotVerified('the proof holds something that is no hash');
    return hash;
  });
}

// A receipt of a `duplicate` names the keys of its own request, and the record names those of the first request. Only
// signed rotations prove that both are keys of one host.

const parseRotation = parserOf(RotateRequest);

interface ProvenRotation {
  oldPubkey: PublicKey;
  newPubkey: PublicKey;
}

/** A rotation as it was posted, when both of its keys signed it. */
function provenRotation(document: unknown): ProvenRotation | undefined {
  const posted = parseRotation(document);
  const [oldPubkey, newPubkey] = [posted?.rotation.rec.old_pubkey, posted?.rotation.rec.new_pubkey].map(parsePublicKey);
  if (!posted || !oldPubkey || !newPubkey) return undefined;
  const { rec, old_sig, new_sig } = posted.rotation;
  const isSigned = (key: PublicKey, sig: unknown): boolean => isAcceptablePoint(key) && isDocumentSigned(key, rec, sig);
  return isSigned(oldPubkey, old_sig) && isSigned(newPubkey, new_sig) ? { oldPubkey, newPubkey } : undefined;
}

/** Says whether two keys are of one host, as far as these rotations say. */
function hostsOf(rotations: readonly ProvenRotation[]): (one: PublicKey, other: PublicKey) => boolean {
  const hosts = new Map<PublicKey, Set<PublicKey>>();
  const hostOf = (key: PublicKey): Set<PublicKey> => hosts.get(key) ?? new Set([key]);
  for (const { oldPubkey, newPubkey } of rotations) {
    const joined = new Set([...hostOf(oldPubkey), ...hostOf(newPubkey)]);
    for (const key of joined) hosts.set(key, joined);
  }
  return (one, other) => hostOf(one).has(other);
}
