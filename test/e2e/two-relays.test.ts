/**
 * Two hosts of the built program with two relays each: mail goes on when a relay is killed, when one takes mail and
 * brings none, and when one is put back to a copy; and nothing is there twice.
 */
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { FlakyProxy } from '../support/flaky-proxy.ts';
import { KilledDaemon } from '../support/killed-daemon.ts';
import { KilledRelay } from '../support/killed-relay.ts';
import { makePairedStores } from '../support/paired-stores.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import type { Environment } from '../support/poste-process.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const AGENT = 'agent';
const TEST_MS = 600_000;
/** Mail may stand still for no longer than this when a relay dies. */
const GOES_ON_MS = 15_000;
/** An only copy of a message gets another beside it after so many seconds, and not after an hour. */
const SECOND_COPY: Environment = { POSTE_RELAY_SECOND_COPY_S: '1' };
const NORTH = 'north';
const SOUTH = 'south';

let paired: Awaited<ReturnType<typeof makePairedStores>>;
beforeAll(async () => {
  paired = await makePairedStores([NORTH, SOUTH], AGENT);
});
afterAll(() => paired.remove());

class Host {
  readonly daemon: KilledDaemon;

  private constructor(daemon: KilledDaemon) {
    this.daemon = daemon;
  }

  /** Both hosts use the relays at these addresses, in this order. A relay may not know one of them before the other. */
  static async both(urls: readonly string[], environment: Environment = {}): Promise<[north: Host, south: Host]> {
    const hosts = await Promise.all([NORTH, SOUTH].map((name) => Host.#begin(name, urls, environment)));
    for (const host of hosts) await host.ready();
    return hosts as [Host, Host];
  }

  static async #begin(name: string, urls: readonly string[], environment: Environment): Promise<Host> {
    const folder = join(await temporaryFolder(), name);
    await cp(join(paired.folder, name), folder, { recursive: true });
    const host = new Host(await KilledDaemon.over(name, folder, { environment }));
    for (const [at, url] of urls.entries())
      await host.daemon.answered((client) => client.call(at === 0 ? 'relay-set' : 'relay-add', { url }));
    return host;
  }

  /** Resolves when all of its relays can be used. */
  async ready(): Promise<void> {
    const ask = () => this.daemon.answered((client) => client.call('relay-list', {}));
    const states = await eventually(
      async () => (await ask()).relays.map(({ state }) => state),
      (all) => all.every((state) => state === 'ready'),
    );
    if (states.some((state) => state !== 'ready')) throw new Error(`${this.daemon.name}: ${states.join(', ')}`);
  }

  /** Resolves with the message id. */
  async send(subject: string): Promise<string> {
    const there = this.daemon.name === NORTH ? SOUTH : NORTH;
    const input = { to: [`${AGENT}@${there}`], subject, body: `${subject}: words`, idempotency_key: subject };
    return (await this.daemon.answered((client) => client.call('mail-send', input, { as: AGENT }))).message_id;
  }

  /** The subjects in its mailbox, oldest first. */
  async subjects(): Promise<string[]> {
    const input = { state: 'all', limit: 100 } as const;
    const { summaries = [] } = await this.daemon.answered((client) => client.call('mail-inbox', input, { as: AGENT }));
    return summaries.map(({ subject }) => subject).toReversed();
  }

  /** The addresses of the relays that took a message, as far as this host knows. */
  async tookIt(messageId: string): Promise<(string | null)[]> {
    const { rows } = await this.daemon.answered((client) => client.call('trace', { message_id: messageId }));
    return rows[0]?.relays?.map(({ url }) => url) ?? [];
  }

  /** Resolves when every message of its outbox was confirmed. */
  async confirmed(): Promise<void> {
    const open = async (): Promise<string[]> => {
      const { rows } = await this.daemon.answered((client) => client.call('outbox', { show: 'all' }));
      return rows.filter(({ state }) => state !== 'done').map(({ state }) => state);
    };
    const left = await eventually(open, (states) => states.length === 0);
    if (left.length > 0) throw new Error(`${this.daemon.name} has no receipt for what is ${left.join(', ')}`);
  }
}

function urlOf({ port }: KilledRelay): string {
  return `http://127.0.0.1:${port}`;
}

/** Sends each other one message after the other until both have all that was `sent`. */
async function exchange(hosts: readonly Host[], sent: string[], subjects: readonly string[], withinMs = PATIENCE_MS) {
  for (const subject of subjects) {
    await Promise.all(hosts.map((host) => host.send(subject)));
    sent.push(subject);
  }
  for (const host of hosts) await expect.poll(() => host.subjects(), { timeout: withinMs }).toEqual(sent);
}

/** What both have once all of it was confirmed. */
async function settled(hosts: readonly Host[]): Promise<string[][]> {
  for (const host of hosts) await host.confirmed();
  return Promise.all(hosts.map((host) => host.subjects()));
}

test(
  'mail goes on within 15 seconds when either relay is killed, in order, and none is there twice',
  async () => {
    const relays = await Promise.all([KilledRelay.begin(), KilledRelay.begin()]);
    const hosts = await Host.both(relays.map(urlOf));
    const sent: string[] = [];
    await exchange(hosts, sent, ['before']);
    for (const [at, relay] of relays.entries()) {
      await relay.kill();
      await exchange(hosts, sent, [`without ${at + 1}`, `without ${at + 1}, again`], GOES_ON_MS);
      await relay.beginAgain();
      for (const host of hosts) await host.ready();
    }
    await exchange(hosts, sent, ['after']);
    expect(await settled(hosts)).toEqual([sent, sent]);
  },
  TEST_MS,
);

test.runIf(IS_THOROUGH)(
  'mail goes on over thirty deaths of relays and hosts, in order, and none is there twice',
  async () => {
    const random = new SeededRandom(1);
    const relays = await Promise.all([KilledRelay.begin(), KilledRelay.begin()]);
    const hosts = await Host.both(relays.map(urlOf), SECOND_COPY);
    const sent: string[] = [];
    await exchange(hosts, sent, ['before']);
    for (let death = 0; death < 30; death++) {
      const relay = random.pick(relays);
      await relay.kill();
      if (random.chance(0.3)) random.pick(hosts).daemon.killAndBegin();
      await exchange(hosts, sent, [`${death} 1`, `${death} 2`]);
      await relay.beginAgain();
    }
    expect(await settled(hosts)).toEqual([sent, sent]);
  },
  TEST_MS,
);

test(
  'a relay that takes mail and brings none hides it no longer than until the second copy',
  async () => {
    const [liar, other] = await Promise.all([KilledRelay.begin(), KilledRelay.begin()]);
    const proxy = await FlakyProxy.open(new SeededRandom(1), () => liar.port);
    atTestEnd(() => proxy.close());
    const hosts = await Host.both([proxy.url, urlOf(other)], SECOND_COPY);
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
    const both = new Set([proxy.url, urlOf(other)]);
    for (const urls of took) expect(new Set(urls)).toEqual(both);
  },
  TEST_MS,
);

test(
  'a relay that is put back to a copy loses nothing, and what it brings again is there once',
  async () => {
    const folder = await temporaryFolder();
    const [store, copy] = [join(folder, 'store'), join(folder, 'copy')];
    // Its position lies in its folder: the copy brings it along, and it does not know what happened to it.
    const relay = await KilledRelay.over(store, ['--position-file', join(store, 'position')]);
    const hosts = await Host.both([urlOf(relay), urlOf(await KilledRelay.begin())], SECOND_COPY);
    const [north, south] = hosts;
    const sent: string[] = [];
    await exchange(hosts, sent, ['before']);
    await south.daemon.kill();
    const taken = async (subject: string): Promise<void> => {
      const id = await north.send(subject);
      await expect.poll(() => north.tookIt(id), { timeout: PATIENCE_MS }).toContain(urlOf(relay));
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
