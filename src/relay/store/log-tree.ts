/**
 * The Merkle trees over the log, one for each epoch (RFC 6962; protocol/merkle.ts).
 *
 * Leaf 0 links to the tree of the epoch before; leaf n is the record at `firstLsn` + n − 1, its bytes as stored. The
 * record that begins an epoch is the first of its tree and not the last of the one before.
 *
 * Invariants:
 *   - what is read here is durable: `Growth` is made beside it, written with the records it hashes, and taken over
 *     (`grown`) when that batch is durable;
 *   - full tiles are stored; the tiles on the right edge are in memory, and are made again at open from the records
 *     behind the last full one, which therefore stay (`prunableThrough`);
 *   - when an epoch ends, the tiles of its right edge are stored too: they will never be full, and so no tree of an
 *     earlier epoch needs its records.
 *
 * A tile (of c2sp.org/tlog-tiles) and a first leaf are checked values (checksum.ts): a flipped bit in a hash would make
 * the relay sign a tree that is not the one it signed before. DO NOT CHANGE: add a prefix (keys.ts). In a tile the nth
 * hash, of 32 bytes, is that of the subtree of 256^level leaves from leaf (index × 256 + n) × 256^level on; there are
 * 256 of them, and fewer in the last tile of a level of an epoch that ended. A first leaf is its bytes (log-link.ts).
 */
import type { Epoch } from '../../protocol/names.ts';
import { type LogLink, logLinkBytes, parseLogLink } from '../../protocol/log-link.ts';
import { HASH_BYTES, type HashReader, leafHash, perfectHash, rootHash } from '../../protocol/merkle.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { LogEntry, RelayEvent } from '../core/event.ts';
import { encodeChecked, decodeChecked } from './checksum.ts';
import { PREFIX, logLinkKey, lsnOf, prefixRange, tileIndexOf, tileKey } from './keys.ts';
import type { Level } from './level.ts';
import { DamagedRecord, decodeRecord } from './record.ts';
import { storedRecords } from './record-run.ts';
import { TILE_HASHES, TileNodes, type TileReader } from './tile-nodes.ts';

/** Tiles that a log without a tree gets in one batch while one is made for it: 1 MiB of them. */
const MADE_AT_ONCE = 128;

/** One tree at one size, durable. It stays what it is while the log grows. */
export interface TreeView {
  epoch: Epoch;
  /** Leaf n is the record at `firstLsn` + n − 1. */
  firstLsn: number;
  /** Leaves: the link and the records. */
  size: number;
  /** Leaf 0. Throws `DamagedRecord`, as `read` does. */
  link: () => Buffer;
  read: HashReader;
}

/** A tree, as its first leaf says. */
export interface TreeStart {
  epoch: Epoch;
  firstLsn: number;
  relayPubkey: PublicKey;
}

export class LogTree {
  readonly #level: Level;
  /** In order of their epochs; empty in a store that is not initialised. */
  #starts: readonly TreeStart[];
  /** The edge of the last tree. Replaced, never changed. */
  #edge: TreeEdge;
  readonly #nodes = new TileNodes();

  private constructor(level: Level, starts: readonly TreeStart[], edge: TreeEdge) {
    this.#level = level;
    this.#starts = starts;
    this.#edge = edge;
  }

  /** The trees over a log of `lastLsn` records. A log that has none yet gets them. Throws `DamagedRecord`. */
  static async open(level: Level, lastLsn: number): Promise<LogTree> {
    const starts = await treeStarts(level);
    const last = starts.at(-1);
    const tree = new LogTree(level, starts, last ? await storedEdge(level, last.firstLsn) : new TreeEdge());
    await tree.#catchUp(lastLsn);
    return tree;
  }

  /**
   * Returns what the next records make of the trees, or those behind `before`. Nothing is seen of it before `grown`.
   */
  grow(before?: Growth): Growth {
    return before ? before.next() : new Growth(this.#starts.at(-1), this.#edge.copy());
  }

  /** Takes over what is durable now. */
  grown(growth: Growth): void {
    this.#edge = growth.edge;
    if (growth.starts.length > 0) this.#starts = [...this.#starts, ...growth.starts];
  }

  /** The tree of the current epoch, or of the one that is named. */
  view(epoch?: string): TreeView | undefined {
    const at = epoch === undefined ? this.#starts.length - 1 : this.#starts.findIndex((start) => start.epoch === epoch);
    return this.#viewAt(at);
  }

  /** The tree that holds the record at `lsn`; `undefined` when that is not durable. */
  viewOf(lsn: number): TreeView | undefined {
    const view = this.#viewAt(this.#starts.findLastIndex(({ firstLsn }) => firstLsn <= lsn));
    return view && leafIndex(view, lsn) < view.size ? view : undefined;
  }

  /** The first leaves of the newest trees, in order. */
  newest(count: number): readonly TreeStart[] {
    return this.#starts.slice(-count);
  }

  /** Records up to here may be deleted: every tree stands without them. */
  get prunableThrough(): number {
    const last = this.#starts.at(-1);
    if (!last) return 0;
    const inFullTiles = Math.floor(this.#edge.size / TILE_HASHES) * TILE_HASHES;
    return Math.max(last.firstLsn - 1, last.firstLsn + inFullTiles - 2);
  }

  #viewAt(at: number): TreeView | undefined {
    const start = this.#starts[at];
    if (!start) return undefined;
    const { epoch, firstLsn } = start;
    const next = this.#starts[at + 1];
    const edge = next ? undefined : this.#edge;
    const size = next ? next.firstLsn - firstLsn + 1 : this.#edge.size;
    const checked = (key: Buffer): Buffer => decodeTreePart(key, this.#level.getSync(key));
    const hashesOf: TileReader = (level, index) =>
      edge?.hashesOf(level, index) ?? checked(tileKey(firstLsn, level, index));
    return {
      epoch,
      firstLsn,
      size,
      link: () => checked(logLinkKey(firstLsn)),
      read: (level, index) => this.#nodes.hash(firstLsn, level, index, hashesOf),
    };
  }

  /** Hashes the records that no stored tile holds: fewer than a tile's, unless the log had no tree. */
  async #catchUp(lastLsn: number): Promise<void> {
    const last = this.#starts.at(-1);
    const fromLsn = last ? last.firstLsn + this.#edge.size - 1 : 1;
    if (fromLsn > lastLsn + 1) throw new DamagedRecord('the hash tree goes beyond the log');
    let growth = this.grow();
    for await (const [lsn, record] of storedRecords(this.#level, fromLsn, lastLsn)) {
      growth.add(decodeRecord(lsn, record), record);
      if (growth.writes.length >= MADE_AT_ONCE) {
        await this.#make(growth);
        growth = this.grow();
      }
    }
    await this.#make(growth);
  }

  async #make(growth: Growth): Promise<void> {
    if (growth.writes.length > 0) {
      const batch = this.#level.batch();
      for (const [key, value] of growth.writes) batch.put(key, value);
      await batch.write({ sync: true });
    }
    this.grown(growth);
  }
}

/** Holds what records add to the trees, before they are durable. */
export class Growth {
  readonly writes: [key: Buffer, value: Buffer][] = [];
  readonly starts: TreeStart[] = [];
  edge: TreeEdge;
  #last: TreeStart | undefined;

  constructor(last: TreeStart | undefined, edge: TreeEdge) {
    this.#last = last;
    this.edge = edge;
  }

  /** Returns what the records behind these make of the trees. Nothing is added to this one any more. */
  next(): Growth {
    return new Growth(this.#last, this.edge.copy());
  }

  /** `leaf` is the hash of the record. */
  add({ lsn, event }: LogEntry, record: Buffer, leaf: Buffer = leafHash(record)): void {
    // At open, the tree that a record began is there before the record is read again.
    if (lsn !== this.#last?.firstLsn) this.#beginWith(event, lsn);
    this.addHash(leaf);
  }

  /** Begins a tree whose first record was pruned. */
  beginPruned(start: TreeStart): void {
    if (this.#last) this.#beginAfter(this.#last, start.epoch, start.firstLsn);
    else this.#begin(start, null);
  }

  /** Adds a leaf by its hash, as of a record that was pruned. */
  addHash(hash: Buffer): void {
    for (const tile of this.edge.add(hash)) this.#put(this.#current(), tile);
  }

  /** Begins a tree when the event does. */
  #beginWith(event: RelayEvent, firstLsn: number): void {
    if (event.type === 'RelayInitialised') {
      const { epoch, relayPubkey } = event;
      this.#begin({ epoch, firstLsn, relayPubkey }, null);
    } else if (event.type === 'EpochRotated') {
      this.#beginAfter(this.#current(), event.epoch, firstLsn);
    }
  }

  /** Begins a tree after the one of the epoch before, which ends. */
  #beginAfter(last: TreeStart, epoch: Epoch, firstLsn: number): void {
    const root_hash = this.edge.root().toString('hex') as Sha256Hex;
    const previous = { epoch: last.epoch, size: this.edge.size, root_hash };
    for (const tile of this.edge.begun()) this.#put(last, tile);
    this.#begin({ epoch, firstLsn, relayPubkey: last.relayPubkey }, previous);
  }

  #begin(start: TreeStart, previous: LogLink['previous']): void {
    const { epoch, firstLsn, relayPubkey } = start;
    this.#last = start;
    this.starts.push(start);
    this.edge = new TreeEdge();
    const [key, link] = [logLinkKey(firstLsn), logLinkBytes({ relay_pubkey: relayPubkey, epoch, previous })];
    this.writes.push([key, encodeChecked(key, link)]);
    this.addHash(leafHash(link));
  }

  #put({ firstLsn }: TreeStart, { level, index, hashes }: Tile): void {
    const key = tileKey(firstLsn, level, index);
    this.writes.push([key, encodeChecked(key, hashes)]);
  }

  #current(): TreeStart {
    if (!this.#last) throw new Error('invariant: the first record of a store begins an epoch');
    return this.#last;
  }
}

/** The trees that the store has a first leaf of, in order. Throws `DamagedRecord`. */
export async function treeStarts(level: Level): Promise<TreeStart[]> {
  const starts: TreeStart[] = [];
  for await (const [key, value] of level.iterator(prefixRange(PREFIX.logLink))) {
    const link = parseLogLink(decodeTreePart(key, value));
    if (!link) throw new DamagedRecord('a part of the hash tree is of no known form');
    starts.push({ epoch: link.epoch, firstLsn: lsnOf(key), relayPubkey: link.relay_pubkey });
  }
  return starts;
}

/**
 * The hashes of the records from `fromLsn` to `throughLsn`, out of the tiles of these trees; `undefined` where no tile
 * has one. Throws `DamagedRecord`.
 */
export async function* storedLeafHashes(
  level: Level,
  starts: readonly Pick<TreeStart, 'firstLsn'>[],
  fromLsn: number,
  throughLsn: number,
): AsyncGenerator<Buffer | undefined> {
  let tile: Buffer | undefined;
  for (let lsn = fromLsn; lsn <= throughLsn; lsn++) {
    const start = starts.findLast(({ firstLsn }) => firstLsn <= lsn);
    const index = start ? leafIndex(start, lsn) : 0;
    const at = (index % TILE_HASHES) * HASH_BYTES;
    if (start && (at === 0 || lsn === fromLsn || lsn === start.firstLsn)) {
      const key = tileKey(start.firstLsn, 0, Math.floor(index / TILE_HASHES));
      const value = await level.get(key);
      tile = value && decodeTreePart(key, value);
    }
    const hash = tile?.subarray(at, at + HASH_BYTES);
    yield hash?.length === HASH_BYTES ? hash : undefined;
  }
}

/** Returns where the record at `lsn` stands among the leaves. */
export function leafIndex({ firstLsn }: Pick<TreeView, 'firstLsn'>, lsn: number): number {
  return lsn - firstLsn + 1;
}

/** The edge behind the stored tiles of a tree that has not ended: the records behind them are not in it. */
async function storedEdge(level: Level, firstLsn: number): Promise<TreeEdge> {
  const link = logLinkKey(firstLsn);
  const hashes: Buffer[][] = [];
  let below = 0;
  for (let tileLevel = 0; ; tileLevel++) {
    const full = await fullTiles(level, firstLsn, tileLevel);
    if (tileLevel > 0 && full !== Math.floor(below / TILE_HASHES))
      throw new DamagedRecord('a part of the hash tree is missing');
    const ofLevel: Buffer[] = [];
    for (let index = full * TILE_HASHES; index < below; index++) {
      const key = tileKey(firstLsn, tileLevel - 1, index);
      ofLevel.push(perfectHash(decodeTreePart(key, await level.get(key))));
    }
    hashes.push(ofLevel);
    if (full === 0) break;
    below = full;
  }
  const edge = new TreeEdge(hashes);
  if (edge.size === 0) edge.add(leafHash(decodeTreePart(link, await level.get(link))));
  return edge;
}

async function fullTiles(level: Level, firstLsn: number, tileLevel: number): Promise<number> {
  const range = { gte: tileKey(firstLsn, tileLevel, 0), lt: tileKey(firstLsn, tileLevel + 1, 0) };
  const [last] = await level.keys({ ...range, reverse: true, limit: 1 }).all();
  return last ? tileIndexOf(last) + 1 : 0;
}

interface Tile {
  level: number;
  index: number;
  hashes: Buffer;
}

/** Throws `DamagedRecord` for bytes that were not written under this key. */
function decodeTreePart(key: Buffer, value: Buffer | undefined): Buffer {
  return decodeChecked(key, value, 'a part of the hash tree');
}

/**
 * The right edge of a growing tree: at each level of tiles, the hashes of the tile that is not full yet.
 *
 * A tree needs no more to grow and to compute its root: at most 255 hashes a level, whatever its size. Pure.
 */
export class TreeEdge {
  /** By level. */
  readonly #hashes: Buffer[][];
  #size: number;

  /** Takes stored tiles: for each level the hashes that no full tile of that level holds. */
  constructor(hashes: readonly (readonly Buffer[])[] = []) {
    this.#hashes = hashes.map((level) => [...level]);
    this.#size = hashes.reduce((size, level, at) => size + level.length * TILE_HASHES ** at, 0);
  }

  /** Leaves of the whole tree. */
  get size(): number {
    return this.#size;
  }

  copy(): TreeEdge {
    return new TreeEdge(this.#hashes);
  }

  /** Adds a leaf by its hash. Answers the tiles that it fills. */
  add(leaf: Buffer): Tile[] {
    const filled: Tile[] = [];
    let hash = leaf;
    this.#size++;
    for (let level = 0; ; level++) {
      const hashes = (this.#hashes[level] ??= []);
      hashes.push(hash);
      if (hashes.length < TILE_HASHES) return filled;
      const tile = { level, index: this.#fullTiles(level) - 1, hashes: Buffer.concat(hashes) };
      filled.push(tile);
      this.#hashes[level] = [];
      hash = perfectHash(tile.hashes);
    }
  }

  /** The tiles that are begun and not full. */
  begun(): Tile[] {
    return this.#hashes.flatMap((hashes, level) =>
      hashes.length === 0 ? [] : [{ level, index: this.#fullTiles(level), hashes: Buffer.concat(hashes) }],
    );
  }

  /** The hashes of a tile that is begun and not full; `undefined` of any other. */
  hashesOf(level: number, index: number): Buffer | undefined {
    return index === this.#fullTiles(level) ? Buffer.concat(this.#hashes[level] ?? []) : undefined;
  }

  root(): Buffer {
    const nodes = new TileNodes();
    const hashesOf: TileReader = (level, index) => {
      const hashes = this.hashesOf(level, index);
      if (!hashes) throw new Error('invariant: the root is made of the edge alone');
      return hashes;
    };
    return rootHash(this.#size, (level, index) => nodes.hash(0, level, index, hashesOf));
  }

  #fullTiles(level: number): number {
    return Math.floor(this.#size / TILE_HASHES ** (level + 1));
  }
}
