/**
 * Pushes, pulls and acks side by side for minutes: does the rate hold, does anybody wait, and what does the relay need
 * of memory and disk meanwhile? Four senders push 200 × 1 KiB a request as fast as they are answered; each of four
 * hosts pulls what came and acks it.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { Connection } from './connection.ts';
import { folderBytes } from './disk.ts';
import { quantile } from './figures.ts';
import { ack, signedRequest } from './pull.ts';
import { accepted, enrolled, senderName, targetName } from './push.ts';
import { pushRequests } from './work.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';
import type { Figure } from './report.ts';

const LANES = 4;
const PUSHED = { itemsPerRequest: 200, itemBytes: 1024 };

/** Made a few at a time: signed requests are good for minutes only. */
const REQUESTS_AT_ONCE = 4;
const PULL_WAIT_SECONDS = 1;
const IDLE_MS = 3_000;
const MEMORY_EVERY_MS = 500;
const PARTS = 10;

/** The goal must be met over these minutes. */
const WHOLE_MINUTES = 10;

interface Answer {
  atMs: number;
  tookMs: number;
}

export async function steady(minutes: number): Promise<Figure[]> {
  const relay = await startBenchRelay();
  try {
    await elapsed(IDLE_MS);
    const idleMb = relay.memoryMb('VmRSS');
    const wholeMs = minutes * 60_000;
    const pushes: Answer[] = [];
    const pushing = { isOver: false };
    const sizesMb: number[] = [folderBytes(relay.folder) / 1e6];
    const startedMs = performance.now();
    const isOver = (): boolean => performance.now() - startedMs >= wholeMs;
    const sizing = setInterval(() => sizesMb.push(folderBytes(relay.folder) / 1e6), wholeMs / PARTS);
    const anonMb: number[] = [];
    const measuring = setInterval(() => anonMb.push(relay.memoryMb('RssAnon')), MEMORY_EVERY_MS);
    const hosts = Array.from({ length: LANES }, (_none, lane) => pullAll(relay, lane, pushing));
    await Promise.all(
      Array.from({ length: LANES }, (_none, lane) => pushUntil(relay, lane, isOver, pushes, startedMs)),
    );
    clearInterval(sizing);
    pushing.isOver = true;
    await Promise.all(hosts);
    clearInterval(measuring);
    const peakMb = relay.memoryMb('VmHWM');
    return figuresOf({ minutes, pushes, idleMb, peakMb, peakAnonMb: Math.max(...anonMb), sizesMb });
  } finally {
    await relay.stop();
  }
}

interface Seen {
  minutes: number;
  pushes: readonly Answer[];
  idleMb: number;
  peakMb: number;
  peakAnonMb: number;
  sizesMb: readonly number[];
}

function figuresOf({ minutes, pushes, idleMb, peakMb, peakAnonMb, sizesMb }: Seen): Figure[] {
  const wholeMs = minutes * 60_000;
  const rates = Array.from({ length: PARTS }, (_none, part) => {
    const within = pushes.filter(({ atMs }) => Math.min(PARTS - 1, Math.floor((atMs / wholeMs) * PARTS)) === part);
    return (within.length * PUSHED.itemsPerRequest * PARTS * 1000) / wholeMs;
  });
  const [first = Number.NaN, ...later] = rates;
  const times = pushes.map(({ atMs }) => atMs).toSorted((a, b) => a - b);
  // Before the first answer the hosts are enrolled and the first requests signed.
  const gaps = times.slice(1).map((atMs, at) => atMs - (times[at] ?? 0));
  const took = pushes.map(({ tookMs }) => tookMs);
  const shownParts = rates.map((rate) => rate.toFixed(0)).join(' ');
  const perItem = (((sizesMb.at(-1) ?? 0) - (sizesMb[0] ?? 0)) * 1e6) / (pushes.length * PUSHED.itemsPerRequest);
  const aim = (goal: number): Pick<Figure, 'goal'> => (minutes >= WHOLE_MINUTES ? { goal } : {});
  const note = `by tenths of ${minutes} minutes: ${shownParts}`;
  return [
    { name: 'push, pull and ack', unit: 'items/s', better: 'more', values: [sum(rates) / PARTS], note },
    { name: 'worst tenth / first', unit: 'ratio', better: 'more', values: [Math.min(...later) / first], ...aim(0.8) },
    { name: 'last tenth / first', unit: 'ratio', better: 'more', values: [(later.at(-1) ?? 0) / first] },
    { name: 'longest time without an answer', unit: 'ms', better: 'less', values: [Math.max(...gaps)], ...aim(100) },
    { name: 'a push, p50', unit: 'ms', better: 'less', values: [quantile(took, 0.5)] },
    { name: 'a push, p99', unit: 'ms', better: 'less', values: [quantile(took, 0.99)] },
    { name: 'a push, longest', unit: 'ms', better: 'less', values: [Math.max(...took)] },
    { name: 'idle RSS', unit: 'MB', better: 'less', values: [idleMb], goal: 90 },
    { name: 'peak RSS', unit: 'MB', better: 'less', values: [peakMb], ...aim(280) },
    { name: 'peak RSS without mapped files', unit: 'MB', better: 'less', values: [peakAnonMb] },
    { name: 'the store grew by, for an item', unit: 'bytes', better: 'less', values: [perItem] },
  ];
}

async function pushUntil(
  relay: BenchRelay,
  lane: number,
  isOver: () => boolean,
  pushes: Answer[],
  startedMs: number,
): Promise<void> {
  const sender = await enrolled(relay, senderName(lane));
  const target = (await enrolled(relay, targetName(lane))).publicKey;
  const connection = await Connection.open(relay.port);
  const work = {
    sender,
    target,
    requests: REQUESTS_AT_ONCE,
    ...PUSHED,
    relayPubkey: relay.relayPubkey,
    form: 'JSON' as const,
  };
  while (!isOver())
    for (const request of pushRequests(work)) {
      const sentMs = performance.now();
      await accepted(connection, request);
      const nowMs = performance.now();
      pushes.push({ atMs: nowMs - startedMs, tookMs: nowMs - sentMs });
    }
  connection.close();
}

/** Pulls and acks for one host, until no more will come and nothing waits. */
async function pullAll(relay: BenchRelay, lane: number, pushing: { isOver: boolean }): Promise<void> {
  const name = targetName(lane);
  await enrolled(relay, name);
  const connection = await Connection.open(relay.port);
  for (let through = 0; ; ) {
    // Asked before the pull: what was pushed until then is in the page, or it is full.
    const { isOver } = pushing;
    const query = `/v2/relay/items?limit=500&after=${through}&wait=${isOver ? 0 : PULL_WAIT_SECONDS}`;
    const page = await connection.send(signedRequest(relay, name, 'GET', query));
    const epoch = /"epoch":"([^"]+)"/.exec(page.start)?.[1];
    const last = Number(/"last_seq":(\d+)/.exec(page.end)?.[1]);
    if (page.status !== 200 || epoch === undefined || !Number.isInteger(last))
      throw new Error(`a pull was answered ${page.status} ${page.start}`);
    if (last > through) {
      await ack(connection, relay, name, { epoch, through: last });
      through = last;
    } else if (isOver) {
      const head = Number(/"head_seq":(\d+)/.exec(page.start)?.[1]);
      if (through !== head) throw new Error(`of the queue up to ${head}, items up to ${through} came`);
      break;
    }
  }
  connection.close();
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
