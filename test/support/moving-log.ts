/**
 * A relay that is stopped, whose log moves by command into PostgreSQL and back, and what its hosts must find
 * afterwards.
 */
import assert from 'node:assert/strict';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { relayHere, runHere } from './command-run.ts';
import { alice, bob } from './hosts.ts';
import { itemTo } from './mail.ts';
import type { Ended } from './poste-process.ts';
import { clientOf } from './relay-command.ts';
import { temporaryFolder } from './temporary-folder.ts';

const IDS = ['one', 'two', 'three'];
const ITEMS = IDS.map((id) => itemTo([bob], id));

/** Hosts were told this of the mail. */
interface Told {
  epoch: string;
  seqs: unknown;
}

/** With mail that waits. */
export class StoppedRelay {
  readonly #storeDir: string;
  readonly #told: Told;

  /** In a folder that is not there yet. */
  static async make(storeDir: string): Promise<StoppedRelay> {
    // In the store folder, so that each copy has its own.
    const relay = await relayHere(storeDir, ['--position-file', join(storeDir, 'position')]);
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    const { results, epoch } = await clientOf(relay, alice).push(ITEMS);
    await relay.process.stop();
    return new StoppedRelay(storeDir, { epoch, seqs: results.map(({ targets }) => targets) });
  }

  private constructor(storeDir: string, told: Told) {
    this.#storeDir = storeDir;
    this.#told = told;
  }

  /** A copy of it, which goes with the test, and the database at `url` for its log. */
  async moving(url: string): Promise<MovingLog> {
    const storeDir = join(await temporaryFolder(), 'store');
    await cp(this.#storeDir, storeDir, { recursive: true });
    return new MovingLog(storeDir, url, this.#told);
  }
}

interface Found extends Told {
  /** The statuses of what was pushed again. */
  statuses: string[];
  /** The ids of what waits. */
  ids: string[];
}

export class MovingLog {
  readonly storeDir: string;
  readonly log: readonly string[];
  /** Before it moved. */
  readonly told: Told;

  constructor(storeDir: string, url: string, told: Told) {
    this.storeDir = storeDir;
    this.log = ['--log', url, '--durability', 'single'];
    this.told = told;
  }

  /** Returns the arguments of `poste relay cluster`. */
  args(command: string, ...more: string[]): string[] {
    return ['relay', 'cluster', command, ...this.log, '--store-dir', this.storeDir, ...more];
  }

  command(name: string, ...more: string[]): Promise<Ended> {
    return runHere(this.args(name, ...more));
  }

  /** Throws unless it serves from there, is as before for hosts, and serves nowhere else. */
  async servesAsBefore(where: 'store' | 'log'): Promise<void> {
    const keyed = [...this.log, '--key-file', join(this.storeDir, 'relay.key')];
    const refused = await runHere(['relay', 'serve', '--store-dir', this.storeDir, ...(where === 'log' ? [] : keyed)]);
    assert.equal(refused.code, 5, refused.stderr);
    assert.match(
      refused.stderr,
      where === 'log'
        ? /is a view of a log that is kept at/
        : /with a log of its own|the database of the log is empty|the log went to/,
    );
    const { statuses, ids, ...told } = await this.found(where);
    assert.deepEqual(told, this.told);
    assert.deepEqual({ statuses, ids }, { statuses: ['duplicate', 'duplicate', 'duplicate'], ids: IDS });
  }

  /** Returns what hosts find that push the mail again and pull what waits. */
  async found(where: 'store' | 'log'): Promise<Found> {
    const keyed = [...this.log, '--key-file', join(this.storeDir, 'relay.key')];
    const relay = await relayHere(this.storeDir, where === 'log' ? keyed : []);
    const { results, epoch } = await clientOf(relay, alice).push(ITEMS);
    const { items } = await clientOf(relay, bob).pull();
    await relay.process.stop();
    return {
      epoch,
      seqs: results.map(({ targets }) => targets),
      statuses: results.map(({ status }) => status),
      ids: items.map(({ item_id: id }) => id),
    };
  }
}
