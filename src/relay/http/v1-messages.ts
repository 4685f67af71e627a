/**
 * `POST` and `GET /v1/relay/messages`, `POST /v1/relay/ack`: the earlier protocol, over the same queues, dedup, quotas
 * and allowlists. Hosts are named, not keyed; an envelope is stored exactly once by its id, whatever its bytes.
 */
import type { Static } from 'typebox';
import {
  bodyParserOf,
  ok,
  refusalReply,
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
} from './operation.ts';
import type { RouteResult } from '../../http/pipeline.ts';
import { V1AckResponse, V1PullResponse, V1PushResponse } from '../../protocol/responses.ts';
import { V1PullQuery } from '../../protocol/parameters.ts';
import { isObject } from '../../protocol/json.ts';
import { canonicalBytesIfAny } from '../../protocol/documents.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import { type Epoch, parseHostName, parseMessageId, randomEpoch } from '../../protocol/names.ts';
import type { PushedItem } from '../../protocol/items.ts';
import { V1AckRequest, V1PushRequest, WellFormedV1Push } from '../../protocol/schemas.ts';
import type { PushItem } from '../core/command.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { EnrolmentRow, QueueRow } from '../core/rows.ts';
import type { Engine, Page } from '../engine/engine.ts';
import { TimeSlice } from '../../lib/clock.ts';
import type { Reply } from '../../http/exchange.ts';
import type { PageEncoder } from './page-writer.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { chargeAck, chargePage, epochChanged, pageReply } from './v2-pull.ts';
import { wireVerdict } from './v2-push.ts';

export const V1_PUSH = {
  id: 'v1Push',
  method: 'POST',
  path: '/v1/relay/messages',
  access: 'hop by key or name',
  summary: 'Gives envelopes to the relay, each for a host that it names.',
  request: { schema: WellFormedV1Push },
  successes: [
    ok(V1PushResponse, 'what became of each envelope'),
    {
      status: 429,
      schema: V1PushResponse,
      description: 'over a limit of the target or the sender: it stopped there',
    },
  ],
  problems: ['RATE_LIMITED'],
  counted: 'push',
  fillsDisk: true,
  handle: push,
} as const satisfies HostOperation;

export const V1_PULL = {
  id: 'v1Pull',
  method: 'GET',
  path: '/v1/relay/messages',
  access: 'hop by key or name',
  summary: 'Hands over a page of the envelopes that wait for the caller.',
  query: V1PullQuery,
  successes: [ok(V1PullResponse, 'a page')],
  problems: ['EPOCH_CHANGED', 'RATE_LIMITED'],
  handle: pull,
} as const satisfies HostOperation<typeof V1PullQuery>;

export const V1_ACK = {
  id: 'v1Ack',
  method: 'POST',
  path: '/v1/relay/ack',
  access: 'hop by key or name',
  summary: 'Says that the caller has everything up to the cursor: it is deleted.',
  request: { schema: V1AckRequest },
  successes: [ok(V1AckResponse, 'what is acked')],
  problems: ['BAD_ACK', 'EPOCH_CHANGED', 'RATE_LIMITED'],
  handle: ack,
} as const satisfies HostOperation;

const parsePush = bodyParserOf(V1PushRequest);
const parseAck = bodyParserOf(V1AckRequest);
/** The `retry-after` of a sender over a quota, in seconds. */
const QUOTA_RETRY_S = 60;

interface V1Result {
  id: string | null;
  status: 'stored' | 'duplicate' | 'error';
  error?: string;
}

/** An envelope to be pushed, or why it is not. */
type ParsedMessage = PushItem | V1Result;

async function push({ body, caller, clientAddress, nowMs }: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { engine, clock } = parts;
  const { max_batch: batchMax } = engine.settings.limits;
  const values = parsePush(body)?.envelopes;
  if (!values) return problemReply('BAD_REQUEST', 'send {envelopes: [...]}');
  if (values.length > batchMax) return problemReply('BAD_REQUEST', `a request may hold ${batchMax} envelopes`);
  const slice = new TimeSlice(clock.monotonicMs);
  const freshEpoch = randomEpoch(parts.randomBytes);
  const parsed: ParsedMessage[] = [];
  for (const value of values) {
    if (slice.isOver) await slice.pause();
    parsed.push(parseEnvelope(value, caller, freshEpoch, nowMs, engine));
  }
  const commands = parsed.filter((one) => 'type' in one);
  const malformed = parsed.filter((one) => 'error' in one && one.error === 'malformed').length;
  engine.noteUnread('malformed', malformed);
  engine.noteUnread('unknown target', parsed.length - commands.length - malformed);
  const pushed = await engine.pushes.push(commands, (outcomes) => answer(parsed, outcomes), isOverLimit);
  if (pushed.type === 'Refusal') return refusalReply(pushed);
  parts.work.owePlaces(caller.hostPubkey, clientAddress, pushed.places);
  return pushed.answer;
}

function parseEnvelope(
  value: unknown,
  caller: EnrolmentRow,
  freshEpoch: Epoch,
  nowMs: number,
  engine: Engine,
): ParsedMessage {
  const idText = isObject(value) ? value['id'] : undefined;
  const itemId = typeof idText === 'string' ? parseMessageId(idText) : undefined;
  const nameText = isObject(value) ? value['to_host'] : undefined;
  const name = typeof nameText === 'string' ? parseHostName(nameText) : undefined;
  const wire = canonicalBytesIfAny(value);
  if (!itemId || !name || !wire) return { id: itemId ?? null, status: 'error', error: 'malformed' };
  const found = engine.directory.findByName(name, caller.account);
  if (typeof found === 'string') return { id: itemId, status: 'error', error: `recipient host ${found}` };
  const target = { hostPubkey: found.hostPubkey, wire, wireHash: sha256Hex(wire), bytes: wire.length };
  const item: PushedItem = { kind: 'envelope', itemId, targets: [target] };
  const { hostPubkey: senderPubkey } = caller;
  const verdict = wireVerdict(item, senderPubkey, engine);
  return { type: 'PushItem', senderPubkey, item, isKnownById: true, wireVerdict: verdict, freshEpoch, nowMs };
}

function isOverLimit(outcome: PushOutcome): boolean {
  return outcome.type === 'ItemRejected' && outcome.rejection.startsWith('quota:');
}

/** Over a limit the push stops: what comes behind is not tried and not answered. */
function answer(parsed: readonly ParsedMessage[], outcomes: readonly PushOutcome[]): Reply {
  const results: V1Result[] = [];
  let answered = 0;
  for (const one of parsed) {
    if (!('type' in one)) {
      results.push(one);
      continue;
    }
    const outcome = outcomes[answered++];
    if (!outcome) break;
    results.push(resultOf(one.item.itemId, outcome));
    if (isOverLimit(outcome)) {
      const retry = { 'content-type': 'application/json', 'retry-after': String(QUOTA_RETRY_S) };
      return { status: 429, headers: retry, body: JSON.stringify({ results, stopped: true }) };
    }
  }
  return jsonReply(200, { results, stopped: false });
}

function resultOf(id: string, outcome: PushOutcome): V1Result {
  if (outcome.type === 'ItemRejected') return { id, status: 'error', error: outcome.rejection };
  return { id, status: outcome.status === 'accepted' ? 'stored' : 'duplicate' };
}

async function pull(request: HopRelayRequest<Static<typeof V1PullQuery>>, parts: RelayParts): Promise<RouteResult> {
  const { engine } = parts;
  const { after: text = '' } = request.query;
  const cursor = text === '' ? undefined : parseCursor(text);
  if (text !== '' && !cursor) return problemReply('BAD_REQUEST', 'after is a cursor of an earlier pull');
  const changed = epochChanged(cursor?.epoch, engine.epoch);
  if (changed) return changed;
  const after = cursor?.seq ?? 0;
  const page = await chargePage(request, after, engine.settings.limits.max_pull, parts);
  if ('status' in page) return page;
  return epochChanged(cursor?.epoch, page.epoch) ?? pageReply(page, after, new EnvelopesEncoder(page), request, parts);
}

async function ack(request: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { body, caller, nowMs } = request;
  const cursor = parseCursor(parseAck(body)?.cursor ?? '');
  if (!cursor) return problemReply('BAD_REQUEST', 'send {cursor}: the one that a pull gave');
  const command = {
    type: 'AckItems',
    targetPubkey: caller.hostPubkey,
    epoch: cursor.epoch,
    through: cursor.seq,
    nowMs,
  } as const;
  const outcome = await chargeAck(request, command, parts);
  if ('status' in outcome) return outcome;
  return jsonReply(200, { cursor: cursorText(cursor.epoch, outcome.ackedThrough) });
}

/**
 * `GET /v1/relay/messages`: envelopes alone, as the JSON that they are. Receipts and notices are passed over by the
 * cursor: clients of v1 cannot read them.
 */
class EnvelopesEncoder implements PageEncoder {
  readonly headers = { 'content-type': 'application/json' };
  #lead = '{"envelopes":[';
  readonly #epoch: Epoch;

  constructor({ epoch }: Page) {
    this.#epoch = epoch;
  }

  items(rows: readonly QueueRow[], wires: readonly Buffer[]): Buffer {
    const parts: Buffer[] = [];
    for (const [position, wire] of wires.entries()) {
      if (rows[position]?.kind !== 'envelope') continue;
      parts.push(Buffer.from(this.#lead), wire);
      this.#lead = ',';
    }
    return Buffer.concat(parts);
  }

  end(lastSeq: number, more: boolean): Buffer {
    const head = this.#lead === ',' ? '' : this.#lead;
    return Buffer.from(`${head}],"cursor":${JSON.stringify(cursorText(this.#epoch, lastSeq))},"more":${more}}`);
  }
}

/** A v1 cursor: opaque to clients, bound to the epoch. */
function cursorText(epoch: Epoch, seq: number): string {
  return `${epoch}.${seq}`;
}

function parseCursor(text: string): { epoch: Epoch; seq: number } | undefined {
  const parts = /^(?<epoch>[0-9A-Za-z_-]{1,64})\.(?<seq>[0-9]{1,16})$/.exec(text)?.groups;
  const seq = Number(parts?.['seq']);
  return parts?.['epoch'] !== undefined && Number.isSafeInteger(seq)
    ? { epoch: parts['epoch'] as Epoch, seq }
    : undefined;
}
