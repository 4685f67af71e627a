/**
 * Two real relays on one log, and a host that pushes to whichever accepts: how long nothing is accepted when the relay
 * that leads is killed, and when it is stopped. Then one on an empty disk, which fills its view from the log.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { setTimeout as elapsed } from 'node:timers/promises';
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { steadyPort } from '../test/support/free-port.ts';
import type { PostgresServer } from '../test/support/postgres.ts';
import { BenchEngine, anyKey } from './engine.ts';
import { quantile } from './figures.ts';
import { RELAY_KEY } from './relay-process.ts';
import { ROOM } from './shared-load.ts';
import { sharedStore } from './shared-store.ts';
import { namedSigner, sealedEnvelope } from './work.ts';

const PROGRAM = new URL('../dist/cli/main.js', import.meta.url).pathname;
const ANSWERED_WITHIN_MS = 1_000;
const AGAIN_MS = 5;
const ENROLLED_AT_ONCE = 500;

interface Takeovers {
  primary: PostgresServer;
  standbyName: string;
  /** Enrolled before. */
  hosts: number;
  runs: number;
  /** Seconds. */
  leases: readonly number[];
}

class Node {
  readonly port: number;
  readonly folder: string;
  readonly #args: readonly string[];
  #child: ChildProcess;

  private constructor(folder: string, port: number, args: readonly string[]) {
    this.folder = folder;
    this.port = port;
    this.#args = args;
    this.#child = this.#started();
  }

  static async start(args: readonly string[]): Promise<Node> {
    return new Node(await mkdtemp(join(tmpdir(), 'poste-bench-')), await steadyPort(), args);
  }

  /** Resolves when it has ended. */
  async ends(signal: NodeJS.Signals): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill(signal);
    await exited;
  }

  startAgain(): void {
    this.#child = this.#started();
  }

  async remove(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.ends('SIGKILL');
    await rm(this.folder, { recursive: true });
  }

  async rssMb(): Promise<number> {
    const status = await readFile(`/proc/${this.#child.pid}/status`, 'latin1').catch(() => '');
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
  }

  /** 200 from one that leads and 503 from one that follows; `undefined` from one that does not listen. */
  async status(): Promise<number | undefined> {
    const asked = fetch(`http://127.0.0.1:${this.port}/v2/relay/info`, {
      signal: AbortSignal.timeout(ANSWERED_WITHIN_MS),
    });
    return asked.then(
      ({ status }) => status,
      () => undefined,
    );
  }

  #started(): ChildProcess {
    const place = ['--store-dir', this.folder, '--position-file', join(this.folder, 'position')];
    const flags = [...place, '--listen', `127.0.0.1:${this.port}`, '--admin-listen', 'off'];
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(process.execPath, [PROGRAM, 'relay', 'serve', ...flags, ...this.#args], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { PATH, HOME, NO_COLOR: '1', MAIL_RELAY_KEY: RELAY_KEY },
    });
    // Whatever ends the benchmark ends its relays.
    const end = (): void => void child.kill('SIGKILL');
    process.once('exit', end);
    child.once('exit', () => process.off('exit', end));
    return child;
  }
}

/** A host that pushes until somebody accepts. */
class Pusher {
  readonly #signer = namedSigner('pusher');
  /** Another one each time: its predecessor pushed at the same log. */
  readonly #name = randomUUID();
  #pushed = 0;

  async enrolAt(node: Node): Promise<void> {
    await this.#clientOf(node).enrol();
  }

  /** Resolves with the time when a node had accepted an item. */
  async acceptedBy(nodes: readonly Node[]): Promise<number> {
    const id = `item-${this.#pushed++}-of-${this.#name}`;
    const wire = sealedEnvelope(id, 1024).toString('base64');
    const item = {
      kind: 'envelope' as const,
      item_id: id,
      targets: [{ host_pubkey: this.#signer.publicKey, wire_b64: wire }],
    };
    for (let turn = 0; ; turn++) {
      const node = nodes[turn % nodes.length];
      if (node && (await this.#isAccepted(node, item))) return performance.now();
      await elapsed(AGAIN_MS);
    }
  }

  async #isAccepted(node: Node, item: Parameters<RelayClient['push']>[0][number]): Promise<boolean> {
    try {
      const { results } = await this.#clientOf(node).push([item]);
      return results[0]?.status === 'accepted' || results[0]?.status === 'duplicate';
    } catch {
      return false;
    }
  }

  #clientOf({ port }: Node): RelayClient {
    const options = { url: `http://127.0.0.1:${port}`, signer: this.#signer, hostName: 'pusher', nowMs: Date.now };
    return new RelayClient(options, namedSigner('relay').publicKey);
  }
}

export async function printTakeovers({ primary, standbyName, hosts, runs, leases }: Takeovers): Promise<void> {
  await primary.synchronousWith(standbyName);
  const { url, close, store } = await sharedStore(primary, 'standby');
  await enrolMany(await BenchEngine.start(ROOM, { store }), hosts);
  await close();
  for (const lease of leases) {
    const limits = ['--limits', JSON.stringify(ROOM), '--max-enrolments', '200000', '--pushes-per-minute', '1000000'];
    const log = ['--log', url, '--lease-seconds', String(lease), '--accept-settings', '--log-level', 'error'];
    const args = [...limits, ...log];
    const startedMs = performance.now();
    const pusher = new Pusher();
    const nodes = [await Node.start(args)];
    try {
      await until(nodes[0]!, 200);
      await pusher.enrolAt(nodes[0]!);
      await pusher.acceptedBy(nodes);
      console.log(
        `  on an empty disk, until it accepts: ${(performance.now() - startedMs).toFixed(0)} ms after its start`,
      );
      nodes.push(await Node.start(args));
      await until(nodes[1]!, 503);
      for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
        const took: number[] = [];
        for (let run = 0; run < runs; run++) took.push(await takeover(nodes, pusher, signal));
        const what = signal === 'SIGKILL' ? `lease ${lease} s, killed` : `lease ${lease} s, stopped`;
        const figures = took.map((ms) => ms.toFixed(0)).join(', ');
        console.log(
          `  ${what.padEnd(26)} until the next accept: median ${quantile(took, 0.5).toFixed(0)} ms, at most ${Math.max(...took).toFixed(0)} ms (${figures})`,
        );
      }
      const rss = await Promise.all(nodes.map((node) => node.rssMb()));
      console.log(`  resident memory: ${rss.map((mb) => mb.toFixed(0)).join(' and ')} MB`);
    } finally {
      for (const node of nodes) await node.remove();
    }
  }
}

/** From the signal to the next accepted item; then the one that ended follows. */
async function takeover(nodes: readonly Node[], pusher: Pusher, signal: NodeJS.Signals): Promise<number> {
  const statuses = await Promise.all(nodes.map((node) => node.status()));
  const leader = nodes[statuses.indexOf(200)];
  if (!leader) throw new Error('no relay leads');
  await pusher.acceptedBy([leader]);
  const beganMs = performance.now();
  const ended = leader.ends(signal);
  const acceptedMs = await pusher.acceptedBy(nodes.filter((node) => node !== leader));
  await ended;
  leader.startAgain();
  await until(leader, 503);
  return acceptedMs - beganMs;
}

async function enrolMany(relay: BenchEngine, hosts: number): Promise<void> {
  for (let from = 0; from < hosts; from += ENROLLED_AT_ONCE) {
    const keys = Array.from({ length: Math.min(ENROLLED_AT_ONCE, hosts - from) }, (_none, at) =>
      anyKey(`host-${from + at}`),
    );
    await Promise.all(keys.map((key) => relay.enrol(key)));
  }
  await relay.engine.close();
  relay.removeClosed();
}

/** A second more, so that one that follows has seen the log. */
async function until(node: Node, status: number): Promise<void> {
  while ((await node.status()) !== status) await elapsed(AGAIN_MS * 4);
  if (status === 503) await elapsed(ANSWERED_WITHIN_MS);
}
