/**
 * The state as it was at one place of the log: what a replay up to there gives.
 *
 * What was acked by then is gone. Wire bytes are of no replay: an item that waited then is shown by what the log says
 * of it.
 */
import { type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { eventTimeMs } from '../core/event.ts';
import {
  EMPTY_TARGET,
  type EnrolmentRow,
  NO_USAGE,
  type QueueRow,
  type RelayRow,
  type SendersRow,
  type TargetRow,
  type UsageRow,
} from '../core/rows.ts';
import { relayRow, sendersRow } from '../core/decision.ts';
import type { Scratch, ScratchPairs } from '../store/scratch.ts';
import { PREFIX, SHARE_SENDER_AT, prefixRange, queueBehind, sharesOf } from '../store/keys.ts';
import type { OfflineStore } from './offline.ts';
import { ReplayedRows } from './replay.ts';
import { baseOf, beginReplay, findCheckpoints } from './replay-start.ts';
import { rowOf } from '../store/row-codec.ts';
import type { Progress } from './finding.ts';
import { readEntries } from './records.ts';

/** The last record that was written by `timeMs`, by the relay's clock; 0 when none was. Throws `DamagedRecord`. */
export async function* lsnAt(offline: OfflineStore, timeMs: number): AsyncGenerator<Progress, number> {
  const { pruned } = offline.store;
  let found = pruned.throughLsn > 0 && pruned.atMs <= timeMs ? pruned.throughLsn : 0;
  for await (const run of readEntries(offline)) {
    // The clock may have been set back, so a later record can be an earlier one.
    for (const { lsn, event } of run) if (eventTimeMs(event) <= timeMs) found = lsn;
    yield { stage: 'looking', done: run.at(-1)?.lsn ?? 0, of: offline.store.lastLsn };
  }
  return found;
}

/** The log was pruned too far for this place. */
export class PrunedAway extends Error {}

/** Replays the records up to `lsn` into the scratch. Throws `DamagedRecord`, and `PrunedAway`. */
export async function* stateAt(
  offline: OfflineStore,
  lsn: number,
  { pairs }: Scratch,
): AsyncGenerator<Progress, StateThen> {
  const rows = new ReplayedRows(pairs);
  const { pruned } = offline.store;
  let timeMs = pruned.atMs;
  let startLsn = 0;
  if (pruned.throughLsn > 0) {
    const base = baseOf(yield* findCheckpoints(offline), offline, 'newest', lsn);
    const start = yield* beginReplay(offline, base, rows);
    if (!start) throw new PrunedAway(`nothing that was kept leads to log record ${lsn}`);
    startLsn = start.throughLsn;
  }
  for await (const run of readEntries(offline, { throughLsn: lsn })) {
    for (const entry of run) {
      timeMs = eventTimeMs(entry.event);
      if (entry.lsn <= startLsn) continue;
      rows.apply(entry);
      if (rows.isFull) await rows.flush();
    }
    yield { stage: 'replay', done: run.at(-1)?.lsn ?? 0, of: lsn };
  }
  await rows.flush();
  return new StateThen({ pairs, rows, lsn, timeMs });
}

interface QuotaThen {
  queue: TargetRow;
  shares: { senderPubkey: PublicKey; usage: UsageRow }[];
}

export class StateThen {
  readonly lsn: number;
  readonly timeMs: number;
  readonly #rows: ReplayedRows;
  readonly #pairs: ScratchPairs;

  constructor(of: { pairs: ScratchPairs; rows: ReplayedRows; lsn: number; timeMs: number }) {
    this.lsn = of.lsn;
    this.timeMs = of.timeMs;
    this.#rows = of.rows;
    this.#pairs = of.pairs;
  }

  get relay(): RelayRow {
    return relayRow(this.#rows);
  }

  async enrolments(): Promise<EnrolmentRow[]> {
    const rows: EnrolmentRow[] = [];
    for await (const run of this.#pairs.runs(prefixRange(PREFIX.enrolment))) {
      for (const [key, value] of run) rows.push(rowOf('enrolment', key, value));
    }
    return rows.toSorted((a, b) => a.enrolledAtMs - b.enrolledAtMs);
  }

  queueAsWhole(target: PublicKey): TargetRow {
    return this.#rows.get('target', target) ?? EMPTY_TARGET;
  }

  async *queue(target: PublicKey): AsyncGenerator<QueueRow[]> {
    const { ackedThrough } = this.queueAsWhole(target);
    for await (const run of this.#pairs.runs(queueBehind(target, ackedThrough))) {
      yield run.map(([key, value]) => rowOf('queue', key, value));
    }
  }

  async quota(target: PublicKey): Promise<QuotaThen> {
    const shares: QuotaThen['shares'] = [];
    for await (const run of this.#pairs.runs(sharesOf(target))) {
      for (const [key, value] of run) {
        const senderPubkey = publicKeyFromBytes(key.subarray(SHARE_SENDER_AT));
        shares.push({ senderPubkey, usage: rowOf('share', key, value) });
      }
    }
    return { queue: this.queueAsWhole(target), shares };
  }

  account(account: string): UsageRow {
    return this.#rows.get('account', account) ?? NO_USAGE;
  }

  /** Returns whose mail the target took; `undefined`: everybody's. */
  allowlist(target: PublicKey): SendersRow | undefined {
    return sendersRow(this.#rows, target);
  }
}
