/** A relay's process that is killed and begun again on the same store at the same port. Call these inside a test. */
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { type Ended, type Environment, type PosteProcess, relayProcess, run } from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

export class KilledRelay {
  readonly port: number;
  readonly #folder: string;
  readonly #args: readonly string[];
  readonly #environment: Environment;
  #running!: PosteProcess;

  static async begin(args: readonly string[] = [], environment: Environment = {}): Promise<KilledRelay> {
    return KilledRelay.over(join(await temporaryFolder(), 'relay'), args, environment);
  }

  /** The relay whose store is in `folder`, or will be. */
  static async over(folder: string, args: readonly string[] = [], environment: Environment = {}): Promise<KilledRelay> {
    const relay = new KilledRelay(folder, await freePort(), args, environment);
    await relay.beginAgain();
    return relay;
  }

  private constructor(folder: string, port: number, args: readonly string[], environment: Environment) {
    this.#folder = folder;
    this.port = port;
    this.#args = args;
    this.#environment = environment;
  }

  async kill(): Promise<void> {
    await this.#running.kill();
  }

  async beginAgain(): Promise<void> {
    const listen = ['--listen', `127.0.0.1:${this.port}`];
    ({ process: this.#running } = await relayProcess(this.#folder, [...listen, ...this.#args], this.#environment));
  }

  /** Stops it as it should be stopped. */
  async stop(): Promise<void> {
    this.#running.signal('SIGTERM');
    await this.#running.ended();
  }

  /** A command of the operator on its store; fails when it fails. */
  async command(...args: string[]): Promise<Ended> {
    const ended = await run(['relay', ...args, '--store-dir', this.#folder], this.#environment);
    if (ended.code !== 0) throw new Error(`relay ${args.join(' ')} ended with ${ended.code}: ${ended.stderr}`);
    return ended;
  }
}
