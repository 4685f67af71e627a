/** A relay of the world of mail: one process on a store of its own, or two on a log in PostgreSQL. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { KilledRelay } from '../killed-relay.ts';
import { type PostgresServer, startPostgres } from '../postgres.ts';
import { movableClock, type ProcessOptions } from '../poste-process.ts';
import { RelayNode, leaderOf, supervise } from '../relay-nodes.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { atTestEnd } from '../test-end.ts';

const LOOKED_EVERY_MS = 50;
const LEASE_MS = 1000;
const POSTMASTER_AWAY_MAX_MS = 1500;

type Fault = () => Promise<string | undefined>;

export interface TortureRelay {
  /** The port at which hosts reach it now. */
  readonly port: number;
  /** The faults that it can have; each answers what it did, or nothing when there was nothing to do. */
  readonly faults: Readonly<Record<string, Fault>>;
  setClock(aheadMs: number): Promise<void>;
  /** Its clock cannot be moved: a world in which time has passed is of no use afterwards. */
  readonly hasFixedClock: boolean;
  /** A run begins: what was kept for a restore is of the one before. */
  begins(): void;
  /** It does not run until it heals. */
  goDown(): Promise<void>;
  /** It runs and takes mail. */
  heal(): Promise<void>;
}

export class SoloRelay implements TortureRelay {
  readonly hasFixedClock = false;
  readonly #relay: KilledRelay;
  readonly #folder: string;
  #skewMs = 0;
  #aheadMs = 0;
  #isUp = true;
  #backup: string | undefined;
  #backups = 0;

  static async begin(random: SeededRandom, program: ProcessOptions = {}): Promise<SoloRelay> {
    const folder = await temporaryFolder();
    const disk = ['--disk-floor', '0'];
    const environment = movableClock(join(folder, 'relay.clock'));
    return new SoloRelay(await KilledRelay.begin(disk, environment, program), folder, random);
  }

  readonly faults: Readonly<Record<string, Fault>>;

  private constructor(relay: KilledRelay, folder: string, random: SeededRandom) {
    this.#relay = relay;
    this.#folder = folder;
    this.faults = {
      'the relay is killed': async () => {
        if (!this.#isUp) return undefined;
        await relay.kill();
        this.#isUp = false;
        if (random.chance(0.3)) return 'and stays down';
        await this.#comeUp();
        return '';
      },
      'the relay comes again': async () => {
        if (this.#isUp) return undefined;
        await this.#comeUp();
        return '';
      },
      'the relay is backed up': async () => {
        if (!this.#isUp) return undefined;
        const file = join(folder, `relay-${this.#backups++}.backup`);
        await relay.command('backup', file);
        this.#backup = file;
        return '';
      },
      'the relay is restored': async () => {
        if (this.#backup === undefined) return undefined;
        await relay.kill();
        await relay.command('restore', this.#backup, '--yes');
        await this.#comeUp();
        return '';
      },
      'a new epoch': async () => {
        if (!this.#isUp) return undefined;
        await relay.command('rotate-epoch');
        return '';
      },
      'the clock of the relay is off': async () => {
        this.#skewMs = random.below(240_000) - 120_000;
        await this.setClock(this.#aheadMs);
        return String(this.#skewMs);
      },
    };
  }

  get port(): number {
    return this.#relay.port;
  }

  async setClock(aheadMs: number): Promise<void> {
    this.#aheadMs = aheadMs;
    await writeFile(join(this.#folder, 'relay.clock'), String(aheadMs + this.#skewMs));
  }

  begins(): void {
    this.#backup = undefined;
  }

  async goDown(): Promise<void> {
    if (this.#isUp) await this.#relay.kill();
    this.#isUp = false;
  }

  async heal(): Promise<void> {
    this.#skewMs = 0;
    await this.setClock(this.#aheadMs);
    if (!this.#isUp) await this.#comeUp();
  }

  async #comeUp(): Promise<void> {
    await this.#relay.beginAgain();
    this.#isUp = true;
  }
}

export class SharedRelay implements TortureRelay {
  /** A relay whose clock differs from that of the server of its log does not lead. */
  readonly hasFixedClock = true;
  readonly #nodes: readonly RelayNode[];
  readonly #postgres: PostgresServer;
  #leader: RelayNode;
  readonly faults: Readonly<Record<string, Fault>>;

  /** `program` is the file of `postgres`. */
  static async begin(program: string, random: SeededRandom): Promise<SharedRelay> {
    const folder = await temporaryFolder();
    const { primary, end } = await startPostgres(program);
    atTestEnd(end);
    const database = await primary.newDatabase();
    // One server, which is killed and comes again with what it had.
    const log = ['--log', primary.url(database), '--durability', 'single', '--lease-seconds', String(LEASE_MS / 1000)];
    const nodes = await Promise.all(['first', 'second'].map((name) => RelayNode.start(folder, name, { args: log })));
    supervise(nodes);
    const relay = new SharedRelay({ nodes, postgres: primary, leader: await leaderOf(nodes) }, random);
    relay.#watch();
    return relay;
  }

  private constructor(
    parts: { nodes: readonly RelayNode[]; postgres: PostgresServer; leader: RelayNode },
    random: SeededRandom,
  ) {
    const { nodes, postgres } = parts;
    this.#nodes = nodes;
    this.#postgres = postgres;
    this.#leader = parts.leader;
    this.faults = {
      'the relay that leads is killed': async () => {
        await this.#leader.kill();
        return '';
      },
      'both relays are killed': async () => {
        await Promise.all(nodes.map((node) => node.kill()));
        return '';
      },
      'the relay that leads is paused for a moment': async () => {
        const leader = this.#leader;
        if (!leader.isRunning) return undefined;
        leader.pause(true);
        await elapsed(random.below(2 * LEASE_MS));
        leader.pause(false);
        return '';
      },
      'the postmaster is killed': async () => {
        await postgres.kill();
        await elapsed(random.below(POSTMASTER_AWAY_MAX_MS));
        await postgres.start();
        return '';
      },
    };
  }

  get port(): number {
    return this.#leader.port;
  }

  setClock(): Promise<void> {
    return Promise.resolve();
  }

  begins(): void {
    // It has no backup of its own: the log's are tried in test/postgres.
  }

  goDown(): Promise<void> {
    return this.#postgres.kill();
  }

  async heal(): Promise<void> {
    if (!this.#postgres.isRunning) await this.#postgres.start();
    this.#leader = await leaderOf(this.#nodes);
  }

  /** Follows who leads, as a load balancer does. */
  #watch(): void {
    const stopping = new AbortController();
    const watching = (async () => {
      while (!stopping.signal.aborted) {
        for (const node of this.#nodes) if (await node.leads()) this.#leader = node;
        await elapsed(LOOKED_EVERY_MS);
      }
    })();
    atTestEnd(async () => {
      stopping.abort();
      await watching;
    });
  }
}
