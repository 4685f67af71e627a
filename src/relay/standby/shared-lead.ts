/** The lead of a shared log: a relay follows until it has the lead, and uses it while it serves. */
import type { ExchangeHandler } from '../../http/exchange.ts';
import type { RandomBytes } from '../../lib/clock.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/names.ts';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import { LeaderGate } from './leader-gate.ts';
import { Standby } from './standby.ts';
import type { Watch } from '../operator/activity.ts';
import type { LogGauges } from '../operator/metrics.ts';
import type { RelayOptions } from '../serve/options.ts';
import { joinLog } from '../shared-log/node.ts';
import { type LeadingNode, placeOf } from '../shared-log/take-lead.ts';
import type { HandOver, SharedLogOptions } from '../shared-log/node-options.ts';
import { LogWatch } from '../shared-log/log-watch.ts';
import { LogRefused, type SharedLog } from '../shared-log/shared-log.ts';
import { SnapshotJob } from '../shared-log/snapshot-job.ts';
import { contradictedDoubt, epochsOf, isSettled } from '../shared-log/doubt.ts';
import { settingsThatDiffer } from '../shared-log/takeover-rules.ts';
import type { Engine } from '../engine/engine.ts';
import type { QueueRow } from '../core/rows.ts';
import type { OpenedStore } from '../store/open.ts';

/** The relay was stopped while it followed. */
export class StoppedFollowing extends Error {}

interface LeadOptions {
  options: RelayOptions;
  watch: Watch | undefined;
  sharedLog: SharedLogOptions;
  newEpoch: () => Epoch;
  /** Another node took the lead. It comes once. */
  onLost: (error: Error) => void;
}

/** The lead of a shared log, as the relay that has it uses it. */
export class SharedLead {
  readonly #options: LeadOptions;
  #onHandOver!: (why: HandOver) => void;
  /** Resolves when this node is to stop, and to follow. */
  readonly handedOver = new Promise<HandOver>((resolve) => (this.#onHandOver = resolve));
  #node: LeadingNode | undefined;
  #isStalled = false;
  #snapshots: SnapshotJob | undefined;
  #gate: LeaderGate | undefined;
  readonly #log: SharedLog;
  readonly #logWatch: LogWatch;
  readonly #settings: Buffer;
  #name = '';
  /** Begins a new epoch because the log is in doubt; one at a time. */
  #beginning: SingleFlightTask | undefined;
  #doubt = '';

  private constructor(options: LeadOptions) {
    const { watch, sharedLog } = options;
    this.#options = options;
    this.#logWatch = new LogWatch(options.options.clock, watch?.metrics.log);
    this.#log = this.#logWatch.watched(sharedLog.log);
    this.#settings = Buffer.from(JSON.stringify(decidingSettings(options.options)));
  }

  /** Follows until this node leads. Throws `LogRefused`, `StoreRefused` and `StoppedFollowing`. */
  static async follow(options: LeadOptions): Promise<SharedLead> {
    const lead = new SharedLead(options);
    const standby = await Standby.start({
      options: options.options,
      signer: keyFromOutside(options.options),
      log: lead.#log,
      watch: options.watch,
      sharedLog: lead,
    });
    try {
      lead.#node = await lead.#join(standby);
      return lead;
    } finally {
      await standby.stop();
    }
  }

  get opened(): OpenedStore {
    const { store, initialised, notices, epochBegun } = this.#leading;
    return {
      store,
      signer: keyFromOutside(this.#options.options),
      initialised,
      notices,
      epochBegun,
      isClockSuspect: false,
    };
  }

  /** Returns a handler that passes requests to `handler` while this node may answer. */
  gated(randomBytes: RandomBytes, handler: ExchangeHandler): ExchangeHandler {
    this.#gate = new LeaderGate(() => this.mayAnswer, randomBytes);
    return this.#gate.before(handler);
  }

  /** True when no other node can lead yet. */
  get mayAnswer(): boolean {
    return this.#leading.leadership.isCurrent;
  }

  /** True when the log takes nothing now: its disk is full, it is not reached, or a batch would have no second copy. */
  get isStalled(): boolean {
    return this.#isStalled || this.#logWatch.copyFault !== undefined;
  }

  /** Says why this relay, which leads, is to get no requests now, as a clause. */
  get whyNotReady(): string | undefined {
    if (!this.mayAnswer) return 'the log has confirmed no sign of life of this relay for too long';
    const { copyFault } = this.#logWatch;
    return copyFault === undefined ? undefined : `nothing is accepted: ${copyFault}`;
  }

  /** The wire bytes of these rows, as the log has them. */
  wireBytes(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    const { log, tenure } = this.#leading;
    return log.payloads(tenure.logId, rows.map(placeOf));
  }

  get gauges(): LogGauges {
    const { term, behind, behindMs, doubt, isReached } = this.#logWatch.status;
    const { snapshotAtMs, snapshotNo, prunedNo } = this.#snapshots?.gauges ?? {};
    return {
      leading: Number(this.#node !== undefined && this.mayAnswer),
      term,
      behind_batches: behind,
      behind_seconds: behindMs / 1000,
      stalled: Number(this.isStalled),
      doubt: Number(doubt !== undefined),
      reached: Number(isReached),
      snapshot_timestamp_seconds: snapshotAtMs === undefined ? undefined : snapshotAtMs / 1000,
      snapshot_batch: snapshotNo,
      snapshot_pruned_batch: prunedNo,
    };
  }

  /** Returns who leads, and how this node is. */
  get shown(): SharedLogShown {
    const { leader, sinceMs, term, behind, behindMs, doubt, isReached, copyFault, fences, fencedAtMs, settings } =
      this.#logWatch.status;
    return {
      node: this.#name,
      leader: leader ?? null,
      leading_since: sinceMs ?? null,
      term,
      behind_batches: behind,
      behind_ms: Math.round(behindMs),
      is_reached: isReached,
      is_stalled: this.isStalled,
      copy_fault: copyFault ?? null,
      doubt: doubt ?? null,
      fences,
      fenced_at: fencedAtMs ?? null,
      snapshot_at: this.#snapshots?.gauges.snapshotAtMs ?? null,
      settings_differ: settingsThatDiffer(settings, this.#settings),
    };
  }

  /** Gives a log in doubt its new epoch from `engine`, from now on. */
  serves(engine: Engine): void {
    const { newEpoch, options } = this.#options;
    this.#beginning = new SingleFlightTask({
      work: async () => {
        const doubt = this.#doubt;
        const isAnswered = isSettled(doubt, this.#leading.store.tree);
        if (!isAnswered)
          await engine.rotateEpoch({
            type: 'RotateEpoch',
            epoch: newEpoch(),
            reason: 'log-in-doubt',
            nowMs: options.clock.nowMs(),
          });
        const { log, tenure } = this.#leading;
        await log.clearDoubt(tenure, doubt);
        if (isAnswered) options.log.info({ why: doubt }, 'the epoch of the log answers its doubt: none begins');
        else options.log.error({ why: doubt }, 'the log is in doubt: a new epoch begins');
      },
      onError: (error) => options.log.error({ err: error }, 'the log is in doubt, and no new epoch could be begun'),
    });
  }

  /**
   * Begins a new epoch as a checkpoint contradicts the log; a leader that comes before it is durable does so too.
   * A node that may not answer any more does nothing: the next leader may have signed the checkpoint.
   */
  async contradicted(): Promise<void> {
    if (!this.mayAnswer) return;
    const { log, tenure, store } = this.#leading;
    const reason = contradictedDoubt(epochsOf(store.tree));
    await log.doubt(tenure.logId, reason);
    this.#doubt = reason;
    await this.#beginning?.rerun();
  }

  /** Takes snapshots for the log, and prunes it, while this node leads. */
  startSnapshots(engine: Engine): SnapshotJob {
    const { options, sharedLog } = this.#options;
    const { clock, timers, log } = options;
    this.#snapshots = new SnapshotJob({
      ...this.#leading,
      retention: engine.logRetention,
      due: sharedLog.snapshotDue,
      clock,
      timers,
      onTaken: (taken) => log.info(taken, 'a snapshot of the log was taken and read back'),
      onPruned: (throughBatch) => log.info({ throughBatch }, 'old batches of the log were pruned'),
      onFailed: (error) =>
        log.error(
          { err: error },
          'no snapshot of the log could be taken, or the log could not be pruned; it is tried again',
        ),
    });
    return this.#snapshots;
  }

  /** A batch that the log does not take is given to it no more: the relay stops. */
  stopRetrying(): void {
    this.#leading.stopRetrying();
  }

  /** Gives the lead back. Call it when nothing is appended any more. */
  async close(): Promise<void> {
    await this.#beginning?.stop();
    await this.#leading.close();
  }

  get #leading(): LeadingNode {
    if (!this.#node) throw new Error('invariant: the node leads');
    return this.#node;
  }

  async #join(standby: Standby): Promise<LeadingNode> {
    const { options, sharedLog, newEpoch, onLost } = this.#options;
    const { storeDir, positionFile, positionHome, clock, timers, log, version } = options;
    const node = await joinLog({
      ...sharedLog,
      log: this.#log,
      folder: storeDir,
      positionFile,
      positionHome,
      version,
      signer: keyFromOutside(options),
      settings: decidingSettings(options),
      clock,
      timers,
      newEpoch,
      onLost,
      onHandOver: (why) => this.#onHandOver(why),
      logger: log,
      signal: options.stopFollowing ?? new AbortController().signal,
      onView: (view, name) => {
        this.#name = name;
        this.#logWatch.views(() => view.log.no);
        standby.follows(view);
      },
      onViewLeft: () => standby.leavesView(),
      viewFault: () => standby.viewFault,
      onFollowed: () => standby.caughtUp(),
      onStalled: (why) => this.#noteStalled(why),
      onUnreached: () => this.#gate?.refuseUnderWay(),
      onDoubt: (why) => {
        this.#doubt = why;
        void this.#beginning?.run();
      },
    });
    if (!node) throw new StoppedFollowing('the relay was stopped while it followed');
    return node;
  }

  #noteStalled(why: string | undefined): void {
    const { log } = this.#options.options;
    if (why !== undefined && !this.#isStalled)
      log.error({ why }, 'the log takes nothing: pushes are refused until it does');
    if (why === undefined && this.#isStalled) log.info({}, 'the log takes batches again');
    this.#isStalled = why !== undefined;
  }
}

/** Several nodes sign with one key, so none of them makes it. */
function keyFromOutside({ signer }: RelayOptions): Signer {
  if (signer) return signer;
  throw new LogRefused(
    'a relay whose log is shared takes its key from outside: name it with --key-file, or set MAIL_RELAY_KEY',
  );
}

/** Decisions rest on these: two nodes that differ in them must not lead one after the other unnoticed. */
function decidingSettings({
  limits,
  admission,
  enrolmentsMax,
  dedupRowsMax,
  mailBudgetBytes,
  issuer,
  logRetention,
}: RelayOptions): object {
  const authority = issuer ? { issuer: issuer.issuer, relayUrl: issuer.relayUrl } : 'host-key';
  const budget = mailBudgetBytes === undefined ? {} : { mailBudgetBytes };
  const logKeepMs = logRetention?.keepMs ?? null;
  return { limits, admission, enrolmentsMax, dedupRowsMax, ...budget, authority, logKeepMs };
}
