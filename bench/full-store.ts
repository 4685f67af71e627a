/**
 * A relay whose store is full: items that wait, dedup rows of items that were acked, and enrolled hosts. How fast are
 * pushes and pulls beside those of a relay with an empty store in the same round, how long does it take to start, and
 * what does it need of memory? The store is made in this process before the relay starts.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { cpuSecondsOf } from './cpu-seconds.ts';
import { BenchEngine, anyKey, anyKeys } from './engine.ts';
import { pull } from './pull.ts';
import { push } from './push.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';
import { type Figure, eachRound, grouped, less, more } from './report.ts';
import { sealedEnvelope } from './work.ts';

/** With `--scale 1`. */
const FULL = { queued: 1_000_000, dedupRows: 5_000_000, hosts: 50_000 };
const ITEMS_OF_REQUEST = 200;
const REQUESTS_AT_ONCE = 4;
const ITEM_BYTES = 1024;
const CONNECTIONS = 4;
const REQUESTS_PER_CONNECTION = 120;
const PAGES_PER_CONNECTION = 60;
const SETTLED_MS = 2_000;

/** A relay is at rest when it takes less than a tenth of a core for so long. */
const REST_MS = 500;
const REST_SECONDS = REST_MS / 1000 / 10;
const MEMORY_EVERY_MS = 250;

interface Filled {
  queued: number;
  dedupRows: number;
  hosts: number;
}

/**
 * `kept` is a folder in which the store is made, if it is not there, and stays with what the rounds push. Throws when
 * there is a folder that does not hold all of it, as after a run that was interrupted.
 */
export async function fullStore(rounds: number, scale: number, kept?: string): Promise<Figure[]> {
  const filled: Filled = {
    queued: Math.round(FULL.queued * scale),
    dedupRows: Math.round(FULL.dedupRows * scale),
    hosts: Math.round(FULL.hosts * scale),
  };
  const isThere = kept !== undefined && holds(kept, filled);
  const made = await BenchEngine.start(kept === undefined ? {} : { folder: kept });
  if (!isThere) await fill(made, filled);
  await made.collected();
  await made.close();
  if (kept !== undefined) writeFileSync(join(kept, FILLED_FILE), JSON.stringify(filled));
  try {
    const [queued, dedupRows, hosts] = [filled.queued, filled.dedupRows, filled.hosts].map(grouped);
    // What is to be reached is so with all of them.
    const aim = (goal: number): number | undefined => (scale >= 1 ? goal : undefined);
    const left = grouped(CONNECTIONS * REQUESTS_PER_CONNECTION * ITEMS_OF_REQUEST);
    const note = `${queued} items wait, ${dedupRows} dedup rows, ${hosts} hosts; each round leaves ${left} items more`;
    const measure = eachRound(async () => {
      const empty = await loaded(await startBenchRelay());
      const full = await loaded(await startBenchRelay({ folder: made.folder }));
      return [
        { ...less('ready in', 's', full.readyS, aim(2)), note },
        less('RSS when it is ready', 'MB', full.readyMb),
        more('push', 'items/s', full.itemsPerS),
        more('push / with an empty store', 'ratio', full.itemsPerS / empty.itemsPerS, aim(0.85)),
        more('pull, 500 x 1 KiB', 'MB/s', full.mbPerS),
        more('pull / with an empty store', 'ratio', full.mbPerS / empty.mbPerS, aim(0.85)),
        less('peak RSS', 'MB', full.peakMb, aim(512)),
        less('peak RSS without mapped files', 'MB', full.peakAnonMb),
      ];
    });
    return await measure(rounds);
  } finally {
    if (kept === undefined) made.removeClosed();
  }
}

/** Written when all of the store is made. */
const FILLED_FILE = 'filled.json';

function holds(folder: string, filled: Filled): boolean {
  if (!existsSync(folder)) return false;
  const file = join(folder, FILLED_FILE);
  if (existsSync(file) && readFileSync(file, 'utf8') === JSON.stringify(filled)) return true;
  throw new Error(`${folder} does not hold this store: name a folder that is not there yet`);
}

/** Pulls begin after LevelDB has compacted the pushes: it would take a core from them, most in a full store. */
async function loaded(
  relay: BenchRelay,
): Promise<Record<'readyS' | 'readyMb' | 'itemsPerS' | 'mbPerS' | 'peakMb' | 'peakAnonMb', number>> {
  const anonMb: number[] = [];
  const measuring = setInterval(() => anonMb.push(relay.memoryMb('RssAnon')), MEMORY_EVERY_MS);
  try {
    await elapsed(SETTLED_MS);
    const readyMb = relay.memoryMb('VmRSS');
    const load = { relay, connections: CONNECTIONS, requestsPerConnection: REQUESTS_PER_CONNECTION };
    const pushed = await push({ ...load, itemsPerRequest: ITEMS_OF_REQUEST, itemBytes: ITEM_BYTES });
    await rest(relay.pid);
    const pulled = await pull({ relay, connections: CONNECTIONS, pagesPerConnection: PAGES_PER_CONNECTION });
    return {
      readyS: relay.readyMs / 1000,
      readyMb,
      itemsPerS: (CONNECTIONS * REQUESTS_PER_CONNECTION * ITEMS_OF_REQUEST) / pushed.seconds,
      mbPerS: (CONNECTIONS * PAGES_PER_CONNECTION * 500 * ITEM_BYTES) / 1e6 / pulled.seconds,
      peakMb: relay.memoryMb('VmHWM'),
      peakAnonMb: Math.max(...anonMb),
    };
  } finally {
    clearInterval(measuring);
    await relay.stop();
  }
}

async function rest(pid: number): Promise<void> {
  for (let before = cpuSecondsOf(pid); ; ) {
    await elapsed(REST_MS);
    const now = cpuSecondsOf(pid);
    if (now - before < REST_SECONDS) return;
    before = now;
  }
}

/** Items that are acked go to one host in turn, so that what waits for the others stays. */
async function fill(relay: BenchEngine, { queued, dedupRows, hosts }: Filled): Promise<void> {
  const keys = anyKeys(hosts, 'host');
  await relay.enrolAll(keys);
  const acking = anyKey('acks at once');
  await relay.enrol(acking);
  const wire = sealedEnvelope('item', ITEM_BYTES);
  let made = 0;
  const request = (isQueued: boolean): Promise<void> => {
    const items = Array.from({ length: ITEMS_OF_REQUEST }, () => {
      const at = made++;
      const target = isQueued ? keys[at % hosts]! : acking;
      return { sender: keys[(at * 7) % hosts]!, target, id: `item-${at}`, wire };
    });
    return relay.push(items, Date.now());
  };
  const pushMany = async (count: number, isQueued: boolean): Promise<void> => {
    for (let done = 0; done < count; done += ITEMS_OF_REQUEST * REQUESTS_AT_ONCE) {
      await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, () => request(isQueued)));
      if (!isQueued) await relay.ackAll(acking);
    }
  };
  // Items that wait have dedup rows too.
  await pushMany(dedupRows - queued, false);
  await pushMany(queued, true);
}
