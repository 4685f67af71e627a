/**
 * `GET /v2/relay/items`: hands over a page, held back until there is something when the caller waits; and
 * `POST /v2/relay/ack`: the caller has everything up to `through`.
 */
import type { Static } from 'typebox';
import {
  ok,
  okInBinary,
  refusalReply,
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
  formHeaders,
  formParserOf,
  formReply,
  takesBinary,
} from './operation.ts';
import type { RouteResult } from '../../http/pipeline.ts';
import { PullResponse, PullResponseInBinary, AckResponse } from '../../protocol/responses.ts';
import { PullQuery } from '../../protocol/parameters.ts';
import { WORK_OF_REQUEST } from '../../protocol/limits.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { isAdmitted } from '../auth/hop.ts';
import type { AckItems } from '../core/command.ts';
import type { AckOutcome } from '../core/decision.ts';
import type { Page } from '../engine/engine.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import type { PageEncoder } from './page-writer.ts';
import { type TextsAround, lengthBetween, writeBetween } from '../../protocol/encodings.ts';
import { PULLED_ITEM_TAIL, pulledItemHead } from '../../protocol/items.ts';
import { frame, packed, pulledFrameHead } from '../../protocol/message-pack.ts';
import type { QueueRow } from '../core/rows.ts';
import { problemReply } from '../../http/replies.ts';
import { AckRequest } from '../../protocol/schemas.ts';

export const PULL = {
  id: 'pull',
  method: 'GET',
  path: '/v2/relay/items',
  access: 'hop by key',
  summary: 'Hands over a page of what waits for the caller, and with `wait` holds an empty one back.',
  query: PullQuery,
  successes: [ok(PullResponse, 'a page'), okInBinary(PullResponseInBinary)],
  problems: ['EPOCH_CHANGED', 'RATE_LIMITED'],
  handle: pull,
} as const satisfies HostOperation<typeof PullQuery>;

async function pull(request: HopRelayRequest<Static<typeof PullQuery>>, parts: RelayParts): Promise<RouteResult> {
  const { query, caller, exchange, clientAddress } = request;
  const { engine, clock, work } = parts;
  const { after = 0, epoch, wait: waitS = 0 } = query;
  const limit = Math.min(query.limit ?? Infinity, engine.settings.limits.max_pull);
  const { hostPubkey } = caller;
  const changed = epochChanged(epoch, engine.epoch);
  if (changed) return changed;
  let page = await chargePage(request, after, limit, parts);
  if ('status' in page) return page;
  if (page.rows.length === 0 && waitS > 0) {
    await arrival(hostPubkey, page, waitS, exchange, parts);
    // Revoked or rotated while it waited, or its token ended.
    const enrolment = engine.directory.get(hostPubkey);
    if (!enrolment || !isAdmitted(enrolment, clock.nowMs())) return problemReply('NOT_ENROLLED', 'not enrolled');
    page = await engine.page(hostPubkey, after, limit);
    if (page.rows.length > 0) {
      // Mail that came is what it asked for.
      work.owe(hostPubkey, clientAddress, -WORK_OF_REQUEST);
      const refused = work.chargePage(hostPubkey, clientAddress, page.rows);
      if (refused) return refused;
    }
  }
  return (
    epochChanged(epoch, page.epoch) ??
    pageReply(page, after, new ItemsEncoder(page, takesBinary(request)), request, parts)
  );
}

/**
 * The page of a pull, or why it is refused. A page is charged by its rows (`WorkBudget.chargePage`). A pull from the
 * position of the one before is charged before it is read, and the page's own charge then counts that.
 */
export async function chargePage(
  { caller: { hostPubkey }, clientAddress }: HopRelayRequest,
  after: number,
  limit: number,
  { engine, work }: RelayParts,
): Promise<Page | Reply> {
  const reserved = work.isRepeated(hostPubkey, after) ? Math.max(limit, WORK_OF_REQUEST) : 0;
  const refused = reserved > 0 ? work.charge(hostPubkey, clientAddress, reserved) : undefined;
  if (refused) return refused;
  const page = await engine.page(hostPubkey, after, limit);
  return work.chargePage(hostPubkey, clientAddress, page.rows, reserved) ?? page;
}

export function pageReply(
  page: Page,
  after: number,
  encoder: PageEncoder,
  request: HopRelayRequest,
  { pageWriter }: RelayParts,
): RouteResult | Promise<RouteResult> {
  if (page.rows.length > 0) return pageWriter.write(page, after, encoder, request);
  return { status: 200, headers: encoder.headers, body: encoder.end(after, page.more) };
}

export function epochChanged(asked: string | undefined, epoch: Epoch): Reply | undefined {
  if (asked === undefined || asked === epoch) return undefined;
  return problemReply('EPOCH_CHANGED', 'the store began a new epoch', { members: { epoch } });
}

/** Resolves when something came, the epoch ended, the time is up, the relay drains, or the caller is gone. */
function arrival(
  target: PublicKey,
  { headSeq, epoch }: Page,
  waitS: number,
  exchange: Exchange,
  { engine, timers }: RelayParts,
): Promise<void> {
  return new Promise((resolve) => {
    // Nothing that happened between the page and here is waited for.
    const isOver = engine.isDraining || exchange.isAborted || engine.directory.get(target)?.revokedAtMs !== null;
    if (isOver || engine.head(target).headSeq > headSeq || engine.epoch !== epoch) {
      resolve();
      return;
    }
    const finish = (): void => {
      stop();
      cancel();
      resolve();
    };
    const stop = engine.onArrival(target, finish);
    const cancel = timers.after(waitS * 1000, finish);
    exchange.onAborted(finish);
  });
}

export const ACK = {
  id: 'ack',
  method: 'POST',
  path: '/v2/relay/ack',
  access: 'hop by key',
  summary: 'Says that the caller has everything up to `through`: it is deleted.',
  request: { schema: AckRequest, inBinary: AckRequest },
  successes: [ok(AckResponse, 'what is acked'), okInBinary(AckResponse)],
  problems: ['BAD_ACK', 'EPOCH_CHANGED', 'RATE_LIMITED'],
  handle: ack,
} as const satisfies HostOperation;

const parseAck = formParserOf(AckRequest);

async function ack(request: HopRelayRequest, parts: RelayParts): Promise<Reply> {
  const { caller, nowMs } = request;
  const parsed = parseAck(request);
  if (!parsed) return problemReply('BAD_REQUEST', 'send {epoch, through}: a text and a sequence number');
  const { epoch, through } = parsed;
  const targetPubkey = caller.hostPubkey;
  const command = { type: 'AckItems', targetPubkey, epoch: epoch as Epoch, through, nowMs } as const;
  const outcome = await chargeAck(request, command, parts);
  if ('status' in outcome) return outcome;
  const { ackedThrough, deleted, headSeq } = outcome;
  return formReply(request, { acked_through: ackedThrough, deleted, head_seq: headSeq });
}

/** Acks, and charges an ack that releases nothing; returns the outcome, or the reply where it is refused. */
export async function chargeAck(
  { caller: { hostPubkey }, clientAddress }: HopRelayRequest,
  command: AckItems,
  { engine, work }: RelayParts,
): Promise<AckOutcome | Reply> {
  const isOld = command.through <= engine.head(hostPubkey).ackedThrough;
  const refused = isOld ? work.charge(hostPubkey, clientAddress, WORK_OF_REQUEST) : undefined;
  if (refused) return refused;
  const outcome = await engine.acks.ack(command);
  const isVain = outcome.type === 'Refusal' || outcome.deleted === 0;
  if (isVain && !isOld) work.owe(hostPubkey, clientAddress, WORK_OF_REQUEST);
  return outcome.type === 'Refusal' ? refusalReply(outcome) : outcome;
}

/** A page in one of the two forms: a JSON object, or frames. */
class ItemsEncoder implements PageEncoder {
  readonly headers: Readonly<Record<string, string>>;
  readonly #isBinary: boolean;
  /** The bytes in front of the next item. */
  #lead: string;

  constructor({ epoch, headSeq }: Page, isBinary: boolean) {
    this.headers = formHeaders(isBinary);
    this.#isBinary = isBinary;
    this.#lead = isBinary
      ? frame(packed({ epoch, head_seq: headSeq }))
      : `{"epoch":${JSON.stringify(epoch)},"head_seq":${headSeq},"items":[`;
  }

  items(rows: readonly QueueRow[], wires: readonly Buffer[]): Buffer {
    const lengths = wires.map(({ length }) => length);
    const texts = this.texts(rows, lengths);
    if (rows.length > 0) this.wrote();
    const bytes = Buffer.allocUnsafeSlow(lengthBetween(lengths, texts));
    writeBetween(bytes, wires, texts);
    return bytes;
  }

  texts(rows: readonly QueueRow[], lengths: readonly number[]): TextsAround {
    const lead = this.#lead;
    if (this.#isBinary) {
      const before = rows.map((row, at) => (at === 0 ? lead : '') + pulledFrameHead(row, lengths[at] ?? 0));
      return { before, after: '', isBase64: false };
    }
    const before = rows.map((row, at) => (at === 0 ? lead : ',') + pulledItemHead(row));
    return { before, after: PULLED_ITEM_TAIL, isBase64: true };
  }

  wrote(): void {
    this.#lead = this.#isBinary ? '' : ',';
  }

  end(lastSeq: number, more: boolean): Buffer {
    const lead = this.#lead === ',' ? '' : this.#lead;
    const last = this.#isBinary
      ? frame(packed({ last_seq: lastSeq, more }))
      : `],"last_seq":${lastSeq},"more":${more}}`;
    return Buffer.from(lead + last, 'latin1');
  }
}
