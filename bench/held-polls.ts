/**
 * A cell of hosts that are connected and wait for mail, each with a long poll of its own: what one relay needs of
 * memory and processor time to begin a poll, and while all of them wait.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { WAIT_SECONDS_MAX } from '../src/protocol/limits.ts';
import { Connection } from './connection.ts';
import { cpuSecondsOf } from './cpu-seconds.ts';
import { BenchEngine } from './engine.ts';
import { signedRequest } from './pull.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';
import { type Figure, grouped } from './report.ts';
import { namedSigner } from './work.ts';

const POLLS = [0, 1_000, 5_000, 10_000] as const;
const OPENED_AT_ONCE = 50;
const CONNECTIONS = ['--max-connections', '12000', '--max-connections-per-address', '12000'];

/** As long as a relay holds one: all of them begin and are watched before the first ends. */
const WAIT = `/v2/relay/items?wait=${WAIT_SECONDS_MAX}`;
const SETTLED_MS = 2_000;
const WATCHED_MS = 10_000;

export async function heldPolls(): Promise<Figure[]> {
  const made = await BenchEngine.start();
  await made.enrolAll(Array.from({ length: POLLS.at(-1) ?? 0 }, (_none, at) => namedSigner(`host-${at}`).publicKey));
  await made.collected();
  await made.close();
  const relay = await startBenchRelay({ folder: made.folder, args: CONNECTIONS });
  try {
    const before = needed(relay);
    const figures: Figure[] = [];
    for (const polls of POLLS) figures.push(...(await held(relay, polls, before.rssMb)));
    return figures;
  } finally {
    await relay.stop();
    made.removeClosed();
  }
}

async function held(relay: BenchRelay, polls: number, emptyMb: number): Promise<Figure[]> {
  const atStart = needed(relay);
  const open: Connection[] = [];
  let ended = 0;
  while (open.length < polls) {
    const names = Array.from(
      { length: Math.min(OPENED_AT_ONCE, polls - open.length) },
      (_none, at) => open.length + at,
    );
    const opening = names.map(async (at) => {
      const connection = await Connection.open(relay.port);
      const poll = connection.send(signedRequest(relay, `host-${at}`, 'GET', WAIT));
      // Answered, or its connection is closed.
      void poll.catch(() => undefined).then(() => ended++);
      return connection;
    });
    open.push(...(await Promise.all(opening)));
  }
  await elapsed(SETTLED_MS);
  const begun = needed(relay);
  await elapsed(WATCHED_MS);
  const after = needed(relay);
  const note = ended > 0 ? `${ended} of them ended meanwhile: the machine is too busy` : undefined;
  for (const connection of open) connection.close();
  const figure = (what: string, unit: Figure['unit'], value: number): Figure => {
    return { name: `${grouped(polls)} polls: ${what}`, unit, better: 'less', values: [value], ...(note && { note }) };
  };
  const each = [
    figure('memory for each', 'bytes', ((begun.rssMb - emptyMb) * 2 ** 20) / polls),
    figure('processor time to begin one', 'ms', ((begun.cpuSeconds - atStart.cpuSeconds) * 1000) / polls),
  ];
  return [
    figure('RSS', 'MB', after.rssMb),
    ...(polls === 0 ? [] : each),
    figure('processor time of a second of waiting', 'ms', ((after.cpuSeconds - begun.cpuSeconds) * 1e6) / WATCHED_MS),
  ];
}

function needed(relay: BenchRelay): { rssMb: number; cpuSeconds: number } {
  return { rssMb: relay.memoryMb('VmRSS'), cpuSeconds: cpuSecondsOf(relay.pid) };
}
