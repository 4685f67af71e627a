/**
 * Hosts of the built program with two relays each: mail goes on when a relay is killed, is away for a day, takes mail
 * and brings none, or is put back to a copy; and nothing is there twice.
 *
 * `POSTE_TEST_FIRST_RELAY` and `POSTE_TEST_SECOND_RELAY` name the program of another build, `dist/cli/main.js` of it,
 * which is then the one relay or the other.
 */
import { cp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../src/protocol/limits.ts';
import { deferred, lookedAtLater } from '../support/deferred.ts';
import { eventually } from '../support/eventually.ts';
import { FlakyProxy } from '../support/flaky-proxy.ts';
import { KilledRelay, relayProgram } from '../support/killed-relay.ts';
import { makePairedStores } from '../support/paired-stores.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { type Environment, movableClock } from '../support/poste-process.ts';
import { AGENT, HOST_NAMES, RelayedHost } from '../support/relayed-host.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const TEST_MS = 600_000;
/** Mail may stand still for no longer than this when a relay dies. */
const GOES_ON_MS = 15_000;
/** An only copy of a message gets another beside it after so many seconds, and not after an hour. */
const SECOND_COPY: Environment = { POSTE_RELAY_SECOND_COPY_S: '1' };
/** A daemon of a user, and no test's, is so patient: no setting says otherwise. */
const PATIENT: Environment = {
  POSTE_RETRY_FIRST_SECONDS: '',
  POSTE_RETRY_LONGEST_SECONDS: '',
  POSTE_RELAY_POLL_SECONDS: '',
};

let paired: Awaited<ReturnType<typeof makePairedStores>>;
beforeAll(async () => {
  paired = await makePairedStores(HOST_NAMES, AGENT);
});
afterAll(() => paired.remove());

function urlsOf(relays: readonly KilledRelay[]): string[] {
  return relays.map(({ url }) => url);
}

function twoHosts(urls: readonly string[], environment: Environment = {}): Promise<[RelayedHost, RelayedHost]> {
  return RelayedHost.all(paired.folder, ['north', 'south'], { urls, environment });
}

/** Sends each other one message after the other until both have all that was `sent`. */
async function exchange(
  hosts: readonly RelayedHost[],
  sent: string[],
  subjects: readonly string[],
  withinMs = PATIENCE_MS,
) {
  for (const subject of subjects) {
    await Promise.all(hosts.map((host) => host.send(subject)));
    sent.push(subject);
  }
  for (const host of hosts) await expect.poll(() => host.subjects(), { timeout: withinMs }).toEqual(sent);
}

/** What both have once all of it was confirmed. */
async function settled(hosts: readonly RelayedHost[]): Promise<string[][]> {
  for (const host of hosts) await host.confirmed();
  return Promise.all(hosts.map((host) => host.subjects()));
}

test(
  'mail goes on within 15 seconds when either relay is killed, in order, and none is there twice',
  async () => {
    const relays = await KilledRelay.two();
    const hosts = await twoHosts(urlsOf(relays));
    const sent: string[] = [];
    await exchange(hosts, sent, ['before']);
    for (const [at, relay] of relays.entries()) {
      await relay.kill();
      await exchange(hosts, sent, [`without ${at + 1}`, `without ${at + 1}, again`], GOES_ON_MS);
      await relay.beginAgain();
      await RelayedHost.ready(hosts);
    }
    await exchange(hosts, sent, ['after']);
    expect(await settled(hosts)).toEqual([sent, sent]);
  },
  TEST_MS,
);

/** One host writes to another: messages with the numbers from 0 on. */
class Pair {
  readonly from: RelayedHost;
  readonly to: RelayedHost;
  /** So many messages were begun. */
  begun = 0;

  constructor(from: RelayedHost, to: RelayedHost) {
    this.from = from;
    this.to = to;
  }

  async write(): Promise<void> {
    await this.from.send(this.#subject(this.begun++), this.to.name);
  }

  get subjects(): string[] {
    return Array.from({ length: this.begun }, (_, number) => this.#subject(number));
  }

  /** Resolves when a message that is begun from now on is there. */
  async goesOn(): Promise<void> {
    const { begun } = this;
    const isThere = async (): Promise<boolean> =>
      this.ownIn(await this.to.subjects()).some((subject) => Number(subject.split(': ')[1]) >= begun);
    if (!(await eventually(isThere, Boolean))) throw new Error(`${this.#subject(begun)} is not there`);
  }

  ownIn(subjects: readonly string[]): string[] {
    return subjects.filter((subject) => subject.startsWith(this.#subject('')));
  }

  #subject(number: number | ''): string {
    return `${this.from.name} to ${this.to.name}: ${number}`;
  }
}

/** What hosts write to each other, and how long that stands still when a relay dies. */
class Traffic {
  readonly hosts: readonly RelayedHost[];
  readonly pairs: readonly Pair[];

  constructor(hosts: readonly RelayedHost[]) {
    this.hosts = hosts;
    this.pairs = hosts.flatMap((from) => hosts.filter((to) => to !== from).map((to) => new Pair(from, to)));
  }

  get count(): number {
    return this.pairs.reduce((sum, { begun }) => sum + begun, 0);
  }

  /**
   * Each host writes so many messages to each other one, three at least, and `die` is called when one of them was
   * accepted: which, `random` says, but neither the first nor the last ones. Answers how much longer it took until each
   * had one of each other host that was begun after that, than it took for the first ones.
   */
  async overDeath(rounds: number, random: SeededRandom, die: () => Promise<void>): Promise<number> {
    const [usualMs] = await Promise.all([this.#goesOn(), ...this.pairs.map((pair) => pair.write())]);
    const dead = deferred();
    const dies = async (): Promise<number> => {
      let going: Promise<number>;
      try {
        await die();
        going = this.#goesOn();
      } finally {
        dead.resolve();
      }
      return Math.max(0, (await going) - usualMs);
    };
    let death: Promise<number> | undefined;
    let leftUntilDeath = 1 + random.below((rounds - 2) * this.pairs.length);
    const writing = this.pairs.map(async (pair) => {
      for (let round = 2; round <= rounds; round++) {
        if (round === rounds) await dead.promise;
        await pair.write();
        if (--leftUntilDeath === 0) death = lookedAtLater(dies());
      }
    });
    await Promise.all(writing);
    return (await death) ?? Infinity;
  }

  /** Answers how long it takes until each has a message of each other host that is begun from now on. */
  async #goesOn(): Promise<number> {
    const fromMs = performance.now();
    await Promise.all(this.pairs.map((pair) => pair.goesOn()));
    return performance.now() - fromMs;
  }
}

/** Fails unless each host has all that was written to it once, in order, and nothing else. */
async function hasAll({ hosts, pairs }: Traffic): Promise<void> {
  for (const host of hosts) await host.confirmed();
  for (const host of hosts) {
    const there = await host.allSubjects();
    const own = pairs.filter(({ to }) => to === host);
    expect(own.map((pair) => pair.ownIn(there))).toEqual(own.map(({ subjects }) => subjects));
    expect(there).toHaveLength(own.reduce((sum, { begun }) => sum + begun, 0));
  }
}

test.runIf(IS_THOROUGH)(
  'traffic ends when no relay could be killed',
  async () => {
    const traffic = new Traffic(await twoHosts(urlsOf(await KilledRelay.two())));
    const dying = traffic.overDeath(3, new SeededRandom(1), () => Promise.reject(new Error('it does not die')));
    await expect(dying).rejects.toThrow('it does not die');
    await hasAll(traffic);
  },
  TEST_MS,
);

/** So many deaths of relays, under two thousand messages. */
const DEATHS = 10;
const ROUNDS = 34;

test.runIf(IS_THOROUGH)(
  'of 2,000 messages each arrives once and in order, and mail goes on within 15 seconds of each death of a relay',
  async ({ task }) => {
    const random = new SeededRandom(1);
    const relays = await KilledRelay.two();
    const options = { urls: urlsOf(relays), environment: PATIENT };
    const traffic = new Traffic(await RelayedHost.all(paired.folder, HOST_NAMES, options));
    const stoodMs: number[] = [];
    for (let death = 0; death < DEATHS; death++) {
      const relay = random.pick(relays);
      stoodMs.push(await traffic.overDeath(ROUNDS, random, () => relay.kill()));
      if (random.chance(0.3)) {
        const { daemon } = random.pick(traffic.hosts);
        daemon.killAndBegin();
        await daemon.ready();
      }
      await relay.beginAgain();
      await RelayedHost.ready(traffic.hosts);
    }
    await hasAll(traffic);
    const seconds = stoodMs.toSorted((a, b) => a - b).map((ms) => (ms / 1000).toFixed(1));
    const range = `${seconds[0]} to ${seconds.at(-1)} s (median ${seconds[DEATHS / 2]} s)`;
    task.meta.counted = `${traffic.count} messages, ${DEATHS} deaths of a relay: mail stood still for ${range}`;
    expect(Math.max(...stoodMs)).toBeLessThan(GOES_ON_MS);
  },
  TEST_MS,
);

/** A day goes by in steps of so long, each longer than an only copy stays the only one. */
const STEP_MS = 2 * HOUR_MS;

test.runIf(IS_THOROUGH)(
  'mail of a day without the first relay goes over the second, and what the first one had is there once in the end',
  async () => {
    const clock = join(await temporaryFolder(), 'clock');
    const time = movableClock(clock);
    const relays = await KilledRelay.two(time);
    const [away, other] = relays;
    const hosts = await twoHosts(urlsOf(relays), time);
    const [north, south] = hosts;
    const sent: Record<'north' | 'south', string[]> = { north: [], south: [] };
    const write = async (host: RelayedHost, subject: string): Promise<(string | null)[]> => {
      const id = await host.send(subject);
      sent[host === north ? 'south' : 'north'].push(subject);
      return eventually(
        () => host.tookIt(id),
        (urls) => urls.length > 0,
      );
    };
    const isThere = async (): Promise<void> => {
      await expect.poll(() => north.allSubjects()).toEqual(sent.north);
      await expect.poll(() => south.allSubjects()).toEqual(sent.south);
    };
    /** A clock that is set under a process counts for nothing: what takes no time is the time between two runs. */
    const passUntil = async (ms: number): Promise<void> => {
      for (const { daemon } of hosts) await daemon.kill();
      await other.stop();
      await writeFile(clock, String(ms));
      await other.beginAgain();
      for (const { daemon } of hosts) daemon.beginAgain();
    };
    await south.daemon.kill();
    for (const subject of ['held', 'held, too']) expect(await write(north, subject)).toEqual([away.url]);
    await away.kill();
    south.daemon.beginAgain();
    // Nothing new takes along what the first relay has.
    await passUntil(STEP_MS);
    await isThere();
    for (let ms = 2 * STEP_MS; ms <= DAY_MS; ms += STEP_MS) {
      await passUntil(ms);
      for (const host of hosts) expect(await write(host, `hour ${ms / HOUR_MS}`)).toEqual([other.url]);
      await isThere();
    }
    await away.beginAgain();
    await RelayedHost.ready(hosts);
    let count = 0;
    const wentOver = () => write(north, `the first is back: ${count++}`);
    expect(await eventually(wentOver, (urls) => urls.includes(away.url))).toEqual([away.url]);
    await isThere();
    for (const host of hosts) await host.confirmed();
    await isThere();
  },
  TEST_MS,
);

test.runIf(IS_THOROUGH)(
  'a relay that takes mail and brings none hides it no longer than until the second copy',
  async () => {
    const [liar, other] = await KilledRelay.two();
    const proxy = await FlakyProxy.open(new SeededRandom(1), () => liar.port);
    atTestEnd(() => proxy.close());
    const hosts = await twoHosts([proxy.url, other.url], SECOND_COPY);
    const [north] = hosts;
    const { epoch } = await north.daemon.answered((client) => client.call('relay-status', {}));
    const nothing = { epoch, items: [], head_seq: 0, last_seq: 0, more: false };
    proxy.instead = (method, target) =>
      method === 'GET' && target.startsWith('/v2/relay/items')
        ? { status: 200, document: nothing, isBinary: true, isForeign: true }
        : undefined;
    const sent: string[] = [];
    await exchange(hosts, sent, ['swallowed', 'swallowed, too'], GOES_ON_MS);
    expect(await settled(hosts)).toEqual([sent, sent]);
    const ids = await Promise.all(sent.map((subject) => north.send(subject)));
    const took = await Promise.all(ids.map((id) => north.tookIt(id)));
    const both = new Set([proxy.url, other.url]);
    for (const urls of took) expect(new Set(urls)).toEqual(both);
  },
  TEST_MS,
);

test.runIf(IS_THOROUGH)(
  'a relay that is put back to a copy loses nothing, and what it brings again is there once',
  async () => {
    const folder = await temporaryFolder();
    const [store, copy] = [join(folder, 'store'), join(folder, 'copy')];
    // Its position lies in its folder: the copy brings it along, and it does not know what happened to it.
    const relay = await KilledRelay.over(store, ['--position-file', join(store, 'position')], {}, relayProgram(0));
    const other = await KilledRelay.begin([], {}, relayProgram(1));
    const hosts = await twoHosts([relay.url, other.url], SECOND_COPY);
    const [north, south] = hosts;
    const sent: string[] = [];
    await exchange(hosts, sent, ['before']);
    await south.daemon.kill();
    const taken = async (subject: string): Promise<void> => {
      const id = await north.send(subject);
      await expect.poll(() => north.tookIt(id), { timeout: PATIENCE_MS }).toContain(relay.url);
    };
    await taken('in the copy');
    await relay.stop();
    await cp(store, copy, { recursive: true });
    await relay.beginAgain();
    await taken('not in the copy');
    await relay.kill();
    await rm(store, { recursive: true });
    await cp(copy, store, { recursive: true });
    await relay.beginAgain();
    south.daemon.beginAgain();
    const got = [...sent, 'in the copy', 'not in the copy'];
    await expect.poll(() => south.subjects(), { timeout: GOES_ON_MS }).toEqual(got);
    await north.confirmed();
    expect(await south.subjects()).toEqual(got);
  },
  TEST_MS,
);
