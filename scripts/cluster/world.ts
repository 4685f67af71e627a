/** The cluster: two PostgreSQL servers, two relays, the proxy and the hosts, and what can be done to them. */
import { hash } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../test/support/free-port.ts';
import { hostNamed } from '../../test/support/hosts.ts';
import type { PostgresLink } from '../../test/support/postgres-link.ts';
import { type Servers, startPostgres } from '../../test/support/postgres.ts';
import { Database } from './database.ts';
import { Load } from './load.ts';
import { Program } from './program.ts';
import { type Readiness, readiness } from './readiness.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const PROXY = fileURLToPath(new URL('proxy.ts', import.meta.url));
const RELAY = 'relay';
const LOOK_EVERY_MS = 300;

/** Done to one process. */
export const DEEDS = ['kill', 'stop', 'start', 'pause', 'continue'] as const;
export type Deed = (typeof DEEDS)[number];
/** Done to the databases together. */
export const MOVES = ['cut', 'join', 'promote', 'rebuild'] as const;
export type Move = (typeof MOVES)[number];

export interface WorldOptions {
  /** The file of `postgres`. */
  postgres: string;
  leaseSeconds: number;
  say: (what: string) => void;
}

export class Relay {
  readonly program: Program;
  readonly operatorPort: number;
  state: Readiness = { type: 'silent' };

  constructor(program: Program, operatorPort: number) {
    this.program = program;
    this.operatorPort = operatorPort;
  }

  async look(): Promise<void> {
    this.state = this.program.pid === undefined ? { type: 'silent' } : await readiness(this.operatorPort);
  }
}

export type Member = Program | Database;

export class ClusterWorld {
  readonly folder: string;
  readonly load: Load;
  readonly relays: readonly [Relay, Relay];
  readonly proxy: Program;
  /** The relay to which the proxy sends hosts. */
  proxyTarget: Relay | undefined;
  isCut = false;
  readonly #say: (what: string) => void;
  readonly #servers: Servers;
  readonly #databases: readonly [Database, Database];
  /** Through it the standby gets what the primary writes. */
  #link: PostgresLink;
  /** The deeds under way, by whom they are done to. */
  readonly #busy = new Map<Member, { deed: string; done: Promise<void> }>();
  /** Databases of which it was said that they are gone. */
  readonly #gone = new Set<Database>();
  readonly #looking: Promise<void>;
  #isOver = false;

  private constructor(folder: string, options: WorldOptions, servers: Servers, parts: Parts) {
    this.folder = folder;
    this.#say = options.say;
    this.#servers = servers;
    this.#databases = parts.databases;
    this.#link = parts.link;
    const [proxyPort, ...ports] = parts.ports as [number, number, number, number, number];
    const hosts = parts.databases.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const log = ['--log', `postgres://postgres@${hosts}/postgres`, '--lease-seconds', String(options.leaseSeconds)];
    const relay = (name: string, at: number, operatorPort: number): Relay =>
      new Relay(this.#relayProgram(name, at, operatorPort, log), operatorPort);
    this.relays = [relay('relay A', ports[0], ports[1]), relay('relay B', ports[2], ports[3])];
    const backends = this.relays.map(({ program, operatorPort }) => `${program.port},${operatorPort}`);
    this.proxy = new Program({
      name: 'proxy',
      port: proxyPort,
      args: ['--import', 'tsx', PROXY, String(proxyPort), ...backends],
      env: {},
      logFile: join(folder, 'proxy.log'),
      say: options.say,
      onMessage: (message) => void (this.proxyTarget = this.relays[(message as { index: number | null }).index ?? -1]),
    });
    this.load = new Load({ proxyPort, relayKey: hostNamed(RELAY).key, say: options.say });
    for (const one of [...this.relays.map(({ program }) => program), this.proxy]) one.start();
    this.load.start();
    this.#looking = this.#look();
  }

  static async start(options: WorldOptions): Promise<ClusterWorld> {
    const folder = await mkdtemp(join(tmpdir(), 'poste-cluster-'));
    let servers: Servers | undefined;
    try {
      // PostgreSQL may run as another user, who must reach its own folder.
      await chmod(folder, 0o711);
      servers = await startPostgres(options.postgres, { parent: folder, name: 'database_1' });
      const { primary } = servers;
      const link = await primary.link();
      const databases = [
        new Database('database 1', primary),
        new Database('database 2', await primary.standby('database_2', link.port)),
      ] as const;
      await databases[1].waitFor(databases[0]);
      await primary.synchronousWith('database_2');
      const ports = [];
      for (let at = 0; at < 5; at++) ports.push(await freePort());
      return new ClusterWorld(folder, options, servers, { databases, link, ports });
    } catch (error) {
      await servers?.end();
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  get members(): readonly Member[] {
    return [...this.relays.map(({ program }) => program), ...this.#databases, this.proxy];
  }

  get leader(): Relay | undefined {
    return this.relays.find(({ state }) => state.type === 'leads');
  }

  /** The newest, where an old one runs beside it. */
  get primary(): Database | undefined {
    const primaries = this.#databases.filter((one) => timelineOf(one) > 0);
    return primaries.toSorted((one, other) => timelineOf(other) - timelineOf(one))[0];
  }

  get standby(): Database | undefined {
    return this.#databases.find(({ state }) => state.type === 'standby');
  }

  busyWith(member: Member): string | undefined {
    return this.#busy.get(member)?.deed;
  }

  /** Throws, as a sentence, when that cannot be done now. */
  async do(deed: Deed, member: Member): Promise<void> {
    const words = { kill: 'is killed', stop: 'stops', start: 'starts', pause: 'pauses', continue: 'goes on' }[deed];
    await this.#alone(words, [member], async () => {
      if (deed === 'start' && member.pid !== undefined) throw new Error(`${member.name} runs already`);
      if (deed !== 'start' && member.pid === undefined) throw new Error(`${member.name} does not run`);
      if (deed === 'pause' || deed === 'continue') member.pause(deed === 'pause');
      else await member[deed]();
      if (deed === 'pause') this.#say(`${member.name} is paused`);
      if (deed === 'continue') this.#say(`${member.name} goes on`);
      if (deed === 'start') this.#say(`${member.name} was started`);
      if (member instanceof Database) {
        if (member.pid === undefined) this.#noteGone(member, deed === 'kill' ? 'killed' : 'stopped');
        await member.look();
      }
    });
  }

  /** Throws, as a sentence, when that cannot be done now. */
  async move(move: Move): Promise<void> {
    if (move === 'promote') await this.#promote();
    else if (move === 'rebuild') await this.#rebuild();
    else {
      if (this.isCut === (move === 'cut'))
        throw new Error(`the standby is ${this.isCut ? 'cut off' : 'joined'} already`);
      this.isCut = move === 'cut';
      if (this.isCut) this.#link.cut();
      else this.#link.mend();
      this.#say(this.isCut ? 'the standby is cut off from the primary' : 'the standby reaches the primary again');
    }
  }

  /** Ends every process and removes the folder. */
  async end(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.load.end();
    for (const member of this.members) await member.kill();
    // What was under way fails now, or has started something meanwhile.
    await Promise.allSettled([...this.#busy.values()].map(({ done }) => done));
    for (const member of this.members) await member.kill();
    await this.#looking;
    await this.#servers.end();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #promote(): Promise<void> {
    const { standby } = this;
    if (!standby) throw new Error('no standby answers that could be promoted');
    await this.#alone('is promoted', [standby], async () => {
      await standby.server.promote();
      await standby.look();
      this.#say(`${standby.name} is the primary now; commits wait until it has a standby`);
    });
  }

  /** The other server of the primary loses what it has, and becomes its standby. */
  async #rebuild(): Promise<void> {
    const { primary } = this;
    if (!primary) throw new Error('no primary answers whose standby it could be: start one, or promote the standby');
    const old = this.#databases.find((one) => one !== primary);
    if (!old) throw new Error('there are two databases');
    if (old.state.type === 'standby' && old.state.isReceiving)
      throw new Error(`${old.name} is the standby of ${primary.name} already`);
    await this.#alone('is rebuilt', [old], async () => {
      this.#say(`${old.name} is emptied and copied from ${primary.name}`);
      await old.kill();
      await this.#link.close();
      this.#link = await primary.server.link();
      this.isCut = false;
      await old.server.follow(primary.server, this.#link.port);
      await old.waitFor(primary);
      await old.look();
      this.#say(`${old.name} is the standby of ${primary.name}`);
    });
  }

  /** One thing at a time is done to a process. */
  async #alone(deed: string, members: readonly Member[], work: () => Promise<void>): Promise<void> {
    if (this.#isOver) throw new Error('the cluster ends');
    for (const member of members) {
      const busy = this.busyWith(member);
      if (busy !== undefined) throw new Error(`${member.name} ${busy}: wait until that is done`);
    }
    const done = work();
    for (const member of members) this.#busy.set(member, { deed, done });
    try {
      await done;
    } finally {
      for (const member of members) this.#busy.delete(member);
    }
  }

  /** Watches what becomes of the processes, also when somebody else ends one. */
  async #look(): Promise<void> {
    while (!this.#isOver) {
      await Promise.all([...this.relays, ...this.#databases].map((one) => one.look()));
      for (const database of this.#databases) {
        if (database.pid !== undefined) this.#gone.delete(database);
        else if (!this.#gone.has(database) && !this.#busy.has(database)) this.#noteGone(database, 'ended by somebody');
      }
      if (this.proxy.pid === undefined) this.proxyTarget = undefined;
      await elapsed(LOOK_EVERY_MS);
    }
  }

  #noteGone(database: Database, how: string): void {
    this.#gone.add(database);
    this.#say(`${database.name} was ${how}`);
  }

  #relayProgram(name: string, port: number, operatorPort: number, log: readonly string[]): Program {
    const folder = join(this.folder, name.replace(' ', '-'));
    const listen = ['--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${operatorPort}`];
    return new Program({
      name,
      port,
      args: [MAIN, 'relay', 'serve', '--store-dir', folder, '--backup-dir', 'off', ...listen, ...log],
      // The private key of `hostNamed(RELAY)`.
      env: { MAIL_RELAY_KEY: hash('sha256', RELAY, 'buffer').toString('base64'), XDG_STATE_HOME: this.folder },
      logFile: `${folder}.log`,
      say: this.#say,
    });
  }
}

/** 0 for a server that is no primary. */
function timelineOf({ state }: Database): number {
  return state.type === 'primary' ? state.timeline : 0;
}

interface Parts {
  databases: readonly [Database, Database];
  link: PostgresLink;
  /** The ports of the proxy, and of each relay the one for hosts and the one for its operator. */
  ports: number[];
}
