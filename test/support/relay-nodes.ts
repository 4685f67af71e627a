/** Relays of one shared log as processes that a supervisor starts again, and hosts that use whichever leads. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { join } from 'node:path';
import { hash } from 'node:crypto';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { eventually } from './eventually.ts';
import { steadyPort } from './free-port.ts';
import { type TestHost, relay as relayHost } from './hosts.ts';
import { itemTo } from './mail.ts';
import { type PosteProcess, poste, serveArgs } from './poste-process.ts';

/** The private key of `relayHost` (support/hosts.ts). */
const RELAY_KEY = hash('sha256', relayHost.name, 'buffer').toString('base64');
const ANSWERED_WITHIN_MS = 2_000;

export class RelayNode {
  readonly port: number;
  readonly folder: string;
  readonly #args: readonly string[];
  #process: PosteProcess;

  private constructor(folder: string, port: number, args: readonly string[]) {
    this.folder = folder;
    this.port = port;
    this.#args = args;
    this.#process = this.#started();
  }

  static async start(folder: string, name: string, args: readonly string[]): Promise<RelayNode> {
    return new RelayNode(join(folder, name), await steadyPort(), args);
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

  /** Resolves when the process has ended, with its exit code. */
  async ended(): Promise<number | null> {
    return (await this.#process.ended()).code;
  }

  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** As a supervisor does after the process has ended. */
  startAgain(): void {
    this.#process = this.#started();
  }

  pause(isPaused: boolean): void {
    process.kill(this.pid, isPaused ? 'SIGSTOP' : 'SIGCONT');
  }

  /** SIGTERM. */
  stop(): void {
    process.kill(this.pid, 'SIGTERM');
  }

  async leads(): Promise<boolean> {
    return (await this.#status()) === 200;
  }

  /** Whether it listens, leading or not. */
  async answers(): Promise<boolean> {
    return (await this.#status()) !== undefined;
  }

  async #status(): Promise<number | undefined> {
    const asked = fetch(`http://127.0.0.1:${this.port}/v2/relay/info`, { signal: AbortSignal.timeout(1000) });
    return asked.then(
      ({ status }) => status,
      () => undefined,
    );
  }

  #started(): PosteProcess {
    const args = [...this.#args, '--listen', `127.0.0.1:${this.port}`];
    return poste(serveArgs(this.folder, args), { MAIL_RELAY_KEY: RELAY_KEY });
  }
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

interface Accepted {
  itemId: string;
  epoch: string;
  seq: number;
}

/** What two hosts saw: one pushes, the other pulls and acks, each at whichever node answers. */
export class History {
  readonly accepted: Accepted[] = [];
  readonly pulled: Accepted[] = [];
  /** What contradicts what was seen before. */
  readonly faults: string[] = [];
  readonly #nodes: readonly RelayNode[];
  readonly #from: TestHost;
  readonly #to: TestHost;
  readonly #heads = new Map<string, number>();
  #pushed = 0;
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(nodes: readonly RelayNode[], from: TestHost, to: TestHost) {
    this.#nodes = nodes;
    this.#from = from;
    this.#to = to;
  }

  async enrol(): Promise<void> {
    for (const host of [this.#from, this.#to]) await this.#atLeader((port) => clientOf(port, host).enrol());
  }

  /** Pushes and pulls until `end`. */
  run(): void {
    const pushing = async (): Promise<void> => {
      while (!this.#isOver) await this.#pushOne();
    };
    const pulling = async (): Promise<void> => {
      while (!this.#isOver) await this.#pullOnce();
    };
    this.#running = Promise.all([pushing(), pulling()]);
    // Met where the end waits for it.
    this.#running.catch(() => undefined);
  }

  /** Resolves when so many more items were accepted. */
  async goesOn(items: number): Promise<void> {
    const wanted = this.accepted.length + items;
    await eventually(
      async () => this.accepted.length,
      (count) => count >= wanted,
    );
    if (this.accepted.length >= wanted) return;
    throw new Error(`nothing is accepted any more:\n${this.#nodes.map(({ stderr }) => stderr).join('\n')}`);
  }

  /** Pulls what is left, and answers everything that is wrong. */
  async end(): Promise<string[]> {
    this.#isOver = true;
    await this.#running;
    const ids = (): Set<string> => new Set(this.pulled.map(({ itemId }) => itemId));
    await eventually(
      async () => {
        await this.#pullOnce();
        return ids().size;
      },
      (count) => count >= this.accepted.length,
    );
    const came = ids();
    const lost = this.accepted.filter(({ itemId }) => !came.has(itemId));
    return [...this.faults, ...lost.map(({ itemId }) => `${itemId} was accepted and never came`)];
  }

  async #pushOne(): Promise<void> {
    const itemId = `item-${this.#pushed++}`;
    const item = itemTo([this.#to], itemId);
    const { epoch, result } = await this.#atLeader(async (port) => {
      const { epoch: at, results } = await clientOf(port, this.#from).push([item]);
      const [only] = results;
      if (only?.status !== 'accepted' && only?.status !== 'duplicate') throw new Error(`answered ${only?.status}`);
      return { epoch: at, result: only };
    });
    const seq = result.targets?.[0]?.seq ?? 0;
    const twice = this.accepted.find((one) => one.epoch === epoch && one.seq === seq);
    if (twice) this.faults.push(`${itemId} and ${twice.itemId} have the seq ${seq}`);
    this.accepted.push({ itemId, epoch, seq });
  }

  async #pullOnce(): Promise<void> {
    await this.#atLeader(async (port) => {
      const client = clientOf(port, this.#to);
      const { epoch, items, head_seq: head } = await client.pull();
      const before = this.#heads.get(epoch) ?? 0;
      if (head < before) this.faults.push(`the head went back from ${before} to ${head}`);
      this.#heads.set(epoch, Math.max(before, head));
      for (const { item_id: itemId, seq } of items) this.#note({ itemId, epoch, seq });
      const last = items.at(-1);
      if (last) await client.ack(epoch, last.seq);
    });
  }

  /** An item comes again when its ack was lost: at the place where it was. */
  #note(item: Accepted): void {
    const before = this.pulled.find(({ itemId }) => itemId === item.itemId);
    if (!before) this.pulled.push(item);
    else if (before.seq !== item.seq) this.faults.push(`${item.itemId} came at ${before.seq} and at ${item.seq}`);
  }

  /** At each node in turn until one does it. */
  async #atLeader<T>(work: (port: number) => Promise<T>): Promise<T> {
    for (let turn = 0; ; turn++) {
      const node = this.#nodes[turn % this.#nodes.length];
      try {
        if (node) return await answered(work(node.port));
      } catch (error) {
        if (turn > 2_000) throw error;
        await elapsed(20);
      }
    }
  }
}

function clientOf(port: number, host: TestHost): RelayClient {
  const url = `http://127.0.0.1:${port}`;
  return new RelayClient({ url, signer: host.signer, hostName: host.name, nowMs: Date.now }, relayHost.key);
}

/** A node that is paused answers nothing. */
async function answered<T>(work: Promise<T>): Promise<T> {
  work.catch(() => undefined);
  const late = elapsed(ANSWERED_WITHIN_MS).then(() => {
    throw new Error('no answer in time');
  });
  late.catch(() => undefined);
  return Promise.race([work, late]);
}
