/**
 * A stopped relay store of several tables and a write-ahead log, what its relay had promised, and one file of it
 * mutated: cut short, zeroed in part, flipped, or overwritten with garbage.
 */
import { cp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { signerFromSeed } from '../../src/protocol/ed25519.ts';
import type { Epoch } from '../../src/protocol/names.ts';
import { hash } from 'node:crypto';
import { Engine } from '../../src/relay/engine/engine.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { POSITION_FILE } from '../../src/relay/store/position.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { enrolOf, pushOf, rotateEpochOf, sendersOf } from './commands.ts';
import { epochNumbered, epochSource } from './epochs.ts';
import { type TestHost, alice, bob, carol } from './hosts.ts';
import type { SeededRandom } from './seeded-random.ts';
import { settingsWith } from './settings.ts';
import { TestClock } from './test-clock.ts';
import { found } from './found.ts';

export const KEPT = ['its log whole', 'its log pruned'] as const;
export type Kept = (typeof KEPT)[number];

export const RECEIVERS: readonly TestHost[] = [bob, carol];
const RELAY_SEED = hash('sha256', 'relay', 'buffer');
export const RELAY_SIGNER = signerFromSeed(RELAY_SEED);
/** As relay.key holds it. */
export const RELAY_KEY_TEXT = `${RELAY_SEED.toString('base64')}\n`;

export const MUTATIONS = ['truncate', 'zero', 'flip', 'garbage'] as const;

export interface Mutation {
  kind: (typeof MUTATIONS)[number];
  /** Relative to the store folder. */
  file: string;
  offset: number;
  /** The bytes that are written at the offset; `undefined` where the file ends there. */
  bytes: Buffer | undefined;
}

/** One item of alice, for every receiver. */
export interface PromisedItem {
  id: string;
  text: string;
  /** In the order of `RECEIVERS`. */
  seqs: readonly number[];
}

/** Receipts said this before the store was mutated. It goes from process to process as JSON. */
export interface Promises {
  epoch: Epoch;
  nowMs: number;
  items: readonly PromisedItem[];
  /** Each of `RECEIVERS` has acked so far. */
  acked: readonly number[];
}

const SESSIONS = 4;
const ITEMS_PER_SESSION = 8;
const TEXT_BYTES = 400;

/**
 * The weight says how often a file is mutated: those that LevelDB finds the others by are small, and each byte of them
 * counts.
 */
const WEIGHTS: readonly (readonly [pattern: RegExp, weight: number])[] = [
  [/\.log$/, 4],
  [/\.ldb$/, 4],
  [/MANIFEST/, 3],
  [/CURRENT$/, 1],
  [/position$/, 1],
];

export class MutatedStore {
  readonly #original: string;
  readonly #files: readonly { file: string; size: number }[];
  readonly promises: Promises;

  private constructor(original: string, files: readonly { file: string; size: number }[], promises: Promises) {
    this.#original = original;
    this.#files = files;
    this.promises = promises;
  }

  /** A store that lived through several starts, in a folder of the caller's. */
  static async make(folder: string, kept: Kept): Promise<MutatedStore> {
    const original = join(folder, 'original');
    const promises = await livedStore(original, kept);
    const names = (await readdir(join(original, LEVEL_FOLDER))).map((name) => join(LEVEL_FOLDER, name));
    const files = [...names, POSITION_FILE].filter((name) => WEIGHTS.some(([pattern]) => pattern.test(name)));
    const sized = await Promise.all(
      files.toSorted().map(async (file) => ({ file, size: (await stat(join(original, file))).size })),
    );
    return new MutatedStore(original, sized, promises);
  }

  /** Its mutable files. */
  get files(): string[] {
    return this.#files.map(({ file }) => file);
  }

  any(random: SeededRandom): Mutation {
    const weighed = WEIGHTS.flatMap(([pattern, weight]) => Array.from({ length: weight }, () => pattern));
    const pattern = random.pick(weighed);
    const { file, size } = random.pick(this.#files.filter((one) => pattern.test(one.file)));
    const kind = random.pick(MUTATIONS);
    const offset = random.below(size);
    if (kind === 'truncate') return { kind, file, offset, bytes: undefined };
    if (kind === 'flip') return { kind, file, offset, bytes: Buffer.of(1 << random.below(8)) };
    // As long as a word, a record or a page of the disk.
    const length = Math.min(size - offset, 1 + random.below(random.pick([8, 256, 4096])));
    return { kind, file, offset, bytes: kind === 'zero' ? Buffer.alloc(length) : random.bytes(length) };
  }

  /** A copy with the mutation, at `folder`, in the place of what was there. */
  async copyTo(folder: string, { kind, file, offset, bytes }: Mutation): Promise<void> {
    await rm(folder, { recursive: true, force: true });
    await cp(this.#original, folder, { recursive: true });
    const path = join(folder, file);
    const content = await readFile(path);
    if (kind === 'flip') content.writeUInt8(content.readUInt8(offset) ^ (bytes?.[0] ?? 0), offset);
    else bytes?.copy(content, offset);
    await writeFile(path, bytes ? content : content.subarray(0, offset));
  }
}

/**
 * Mail in several sessions, each of which leaves a table to the next; what came last is in the write-ahead log alone.
 */
export async function livedStore(folder: string, kept: Kept | 'a checkpoint kept'): Promise<Promises> {
  const clock = new TestClock();
  const items: PromisedItem[] = [];
  const acked = RECEIVERS.map(() => 0);
  const newEpoch = epochSource();
  let { epoch } = { epoch: epochNumbered(0) };
  for (let session = 0; session < SESSIONS; session++) {
    const { store } = await openStore({ folder, signer: RELAY_SIGNER, nowMs: clock.nowMs, newEpoch });
    const engine = await engineOver(store, clock.nowMs, rethrow);
    if (session === 0) await enrolled(engine, clock);
    for (let at = 0; at < ITEMS_PER_SESSION; at++) items.push(await pushed(engine, clock, `m${session}-${at}`));
    for (const [at, host] of RECEIVERS.entries()) {
      const through = items[items.length - ITEMS_PER_SESSION - 2 * at - 2 + session]?.seqs[at] ?? 0;
      const { epoch: now } = engine;
      await engine.acks.ack({ type: 'AckItems', targetPubkey: host.key, epoch: now, through, nowMs: clock.nowMs });
      acked[at] = Math.max(acked[at] ?? 0, through);
    }
    if (session === SESSIONS - 2 && kept !== 'its log whole') {
      await checkpoint(engine, clock);
      if (kept === 'its log pruned') await prune(engine, clock);
    }
    await engine.heartbeat(clock.nowMs);
    ({ epoch } = engine);
    await engine.close();
    await store.close();
    clock.move(1_000);
  }
  return { epoch, nowMs: clock.nowMs, items, acked };
}

export function engineOver(store: RelayStore, nowMs: number, onStoreFailed: (error: Error) => void): Promise<Engine> {
  const options = { store, settings: settingsWith(), signer: RELAY_SIGNER, monotonicMs: () => 0, onStoreFailed };
  return Engine.start(options, nowMs);
}

async function enrolled(engine: Engine, clock: TestClock): Promise<void> {
  for (const host of [alice, ...RECEIVERS]) await engine.admissions.enrol(enrolOf(host, { nowMs: clock.nowMs }));
  await engine.publishSenders(sendersOf(bob, [alice, carol], { iatMs: clock.nowMs, nowMs: clock.nowMs }));
}

async function pushed(engine: Engine, clock: TestClock, id: string): Promise<PromisedItem> {
  const text = `${id} ${hash('sha256', id).repeat(TEXT_BYTES / 64)}`;
  const { outcome, seqs } = await push(engine, id, text, clock.nowMs);
  if (outcome !== 'accepted') throw new Error(`${id} was ${outcome}`);
  return { id, text, seqs };
}

/** Pushes one item of alice to every receiver. */
export async function push(
  engine: Engine,
  id: string,
  text: string,
  nowMs: number,
): Promise<{ outcome: 'accepted' | 'duplicate' | 'refused'; seqs: number[] }> {
  const command = pushOf(
    alice,
    id,
    RECEIVERS.map((host) => [host, text] as const),
    { nowMs },
  );
  const answered = await engine.pushes.push([command], (outcomes) => outcomes);
  const [outcome] = answered.type === 'Refusal' ? [] : answered.answer;
  if (outcome?.type !== 'ItemStored') return { outcome: 'refused', seqs: [] };
  return { outcome: outcome.status, seqs: outcome.targets.map(({ seq }) => seq) };
}

const never = new AbortController().signal;

/**
 * Keeps the rows, which stand for the records before from then on; the hash tree of an epoch may go when it has ended.
 */
async function checkpoint(engine: Engine, clock: TestClock): Promise<void> {
  await engine.rotateEpoch(rotateEpochOf(epochNumbered(70), { nowMs: clock.nowMs }));
  await engine.logRetention.takeCheckpoint(
    () => clock.nowMs,
    never,
    () => true,
  );
}

async function prune({ logRetention }: Engine, { nowMs }: TestClock): Promise<void> {
  const throughLsn = found(await logRetention.prunable({ keepMs: 0, nowMs }, 1000, never), 'nothing can be pruned');
  await logRetention.prune(throughLsn, never);
}

function rethrow(error: Error): never {
  throw error;
}
