/**
 * An engine over a real LevelDB in a temporary folder, with a clock that the test moves.
 *
 * `openTestRelay` inside a test cleans up after itself. `reopen` closes store and engine as a good stop does and opens
 * them again, with the same clock and settings.
 */
import { onTestFinished } from 'vitest';
import type {
  AckItems,
  DenyHosts,
  EnrolHost,
  PublishSenders,
  PushItem,
  RotateKey,
} from '../../src/relay/core/command.ts';
import type {
  AckOutcome,
  EnrolOutcome,
  PushOutcome,
  Refusal,
  RotateOutcome,
  SendersOutcome,
} from '../../src/relay/core/decision.ts';
import type { QueueRow } from '../../src/relay/core/rows.ts';
import type { StoreFailed, CommittedBatch } from '../../src/relay/engine/committer.ts';
import { Engine } from '../../src/relay/engine/engine.ts';
import { NO_OBSERVER } from '../../src/relay/engine/parts.ts';
import type { Level } from '../../src/relay/store/level.ts';
import { type OpenStoreOptions, openStore } from '../../src/relay/store/open.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import { enrolOf } from './commands.ts';
import { epochSource } from './epochs.ts';
import { type TestHost, relay } from './hosts.ts';
import { withRawLevel } from './raw-level.ts';
import { type SettingsChanges, settingsWith } from './settings.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { TestClock } from './test-clock.ts';

export interface TestRelayOptions extends SettingsChanges {
  /** A temporary one when absent. */
  folder?: string;
  clock?: TestClock;
  newEpoch?: OpenStoreOptions['newEpoch'];
  /**
   * One that stands still when absent, so that the engine pauses nowhere: by the clock of the process it would depend
   * on the machine where it pauses, and with that what shares a batch.
   */
  monotonicMs?: () => number;
  /** To be enrolled. */
  hosts?: readonly TestHost[];
}

export async function openTestRelay(options: TestRelayOptions = {}): Promise<TestRelay> {
  const testRelay = new TestRelay(options.folder ?? (await temporaryFolder()), options);
  await testRelay.open();
  onTestFinished(() => testRelay.close());
  await testRelay.enrolAll(...(options.hosts ?? []));
  return testRelay;
}

/** The same, at which these hosts are enrolled. */
export function enrolledTestRelay(...hosts: TestHost[]): Promise<TestRelay> {
  return openTestRelay({ hosts });
}

export class TestRelay {
  readonly folder: string;
  readonly clock: TestClock;
  readonly settings: ReturnType<typeof settingsWith>;
  /** The failures for which the engine told its process to end. */
  readonly failures: StoreFailed[] = [];
  /** What the operator was told of queues of which items are gone. */
  readonly vanished: string[] = [];
  /** The notices of the last opening to the operator. */
  notices: readonly string[] = [];
  /** Called with each batch when it is durable, before those that waited for it. */
  committed: (batch: CommittedBatch) => void = () => undefined;
  /** Says whether an opening after a long time, or with a clock set back, begins a new epoch. */
  readonly doubtsOldHeartbeats: boolean = true;
  store!: RelayStore;
  engine!: Engine;
  readonly #newEpoch: OpenStoreOptions['newEpoch'];
  readonly #monotonicMs: () => number;
  #isOpen = false;

  constructor(folder: string, { clock, newEpoch, monotonicMs, folder: _folder, ...settings }: TestRelayOptions) {
    this.folder = folder;
    this.clock = clock ?? new TestClock();
    this.settings = settingsWith(settings);
    this.#newEpoch = newEpoch ?? epochSource();
    this.#monotonicMs = monotonicMs ?? (() => 0);
  }

  async open(): Promise<void> {
    const { store, notices } = await this.openStore(this.#newEpoch);
    this.store = store;
    this.notices = notices;
    this.#isOpen = true;
    const options = {
      store,
      settings: this.settings,
      signer: relay.signer,
      monotonicMs: this.#monotonicMs,
      onStoreFailed: (failure: StoreFailed) => void this.failures.push(failure),
      onVanished: async ({ reason }: { reason: string }) => {
        this.vanished.push(reason);
        const command = { type: 'RotateEpoch', epoch: this.#newEpoch(), reason: 'item-lost' } as const;
        await this.engine.rotateEpoch({ ...command, nowMs: this.clock.nowMs });
      },
      observer: { ...NO_OBSERVER, committed: (batch: CommittedBatch) => this.committed(batch) },
    };
    this.engine = await Engine.start(options, this.clock.nowMs);
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.engine.close();
    await this.closeStore();
  }

  /** Closes, and lets `work` at what is stored. */
  async atRest<T>(work: (level: Level) => Promise<T>): Promise<T> {
    await this.close();
    return withRawLevel(this.folder, work);
  }

  /** The same, and opens again. */
  async altered(work: (level: Level) => Promise<unknown>): Promise<void> {
    await this.atRest(work);
    await this.open();
  }

  async reopen(): Promise<void> {
    await this.close();
    await this.open();
  }

  /** The store of the next life of the relay. */
  protected openStore(newEpoch: OpenStoreOptions['newEpoch']): Promise<{ store: RelayStore; notices: string[] }> {
    const { folder, clock } = this;
    return openStore({ folder, signer: relay.signer, nowMs: clock.nowMs, newEpoch });
  }

  protected closeStore(): Promise<void> {
    return this.store.close();
  }

  /** One push request. Every item is stamped with the clock. */
  async push(...commands: readonly PushItem[]): Promise<PushOutcome[]> {
    const stamp = { nowMs: this.clock.nowMs };
    const pushed = await this.engine.pushes.push(
      commands.map((command) => Object.assign({}, command, stamp)),
      (outcomes) => outcomes,
    );
    // A revoked sender gets no further than its hop; here it got none of its items answered.
    return pushed.type === 'Refusal' ? [] : pushed.answer;
  }

  /** Pushes one item and answers its verdict and seqs. */
  async pushOne(command: PushItem): Promise<{ verdict: string; seqs: number[] }> {
    const [outcome] = await this.push(command);
    return outcomeOf(outcome);
  }

  enrol(command: EnrolHost): Promise<EnrolOutcome | Refusal> {
    return this.engine.admissions.enrol({ ...command, nowMs: this.clock.nowMs });
  }

  async enrolAll(...hosts: readonly TestHost[]): Promise<void> {
    await Promise.all(hosts.map((host) => this.enrol(enrolOf(host))));
  }

  /** Acks in the current epoch unless the command is stamped with another one. */
  ack(target: TestHost, through: number, changes: Partial<AckItems> = {}): Promise<AckOutcome | Refusal> {
    const { epoch } = this.engine;
    const { nowMs } = this.clock;
    return this.engine.acks.ack({ type: 'AckItems', targetPubkey: target.key, epoch, through, nowMs, ...changes });
  }

  publishSenders(command: PublishSenders): Promise<SendersOutcome | Refusal> {
    return this.engine.publishSenders({ ...command, nowMs: this.clock.nowMs });
  }

  rotate(command: RotateKey): Promise<RotateOutcome | Refusal> {
    return this.engine.admissions.rotateKey({ ...command, nowMs: this.clock.nowMs });
  }

  async deny(command: DenyHosts): Promise<void> {
    await this.engine.admissions.denyHosts({ ...command, nowMs: this.clock.nowMs });
  }

  /** A whole sweep at the clock's time: expires, then forgets. */
  async sweep(): Promise<void> {
    await this.expire();
    await this.purge();
  }

  /** The same so much later; resolves with the time of it. */
  async sweepAfter(ms: number): Promise<number> {
    const atMs = this.clock.move(ms);
    await this.sweep();
    return atMs;
  }

  async expire(): Promise<void> {
    await this.engine.expiry.expire(() => this.clock.nowMs, new AbortController().signal);
  }

  async purge(): Promise<void> {
    await this.engine.expiry.purgeDedup(() => this.clock.nowMs, new AbortController().signal);
  }

  /** Returns how many dedup rows a sender is counted for. */
  dedupRows(sender: TestHost): number {
    return this.store.get('sender', sender.key)?.dedupRows ?? 0;
  }

  /** Everything that waits for `target`, page by page. */
  async queue(target: TestHost): Promise<QueueRow[]> {
    const rows: QueueRow[] = [];
    for (let after = 0; ; ) {
      const page = await this.engine.page(target.key, after, this.settings.limits.max_pull);
      rows.push(...page.rows);
      const last = page.rows.at(-1);
      if (!page.more || !last) return rows;
      after = last.seq;
    }
  }

  /** The wire bytes of everything that waits for `target`, as text. */
  async wires(target: TestHost): Promise<(string | undefined)[]> {
    const payloads = await this.engine.payloads(await this.queue(target));
    return payloads.map((wire) => wire?.toString());
  }
}

/** The verdict of one pushed item, in the words of `results[i].status`, and its seqs. */
export function outcomeOf(outcome: PushOutcome | undefined): { verdict: string; seqs: number[] } {
  if (outcome?.type === 'ItemStored') {
    return { verdict: outcome.status, seqs: outcome.targets.map(({ seq }) => seq) };
  }
  return { verdict: `rejected:${outcome?.rejection ?? 'unanswered'}`, seqs: [] };
}
