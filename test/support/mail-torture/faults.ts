/** Lists what can go wrong between and under the hosts of the world of mail. */
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { CallFailed } from '../../../src/host/api/client.ts';
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

/** The number of one of several. */
function numbered<T>(all: readonly T[], one: T): string {
  return all.length === 1 ? '' : ` (${all.indexOf(one) + 1})`;
}

function leaveLan({ hosts }: MailWorld): string {
  for (const host of hosts) host.leaveLan();
  return '';
}

export class Faults {
  readonly #world: MailWorld;
  readonly #backups = new Map<PostHost, HostBackup>();

  /** For one run. */
  constructor(world: MailWorld) {
    this.#world = world;
  }

  /** What a run begins with: with several relays every other one has no LAN, which would take most of the mail. */
  atFirst(): string[] {
    const { random, relays } = this.#world;
    if (relays.length === 1 || random.chance(0.5)) return [];
    leaveLan(this.#world);
    return ['nobody is on the LAN'];
  }

  /** One of them, as the seed says; what it did, or nothing. */
  async any(): Promise<string | undefined> {
    const all: Readonly<Record<string, Fault>> = {
      ...LINKS,
      ...DAEMONS,
      'a host is backed up': (world) => this.#backUp(world),
      'a host is restored': (world) => this.#restore(world),
    };
    const { random, relays } = this.#world;
    const choices: [string, Fault][] = Object.entries(relays.length === 1 ? all : { ...all, ...OWNERS });
    for (const relay of relays)
      for (const [name, fault] of Object.entries(relay.faults))
        choices.push([`${name}${numbered(relays, relay)}`, fault]);
    const [name, happens] = random.pick(choices);
    const what = await happens(this.#world);
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
    for (const { links } of hosts) for (const link of links) link.chances = anyChances(random);
    return '';
  },
  'a host leaves the LAN': ({ random, hosts }) => {
    const host = random.pick(hosts);
    host.lanLink.isAway = random.pick(['gone', 'silent'] as const);
    host.lanLink.cutAll();
    return `${host.name}, ${host.lanLink.isAway}`;
  },
  'nobody is on the LAN': leaveLan,
  'a host comes back to the LAN': ({ random, hosts }) => {
    const away = hosts.filter(({ lanLink }) => lanLink.isAway !== undefined);
    if (away.length === 0) return undefined;
    const host = random.pick(away);
    host.lanLink.isAway = undefined;
    return host.name;
  },
  'a host is cut off from the relay, or back': ({ random, hosts }) => {
    const { name, relayLinks } = random.pick(hosts);
    const [link] = relayLinks.length === 1 ? relayLinks : [random.pick(relayLinks)];
    if (!link) return undefined;
    link.isAway = link.isAway === undefined ? random.pick(['gone', 'silent'] as const) : undefined;
    link.cutAll();
    return `${name}${numbered(relayLinks, link)}, ${link.isAway ?? 'back'}`;
  },
  'every connection is cut': ({ hosts }) => {
    for (const { links } of hosts) for (const link of links) link.cutAll();
    return '';
  },
};

/** What an owner does may be refused: of two relays one is removed already, or the other cannot be reached. */
async function asOwner(
  host: PostHost | undefined,
  does: (host: PostHost) => Promise<void>,
): Promise<string | undefined> {
  if (!host) return undefined;
  try {
    await does(host);
    return host.name;
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    return `${host.name}, refused: ${error.code}`;
  }
}

/** Of hosts with several relays. */
const OWNERS: Readonly<Record<string, Fault>> = {
  'an owner prefers the other relay': (world) =>
    asOwner(anyUp(world), async (host) => {
      await host.ask('relay-prefer', { relay: '2' });
    }),
  'an owner removes a relay': (world) => {
    const number = world.random.pick(['1', '2']);
    return asOwner(anyUp(world), async (host) => {
      host.removed = (await host.ask('relay-remove', { relay: number })).relay.url;
    });
  },
  'an owner adds the removed relay again': (world) =>
    asOwner(
      world.hosts.find(({ removed, isUp }) => isUp && removed !== undefined),
      (host) => host.addRemoved(),
    ),
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
