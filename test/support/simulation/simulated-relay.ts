/**
 * The relay of a simulation: the store as it is opened at every start, the engine, the sweep and the job that prunes
 * the log, in a process that is killed and started again over what its disk kept. What the routes do with a parsed
 * request is done here; signatures of hops are not part of it.
 */
import { hasHash, sha256Hex } from '../../../src/protocol/encodings.ts';
import { signDocument, acceptReceipt } from '../../../src/protocol/documents.ts';
import { EPOCH_RANDOM_BYTES, type Epoch, epochFromRandom, type ItemId } from '../../../src/protocol/names.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import type { PushOutcome, Refusal } from '../../../src/relay/core/decision.ts';
import { Challenges } from '../../../src/relay/auth/challenges.ts';
import { isAdmitted } from '../../../src/relay/auth/hop.ts';
import { rowKey } from '../../../src/relay/core/rows.ts';
import { StoreFailed, type CommittedBatch } from '../../../src/relay/engine/committer.ts';
import { Engine, type Page } from '../../../src/relay/engine/engine.ts';
import { LostItems } from '../../../src/relay/engine/lost-items.ts';
import { NO_OBSERVER } from '../../../src/relay/engine/parts.ts';
import { RetentionJob } from '../../../src/relay/jobs/retention-job.ts';
import { Sweeps } from '../../../src/relay/jobs/sweep.ts';
import { declaredSchema } from '../../../src/relay/store/marks.ts';
import { type OpenedStore, storeOver } from '../../../src/relay/store/open.ts';
import { PositionFile } from '../../../src/relay/store/position.ts';
import type { RelayStore } from '../../../src/relay/store/relay-store.ts';
import { enrolOf, rotateOf } from '../commands.ts';
import { relay as relayHost } from '../hosts.ts';
import { lookedAtClock } from '../machine-speed.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { type SettingsChanges, settingsWith } from '../settings.ts';
import { NOON_MS } from '../test-clock.ts';
import type { Answer, PulledItem, PushResult, Request, SentItem } from './requests.ts';
import { SimulatedDisk } from './simulated-disk.ts';
import type { SimulatedProcess, Simulator } from './simulator.ts';

const SWEEP_EVERY_MS = 60_000;
const ADDRESS = 'simulated';
const REFUSED: Answer = { type: 'refused', code: 'ENROL_REFUSED', epoch: undefined };

export interface RelayOptions {
  simulator: Simulator;
  random: SeededRandom;
  settings: SettingsChanges;
  /** Records of the log are kept this long. */
  keepLogMs: number;
  /** This time passes whenever the engine looks at the clock of its time slices. */
  passingMs: number;
  watcher: RelayWatcher;
}

/** Is told what no host sees. */
export interface RelayWatcher {
  /** A process opens the store, and may begin an epoch with a heartbeat, whether or not it lives to be `opened`. */
  opening(wallMs: number): void;
  opened(
    opened: Pick<OpenedStore, 'initialised' | 'epochBegun'> & { epoch: Epoch | undefined; lastLsn: number },
    wallMs: number,
  ): void;
  /** A heartbeat is written, and is durable. */
  beat(atMs: number, isDurable: boolean): void;
  committed(batch: CommittedBatch): void;
  answered(request: Request, answer: Answer, startedMs: number): void;
  /** Something that must never happen. */
  fault(sentence: string): void;
}

/** A test plants it to see that it is found. */
export type Plant = (parts: { store: RelayStore; disk: SimulatedDisk }) => void;

interface Serving {
  engine: Engine;
  store: RelayStore;
  sweeps: Sweeps;
  retention: RetentionJob;
  lostItems: LostItems;
  challenges: Challenges;
}

export class SimulatedRelay {
  readonly disk: SimulatedDisk;
  readonly clock: Clock;
  /** The wall clock is so far from where it began. */
  offsetMs = 0;
  plant: Plant = () => undefined;
  process: SimulatedProcess = { isAlive: false };
  serving: Serving | undefined;
  /** Called when the process has ended. */
  #ended: () => void = () => undefined;
  readonly #options: RelayOptions;
  readonly #epochs: SeededRandom;
  /** Says whether the disk was told to fail: then the relay may end for it. */
  mayFail = false;

  constructor(options: RelayOptions) {
    const { simulator, random } = options;
    this.#options = options;
    this.#epochs = random;
    this.disk = new SimulatedDisk(simulator, random);
    this.clock = {
      nowMs: () => NOON_MS + Math.floor(simulator.nowMs) + this.offsetMs,
      monotonicMs: () => simulator.nowMs,
    };
  }

  newEpoch(): Epoch {
    return epochFromRandom(this.#epochs.bytes(EPOCH_RANDOM_BYTES));
  }

  /** Starts a process over what the disk holds. It serves some time later, unless it is killed before. */
  start(): void {
    if (this.process.isAlive) return;
    const process = { isAlive: true };
    this.process = process;
    this.#boot(process).catch((error: unknown) => {
      if (!process.isAlive) return;
      if (!(error instanceof StoreFailed) && !this.mayFail)
        this.#options.watcher.fault(`a start failed: ${told(error)}`);
      this.#died(process);
    });
  }

  /** The process ends at this moment: nothing of it happens any more. */
  kill(): void {
    if (!this.process.isAlive) return;
    this.process.isAlive = false;
    this.serving = undefined;
    this.disk.crash();
    this.#options.simulator.note('relay ends');
    this.#ended();
  }

  /** As a good stop does it. */
  async stop(): Promise<void> {
    const { serving, process } = this;
    if (!serving) return this.kill();
    this.serving = undefined;
    // It may end before, and what it waited for never comes.
    await Promise.race([closed(serving), new Promise<void>((resolve) => (this.#ended = resolve))]);
    if (this.process === process) this.kill();
  }

  /** `undefined` when nobody listens. */
  serve(request: Request): Promise<Answer> | undefined {
    const { serving, process } = this;
    if (!serving) return undefined;
    const startedMs = this.#options.simulator.nowMs;
    return this.#answer(request, serving)
      .then((answer) => {
        // Whatever a process says after its end is heard by nobody.
        if (!process.isAlive) return new Promise<never>(() => undefined);
        this.#options.watcher.answered(request, answer, startedMs);
        return answer;
      })
      .catch((error: unknown) => {
        if (process.isAlive && !(error instanceof StoreFailed))
          this.#options.watcher.fault(`${request.type} failed: ${told(error)}`);
        return new Promise<never>(() => undefined);
      });
  }

  async #boot(process: SimulatedProcess): Promise<void> {
    const { simulator, settings, keepLogMs, passingMs, watcher } = this.#options;
    const { clock } = this;
    const files = this.disk.open(process);
    const { level } = files;
    const { file, position } = await PositionFile.over(files.position);
    const schema = await declaredSchema(level);
    const nowMs = clock.nowMs();
    const newEpoch = (): Epoch => this.newEpoch();
    if (!process.isAlive) return;
    watcher.opening(nowMs);
    const opened = await storeOver(
      { level, schema, signer: relayHost.signer, file, position },
      { folder: 'simulated', nowMs, newEpoch },
    );
    const { store } = opened;
    if (!process.isAlive) return;
    watcher.opened({ ...opened, epoch: store.get('relay', rowKey.relay)?.epoch, lastLsn: store.lastLsn }, nowMs);
    const engine = await Engine.start(
      {
        store,
        settings: settingsWith(settings),
        signer: relayHost.signer,
        monotonicMs: lookedAtClock(passingMs),
        onStoreFailed: (error) => {
          if (!process.isAlive) return;
          if (!this.mayFail) watcher.fault(`the store failed: ${told(error.cause)}`);
          this.#died(process);
        },
        onBrokenQueue: ({ targetPubkey }) => watcher.fault(`the queue of ${targetPubkey} contradicts itself`),
        observer: { ...NO_OBSERVER, committed: (batch) => process.isAlive && watcher.committed(batch) },
      },
      nowMs,
    );
    if (!process.isAlive) return;
    watchBeats(engine, (atMs, isDurable) => process.isAlive && watcher.beat(atMs, isDurable));
    const timers = simulator.timersOf(process);
    const onError = (error: unknown): void => {
      if (process.isAlive) watcher.fault(`a job failed: ${told(error)}`);
    };
    const challenges = new Challenges(
      () => clock.monotonicMs(),
      (count) => this.#epochs.bytes(count),
    );
    const { isClockSuspect } = opened;
    const sweeps = new Sweeps({ engine, challenges, clock, timers, everyMs: SWEEP_EVERY_MS, isClockSuspect, onError });
    const retention = new RetentionJob({
      keepMs: keepLogMs,
      archives: undefined,
      retention: engine.logRetention,
      store,
      clock,
      timers,
      isClockTrusted: () => sweeps.isClockTrusted,
      hasRoom: () => true,
      onCheckpoint: () => undefined,
      onPruned: () => undefined,
      onFailed: onError,
    });
    const onUnreadable = (rows: number): void => watcher.fault(`${rows} rows cannot be read`);
    const lostItems = new LostItems({ engine, clock, newEpoch, onLost: () => undefined, onUnreadable });
    this.plant({ store, disk: this.disk });
    this.serving = { engine, store, sweeps, retention, lostItems, challenges };
    simulator.note(`relay serves in ${engine.epoch}, ${store.lastLsn} records`);
  }

  #died(process: SimulatedProcess): void {
    if (this.process === process) this.kill();
  }

  async #answer(request: Request, serving: Serving): Promise<Answer> {
    const { engine, challenges } = serving;
    const { caller } = request;
    const nowMs = this.clock.nowMs();
    if (request.type === 'challenge') {
      const text = challenges.issue(caller.key, ADDRESS);
      return text === undefined ? REFUSED : { type: 'challenge', text };
    }
    if (request.type === 'enrol') {
      const { challenge } = request;
      if (challenges.use(caller.key, ADDRESS, (text) => text === challenge) !== 'used') return REFUSED;
      const outcome = await engine.admissions.enrol(enrolOf(caller, { nowMs }));
      return outcome.type === 'Refusal' ? refused(outcome) : { type: 'done' };
    }
    if (request.type === 'rotate') {
      // Of a time that no clock of a run comes before.
      const outcome = await engine.admissions.rotateKey(rotateOf(caller, request.to, { iatMs: 0, nowMs }));
      return outcome.type === 'Refusal' ? refused(outcome) : { type: 'done' };
    }
    if (request.type === 'checkpoint') return this.#checkpoint(request.known, engine);
    const enrolment = engine.directory.get(caller.key);
    if (!enrolment || !isAdmitted(enrolment, nowMs)) return { type: 'refused', code: 'NOT_ENROLLED', epoch: undefined };
    if (request.type === 'push') return this.#push(request, engine, nowMs);
    if (request.type === 'pull') return this.#pull(request, serving);
    const { epoch, through } = request;
    const acked = await engine.acks.ack({ type: 'AckItems', targetPubkey: caller.key, epoch, through, nowMs });
    if (acked.type === 'Refusal') return refused(acked);
    return { type: 'acked', ackedThrough: acked.ackedThrough, headSeq: acked.headSeq };
  }

  #checkpoint(known: { epoch: string; size: number } | undefined, engine: Engine): Answer {
    const note = engine.log.checkpoint() ?? '';
    const size = Number(note.split('\n')[1]);
    const growth = known && engine.log.growth(known.size, size, known.epoch);
    return { type: 'checkpoint', note, growth: typeof growth === 'object' ? growth.proof : undefined };
  }

  async #push(request: Request & { type: 'push' }, engine: Engine, nowMs: number): Promise<Answer> {
    const { caller, items } = request;
    const freshEpoch = this.newEpoch();
    const commands = items.map((item) => ({
      type: 'PushItem' as const,
      senderPubkey: caller.key,
      item: pushedItem(item),
      isKnownById: false,
      wireVerdict: 'ok' as const,
      freshEpoch,
      nowMs,
    }));
    const pushed = await engine.pushes.push(commands, (outcomes, epoch) => ({
      type: 'pushed' as const,
      epoch,
      results: outcomes.map((outcome, at) => resultOf(items[at]!.itemId, outcome, epoch, request)),
    }));
    return pushed.type === 'Refusal' ? refused(pushed) : pushed.answer;
  }

  async #pull(request: Request & { type: 'pull' }, { engine, lostItems }: Serving): Promise<Answer> {
    const { caller, after, limit, epoch, waitS } = request;
    const changed = (now: Epoch): Answer | undefined =>
      epoch === undefined || epoch === now ? undefined : { type: 'refused', code: 'EPOCH_CHANGED', epoch: now };
    const before = changed(engine.epoch);
    if (before) return before;
    let page = await engine.page(caller.key, after, limit);
    if (page.rows.length === 0 && waitS > 0) {
      await this.#arrival(page, request, engine);
      const enrolment = engine.directory.get(caller.key);
      if (!enrolment || !isAdmitted(enrolment, this.clock.nowMs()))
        return { type: 'refused', code: 'NOT_ENROLLED', epoch: undefined };
      page = await engine.page(caller.key, after, limit);
    }
    return changed(page.epoch) ?? this.#pageAnswer(page, after, engine, lostItems);
  }

  #arrival({ headSeq, epoch }: Page, request: Request & { type: 'pull' }, engine: Engine): Promise<void> {
    const { caller, waitS } = request;
    return new Promise((resolve) => {
      const isOver = engine.isDraining || engine.directory.get(caller.key)?.revokedAtMs !== null;
      if (isOver || engine.head(caller.key).headSeq > headSeq || engine.epoch !== epoch) return resolve();
      const stop = engine.onArrival(caller.key, resolve);
      this.#options.simulator.after(waitS * 1000, () => (stop(), resolve()), this.process);
    });
  }

  /** As the writer of pages has it: a page ends before the first item that cannot be served. */
  async #pageAnswer(page: Page, after: number, engine: Engine, lostItems: LostItems): Promise<Answer> {
    const wires = await engine.payloads(page.rows);
    const items: PulledItem[] = [];
    let lastSeq = after;
    for (const [at, row] of page.rows.entries()) {
      const wire = wires[at];
      if (hasHash(wire, row.wireHash)) {
        const { seq, kind, itemId, senderPubkey } = row;
        items.push({ seq, kind, itemId, senderPubkey, wire: wire.toString() });
      } else if (row.seq > engine.head(row.targetPubkey).ackedThrough) {
        await lostItems.report([row], 'pull');
        break;
      }
      lastSeq = row.seq;
    }
    const more = page.more || lastSeq !== (page.rows.at(-1)?.seq ?? lastSeq);
    return { type: 'page', epoch: page.epoch, headSeq: page.headSeq, items, lastSeq, more };
  }
}

async function closed({ engine, store, sweeps, retention }: Serving): Promise<void> {
  engine.endWaits();
  await Promise.all([sweeps.stop(), retention.stop()]);
  await engine.close();
  await store.close();
}

function watchBeats(engine: Engine, beat: RelayWatcher['beat']): void {
  const heartbeat = engine.heartbeat.bind(engine);
  engine.heartbeat = async (nowMs) => {
    beat(nowMs, false);
    await heartbeat(nowMs);
    beat(nowMs, true);
  };
}

function refused({ code, members }: Refusal): Answer {
  return { type: 'refused', code, epoch: members['epoch'] as Epoch | undefined };
}

function pushedItem({ kind, itemId, targets }: SentItem) {
  return {
    kind,
    itemId: itemId as ItemId,
    targets: targets.map(({ key, wire }) => {
      const bytes = Buffer.from(wire);
      return { hostPubkey: key, wire: bytes, wireHash: sha256Hex(bytes), bytes: bytes.length };
    }),
  };
}

function resultOf(itemId: string, outcome: PushOutcome, epoch: Epoch, { caller }: Request): PushResult {
  if (outcome.type === 'ItemRejected')
    return { itemId, status: `rejected:${outcome.rejection}`, accept: undefined, sig: undefined };
  const accept = acceptReceipt({
    relay_pubkey: relayHost.key,
    epoch,
    sender_pubkey: caller.key,
    item_id: itemId as ItemId,
    targets: outcome.targets.map(({ hostPubkey, seq, wireHash }) => ({
      host_pubkey: hostPubkey,
      seq,
      wire_hash: wireHash,
    })),
    at: outcome.atMs,
  });
  return { itemId, status: outcome.status, accept, sig: signDocument(relayHost.signer, accept) };
}

function told(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
