/**
 * The console's trace of one accepted item at each of its targets: the log is read forwards from its acceptance, until
 * every life has ended or the limit of records is reached.
 *
 * Of an item that still waits the log has nothing more to tell, so it is not read, except for the moves that brought
 * the item to the key under which it waits: those are searched for one by one. The time of a rotation is known and
 * records are nearly in the order of their times, so a search by halves comes near, and the log is read forwards from
 * there. Times may go back, so a move may not be found; then the log is read from the acceptance on.
 */
import { assertNever } from '../../lib/assert-never.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { ConsoleTrace, TraceStep } from '../../protocol/operator-documents.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type ItemAccepted, type LogEntry, eventTimeMs } from '../core/event.ts';
import { ItemLife, type LifeStep } from '../core/describe-event.ts';
import { rowKey } from '../core/rows.ts';
import type { Engine } from '../engine/engine.ts';
import { TimeSlice } from '../../lib/clock.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { LastPull } from './activity.ts';
import { type LogBack, type LogSearchOptions, namedKey } from './log-search.ts';

const RECORDS_READ_MAX = 200_000;
/** Records that are read to find one move. */
const MOVE_RECORDS_READ_MAX = 20_000;
/** Commands get their time before they wait for each other, so the times of neighbours may differ by so much. */
const OUT_OF_ORDER_MS = 1000;

interface ItemPosition {
  target: PublicKey;
  seq: number;
}

/** The places of items, as the rows have them. */
interface ItemPositions {
  /** Says whether an item waits at this position. */
  isWaiting: (target: PublicKey, seq: number) => boolean | Promise<boolean>;
  /**
   * Returns where an accepted item was last queued, and the record that accepted it; `undefined` when that is
   * forgotten.
   */
  queuedAt: (sender: PublicKey, target: PublicKey, itemId: ItemId) => (ItemPosition & { lsn: number }) | undefined;
  /** The time at which a rotation replaced this key. */
  rotatedAtMs: (key: PublicKey) => number | undefined;
}

export interface TraceOptions extends LogSearchOptions, ItemPositions {
  lastPull: (target: PublicKey) => LastPull | undefined;
}

export function itemPositions(engine: Engine, store: RelayStore): ItemPositions {
  return {
    isWaiting: async (target, seq) =>
      seq > engine.head(target).ackedThrough && (await store.queueRow(target, seq)) !== undefined,
    queuedAt: (sender, target, itemId) => {
      const row = store.get('dedup', rowKey.dedup(sender, target, itemId));
      return row && { target: row.queuedTarget, seq: row.queuedSeq, lsn: row.lsn };
    },
    rotatedAtMs: (key) => {
      const row = engine.directory.get(key);
      return (row?.rotatedTo && row.revokedAtMs) || undefined;
    },
  };
}

/** `undefined` when no item was accepted in that record, or when it was pruned. */
export async function traceItem(lsn: number, options: TraceOptions): Promise<ConsoleTrace | undefined> {
  const { log, monotonicMs, nameOf } = options;
  if (lsn < log.firstLsn || lsn > log.lastLsn) return undefined;
  const { lastLsn } = log;
  const slice = new TimeSlice(monotonicMs);
  let accepted: ItemAccepted | undefined;
  let lives: ItemLife[] = [];
  /** The lives of which the log may have more to tell. */
  const followed: ItemLife[] = [];
  let upTo = lsn;
  for await (const entry of log.read(lsn)) {
    upTo = entry.lsn;
    if (!accepted) {
      const { event } = entry;
      if (event.type !== 'ItemAccepted') return undefined;
      accepted = event;
      lives = event.targets.map((target) => new ItemLife(lsn, event, target));
      for (const life of lives) if (!(await isAtItsPosition(life, lsn, options, slice))) followed.push(life);
    } else for (const life of followed) life.follow(entry);
    if (!followed.some(({ isWaiting }) => isWaiting) || upTo >= lastLsn || upTo - lsn >= RECORDS_READ_MAX) break;
    if (slice.isOver) await slice.pause();
  }
  if (!accepted) return undefined;
  // Everything is known of a life that waits and is not followed.
  if (!followed.some(({ isWaiting }) => isWaiting) && lives.some(({ isWaiting }) => isWaiting)) upTo = lastLsn;
  return {
    item_id: accepted.itemId,
    kind: accepted.kind,
    sender: namedKey({ role: 'from', key: accepted.senderPubkey }, nameOf),
    lsn,
    targets: lives.map((life) => ({
      target: namedKey({ role: 'to', key: life.target.hostPubkey }, nameOf),
      bytes: life.target.bytes,
      state: life.state,
      steps: stepsOf(life, options),
    })),
    searched_up_to: upTo,
    searched_up_at: upTo < lastLsn ? timeOf(await log.entry(upTo)) : null,
    log_position: lastLsn,
  };
}

function timeOf(entry: LogEntry | undefined): number | null {
  return entry ? eventTimeMs(entry.event) : null;
}

function stepsOf({ steps, isWaiting, queuedKey, queuedSeq }: ItemLife, { lastPull }: TraceOptions): TraceStep[] {
  const shown = steps.flatMap((step): TraceStep[] => {
    const text = stepText(step);
    return text === undefined ? [] : [{ at: step.timeMs, lsn: step.lsn, what: step.type, text }];
  });
  const pull = isWaiting ? lastPull(queuedKey) : undefined;
  if (pull?.through === undefined || pull.through < queuedSeq) return shown;
  return [...shown, { at: pull.atMs, lsn: null, what: 'pulled', text: `the host has seen up to ${pull.through}` }];
}

/** `undefined` for the steps that the console does not show: they are not known of an item whose log is not read. */
function stepText(step: LifeStep): string | undefined {
  switch (step.type) {
    case 'accepted':
      return `at place ${step.seq}`;
    case 'moved':
      return `to place ${step.seq} under the new key`;
    case 'acked':
      return `through ${step.through}`;
    case 'expired':
      return 'nobody called for it in time';
    case 'lost':
      return step.reason;
    case 'rotated':
    case 'noticed':
    case 'target revoked':
    case 'forgotten':
      return undefined;
    default:
      return assertNever(step);
  }
}

/** Says whether the item waits, and `life` was brought to where it waits. If not, only the log can tell. */
async function isAtItsPosition(
  life: ItemLife,
  lsn: number,
  { log, isWaiting, queuedAt, rotatedAtMs }: TraceOptions,
  slice: TimeSlice,
): Promise<boolean> {
  const { hostPubkey, seq } = life.target;
  const { senderPubkey, itemId } = life.accepted;
  if (await isWaiting(hostPubkey, seq)) return true;
  const queued = queuedAt(senderPubkey, hostPubkey, itemId);
  if (queued?.lsn !== lsn || !(await isWaiting(queued.target, queued.seq))) return false;
  const moves: LogEntry[] = [];
  let position: ItemPosition = { target: hostPubkey, seq };
  while (position.target !== queued.target) {
    const atMs = rotatedAtMs(position.target);
    const move = atMs && (await findMove(log, position, atMs, moves.at(-1)?.lsn ?? lsn, slice));
    if (!move || move.event.type !== 'ItemsMoved') return false;
    const { newPubkey, firstSeq, fromSeqs } = move.event;
    position = { target: newPubkey, seq: firstSeq + fromSeqs.indexOf(position.seq) };
    moves.push(move);
  }
  for (const move of moves) life.follow(move);
  return true;
}

/** The record after `afterLsn` that moved the item at `position`, whose key was rotated at `rotatedAtMs`. */
async function findMove(
  log: LogBack,
  position: ItemPosition,
  rotatedAtMs: number,
  afterLsn: number,
  slice: TimeSlice,
): Promise<LogEntry | undefined> {
  const fromLsn = await firstSince(log, rotatedAtMs - OUT_OF_ORDER_MS, afterLsn);
  if (fromLsn > log.lastLsn) return undefined;
  for await (const entry of log.read(fromLsn)) {
    if (isMoveOf(entry, position)) return entry;
    if (entry.lsn - fromLsn >= MOVE_RECORDS_READ_MAX) return undefined;
    if (slice.isOver) await slice.pause();
  }
  return undefined;
}

/** The first record after `afterLsn` that is not older than `atMs`, if times never go back. */
async function firstSince(log: LogBack, atMs: number, afterLsn: number): Promise<number> {
  let [low, high] = [afterLsn + 1, log.lastLsn + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const entry = await log.entry(middle);
    if (entry && eventTimeMs(entry.event) < atMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isMoveOf({ event }: LogEntry, { target, seq }: ItemPosition): boolean {
  return event.type === 'ItemsMoved' && event.oldPubkey === target && event.fromSeqs.includes(seq);
}
