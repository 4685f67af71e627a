/** A relay whose queues are packed into runs behind its back, and what it writes to runs. */
import type { Pair } from '../../src/lib/pair-block.ts';
import type { Level } from '../../src/relay/store/level.ts';
import { writeQueues } from './queue-forms.ts';
import type { TestRelay } from './test-relay.ts';

/** Closes the relay, packs its queues, and opens it again. */
export async function packed(relay: TestRelay, lengthOf: () => number): Promise<void> {
  await relay.altered((level) => writeQueues(level, lengthOf));
}

/** Waits until nothing is left to collect. */
export async function collectAll(relay: TestRelay): Promise<void> {
  await relay.engine.heartbeat(relay.clock.nowMs);
  while (relay.store.collector.isPending) await relay.engine.durable();
}

/** What was written since the watch began, by batches of many keys. */
export interface WatchedWrites {
  puts: Pair[];
  dels: Buffer[];
  /** Looks for keys at or behind a place. */
  looks: number;
}

/** `onWrite` is called with each key that is put or deleted. */
export function watchedWrites(level: Level, onWrite: (key: Buffer) => void = () => undefined): WatchedWrites {
  const watched: WatchedWrites = { puts: [], dels: [], looks: 0 };
  const batch = level.batch.bind(level);
  level.batch = ((): ReturnType<Level['batch']> => {
    const writes = batch();
    const put = writes.put.bind(writes);
    const del = writes.del.bind(writes);
    return Object.assign(writes, {
      put: (key: Buffer, value: Buffer) => {
        watched.puts.push([key, value]);
        onWrite(key);
        return put(key, value);
      },
      del: (key: Buffer) => {
        watched.dels.push(key);
        onWrite(key);
        return del(key);
      },
    });
  }) as Level['batch'];
  const keys = level.keys.bind(level) as (...given: unknown[]) => unknown;
  level.keys = ((...given: unknown[]) => {
    watched.looks++;
    return keys(...given);
  }) as Level['keys'];
  return watched;
}
