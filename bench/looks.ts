/**
 * A cell of hosts that look at the log of their relay: what one look costs the relay, with eight proofs of items, and
 * what a thousand hosts take that look every ten minutes.
 */
import { randomBytes } from 'node:crypto';
import { Connection } from './connection.ts';
import { costOf } from './cpu.ts';
import { NAMED_THREADS } from './cpu-seconds.ts';
import { BenchEngine } from './engine.ts';
import { timed } from './figures.ts';
import { signedRequest } from './pull.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';
import { type Figure, less } from './report.ts';
import { namedSigner, sealedEnvelope } from './work.ts';

const HOSTS = 1_000;
const LOOK_EVERY_SECONDS = 600;
/** As many as a host asks about after a look. */
const PROOFS = 8;
const CONNECTIONS = 4;
const ITEM_BYTES = 300;
/** The leaves that came since the note that a host has. */
const GREW_BY = 1_000;
const PUSHED_AT_ONCE = 500;

/** The log has a leaf for each of `leaves` items, and for each of those that are proven. */
export async function looks(leaves: number): Promise<Figure[]> {
  const made = await storeOfItems(leaves);
  const relay = await startBenchRelay({ folder: made.folder, environment: NAMED_THREADS });
  try {
    const open = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(relay.port)));
    const hosts = Array.from({ length: HOSTS }, (_none, at) => at);
    const lanes = open.map((_one, lane) => hosts.filter((host) => host % CONNECTIONS === lane));
    const cost = costOf(relay.pid);
    const all = (): ReturnType<typeof timed> => timed(lanes, (host, lane) => look(relay, open[lane]!, host));
    await all();
    cost.begin();
    const { seconds } = await all();
    for (const connection of open) connection.close();
    const costs = cost.figures(`a look with ${PROOFS} proofs`, HOSTS);
    const [
      {
        values: [usPerLook = Number.NaN],
      } = { values: [] },
    ] = costs;
    const msEachSecond = (usPerLook * HOSTS) / LOOK_EVERY_SECONDS / 1000;
    return [
      ...costs,
      less(`${HOSTS} hosts that look every ten minutes: processor time a second`, 'ms', msEachSecond, 20),
      less('a look, by clock', 'ms', (seconds * 1000 * CONNECTIONS) / HOSTS),
    ];
  } finally {
    await relay.stop();
    made.removeClosed();
  }
}

async function storeOfItems(leaves: number): Promise<BenchEngine> {
  const made = await BenchEngine.start();
  const keys = Array.from({ length: HOSTS }, (_none, host) => namedSigner(nameOf(host)).publicKey);
  await made.enrolAll(keys);
  const target = keys[0]!;
  const idOf = (at: number): string =>
    at < HOSTS * PROOFS ? itemIdOf(at % HOSTS, Math.floor(at / HOSTS)) : `other-${at}`;
  for (let from = 0; from < leaves; from += PUSHED_AT_ONCE) {
    const items = Array.from({ length: PUSHED_AT_ONCE }, (_none, nth) => {
      const id = idOf(from + nth);
      return { sender: keys[(from + nth) % HOSTS]!, target, id, wire: sealedEnvelope(id, ITEM_BYTES) };
    });
    await made.push(items, Date.now());
  }
  await made.close();
  return made;
}

/** What a host asks where its relay is honest: the newest head, that it continues the one before, and its own rows. */
async function look(relay: BenchRelay, connection: Connection, host: number): Promise<void> {
  const ask = async (target: string): Promise<string> => {
    const { status, start } = await connection.send(signedRequest(relay, nameOf(host), 'GET', target));
    if (status !== 200) throw new Error(`${target} was answered ${status} ${start}`);
    return start;
  };
  const head = await ask(`/v2/relay/log/checkpoint?after=${randomBytes(32).toString('base64url')}`);
  const size = Number(head.split('\n')[1]);
  await ask(`/v2/relay/log/consistency?from=${size - GREW_BY}&to=${size}`);
  const target = encodeURIComponent(namedSigner(nameOf(0)).publicKey);
  for (let nth = 0; nth < PROOFS; nth++)
    await ask(`/v2/relay/log/proof?item_id=${encodeURIComponent(itemIdOf(host, nth))}&target=${target}&size=${size}`);
}

function nameOf(host: number): string {
  return `looking-${host}`;
}

function itemIdOf(host: number, nth: number): string {
  return `proven-${host}-${nth}`;
}
