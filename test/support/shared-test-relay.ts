/** A `TestRelay` of several nodes that share a log: with each opening the next of them leads. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { catchUp } from '../../src/relay/shared-log/follow.ts';
import { decodeBody } from '../../src/relay/shared-log/batch-body.ts';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import { joinLog } from '../../src/relay/shared-log/node.ts';
import type { LeadingNode } from '../../src/relay/shared-log/take-lead.ts';
import { closeView, openView } from '../../src/relay/shared-log/open-view.ts';
import type { SnapshotDue } from '../../src/relay/shared-log/node-options.ts';
import { SnapshotJob } from '../../src/relay/shared-log/snapshot-job.ts';
import { PREFIX } from '../../src/relay/store/keys.ts';
import { decodeRecord } from '../../src/relay/store/record.ts';
import type { LogEntry } from '../../src/relay/core/event.ts';
import type { OpenStoreOptions } from '../../src/relay/store/open.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import type { SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import { relay } from './hosts.ts';
import { ManualTimers } from './manual-time.ts';
import { MemoryLogServer } from './memory-log.ts';
import { withRawLevel } from './raw-level.ts';
import { logicalPairs } from './stored-items.ts';
import { TestRelay, type TestRelayOptions } from './test-relay.ts';

const AT_ONCE: readonly SnapshotDue[] = [{ batches: 1, ageMs: 0 }];
/** Keys that differ from node to node: how long each keeps records is its own affair too. */
const OF_THIS_NODE: ReadonlySet<number | undefined> = new Set([
  PREFIX.heartbeat,
  PREFIX.view,
  PREFIX.log,
  PREFIX.checkpointPart,
  PREFIX.checkpoint,
  PREFIX.pruned,
]);
const NOBODY = { info: () => undefined, warn: () => undefined, error: () => undefined };

export class SharedTestRelay extends TestRelay {
  /** Its log shows life whenever it is opened: no renewal comes meanwhile, and other tests judge its age. */
  override readonly doubtsOldHeartbeats = false;
  readonly server = new MemoryLogServer();
  /** The folders of the nodes, in the order in which they lead. */
  readonly folders: readonly string[];
  readonly #client: () => SharedLog;
  #opened = 0;
  #node: LeadingNode | undefined;

  /** `client` gives another client of the log; without it the log is in memory. */
  constructor(folder: string, nodes: number, options: TestRelayOptions, client?: () => SharedLog) {
    super(folder, options);
    this.#client = client ?? (() => this.server.client());
    this.folders = Array.from({ length: nodes }, (_none, at) => join(folder, `node-${at}`));
    this.server.nowMs = () => this.clock.nowMs;
  }

  protected override async openStore(
    newEpoch: OpenStoreOptions['newEpoch'],
  ): Promise<{ store: RelayStore; notices: string[] }> {
    const folder = this.folders[this.#opened++ % this.folders.length] ?? '';
    const node = await joinLog({
      log: this.#log(),
      durability: 'standby',
      leaseMs: LEASE_MS,
      acceptsSettings: false,
      folder,
      version: '1.0.0',
      signer: relay.signer,
      settings: {},
      clock: { nowMs: () => this.clock.nowMs, monotonicMs: () => 0 },
      timers: new ManualTimers(),
      newEpoch,
      logger: NOBODY,
      signal: new AbortController().signal,
    });
    if (!node) throw new Error('the node does not lead');
    this.#node = node;
    return node;
  }

  /** Its server has the clock of this relay. */
  #log(): SharedLog {
    const log = this.#client();
    const open = log.open.bind(log);
    log.open = async () => {
      const { nowMs } = this.clock;
      const { state, ...opened } = await open();
      return { ...opened, nowMs, state: state && { ...state, beatMs: nowMs } };
    };
    return log;
  }

  protected override async closeStore(): Promise<void> {
    await this.#node?.close();
  }

  get node(): LeadingNode {
    if (!this.#node) throw new Error('no node leads');
    return this.#node;
  }

  /** Returns what a leader does with snapshots, and what it met. */
  snapshotJob(due = AT_ONCE): { job: SnapshotJob; failures: unknown[] } {
    const failures: unknown[] = [];
    const job = new SnapshotJob({
      ...this.node,
      retention: this.engine.logRetention,
      due,
      clock: { nowMs: () => this.clock.nowMs, monotonicMs: () => 0 },
      timers: new ManualTimers(),
      onTaken: () => undefined,
      onPruned: () => undefined,
      onFailed: (error) => failures.push(error),
    });
    return { job, failures };
  }

  /** Throws what the job met. */
  async takeSnapshot(): Promise<void> {
    const { job, failures } = this.snapshotJob();
    await job.run();
    await job.stop();
    if (failures.length > 0) throw failures[0];
  }

  /** Deletes that share of the batches that the snapshot stands for. */
  async prune(share: number): Promise<void> {
    const { log, tenure } = this.node;
    const throughNo = Math.floor((this.server.row?.snapshotNo ?? 0) * share);
    if (throughNo > 0) while (await log.prune(tenure, throughNo));
  }

  /** All nodes stop, the disks of some are empty, and the next node leads. */
  async wipe(nodes: readonly number[]): Promise<void> {
    await this.close();
    for (const node of nodes) await rm(this.folders[node] ?? '', { recursive: true, force: true });
    await this.open();
  }

  /** The records that the view lacks because it was pruned, or filled from a snapshot. */
  get prunedEntries(): LogEntry[] {
    return this.server.stored.flatMap(({ firstLsn, body }) =>
      decodeBody(body).records.flatMap((record, at) =>
        firstLsn + at < this.store.firstLsn ? [decodeRecord(firstLsn + at, record)] : [],
      ),
    );
  }

  /**
   * Returns what a node that does not lead comes to hold of the log, key by key, when it has followed to the end; what
   * lies in runs as if it lay alone.
   * `asked` is told of each question to the log while a view is filled.
   */
  async followed(folder: string, asked: () => void = () => undefined): Promise<Map<string, string>> {
    const { server } = this;
    const log = server.client();
    const { state } = server;
    if (!state) throw new Error('the log has not begun');
    const view = await openView({
      folder,
      log,
      state,
      clock: { nowMs: () => this.clock.nowMs, monotonicMs: () => 0 },
      timers: new ManualTimers(),
      logger: NOBODY,
      asked: <T>(work: () => Promise<T>) => {
        asked();
        return work();
      },
    });
    await catchUp({ log, store: view.store, view: view.log });
    await closeView(view);
    const pairs = new Map<string, string>();
    await withRawLevel(folder, async (level) => {
      for await (const pair of level.iterator())
        if (!OF_THIS_NODE.has(pair[0][0]))
          for (const [key, value] of logicalPairs(pair)) pairs.set(key.toString('hex'), value.toString('hex'));
    });
    return pairs;
  }
}
