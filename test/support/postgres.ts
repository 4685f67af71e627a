/**
 * PostgreSQL servers of a test's own on loopback, made anew in a temporary folder: a primary, standbys of it, and links
 * between programs and servers (support/postgres-link.ts).
 *
 * PostgreSQL does not run as root: a test that does runs it as another user, the one of Debian's package where there is
 * one. That user is looked up when a server starts, since a machine without PostgreSQL skips the tests and needs none.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { appendFile, chmod, chown, cp, mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { fillDisk, freeDisk } from './own-disks.ts';
import { PostgresLink } from './postgres-link.ts';
import { childrenOf, isGone, signal } from './process-tree.ts';

const USER = 'postgres';
const SETTINGS = {
  listen_addresses: "'127.0.0.1'",
  unix_socket_directories: "''",
  max_wal_senders: '8',
  hot_standby: 'on',
  wal_log_hints: 'on',
  wal_keep_size: "'256MB'",
  shared_buffers: "'16MB'",
  // In its folder, which goes with the test: in /dev/shm it would outlast a server that is killed.
  dynamic_shared_memory_type: 'mmap',
  wal_receiver_timeout: "'3s'",
  wal_sender_timeout: "'3s'",
  wal_retrieve_retry_interval: "'100ms'",
  synchronous_standby_names: "''",
};

/** A server that has no more to recover than a test wrote is ready in a second; the hook of a test waits 60. */
const READY_WITHIN_MS = 45_000;
/** Another port is tried so often when somebody else took the first. */
const PORTS_TRIED_MAX = 5;

export interface PostgresOptions {
  /** Settings of the primary, which its standbys inherit. */
  settings: Readonly<Record<string, string>>;
  newPort: () => Promise<number>;
  /**
   * Gives each server a disk of its own of so many bytes, which can be filled. It takes root, and a system that mounts.
   */
  diskBytes?: number | undefined;
  /** The folder in which the folder of the servers is made. */
  parent: string;
  /** The name by which the primary calls itself when it is a standby. */
  name: string;
}

export interface Servers {
  primary: PostgresServer;
  /** Ends every server and link, and removes their folder. */
  end: () => Promise<void>;
}

/** Starts a server; `program` is the file of `postgres` (`neededProgram`). The caller ends it. */
export async function startPostgres(program: string, options: Partial<PostgresOptions> = {}): Promise<Servers> {
  // The other programs lie beside the file itself, and not always beside a link to it.
  const bin = dirname(await realpath(program));
  const owner = process.getuid?.() === 0 ? unprivileged(readFileSync('/etc/passwd', 'utf8')) : undefined;
  const given: PostgresOptions = { settings: {}, newPort: freePort, parent: tmpdir(), name: 'primary', ...options };
  const folder = await mkdtemp(join(given.parent, 'poste-test-pg-'));
  const cluster = new Cluster(bin, folder, owner, given);
  const end = async (): Promise<void> => {
    await cluster.end();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await chmod(folder, 0o755);
    if (owner) await chown(folder, owner.uid, owner.gid);
    return { primary: await cluster.primary(), end };
  } catch (error) {
    await end();
    throw error;
  }
}

interface Owner {
  uid: number;
  gid: number;
}

class Cluster {
  readonly bin: string;
  readonly folder: string;
  /** As whom the servers run, when that is another. */
  readonly owner: Owner | undefined;
  readonly options: PostgresOptions;
  readonly links: PostgresLink[] = [];
  readonly servers: PostgresServer[] = [];
  readonly #mounted: string[] = [];

  constructor(bin: string, folder: string, owner: Owner | undefined, options: PostgresOptions) {
    this.bin = bin;
    this.folder = folder;
    this.owner = owner;
    this.options = options;
  }

  async primary(): Promise<PostgresServer> {
    const server = new PostgresServer(this, this.options.name);
    await this.#mount(server);
    const initdb = ['-D', server.folder, '-A', 'trust', '-U', USER, '-E', 'UTF8', '--locale=C', '--no-sync'];
    await this.run('initdb', ...initdb);
    const lines = Object.entries({ ...SETTINGS, ...this.options.settings }).map(
      ([name, value]) => `${name} = ${value}\n`,
    );
    await appendFile(join(server.folder, 'postgresql.conf'), lines.join(''));
    this.servers.push(server);
    await server.startAtNewPort();
    return server;
  }

  /** A copy of the data of `from`, with a name of its own. */
  async copyOf(from: PostgresServer, name: string): Promise<PostgresServer> {
    const copy = new PostgresServer(this, name);
    await this.#mount(copy);
    await this.backUp(from, copy.folder);
    this.servers.push(copy);
    return copy;
  }

  async backUp(from: PostgresServer, folder: string): Promise<void> {
    const at = ['-h', '127.0.0.1', '-p', String(from.port), '-U', USER];
    await this.run('pg_basebackup', ...at, '-D', folder, '-X', 'stream', '-c', 'fast', '--no-sync');
  }

  async #mount({ folder }: PostgresServer): Promise<void> {
    const { diskBytes } = this.options;
    if (diskBytes === undefined) return;
    await mkdir(folder);
    await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes}`, 'tmpfs', folder]);
    this.#mounted.push(folder);
    if (this.owner) await chown(folder, this.owner.uid, this.owner.gid);
    await chmod(folder, 0o700);
  }

  async run(program: string, ...args: string[]): Promise<void> {
    await promisify(execFile)(join(this.bin, program), args, { ...this.owner, cwd: this.folder, env: { LC_ALL: 'C' } });
  }

  async end(): Promise<void> {
    for (const link of this.links) await link.close();
    for (const server of this.servers) await server.kill();
    for (const folder of this.#mounted.splice(0)) await promisify(execFile)('umount', ['-l', folder]);
  }
}

export class PostgresServer {
  readonly name: string;
  readonly folder: string;
  readonly #cluster: Cluster;
  #port = 0;
  #process: ChildProcess | undefined;
  #log = '';
  /** The process that receives from the primary, while it is stopped. */
  #stoppedReceiver: number | undefined;
  /** The processes that the server had started when it was paused. */
  #paused: number[] = [];

  constructor(cluster: Cluster, name: string) {
    this.#cluster = cluster;
    this.name = name;
    this.folder = join(cluster.folder, name);
  }

  get port(): number {
    return this.#port;
  }

  /** Returns the process of the postmaster, while it runs. */
  get pid(): number | undefined {
    return this.isRunning ? this.#process?.pid : undefined;
  }

  get isPaused(): boolean {
    return this.isRunning && this.#paused.length > 0;
  }

  url(database = 'postgres', port = this.port): string {
    return `postgres://${USER}@127.0.0.1:${port}/${database}`;
  }

  /** Returns what the server said. */
  get log(): string {
    return this.#log;
  }

  /** A standby of this server, which replays what it gets. Through `port` of a link, when one is given. */
  async standby(name: string, port = this.port): Promise<PostgresServer> {
    const standby = await this.#cluster.copyOf(this, name);
    await standby.#setUp(port);
    await standby.startAtNewPort();
    return standby;
  }

  /** Becomes a standby of that server, with a new copy of its data. Through `port` of a link, when one is given. */
  async follow(primary: PostgresServer, port = primary.port): Promise<void> {
    await this.#empty();
    await this.#cluster.backUp(primary, this.folder);
    await this.#setUp(port);
    await this.start();
  }

  /** A copy of what the server holds now, for `restore`. */
  async backUp(): Promise<string> {
    const folder = `${this.folder}-backup-${Math.random().toString(36).slice(2)}`;
    await this.#cluster.backUp(this, folder);
    return folder;
  }

  /**
   * Starts again with what it held at the time of the backup: by recovery, on a timeline of its own; or as a copied
   * folder, which is not to be told from the server at that time.
   */
  async restore(backup: string, how: 'recovered' | 'copied'): Promise<void> {
    await this.#empty();
    await cp(backup, this.folder, { recursive: true });
    const { owner } = this.#cluster;
    if (owner) await promisify(execFile)('chown', ['-R', `${owner.uid}:${owner.gid}`, this.folder]);
    if (how === 'recovered') {
      // No archive: what the backup holds is all there is.
      await appendFile(join(this.folder, 'postgresql.auto.conf'), "restore_command = 'exit 1'\n");
      await writeFile(join(this.folder, 'recovery.signal'), '');
    }
    await this.start();
    const isPrimary = await eventually(
      () => this.query('SELECT pg_is_in_recovery() AS recovers'),
      ([row]) => row?.['recovers'] === false,
    );
    if (isPrimary[0]?.['recovers'] !== false) throw new Error(`${this.name} does not end its recovery:\n${this.#log}`);
  }

  /** Leaves no room on its disk; the options gave it one of its own. */
  fillDisk(): Promise<void> {
    return fillDisk(this.folder);
  }

  freeDisk(): Promise<void> {
    return freeDisk(this.folder);
  }

  async #empty(): Promise<void> {
    await this.kill();
    // The folder itself may be a disk.
    const names = await readdir(this.folder).catch(() => []);
    for (const name of names) await rm(join(this.folder, name), { recursive: true, force: true });
  }

  /** A copy of a server becomes a standby of the one at that port. */
  async #setUp(port: number): Promise<void> {
    await writeFile(join(this.folder, 'standby.signal'), '');
    const source = `host=127.0.0.1 port=${port} user=${USER} application_name=${this.name}`;
    await writeFile(join(this.folder, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    await appendFile(join(this.folder, 'postgresql.conf'), "synchronous_standby_names = ''\n");
  }

  /**
   * Commits wait for the standbys of these names; resolves when one of them is in sync. Without names they wait no
   * more.
   */
  async synchronousWith(names: string): Promise<void> {
    await this.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await this.query('SELECT pg_reload_conf()');
    const ask = `SELECT current_setting('synchronous_standby_names') AS names,
      ARRAY(SELECT application_name FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS synchronous`;
    const isSo = ([row]: Record<string, unknown>[]): boolean => {
      const synchronous = row?.['synchronous'] as string[];
      return row?.['names'] === names && (names === '' || synchronous.some((name) => names.includes(name)));
    };
    const rows = await eventually(() => this.query(ask), isSo);
    if (!isSo(rows)) throw new Error(`no standby of "${names}" is in sync: ${JSON.stringify(rows)}`);
  }

  /** One statement, on a connection of its own, which waits for no standby. */
  async query(text: string, values: unknown[] = [], database = 'postgres'): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: this.url(database), options: '-c synchronous_commit=local' });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  async newDatabase(): Promise<string> {
    const name = `log_${Math.random().toString(36).slice(2)}`;
    await this.query(`CREATE DATABASE ${name}`);
    return name;
  }

  /** Starts the server at a port that nobody has; tries others when it was taken meanwhile. */
  async startAtNewPort(): Promise<void> {
    for (let tried = 1; ; tried++) {
      this.#port = await this.#cluster.options.newPort();
      const before = this.#log.length;
      try {
        await this.start();
        return;
      } catch (error) {
        const isTaken = this.#log.slice(before).includes('Address already in use');
        if (!isTaken || tried === PORTS_TRIED_MAX) throw error;
      }
    }
  }

  /** Starts the server, or starts it again after it was killed or stopped; resolves when it takes connections. */
  async start(): Promise<void> {
    if (this.isRunning) throw new Error(`${this.name} runs already`);
    const program = join(this.#cluster.bin, 'postgres');
    const args = ['-D', this.folder, '-p', String(this.port)];
    const env = { LC_ALL: 'C' };
    const child = spawn(program, args, { ...this.#cluster.owner, stdio: ['ignore', 'ignore', 'pipe'], env });
    this.#process = child;
    const before = this.#log.length;
    child.stderr.setEncoding('utf8');
    let timer: NodeJS.Timeout | undefined;
    const ready = new Promise<void>((resolve, reject) => {
      child.stderr.on('data', (text: string) => {
        this.#log += text;
        if (/ready to accept (?:read-only )?connections/.test(this.#log.slice(before))) resolve();
      });
      // When it is closed, all that the server said was read.
      child.once('close', () => reject(new Error(`PostgreSQL did not start:\n${this.#log.slice(before)}`)));
      child.once('error', reject);
      timer = setTimeout(() => {
        reject(new Error(`PostgreSQL was not ready in time:\n${this.#log.slice(before)}`));
      }, READY_WITHIN_MS);
    });
    try {
      await ready;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * As a power cut: the postmaster and all that it started, at once; or the postmaster alone, which the others notice.
   * Resolves when none of them is there any more.
   */
  async kill(whom: 'all' | 'postmaster' = 'all'): Promise<void> {
    this.#endPaused();
    const child = this.#process;
    if (!child?.pid || !this.isRunning) return;
    const exited = once(child, 'exit');
    // Stopped first, it starts nothing more while its children are looked up.
    signal(child.pid, 'SIGSTOP');
    const children = childrenOf(child.pid);
    if (whom === 'postmaster') this.#continueReceiver();
    for (const pid of whom === 'all' ? [child.pid, ...children] : [child.pid]) signal(pid, 'SIGKILL');
    await exited;
    // Until the last one is gone its memory is shared, and the server would not start again.
    const areGone = await eventually(
      async () => children.every(isGone),
      (are) => are,
    );
    if (!areGone) throw new Error(`of ${this.name} are left: ${children.filter((pid) => !isGone(pid)).join(', ')}`);
    this.#stoppedReceiver = undefined;
    await rm(join(this.folder, 'postmaster.pid'), { force: true });
  }

  /**
   * Ends its connections and stops: after a last checkpoint, or at once and with something to recover at the next
   * start.
   */
  async stop(mode: 'fast' | 'immediate' = 'fast'): Promise<void> {
    const child = this.#process;
    if (!child?.pid || !this.isRunning) return;
    const exited = once(child, 'exit');
    signal(child.pid, mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    // The server waits for it.
    this.#continueReceiver();
    await exited;
  }

  /** The postmaster and all that it started stand still, or go on. */
  pause(isPaused: boolean): void {
    const { pid } = this;
    if (pid === undefined) throw new Error(`${this.name} does not run`);
    if (isPaused) {
      signal(pid, 'SIGSTOP');
      this.#paused = [pid, ...childrenOf(pid)];
      for (const one of this.#paused) signal(one, 'SIGSTOP');
    } else for (const one of this.#paused.splice(0)) signal(one, 'SIGCONT');
  }

  /** A standby becomes a primary, on a timeline of its own. */
  async promote(): Promise<void> {
    const [row] = await this.query('SELECT pg_promote(true, 60) AS promoted');
    if (row?.['promoted'] !== true) throw new Error(`${this.name} was not promoted:\n${this.#log}`);
  }

  /** Stops or continues what receives from the primary, so that commits there wait. */
  async receive(isReceiving: boolean): Promise<void> {
    if (isReceiving) {
      this.#continueReceiver();
      return;
    }
    // After a pause that was too long for the primary, another one is started.
    const receiver = "SELECT pid FROM pg_stat_wal_receiver WHERE status = 'streaming'";
    const [row] = await eventually(
      () => this.query(receiver),
      (rows) => rows.length > 0,
    );
    if (!row) throw new Error(`${this.name} receives nothing from a primary:\n${this.#log}`);
    this.#stoppedReceiver = Number(row['pid']);
    signal(this.#stoppedReceiver, 'SIGSTOP');
  }

  /** A link in front of this server. */
  async link(): Promise<PostgresLink> {
    const link = await PostgresLink.open(this.port);
    this.#cluster.links.push(link);
    return link;
  }

  /** What was paused does not see that its postmaster is gone. */
  #endPaused(): void {
    for (const pid of this.#paused.splice(0)) signal(pid, 'SIGKILL');
  }

  get isRunning(): boolean {
    return this.#process?.exitCode === null && this.#process.signalCode === null;
  }

  #continueReceiver(): void {
    if (this.#stoppedReceiver !== undefined) signal(this.#stoppedReceiver, 'SIGCONT');
    this.#stoppedReceiver = undefined;
  }
}

/** The user of /etc/passwd that a server of root runs as. */
export function unprivileged(passwd: string): Owner {
  const users = passwd.split('\n').map((line) => line.split(':'));
  const [, , uid, gid] = [USER, 'nobody'].flatMap((name) => users.filter(([user]) => user === name))[0] ?? [];
  if (uid === undefined || gid === undefined) throw new Error(`PostgreSQL does not run as root: add a user ${USER}`);
  return { uid: Number(uid), gid: Number(gid) };
}
