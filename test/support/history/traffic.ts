/** Hosts that push, pull and ack at relays, and one that watches the log; and the history of what they all saw. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { openCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { eventually } from '../eventually.ts';
import { type TestHost, relay } from '../hosts.ts';
import { PATIENCE_MS } from '../patience.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { type Fault, faultsOf } from './faults.ts';
import { Front, GaveUp } from './front.ts';
import type { Seen } from './history.ts';
import { WatchedHost } from './watched-host.ts';

/** Between two requests of one loop: three hosts keep a relay busy, and leave the machine time for everything else. */
const BETWEEN_MS = 15;
const OBSERVED_EVERY_MS = 200;
const WRITTEN_AT_ONCE_MAX = 3;

export class Traffic {
  readonly seen: Seen[] = [];
  readonly hosts: readonly WatchedHost[];
  readonly #front: Front;
  readonly #random: SeededRandom;
  readonly #came = new Set<string>();
  #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  #noted: { note: string; epoch: string; size: number } | undefined;

  constructor(urls: readonly string[], hosts: readonly TestHost[], random: SeededRandom) {
    this.#front = new Front(urls);
    this.#random = random;
    const parts = { seen: this.seen, came: this.#came };
    this.hosts = hosts.map((host) => new WatchedHost(host, { ...parts, front: new Front(urls) }));
  }

  /** The same host, asking only these; what it sees is noted with the rest. */
  hostAt(host: TestHost, urls: readonly string[]): WatchedHost {
    const parts = { seen: this.seen, came: this.#came, front: new Front(urls) };
    return new WatchedHost(host, parts, `${host.name}-here`);
  }

  /** Returns how many items were accepted. */
  get accepted(): number {
    return this.hosts.reduce((sum, { accepted }) => sum + accepted, 0);
  }

  /** The epoch that was seen last. */
  get epoch(): string {
    return this.seen.at(-1)?.epoch ?? '';
  }

  async enrol(): Promise<void> {
    for (const host of this.hosts) await host.enrol(AbortSignal.timeout(PATIENCE_MS));
  }

  /** Until `stop`. */
  run(): void {
    this.#stopping = new AbortController();
    const { signal } = this.#stopping;
    const loops = this.hosts.flatMap((host) => [
      this.#repeated(signal, BETWEEN_MS, () => this.#write(host, signal)),
      this.#repeated(signal, BETWEEN_MS, () => host.pull(signal, this.#random.chance(0.1))),
    ]);
    this.#running = Promise.all([...loops, this.#repeated(signal, OBSERVED_EVERY_MS, () => this.#observe(signal))]);
    // Met by `stop`.
    this.#running.catch(() => undefined);
  }

  /** Resolves when so many more items were accepted; rejects when that takes too long. */
  async goesOn(items: number): Promise<void> {
    const wanted = this.accepted + items;
    const accepted = await eventually(
      async () => this.accepted,
      (count) => count >= wanted,
    );
    if (accepted < wanted) throw new Error('nothing is accepted any more');
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** After `stop`: pushes what is to be pushed and pulls what waits, and answers everything that is wrong. */
  async end(): Promise<Fault[]> {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    let epochs = '';
    for (;;) {
      // The epoch comes with the answer to a push.
      for (const host of this.hosts) host.write(this.hosts.filter((one) => one !== host).map((one) => one.host));
      for (const host of this.hosts) await host.push(signal);
      for (const host of this.hosts) while ((await host.pull(signal)) > 0);
      await this.#observe(signal);
      const now = this.hosts.map(({ epoch }) => epoch).join();
      // Twice in one epoch: what a new one had to be pushed again was pushed, and what waited was pulled.
      if (this.hosts.every(({ isDone }) => isDone) || (epochs === now && this.hosts.every(({ isIdle }) => isIdle)))
        break;
      epochs = now;
    }
    return faultsOf(this.seen, { relayKey: relay.key, isDrained: true });
  }

  async #repeated(signal: AbortSignal, everyMs: number, work: () => Promise<unknown>): Promise<void> {
    while (!signal.aborted) {
      try {
        await work();
      } catch (error) {
        if (!(error instanceof GaveUp)) throw error;
      }
      await elapsed(everyMs);
    }
  }

  async #write(host: WatchedHost, signal: AbortSignal): Promise<void> {
    const others = this.hosts.filter((one) => one !== host).map((one) => one.host);
    const count = host.isIdle ? this.#random.below(WRITTEN_AT_ONCE_MAX) + 1 : 0;
    for (let at = 0; at < count; at++) host.write(this.#random.chance(0.3) ? others : [this.#random.pick(others)]);
    await host.push(signal);
  }

  /** A checkpoint, and the proof that it continues the one before. */
  async #observe(signal: AbortSignal): Promise<void> {
    const { answer: note, ...times } = await this.#front.ask((url) => got(`${url}/v2/relay/log/checkpoint`), signal);
    const epoch = /^poste\/[^/]+\/(.+)$/m.exec(note)?.[1] ?? '';
    this.seen.push({ type: 'checkpoint', client: 'observer', epoch, note, ...times });
    const before = this.#noted;
    const { size = 0 } = openCheckpoint(note, relay.key) ?? {};
    this.#noted = { note, epoch, size };
    if (before?.epoch !== epoch || before.size === 0 || before.size >= size) return;
    const target = `/v2/relay/log/consistency?epoch=${epoch}&from=${before.size}&to=${size}`;
    const asked = await this.#front.ask((url) => got(`${url}${target}`).catch(refusedSizes), signal);
    const { answer: text, ...asking } = asked;
    if (text === undefined) return;
    const proof: unknown = JSON.parse(text);
    this.seen.push({ type: 'growth', client: 'observer', epoch, proof, older: before.note, newer: note, ...asking });
  }
}

class NotFound extends Error {}

async function got(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  const text = await response.text();
  if (response.status === 400 || response.status === 404) throw new NotFound(text);
  if (!response.ok) throw new Error(`answered ${response.status} ${text}`);
  return text;
}

/** A log that lost something never had that size. That it went back without a new epoch shows in its checkpoints. */
function refusedSizes(error: unknown): undefined {
  if (!(error instanceof NotFound)) throw error;
}
