/**
 * Two or three hosts that write to each other over one relay, and everything that can go wrong between them, in an
 * order that a seed says: real stores, real sockets, and clocks that the run moves.
 */
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { rotateOwnKey } from '../../src/host/peers/identity.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { FIRST_ADAPTER } from './adapters.ts';
import { FlakyProxy, NO_CHANCES, anyChances } from './flaky-proxy.ts';
import { type HttpRelay, relayForTest } from './http-relay.ts';
import { anyEpoch, backUpEngine, restored } from './restores.ts';
import { SeededRandom } from './seeded-random.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { AGENTS, type Host, learnKeysOf, newHost } from './torture-host.ts';

export const RETENTION_DAYS = 2;
/** A sweep and two heartbeats of the relay. */
const SWEEP_MS = 60_000;
const SKEW_MAX_MS = 600_000;
/** Quotas of some runs: a queue of theirs is full soon. */
const SMALL = { max_queue_items: 6, max_sender_items: 4, max_batch: 3, max_pull: 4 };

/** A message of which it is known, or not, that its sender was told that it is accepted. */
export interface Asked {
  subject: string;
  from: Host;
  to: Host;
  names: readonly string[];
  isAccepted: boolean;
}

export class TortureWorld {
  readonly random: SeededRandom;
  readonly hosts: Host[] = [];
  readonly asked: Asked[] = [];
  /** The deeds, in their order: told when the run fails. */
  readonly schedule: string[] = [];
  /** Says why mail may end with an alert in this run; in all others everything arrives, and nobody is alerted. */
  readonly excuses = new Set<string>();
  relay!: HttpRelay;
  proxy!: FlakyProxy;
  /** Hosts that do not know the other yet: `[who, whom]`. */
  readonly #strangers: [Host, Host][] = [];
  #copies = 0;
  #backup: string | undefined;
  #copy: string | undefined;

  private constructor(seed: number) {
    this.random = new SeededRandom(seed);
  }

  /** For one test; call it inside. */
  static async open(seed: number): Promise<TortureWorld> {
    const world = new TortureWorld(seed);
    const { random } = world;
    const limits = { retention_days: RETENTION_DAYS, ...(random.chance(0.3) && SMALL) };
    world.relay = await relayForTest(FIRST_ADAPTER, { limits });
    // Dice of its own: how often they are thrown follows from what is asked when.
    world.proxy = await FlakyProxy.open(new SeededRandom(~seed), () => world.relay.port);
    onTestFinished(() => world.proxy.close());
    for (const name of random.chance(0.3) ? ['a', 'b', 'c'] : ['a', 'b'])
      world.hosts.push(await newHost(name, world.relay.clock));
    for (const [here, there] of world.#pairs()) {
      // Somebody who is not paired yet with who writes to it publishes a list without it.
      if (random.chance(0.1)) world.#strangers.push([here, there]);
      else await here.context.pin(there.context);
    }
    for (const { context } of world.hosts) await context.use(world.proxy.url);
    return world;
  }

  #pairs(): [Host, Host][] {
    return this.hosts.flatMap((here) =>
      this.hosts.filter((there) => there !== here).map((there): [Host, Host] => [here, there]),
    );
  }

  /** Mail, a fault, some time: one round. */
  async round(): Promise<void> {
    const { random } = this;
    for (let count = random.below(4); count > 0; count--) await this.#send();
    if (random.chance(0.6)) await this.#fault();
    if (random.chance(0.5)) await this.proxy.idle();
    this.relay.clock.move(random.below(20_000));
    this.relay.timers.pass(random.below(40_000));
    await this.#passes();
    await elapsed(random.below(30));
  }

  async #fault(): Promise<void> {
    const names = Object.keys(FAULTS);
    const name = this.random.pick(names);
    const what = await FAULTS[name]?.(this);
    if (what !== undefined) this.schedule.push(`${this.asked.length} asked, ${name} ${what}`.trim());
  }

  async #send(): Promise<void> {
    const { random } = this;
    const isPinned = ([here, there]: [Host, Host]): boolean =>
      here.isUp && !this.#strangers.some(([who, whom]) => who === here && whom === there);
    const pairs = this.#pairs().filter(isPinned);
    if (pairs.length === 0) return;
    const [from, to] = random.pick(pairs);
    const names = random.chance(0.2) ? AGENTS : [random.pick(AGENTS)];
    const asked: Asked = { subject: `m${this.asked.length}`, from, to, names, isAccepted: false };
    this.asked.push(asked);
    const { context } = from;
    const sending = context.sendTo(to.context, random.pick(AGENTS), names, 'words', asked.subject).then(() => {
      asked.isAccepted = true;
    });
    await Promise.race([sending, context.died]);
  }

  async #passes(): Promise<void> {
    const up = this.hosts.filter(({ isUp }) => isUp);
    await Promise.all(up.map(({ context }) => Promise.race([context.pass(), context.died])));
  }

  // What can go wrong. Each answers what it did, or nothing when there was nothing to do.

  flaky(): string {
    this.proxy.chances = anyChances(this.random);
    return '';
  }

  calm(): string {
    this.proxy.chances = NO_CHANCES;
    return '';
  }

  async relayRestarts(): Promise<string> {
    this.proxy.cutAll();
    await this.relay.restart();
    return '';
  }

  async epoch(): Promise<string> {
    const nowMs = this.relay.clock.nowMs();
    await this.relay.relay.engine.rotateEpoch({ type: 'RotateEpoch', epoch: anyEpoch(), reason: 'reset', nowMs });
    return '';
  }

  async backup(): Promise<string> {
    this.#backup = join(await temporaryFolder(), 'backup');
    await backUpEngine(this.relay.relay.engine, this.relay.clock.nowMs(), this.#backup);
    return '';
  }

  async restore(): Promise<string | undefined> {
    const file = this.#backup;
    if (file === undefined) return undefined;
    this.proxy.cutAll();
    await this.relay.stop();
    await restored(file, this.relay.folder, this.relay.clock.nowMs());
    await this.relay.start();
    return '';
  }

  /** A copy of the files, as of a volume. */
  async copy(): Promise<string> {
    this.#copy = join(await temporaryFolder(), String(this.#copies++));
    this.proxy.cutAll();
    await this.relay.stop();
    await cp(this.relay.folder, this.#copy, { recursive: true });
    await this.relay.start();
    return '';
  }

  /** The copy takes the place of the store, and nobody rotates the epoch. */
  async copyBack(): Promise<string | undefined> {
    if (this.#copy === undefined) return undefined;
    this.proxy.cutAll();
    await this.relay.stop();
    await rm(this.relay.folder, { recursive: true });
    await cp(this.#copy, this.relay.folder, { recursive: true });
    await this.relay.start();
    this.excuses.add('a copy came back');
    return '';
  }

  async kill(): Promise<string | undefined> {
    const host = this.#anyUp();
    if (!host) return undefined;
    const death = { inTransactions: 1 + this.random.below(6), isDurable: this.random.chance(0.5) };
    const { context } = host;
    const killed = context.kill(death);
    // What brings it to that transaction; a host that never comes there is killed where it stands.
    await this.#send();
    await Promise.race([killed, Promise.all([this.#passes(), elapsed(20)])]);
    await context.kill({ inTransactions: 0, isDurable: false });
    await killed;
    if (this.random.chance(0.7)) await context.revive();
    else host.isUp = false;
    return `${context.name} ${JSON.stringify(death)}${host.isUp ? '' : ' and stays down'}`;
  }

  async revive(): Promise<string | undefined> {
    const host = this.hosts.find(({ isUp }) => !isUp);
    if (!host) return undefined;
    await host.context.revive();
    host.isUp = true;
    return host.context.name;
  }

  async rotate(): Promise<string | undefined> {
    const host = this.#anyUp();
    // A host that is paired after a rotation never learns of the key before it, and keeps its mail in quarantine.
    if (!host || this.#strangers.some(([, whom]) => whom === host)) return undefined;
    await rotateOwnKey(host.context.context);
    return host.context.name;
  }

  /** Two meet on the LAN, and one tells the other of its keys. */
  async meet(): Promise<string | undefined> {
    const [here, there] = this.random.pick(this.#pairs());
    if (!here.isUp || !there.isUp) return undefined;
    await this.#learn(here, there);
    return `${here.context.name} ${there.context.name}`;
  }

  skew(): string {
    const host = this.random.pick(this.hosts);
    host.clock.skewMs = this.random.below(2 * SKEW_MAX_MS) - SKEW_MAX_MS;
    return `${host.context.name} ${host.clock.skewMs}`;
  }

  /** Longer than the relay keeps anything. */
  days(): string | undefined {
    if (this.random.chance(0.7)) return undefined;
    this.relay.clock.move((RETENTION_DAYS + 0.1) * DAY_MS);
    this.relay.timers.pass(SWEEP_MS);
    this.excuses.add('days passed');
    return '';
  }

  #anyUp(): Host | undefined {
    const up = this.hosts.filter(({ isUp }) => isUp);
    return up.length === 0 ? undefined : this.random.pick(up);
  }

  async #learn(here: Host, there: Host): Promise<void> {
    const stranger = this.#strangers.findIndex(([who, whom]) => who === here && whom === there);
    if (stranger >= 0) {
      this.#strangers.splice(stranger, 1);
      await here.context.pin(there.context);
    }
    await learnKeysOf(here, there);
  }

  /** Nothing goes wrong any more, and everybody knows everybody. */
  async heal(): Promise<void> {
    this.calm();
    for (const host of this.hosts) {
      host.clock.skewMs = 0;
      if (!host.isUp) await host.context.revive();
      host.isUp = true;
    }
    for (const [here, there] of this.#pairs()) await this.#learn(here, there);
  }

  /**
   * Four minutes go by, or as long as is said, once whatever was asked is answered: a hop of before is good for five.
   */
  async later(ms = 240_000): Promise<void> {
    await this.proxy.idle();
    this.relay.clock.move(ms);
    this.relay.timers.pass(SWEEP_MS);
    await this.#passes();
    await elapsed(10);
  }
}

const FAULTS: Readonly<Record<string, (world: TortureWorld) => Promise<string | undefined> | string | undefined>> = {
  flaky: (world) => world.flaky(),
  calm: (world) => world.calm(),
  relayRestarts: (world) => world.relayRestarts(),
  epoch: (world) => world.epoch(),
  backup: (world) => world.backup(),
  restore: (world) => world.restore(),
  copy: (world) => world.copy(),
  copyBack: (world) => world.copyBack(),
  kill: (world) => world.kill(),
  killAgain: (world) => world.kill(),
  revive: (world) => world.revive(),
  rotate: (world) => world.rotate(),
  meet: (world) => world.meet(),
  meetAgain: (world) => world.meet(),
  skew: (world) => world.skew(),
  days: (world) => world.days(),
};

function elapsed(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
