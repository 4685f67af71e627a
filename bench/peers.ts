/**
 * The cell `peers`: a push into a relay beside a push into Redis Streams, NATS JetStream and a queue table in
 * PostgreSQL, in one run on one machine. Every system has a server of its own on loopback, a new store for each round,
 * the same items and as many connections, and answers when an item is on disk. None of the others checks a signature or
 * signs. The relay is asked in JSON, where it signs each receipt, and as hosts ask it: in the binary form, where it
 * signs once a request.
 */
import { execFileSync } from 'node:child_process';
import { POSTGRES, type Program, findProgram } from '../test/support/programs.ts';
import { byTurns, timed } from './figures.ts';
import type { Peer, PeerConnection } from './peer.ts';
import { startNats } from './peer-nats.ts';
import { startQueueTable } from './peer-postgres.ts';
import { startRedis } from './peer-redis.ts';
import { push } from './push.ts';
import { startBenchRelay } from './relay-process.ts';
import type { Figure } from './report.ts';
import { syncsDuring } from './syncs.ts';
import { type Form, sealedEnvelope } from './work.ts';

const ITEM_BYTES = 1024;
const LOADS = {
  batch: { title: '200 x 1 KiB a request, 4 connections', connections: 4, items: 200, requests: 40 },
  single: { title: '1 KiB a request, 64 connections', connections: 64, items: 1, requests: 100 },
} as const;
/** While syncs are counted. */
const COUNTED_REQUESTS = 20;

const REDIS: Program = {
  title: 'Redis',
  variable: 'POSTE_REDIS',
  names: ['redis-server'],
  places: [],
  install: 'apt-get install redis-server',
};
const NATS: Program = {
  title: 'NATS',
  variable: 'POSTE_NATS',
  names: ['nats-server'],
  places: [],
  install: 'apt-get install nats-server',
};

interface System {
  name: string;
  program: Program;
  /** In Debian. */
  package: string;
  start(program: string): Promise<Peer>;
}

const SYSTEMS: readonly System[] = [
  { name: 'Redis Streams', program: REDIS, package: 'redis-server', start: startRedis },
  { name: 'JetStream', program: NATS, package: 'nats-server', start: (program) => startNats(program, true) },
  { name: 'JetStream, unsynced', program: NATS, package: 'nats-server', start: (program) => startNats(program, false) },
  { name: 'PostgreSQL table', program: POSTGRES, package: 'postgresql', start: startQueueTable },
];
const POSTE: Readonly<Record<string, Form>> = { Poste: 'JSON', 'Poste, binary': 'binary' };
/** What the binary form is to reach of the rate of each, in batches. */
const GOALS: Readonly<Record<string, number>> = {
  'Redis Streams': 0.4,
  JetStream: 5,
  'JetStream, unsynced': 1,
  'PostgreSQL table': 0.45,
};

type LoadName = keyof typeof LOADS;
type Rates = ReadonlyMap<string, readonly number[]>;

/** The file of a system's server; installs Debian's package where that can be done, and says what to do where not. */
function serverOf({ program, package: name }: System): string | undefined {
  const found = findProgram(program);
  if (found !== undefined) return found;
  if (process.getuid?.() === 0) {
    try {
      console.log(`installs ${name}: apt-get install --yes ${name}`);
      execFileSync('apt-get', ['install', '--yes', '--no-install-recommends', name], { stdio: 'ignore' });
      return findProgram(program);
    } catch {
      // Not Debian, or no network: said below like on every other machine.
    }
  }
  console.log(`${program.title} is left out: it is not here (${program.install})`);
  return undefined;
}

async function pushTo(peer: Pick<Peer, 'connect'>, { connections, items, requests }: Shape): Promise<number> {
  const open: PeerConnection[] = await Promise.all(Array.from({ length: connections }, () => peer.connect()));
  // Made before the clock starts, as those for the relay are.
  const lanes = open.map(() =>
    Array.from({ length: requests }, () =>
      Array.from({ length: items }, (_none, at) => sealedEnvelope(`item-${at}`, ITEM_BYTES)),
    ),
  );
  const { seconds } = await timed(lanes, (request, lane) => open[lane]!.push(request));
  await Promise.all(open.map((connection) => connection.close()));
  return (connections * requests * items) / seconds;
}

interface Shape {
  connections: number;
  items: number;
  requests: number;
}

async function pushToRelay({ connections, items, requests }: Shape, form: Form): Promise<number> {
  const relay = await startBenchRelay();
  try {
    const load = { relay, connections, requestsPerConnection: requests, itemsPerRequest: items, itemBytes: ITEM_BYTES };
    const { seconds } = await push({ ...load, form });
    return (connections * requests * items) / seconds;
  } finally {
    await relay.stop();
  }
}

/** Prints what the servers do to be durable, counted in a run of its own: tracing makes a server slow. */
async function printSyncs(servers: Map<System, string>): Promise<void> {
  const shape = { connections: 1, items: LOADS.batch.items, requests: COUNTED_REQUESTS };
  const print = (
    name: string,
    peer: Pick<Peer, 'version' | 'durability' | 'syncedBy'>,
    syncs: number | undefined,
  ): void => {
    const counted = syncs === undefined ? 'not counted (needs strace)' : `${syncs} for ${COUNTED_REQUESTS} requests`;
    console.log(
      `  ${name.padEnd(20)} ${peer.version}: ${peer.durability}; ` +
        `${peer.syncedBy === 'syncs' ? 'calls that sync' : 'writes'}: ${counted}`,
    );
  };
  console.log(`what is on disk when a server answers; ${COUNTED_REQUESTS} requests of 200 x 1 KiB on one connection`);
  for (const [system, program] of servers) {
    const peer = await system
      .start(program)
      .catch((error: unknown) => console.log(`  ${system.name} is left out: ${String(error)}`));
    if (!peer) {
      servers.delete(system);
      continue;
    }
    try {
      print(
        system.name,
        peer,
        await syncsDuring(peer.pid, peer.syncedBy, async () => void (await pushTo(peer, shape))),
      );
    } finally {
      await peer.stop();
    }
  }
  const relay = await startBenchRelay();
  try {
    const load = { relay, connections: 1, itemsPerRequest: shape.items, itemBytes: ITEM_BYTES };
    const work = async (): Promise<void> => void (await push({ ...load, requestsPerConnection: COUNTED_REQUESTS }));
    const durability = 'every batch is synced before its answers; hops verified, a signed receipt for each item';
    print('Poste', { version: 'this one', durability, syncedBy: 'syncs' }, await syncsDuring(relay.pid, 'syncs', work));
  } finally {
    await relay.stop();
  }
}

async function measured(name: LoadName, servers: ReadonlyMap<System, string>, rounds: number): Promise<Figure[]> {
  const load = LOADS[name];
  const turns = new Map([
    ...Object.entries(POSTE).map(([poste, form]): [string, () => Promise<number>] => [
      poste,
      () => pushToRelay(load, form),
    ]),
    ...[...servers].map(([system, program]): [string, () => Promise<number>] => [
      system.name,
      async () => {
        const peer = await system.start(program);
        try {
          return await pushTo(peer, load);
        } finally {
          await peer.stop();
        }
      },
    ]),
  ]);
  return figuresOf(name, await byTurns(rounds, [...turns.keys()], (of) => turns.get(of)!()));
}

function figuresOf(name: LoadName, rates: Rates): Figure[] {
  const figures = [...rates].map(([of, values]): Figure => {
    return { name: `${name}: ${of}`, unit: 'items/s', better: 'more', values: [...values] };
  });
  const ratios = Object.entries(POSTE).flatMap(([poste, form]) =>
    Object.keys(GOALS).flatMap((of): Figure[] => {
      const [ours, theirs] = [rates.get(poste), rates.get(of)];
      if (!ours || !theirs) return [];
      const values = ours.map((rate, round) => rate / (theirs[round] ?? Number.NaN));
      const goal = name === 'batch' && form === 'binary' ? { goal: GOALS[of]! } : {};
      return [{ name: `${name}: ${poste} / ${of}`, unit: 'ratio', better: 'more', values, ...goal }];
    }),
  );
  return [...figures, ...ratios];
}

export const PEERS_TITLE = `durable pushes beside other systems; ${Object.entries(LOADS)
  .map(([name, { title }]) => `${name}: ${title}`)
  .join('; ')}`;

export async function peers(rounds: number): Promise<Figure[]> {
  const servers = new Map<System, string>();
  for (const system of SYSTEMS) {
    const program = serverOf(system);
    if (program !== undefined) servers.set(system, program);
  }
  await printSyncs(servers);
  const figures: Figure[] = [];
  for (const name of Object.keys(LOADS) as LoadName[]) figures.push(...(await measured(name, servers, rounds)));
  return figures;
}
