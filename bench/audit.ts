/**
 * Measures how fast a store is verified and rebuilt, by the commands: a log of pushes and acks that the same build has
 * written, half of the mail still waiting. Beside it a bare walk over the same pairs, which this process does.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runsOf } from '../src/relay/store/scan.ts';
import { LEVEL_FOLDER, levelAt } from '../src/relay/store/level.ts';
import { costOfCommand } from './cpu.ts';
import { ackAll } from './pull.ts';
import { pushElsewhere } from './push-elsewhere.ts';
import { targetName } from './push.ts';
import { startBenchRelay } from './relay-process.ts';
import { type Figure, more } from './report.ts';

const ITEMS = Number(process.env['POSTE_BENCH_EVENTS'] ?? 100_000);
const LANES = 4;
const PUSHED = { connections: LANES, itemsPerRequest: 200, itemBytes: 1024 };

export async function audits(): Promise<Figure[]> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  try {
    const relay = await startBenchRelay({ folder });
    await pushElsewhere({ relay, ...PUSHED, requestsPerConnection: ITEMS / LANES / PUSHED.itemsPerRequest });
    for (let lane = 0; lane < LANES / 2; lane++) await ackAll(relay, targetName(lane));
    await relay.stop();
    const walkMbPerS = await walked(join(folder, LEVEL_FOLDER));
    const at = ['--store-dir', folder];
    const verify = await costOfCommand('relay', 'log', 'verify', ...at);
    const { records, bytes } = verify.document as { records: number; bytes: number };
    const rebuild = await costOfCommand('relay', 'log', 'rebuild', ...at, '--yes');
    const { events } = rebuild.document as { events: number };
    const verifyMbPerS = bytes / 1e6 / verify.seconds;
    return [
      more('verify', 'MB/s', verifyMbPerS, 80),
      more('verify: events', 'events/s', records / verify.seconds),
      more('verify command / bare walk', 'ratio', verifyMbPerS / walkMbPerS),
      ...verify.cost.figures('verify, an event', records),
      more('rebuild, with the new database', 'events/s', events / rebuild.seconds, 100_000),
      ...rebuild.cost.figures('rebuild, an event', events),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function walked(folder: string): Promise<number> {
  const level = levelAt(folder);
  await level.open();
  const startedMs = performance.now();
  let bytes = 0;
  for await (const run of runsOf(level, {})) for (const [key, value] of run) bytes += key.length + value.length;
  const mbPerS = bytes / 1e3 / (performance.now() - startedMs);
  await level.close();
  return mbPerS;
}
