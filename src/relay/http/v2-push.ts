/**
 * `POST /v2/relay/items`: what a sender asks the relay to keep, item by item, and the answer: a result for each item,
 * in either form, with the receipts signed each alone or together. It is built while the items are being synced, and
 * sent when they are durable.
 *
 * The answer is written once, into the memory that is sent: each result with its receipt, and with room for the proof,
 * whose length is known before all receipts are there.
 */
import {
  ok,
  okInBinary,
  refusalReply,
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
  formParserOf,
  formHeaders,
  hasBinaryBody,
  takesBinary,
} from './operation.ts';
import { PushResponse, PushResponseInBinary } from '../../protocol/responses.ts';
import { arrayHead, bytesHead, packed, readPush, textHead } from '../../protocol/message-pack.ts';
import { PushHeaders } from '../../protocol/parameters.ts';
import { RECEIPTS_HEADER, TREE_RECEIPTS } from '../../protocol/hop.ts';
import {
  inspectEnvelope,
  isSignedReceipt,
  itemIdToEcho,
  parsePushedItem,
  type PushedItem,
} from '../../protocol/items.ts';
import { PushRequest, WellFormedPush, WellFormedPushInBinary } from '../../protocol/schemas.ts';
import { type PublicKey, PUBLIC_KEY_BYTES, publicKeyBytes } from '../../protocol/public-key.ts';
import type { PushItem, WireVerdict } from '../core/command.ts';
import type { PushOutcome, StoredTarget } from '../core/decision.ts';
import type { Engine } from '../engine/engine.ts';
import { TimeSlice } from '../../lib/clock.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { acceptReceiptText } from '../../protocol/documents.ts';
import { SIGNATURE_BYTES } from '../../protocol/ed25519.ts';
import { base64Length } from '../../protocol/encodings.ts';
import { type Epoch, type ItemId, randomEpoch } from '../../protocol/names.ts';
import { HASH_BYTES, pathLength } from '../../protocol/merkle.ts';

export const PUSH = {
  id: 'push',
  method: 'POST',
  path: '/v2/relay/items',
  access: 'hop by key',
  headers: PushHeaders,
  summary: 'Gives items to the relay. Each is judged alone; what is accepted is on disk.',
  request: { schema: WellFormedPush, inBinary: WellFormedPushInBinary },
  successes: [ok(PushResponse, 'what became of each item'), okInBinary(PushResponseInBinary)],
  problems: ['RATE_LIMITED'],
  counted: 'push',
  fillsDisk: true,
  handle: push,
} as const satisfies HostOperation;

const parsePush = formParserOf(PushRequest, readPush);

/** One element of the request: a command, or the item's id when it is malformed. */
type ParsedItem = PushItem | { type: 'Malformed'; itemId: string | null };

async function push(request: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { caller, clientAddress, nowMs } = request;
  const { engine, clock } = parts;
  const { max_batch: batchMax, max_targets: targetsMax, max_item_bytes: itemBytesMax } = engine.settings.limits;
  const values = parsePush(request)?.items;
  if (!values) return problemReply('BAD_REQUEST', 'send {items: [...]}');
  if (values.length > batchMax) return problemReply('BAD_REQUEST', `a request may hold ${batchMax} items`);
  const isBinary = hasBinaryBody(request);
  const slice = new TimeSlice(clock.monotonicMs);
  const parsed: ParsedItem[] = [];
  const freshEpoch = randomEpoch(parts.randomBytes);
  for (const value of values) {
    if (slice.isOver) await slice.pause();
    const item = parsePushedItem(value, { targetsMax, itemBytesMax }, isBinary);
    if (!item) {
      parsed.push({ type: 'Malformed', itemId: itemIdToEcho(value) });
      continue;
    }
    const senderPubkey = caller.hostPubkey;
    const verdict = wireVerdict(item, senderPubkey, engine);
    parsed.push({ type: 'PushItem', senderPubkey, item, wireVerdict: verdict, isKnownById: false, freshEpoch, nowMs });
  }
  const commands = parsed.filter((one) => one.type === 'PushItem');
  engine.noteUnread('malformed', parsed.length - commands.length);
  const asksForTree = request.exchange.head.headers.some(
    ([name, value]) => name === RECEIPTS_HEADER && value === TREE_RECEIPTS,
  );
  const pushed = await engine.pushes.push(commands, (outcomes, epoch) => {
    const answered = answeredOf(parsed, outcomes);
    const { hostPubkey: sender } = caller;
    return pushReply({ answered, epoch, sender, asksForTree, isBinary: takesBinary(request) }, parts);
  });
  if (pushed.type === 'Refusal') return refusalReply(pushed);
  parts.work.owePlaces(caller.hostPubkey, clientAddress, pushed.places);
  return pushed.answer;
}

/** Every target's bytes are read; those of an item that is refused for its size are not. */
export function wireVerdict({ kind, itemId, targets }: PushedItem, sender: PublicKey, engine: Engine): WireVerdict {
  const { max_targets: targetsMax, max_item_bytes: itemBytesMax } = engine.settings.limits;
  if (targets.length > targetsMax || targets.some(({ bytes }) => bytes > itemBytesMax)) return 'ok';
  if (kind === 'receipt' && targets.length > 1) return 'bad receipt';
  let mismatched = false;
  for (const { wire } of targets) {
    if (kind === 'receipt') {
      if (!isSignedReceipt(wire, itemId, [...engine.directory.keysOf(sender)])) return 'bad receipt';
      continue;
    }
    const verdict = inspectEnvelope(wire, itemId);
    if (verdict === 'not sealed') return verdict;
    if (verdict === 'id mismatch') mismatched = true;
  }
  return mismatched ? 'id mismatch' : 'ok';
}

/** `outcomes` are those of the items that are not malformed, in their order. */
function answeredOf(parsed: readonly ParsedItem[], outcomes: readonly PushOutcome[]): ItemAnswer[] {
  let next = 0;
  return parsed.map((one) => {
    if (one.type === 'Malformed') return { itemId: one.itemId, outcome: undefined };
    const outcome = outcomes[next++];
    if (!outcome) throw new Error('invariant: every command has an outcome');
    return { itemId: one.item.itemId, outcome };
  });
}

/** The outcome of an item; `undefined` for one that is malformed, whose id is null where it cannot be read. */
type ItemAnswer = { itemId: ItemId; outcome: PushOutcome } | { itemId: string | null; outcome: undefined };

interface PushAnswer {
  /** The outcomes, in the order of the items. */
  answered: readonly ItemAnswer[];
  epoch: Epoch;
  sender: PublicKey;
  asksForTree: boolean;
  isBinary: boolean;
}

/** A result with its receipt and its proof, and more than most have. */
const RESULT_BYTES = 1024;

async function pushReply(asked: PushAnswer, parts: RelayParts): Promise<Reply> {
  const { answered, epoch, sender, asksForTree, isBinary } = asked;
  const { relayPubkey, clock, signatures } = parts;
  const receipts = answered.filter(({ outcome }) => outcome?.type === 'ItemStored').length;
  const treeSize = asksForTree && receipts > 1 ? receipts : undefined;
  const form = isBinary ? BINARY : JSON_FORM;
  const body = new WrittenBytes(RESULT_BYTES * (1 + answered.length));
  const accepts: string[] = [];
  /** Where the proofs belong. */
  const rooms: Room[] = [];
  let text = form.head(epoch, answered.length, treeSize !== undefined);
  let between = '';
  const slice = new TimeSlice(clock.monotonicMs);
  for (const { itemId, outcome } of answered) {
    if (slice.isOver) await slice.pause();
    text += between;
    between = form.between;
    if (outcome?.type !== 'ItemStored') {
      text += form.rejected({ item_id: itemId, status: `rejected:${outcome?.rejection ?? 'malformed'}` });
      continue;
    }
    const { targets, atMs } = outcome;
    const accept = acceptReceiptText({
      relay_pubkey: relayPubkey,
      epoch,
      sender_pubkey: sender,
      item_id: itemId as ItemId,
      targets: targets.map(({ hostPubkey, seq, wireHash }) => ({ host_pubkey: hostPubkey, seq, wire_hash: wireHash })),
      at: atMs,
    });
    text += form.stored(itemId, outcome.status, targets, accept.length);
    const index = treeSize === undefined ? undefined : rooms.length;
    const bytes = treeSize === undefined ? SIGNATURE_BYTES : HASH_BYTES * pathLength(rooms.length, treeSize);
    body.add(text + accept + form.proofHead(index, bytes));
    accepts.push(accept);
    rooms.push(body.leave(form.lengthOf(bytes)));
    text = form.proofTail(index);
  }
  const { proofs, statement }: SignedReceipts = await (treeSize === undefined
    ? signatures.sign(accepts).then((signed) => ({ proofs: signed }))
    : signedTogether(accepts, parts));
  body.add(text + form.tail(statement));
  const from = treeSize === undefined ? 'base64' : 'latin1';
  const to = isBinary ? 'latin1' : 'base64';
  const writing = new TimeSlice(clock.monotonicMs);
  for (const [nth, room] of rooms.entries()) {
    if (writing.isOver) await writing.pause();
    const proof = proofs[nth] ?? '';
    body.fill(room, from === to ? proof : Buffer.from(proof, from).toString(to));
  }
  return { status: 200, headers: formHeaders(isBinary), body: body.written };
}

interface Room {
  at: number;
  length: number;
}

/** Bytes as they are written, and room for what is not known yet. */
class WrittenBytes {
  #bytes: Buffer;
  #end = 0;

  constructor(length: number) {
    this.#bytes = Buffer.allocUnsafe(length);
  }

  get written(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }

  /** Writes a text with one character for each byte. */
  add(text: string): void {
    // First the room: it may be in larger memory.
    const { at } = this.leave(text.length);
    this.#bytes.write(text, at, 'latin1');
  }

  leave(length: number): Room {
    const at = this.#end;
    if (at + length > this.#bytes.length) this.#bytes = Buffer.concat([this.written], 2 * (at + length));
    this.#end = at + length;
    return { at, length };
  }

  /** Writes such a text into its room. */
  fill({ at, length }: Room, text: string): void {
    if (text.length !== length) throw new Error('invariant: a proof fills its room');
    this.#bytes.write(text, at, 'latin1');
  }
}

interface SignedReceipts {
  /** The proofs, each a signature in base64, or the bytes of a path in the tree of the answer's statement. */
  proofs: readonly string[];
  /** The canonical text of what was signed over all receipts, and its signature in base64. */
  statement?: { text: string; signature: string };
}

/** One signature over the tree of all receipts: to hash one and to write its path costs a fifth of a signature. */
async function signedTogether(accepts: readonly string[], { signatures }: RelayParts): Promise<SignedReceipts> {
  const { paths, ...statement } = await signatures.signTree(accepts);
  let from = 0;
  const pathOf = (index: number): string => paths.slice(from, (from += HASH_BYTES * pathLength(index, accepts.length)));
  return { proofs: accepts.map((_accept, index) => pathOf(index)), statement };
}

/** The parts of an answer in one form, each as a text with one character for each byte. */
interface AnswerForm {
  head: (epoch: Epoch, results: number, hasTree: boolean) => string;
  between: string;
  rejected: (result: { item_id: string | null; status: string }) => string;
  /** A result up to its receipt, which has so many characters. */
  stored: (itemId: string | null, status: string, targets: readonly StoredTarget[], acceptLength: number) => string;
  /** What stands between the receipt and the bytes that prove it, by itself or at this place of the tree. */
  proofHead: (index: number | undefined, bytes: number) => string;
  /** The length of these bytes in this form. */
  lengthOf: (bytes: number) => number;
  proofTail: (index: number | undefined) => string;
  tail: (statement: SignedReceipts['statement']) => string;
}

/** Keys, signatures and ids of stored items are of characters that JSON writes as they are. */
const JSON_FORM: AnswerForm = {
  head: (epoch) => `{"epoch":${JSON.stringify(epoch)},"results":[`,
  between: ',',
  rejected: (result) => Buffer.from(JSON.stringify(result)).toString('latin1'),
  stored: (itemId, status, targets) => {
    const stored = targets.map(({ hostPubkey, seq }) => `{"host_pubkey":"${hostPubkey}","seq":${seq}}`).join(',');
    return `{"item_id":"${itemId}","status":"${status}","targets":[${stored}],"accept":`;
  },
  proofHead: (index) => (index === undefined ? ',"sig":"' : `,"proof":{"index":${index},"path":"`),
  lengthOf: base64Length,
  proofTail: (index) => (index === undefined ? '"}' : '"}}'),
  tail: (statement) => (statement ? `],"tree":${statement.text},"tree_sig":"${statement.signature}"}` : ']}'),
};

const NAMES = ['item_id', 'status', 'targets', 'accept', 'host_pubkey', 'seq', 'sig', 'proof', 'index', 'path'];
const [ID, STATUS, TARGETS, ACCEPT, HOST_PUBKEY, SEQ, SIG, PROOF, INDEX, PATH] = NAMES.map(packed);
const KEY_HEAD = bytesHead(PUBLIC_KEY_BYTES);

/** Writes it as `packed` does, and faster: the names are packed once. */
const BINARY: AnswerForm = {
  head: (epoch, results, hasTree) =>
    `${hasTree ? '\x84' : '\x82'}${packed('epoch')}${packed(epoch)}${packed('results')}${arrayHead(results)}`,
  between: '',
  rejected: packed,
  stored: (itemId, status, targets, acceptLength) => {
    let text = `\x85${ID}${packed(itemId)}${STATUS}${packed(status)}${TARGETS}${arrayHead(targets.length)}`;
    for (const { hostPubkey, seq } of targets)
      text += `\x82${HOST_PUBKEY}${KEY_HEAD}${publicKeyBytes(hostPubkey).toString('latin1')}${SEQ}${packed(seq)}`;
    return text + ACCEPT + textHead(acceptLength);
  },
  proofHead: (index, bytes) =>
    (index === undefined ? SIG : `${PROOF}\x82${INDEX}${packed(index)}${PATH}`) + bytesHead(bytes),
  lengthOf: (bytes) => bytes,
  proofTail: () => '',
  tail: (statement) => {
    if (!statement) return '';
    const { text, signature } = statement;
    return packed('tree') + packed(text) + packed('tree_sig') + packed(Buffer.from(signature, 'base64'));
  },
};
