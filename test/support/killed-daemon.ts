/** A host's daemon that is killed and begun again on the same store, and asked by callers that do not care when. */
import { join } from 'node:path';
import { CallFailed, DaemonClient } from '../../src/host/api/client.ts';
import { freePort } from './free-port.ts';
import { type Ended, type Environment, type PosteProcess, type ProcessOptions, poste, run } from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A failure is followed by a new try soon: nobody waits in a test for what a network needs. */
const SOON: Environment = {
  POSTE_RETRY_FIRST_SECONDS: '0.1',
  POSTE_RETRY_LONGEST_SECONDS: '1',
  POSTE_RELAY_POLL_SECONDS: '0.2',
};
/** A client says one of these when the daemon was killed before or while it was asked. */
const LOST_CODES: ReadonlySet<string> = new Set(['DAEMON_NOT_RUNNING', 'DAEMON_GONE']);

/** Says whether a call failed because the daemon was killed before it answered. */
export function isLost(error: unknown): boolean {
  return error instanceof CallFailed && LOST_CODES.has(error.code);
}

export interface KilledDaemonOptions {
  /** The port on which it listens for paired hosts; a free one when absent. */
  lanPort?: number;
  environment?: Environment;
  /** The program of another build. */
  main?: string;
}

export class KilledDaemon {
  readonly name: string;
  readonly folder: string;
  readonly client: DaemonClient;
  readonly lanAddress: string;
  readonly #environment: Environment;
  readonly #program: ProcessOptions;
  /** The one that runs now, once the one before is dead. */
  #running: Promise<PosteProcess>;
  /** The logs of daemons that were killed. */
  readonly #logs: string[] = [];

  /** A new host of this name, its daemon beginning. Call it inside a test. */
  static async begin(name: string): Promise<KilledDaemon> {
    const folder = join(await temporaryFolder(), name);
    const made = await run(['init', '--host', name], { POSTE_HOME: folder });
    if (made.code !== 0) throw new Error(`init ended with ${made.code}: ${made.stderr}`);
    return KilledDaemon.over(name, folder);
  }

  /** The host that is in `folder`, its daemon beginning. */
  static async over(name: string, folder: string, options: KilledDaemonOptions = {}): Promise<KilledDaemon> {
    const { lanPort = await freePort(), environment = {}, main } = options;
    const own = { ...SOON, POSTE_HOME: folder, POSTE_LAN_LISTEN: `127.0.0.1:${lanPort}`, ...environment };
    return new KilledDaemon(name, folder, own, main);
  }

  private constructor(name: string, folder: string, environment: Environment, main: string | undefined) {
    this.name = name;
    this.folder = folder;
    this.#environment = environment;
    this.#program = main === undefined ? {} : { main };
    this.lanAddress = environment['POSTE_LAN_LISTEN'] ?? '';
    this.client = new DaemonClient(join(folder, 'daemon.sock'), join(folder, 'store'));
    this.#running = Promise.resolve(this.#start());
  }

  /** Kills the daemon where it stands, which may be before it was ready, and begins another. */
  killAndBegin(): void {
    const before = this.#running;
    this.#running = (async () => {
      const killed = await before;
      await killed.kill();
      this.#logs.push(killed.stderr);
      return this.#start();
    })();
  }

  /** Kills it, and leaves it down until `beginAgain`. */
  async kill(): Promise<void> {
    const killed = await this.#running;
    await killed.kill();
    this.#logs.push(killed.stderr);
  }

  beginAgain(): void {
    this.#running = Promise.resolve(this.#start());
  }

  /** Resolves when a daemon is ready that nobody has killed yet. Rejects when one ends by itself. */
  async ready(): Promise<void> {
    for (;;) {
      const running = this.#running;
      try {
        await (await running).printed('}\n');
        return;
      } catch (error) {
        if (running === this.#running) throw error;
      }
    }
  }

  /** Returns what the daemon answers in the end: asked again, in the same words, after every answer that was lost. */
  async answered<T>(ask: (client: DaemonClient) => Promise<T>): Promise<T> {
    for (;;) {
      await this.ready();
      try {
        return await ask(this.client);
      } catch (error) {
        if (!isLost(error)) throw error;
      }
    }
  }

  /** The same, by a command that prints JSON. */
  async commandAnswered<T>(...args: string[]): Promise<T> {
    for (;;) {
      await this.ready();
      const { code, stdout, stderr } = await run([...args, '--json'], this.#environment);
      if (code === 0) return JSON.parse(stdout) as T;
      const said = JSON.parse(stderr) as { code: string };
      if (!LOST_CODES.has(said.code)) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    }
  }

  /** A command on its store or its daemon, which must succeed. */
  async command(...args: string[]): Promise<Ended> {
    const ended = await poste(args, this.#environment, this.#program).ended();
    if (ended.code !== 0) throw new Error(`${args.join(' ')} ended with ${ended.code}: ${ended.stderr}`);
    return ended;
  }

  /** Sends a signal to the process that runs now. */
  async signal(name: NodeJS.Signals): Promise<void> {
    (await this.#running).signal(name);
  }

  /** Stops it as it should be stopped. */
  async stop(): Promise<Ended> {
    await this.ready();
    const running = await this.#running;
    running.signal('SIGTERM');
    const ended = await running.ended();
    this.#logs.push(ended.stderr);
    return ended;
  }

  /** The log of every daemon that has ended, from warnings up. */
  get log(): string {
    return this.#logs.join('');
  }

  #start(): PosteProcess {
    return poste(['daemon', '--json', '--log-level', 'warn'], this.#environment, this.#program);
  }
}
