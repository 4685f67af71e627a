/**
 * Mail between two hosts over a relay, end to end: sealed, stored and synced by its sender, pushed, pulled, opened, stored
 * and synced by its receiver, and the receipt back. The hosts are in this process with a store each, the relay has its own.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RETRY_TIMING } from '../src/host/core/outbox-event.ts';
import { type Refusal, isRefusal } from '../src/host/core/refusal.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { actingAgent, addAgent } from '../src/host/agents/agents.ts';
import { identityOf, newIdentityRow, signedEncKey } from '../src/host/peers/identity.ts';
import { createHostContext, type HostContext } from '../src/host/context.ts';
import { pinPeer } from '../src/host/peers/peers.ts';
import { generateSealKey } from '../src/host/mail/sealing.ts';
import { sendMail } from '../src/host/mail/send.ts';
import { createHostStore } from '../src/host/store/open.ts';
import { LanCarrier } from '../src/host/lan/send-batch.ts';
import { LanClient } from '../src/host/lan/lan-client.ts';
import { OutboxDispatcher } from '../src/host/outbox/dispatcher.ts';
import { RelayService } from '../src/host/relay/relay-service.ts';
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
  context: HostContext;
  side: RelayService;
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
  const context = createHostContext(store, identityOf(row), RETRY_TIMING, () => undefined);
  granted(await addAgent(context, { name: 'agent' }));
  const side = new RelayService({ context });
  const ending = new AbortController();
  const client = new LanClient(context, ending.signal);
  const lan = new LanCarrier({ context, client, onDoubt: () => undefined });
  const outbox = new OutboxDispatcher({ context, lan, relay: side.carrier });
  await outbox.start();
  const close = async (): Promise<void> => {
    const ended = outbox.stop();
    ending.abort();
    await side.stop();
    await ended;
    await store.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { context, side, agentId: granted(await actingAgent(context, 'agent')), close };
}

async function pin(here: BenchHost, there: BenchHost): Promise<void> {
  const identity = there.context.identity();
  const { hostName, signer } = identity;
  const other = { hostName, publicKey: signer.publicKey, encKey: signedEncKey(identity), address: null };
  granted(await here.context.store.transact((tx) => pinPeer(tx, here.context, other)));
}

async function ready(side: RelayService): Promise<void> {
  while ((await side.status()).state !== 'ready') await turn();
}

async function send({ context, agentId }: BenchHost): Promise<void> {
  granted(await sendMail(context, agentId, { to: ['agent@bob'], subject: 'bench', body: BODY }));
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

function counted({ context }: BenchHost, type: 'sent-changed' | 'mail-stored'): Counted {
  let count = 0;
  let waiting: (() => void)[] = [];
  context.subscribe((happening) => {
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
