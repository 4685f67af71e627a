/** `POST /v2/relay/items`: what a sender asks the relay to keep, item by item. */
import {
  ok,
  okInBinary,
  refusalReply,
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
} from './operation.ts';
import { PushResponse, PushResponseInBinary } from '../../protocol/responses.ts';
import { readPush } from '../../protocol/binary-form.ts';
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
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushItem, WireVerdict } from '../core/command.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { Engine } from '../engine/engine.ts';
import { TimeSlice } from '../../lib/clock.ts';
import type { Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import { formParserOf, hasBinaryBody, takesBinary } from './forms.ts';
import { type ItemAnswer, pushReply } from './push-answer.ts';

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
  const { engine, monotonicMs } = parts;
  const { max_batch: batchMax, max_targets: targetsMax, max_item_bytes: itemBytesMax } = engine.settings.limits;
  const values = parsePush(request)?.items;
  if (!values) return problemReply('BAD_REQUEST', 'send {items: [...]}');
  if (values.length > batchMax) return problemReply('BAD_REQUEST', `a request may hold ${batchMax} items`);
  const isBinary = hasBinaryBody(request);
  const slice = new TimeSlice(monotonicMs);
  const parsed: ParsedItem[] = [];
  const freshEpoch = parts.newEpoch();
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
  const pushed = await engine.push(commands, (outcomes, epoch) => {
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
