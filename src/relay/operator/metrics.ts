/**
 * `/metrics`: the metrics of the relay, in a registry of its own.
 *
 * No label names a host, a key, an address or an account, and every label has values from a closed set: rejections,
 * problem codes, epoch reasons, what was full, methods, the paths of routes, and the witnesses of the settings.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import type { ItemRejection } from '../../protocol/items.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import type { CommittedBatch } from '../engine/committer.ts';
import type { EngineObserver } from '../engine/parts.ts';
import type { FinishedRequest } from '../../http/pipeline.ts';
import type { Displacement } from '../../http/connections.ts';
import type { Reply } from '../../http/exchange.ts';

/** The gauges, which are read at each scrape, by their names, with their help. One without a value has no series. */
const GAUGES = {
  queue_items: 'Items that wait, expiry notices left out.',
  queue_bytes: 'Wire bytes of the items that wait.',
  oldest_item_age_seconds: 'Age of the waiting item that expires first.',
  log_position: 'The last durable record of the log.',
  log_first_position: 'The first record of the log that was not pruned.',
  hosts: 'Live enrolments.',
  waiting_pulls: 'Pulls that are held until an item arrives.',
  broken_queues: 'Queues that are left as they are, because their rows are at fault.',
  open_connections: 'Connections to the listener of hosts.',
  rows_check_found: 'What the last check of the rows against the log found to be otherwise.',
  damaged_rows: 'Rows of the database that were found damaged since the start.',
  disk_free_bytes: 'Room on the disk of the store.',
  disk_low: '1 while pushes are refused for want of room.',
  last_backup_timestamp_seconds: 'When the last good backup was taken.',
  ready: '1 while the relay takes requests.',
} as const;
export type Gauges = Readonly<Record<keyof typeof GAUGES, number | undefined>>;

/** The gauges of a log that several relays share. They go on when a relay that followed leads. */
const LOG_GAUGES = {
  leading: '1 while this relay leads its shared log, and may answer.',
  term: 'The term of the relay that leads or led last.',
  behind_batches: 'Batches of the shared log that this relay has not applied yet.',
  behind_seconds: 'How long ago this relay first saw the oldest batch that it has not applied yet.',
  stalled: '1 while the shared log takes no batch.',
  doubt: '1 while the shared log is in doubt: the relay that leads begins a new epoch.',
  reached: '1 while the shared log answers this relay.',
  snapshot_timestamp_seconds: 'When the snapshot of the shared log was taken; absent without one.',
  snapshot_batch: 'The batch that the snapshot of the shared log is of.',
  snapshot_pruned_batch: 'Batches of the shared log up to this one are pruned.',
} as const;
export type LogGauges = Readonly<Record<keyof typeof LOG_GAUGES, number | undefined>>;

interface LogMetrics {
  appended(durationMs: number): void;
  renewed(isConfirmed: boolean): void;
  fenced(): void;
}

/** Long polls last up to 30 seconds. */
const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const COMMIT_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
/** An append waits for the standby; without an answer it is given up after ten seconds. */
const APPEND_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
const BATCH_EVENTS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

export interface MetricsParts {
  sharesLog: boolean;
  /** Returns how many lines of what the relay says on standard error were not written. */
  linesLost?: (() => number) | undefined;
}

export class RelayMetrics implements EngineObserver {
  readonly #registry = new Registry();
  readonly #accepted = this.#counter('items_accepted_total', 'Items that were accepted: a signed receipt says so.');
  readonly #duplicates = this.#counter('items_duplicate_total', 'Pushed items that were known already.');
  readonly #rejected = this.#counter('items_rejected_total', 'Pushed items that were rejected, by reason.', ['code']);
  readonly #acked = this.#counter('items_acked_total', 'Items that their target has and that were deleted.');
  readonly #expired = this.#counter('items_expired_total', 'Items that nobody called for in time.');
  readonly #lost = this.#counter('items_lost_total', 'Items whose row or bytes were found missing or corrupt.');
  readonly #scrubbed = this.#counter(
    'scrubbed_items_total',
    'Waiting items whose bytes a scrub compared with their hash.',
  );
  readonly #compactions = this.#counter(
    'store_compactions_total',
    'Compactions of collected mail, made while the relay was idle; LevelDB makes others by itself.',
  );
  readonly #epochs = this.#counter('epoch_rotations_total', 'Store generations begun at the start and since.', [
    'reason',
  ]);
  readonly #refused = this.#counter('requests_refused_total', 'Requests answered with a problem, by its code.', [
    'code',
  ]);
  readonly #requests = this.#histogram(
    'http_request_duration_seconds',
    'Time from the head of a request to its answer; pulls may wait.',
    REQUEST_SECONDS,
    ['method', 'route', 'code'],
  );
  readonly #commits = this.#histogram(
    'store_commit_duration_seconds',
    'Time that one synced batch took, with the note of its position.',
    COMMIT_SECONDS,
  );
  readonly #batches = this.#histogram(
    'store_commit_events',
    'Events in one synced batch; none in a heartbeat or a collection.',
    BATCH_EVENTS,
  );
  readonly #displaced = this.#counter(
    'connections_displaced_total',
    'Idle connections closed for new ones, by what was full: all of them, or those of one address.',
    ['full'],
  );
  readonly #witnesses = new Gauge({
    name: 'poste_relay_witness_cosignature_age_seconds',
    help: 'Time since each witness cosigned the log last; since the start where it did not yet.',
    labelNames: ['witness'],
    registers: [this.#registry],
  });
  readonly #gauges = this.#filled('', GAUGES);
  readonly #linesLost = this.#counter('log_lines_lost_total', 'Lines on standard error that could not be written.');
  readonly #countLost: () => number;
  #logGauges: (values: LogGauges) => void = () => undefined;
  /** Counts what happens to a log that several relays share; `undefined` where the store holds the log. */
  readonly log: LogMetrics | undefined;

  constructor(version: string, { sharesLog, linesLost = () => 0 }: MetricsParts) {
    this.#countLost = linesLost;
    if (sharesLog) {
      this.#logGauges = this.#filled('log_', LOG_GAUGES);
      this.log = this.#logMetrics();
    }
    collectDefaultMetrics({ register: this.#registry });
    const info = new Gauge({
      name: 'poste_relay_build_info',
      help: '1, with what runs in its labels.',
      labelNames: ['version', 'node'],
      registers: [this.#registry],
    });
    info.set({ version, node: process.versions.node }, 1);
  }

  pushed(outcomes: readonly PushOutcome[]): void {
    let accepted = 0;
    let duplicates = 0;
    for (const outcome of outcomes) {
      if (outcome.type === 'ItemRejected') this.#rejected.inc({ code: outcome.rejection });
      else if (outcome.status === 'accepted') accepted++;
      else duplicates++;
    }
    if (accepted > 0) this.#accepted.inc(accepted);
    if (duplicates > 0) this.#duplicates.inc(duplicates);
  }

  unread(rejection: ItemRejection, count: number): void {
    this.#rejected.inc({ code: rejection }, count);
  }

  epochBegun(reason: EpochReason): void {
    this.#epochs.inc({ reason });
  }

  scrubbed(items: number): void {
    this.#scrubbed.inc(items);
  }

  compacted(): void {
    this.#compactions.inc();
  }

  displaced(full: Displacement): void {
    this.#displaced.inc({ full });
  }

  pulled(): void {}

  committed({ entries, durationMs }: CommittedBatch): void {
    this.#commits.observe(durationMs / 1000);
    this.#batches.observe(entries.length);
    for (const { event } of entries) this.#count(event);
  }

  finished({ method, route, status, code, durationMs }: FinishedRequest): void {
    this.#requests.observe({ method, route, code: status }, durationMs / 1000);
    if (code) this.#refused.inc({ code });
  }

  async reply(gauges: Gauges, ofLog?: LogGauges, witnessAges: ReadonlyMap<string, number> = new Map()): Promise<Reply> {
    this.#gauges(gauges);
    for (const [witness, seconds] of witnessAges) this.#witnesses.set({ witness }, seconds);
    if (ofLog) this.#logGauges(ofLog);
    this.#linesLost.reset();
    this.#linesLost.inc(this.#countLost());
    const headers = { 'content-type': this.#registry.contentType };
    return { status: 200, headers, body: await this.#registry.metrics() };
  }

  #count(event: RelayEvent): void {
    switch (event.type) {
      case 'ItemsAcked':
        this.#acked.inc(event.items + event.notices);
        return;
      case 'ItemsExpired':
        this.#expired.inc(event.items.length);
        return;
      case 'ItemLost':
        this.#lost.inc();
        return;
      case 'EpochRotated':
        this.epochBegun(event.reason);
        return;
      default:
    }
  }

  #counter<Label extends string = never>(name: string, help: string, labelNames: Label[] = []): Counter<Label> {
    return new Counter({ name: `poste_relay_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #histogram<Label extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: Label[] = [],
  ): Histogram<Label> {
    return new Histogram({ name: `poste_relay_${name}`, help, labelNames, buckets, registers: [this.#registry] });
  }

  /** Makes the gauges of a table. Returns what sets them, and takes away the series of those without a value. */
  #filled<Name extends string>(
    prefix: string,
    table: Readonly<Record<Name, string>>,
  ): (values: Readonly<Record<Name, number | undefined>>) => void {
    const gauges = Object.entries<string>(table).map(([name, help]) => {
      return { name, gauge: new Gauge({ name: `poste_relay_${prefix}${name}`, help, registers: [this.#registry] }) };
    });
    return (values) => {
      for (const { name, gauge } of gauges) {
        const value = values[name as Name];
        if (value === undefined) gauge.remove();
        else gauge.set(value);
      }
    };
  }

  #logMetrics(): LogMetrics {
    const appends = this.#histogram(
      'log_append_duration_seconds',
      'Time until the shared log had a batch on every copy.',
      APPEND_SECONDS,
    );
    const renewals = this.#counter(
      'log_renewals_total',
      'Signs of life of this relay while it leads, by outcome: confirmed or failed.',
      ['outcome'],
    );
    for (const outcome of ['confirmed', 'failed']) renewals.inc({ outcome }, 0);
    const fences = this.#counter(
      'log_fences_total',
      'Statements of this relay that the shared log refused, because another relay leads.',
    );
    return {
      appended: (durationMs) => appends.observe(durationMs / 1000),
      renewed: (isConfirmed) => renewals.inc({ outcome: isConfirmed ? 'confirmed' : 'failed' }),
      fenced: () => fences.inc(),
    };
  }
}
