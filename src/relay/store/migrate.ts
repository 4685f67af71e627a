/**
 * Brings a store of an older schema to the one that this software writes, a step at a time.
 *
 * A step becomes durable in one batch: what it writes, the event that says so, and the schema version that the relay
 * row carries. A crash at any point leaves the schema before the step or the one after it, and the next start goes on
 * from there. The epoch goes on: nothing that a host knows has changed. Log records and wire bytes are never rewritten.
 */
import type { LogEntry } from '../core/event.ts';
import { reduce } from '../core/reduce.ts';
import type { Level } from './level.ts';
import { PREFIX } from './keys.ts';
import type { BesidePair } from './log.ts';
import type { RelayStore } from './relay-store.ts';

/** From schema `from` to the one after it. */
export interface Migration {
  from: number;
  /** Reads the store as schema `from` left it. The relay row is not its business. */
  pairs(level: Level): AsyncIterable<BesidePair>;
}

/** DO NOT CHANGE a step that was released: stores that took it exist. */
export const MIGRATIONS: readonly Migration[] = [];

/** Throws, with the store as it was, when a step is missing or fails. */
export async function migrate(
  level: Level,
  store: RelayStore,
  stored: number,
  newest: number,
  migrations: readonly Migration[],
  nowMs: number,
): Promise<void> {
  for (let version = stored; version < newest; version++) {
    const step = migrations.find(({ from }) => from === version);
    if (!step) throw new Error(`invariant: there is a migration from schema ${version}`);
    const migrated: BesidePair[] = [];
    for await (const pair of step.pairs(level)) {
      const prefix = pair[0][0];
      if (prefix === PREFIX.log || prefix === PREFIX.payload || prefix === PREFIX.relay) {
        throw new Error(`invariant: a migration leaves keys under ${String(prefix)} alone`);
      }
      migrated.push(pair);
    }
    const entry: LogEntry = {
      lsn: store.lastLsn + 1,
      event: { type: 'SchemaMigrated', schemaVersion: version + 1, atMs: nowMs },
    };
    const changes = reduce(entry, store);
    await store.append({
      entries: [entry],
      changes,
      payloads: [],
      collected: undefined,
      forgotten: [],
      beside: migrated,
    });
  }
}
