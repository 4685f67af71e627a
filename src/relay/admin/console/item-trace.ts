/**
 * What became of one accepted item at each of its targets: the log read forwards from its acceptance, until every target
 * is done with it or enough was looked at.
 *
 * Of an item that waits nothing more is to be found, and so nothing is read: but the moves that brought it to the key
 * under which it waits, which are looked up one by one.
 */
import type { ConsoleTrace, TraceStep } from '../../../protocol/operator-documents.ts';
import type { ItemId } from '../../../protocol/names.ts';
import type { PublicKey } from '../../../protocol/public-key.ts';
import type { AcceptedTarget, ItemAccepted, LogEntry, RelayEvent } from '../../core/event.ts';
import { Stretch } from '../../engine/stretch.ts';
import type { LastPull } from './activity.ts';
import type { LogSearchOptions } from './log-search.ts';
import { namedKey } from './logged-event.ts';
import { type Queued, findMove } from './moved-item.ts';

const RECORDS_LOOKED_AT_MAX = 200_000;

export interface TraceOptions extends LogSearchOptions {
  /** Whether an item waits at this very place: then nothing has become of it, and nothing need be read. */
  isWaiting: (target: PublicKey, seq: number) => boolean;
  /** Where an accepted item was queued last, and the record that accepted it; `undefined` when that is forgotten. */
  queuedAt: (sender: PublicKey, target: PublicKey, itemId: ItemId) => (Queued & { lsn: number }) | undefined;
  /** When a rotation put another key in the place of this one. */
  rotatedAtMs: (key: PublicKey) => number | undefined;
  lastPull: (target: PublicKey) => LastPull | undefined;
}

/** `undefined` when no item was accepted in that record, or when it was pruned. */
export async function traceItem(lsn: number, options: TraceOptions): Promise<ConsoleTrace | undefined> {
  const { log, monotonicMs, nameOf } = options;
  if (lsn < log.firstLsn || lsn > log.lastLsn) return undefined;
  const { lastLsn } = log;
  const stretch = new Stretch(monotonicMs);
  let accepted: ItemAccepted | undefined;
  let paths: TargetPath[] = [];
  /** Those of which the log has more to say. */
  let left: TargetPath[] = [];
  let upTo = lsn;
  for await (const entry of log.read(lsn)) {
    upTo = entry.lsn;
    if (!accepted) {
      if (entry.event.type !== 'ItemAccepted') return undefined;
      accepted = entry.event;
      const { acceptedAtMs } = accepted;
      paths = accepted.targets.map((target) => new TargetPath(target, lsn, acceptedAtMs));
      for (const path of paths) {
        if (!(await isFollowedToItsPlace(path, accepted, lsn, options, stretch))) left.push(path);
      }
    } else for (const path of left) path.follow(entry);
    if (left.every(({ isDone }) => isDone) || upTo >= lastLsn || upTo - lsn >= RECORDS_LOOKED_AT_MAX) break;
    if (stretch.isOver) await stretch.pause();
  }
  if (!accepted) return undefined;
  // Of those that wait and are not left, all is known.
  if (left.every(({ isDone }) => isDone) && paths.some(({ isDone }) => !isDone)) upTo = lastLsn;
  return {
    item_id: accepted.itemId,
    kind: accepted.kind,
    sender: namedKey(['from', accepted.senderPubkey], nameOf),
    lsn,
    targets: paths.map((path) => ({
      target: namedKey(['to', path.target.hostPubkey], nameOf),
      bytes: path.target.bytes,
      state: path.state,
      steps: path.steps(options.lastPull),
    })),
    searched_up_to: upTo,
    log_position: lastLsn,
  };
}

/** Whether the item waits, and the path has come to where it does; else nothing is known that the log does not say. */
async function isFollowedToItsPlace(
  path: TargetPath,
  { senderPubkey, itemId }: ItemAccepted,
  lsn: number,
  { log, isWaiting, queuedAt, rotatedAtMs }: TraceOptions,
  stretch: Stretch,
): Promise<boolean> {
  const { hostPubkey, seq } = path.target;
  if (isWaiting(hostPubkey, seq)) return true;
  const queued = queuedAt(senderPubkey, hostPubkey, itemId);
  if (queued?.lsn !== lsn || !isWaiting(queued.target, queued.seq)) return false;
  const moves: LogEntry[] = [];
  let place: Queued = { target: hostPubkey, seq };
  while (place.target !== queued.target) {
    const atMs = rotatedAtMs(place.target);
    const move = atMs && (await findMove(log, place, atMs, moves.at(-1)?.lsn ?? lsn, stretch));
    if (!move || move.event.type !== 'ItemsMoved') return false;
    const { newPubkey, firstSeq, fromSeqs } = move.event;
    place = { target: newPubkey, seq: firstSeq + fromSeqs.indexOf(place.seq) };
    moves.push(move);
  }
  for (const move of moves) path.follow(move);
  return true;
}

/** Where one target's copy is, as the log goes on. */
class TargetPath {
  readonly target: AcceptedTarget;
  state: 'waiting' | 'acked' | 'expired' | 'lost' = 'waiting';
  readonly #steps: TraceStep[];
  #hostPubkey: PublicKey;
  #seq: number;

  constructor(target: AcceptedTarget, lsn: number, atMs: number) {
    this.target = target;
    this.#hostPubkey = target.hostPubkey;
    this.#seq = target.seq;
    this.#steps = [{ at: atMs, lsn, what: 'accepted', text: `at place ${target.seq}` }];
  }

  get isDone(): boolean {
    return this.state !== 'waiting';
  }

  steps(lastPull: TraceOptions['lastPull']): TraceStep[] {
    const pull = this.isDone ? undefined : lastPull(this.#hostPubkey);
    if (pull?.through === undefined || pull.through < this.#seq) return this.#steps;
    return [
      ...this.#steps,
      { at: pull.atMs, lsn: null, what: 'pulled', text: `the host has seen up to ${pull.through}` },
    ];
  }

  follow({ lsn, event }: LogEntry): void {
    if (this.isDone) return;
    switch (event.type) {
      case 'ItemsAcked':
        if (event.targetPubkey === this.#hostPubkey && event.through >= this.#seq) {
          this.#end('acked', lsn, event, `through ${event.through}`);
        }
        return;
      case 'ItemsExpired':
        if (event.targetPubkey === this.#hostPubkey && event.items.some(({ seq }) => seq === this.#seq)) {
          this.#end('expired', lsn, event, 'nobody called for it in time');
        }
        return;
      case 'ItemLost':
        if (event.targetPubkey === this.#hostPubkey && event.seq === this.#seq) {
          this.#end('lost', lsn, event, event.reason);
        }
        return;
      case 'ItemsMoved': {
        const position = event.oldPubkey === this.#hostPubkey ? event.fromSeqs.indexOf(this.#seq) : -1;
        if (position === -1) return;
        this.#hostPubkey = event.newPubkey;
        this.#seq = event.firstSeq + position;
        this.#steps.push({ at: event.atMs, lsn, what: 'moved', text: `to place ${this.#seq} under the new key` });
        return;
      }
      default:
    }
  }

  #end(state: 'acked' | 'expired' | 'lost', lsn: number, event: RelayEvent & { atMs: number }, text: string): void {
    this.state = state;
    this.#steps.push({ at: event.atMs, lsn, what: state, text });
  }
}
