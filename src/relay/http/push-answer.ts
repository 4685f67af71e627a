/**
 * The answer to a push: a result for each item, in either form, with the receipts signed each alone or together.
 * Built while the items are being synced, sent when they are durable.
 */
import { canonicalJson } from '../../protocol/canonical-json.ts';
import { acceptReceiptText } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { leafHash } from '../../protocol/merkle.ts';
import { arrayHead, bytesHead, joinedBytes, packed, textHead } from '../../protocol/message-pack.ts';
import type { ItemId } from '../../protocol/names.ts';
import { PUBLIC_KEY_BYTES, type PublicKey, publicKeyBytes } from '../../protocol/public-key.ts';
import { receiptTree } from '../../protocol/receipt-tree.ts';
import type { Reply } from '../../http/exchange.ts';
import type { PushOutcome } from '../core/decision.ts';
import { TimeSlice } from '../../lib/clock.ts';
import { formHeaders } from './forms.ts';
import type { RelayParts } from './operation.ts';

/** The outcome of an item; `undefined` for one that is malformed, whose id is null where it cannot be read. */
export type Answered = { itemId: ItemId; outcome: PushOutcome } | { itemId: string | null; outcome: undefined };

export interface PushAnswer {
  /** The outcomes, in the order of the items. */
  answered: readonly Answered[];
  epoch: Epoch;
  sender: PublicKey;
  asksForTree: boolean;
  isBinary: boolean;
}

export async function pushReply(asked: PushAnswer, parts: RelayParts): Promise<Reply> {
  const { answered, epoch, sender, asksForTree, isBinary } = asked;
  const slice = new TimeSlice(parts.monotonicMs);
  const results: Result[] = [];
  for (const one of answered) {
    if (slice.isOver) await slice.pause();
    results.push(resultOf(one, epoch, sender, parts.relayPubkey));
  }
  const accepts = results.flatMap(({ accept }) => accept ?? []);
  const { proofOf, statement } = await (asksForTree && accepts.length > 1
    ? signedTogether(accepts, slice, parts)
    : signedEach(accepts, parts));
  const writing = new TimeSlice(parts.monotonicMs);
  const texts: string[] = [];
  const pieces: (string | Buffer)[] = [];
  let receipts = 0;
  for (const result of results) {
    if (writing.isOver) await writing.pause();
    const proof = result.accept === undefined ? {} : proofOf(receipts++);
    if (isBinary) pieces.push(...binaryResult(result, proof));
    else texts.push(jsonResult(result, proof));
  }
  const body = isBinary
    ? joinedBytes(binaryHead(epoch, results.length, statement), pieces, binaryTail(statement))
    : jsonAnswer(epoch, texts, statement);
  return { status: 200, headers: formHeaders(isBinary), body };
}

interface Result {
  itemId: string | null;
  status: string;
  targets: readonly { hostPubkey: PublicKey; seq: number }[];
  /** The receipt in its canonical form, which is signed and shown. */
  accept?: string;
}

function resultOf({ itemId, outcome }: Answered, epoch: Epoch, sender: PublicKey, relayPubkey: PublicKey): Result {
  if (outcome?.type !== 'ItemStored') {
    return { itemId, status: `rejected:${outcome?.rejection ?? 'malformed'}`, targets: [] };
  }
  const { status, targets, atMs } = outcome;
  const accept = acceptReceiptText({
    relay_pubkey: relayPubkey,
    epoch,
    sender_pubkey: sender,
    item_id: itemId as ItemId,
    targets: targets.map(({ hostPubkey, seq, wireHash }) => ({ host_pubkey: hostPubkey, seq, wire_hash: wireHash })),
    at: atMs,
  });
  return { itemId, status, targets, accept };
}

/** The proof of a receipt: a signature in base64, or a place in the tree of the answer's statement. */
interface Proof {
  sig?: string;
  place?: { index: number; path: Buffer };
}

interface SignedReceipts {
  proofOf: (nth: number) => Proof;
  /** The canonical text of what was signed over all receipts, and its signature in base64. */
  statement?: { text: string; signature: string };
}

async function signedEach(accepts: readonly string[], { signatures }: RelayParts): Promise<SignedReceipts> {
  const signed = await signatures.sign(accepts);
  return { proofOf: (nth) => ({ sig: signed[nth] ?? '' }) };
}

/** One signature over the tree of all receipts: to hash one and to write its path costs a fifth of a signature. */
async function signedTogether(
  accepts: readonly string[],
  slice: TimeSlice,
  { relayPubkey, signatures }: RelayParts,
): Promise<SignedReceipts> {
  const leafHashes: Buffer[] = [];
  for (const accept of accepts) {
    if (slice.isOver) await slice.pause();
    leafHashes.push(leafHash(Buffer.from(accept)));
  }
  const { tree, pathOf } = receiptTree(relayPubkey, leafHashes);
  const text = canonicalJson(tree);
  const [signature = ''] = await signatures.sign([text]);
  return { proofOf: (index) => ({ place: { index, path: pathOf(index) } }), statement: { text, signature } };
}

/** Keys, signatures and ids of stored items are of characters that JSON writes as they are. */
function jsonResult({ itemId, status, targets, accept }: Result, { sig, place }: Proof): string {
  if (accept === undefined) return JSON.stringify({ item_id: itemId, status });
  const stored = targets.map(({ hostPubkey, seq }) => `{"host_pubkey":"${hostPubkey}","seq":${seq}}`).join(',');
  const proof = place ? `"proof":{"index":${place.index},"path":"${place.path.toString('base64')}"}` : `"sig":"${sig}"`;
  return `{"item_id":"${itemId}","status":"${status}","targets":[${stored}],"accept":${accept},${proof}}`;
}

function jsonAnswer(epoch: Epoch, results: readonly string[], statement: SignedReceipts['statement']): string {
  const behind = statement ? `,"tree":${statement.text},"tree_sig":"${statement.signature}"` : '';
  return `{"epoch":${JSON.stringify(epoch)},"results":[${results.join(',')}]${behind}}`;
}

const NAMES = ['item_id', 'status', 'targets', 'accept', 'host_pubkey', 'seq', 'sig', 'proof', 'index', 'path'];
const [ID, STATUS, TARGETS, ACCEPT, HOST_PUBKEY, SEQ, SIG, PROOF, INDEX, PATH] = NAMES.map(packed);
const KEY_HEAD = bytesHead(PUBLIC_KEY_BYTES);

/** Writes it as `packed` does, and faster: the names are packed once, and what is long stays a piece of its own. */
function binaryResult({ itemId, status, targets, accept }: Result, { sig = '', place }: Proof): (string | Buffer)[] {
  if (accept === undefined) return [packed({ item_id: itemId, status })];
  const pieces: (string | Buffer)[] = [];
  let text = `\x85${ID}${packed(itemId)}${STATUS}${packed(status)}${TARGETS}${arrayHead(targets.length)}`;
  for (const { hostPubkey, seq } of targets) {
    pieces.push(`${text}\x82${HOST_PUBKEY}${KEY_HEAD}`, publicKeyBytes(hostPubkey));
    text = SEQ + packed(seq);
  }
  const proof = place ? `${PROOF}\x82${INDEX}${packed(place.index)}${PATH}` : (SIG as string);
  const proven = place ? place.path : Buffer.from(sig, 'base64');
  pieces.push(text + ACCEPT + textHead(accept.length), accept, proof + bytesHead(proven.length), proven);
  return pieces;
}

function binaryHead(epoch: Epoch, results: number, statement: SignedReceipts['statement']): string {
  return `${statement ? '\x84' : '\x82'}${packed('epoch')}${packed(epoch)}${packed('results')}${arrayHead(results)}`;
}

function binaryTail(statement: SignedReceipts['statement']): string {
  if (!statement) return '';
  const { text, signature } = statement;
  return packed('tree') + packed(text) + packed('tree_sig') + packed(Buffer.from(signature, 'base64'));
}
