/**
 * PostgreSQL servers of a test's own on loopback, made anew in a temporary folder: a primary, standbys of it, and links
 * between programs and servers that can be held or cut.
 *
 * PostgreSQL does not run as root: a test that does runs it as the user of Debian's package.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { appendFile, chmod, chown, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { eventually } from './eventually.ts';
import { steadyPort } from './free-port.ts';

const USER = 'postgres';
const SETTINGS = {
  listen_addresses: "'127.0.0.1'",
  unix_socket_directories: "''",
  max_wal_senders: '8',
  hot_standby: 'on',
  wal_log_hints: 'on',
  wal_keep_size: "'256MB'",
  shared_buffers: "'16MB'",
  wal_receiver_timeout: "'3s'",
  wal_sender_timeout: "'3s'",
  wal_retrieve_retry_interval: "'100ms'",
  synchronous_standby_names: "''",
};

/** As whom the servers run. */
const owner = process.getuid?.() === 0 ? idsOf(USER) : undefined;

export interface Servers {
  primary: PostgresServer;
  /** Ends every server and link, and removes their folder. */
  end: () => Promise<void>;
}

/** Starts a server; `program` is the file of `postgres` (`neededProgram`). The caller ends it. */
export async function startPostgres(program: string): Promise<Servers> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-test-pg-'));
  await chmod(folder, 0o755);
  if (owner) await chown(folder, owner.uid, owner.gid);
  // The others lie beside the file itself, and not always beside a link to it.
  const cluster = new Cluster(dirname(await realpath(program)), folder);
  const end = async (): Promise<void> => {
    await cluster.end();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    return { primary: await cluster.primary(), end };
  } catch (error) {
    await end();
    throw error;
  }
}

class Cluster {
  readonly bin: string;
  readonly folder: string;
  readonly links: TcpLink[] = [];
  readonly servers: PostgresServer[] = [];

  constructor(bin: string, folder: string) {
    this.bin = bin;
    this.folder = folder;
  }

  async primary(): Promise<PostgresServer> {
    const server = new PostgresServer(this, 'primary', await steadyPort());
    const initdb = ['-D', server.folder, '-A', 'trust', '-U', USER, '-E', 'UTF8', '--locale=C', '--no-sync'];
    await this.run('initdb', ...initdb);
    const lines = Object.entries(SETTINGS).map(([name, value]) => `${name} = ${value}\n`);
    await appendFile(join(server.folder, 'postgresql.conf'), lines.join(''));
    await appendFile(join(server.folder, 'pg_hba.conf'), 'host replication all 127.0.0.1/32 trust\n');
    this.servers.push(server);
    await server.start();
    return server;
  }

  async run(program: string, ...args: string[]): Promise<void> {
    await promisify(execFile)(join(this.bin, program), args, { ...owner, cwd: this.folder, env: { LC_ALL: 'C' } });
  }

  async end(): Promise<void> {
    for (const link of this.links) await link.close();
    for (const server of this.servers) await server.kill();
  }
}

export class PostgresServer {
  readonly name: string;
  readonly port: number;
  readonly folder: string;
  readonly #cluster: Cluster;
  #process: ChildProcess | undefined;
  #log = '';

  constructor(cluster: Cluster, name: string, port: number) {
    this.#cluster = cluster;
    this.name = name;
    this.port = port;
    this.folder = join(cluster.folder, name);
  }

  url(database = 'postgres', port = this.port): string {
    return `postgres://${USER}@127.0.0.1:${port}/${database}`;
  }

  /** What the server said. */
  get log(): string {
    return this.#log;
  }

  /** A standby of this server, which replays what it gets. Through `port` of a link, when one is given. */
  async standby(name: string, port = this.port): Promise<PostgresServer> {
    const standby = new PostgresServer(this.#cluster, name, await steadyPort());
    const from = ['-h', '127.0.0.1', '-p', String(this.port), '-U', USER];
    await this.#cluster.run('pg_basebackup', ...from, '-D', standby.folder, '-X', 'stream', '-c', 'fast', '--no-sync');
    await writeFile(join(standby.folder, 'standby.signal'), '');
    const source = `host=127.0.0.1 port=${port} user=${USER} application_name=${name}`;
    await writeFile(join(standby.folder, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`);
    await appendFile(join(standby.folder, 'postgresql.conf'), "synchronous_standby_names = ''\n");
    this.#cluster.servers.push(standby);
    await standby.start();
    return standby;
  }

  /** Commits wait for the standbys of these names; resolves when one of them is in sync. */
  async synchronousWith(names: string): Promise<void> {
    await this.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await this.query('SELECT pg_reload_conf()');
    if (names === '') return;
    const synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')";
    await eventually(
      () => this.query(synchronous),
      (rows) => rows.length > 0,
    );
  }

  /** One statement, on a connection of its own, which waits for no standby. */
  async query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: this.url(), options: '-c synchronous_commit=local' });
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

  /** Starts the server, or starts it again after it was killed or stopped. */
  async start(): Promise<void> {
    const program = join(this.#cluster.bin, 'postgres');
    const args = ['-D', this.folder, '-p', String(this.port)];
    const child = spawn(program, args, { ...owner, stdio: ['ignore', 'ignore', 'pipe'], env: { LC_ALL: 'C' } });
    this.#process = child;
    child.stderr.setEncoding('utf8');
    const ready = new Promise<void>((resolve, reject) => {
      child.stderr.on('data', (text: string) => {
        this.#log += text;
        if (/ready to accept (?:read-only )?connections/.test(text)) resolve();
      });
      child.once('exit', () => reject(new Error(`PostgreSQL did not start:\n${this.#log}`)));
    });
    await ready;
  }

  /** As a power cut: the postmaster and all that it started, at once. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (!child?.pid || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    for (const pid of [child.pid, ...childrenOf(child.pid)]) signal(pid, 'SIGKILL');
    await exited;
    await rm(join(this.folder, 'postmaster.pid'), { force: true });
  }

  /** Ends its connections, and stops. */
  async stop(): Promise<void> {
    const child = this.#process;
    if (!child?.pid) return;
    const exited = once(child, 'exit');
    signal(child.pid, 'SIGINT');
    await exited;
  }

  /** A standby becomes a primary, on a timeline of its own. */
  async promote(): Promise<void> {
    await this.query('SELECT pg_promote(true, 60)');
  }

  /** Stops or continues what receives from the primary, so that commits there wait. */
  async receive(isReceiving: boolean): Promise<void> {
    const [row] = await this.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'");
    // There is none while its primary is down.
    if (row) signal(Number(row['pid']), isReceiving ? 'SIGCONT' : 'SIGSTOP');
  }

  /** A link in front of this server. */
  async link(): Promise<TcpLink> {
    const link = await TcpLink.open(this.port);
    this.#cluster.links.push(link);
    return link;
  }
}

/** A way to a port of loopback that can be held or cut. */
export class TcpLink {
  readonly port: number;
  readonly #server: Server;
  readonly #pairs = new Set<[Socket, Socket]>();
  #isCut = false;
  #isHeld = false;

  private constructor(server: Server, to: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (from) => this.#pass(from, to));
  }

  static async open(to: number): Promise<TcpLink> {
    const server = createServer().listen({ host: '127.0.0.1', port: 0 });
    await once(server, 'listening');
    return new TcpLink(server, to);
  }

  /** What the server answers is kept until `release`. */
  hold(): void {
    this.#isHeld = true;
    for (const [, to] of this.#pairs) to.pause();
  }

  release(): void {
    this.#isHeld = false;
    for (const [, to] of this.#pairs) to.resume();
  }

  /** Connections end, and new ones too, until `mend`. What was held is lost. */
  cut(): void {
    this.#isCut = true;
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
    this.#isHeld = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #pass(from: Socket, port: number): void {
    if (this.#isCut) {
      from.destroy();
      return;
    }
    const to = connect({ host: '127.0.0.1', port });
    const pair: [Socket, Socket] = [from, to];
    this.#pairs.add(pair);
    for (const [socket, other] of [pair, pair.toReversed()] as [Socket, Socket][]) {
      socket.on('data', (chunk) => void other.write(chunk));
      socket.on('end', () => other.end());
      socket.on('error', () => undefined);
      socket.on('close', () => {
        other.destroy();
        this.#pairs.delete(pair);
      });
    }
    if (this.#isHeld) to.pause();
  }
}

function idsOf(user: string): { uid: number; gid: number } {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((one) => one.startsWith(`${user}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  if (uid === undefined || gid === undefined) throw new Error(`there is no user ${user} that could run PostgreSQL`);
  return { uid: Number(uid), gid: Number(gid) };
}

function childrenOf(pid: number): number[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  try {
    return readFileSync(path, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  } catch {
    // Elsewhere they end by themselves when their postmaster is gone.
    return [];
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
