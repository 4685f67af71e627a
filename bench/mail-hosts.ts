/** Two hosts in this process, each with a store that syncs, that send each other mail over loopback or a relay. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RETRY_TIMING } from '../src/host/core/outbox-event.ts';
import { type Refusal, isRefusal } from '../src/host/core/refusal.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { actingAgent, addAgent } from '../src/host/agents/agents.ts';
import { identityOf, newIdentityRow, signedEncKey } from '../src/host/peers/identity.ts';
import { createHostContext, type HostContext, type HostEvent } from '../src/host/context.ts';
import { pinPeer } from '../src/host/peers/peers.ts';
import { generateSealKey } from '../src/host/mail/sealing.ts';
import { sendMail } from '../src/host/mail/send.ts';
import { createHostStore } from '../src/host/store/open.ts';
import { LanService } from '../src/host/lan/lan-service.ts';
import { OutboxDispatcher } from '../src/host/outbox/dispatcher.ts';
import { RelayService } from '../src/host/relay/relay-service.ts';
import type { HostName } from '../src/protocol/names.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';

/** What changes of one message that was sent: it is there, and its receipt came. */
const CHANGES = 2;
export const BODY_BYTES = 1000;
const BODY = 'x'.repeat(BODY_BYTES);
const READY_EVERY_MS = 5;

/** Which ways there are between the hosts. */
export interface Ways {
  lan: boolean;
  relay: boolean;
}

interface BenchHost {
  context: HostContext;
  lan: LanService;
  side: RelayService;
  agentId: AgentId;
  close(): Promise<void>;
}

export class MailPair {
  readonly #alice: BenchHost;
  readonly #bob: BenchHost;
  readonly #relay: BenchRelay | undefined;
  readonly #receipts: EventCount;
  readonly #arrivals: EventCount;

  private constructor(alice: BenchHost, bob: BenchHost, relay: BenchRelay | undefined) {
    this.#alice = alice;
    this.#bob = bob;
    this.#relay = relay;
    this.#receipts = new EventCount(alice, 'sent-changed');
    this.#arrivals = new EventCount(bob, 'mail-stored');
  }

  /** Resolves when a message has gone there and its receipt has come back. */
  static async begin(ways: Ways): Promise<MailPair> {
    const relay = ways.relay ? await startBenchRelay() : undefined;
    const [alice, bob] = [await hostNamed('alice'), await hostNamed('bob')];
    if (ways.lan) {
      for (const { lan } of [alice, bob]) await lan.start();
      const { code } = granted(await bob.lan.invite());
      granted(await alice.lan.accept({ code, address: `127.0.0.1:${bob.lan.port}` }));
    } else {
      await pin(alice, bob);
      await pin(bob, alice);
    }
    if (relay)
      for (const { side } of [bob, alice]) {
        side.start();
        granted(await side.set({ url: `http://127.0.0.1:${relay.port}` }));
        while ((await side.status()).state !== 'ready') await turn();
      }
    const pair = new MailPair(alice, bob, relay);
    await pair.confirmed(() => pair.send(), 1);
    return pair;
  }

  /** Resolves when the message is durable at its sender's host. */
  async send(): Promise<void> {
    const { context, agentId } = this.#alice;
    granted(await sendMail(context, agentId, { to: ['agent@bob'], subject: 'bench', body: BODY }));
  }

  /** Resolves when `messages` more are confirmed to the sender's host than when `work` began. */
  confirmed(work: () => Promise<void>, messages: number): Promise<void> {
    return this.#receipts.after(work, messages * CHANGES);
  }

  /** Resolves when the receiver's host has stored one more. */
  arrived(work: () => Promise<void>): Promise<void> {
    return this.#arrivals.after(work, 1);
  }

  /** The receiver's host cannot be reached over the LAN any more. */
  async loseLan(): Promise<void> {
    await this.#bob.lan.stop();
  }

  async end(): Promise<void> {
    for (const host of [this.#alice, this.#bob]) await host.close();
    await this.#relay?.stop();
  }
}

class EventCount {
  #count = 0;
  #waiting: { wanted: number; resolve: () => void }[] = [];

  constructor({ context }: BenchHost, type: HostEvent['type']) {
    context.subscribe((happening) => {
      if (happening.type !== type) return;
      this.#count++;
      for (const { wanted, resolve } of this.#waiting) if (this.#count >= wanted) resolve();
      this.#waiting = this.#waiting.filter(({ wanted }) => this.#count < wanted);
    });
  }

  async after(work: () => Promise<void>, times: number): Promise<void> {
    const wanted = this.#count + times;
    const reached = new Promise<void>((resolve) => {
      this.#waiting.push({ wanted, resolve });
    });
    await Promise.all([work(), reached]);
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
  const listen = { host: '127.0.0.1', port: 0 };
  const lan = new LanService({ context, listen, advertise: undefined, version: 'bench' });
  const outbox = new OutboxDispatcher({ context, lan: lan.carrier, relay: side.carrier });
  await outbox.start();
  const close = async (): Promise<void> => {
    const ended = outbox.stop();
    await lan.stop();
    await side.stop();
    await ended;
    await store.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { context, lan, side, agentId: granted(await actingAgent(context, 'agent')), close };
}

/** Hosts that know each other's keys, and no address. */
async function pin(here: BenchHost, there: BenchHost): Promise<void> {
  const identity = there.context.identity();
  const { hostName, signer } = identity;
  const other = { hostName, publicKey: signer.publicKey, encKey: signedEncKey(identity), address: null };
  granted(await here.context.store.transact((tx) => pinPeer(tx, here.context, other)));
}

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, READY_EVERY_MS);
  });
}

function granted<T>(value: T | Refusal): T {
  if (isRefusal(value)) throw new Error(value.message);
  return value;
}
