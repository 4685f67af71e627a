/**
 * Two relays of one log on three PostgreSQL servers, all processes of their own, with a link between each relay and
 * each server, a supervisor that starts a relay again, and hosts that use whichever relay answers.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import { alice, bob, carol } from '../hosts.ts';
import type { PostgresLink } from '../postgres-link.ts';
import type { PostgresTrio } from '../postgres-trio.ts';
import { movableClock } from '../poste-process.ts';
import { RelayNode, leaderOf, supervise } from '../relay-nodes.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { atTestEnd } from '../test-end.ts';
import { Traffic } from './traffic.ts';
import { found } from '../found.ts';

const NODES = ['one', 'two'] as const;
export const LEASE_MS = 1_000;

/** Says whether the row of the log names the server that is asked. */
const LEAD_IS_HERE = `SELECT system_identifier = (SELECT system_identifier FROM pg_control_system())
  AND timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS is_here FROM relay_log`;

export interface WorldOptions {
  trio: PostgresTrio;
  random: SeededRandom;
  /** Programs of other builds, for the first and the second relay. */
  mains?: readonly (string | undefined)[];
  /** More arguments of `relay serve`. */
  args?: readonly string[];
  leaseMs?: number;
}

export class World {
  readonly trio: PostgresTrio;
  readonly random: SeededRandom;
  readonly nodes: readonly RelayNode[];
  readonly traffic: Traffic;
  readonly #links: ReadonlyMap<RelayNode, readonly PostgresLink[]>;
  readonly #folder: string;
  readonly #database: string;

  /** Everything ends with the test. The log lies in a database of its own. */
  static async begin({ trio, random, mains = [], args = [], leaseMs = LEASE_MS }: WorldOptions): Promise<World> {
    const folder = await temporaryFolder();
    const database = await trio.primary.newDatabase();
    const links = new Map<RelayNode, readonly PostgresLink[]>();
    for (const [at, name] of NODES.entries()) {
      const own = await Promise.all(trio.servers.map((server) => server.link()));
      const hosts = own.map(({ port }) => `127.0.0.1:${port}`).join(',');
      const log = ['--log', `postgres://postgres@${hosts}/${database}`, '--lease-seconds', String(leaseMs / 1000)];
      const main = mains[at];
      const environment = movableClock(clockFile(folder, name));
      const program = { args: [...log, ...args], environment, ...(main !== undefined && { main }) };
      links.set(await RelayNode.start(folder, name, program), own);
    }
    const nodes = [...links.keys()];
    supervise(nodes);
    const traffic = new Traffic(
      nodes.map(({ url }) => url),
      [alice, bob, carol],
      random,
    );
    atTestEnd(() => traffic.stop());
    await leaderOf(nodes);
    await traffic.enrol();
    return new World({ trio, random }, { folder, database, links, traffic });
  }

  private constructor({ trio, random }: Pick<WorldOptions, 'trio' | 'random'>, parts: Parts) {
    this.trio = trio;
    this.random = random;
    this.nodes = [...parts.links.keys()];
    this.traffic = parts.traffic;
    this.#folder = parts.folder;
    this.#database = parts.database;
    this.#links = parts.links;
  }

  /** Between this relay and each server. */
  links(node: RelayNode): readonly PostgresLink[] {
    return this.#links.get(node) ?? [];
  }

  leader(): Promise<RelayNode> {
    return leaderOf(this.nodes);
  }

  other(node: RelayNode): RelayNode {
    return found(
      this.nodes.find((one) => one !== node),
      'there are two nodes',
    );
  }

  /** The wall clock of this relay is ahead by so much, or behind, from now on. */
  async moveClock({ name }: RelayNode, aheadMs: number): Promise<void> {
    await writeFile(clockFile(this.#folder, name), String(aheadMs));
  }

  /** Everything works again, and a relay leads. */
  async heal(): Promise<void> {
    for (const node of this.nodes) {
      for (const link of this.links(node)) link.mend();
      await this.moveClock(node, 0);
      if (node.isRunning) node.pause(false);
      node.isHeldDown = false;
    }
    for (const server of this.trio.servers) await server.freeDisk();
    await this.trio.heal();
    const answer = await eventually(
      async () => (await Promise.all(this.nodes.map((node) => node.answers()))).every(Boolean),
      (do_) => do_,
    );
    if (!answer) throw new Error(`not both relays answer:\n${this.nodes.map(({ stderr }) => stderr).join('\n')}`);
    await leaderOf(this.nodes);
    await this.#leadIsOfPrimary();
  }

  /** A relay that lived through a promotion takes its lead anew; until it has, any other begins a new epoch. */
  async #leadIsOfPrimary(): Promise<void> {
    const isHere = await eventually(
      async () => (await this.trio.primary.query(LEAD_IS_HERE, [], this.#database))[0]?.['is_here'] === true,
      (is) => is,
    );
    if (!isHere) throw new Error(`the log says that it is led on another server than ${this.trio.primary.name}`);
  }
}

interface Parts {
  folder: string;
  /** The address of the log. */
  database: string;
  links: ReadonlyMap<RelayNode, readonly PostgresLink[]>;
  traffic: Traffic;
}

function clockFile(folder: string, name: string): string {
  return join(folder, `${name}.clock`);
}
