/**
 * `npm run bench`: what the README's figures come from. Everything in one run, so that the ratios hold whatever the
 * machine does; requests are made before the clock starts. `npm run bench -- mail` is mail between two hosts alone, and
 * `npm run bench -- offline` backup, restore, verify and rebuild.
 */
import { audit } from './audit.ts';
import { backup } from './backup.ts';
import { bare } from './bare.ts';
import { disk } from './disk.ts';
import { type Timing, latencies } from './figures.ts';
import { floor } from './floor.ts';
import { type Growth, byDedupRows, byListLength } from './growth.ts';
import { mailbox } from './mailbox.ts';
import { pull } from './pull.ts';
import { push } from './push.ts';
import { printRelayedMail } from './relayed-mail.ts';
import { startBenchRelay } from './relay-process.ts';
import { stalls } from './stalls.ts';

const ROUNDS = 3;
const CONNECTIONS = 4;
const PUSH = { itemsPerRequest: 200, itemBytes: 1024 };
const REQUESTS = 160;
/** Pages of 500 items that fill `max_pull_bytes`. */
const PAGE = { itemsPerRequest: 20, itemBytes: 16_384, requestsPerConnection: 26, items: 500 };
const PAGES_PER_CONNECTION = 12;
const BARE_BYTES = 8 << 20;

interface Round {
  floorItemsPerS: number;
  pushItemsPerS: number;
  pullMbPerS: number;
  bareMbPerS: number;
}

async function round(): Promise<Round> {
  const itemsPerS = ({ seconds }: Timing) => (REQUESTS * PUSH.itemsPerRequest) / seconds;
  const mbOf = (items: number) => (items * PUSH.itemBytes) / 1e6;
  const floorTiming = await floor({ requests: REQUESTS, ...PUSH });
  print('floor', `${itemsPerS(floorTiming).toFixed(0)} items/s`, mbOf(itemsPerS(floorTiming)), floorTiming);

  const relay = await startBenchRelay();
  const load = { relay, connections: CONNECTIONS, ...PUSH };
  const pushed = await push({ ...load, requestsPerConnection: REQUESTS / CONNECTIONS });
  const pushPeak = relay.peakMb();
  print('push', `${itemsPerS(pushed).toFixed(0)} items/s`, mbOf(itemsPerS(pushed)), pushed, pushPeak);
  await relay.stop();

  const full = await startBenchRelay();
  const { items, itemBytes, ...fill } = PAGE;
  await push({ relay: full, connections: CONNECTIONS, itemBytes, ...fill });
  const pulled = await pull({ relay: full, connections: CONNECTIONS, pagesPerConnection: PAGES_PER_CONNECTION });
  const pages = CONNECTIONS * PAGES_PER_CONNECTION;
  const pullMbPerS = (pages * items * itemBytes) / 1e6 / pulled.seconds;
  print('pull', `${(pages / pulled.seconds).toFixed(0)} pages/s`, pullMbPerS, pulled, full.peakMb());
  console.log(`  served by ${full.server}`);
  await full.stop();

  const bareTiming = await bare({ connections: CONNECTIONS, repliesPerConnection: 40, replyBytes: BARE_BYTES });
  const bareMbPerS = (CONNECTIONS * 40 * BARE_BYTES) / 1e6 / bareTiming.seconds;
  print('bare', `${((CONNECTIONS * 40) / bareTiming.seconds).toFixed(0)} replies/s`, bareMbPerS, bareTiming);
  return {
    floorItemsPerS: itemsPerS(floorTiming),
    pushItemsPerS: itemsPerS(pushed),
    pullMbPerS,
    bareMbPerS,
  };
}

function print(name: string, rate: string, mbPerS: number, timing: Timing, peakMb?: number): void {
  const peak = peakMb === undefined ? '' : `, peak RSS ${peakMb.toFixed(0)} MB`;
  console.log(
    `  ${name.padEnd(6)} ${rate.padStart(14)}  ${mbPerS.toFixed(0).padStart(5)} MB/s  ${latencies(timing)}${peak}`,
  );
}

if (process.argv[2] === 'mail') {
  await printRelayedMail();
  process.exit();
}
if (process.argv[2] === 'offline') {
  await printOffline();
  process.exit();
}
const rounds: Round[] = [];
for (let n = 1; n <= ROUNDS; n++) {
  console.log(
    `round ${n} of ${ROUNDS}: ${PUSH.itemsPerRequest} x 1 KiB a push, ${CONNECTIONS} connections; pages of 500 x 16 KiB`,
  );
  rounds.push(await round());
}
console.log(`push / floor  ${spread(rounds.map((one) => one.pushItemsPerS / one.floorItemsPerS))}`);
console.log(`pull / bare   ${spread(rounds.map((one) => one.pullMbPerS / one.bareMbPerS))}`);

console.log('what concerns 10,000 items of 50 MiB at once: answered in, loop held at most (ms)');
const rounded = await inRounds(stalls);
for (const [at, { name }] of (rounded[0] ?? []).entries()) {
  const of = (figure: 'answeredMs' | 'heldMs') => spread(rounded.map((round) => round[at]?.[figure] ?? Number.NaN));
  console.log(`  ${name.padEnd(42)} ${of('answeredMs').padEnd(30)} ${of('heldMs')}`);
}
await printOffline();
const kept = await disk();
console.log(`on disk after ${kept.items} items of ${kept.itemBytes} bytes were pushed and acked`);
console.log(
  `  ${kept.bytesPerItem.toFixed(0)} bytes an item; the second half added ${kept.addedBytesPerItem.toFixed(0)} an item`,
);
console.log('a host with 100,000 messages of 1 KB in one mailbox');
for (const { what, medianMs, p99Ms } of await mailbox()) {
  console.log(`  ${what.padEnd(42)} median ${medianMs.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms`);
}
await printRelayedMail();
for (const [title, figures] of [
  ["cost of a push by the target's sender list", await byListLength()],
  ["cost of a push by the target's dedup rows", await byDedupRows()],
] as const) {
  console.log(title);
  for (const { what, pushUs } of figures) {
    console.log(`  ${what.padEnd(42)} ${pushUs.toFixed(1)} us, ${(pushUs / first(figures)).toFixed(2)} of the first`);
  }
}

async function printOffline(): Promise<void> {
  const backups = await inRounds(backup);
  const [{ contentMb, fileMb } = { contentMb: 0, fileMb: 0 }] = backups;
  console.log(`backup of ${contentMb.toFixed(0)} MB (as a file ${fileMb.toFixed(0)} MB), by what it holds`);
  console.log(`  backup ${spread(backups.map((one) => one.backupMbPerS))} MB/s`);
  console.log(`  restore ${spread(backups.map((one) => one.restoreMbPerS))} MB/s`);
  console.log(`  backup / bare copy  ${spread(backups.map((one) => one.backupMbPerS / one.bareMbPerS))}`);
  console.log(`  restore / bare copy ${spread(backups.map((one) => one.restoreMbPerS / one.bareMbPerS))}`);
  console.log('audit of a log of pushes and acks, half of the mail still waiting');
  const audited = await inRounds(audit);
  const figure = (of: 'verifyMbPerS' | 'rebuildEventsPerS' | 'wholeRebuildEventsPerS') =>
    spread(audited.map((one) => one[of]));
  console.log(`  verify, ${audited[0]?.events} events     ${figure('verifyMbPerS')} MB/s`);
  console.log(`  rebuild, ${audited[0]?.events} events    ${figure('rebuildEventsPerS')} events/s`);
  console.log(`  the same with the new database ${figure('wholeRebuildEventsPerS')} events/s`);
  console.log(`  verify / bare walk  ${spread(audited.map((one) => one.verifyMbPerS / one.walkMbPerS))}`);
}

function spread(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  return `${sorted[Math.floor(sorted.length / 2)]?.toFixed(2)} (${sorted[0]?.toFixed(2)} to ${sorted.at(-1)?.toFixed(2)})`;
}

function first(figures: readonly Growth[]): number {
  return figures[0]?.pushUs ?? Number.NaN;
}

async function inRounds<T>(measure: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let n = 0; n < ROUNDS; n++) all.push(await measure());
  return all;
}
