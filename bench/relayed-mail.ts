/**
 * Mail between two hosts over a relay, end to end: sealed, stored and synced by its sender, pushed, pulled, opened, stored
 * and synced by its receiver, and the receipt back. The hosts are in this process with a store each, the relay has its own.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Refusal, isRefusal } from '../src/host/core/refusal.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { actingAgent } from '../src/host/office/acting-agent.ts';
import { addAgent } from '../src/host/office/agents.ts';
import { identityOf, newIdentityRow, signedEncKey } from '../src/host/office/identity.ts';
import type { Office } from '../src/host/office/office.ts';
import { pinPeer } from '../src/host/office/peers.ts';
import { generateSealKey } from '../src/host/office/sealing.ts';
import { sendMail } from '../src/host/office/send.ts';
import { ownOffice } from '../src/host/own-office.ts';
import { createHostStore } from '../src/host/store/open.ts';
import { RelaySide } from '../src/host/transport/relay-side/relay-side.ts';
import type { HostName } from '../src/protocol/names.ts';
import { quantile } from './figures.ts';
import { startBenchRelay } from './relay-process.ts';

const MESSAGES = 2000;
/** Senders that each wait for one answer before they send again. */
const AT_ONCE = 50;
const ONE_BY_ONE = 200;
/** What changes of one message that was sent: it is there, and its receipt came. */
const CHANGES = 2;
const BODY = 'x'.repeat(1000);

export interface RelayedMailFigures {
  /** From the first send to the last receipt, in the sender's store. */
  messagesPerS: number;
  /** Of one message at a time: from the call of the sender's agent until it is in the receiver's mailbox. */
  arrivedMs: number[];
  /** And until the sender's host knows that it is. */
  confirmedMs: number[];
}

interface BenchHost {
  office: Office;
  side: RelaySide;
  agentId: AgentId;
  close(): Promise<void>;
}

export async function relayedMail(): Promise<RelayedMailFigures> {
  const relay = await startBenchRelay();
  const [alice, bob] = [await hostNamed('alice'), await hostNamed('bob')];
  try {
    await pin(alice, bob);
    await pin(bob, alice);
    for (const { side } of [bob, alice]) {
      side.start();
      granted(await side.set({ url: `http://127.0.0.1:${relay.port}` }));
      await ready(side);
    }
    const receipts = counted(alice, 'sent-changed');
    const arrivals = counted(bob, 'mail-stored');
    await receipts.after(() => send(alice), CHANGES);
    const { arrivedMs, confirmedMs } = await oneByOne(alice, arrivals, receipts);
    const startedMs = performance.now();
    await receipts.after(() => all(alice), MESSAGES * CHANGES);
    const messagesPerS = MESSAGES / ((performance.now() - startedMs) / 1000);
    return { messagesPerS, arrivedMs, confirmedMs };
  } finally {
    for (const host of [alice, bob]) await host.close();
    await relay.stop();
  }
}

/** Prints them, and how one message compares with the median of all. */
export async function printRelayedMail(): Promise<void> {
  const { messagesPerS, arrivedMs, confirmedMs } = await relayedMail();
  console.log(`mail of 1 KB between two hosts over a relay, to the receipt: ${messagesPerS.toFixed(0)} messages/s`);
  for (const [what, tookMs] of [
    ['one message, until it has arrived', arrivedMs],
    ['one message, until its sender knows', confirmedMs],
  ] as const) {
    const [median, p99] = [quantile(tookMs, 0.5), quantile(tookMs, 0.99)];
    console.log(`  ${what.padEnd(42)} median ${median.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`);
  }
}

async function hostNamed(name: string): Promise<BenchHost> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const store = await createHostStore(join(folder, 'store'), (error) => {
    throw error;
  });
  const { enc_pub: encPub, secret } = await generateSealKey();
  const identity = { hostName: name as HostName, seed: randomBytes(32), sealKey: { encPub, secret } };
  const row = newIdentityRow({ ...identity, nowMs: Date.now() });
  await store.transact((tx) => tx.put('identity', [], row));
  const office = ownOffice(store, identityOf(row), () => undefined);
  granted(await addAgent(office, { name: 'agent' }));
  const side = new RelaySide({ office });
  const close = async (): Promise<void> => {
    await side.stop();
    await store.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { office, side, agentId: granted(await actingAgent(office, 'agent')), close };
}

async function pin(here: BenchHost, there: BenchHost): Promise<void> {
  const identity = there.office.identity();
  const { hostName, signer } = identity;
  const other = { hostName, publicKey: signer.publicKey, encKey: signedEncKey(identity), address: null };
  granted(await here.office.store.transact((tx) => pinPeer(tx, here.office, other)));
}

async function ready(side: RelaySide): Promise<void> {
  while ((await side.status()).state !== 'ready') await turn();
}

async function send({ office, agentId }: BenchHost): Promise<void> {
  granted(await sendMail(office, agentId, { to: ['agent@bob'], subject: 'bench', body: BODY }));
}

async function all(host: BenchHost): Promise<void> {
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let sent = 0; sent < MESSAGES / AT_ONCE; sent++) await send(host);
    }),
  );
}

interface Counted {
  /** Resolves when `work` is done, and this happened `times` more since it began. */
  after(work: () => Promise<void>, times?: number): Promise<void>;
}

async function oneByOne(
  alice: BenchHost,
  arrivals: Counted,
  receipts: Counted,
): Promise<Pick<RelayedMailFigures, 'arrivedMs' | 'confirmedMs'>> {
  const arrivedMs: number[] = [];
  const confirmedMs: number[] = [];
  for (let sent = 0; sent < ONE_BY_ONE; sent++) {
    const startedMs = performance.now();
    const took = (of: number[]) => (): void => void of.push(performance.now() - startedMs);
    const arrived = arrivals.after(() => Promise.resolve()).then(took(arrivedMs));
    await receipts.after(() => send(alice), CHANGES).then(took(confirmedMs));
    await arrived;
  }
  return { arrivedMs, confirmedMs };
}

function counted({ office }: BenchHost, type: 'sent-changed' | 'mail-stored'): Counted {
  let count = 0;
  let waiting: (() => void)[] = [];
  office.listen((happening) => {
    if (happening.type !== type) return;
    count++;
    for (const look of waiting) look();
  });
  const reaches = (wanted: number): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (count >= wanted) resolve();
      };
      waiting = [look];
      look();
    });
  return {
    after: async (work, times = 1) => {
      const wanted = count + times;
      await Promise.all([work(), reaches(wanted)]);
    },
  };
}

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 5);
  });
}

function granted<T>(value: T | Refusal): T {
  if (isRefusal(value)) throw new Error(value.message);
  return value;
}
