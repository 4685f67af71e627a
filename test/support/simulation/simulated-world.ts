/**
 * A relay, a few hosts and everything that may happen to them, in one process and on one queue of events: the same seed
 * and the same steps give the same history. Afterwards all that was broken is mended, mail comes to rest, and the
 * oracle says what was lost, doubled or told wrongly.
 */
import { DAY_MS } from '../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { takenOver } from '../../../src/relay/image/restore.ts';
import { checkUnpacked, readOrRefuse } from '../../../src/relay/image/restorable.ts';
import type { BackupHeader } from '../../../src/relay/image/backup.ts';
import { decodeRecord } from '../../../src/relay/store/record.ts';
import { PREFIX, logKey, payloadKey, prefixRange } from '../../../src/relay/store/keys.ts';
import { recordsIn } from '../../../src/relay/store/record-run.ts';
import { PositionFile } from '../../../src/relay/store/position.ts';
import { relay as relayHost } from '../hosts.ts';
import { storedAndReplayed } from '../replay.ts';
import { SeededRandom } from '../seeded-random.ts';
import { CALM, SimulatedNetwork } from './network.ts';
import { forkRelay } from './forked-relay.ts';
import { type Beats, Oracle } from './oracle.ts';
import type { Schedule, Step, StepType } from './schedule.ts';
import { type DiskImage, SimulatedDisk, lsnInPosition } from './simulated-disk.ts';
import { SimulatedHost, keyOf } from './simulated-host.ts';
import { Lookout } from './lookout.ts';
import { type Plant, type RelayOptions, SimulatedRelay } from './simulated-relay.ts';
import { Simulator } from './simulator.ts';

/** Quotas that are reached, and pages that are full. */
const SMALL = { max_queue_items: 12, max_sender_items: 6, max_pull: 4 };
const SETTLED_EVERY_MS = 20_000;
/** Of all hosts together. */
const LOOKS_EVERY_MS = 45_000;
/** For mail to come to rest: a clock that jumped is trusted again after an hour. */
const SETTLED_WITHIN_MS = 2 * 3_600_000;
/** The number of events of a whole run; most have a few thousand. */
const EVENTS_MAX = 300_000;
/** A backup or a copy stays of use for so many keys. */
const KEYS_MAX = 40;

export interface RunResult {
  faults: readonly string[];
  /** SHA-256 over the history. */
  digest: string;
  lines: readonly string[];
  events: number;
  accepted: number;
  crashes: number;
  /** Hosts that know of the fork at the end. */
  knowing: number;
}

export interface RunOptions {
  /** The numbers of the steps that are taken; all of them when absent. */
  steps?: readonly number[];
  plant?: Plant;
}

/** Does a run, to its end. */
export async function simulate(seed: number, schedule: Schedule, options: RunOptions = {}): Promise<RunResult> {
  const world = new SimulatedWorld(seed, schedule, options.plant);
  const wanted = options.steps && new Set(options.steps);
  const steps = schedule.steps.filter(({ no }) => !wanted || wanted.has(no));
  await world.simulator.inCharge(() => world.live(steps));
  const { simulator, oracle, crashes, knowing } = world;
  const { lines, ran } = simulator;
  const { faults, accepted } = oracle;
  return { faults, digest: simulator.digest(), lines, events: ran, accepted, crashes, knowing };
}

class SimulatedWorld {
  readonly simulator = new Simulator();
  readonly oracle: Oracle;
  crashes = 0;
  /** Hosts that know that the relay forked. */
  knowing = 0;
  readonly #schedule: Schedule;
  readonly #random: SeededRandom;
  readonly #relay: SimulatedRelay;
  readonly #relayOptions: RelayOptions;
  readonly #network: SimulatedNetwork;
  readonly #hosts: SimulatedHost[] = [];
  /** What each host knows of the relay's log. */
  readonly #lookouts: Lookout[] = [];
  readonly #owners = new Map<PublicKey, number>();
  #copy: { image: DiskImage; takenMs: number; beats: Beats } | undefined;
  #backup: { image: DiskImage; header: BackupHeader } | undefined;
  /** Says whether the relay is being stopped, restored or started by its operator. */
  #isAttended = false;
  #isSettling = false;
  #isForked = false;

  constructor(seed: number, schedule: Schedule, plant: Plant | undefined) {
    const { simulator } = this;
    this.#schedule = schedule;
    this.#random = new SeededRandom(~seed);
    const { retentionMs, keepLogMs, passingMs, isSmall } = schedule;
    const ownerOf = (key: PublicKey): number | undefined => this.#owners.get(key);
    const wallMs = (): number => this.#relay.clock.nowMs();
    this.oracle = new Oracle({ simulator, wallMs, retentionMs, ownerOf });
    this.#relayOptions = {
      simulator,
      random: this.#dice(),
      settings: { limits: { retention_days: retentionMs / DAY_MS, ...(isSmall && SMALL) } },
      keepLogMs,
      passingMs,
      watcher: this.oracle,
    };
    this.#relay = new SimulatedRelay(this.#relayOptions);
    if (plant) this.#relay.plant = plant;
    this.#network = new SimulatedNetwork(simulator, this.#dice(), (request) => this.#relay.serve(request));
    const fault = (sentence: string): void => this.oracle.fault(sentence);
    for (let no = 0; no < schedule.hosts; no++) {
      const network = this.#network;
      this.#hosts.push(
        new SimulatedHost(no, { simulator, random: this.#dice(), network, retentionMs, wallMs, ownerOf, fault }),
      );
      this.#lookouts.push(new Lookout(no, this.#dice(), wallMs));
      for (let key = 0; key < KEYS_MAX; key++) this.#owners.set(keyOf(no, key).key, no);
    }
  }

  /** One thing is thrown with these; how often follows from what happens to it alone. */
  #dice(): SeededRandom {
    return new SeededRandom(this.#random.below(2 ** 32));
  }

  async live(steps: readonly Step[]): Promise<void> {
    const { simulator } = this;
    this.#relay.start();
    await simulator.run(() => this.#relay.serving !== undefined || this.oracle.faults.length > 0);
    for (const host of this.#hosts) host.start();
    let isDone = false;
    void this.#takeAll(steps).then(() => (isDone = true));
    this.#lookOut();
    await this.#until(() => isDone);
    await this.#settle();
    await this.#fork();
  }

  /** One host after another looks at the log, and hears what another one knows of it. */
  #lookOut(): void {
    const random = this.#dice();
    const look = (): void => {
      if (this.#isForked) return;
      const [one, two] = [random.pick(this.#lookouts), random.pick(this.#lookouts)];
      if (one !== two) one.hears(two);
      void one.looksAt(this.#relay, (answer) => this.#orNothing(answer));
      this.simulator.after(LOOKS_EVERY_MS, look);
    };
    look();
  }

  /** No honest history is called a lie; and then the relay forks. */
  async #fork(): Promise<void> {
    const { simulator, oracle } = this;
    this.#isForked = true;
    const words = this.#lookouts.flatMap(({ evidence }) => evidence.map(({ kind }) => kind));
    if (words.length > 0) oracle.fault(`a host says of an honest relay: ${words.join(', ')}`);
    if (oracle.faults.length > 0) return;
    let isDone = false;
    const parts = {
      simulator,
      random: this.#dice(),
      relay: this.#relay,
      options: { ...this.#relayOptions, random: this.#dice() },
      hosts: this.#hosts,
      lookouts: this.#lookouts,
      within: <T>(answer: Promise<T>) => this.#orNothing(answer),
      fault: (sentence: string) => oracle.fault(sentence),
    };
    void forkRelay(parts).then((knowing) => {
      this.knowing = knowing;
      isDone = true;
    });
    await this.#until(() => isDone);
  }

  /** One after another: a restore takes a while. */
  async #takeAll(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      await this.simulator.elapsed(step.pauseMs);
      this.simulator.note(`step ${step.no} ${step.type}`);
      await take(this, step);
    }
    await this.simulator.elapsed(1000);
  }

  /** Runs until it is so, or somebody found a fault; a timer of the world sees to it that time passes. */
  async #until(isOver: () => boolean): Promise<void> {
    let isWatching = true;
    const tick = (): void => {
      if (isWatching) this.simulator.after(1000, tick);
    };
    tick();
    const { simulator, oracle } = this;
    await simulator.run(() => isOver() || oracle.faults.length > 0 || simulator.ran > EVENTS_MAX);
    if (simulator.ran > EVENTS_MAX) oracle.fault('the run does not end');
    isWatching = false;
  }

  // The steps.

  send(random: SeededRandom): void {
    const from = random.pick(this.#hosts);
    const others = this.#hosts.filter((host) => host !== from).map(({ no }) => no);
    const targets = random.chance(0.3) ? others : [random.pick(others)];
    for (let count = 1 + random.below(4); count > 0; count--) from.send(targets, random.below(200));
  }

  /** At some event soon: between any two awaits of whatever is under way. */
  kill(random: SeededRandom): void {
    const events = random.below(random.pick([5, 50, 500]));
    const downMs = random.pick([100, 2000, 60_000, random.chance(0.1) ? 700_000 : 100]);
    // Something is under way.
    this.send(random);
    this.simulator.afterEvents(events, () => this.#crash(downMs));
  }

  async stop(random: SeededRandom): Promise<void> {
    const downMs = random.pick([100, 2000, 60_000]);
    await this.#attended(() => this.simulator.elapsed(downMs));
  }

  killHost(random: SeededRandom): void {
    const host = this.#anyHost(random);
    host.kill();
    this.simulator.after(random.below(30_000), () => host.start());
  }

  flaky(random: SeededRandom): void {
    const share = (): number => random.unit() * 0.3;
    const lateMs = random.pick([0, 500, 20_000]);
    this.#network.faults = { lostRequest: share(), lostAnswer: share(), doubled: share(), lateMs };
  }

  calm(): void {
    this.#network.faults = CALM;
  }

  slowDisk(random: SeededRandom): void {
    this.#relay.disk.faults.slowness = random.pick([5, 40, 300]);
  }

  fastDisk(): void {
    this.#relay.disk.faults.slowness = 1;
  }

  diskFails(random: SeededRandom): void {
    if (!this.#relay.process.isAlive) return;
    this.#relay.mayFail = true;
    this.#relay.disk.faults.failsNext = random.pick(['written', 'unwritten']);
    this.#watch();
  }

  rotate(random: SeededRandom): void {
    const host = this.#anyHost(random);
    if (host.keyNo < KEYS_MAX - 1) host.rotate();
  }

  meet(random: SeededRandom): void {
    const [here, there] = [this.#anyHost(random), this.#anyHost(random)];
    here.knownKeys.set(there.no, there.keyNo);
  }

  async epoch(): Promise<void> {
    const { serving } = this.#relay;
    if (!serving) return;
    const command = { type: 'RotateEpoch' as const, epoch: this.#relay.newEpoch(), reason: 'reset' as const };
    void serving.engine.rotateEpoch({ ...command, nowMs: this.#relay.clock.nowMs() }).catch(() => undefined);
  }

  /** A copy of the volume, of some moment. */
  copy(): void {
    this.#copy = { image: this.#relay.disk.image, takenMs: this.#relay.clock.nowMs(), beats: this.oracle.beats };
  }

  /**
   * The copy takes the place of the database, and of the position too where it is so old that its heartbeat shows it:
   * of a younger one nobody can tell.
   */
  async copyBack(random: SeededRandom): Promise<void> {
    const copy = this.#copy;
    if (!copy) return;
    await this.#attended(async () => {
      const now = this.#relay.disk.image;
      const isOld = this.#relay.clock.nowMs() - copy.takenMs > 700_000;
      const position = isOld && random.chance(0.5) ? copy.image.position : now.position;
      // A process may have ended after it wrote its position, and before it said so.
      const lastLsn = Math.max(this.oracle.lastLsn, await lsnInPosition(now));
      const isOlder = !hasRecordOf(copy.image, now, lastLsn) || position !== now.position;
      this.#relay.disk.replace({ ...copy.image, position });
      this.oracle.copyComesBack(isOlder, copy.beats);
    });
  }

  /** Takes what a backup holds; how it becomes a file is tried elsewhere. */
  async backup(): Promise<void> {
    const { serving } = this.#relay;
    if (!serving) return;
    const snapshot = await this.#orNothing(serving.engine.snapshot());
    if (!snapshot) return;
    const { relay, lsn, level } = snapshot;
    const { epoch, schemaVersion } = relay;
    const created_at = this.#relay.clock.nowMs();
    const header = { relay_pubkey: relayHost.key, epoch, schema_version: schemaVersion, lsn, created_at };
    // Taken between two batches: what can be read is what is durable.
    const { table } = level as unknown as { table: DiskImage['table'] };
    const { position, pruned } = this.#relay.disk.image;
    this.#backup = { image: { table: table.copy(), position, pruned }, header: { ...header, version: 'simulated' } };
    await snapshot.close();
  }

  /**
   * Does what `poste relay restore` does, over the disk as it is: begins an epoch and takes over what a step back must
   * keep.
   */
  async restore(): Promise<void> {
    const backup = this.#backup;
    if (!backup) return;
    await this.#attended(async () => {
      const process = { isAlive: true };
      const [old, fresh] = [this.#newDisk(this.#relay.disk.image), this.#newDisk(backup.image)];
      const replaced = old.open(process).level;
      const restored = fresh.open(process);
      const { level } = restored;
      const { header } = backup;
      await checkUnpacked(level, header, relayHost.key, 'the backup');
      const place = { folder: 'simulated', shown: 'simulated', acceptsUnreadable: false };
      const read = await readOrRefuse(replaced, false, { level, header }, place);
      const { file: position } = await PositionFile.over(restored.position);
      const when = { epoch: this.#relay.newEpoch(), nowMs: this.#relay.clock.nowMs() };
      const { store } = await takenOver({ level, header, position }, read?.store, when);
      await store.close();
      process.isAlive = false;
      this.#relay.disk.replace(fresh.image);
      this.oracle.beat(when.nowMs, true);
      this.oracle.mayLoseItems = true;
      this.simulator.note(`restored, ${when.epoch} begins`);
    });
  }

  clock(random: SeededRandom): void {
    const byMs = random.pick([1000, 20_000, 120_000, 900_000, 3 * DAY_MS]);
    this.oracle.clockIsSet();
    this.#relay.offsetMs += random.chance(0.5) ? byMs : -byMs;
  }

  /** Both clocks go on, and nobody does anything meanwhile, as in a machine that is suspended. */
  skip(random: SeededRandom): void {
    this.simulator.skip(random.pick([60_000, 3_600_000, 3 * DAY_MS, 10 * DAY_MS]));
  }

  checkpoint(random: SeededRandom): void {
    const caller = this.#anyHost(random).key;
    const known = this.oracle.newestCheckpoint();
    void this.#network.ask({ type: 'checkpoint', caller, known }, { isAlive: true });
  }

  prune(): void {
    void this.#relay.serving?.retention.run();
  }

  /** One of the items that wait has other bytes on the disk than it had. */
  async rot(random: SeededRandom): Promise<void> {
    const { serving } = this.#relay;
    if (!serving) return;
    const { key } = this.#anyHost(random).key;
    const page = await this.#orNothing(serving.engine.page(key, 0, 10));
    const row = page?.rows.at(-1);
    if (!row) return;
    this.oracle.mayLoseItems = true;
    this.#relay.disk.rot(payloadKey(row.payloadTarget, row.payloadBound ?? row.payloadSeq));
  }

  /** Returns what the relay says, where it lives to say it. */
  #orNothing<T>(answer: Promise<T>): Promise<T | undefined> {
    return Promise.race([answer.catch(() => undefined), this.simulator.elapsed(60_000).then(() => undefined)]);
  }

  // How the relay ends and starts again.

  #anyHost(random: SeededRandom): SimulatedHost {
    return random.pick(this.#hosts);
  }

  #crash(downMs: number): void {
    if (this.#isAttended || this.#isSettling) return;
    if (this.#relay.process.isAlive) this.crashes++;
    this.#relay.kill();
    this.#ended();
    this.simulator.after(downMs, () => this.#startAgain());
  }

  #startAgain(): void {
    if (!this.#isAttended) this.#relay.start();
  }

  #ended(): void {
    this.#relay.mayFail = false;
  }

  /** A supervisor: starts the relay again when it ended by itself. */
  #watch(): void {
    const look = (): void => {
      if (this.#isAttended) return;
      if (this.#relay.process.isAlive) return void (this.#relay.mayFail && this.simulator.after(200, look));
      this.#ended();
      this.#startAgain();
    };
    this.simulator.after(200, look);
  }

  /** Stops the relay, does what is to be done, and starts it. */
  async #attended(work: () => Promise<void>): Promise<void> {
    this.#isAttended = true;
    await this.#relay.stop();
    this.#relay.kill();
    this.#ended();
    await work();
    this.#isAttended = false;
    this.#relay.start();
  }

  #newDisk(image: DiskImage): SimulatedDisk {
    const disk = new SimulatedDisk(this.simulator, this.#dice());
    disk.replace(image);
    return disk;
  }

  // The end.

  /** Nothing goes wrong any more; mail comes to rest, and then all of it is compared. */
  async #settle(): Promise<void> {
    const { simulator, oracle } = this;
    if (oracle.faults.length > 0) return;
    this.#isSettling = true;
    this.#network.faults = CALM;
    Object.assign(this.#relay.disk.faults, { slowness: 1, failsNext: undefined });
    if (!this.#relay.process.isAlive) this.#ended();
    this.#relay.start();
    for (const host of this.#hosts) if (!host.process.isAlive) host.start();
    const endMs = simulator.nowMs + SETTLED_WITHIN_MS;
    let quiet = 0;
    const look = (): void => {
      this.#meetAll();
      quiet = this.#isAtRest ? quiet + 1 : 0;
      simulator.after(SETTLED_EVERY_MS, look);
    };
    look();
    await this.#until(() => quiet > 3 || simulator.nowMs > endMs);
    if (oracle.faults.length > 0) return;
    if (quiet <= 3) {
      const rows = this.#hosts.flatMap(({ outbox }) => outbox.filter((row) => row.state === 'pending' || row.isAgain));
      const waiting = [...this.#owners].flatMap(([key, no]) => {
        const { queueItems = 0 } = this.#relay.serving?.engine.head(key) ?? {};
        return queueItems > 0 ? [`${queueItems} items of host ${no} under ${key}`] : [];
      });
      return oracle.fault(`mail does not come to rest: ${waiting.join(', ')}; ${JSON.stringify(rows.slice(0, 3))}`);
    }
    this.#compareMail();
    let isCompared = false;
    void this.#compareStore().then(() => (isCompared = true));
    await this.#until(() => isCompared);
    simulator.note(`end: ${oracle.accepted} accepted`);
  }

  #meetAll(): void {
    for (const here of this.#hosts) for (const there of this.#hosts) here.knownKeys.set(there.no, there.keyNo);
  }

  get #isAtRest(): boolean {
    const { serving } = this.#relay;
    return serving?.engine.waiting.items === 0 && this.#hosts.every(({ isSettled }) => isSettled);
  }

  #compareMail(): void {
    const { oracle } = this;
    for (const host of this.#hosts)
      for (const { kind, itemId, to, state, acceptedAtMs, sentAtMs } of host.outbox) {
        if (kind !== 'envelope') continue;
        const isThere = this.#hosts[to]?.delivered.has(`${host.no} ${itemId}`) === true;
        if (state === 'done' && !isThere) oracle.fault(`${itemId} did not come to ${to}, and its receipt did`);
        // A receipt that nobody pulled for so long is gone: its sender is alerted at its deadline.
        const sinceMs = isThere ? sentAtMs : acceptedAtMs;
        const isExcused = sinceMs + this.#schedule.retentionMs <= Math.max(oracle.maxWallMs, this.#relay.clock.nowMs());
        if (state === 'accepted' && !isExcused)
          oracle.fault(
            `${itemId} was accepted for ${to}, ${isThere ? 'came there' : 'was lost'}, and its sender hears nothing`,
          );
      }
  }

  /** The log makes the rows that are stored, and no queue contradicts itself. */
  async #compareStore(): Promise<void> {
    const { serving, disk } = this.#relay;
    if (!serving) return;
    const { store, engine } = serving;
    await engine.durable();
    if (store.damagedRows.all.length > 0) this.oracle.fault('rows are damaged');
    const { pruned } = disk.image;
    const entries = [];
    for (let lsn = 1; lsn < store.firstLsn; lsn++) {
      const record = pruned.get(lsn);
      if (!record) return this.oracle.fault(`record ${lsn} was pruned and was never there`);
      entries.push(decodeRecord(lsn, record));
    }
    const [stored, replayed] = await storedAndReplayed(store, entries);
    for (const [key, value] of replayed) if (stored.get(key) !== value) this.oracle.fault(`the row ${key} differs`);
    for (const key of stored.keys()) if (!replayed.has(key)) this.oracle.fault(`the row ${key} is of no record`);
  }
}

type StepTakers = Readonly<Record<StepType, (random: SeededRandom) => Promise<void> | void>>;

function take(world: StepTakers, { type, seed }: Step): Promise<void> | void {
  return world[type](new SeededRandom(seed));
}

/**
 * Says whether it holds what somebody may have been told of: a record that no process has opened is nobody's. After a
 * restore another record may have that number in a copy of before.
 */
function hasRecordOf(copy: DiskImage, now: DiskImage, lsn: number): boolean {
  const record = recordIn(copy, lsn);
  return record !== undefined && recordIn(now, lsn)?.equals(record) === true;
}

function recordIn({ table }: DiskImage, lsn: number): Buffer | undefined {
  const [key] = table.keysIn({ gte: logKey(lsn), lt: prefixRange(PREFIX.log).lt, limit: 1 });
  const records = key === undefined ? [] : recordsIn([Buffer.from(key, 'latin1'), table.get(key)!]);
  return records.find(([at]) => at === lsn)?.[1];
}
