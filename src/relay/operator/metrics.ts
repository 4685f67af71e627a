/**
 * `/metrics`: the metrics of the relay, in a registry of its own.
 *
 * No label names a host, a key, an address or an account, and every label has values from a closed set: rejections,
 * problem codes, epoch reasons, what was full, methods and the paths of routes.
 */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import type { ItemRejection } from '../../protocol/items.ts';
import type { PushOutcome } from '../core/decision.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import type { CommittedBatch, EngineObserver } from '../engine/observer.ts';
import type { FinishedRequest } from '../../http/pipeline.ts';
import type { Displacement } from '../../http/connections.ts';
import type { Reply } from '../../http/exchange.ts';
import { type LogGauges, LogMetrics } from './log-metrics.ts';

/** Values of a relay that serves; a standby knows none of them. */
export interface ServingGauges {
  queueItems: number;
  queueBytes: number;
  /** Seconds; `undefined` while it is not known yet. */
  oldestItemAgeS: number | undefined;
  hosts: number;
  waitingPulls: number;
  /** Queues that are left as they are, because their rows are at fault. */
  brokenQueues: number;
  /** Of hosts, and of all other clients of their listener. */
  openConnections: number;
  isDiskLow: boolean;
  isReady: boolean;
}

/** Values that are read at each scrape, not counted when something happens. */
export interface Gauges {
  /** `undefined`: a standby, which is not ready, and refuses no push for want of room. */
  serving: ServingGauges | undefined;
  logPosition: number;
  logFirstPosition: number;
  damagedRows: number;
  /** How many rows the last check against the log found. */
  rowsFound: number;
  diskFreeBytes: number;
  /** Milliseconds since 1970; 0 when a plan has none yet, `undefined` without a plan and before any was taken. */
  lastBackupMs: number | undefined;
  /** Of a log that several relays share; `undefined` where the store holds the log. */
  log: LogGauges | undefined;
}

/** Long polls last up to 30 seconds. */
const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const COMMIT_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const BATCH_EVENTS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

export interface MetricsParts {
  sharesLog: boolean;
  /** How many lines of what the relay says on standard error were not written. */
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
  readonly #requests = new Histogram({
    name: 'poste_relay_http_request_duration_seconds',
    help: 'Time from the head of a request to its answer; pulls may wait.',
    labelNames: ['method', 'route', 'code'],
    buckets: REQUEST_SECONDS,
    registers: [this.#registry],
  });
  readonly #commits = new Histogram({
    name: 'poste_relay_store_commit_duration_seconds',
    help: 'Time that one synced batch took, with the note of its position.',
    buckets: COMMIT_SECONDS,
    registers: [this.#registry],
  });
  readonly #batches = new Histogram({
    name: 'poste_relay_store_commit_events',
    help: 'Events in one synced batch; none in a heartbeat or a collection.',
    buckets: BATCH_EVENTS,
    registers: [this.#registry],
  });
  readonly #queueItems = this.#gauge('queue_items', 'Items that wait, expiry notices left out.');
  readonly #queueBytes = this.#gauge('queue_bytes', 'Wire bytes of the items that wait.');
  readonly #oldest = this.#gauge('oldest_item_age_seconds', 'Age of the waiting item that expires first.');
  readonly #position = this.#gauge('log_position', 'The last durable record of the log.');
  readonly #firstPosition = this.#gauge('log_first_position', 'The first record of the log that was not pruned.');
  readonly #hosts = this.#gauge('hosts', 'Live enrolments.');
  readonly #waits = this.#gauge('waiting_pulls', 'Pulls that are held until an item arrives.');
  readonly #broken = this.#gauge('broken_queues', 'Queues that are left as they are, because their rows are at fault.');
  readonly #connections = this.#gauge('open_connections', 'Connections to the listener of hosts.');
  readonly #displaced = this.#counter(
    'connections_displaced_total',
    'Idle connections closed for new ones, by what was full: all of them, or those of one address.',
    ['full'],
  );
  readonly #rowsFound = this.#gauge(
    'rows_check_found',
    'What the last check of the rows against the log found to be otherwise.',
  );
  readonly #damaged = this.#gauge('damaged_rows', 'Rows of the database that were found damaged since the start.');
  readonly #diskFree = this.#gauge('disk_free_bytes', 'Room on the disk of the store.');
  readonly #diskLow = this.#gauge('disk_low', '1 while pushes are refused for want of room.');
  readonly #lastBackup = this.#gauge('last_backup_timestamp_seconds', 'When the last good backup was taken.');
  readonly #ready = this.#gauge('ready', '1 while the relay takes requests.');
  readonly #linesLost = this.#counter('log_lines_lost_total', 'Lines on standard error that could not be written.');
  readonly #countLost: () => number;
  /** `undefined` where the store holds the log. */
  readonly log: LogMetrics | undefined;

  constructor(version: string, { sharesLog, linesLost = () => 0 }: MetricsParts) {
    this.#countLost = linesLost;
    this.log = sharesLog ? new LogMetrics(this.#registry) : undefined;
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

  async reply({ serving, lastBackupMs, ...gauges }: Gauges): Promise<Reply> {
    show(this.#queueItems, serving?.queueItems);
    show(this.#queueBytes, serving?.queueBytes);
    show(this.#oldest, serving && (serving.oldestItemAgeS ?? Number.NaN));
    show(this.#hosts, serving?.hosts);
    show(this.#waits, serving?.waitingPulls);
    show(this.#broken, serving?.brokenQueues);
    show(this.#connections, serving?.openConnections);
    this.#diskLow.set(serving?.isDiskLow ? 1 : 0);
    this.#ready.set(serving?.isReady ? 1 : 0);
    this.#position.set(gauges.logPosition);
    this.#firstPosition.set(gauges.logFirstPosition);
    this.#damaged.set(gauges.damagedRows);
    this.#rowsFound.set(gauges.rowsFound);
    this.#diskFree.set(gauges.diskFreeBytes);
    show(this.#lastBackup, lastBackupMs === undefined ? undefined : lastBackupMs / 1000);
    this.#linesLost.reset();
    this.#linesLost.inc(this.#countLost());
    if (gauges.log) this.log?.show(gauges.log);
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

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name: `poste_relay_${name}`, help, registers: [this.#registry] });
  }
}

/** Sets a gauge, or takes its series away. */
function show(gauge: Gauge, value: number | undefined): void {
  if (value === undefined) gauge.remove();
  else gauge.set(value);
}
