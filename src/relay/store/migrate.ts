/**
 * Brings a store of an older schema to the one that this software writes, a step at a time. The rows of a large store
 * do not fit into one batch, so a step is
 *   1. a batch after which the store declares the new schema: from here on older software refuses it;
 *   2. batches that rewrite what is stored, each bounded and synced;
 *   3. a batch with the event `SchemaMigrated`, which also sets the schema of the relay row.
 * Between the first and the last the relay row says the older schema. The next start continues the step
 * before any other row is read, so a crash at any point loses nothing, and no row of the old form is read as one of the
 * new. The epoch goes on: nothing that a host knows has changed. Log records and wire bytes are never rewritten. The
 * position outside the store stays as it is: whether the store is an older copy is checked after the migration, and
 * after a crash in between the next start has to see it as well.
 *
 * Schema 3 packs log records of one batch together (record-run.ts) and reads what schema 2 wrote as it lies there, so
 * its step rewrites nothing: what is old goes by and by, as it is pruned.
 */
import { nothing, onlyOf } from '../../lib/caught.ts';
import type { LogEntry } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import { type RelayRow, rowKey } from '../core/rows.ts';
import { CHECKSUM_SCHEMA, DamagedRow, ROW_PREFIXES, mayBeOfSchemaOne, withChecksum } from './checksum.ts';
import { PREFIX, prefixRange, rowKeyBytes } from './keys.ts';
import type { Level } from './level.ts';
import { SCHEMA_VERSION, schemaMark } from './marks.ts';
import type { RelayStore } from './relay-store.ts';
import { decodeRow, encodeRow, rowOf } from './row-codec.ts';
import { runsOf } from './scan.ts';

/** A key and its new value, or `null`: the key is deleted. Migrations write outside the log. */
type ExtraWrite = readonly [key: Buffer, value: Buffer | null];

export interface Migration {
  from: number;
  /**
   * Yields what is to be written, a batch at a time. Reads the store as schema `from` left it, or as this step did when
   * it was cut short: what has its new form already is left as it is. It leaves the relay row alone.
   */
  batches(level: Level): AsyncIterable<readonly ExtraWrite[]>;
}

/** A schema, and the steps that lead to it. */
export interface Schema {
  version: number;
  migrations: readonly Migration[];
}

/** Rows of one batch, in number and in bytes, about. */
const BATCH = { pairs: 5000, bytes: 1 << 20 };

/** To schema 2: every row and due entry gets a checksum. One that cannot be read stays, and counts as damaged. */
const checksums: Migration = {
  from: 1,
  async *batches(level) {
    for (const prefix of ROW_PREFIXES) {
      if (prefix === PREFIX.relay) continue;
      for await (const run of runsOf(level, prefixRange(prefix), BATCH)) {
        const bare = run.filter(([key, value]) => mayBeOfSchemaOne(key, value));
        if (bare.length > 0) yield bare.map(([key, bytes]): ExtraWrite => [key, withChecksum(key, bytes)]);
      }
    }
  },
};

async function* none(): AsyncGenerator<never> {
  // Nothing is rewritten.
}

/** To schema 3: what it packs is of batches to come. */
const packedRecords: Migration = { from: 2, batches: none };

/** DO NOT CHANGE a step that was released: stores that took it exist. */
export const MIGRATIONS: readonly Migration[] = [checksums, packedRecords];
export const NEWEST_SCHEMA: Schema = { version: SCHEMA_VERSION, migrations: MIGRATIONS };

/** The relay row of a store that declares `schema`: only schema 1 has it without checksum. Throws `DamagedRow`. */
export async function relayRowOf(level: Level, schema: number): Promise<RelayRow | undefined> {
  const key = rowKeyBytes('relay', rowKey.relay);
  const value = await level.get(key);
  if (!value) return undefined;
  const isBare = schema < CHECKSUM_SCHEMA && mayBeOfSchemaOne(key, value);
  return isBare ? rowOf('relay', key, value) : decodeRow('relay', key, value);
}

export async function readableRelayRow(level: Level, schema: number): Promise<RelayRow | undefined> {
  return relayRowOf(level, schema).catch(onlyOf(DamagedRow, nothing));
}

/** Takes every step from the schema of `relay` to `newest`. Throws, with the store as a crash there would leave it. */
export async function migrate(
  level: Level,
  store: RelayStore,
  relay: RelayRow,
  newest: number,
  migrations: readonly Migration[],
  nowMs: number,
): Promise<void> {
  for (let row = relay; row.schemaVersion < newest; ) {
    const schemaVersion = row.schemaVersion + 1;
    await rewrite(level, row, migrations);
    const entry: LogEntry = { lsn: store.lastLsn + 1, event: { type: 'SchemaMigrated', schemaVersion, atMs: nowMs } };
    await store.append({
      entries: [entry],
      changes: reduce(entry, store),
      payloads: [],
      node: { leavesPosition: true },
    });
    row = { ...row, schemaVersion };
  }
}

/** Gives the rows of a copy, which is read and thrown away, the form of the newest schema. */
export async function rewriteCopy(level: Level, relay: RelayRow): Promise<void> {
  for (const { from } of MIGRATIONS) {
    if (from >= relay.schemaVersion) await rewrite(level, { ...relay, schemaVersion: from }, MIGRATIONS);
  }
}

/** A step but for its event. */
async function rewrite(level: Level, relay: RelayRow, migrations: readonly Migration[]): Promise<void> {
  const step = migrations.find(({ from }) => from === relay.schemaVersion);
  if (!step) throw new Error(`invariant: there is a migration from schema ${relay.schemaVersion}`);
  const relayKey = rowKeyBytes('relay', rowKey.relay);
  await write(level, [schemaMark(step.from + 1), [relayKey, encodeRow('relay', relayKey, relay)]]);
  for await (const batch of step.batches(level)) {
    const kept = batch.find(([key]) => KEPT.has(key[0]));
    if (kept) throw new Error(`invariant: a migration leaves keys under ${String(kept[0][0])} alone`);
    await write(level, batch);
  }
}

/** Prefixes of keys that no migration may touch. */
const KEPT: ReadonlySet<number | undefined> = new Set([PREFIX.schema, PREFIX.log, PREFIX.payload, PREFIX.relay]);

async function write(level: Level, pairs: readonly ExtraWrite[]): Promise<void> {
  const batch = level.batch();
  for (const [key, value] of pairs) {
    if (value) batch.put(key, value);
    else batch.del(key);
  }
  await batch.write({ sync: true });
}
