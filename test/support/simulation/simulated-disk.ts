/**
 * The disk of a relay: a database and the file of its position, with what each has written and what it has synced.
 *
 * As LevelDB promises it: batches come into its log in their order, each whole; a synced write has synced all before
 * it; after a crash some first part of what was not synced may be there. A batch can be read before its write is
 * confirmed. The position file keeps what was synced; of what was written since, each write may be there, in part, or
 * not at all.
 */
import { PositionFile, type PositionHandle } from '../../../src/relay/store/position.ts';
import type { Level } from '../../../src/relay/store/level.ts';
import { logKey } from '../../../src/relay/store/keys.ts';
import { recordsIn } from '../../../src/relay/store/record-run.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { SimulatedLevel } from './simulated-level.ts';
import type { SimulatedProcess, Simulator } from './simulator.ts';
import { type Change, SortedTable, latin1 } from './sorted-table.ts';

const POSITION_BYTES = 1024;
const LOG_PREFIX = latin1(logKey(1)).slice(0, 1);

/** A disk holds this when its machine is off. */
export interface DiskImage {
  table: SortedTable;
  position: Buffer;
  /** Log records that were pruned from this history, by LSN. */
  pruned: ReadonlyMap<number, Buffer>;
}

export interface DiskFaults {
  /** The disk is so many times slower than usual. */
  slowness: number;
  /** The fate of the next write: it is refused, and was written all the same or not. */
  failsNext: 'written' | 'unwritten' | undefined;
  /** Faults that the tests plant: a disk that says that it has synced and has not. */
  lies: boolean;
}

interface Unsynced {
  changes: readonly Change[];
}

export class SimulatedDisk {
  readonly faults: DiskFaults = { slowness: 1, failsNext: undefined, lies: false };
  readonly #simulator: Simulator;
  readonly #random: SeededRandom;
  #durable = new SortedTable();
  #position: Buffer = Buffer.alloc(POSITION_BYTES);
  #pruned: ReadonlyMap<number, Buffer> = new Map();
  /** In the order of the log. */
  #unsynced: Unsynced[] = [];
  #level: SimulatedLevel | undefined;
  #unsyncedPosition: { at: number; bytes: Buffer }[] = [];

  constructor(simulator: Simulator, random: SeededRandom) {
    this.#simulator = simulator;
    this.#random = random;
  }

  /** Returns what it would hold if the power went off at this moment, and everything on its way had come to nothing. */
  get image(): DiskImage {
    return { table: this.#durable.copy(), position: Buffer.from(this.#position), pruned: this.#pruned };
  }

  /** Another disk takes its place, while nobody uses it. */
  replace({ table, position, pruned }: DiskImage): void {
    this.#durable = table.copy();
    this.#position = Buffer.from(position);
    this.#pruned = pruned;
  }

  /** The process that used it has ended: what was not synced is there up to some batch, or not. */
  crash(): void {
    const kept = this.#unsynced.splice(0, this.#random.below(this.#unsynced.length + 1));
    for (const { changes } of kept) this.#keep(changes);
    this.#unsynced = [];
    for (const { at, bytes } of this.#unsyncedPosition.splice(0)) {
      const length = this.#random.pick([0, this.#random.below(bytes.length), bytes.length]);
      bytes.copy(this.#position, at, 0, length);
    }
    this.faults.failsNext = undefined;
  }

  open(owner: SimulatedProcess): { level: Level; position: PositionHandle } {
    const level = new SimulatedLevel({
      table: this.#durable.copy(),
      read: () => this.#simulator.elapsed(this.#readMs(), owner),
      write: (changes, sync) => this.#write(level, changes, sync, owner),
    });
    this.#level = level;
    return { level: level.asLevel(), position: this.#openPosition(owner) };
  }

  /** Alters wire bytes where they lie, as a disk does on which something rots; false where there are none. */
  rot(key: Buffer): boolean {
    const value = this.#durable.get(latin1(key));
    if (!value || value.length === 0) return false;
    const altered = Buffer.from(value);
    const at = this.#random.below(altered.length);
    altered[at] = altered[at]! ^ 0x01;
    for (const table of [this.#durable, this.#level?.table]) table?.apply([[latin1(key), altered]]);
    return true;
  }

  async #write(
    level: SimulatedLevel,
    changes: readonly Change[],
    sync: boolean,
    owner: SimulatedProcess,
  ): Promise<void> {
    if (!owner.isAlive) return this.#simulator.elapsed(0, owner);
    const fails = this.faults.failsNext;
    this.faults.failsNext = undefined;
    if (fails === 'unwritten') {
      await this.#simulator.elapsed(this.#syncMs(), owner);
      throw new Error('EIO');
    }
    const record = { changes };
    this.#unsynced.push(record);
    await this.#simulator.elapsed(sync ? this.#syncMs() : this.#readMs(), owner);
    level.table.apply(changes);
    if (sync && !this.faults.lies) this.#syncThrough(record);
    // Readers see it, and its writer does not know yet.
    await this.#simulator.elapsed(this.#readMs(), owner);
    if (fails === 'written') throw new Error('EIO');
  }

  #syncThrough(record: Unsynced): void {
    const synced = this.#unsynced.splice(0, this.#unsynced.indexOf(record) + 1);
    for (const { changes } of synced) this.#keep(changes);
  }

  #keep(changes: readonly Change[]): void {
    const gone = changes.filter(([key, value]) => value === undefined && key.startsWith(LOG_PREFIX));
    if (gone.length > 0) {
      const pruned = new Map(this.#pruned);
      for (const [key] of gone) {
        const value = this.#durable.get(key);
        for (const [lsn, record] of value ? recordsIn([Buffer.from(key, 'latin1'), value]) : [])
          pruned.set(lsn, record);
      }
      this.#pruned = pruned;
    }
    this.#durable.apply(changes);
  }

  #openPosition(owner: SimulatedProcess): PositionHandle {
    const seen = Buffer.from(this.#position);
    return {
      read: async (into, offset, length, position) => {
        await this.#simulator.elapsed(this.#readMs(), owner);
        seen.copy(into, offset, position, position + length);
      },
      write: async (from, offset, length, position) => {
        if (!owner.isAlive) await this.#simulator.elapsed(0, owner);
        const bytes = Buffer.from(from.subarray(offset, offset + length));
        bytes.copy(seen, position);
        this.#unsyncedPosition.push({ at: position, bytes });
        await this.#simulator.elapsed(this.#readMs(), owner);
        return { bytesWritten: length };
      },
      datasync: async () => {
        await this.#simulator.elapsed(this.#syncMs(), owner);
        if (this.faults.lies) return;
        for (const { at, bytes } of this.#unsyncedPosition.splice(0)) bytes.copy(this.#position, at);
      },
      close: () => this.#simulator.elapsed(0, owner),
    };
  }

  #readMs(): number {
    return this.#random.unit() * 0.2 * this.faults.slowness;
  }

  #syncMs(): number {
    return (0.5 + this.#random.unit() * 5) * this.faults.slowness;
  }
}

/** The LSN that the position on a disk names; 0 where it names none. */
export async function lsnInPosition({ position: bytes }: DiskImage): Promise<number> {
  const { position } = await PositionFile.over({
    read: async (into, offset, length, at) => bytes.copy(into, offset, at, at + length),
    write: onlyRead,
    datasync: onlyRead,
    close: async () => undefined,
  });
  return position?.lsn ?? 0;
}

function onlyRead(): Promise<never> {
  return Promise.reject(new Error('invariant: the position is only read'));
}
