/** Stores whose log is in PostgreSQL: the benchmark leads it in this process, or follows it. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemTimers } from '../src/lib/clock.ts';
import { randomEpoch } from '../src/protocol/names.ts';
import { LEASE_MS } from '../src/relay/shared-log/leadership.ts';
import { logEndpoints } from '../src/relay/shared-log/log-address.ts';
import { joinLog } from '../src/relay/shared-log/node.ts';
import type { LeadingNode } from '../src/relay/shared-log/take-lead.ts';
import type { Durability } from '../src/relay/shared-log/durability.ts';
import { PostgresLog } from '../src/relay/shared-log/postgres-log.ts';
import type { RelayStore } from '../src/relay/store/relay-store.ts';
import type { PostgresServer } from '../test/support/postgres.ts';
import { namedSigner } from './work.ts';

const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

interface Joining {
  url: string;
  durability: Durability;
  folder: string;
  signal: AbortSignal;
  /** Called with the number of the last batch of the log that this node is about to show or to append to. */
  reached?: (no: number) => void;
}

/** Follows the log of `url` until it leads, or until `signal` aborts. */
export function joinAt({ url, durability, folder, signal, reached }: Joining): Promise<LeadingNode | undefined> {
  const log = new PostgresLog({ endpoints: logEndpoints(url), durability });
  if (reached) {
    // A node asks whether the log still holds the last batch of its view; a leader appends the next one.
    const [batch, append] = [log.batch.bind(log), log.append.bind(log)];
    log.batch = (logId, no) => {
      reached(no);
      return batch(logId, no);
    };
    log.append = async (tenure, appended, ackedNo) => {
      const done = await append(tenure, appended, ackedNo);
      reached(appended.no);
      return done;
    };
  }
  return joinLog({
    log,
    durability,
    leaseMs: LEASE_MS,
    acceptsSettings: false,
    folder,
    signer: namedSigner('relay'),
    settings: {},
    clock: systemClock,
    timers: systemTimers,
    newEpoch: () => randomEpoch(randomBytes),
    logger: QUIET,
    signal,
    onLost: fail,
    onHandOver: () => fail(new Error('no other node leads')),
    version: '1.0.0',
  });
}

export interface SharedStore {
  store: RelayStore;
  /** The address of the log. */
  url: string;
  close: () => Promise<void>;
}

/** A new log in a database of its own, led from here. */
export async function sharedStore(
  server: PostgresServer,
  durability: Durability,
  reached?: (no: number) => void,
): Promise<SharedStore> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const url = server.url(await server.newDatabase());
  const { signal } = new AbortController();
  const node = await joinAt({ url, durability, folder, signal, ...(reached && { reached }) });
  if (!node) throw new Error('invariant: nothing keeps the benchmark from leading');
  const close = async (): Promise<void> => {
    await node.close();
    await rm(folder, { recursive: true });
  };
  return { store: node.store, url, close };
}

function fail(error: Error): never {
  throw error;
}
