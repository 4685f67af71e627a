/** Relays of one shared log as processes, which a supervisor starts again. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hash } from 'node:crypto';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { type TestHost, relay as relayHost } from './hosts.ts';
import { atTestEnd } from './test-end.ts';
import { type Environment, type Ended, type PosteProcess, poste, serveArgs } from './poste-process.ts';

/** The private key of `relayHost` (support/hosts.ts). */
const RELAY_KEY = hash('sha256', relayHost.name, 'buffer').toString('base64');
const LOOKED_EVERY_MS = 100;
/** As a supervisor waits before it starts something again. */
const RESTART_AFTER_MS = 300;

/** A node is this at its next start. */
export interface NodeProgram {
  args: readonly string[];
  environment?: Environment;
  /** The program of another build. */
  main?: string;
}

export class RelayNode {
  readonly port: number;
  readonly folder: string;
  readonly name: string;
  /** From the next start on. */
  program: NodeProgram;
  /** A supervisor leaves it alone. */
  isHeldDown = false;
  /** The ends of its processes. */
  readonly ends: Ended[] = [];
  #process: PosteProcess;

  private constructor(folder: string, name: string, port: number, program: NodeProgram) {
    this.folder = join(folder, name);
    this.name = name;
    this.port = port;
    this.program = program;
    this.#process = this.#started();
  }

  static async start(folder: string, name: string, program: NodeProgram): Promise<RelayNode> {
    return new RelayNode(folder, name, await freePort(), program);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  client({ signer, name: hostName }: TestHost): RelayClient {
    return new RelayClient({ url: this.url, signer, hostName, nowMs: Date.now }, relayHost.key);
  }

  get pid(): number {
    return this.#process.pid;
  }

  get isRunning(): boolean {
    return this.#process.isRunning;
  }

  get stderr(): string {
    return this.#process.stderr;
  }

  /** Returns what all its processes said on stderr, and how they ended. */
  get said(): string {
    const before = this.ends.map(({ code, signal, stderr }) => `${stderr}ended with ${code ?? signal}\n`);
    return before.join('') + this.stderr;
  }

  /** Resolves when the process has ended, with its exit code. */
  async ended(): Promise<number | null> {
    return (await this.#process.ended()).code;
  }

  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** As a supervisor does after the process has ended. */
  startAgain(): void {
    if (this.isRunning) throw new Error(`${this.name} runs already`);
    void this.#process.ended().then((ended) => this.ends.push(ended));
    this.#process = this.#started();
  }

  /** Its machine is gone, with its disk. It starts when it is no longer held down, with an empty folder. */
  async lose(): Promise<void> {
    this.isHeldDown = true;
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  pause(isPaused: boolean): void {
    // It may have ended by itself.
    this.#process.signal(isPaused ? 'SIGSTOP' : 'SIGCONT');
  }

  /** SIGTERM. */
  stop(): void {
    process.kill(this.pid, 'SIGTERM');
  }

  async leads(): Promise<boolean> {
    return (await this.#status()) === 200;
  }

  /** Says whether it listens, leading or not. */
  async answers(): Promise<boolean> {
    return (await this.#status()) !== undefined;
  }

  async #status(): Promise<number | undefined> {
    const asked = fetch(`${this.url}/v2/relay/info`, { signal: AbortSignal.timeout(1000) });
    return asked.then(
      ({ status }) => status,
      () => undefined,
    );
  }

  #started(): PosteProcess {
    const { args, environment = {}, main } = this.program;
    const served = serveArgs(this.folder, [...args, '--listen', `127.0.0.1:${this.port}`]);
    const options = main === undefined ? {} : { main };
    return poste(served, { MAIL_RELAY_KEY: RELAY_KEY, ...environment }, options);
  }
}

/** Starts again what ended, until the function that it returns is called, or the test is over. */
export function supervise(nodes: readonly RelayNode[]): () => Promise<void> {
  const stopping = new AbortController();
  const supervising = async ({ signal }: AbortController): Promise<void> => {
    while (!signal.aborted) {
      await elapsed(LOOKED_EVERY_MS);
      const ended = nodes.filter((node) => !node.isRunning && !node.isHeldDown);
      if (ended.length === 0) continue;
      await elapsed(RESTART_AFTER_MS);
      for (const node of ended) {
        if (signal.aborted || node.isHeldDown) continue;
        node.startAgain();
        // Before this process ends with the test: it would start again.
        atTestEnd(stop);
      }
    }
  };
  const supervised = supervising(stopping);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await supervised;
  };
  atTestEnd(stop);
  return stop;
}

export async function leaderOf(nodes: readonly RelayNode[]): Promise<RelayNode> {
  const leader = await eventually(
    async () => {
      for (const node of nodes) if (await node.leads()) return node;
      return undefined;
    },
    (node) => node !== undefined,
  );
  if (!leader) throw new Error(`no relay leads:\n${nodes.map(({ stderr }) => stderr).join('\n')}`);
  return leader;
}
