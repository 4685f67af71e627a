/** The relay of the pictures: a few hosts, some mail that waits, and a backup. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { DAY_MS, DEFAULT_LIMITS } from '../../src/protocol/limits.ts';
import { startRelay } from '../../src/relay/relay.ts';
import { type TestHost, hostNamed, relay as relayHost } from '../../test/support/hosts.ts';
import { envelopeWire, itemTo } from '../../test/support/mail.ts';
import { ManualTimers } from '../../test/support/manual-time.ts';
import { clock, liveAt } from './clock.ts';

const HOSTS = ['laptop', 'desktop', 'build-1', 'build-2', 'lab'].map((name) => hostNamed(name));
const SAMPLE_MS = 2000;
/** The samples of the quarter of an hour that the charts show. */
const SAMPLES = 440;
const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

interface ShownRelay {
  url: string;
  /** A one-time link to its console. */
  link: () => Promise<string>;
  stop: () => Promise<void>;
}

export async function startShownRelay(folder: string): Promise<ShownRelay> {
  liveAt(15);
  const timers = new ManualTimers();
  const backups = { folder: join(folder, 'backups'), keep: 7, everyMs: DAY_MS };
  mkdirSync(backups.folder, { recursive: true });
  const storeDir = join(folder, 'store');
  let drawn = 0;
  const relay = await startRelay({
    storeDir,
    signer: relayHost.signer,
    listen: { host: '127.0.0.1', port: 0 },
    adminListen: { host: '127.0.0.1', port: 0 },
    limits: DEFAULT_LIMITS,
    pushesPerMinute: 1_000_000,
    enrolRate: 1_000_000,
    enrolmentsMax: 1000,
    admission: 'open',
    dedupRowsMax: 1_000_000,
    sweepMs: 59_000,
    backups,
    diskFloorBytes: 0,
    freeBytes: () => Promise.resolve(42 * 2 ** 30),
    trustProxy: 'none',
    bodyBytesMax: 8_388_608,
    version: '0.1.0',
    server: 'node',
    clock,
    timers,
    randomBytes: (count) => Buffer.alloc(count, hash('sha256', `picture ${drawn++}`, 'buffer')),
    log: QUIET,
  });
  const url = `http://127.0.0.1:${relay.port}`;
  const clientOf = ({ signer, name }: TestHost): RelayClient =>
    new RelayClient({ url, signer, hostName: name, nowMs: () => clock.nowMs() }, relayHost.key);
  const clients = HOSTS.map(clientOf);
  for (const client of clients) {
    await client.enrol();
    await client.ownInfo();
  }
  await exchangeMail(clients, async () => {
    // A write that is under way would seem to last until the clock has moved.
    await relay.engine.durable();
    await setImmediate();
    clock.move(SAMPLE_MS);
    timers.pass(SAMPLE_MS);
  });
  liveAt(0);
  const control = new ControlClient(storeDir);
  return { url, link: async () => (await control.post('/v1/console', {})).url, stop: () => relay.stop() };
}

/** Mail goes between all of them in waves; the last host is away, and what is for it waits. */
async function exchangeMail(clients: readonly RelayClient[], sample: () => Promise<void>): Promise<void> {
  const present = clients.slice(0, -1);
  for (let turn = 0; turn < SAMPLES; turn++) {
    const wave = 3 + Math.round(3 * Math.sin(turn / 24)) + (turn % 3);
    const items = Array.from({ length: wave }, (_none, at) => {
      const target = HOSTS[(turn + at + 1) % present.length] as TestHost;
      return itemTo([target], `turn-${turn}-${at}`, envelopeWire(`turn-${turn}-${at}`, 2000));
    });
    const away = HOSTS.at(-1) as TestHost;
    if (turn % 40 === 0) items.push(itemTo([away], `away-${turn}`, envelopeWire(`away-${turn}`, 30_000)));
    await present[turn % present.length]?.push(items);
    const client = present[(turn * 3) % present.length] as RelayClient;
    const page = await client.pull();
    const last = page.items.at(-1);
    if (last) await client.ack(page.epoch, last.seq);
    await sample();
  }
}
