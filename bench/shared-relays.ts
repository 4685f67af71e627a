/**
 * Two real relays on one log, and a host that pushes to whichever accepts: how long nothing is accepted when the relay
 * that leads is killed, and when it is stopped. Then one on an empty disk, which fills its view from the log.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as elapsed } from 'node:timers/promises';
import { RelayClient } from '../src/host/relay/relay-client.ts';
import { eventually } from '../test/support/eventually.ts';
import type { PostgresServer } from '../test/support/postgres.ts';
import { RelayNode, leaderOf } from '../test/support/relay-nodes.ts';
import { temporaryFolder } from '../test/support/temporary-folder.ts';
import { withOwnEnd } from '../test/support/test-end.ts';
import { BenchEngine, anyKeys } from './engine.ts';
import { RELAY_KEY, ROOM_ARGS, memoryMb } from './relay-process.ts';
import type { Figure } from './report.ts';
import { sharedStore } from './shared-store.ts';
import { namedSigner, sealedEnvelope } from './work.ts';

const AGAIN_MS = 5;
/** One that follows has seen the log then. */
const SEEN_MS = 1_000;

interface Takeovers {
  primary: PostgresServer;
  standbyName: string;
  /** Enrolled before. */
  hosts: number;
  runs: number;
  /** Seconds. */
  leases: readonly number[];
}

/** A host that pushes until somebody accepts. */
class Pusher {
  readonly #signer = namedSigner('pusher');
  /** Another one each time: its predecessor pushed at the same log. */
  readonly #name = randomUUID();
  #pushed = 0;

  async enrolAt(node: RelayNode): Promise<void> {
    await this.#clientOf(node).enrol();
  }

  /** Resolves with the time when a node had accepted an item. */
  async acceptedBy(nodes: readonly RelayNode[]): Promise<number> {
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

  async #isAccepted(node: RelayNode, item: Parameters<RelayClient['push']>[0][number]): Promise<boolean> {
    try {
      const { results } = await this.#clientOf(node).push([item]);
      return results[0]?.status === 'accepted' || results[0]?.status === 'duplicate';
    } catch {
      return false;
    }
  }

  #clientOf({ url }: RelayNode): RelayClient {
    const options = { url, signer: this.#signer, hostName: 'pusher', nowMs: Date.now };
    return new RelayClient(options, namedSigner('relay').publicKey);
  }
}

export async function takeovers({ primary, standbyName, hosts, runs, leases }: Takeovers): Promise<Figure[]> {
  await primary.synchronousWith(standbyName);
  const { url, close, store } = await sharedStore(primary, 'standby');
  const made = await BenchEngine.start({ store });
  await made.enrolAll(anyKeys(hosts, 'host'));
  await made.engine.close();
  made.removeClosed();
  await close();
  const figures: Figure[] = [];
  for (const lease of leases) {
    const log = ['--log', url, '--lease-seconds', String(lease), '--accept-settings', '--log-level', 'error'];
    const program = { args: [...ROOM_ARGS, ...log], environment: { MAIL_RELAY_KEY: RELAY_KEY } };
    figures.push(...(await withOwnEnd(() => ofLease(`lease ${lease} s`, program, runs))));
  }
  return figures;
}

async function ofLease(lease: string, program: RelayNode['program'], runs: number): Promise<Figure[]> {
  const folder = await temporaryFolder();
  const pusher = new Pusher();
  const startedMs = performance.now();
  const nodes = [await RelayNode.start(folder, 'one', program)];
  const [first] = nodes;
  await pusher.enrolAt(await leaderOf(nodes));
  await pusher.acceptedBy(nodes);
  const onEmptyMs = performance.now() - startedMs;
  const second = await RelayNode.start(folder, 'two', program);
  nodes.push(second);
  await follows(second);
  const figure = (name: string, unit: 'ms' | 'MB', values: number[]): Figure => {
    return { name: `${lease}, ${name}`, unit, better: 'less', values };
  };
  const figures = [figure('on an empty disk, from its start until it accepts', 'ms', [onEmptyMs])];
  for (const how of ['killed', 'stopped'] as const) {
    const took: number[] = [];
    for (let run = 0; run < runs; run++) took.push(await takeover(nodes, pusher, how));
    figures.push(figure(`${how}: until the next accept`, 'ms', took));
  }
  const rss = [first!, second].map(({ pid }) => memoryMb(pid, 'VmRSS'));
  return [...figures, figure('resident memory', 'MB', rss)];
}

/** From the signal to the next accepted item; then the one that ended follows. */
async function takeover(nodes: readonly RelayNode[], pusher: Pusher, how: 'killed' | 'stopped'): Promise<number> {
  const leader = await leaderOf(nodes);
  await pusher.acceptedBy([leader]);
  const beganMs = performance.now();
  const ended = how === 'killed' ? leader.kill() : leader.ended();
  if (how === 'stopped') leader.stop();
  const acceptedMs = await pusher.acceptedBy(nodes.filter((node) => node !== leader));
  await ended;
  leader.startAgain();
  await follows(leader);
  return acceptedMs - beganMs;
}

async function follows(node: RelayNode): Promise<void> {
  const isSo = await eventually(
    async () => (await node.answers()) && !(await node.leads()),
    (is) => is,
  );
  if (!isSo) throw new Error(`${node.name} does not follow:\n${node.stderr}`);
  await elapsed(SEEN_MS);
}
