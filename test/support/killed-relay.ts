/** A relay's process that is killed and begun again on the same store at the same port. Call these inside a test. */
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import {
  type Ended,
  type Environment,
  poste,
  type PosteProcess,
  type ProcessOptions,
  relayProcess,
} from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

const { POSTE_TEST_FIRST_RELAY, POSTE_TEST_SECOND_RELAY } = process.env;

/** The program of the first (0) or second (1) of two relays: another build's, where the environment names one. */
export function relayProgram(at: number): ProcessOptions {
  const main = [POSTE_TEST_FIRST_RELAY, POSTE_TEST_SECOND_RELAY][at];
  return main === undefined ? {} : { main };
}

export class KilledRelay {
  readonly port: number;
  readonly #folder: string;
  readonly #args: readonly string[];
  readonly #environment: Environment;
  readonly #program: ProcessOptions;
  #running!: PosteProcess;

  static async begin(
    args: readonly string[] = [],
    environment: Environment = {},
    program: ProcessOptions = {},
  ): Promise<KilledRelay> {
    return KilledRelay.over(join(await temporaryFolder(), 'relay'), args, environment, program);
  }

  /** Two, of the programs that the environment names. */
  static two(environment: Environment = {}): Promise<[KilledRelay, KilledRelay]> {
    const begin = (at: number): Promise<KilledRelay> => KilledRelay.begin([], environment, relayProgram(at));
    return Promise.all([begin(0), begin(1)]);
  }

  /** The relay whose store is in `folder`, or will be. */
  static async over(
    folder: string,
    args: readonly string[] = [],
    environment: Environment = {},
    program: ProcessOptions = {},
  ): Promise<KilledRelay> {
    const relay = new KilledRelay({ folder, port: await freePort(), args, environment, program });
    await relay.beginAgain();
    return relay;
  }

  private constructor(parts: {
    folder: string;
    port: number;
    args: readonly string[];
    environment: Environment;
    program: ProcessOptions;
  }) {
    this.port = parts.port;
    this.#folder = parts.folder;
    this.#args = parts.args;
    this.#environment = parts.environment;
    this.#program = parts.program;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async kill(): Promise<void> {
    await this.#running.kill();
  }

  async beginAgain(): Promise<void> {
    const args = ['--listen', `127.0.0.1:${this.port}`, ...this.#args];
    ({ process: this.#running } = await relayProcess(this.#folder, args, this.#environment, this.#program));
  }

  /** Stops it as it should be stopped. */
  async stop(): Promise<void> {
    this.#running.signal('SIGTERM');
    await this.#running.ended();
  }

  /** A command of the operator on its store; fails when it fails. */
  async command(...args: string[]): Promise<Ended> {
    const all = ['relay', ...args, '--store-dir', this.#folder];
    const ended = await poste(all, this.#environment, this.#program).ended();
    if (ended.code !== 0) throw new Error(`relay ${args.join(' ')} ended with ${ended.code}: ${ended.stderr}`);
    return ended;
  }
}
