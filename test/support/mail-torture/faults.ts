/** Lists what can go wrong between and under the hosts of the world of mail. */
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { anyChances } from '../flaky-proxy.ts';
import type { PostHost } from './post-host.ts';
import type { MailWorld } from './world.ts';

/** Each answers what it did, or nothing when there was nothing to do. */
type Fault = (world: MailWorld) => Promise<string | undefined> | string | undefined;

const SKEW_MAX_MS = 600_000;
const PAUSED_MAX_MS = 800;
const FULL_MAX_MS = 1200;

/** One host had this when it was backed up in this run. */
interface HostBackup {
  file: string;
  takenMs: number;
}

function anyUp({ random, hosts }: MailWorld): PostHost | undefined {
  const up = hosts.filter(({ isUp }) => isUp);
  return up.length === 0 ? undefined : random.pick(up);
}

export class Faults {
  readonly #world: MailWorld;
  readonly #backups = new Map<PostHost, HostBackup>();

  /** For one run. */
  constructor(world: MailWorld) {
    this.#world = world;
  }

  /** One of them, as the seed says; what it did, or nothing. */
  async any(): Promise<string | undefined> {
    const all: Readonly<Record<string, Fault>> = {
      ...LINKS,
      ...DAEMONS,
      'a host is backed up': (world) => this.#backUp(world),
      'a host is restored': (world) => this.#restore(world),
    };
    const { random, relay } = this.#world;
    const relays = Object.entries(relay.faults);
    const own = Object.entries(all).map(([name, fault]): [string, () => Promise<string | undefined>] => [
      name,
      async () => fault(this.#world),
    ]);
    const [name, happens] = random.pick([...own, ...relays]);
    const what = await happens();
    return what === undefined ? undefined : `${name} ${what}`.trim();
  }

  async #backUp(world: MailWorld): Promise<string | undefined> {
    const host = anyUp(world);
    if (!host) return undefined;
    await host.daemon.ready();
    const takenMs = performance.now();
    const file = join(world.folder, `${host.name}-${takenMs}.backup`);
    await host.daemon.command('backup', file);
    this.#backups.set(host, { file, takenMs });
    return host.name;
  }

  async #restore(world: MailWorld): Promise<string | undefined> {
    const [host, backup] = [...this.#backups][0] ?? [];
    if (!host || !backup) return undefined;
    if (host.isUp) await host.goDown();
    const { stdout } = await host.daemon.command('restore', backup.file, '--yes', '--json');
    const { replaced } = JSON.parse(stdout) as { replaced: { messages_since: number } };
    const restoredMs = performance.now();
    const { messages_since: messagesSince } = replaced;
    world.restored({ host: host.name, takenMs: backup.takenMs, restoredMs, messagesSince });
    host.comeUp();
    return `${host.name}, without ${messagesSince} messages`;
  }
}

const LINKS: Readonly<Record<string, Fault>> = {
  'links are faulty': ({ random, hosts }) => {
    for (const { relayLink, lanLink } of hosts)
      for (const link of [relayLink, lanLink]) link.chances = anyChances(random);
    return '';
  },
  'a host leaves the LAN': ({ random, hosts }) => {
    const host = random.pick(hosts);
    host.lanLink.isAway = random.pick(['gone', 'silent'] as const);
    host.lanLink.cutAll();
    return `${host.name}, ${host.lanLink.isAway}`;
  },
  'nobody is on the LAN': ({ hosts }) => {
    for (const { lanLink } of hosts) {
      lanLink.isAway = 'gone';
      lanLink.cutAll();
    }
    return '';
  },
  'a host comes back to the LAN': ({ random, hosts }) => {
    const away = hosts.filter(({ lanLink }) => lanLink.isAway !== undefined);
    if (away.length === 0) return undefined;
    const host = random.pick(away);
    host.lanLink.isAway = undefined;
    return host.name;
  },
  'a host is cut off from the relay, or back': ({ random, hosts }) => {
    const { name, relayLink } = random.pick(hosts);
    relayLink.isAway = relayLink.isAway === undefined ? random.pick(['gone', 'silent'] as const) : undefined;
    relayLink.cutAll();
    return `${name}, ${relayLink.isAway ?? 'back'}`;
  },
  'every connection is cut': ({ hosts }) => {
    for (const { relayLink, lanLink } of hosts) for (const link of [relayLink, lanLink]) link.cutAll();
    return '';
  },
};

const DAEMONS: Readonly<Record<string, Fault>> = {
  'a daemon is killed': (world) => {
    const host = anyUp(world);
    host?.killAndBegin();
    return host?.name;
  },
  'a daemon is killed and stays down': async (world) => {
    const host = anyUp(world);
    await host?.goDown();
    return host?.name;
  },
  'a daemon comes again': ({ hosts }) => {
    const host = hosts.find(({ isUp }) => !isUp);
    host?.comeUp();
    return host?.name;
  },
  'a daemon is paused': async (world) => {
    const host = anyUp(world);
    if (!host) return undefined;
    await host.daemon.signal('SIGSTOP');
    await elapsed(world.random.below(PAUSED_MAX_MS));
    await host.daemon.signal('SIGCONT');
    return host.name;
  },
  'a host goes on under a new key': async (world) => {
    const host = anyUp(world);
    await host?.ask('rotate-key', {});
    return host?.name;
  },
  'a clock is off': async (world) => {
    const host = world.random.pick(world.hosts);
    world.isClockOff = true;
    host.skewMs = world.random.below(2 * SKEW_MAX_MS) - SKEW_MAX_MS;
    await world.setClocks();
    return `${host.name}, ${host.skewMs} ms`;
  },
  'a disk is full': async (world) => {
    const host = anyUp(world);
    if (!host?.hasDisk) return undefined;
    world.mayLogErrors = true;
    await host.fillDisk();
    for (let count = 0; count < 3; count++) world.act();
    await elapsed(world.random.below(FULL_MAX_MS));
    await host.freeDisk();
    return host.name;
  },
};
