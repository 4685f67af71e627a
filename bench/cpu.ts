/**
 * Processor time: microseconds of each thread of a process, for an item, a MB, an event or a message. It says what a
 * step costs however busy the machine is, which a rate does not.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { PosteProcess } from '../test/support/poste-process.ts';
import { ofBuild } from './build.ts';
import { NAMED_THREADS, THREADS, type ThreadSeconds, threadSeconds } from './cpu-seconds.ts';
import { MESSAGES, RELAY, LAN, SENDERS, WARMING } from './mail-cells.ts';
import { MailPair, type Ways } from './mail-hosts.ts';
import { ackAll, pull } from './pull.ts';
import { pushElsewhere } from './push-elsewhere.ts';
import { BATCH, BATCH_WARM, CONNECTIONS, PAGES, SINGLE, SINGLE_CONNECTIONS, SINGLE_WARM } from './push-pull.ts';
import { type PushLoad, push, targetName } from './push.ts';
import { startBenchRelay } from './relay-process.ts';
import { type Figure, type Unit, joined } from './report.ts';

const RELAY_PROCESS = { environment: NAMED_THREADS };
const BATCH_REQUESTS_PER_CONNECTION = 60;
const SINGLE_REQUESTS_PER_CONNECTION = 200;
/** The log that is verified and rebuilt. */
const AUDITED = { connections: CONNECTIONS, requestsPerConnection: 125, ...BATCH };
const LOOK_EVERY_MS = 50;

export const CPU_CELLS: Readonly<Record<string, [title: string, run: (rounds: number) => Promise<Figure[]>]>> = {
  'cpu-push': ['processor time of a relay, for an item that is pushed', inRounds(pushes)],
  'cpu-pages': ['processor time of a relay, for a MB of full pages', inRounds(pulls)],
  'cpu-audit': ['processor time of verify and rebuild, for an event', inRounds(audits)],
  'cpu-mail': ['processor time of hosts and relay, for a message and its receipt', inRounds(mail)],
};

function inRounds(measure: () => Promise<Figure[]>): (rounds: number) => Promise<Figure[]> {
  return async (rounds) => {
    const all: Figure[][] = [];
    for (let round = 0; round < rounds; round++) all.push(await measure());
    return joined(all);
  };
}

async function pushes(): Promise<Figure[]> {
  const batch = { connections: CONNECTIONS, requestsPerConnection: BATCH_REQUESTS_PER_CONNECTION, ...BATCH };
  const single = { connections: SINGLE_CONNECTIONS, requestsPerConnection: SINGLE_REQUESTS_PER_CONNECTION, ...SINGLE };
  return [
    ...(await pushCost('batch', batch, BATCH_WARM, 'items/s')),
    ...(await pushCost('single', single, SINGLE_WARM, 'requests/s')),
  ];
}

async function pushCost(name: string, given: Omit<PushLoad, 'relay'>, warm: number, unit: Unit): Promise<Figure[]> {
  const relay = await startBenchRelay(RELAY_PROCESS);
  try {
    const load = { relay, ...given };
    await push({ ...load, requestsPerConnection: warm });
    const items = given.connections * given.requestsPerConnection * given.itemsPerRequest;
    const costs = costOf(relay.pid);
    const { seconds } = await push(load, costs.begin);
    return [rate(name, unit, items / seconds), ...costs.figures(name, items)];
  } finally {
    await relay.stop();
  }
}

async function pulls(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { kib, items, itemsPerRequest, requestsPerConnection, pages } of PAGES) {
    const relay = await startBenchRelay(RELAY_PROCESS);
    try {
      const load = { relay, connections: CONNECTIONS, pagesPerConnection: pages };
      const itemBytes = kib * 1024;
      await pushElsewhere({ ...load, requestsPerConnection, itemsPerRequest, itemBytes });
      await pull(load);
      const costs = costOf(relay.pid);
      costs.begin();
      const { seconds } = await pull(load);
      const name = `pages of ${items} x ${kib} KiB`;
      const mb = (CONNECTIONS * pages * items * itemBytes) / 1e6;
      figures.push(rate(name, 'MB/s', mb / seconds), ...costs.figures(name, mb));
    } finally {
      await relay.stop();
    }
  }
  return figures;
}

/** Each build audits a log that it has written: half of its mail is acked. The start of the process is in it. */
async function audits(): Promise<Figure[]> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  try {
    const relay = await startBenchRelay({ folder });
    await pushElsewhere({ relay, ...AUDITED });
    for (let lane = 0; lane < CONNECTIONS / 2; lane++) await ackAll(relay, targetName(lane));
    await relay.stop();
    return [...(await auditCost('verify', folder)), ...(await auditCost('rebuild', folder, '--yes'))];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function auditCost(name: string, folder: string, ...options: string[]): Promise<Figure[]> {
  const startedMs = performance.now();
  const args = ['relay', 'log', name, '--store-dir', folder, '--json', ...options];
  const audit = new PosteProcess(args, NAMED_THREADS, { main: ofBuild('dist/cli/main.js') });
  let seen: ThreadSeconds = new Map();
  while (audit.isRunning) {
    seen = threadSeconds(audit.pid, seen);
    await pause(LOOK_EVERY_MS);
  }
  const seconds = (performance.now() - startedMs) / 1000;
  const { code, stdout, stderr } = await audit.ended();
  if (code !== 0) throw new Error(`${name} ended with ${code}: ${stdout} ${stderr}`);
  const events = Number(/"(?:records|events)": *(\d+)/.exec(stdout)?.[1]);
  return [rate(name, 'events/s', events / seconds), ...figuresOf(name, events, new Map(), seen)];
}

async function mail(): Promise<Figure[]> {
  return [...(await mailCost('over a relay', RELAY)), ...(await mailCost('over a LAN', LAN))];
}

async function mailCost(over: string, ways: Ways): Promise<Figure[]> {
  const pair = await MailPair.begin(ways, NAMED_THREADS);
  try {
    await pair.confirmed(() => pair.send(WARMING, SENDERS), WARMING);
    const machines = Object.entries(pair.pids).map(([machine, pid]) => ({ machine, costs: costOf(pid) }));
    for (const { costs } of machines) costs.begin();
    const startedMs = performance.now();
    await pair.confirmed(() => pair.send(MESSAGES, SENDERS), MESSAGES);
    const perS = (MESSAGES * 1000) / (performance.now() - startedMs);
    const figures = machines.flatMap(({ machine, costs }) => costs.figures(`${over}, ${machine}`, MESSAGES));
    return [rate(over, 'messages/s', perS), ...figures];
  } finally {
    await pair.end();
  }
}

/** What the threads of a process take from `begin` on. */
function costOf(pid: number): { begin: () => void; figures: (name: string, count: number) => Figure[] } {
  let before: ThreadSeconds = new Map();
  return {
    begin: () => void (before = threadSeconds(pid)),
    figures: (name, count) => figuresOf(name, count, before, threadSeconds(pid)),
  };
}

/** A figure for all threads, and one for each kind that did anything. */
function figuresOf(name: string, count: number, before: ThreadSeconds, after: ThreadSeconds): Figure[] {
  const used = [...after].map(([id, { kind, seconds }]) => ({
    kind,
    us: (seconds - (before.get(id)?.seconds ?? 0)) * 1e6,
  }));
  const cost = (threads: typeof used): number => threads.reduce((sum, { us }) => sum + us, 0) / count;
  const figure = (of: string, value: number): Figure => ({
    name: `${name}: ${of}`,
    unit: 'us',
    better: 'less',
    values: [value],
  });
  const kinds = THREADS.map((kind) => figure(kind, cost(used.filter((thread) => thread.kind === kind))));
  return [figure('all threads', cost(used)), ...kinds.filter(({ values: [us = 0] }) => us > 0)];
}

function rate(name: string, unit: Unit, value: number): Figure {
  return { name, unit, better: 'more', values: [value] };
}
