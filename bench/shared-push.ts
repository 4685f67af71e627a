/** Batch pushes as hosts make them, with hops and receipts, at a relay whose log is embedded or in PostgreSQL. */
import { setTimeout as elapsed } from 'node:timers/promises';
import { quantile } from './figures.ts';
import { push } from './push.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';

/** How the log of a relay is said on its command line; none for an embedded one. */
export type LogFlags = () => Promise<readonly string[]>;

const LOAD = { connections: 4, requestsPerConnection: 60, itemsPerRequest: 200, itemBytes: 1024 };
const WARM = { ...LOAD, requestsPerConnection: 20 };
const ITEMS = LOAD.connections * LOAD.requestsPerConnection * LOAD.itemsPerRequest;
const LEADS_WITHIN_MS = 30_000;

/** Each log in each round, the first one another each time. */
export async function printRequests(logs: Readonly<Record<string, LogFlags>>, rounds: number): Promise<void> {
  const names = Object.keys(logs);
  const rates: Record<string, number[]> = {};
  for (let round = 0; round < rounds; round++) {
    for (const at of names.keys()) {
      const name = names[(at + round) % names.length] ?? '';
      const relay = await startBenchRelay({ log: (await logs[name]?.()) ?? [] });
      try {
        await leads(relay);
        // Code that was never run yet would count for one log more than for another.
        await push({ relay, ...WARM });
        const { seconds } = await push({ relay, ...LOAD });
        (rates[name] ??= []).push(ITEMS / seconds);
      } finally {
        await relay.stop();
      }
    }
  }
  for (const [name, found] of Object.entries(rates)) {
    const ratios = found.map((rate, round) => rate / (rates['embedded']?.[round] ?? 1));
    const figures = found.map((rate) => rate.toFixed(0)).join(', ');
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)];
    console.log(
      `  ${name.padEnd(28)} ${figures} items/s; of embedded ${quantile(ratios, 0.5).toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`,
    );
  }
}

async function leads({ port }: BenchRelay): Promise<void> {
  for (const startedMs = performance.now(); performance.now() - startedMs < LEADS_WITHIN_MS; await elapsed(50)) {
    const { status } = await fetch(`http://127.0.0.1:${port}/v2/relay/info`);
    if (status === 200) return;
  }
  throw new Error('the relay did not take the lead');
}
