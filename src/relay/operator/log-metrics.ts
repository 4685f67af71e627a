/** The metrics of a log that several relays share. They go on when a relay that followed leads. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export interface LogGauges {
  /** Whether this relay leads, and may answer. */
  isLeading: boolean;
  term: number;
  /** Batches of the log that this view does not hold yet. */
  behind: number;
  /** How long ago this relay first saw the oldest of them. */
  behindMs: number;
  /** Whether the log takes nothing now. */
  isStalled: boolean;
  isInDoubt: boolean;
  /** Whether the log answered when it was asked last. */
  isReached: boolean;
  /** Of the valid snapshot, as far as a relay that leads has read it. */
  snapshotAtMs?: number | undefined;
  snapshotNo?: number;
  prunedNo?: number;
}

/** An append waits for the standby; without an answer it is given up after ten seconds. */
const APPEND_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];

export class LogMetrics {
  readonly #registry: Registry;
  readonly #appends: Histogram;
  readonly #renewals: Counter<'outcome'>;
  readonly #fences: Counter;
  readonly #leading: Gauge;
  readonly #term: Gauge;
  readonly #behind: Gauge;
  readonly #behindSeconds: Gauge;
  readonly #stalled: Gauge;
  readonly #doubt: Gauge;
  readonly #reached: Gauge;
  readonly #snapshotAt: Gauge;
  readonly #snapshotBatch: Gauge;
  readonly #prunedBatch: Gauge;

  constructor(registry: Registry) {
    this.#registry = registry;
    this.#leading = this.#gauge('leading', '1 while this relay leads its shared log, and may answer.');
    this.#term = this.#gauge('term', 'The term of the relay that leads or led last.');
    this.#behind = this.#gauge('behind_batches', 'Batches of the shared log that this relay has not applied yet.');
    this.#behindSeconds = this.#gauge(
      'behind_seconds',
      'How long ago this relay first saw the oldest batch that it has not applied yet.',
    );
    this.#stalled = this.#gauge('stalled', '1 while the shared log takes no batch.');
    this.#doubt = this.#gauge('doubt', '1 while the shared log is in doubt: the relay that leads begins a new epoch.');
    this.#reached = this.#gauge('reached', '1 while the shared log answers this relay.');
    this.#snapshotAt = this.#gauge(
      'snapshot_timestamp_seconds',
      'When the snapshot of the shared log was taken; absent without one.',
    );
    this.#snapshotBatch = this.#gauge('snapshot_batch', 'The batch that the snapshot of the shared log is of.');
    this.#prunedBatch = this.#gauge('snapshot_pruned_batch', 'Batches of the shared log up to this one are pruned.');
    this.#appends = new Histogram({
      name: 'poste_relay_log_append_duration_seconds',
      help: 'Time until the shared log had a batch on every copy.',
      buckets: APPEND_SECONDS,
      registers: [registry],
    });
    this.#renewals = new Counter({
      name: 'poste_relay_log_renewals_total',
      help: 'Signs of life of this relay while it leads, by outcome: confirmed or failed.',
      labelNames: ['outcome'],
      registers: [registry],
    });
    for (const outcome of ['confirmed', 'failed']) this.#renewals.inc({ outcome }, 0);
    this.#fences = new Counter({
      name: 'poste_relay_log_fences_total',
      help: 'Statements of this relay that the shared log refused, because another relay leads.',
      registers: [registry],
    });
  }

  appended(durationMs: number): void {
    this.#appends.observe(durationMs / 1000);
  }

  renewed(isConfirmed: boolean): void {
    this.#renewals.inc({ outcome: isConfirmed ? 'confirmed' : 'failed' });
  }

  fenced(): void {
    this.#fences.inc();
  }

  show({ isLeading, term, behind, behindMs, isStalled, isInDoubt, isReached, ...snapshot }: LogGauges): void {
    this.#leading.set(isLeading ? 1 : 0);
    this.#term.set(term);
    this.#behind.set(behind);
    this.#behindSeconds.set(behindMs / 1000);
    this.#stalled.set(isStalled ? 1 : 0);
    this.#doubt.set(isInDoubt ? 1 : 0);
    this.#reached.set(isReached ? 1 : 0);
    const { snapshotAtMs, snapshotNo, prunedNo } = snapshot;
    for (const gauge of [this.#snapshotAt, this.#snapshotBatch, this.#prunedBatch]) gauge.remove();
    if (snapshotAtMs !== undefined) this.#snapshotAt.set(snapshotAtMs / 1000);
    if (snapshotNo !== undefined) this.#snapshotBatch.set(snapshotNo);
    if (prunedNo !== undefined) this.#prunedBatch.set(prunedNo);
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name: `poste_relay_log_${name}`, help, registers: [this.#registry] });
  }
}
