/**
 * Days of a relay in a few seconds each: real requests over real sockets to a real store, under a clock and timers that
 * the test moves. Hosts enrol, push, pull, ack and change their keys; mail expires, the log is pruned, backups are
 * taken, and every day the newest one is restored and the store of every former schema is opened and used.
 */
import { readdirSync, statSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { RelayProblem } from '../../src/host/relay/relay-request.ts';
import type { RelayClient } from '../../src/host/relay/relay-client.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { SCHEMA_VERSION } from '../../src/relay/store/marks.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { verified } from '../support/audits.ts';
import { revokeOf } from '../support/commands.ts';
import { fixtureStore } from '../support/fixture-stores.ts';
import { type TestHost, hostNamed } from '../support/hosts.ts';
import { HttpRelay } from '../support/http-relay.ts';
import { itemTo } from '../support/mail.ts';
import { restored } from '../support/restores.ts';
import { rotationBody } from '../support/rotations.ts';
import { SeededRandom } from '../support/seeded-random.ts';

const HOUR_MS = 3_600_000;
const HOURS = 24;
const HOSTS = 6;
/** Its mail expires. */
const SLEEPER = HOSTS - 1;
const PUSHED_EACH = 3;
const ROTATES_EVERY_HOURS = 4;
const BACKUPS_KEPT = 2;
const KEPT_ASIDE = /^(?:log|position)\.replaced-/;
const OPTIONS = { limits: { retention_days: 0.5 }, logRetention: { keepMs: DAY_MS / 2, archiveFolder: undefined } };

/** A relay uses this, and it must not grow with its days. */
export interface Used {
  /** The number of this process; `undefined` where the system does not list them. */
  openFiles: number | undefined;
  timers: number;
  heapBytes: number;
  storeFiles: number;
  storeBytes: number;
  /** Whatever lies in its folder. */
  names: readonly string[];
  backups: number;
}

export interface Lived {
  requests: number;
  expired: number;
  pruned: number;
  restores: number;
  upgrades: number;
}

interface Host {
  no: number;
  keyNo: number;
  through: number;
  epoch: string;
}

export class Soak {
  readonly lived: Lived = { requests: 0, expired: 0, pruned: 0, restores: 0, upgrades: 0 };
  readonly #relay: HttpRelay;
  readonly #backups: string;
  readonly #random = new SeededRandom(1);
  readonly #hosts: Host[] = Array.from({ length: HOSTS }, (_, no) => ({ no, keyNo: 0, through: 0, epoch: '' }));
  #items = 0;
  #guests = 0;

  private constructor(relay: HttpRelay, backups: string) {
    this.#relay = relay;
    this.#backups = backups;
  }

  /** A relay in the first folder, which keeps its backups in the second. */
  static async begin(folder: string, backups: string): Promise<Soak> {
    const regular = { folder: backups, keep: BACKUPS_KEPT, everyMs: DAY_MS / 4 };
    const relay = new HttpRelay(folder, FIRST_ADAPTER, { ...OPTIONS, backups: regular });
    const soak = new Soak(relay, backups);
    await relay.start();
    for (const host of soak.#hosts) await soak.#enrol(host);
    return soak;
  }

  /** A day, with a restore and all upgrades at its end. What is used then is measured while the relay is stopped. */
  async day(): Promise<Used> {
    for (let hour = 0; hour < HOURS; hour++) {
      await this.#mail();
      await this.#guest();
      if (hour % ROTATES_EVERY_HOURS === 0) await this.#rotate(this.#hosts[this.#random.below(SLEEPER)]!);
      await this.#hourPasses();
    }
    await this.#restore();
    for (let schema = 1; schema <= SCHEMA_VERSION; schema++) await this.#upgrade(schema);
    await this.#relay.stop();
    const { findings } = await verified(this.#relay.folder);
    if (findings.length > 0) throw new Error(`the store does not verify: ${JSON.stringify(findings)}`);
    const used = await this.#used();
    if (this.#relay.errors.length > 0) throw new Error(JSON.stringify(this.#relay.errors));
    this.#relay.logged.length = 0;
    await this.#relay.start();
    return used;
  }

  end(): Promise<void> {
    return this.#relay.stopAtOnce();
  }

  /** Everybody writes to somebody, and all but one pull and ack everything. */
  async #mail(): Promise<void> {
    for (const host of this.#hosts) {
      const items = Array.from({ length: PUSHED_EACH }, () =>
        itemTo([keyOf(this.#random.pick(this.#hosts.filter((other) => other !== host)))], `soak-${this.#items++}`),
      );
      const { results } = await this.#asked(host, (client) => client.push(items));
      const refused = results.filter(({ status }) => status !== 'accepted');
      if (refused.length > 0) throw new Error(`not accepted: ${JSON.stringify(refused)}`);
    }
    for (const host of this.#hosts.slice(0, SLEEPER)) await this.#pull(host);
  }

  async #pull(host: Host): Promise<void> {
    for (let more = true; more; ) {
      const page = await this.#asked(host, (client) => client.pull({ after: host.through, epoch: host.epoch }));
      this.lived.expired += page.items.filter(({ kind }) => kind === 'expired').length;
      if (page.items.length > 0) {
        host.through = page.last_seq;
        await this.#asked(host, (client) => client.ack(host.epoch, host.through));
      }
      more = page.more;
    }
  }

  /** One that comes, gets mail, and is revoked. */
  async #guest(): Promise<void> {
    const guest = hostNamed(`soak-guest-${this.#guests++}`);
    const client = this.#relay.client(guest);
    await client.enrol();
    const [first] = this.#hosts as [Host];
    await this.#asked(first, (own) => own.push([itemTo([guest], `soak-${this.#items++}`)]));
    const { items } = await client.pull();
    if (items.length !== 1) throw new Error('a guest did not get its mail');
    const nowMs = this.#relay.clock.nowMs();
    await this.#relay.relay.engine.admissions.revokeHost(revokeOf(guest, { nowMs }));
    this.lived.requests += 3;
  }

  async #rotate(host: Host): Promise<void> {
    const [from, to] = [keyOf(host), keyOf({ ...host, keyNo: host.keyNo + 1 })];
    const { rotation } = rotationBody(from, to);
    const client = this.#relay.client(from);
    await client.rotate(rotation as unknown as Parameters<RelayClient['rotate']>[0]);
    this.lived.requests++;
    host.keyNo++;
    host.through = 0;
  }

  async #hourPasses(): Promise<void> {
    const { clock, timers, relay } = this.#relay;
    clock.move(HOUR_MS);
    timers.pass(HOUR_MS);
    // What the timers began has ended when nothing is left to write.
    await relay.engine.heartbeat(clock.nowMs());
  }

  /** As an operator does it: the newest backup takes the place of the store, and what was kept aside is removed. */
  async #restore(): Promise<void> {
    await this.#relay.stop();
    const [newest] = (await readdir(this.#backups)).toSorted().toReversed();
    if (newest === undefined) throw new Error('no backup was taken in a day');
    for (const { message, fields } of this.#relay.logged)
      if (message === 'old log records were pruned') this.lived.pruned += (fields as { records: number }).records;
    const { folder, clock } = this.#relay;
    const report = await restored(join(this.#backups, newest), folder, clock.nowMs());
    if (report.keptAside === null) throw new Error('the restore kept nothing aside');
    for (const name of await readdir(folder))
      if (KEPT_ASIDE.test(name)) await rm(join(folder, name), { recursive: true });
    await this.#relay.start();
    for (const host of this.#hosts) await this.#enrol(host);
    this.lived.restores++;
  }

  /** A store of that schema serves and takes mail. */
  async #upgrade(schema: number): Promise<void> {
    const { folder, header } = await fixtureStore(schema);
    const relay = new HttpRelay(folder, FIRST_ADAPTER, {});
    relay.clock.wallMs = header.created_at;
    await relay.start();
    try {
      const [here, there] = [hostNamed('soak-upgrade-here'), hostNamed('soak-upgrade-there')];
      await relay.enrol(here, there);
      const { results } = await relay.client(here).push([itemTo([there], 'soak-upgrade')]);
      const { items } = await relay.client(there).pull();
      if (results[0]?.status !== 'accepted' || items.length !== 1) throw new Error(`schema ${schema} does not serve`);
    } finally {
      await relay.stop();
    }
    const { findings } = await verified(folder);
    if (findings.length > 0) throw new Error(`schema ${schema} does not verify: ${JSON.stringify(findings)}`);
    await rm(folder, { recursive: true });
    this.lived.upgrades++;
  }

  async #enrol(host: Host): Promise<void> {
    const client = this.#relay.client(keyOf(host));
    await client.enrol();
    host.epoch = (await client.ownInfo()).epoch;
    host.through = 0;
    this.lived.requests += 2;
  }

  /** Asks in the name of the host; in a new epoch once more, as a host does. */
  async #asked<T>(host: Host, ask: (client: RelayClient) => Promise<T>): Promise<T> {
    this.lived.requests++;
    try {
      return await ask(this.#relay.client(keyOf(host)));
    } catch (error) {
      if (!(error instanceof RelayProblem) || error.code !== 'EPOCH_CHANGED') throw error;
      await this.#enrol(host);
      return ask(this.#relay.client(keyOf(host)));
    }
  }

  async #used(): Promise<Used> {
    const { folder, timers } = this.#relay;
    const level = join(folder, LEVEL_FOLDER);
    const files = await readdir(level);
    return {
      openFiles: openFiles(),
      timers: timers.count,
      heapBytes: heapBytes(),
      storeFiles: files.length,
      storeBytes: files.reduce((sum, name) => sum + statSync(join(level, name)).size, 0),
      names: (await readdir(folder)).toSorted(),
      backups: (await readdir(this.#backups)).length,
    };
  }
}

function keyOf({ no, keyNo }: Host): TestHost {
  return hostNamed(`soak-${no}-${keyNo}`);
}

function openFiles(): number | undefined {
  return process.platform === 'linux' ? readdirSync('/proc/self/fd').length : undefined;
}

/** After everything that nobody reaches has gone. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let time = 0; time < 3; time++) collect();
  return process.memoryUsage().heapUsed;
}
