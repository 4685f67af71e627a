/**
 * One byte of a small store altered, and what comes of it: found (opening refuses it, or verify tells of it, or the
 * relay doubts it at its start), or harmless (everything that the store holds is what it was), or neither.
 */
import { cp, mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { signerFromSeed } from '../../src/protocol/ed25519.ts';
import { verify } from '../../src/relay/replay/verify.ts';
import { Engine } from '../../src/relay/engine/engine.ts';
import { openOffline } from '../../src/relay/replay/offline.ts';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { StoreRefused } from '../../src/relay/store/refused.ts';
import { RELAY_KEY_FILE, relaySigner } from '../../src/relay/store/relay-key.ts';
import { resultOf } from './audits.ts';
import { rotateEpochOf } from './commands.ts';
import { epochNumbered, epochSource } from './epochs.ts';
import { liveBriefly } from './life.ts';
import { settingsWith } from './settings.ts';
import { TestClock } from './test-clock.ts';

/** The stores hold this at most, their files together. */
export const SMALL_STORE_BYTES = 16 << 10;

/** The places in which LevelDB keeps what was written: still in its write-ahead log, or in a table file. */
export const WRITTEN = ['in the write-ahead log', 'in a table file', 'in a table file, its log pruned'] as const;
export type Written = (typeof WRITTEN)[number];

export interface Place {
  /** Relative to the store folder. */
  file: string;
  offset: number;
}

export type Outcome = 'refused' | 'found by verify' | 'doubted at the start' | 'harmless' | 'neither';

export class FlippedStore {
  readonly #original: string;
  readonly #copy: string;
  readonly #clock: TestClock;
  readonly #contents: string;
  readonly places: readonly Place[];

  private constructor(folder: string, clock: TestClock, contents: string, places: readonly Place[]) {
    this.#original = join(folder, 'original');
    this.#copy = join(folder, 'copy');
    this.#clock = clock;
    this.#contents = contents;
    this.places = places;
  }

  /** A store that lived, in a folder of the caller's. */
  static async make(folder: string, written: Written): Promise<FlippedStore> {
    const original = join(folder, 'original');
    await mkdir(original);
    const clock = new TestClock();
    const seed = Buffer.alloc(32, 1);
    await writeFile(join(original, RELAY_KEY_FILE), `${seed.toString('base64')}\n`, { mode: 0o600 });
    const opened = await openStore({ folder: original, nowMs: clock.nowMs, newEpoch: epochSource() });
    const { store } = opened;
    const engine = await Engine.start(
      { store, settings: settingsWith(), signer: signerFromSeed(seed), monotonicMs: () => 0, onStoreFailed: rethrow },
      clock.nowMs,
    );
    await liveBriefly(engine, clock);
    if (written === 'in a table file, its log pruned') await pruneOnce(engine, clock);
    await engine.close();
    await store.close();
    // LevelDB moves its write-ahead log into a table when it is opened again.
    if (written !== 'in the write-ahead log') await (await openOffline(original)).close();
    const places = await placesOf(original);
    if (places.length > SMALL_STORE_BYTES) throw new Error(`the store has ${places.length} bytes`);
    const copy = join(folder, 'copy');
    await cp(original, copy, { recursive: true });
    // Reading moves the write-ahead log, too.
    return new FlippedStore(folder, clock, await contentsOf(copy), places);
  }

  async flip({ file, offset }: Place): Promise<Outcome> {
    await rm(this.#copy, { recursive: true, force: true });
    await cp(this.#original, this.#copy, { recursive: true });
    const path = join(this.#copy, file);
    const bytes = await readFile(path);
    bytes.writeUInt8(bytes.readUInt8(offset) ^ (1 << (offset % 8)), offset);
    await writeFile(path, bytes);
    const seen = await verdict(this.#copy);
    if (seen !== 'verified') return seen;
    if ((await contentsOf(this.#copy)) === this.#contents) return 'harmless';
    return (await isDoubted(this.#copy, this.#clock.nowMs)) ? 'doubted at the start' : 'neither';
  }
}

const never = new AbortController().signal;

/** A checkpoint stands for what is gone. */
export async function pruneOnce(engine: Engine, clock: TestClock): Promise<void> {
  await engine.rotateEpoch(rotateEpochOf(epochNumbered(70), { nowMs: clock.nowMs }));
  const { logRetention } = engine;
  await takeCheckpoint({ engine, clock });
  const throughLsn = await logRetention.prunable({ keepMs: 0, nowMs: clock.nowMs }, 1000, never);
  await logRetention.prune(throughLsn ?? 0, never);
}

export async function takeCheckpoint({ engine, clock }: { engine: Engine; clock: TestClock }): Promise<void> {
  await engine.logRetention.takeCheckpoint(
    () => clock.nowMs,
    never,
    () => true,
  );
}

async function verdict(folder: string): Promise<'refused' | 'found by verify' | 'verified'> {
  try {
    const offline = await openOffline(folder, { isChecked: true });
    try {
      const { found } = await resultOf(verify(offline, { places: { folder, positionFile: undefined } }));
      return found > 0 ? 'found by verify' : 'verified';
    } finally {
      await offline.close();
    }
  } catch (error) {
    // The command ends with one sentence for these.
    if (error instanceof StoreRefused || (error as { code?: string }).code === 'LEVEL_CORRUPTION') return 'refused';
    throw error;
  }
}

async function isDoubted(folder: string, nowMs: number): Promise<boolean> {
  try {
    const { store, notices } = await openStore({ folder, nowMs, newEpoch: epochSource(100) });
    await store.close();
    return notices.length > 0;
  } catch (error) {
    if (error instanceof StoreRefused) return true;
    throw error;
  }
}

/** Every pair of the store, and its key. */
async function contentsOf(folder: string): Promise<string> {
  const offline = await openOffline(folder);
  const pairs = await offline.level.iterator().all();
  await offline.close();
  const key = relaySigner(await readFile(join(folder, RELAY_KEY_FILE), 'utf8'), RELAY_KEY_FILE).publicKey;
  return [key, ...pairs.map(([name, value]) => `${name.toString('hex')} ${value.toString('hex')}`)].join('\n');
}

async function placesOf(folder: string): Promise<Place[]> {
  const inner = (await readdir(join(folder, LEVEL_FOLDER))).map((name) => join(LEVEL_FOLDER, name));
  const files = (await readdir(folder)).filter((name) => name !== LEVEL_FOLDER);
  const sized = await Promise.all(
    [...files, ...inner].toSorted().map(async (file) => ({ file, size: (await stat(join(folder, file))).size })),
  );
  return sized.flatMap(({ file, size }) => Array.from({ length: size }, (_none, offset) => ({ file, offset })));
}

function rethrow(error: Error): never {
  throw error;
}
