/** `POST /v2/relay/items`: what a sender asks the relay to keep, item by item. */
import {
  bodyParserOf,
  ok,
  refusalReply,
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
} from './operation.ts';
import { PushResponse } from '../../protocol/responses.ts';
import { canonicalJson } from '../../protocol/canonical-json.ts';
import { acceptReceiptText } from '../../protocol/documents.ts';
import { leafHash } from '../../protocol/merkle.ts';
import { PushHeaders } from '../../protocol/parameters.ts';
import { receiptTree } from '../../protocol/receipt-tree.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import { RECEIPTS_HEADER, TREE_RECEIPTS } from '../../protocol/hop.ts';
import {
  inspectEnvelope,
  isSignedReceipt,
  itemIdToEcho,
  parsePushedItem,
  type PushedItem,
} from '../../protocol/items.ts';
import { PushRequest, WellFormedPush } from '../../protocol/schemas.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushItem, WireVerdict } from '../core/command.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { Engine } from '../engine/engine.ts';
import { TimeSlice } from '../engine/time-slice.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';

export const PUSH = {
  id: 'push',
  method: 'POST',
  path: '/v2/relay/items',
  access: 'hop by key',
  headers: PushHeaders,
  summary: 'Gives items to the relay. Each is judged alone; what is accepted is on disk.',
  request: { schema: WellFormedPush },
  successes: [ok(PushResponse, 'what became of each item')],
  problems: ['RATE_LIMITED'],
  counted: 'push',
  fillsDisk: true,
  handle: push,
} as const satisfies HostOperation;

const parsePush = bodyParserOf(PushRequest);

/** One element of the request: a command, or the item's id when it is malformed. */
type Parsed = PushItem | { type: 'Malformed'; itemId: string | null };

async function push(request: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { body, caller, clientAddress, nowMs } = request;
  const { engine, monotonicMs } = parts;
  const { max_batch: batchMax, max_targets: targetsMax, max_item_bytes: itemBytesMax } = engine.settings.limits;
  const values = parsePush(body)?.items;
  if (!values) return problemReply('BAD_REQUEST', 'send {items: [...]}');
  if (values.length > batchMax) return problemReply('BAD_REQUEST', `a request may hold ${batchMax} items`);
  const slice = new TimeSlice(monotonicMs);
  const parsed: Parsed[] = [];
  const freshEpoch = parts.newEpoch();
  for (const value of values) {
    if (slice.isOver) await slice.pause();
    const item = parsePushedItem(value, { targetsMax, itemBytesMax });
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
  const pushed = await engine.push(commands, (outcomes, epoch) =>
    answer({ parsed, outcomes, epoch, sender: caller.hostPubkey, asksForTree }, parts),
  );
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

/** What became of the items of a request. */
interface Pushed {
  parsed: readonly Parsed[];
  /** Of those that are not malformed, in their order. */
  outcomes: readonly PushOutcome[];
  epoch: Epoch;
  sender: PublicKey;
  asksForTree: boolean;
}

/** `results[i]` answers `items[i]`. Built while the items are being synced, sent when they are durable. */
async function answer(pushed: Pushed, parts: RelayParts): Promise<Reply> {
  const { parsed, outcomes, epoch, sender, asksForTree } = pushed;
  const slice = new TimeSlice(parts.monotonicMs);
  const results: Result[] = [];
  let answered = 0;
  for (const one of parsed) {
    if (slice.isOver) await slice.pause();
    if (one.type === 'Malformed') {
      results.push({ text: JSON.stringify({ item_id: one.itemId, status: 'rejected:malformed' }) });
      continue;
    }
    const outcome = outcomes[answered++];
    if (!outcome) throw new Error('invariant: every command has an outcome');
    results.push(resultOf(one.item.itemId, outcome, epoch, sender, parts.relayPubkey));
  }
  const accepts = results.flatMap(({ accept }) => accept ?? []);
  const signed = await (asksForTree && accepts.length > 1
    ? signedTogether(accepts, slice, parts)
    : signedEach(accepts, parts));
  const writing = new TimeSlice(parts.monotonicMs);
  let next = 0;
  let body = `{"epoch":${JSON.stringify(epoch)},"results":[`;
  for (const [at, { text, accept }] of results.entries()) {
    if (writing.isOver) await writing.pause();
    if (at > 0) body += ',';
    body += accept === undefined ? text : `${text},"accept":${accept},${signed.memberOf(next++)}}`;
  }
  return { status: 200, headers: { 'content-type': 'application/json' }, body: `${body}]${signed.behind}}` };
}

/** The signatures of an answer's receipts, as they stand in its JSON. */
interface SignedReceipts {
  /** The member of the nth receipt that proves it. */
  memberOf: (nth: number) => string;
  /** The members of the answer behind `results`. */
  behind: string;
}

async function signedEach(accepts: readonly string[], { signatures }: RelayParts): Promise<SignedReceipts> {
  const signed = await signatures.sign(accepts);
  return { memberOf: (nth) => `"sig":"${signed[nth]}"`, behind: '' };
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
  const [signature] = await signatures.sign([text]);
  return {
    memberOf: (nth) => `"proof":{"index":${nth},"path":"${pathOf(nth).toString('base64')}"}`,
    behind: `,"tree":${text},"tree_sig":"${signature}"`,
  };
}

/** The result of one item; with a receipt, `text` lacks it, its signature and the brace at the end. */
interface Result {
  text: string;
  /** The receipt in its canonical form, which is signed and shown. */
  accept?: string;
}

function resultOf(
  itemId: ItemId,
  outcome: PushOutcome,
  epoch: Epoch,
  sender: PublicKey,
  relayPubkey: PublicKey,
): Result {
  if (outcome.type === 'ItemRejected') {
    return { text: JSON.stringify({ item_id: itemId, status: `rejected:${outcome.rejection}` }) };
  }
  const { status, targets, atMs } = outcome;
  const accept = acceptReceiptText({
    relay_pubkey: relayPubkey,
    epoch,
    sender_pubkey: sender,
    item_id: itemId,
    targets: targets.map(({ hostPubkey, seq, wireHash }) => ({ host_pubkey: hostPubkey, seq, wire_hash: wireHash })),
    at: atMs,
  });
  const stored = targets.map(({ hostPubkey, seq }) => `{"host_pubkey":"${hostPubkey}","seq":${seq}}`).join(',');
  return { text: `{"item_id":"${itemId}","status":"${status}","targets":[${stored}]`, accept };
}
