/** Hosts that reach each other over a relay alone: real stores and keys, a relay side each, paired by hand. */
import { randomBytes } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { onTestFinished } from 'vitest';
import {
  type Address,
  type AgentId,
  type Identity,
  type MessageRef,
  type MessageRow,
  type OutboxRow,
  OWNER_ID,
  type PeerId,
  type PeerRow,
} from '../../src/host/core/rows.ts';
import { isRefusal } from '../../src/host/core/refusal.ts';
import { type HostContext, EventBus } from '../../src/host/base/context.ts';
import { identityOf, loadIdentity, newIdentityRow, signedEncKey } from '../../src/host/peers/identity.ts';
import { peerOfName, pinPeer } from '../../src/host/peers/peers.ts';
import { generateSealKey } from '../../src/host/wire/sealing.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import type { RelayTiming } from '../../src/host/relay/relay-timing.ts';
import { writeToOwner } from '../../src/host/mail/post.ts';
import { reportToAgent } from '../../src/host/mailbox/mailbox.ts';
import { RelayMover } from '../../src/host/relay/relay-move.ts';
import { RelayService } from '../../src/host/relay/relay-service.ts';
import { LanCarrier } from '../../src/host/lan/send-batch.ts';
import { OutboxDispatcher } from '../../src/host/outbox/dispatcher.ts';
import { LanClient } from '../../src/host/lan/lan-client.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { ManualTimers } from './manual-time.ts';
import { type Death, Mortality } from './mortal-store.ts';
import { sendSealed } from './paired-contexts.ts';
import { disposableFolder } from './temporary-folder.ts';
import { NOON_MS } from './test-clock.ts';
import { contextWithoutStore } from './test-context.ts';
import { found } from './found.ts';
import { rowsOf } from './stored-rows.ts';

/** Short pauses: what they wait for is in this process. There is no look that a test does not ask for. */
const TIMING: Partial<RelayTiming> = { pauseFirstMs: 10, pauseMaxMs: 40, pollMs: 20, lookSettleMs: 3_600_000 };

export interface Said {
  level: string;
  message: string;
}

/** What never goes back is the clock of the process, unless it is given. */
export interface ContextClock {
  nowMs(): number;
  steadyMs?(): number;
}

export class RelayContext {
  readonly name: string;
  readonly clock: ContextClock;
  readonly events = new EventBus();
  readonly said: Said[] = [];
  context!: HostContext;
  store!: HostStore;
  side: RelayService | undefined;
  mover: RelayMover | undefined;
  /** Of the mover: the test says when time passes. */
  readonly timers = new ManualTimers();
  readonly timing: Partial<RelayTiming>;
  #outbox: OutboxDispatcher | undefined;
  #mortality!: Mortality;
  #stopping = new AbortController();
  #identity!: Identity;
  readonly #folder: string;

  private constructor(name: string, folder: string, clock: ContextClock, timing: Partial<RelayTiming>) {
    this.name = name;
    this.clock = clock;
    this.timing = { ...TIMING, ...timing };
    this.#folder = folder;
    this.events.subscribe('context', {
      'identity-changed': ({ identity }) => {
        this.#identity = identity;
      },
    });
  }

  /** Like the daemon's. What a life that was killed still does stays with its own store. */
  #live(store: HostStore): void {
    this.store = store;
    this.#mortality = new Mortality(store);
    const parts = contextWithoutStore({
      identity: () => this.#identity,
      nowMs: () => this.clock.nowMs(),
      monotonicMs: () => this.clock.steadyMs?.() ?? performance.now(),
      randomBytes,
      bus: this.events,
    });
    this.context = { ...parts, store, log: (level, message) => void this.said.push({ level, message }) };
  }

  /** For one test; call it inside. */
  static async open(
    name: string,
    clock: ContextClock = { nowMs: () => NOON_MS },
    timing: Partial<RelayTiming> = {},
  ): Promise<RelayContext> {
    const { folder, remove } = await disposableFolder();
    const host = new RelayContext(name, folder, clock, timing);
    host.#live(await createHostStore(folder, () => undefined));
    const { enc_pub: encPub, secret } = await generateSealKey();
    const identity = { hostName: name as HostName, seed: randomBytes(32), sealKey: { encPub, secret } };
    const row = newIdentityRow({ ...identity, nowMs: clock.nowMs() });
    await host.store.transact((tx) => tx.put('identity', [], row));
    host.#identity = identityOf(row);
    onTestFinished(async () => {
      await host.stop();
      await host.store.close();
      await remove();
    });
    return host;
  }

  get key(): Identity['signer']['publicKey'] {
    return this.#identity.signer.publicKey;
  }

  /** Sets the relay and starts what uses it. */
  async use(url: string, more: { key?: string; token_file?: string; token_command?: string } = {}): Promise<void> {
    this.start();
    const set = await this.side?.set({ url, ...more });
    if (!set || isRefusal(set)) throw new Error(`the relay was not set: ${JSON.stringify(set)}`);
  }

  start(): void {
    this.#stopping = new AbortController();
    const { context } = this;
    const side = new RelayService({ context, timing: this.timing });
    const client = new LanClient(context, this.#stopping.signal);
    const lan = new LanCarrier({ context, client, onDoubt: () => undefined });
    const outbox = new OutboxDispatcher({ context, lan, relays: side });
    this.side = side;
    this.#outbox = outbox;
    this.mover = new RelayMover({
      context,
      timers: this.timers,
      relays: side,
      write: (peerId, words, key) => writeToOwner(context, peerId, words, key),
      report: (tx, words) => void reportToAgent(tx, context, OWNER_ID, { ...words, kind: 'status' }),
    });
    side.start();
    this.mover.start();
    void outbox.start().catch(() => undefined);
  }

  /** Looks at the whole outbox, as a timer would. */
  async pass(): Promise<void> {
    await this.#outbox?.wakeAll();
  }

  async stop(): Promise<void> {
    const { side } = this;
    const outbox = this.#outbox;
    this.side = undefined;
    this.#outbox = undefined;
    const ended = outbox?.stop();
    this.#stopping.abort();
    await this.mover?.stop();
    await side?.stop();
    await ended;
  }

  /** As a daemon that ended and was started anew. */
  async restart(): Promise<void> {
    await this.stop();
    await this.store.close();
    this.#live(await openHostStore(this.#folder, () => undefined));
    this.start();
  }

  /** Another host over a copy of all that this one has, not started: as somebody who got at its home would have it. */
  async copy(): Promise<RelayContext> {
    const wasUp = this.side !== undefined;
    await this.stop();
    await this.store.close();
    const { folder, remove } = await disposableFolder();
    await cp(this.#folder, folder, { recursive: true });
    this.#live(await openHostStore(this.#folder, () => undefined));
    if (wasUp) this.start();
    const copied = new RelayContext(this.name, folder, this.clock, this.timing);
    copied.#live(await openHostStore(folder, () => undefined));
    copied.#identity = await loadIdentity(copied.store);
    onTestFinished(async () => {
      await copied.stop();
      await copied.store.close();
      await remove();
    });
    return copied;
  }

  /** Resolves when this life of it was killed: what it was asked then is never answered. */
  get died(): Promise<void> {
    return this.#mortality.died;
  }

  /** Kills it where its store is to die. It is down until `revive`. */
  async kill(death: Death): Promise<void> {
    const mortality = this.#mortality;
    mortality.die(death);
    await mortality.died;
    // Requests end; what waits for the store waits for ever.
    this.#stopping.abort();
    void this.#outbox?.stop();
    void this.mover?.stop();
    void this.side?.stop();
    this.side = undefined;
    this.#outbox = undefined;
  }

  /** Starts it anew over what was durable. */
  async revive(): Promise<void> {
    await this.store.close();
    this.#live(await openHostStore(this.#folder, () => undefined));
    this.#identity = await loadIdentity(this.store);
    this.start();
  }

  async addAgent(name: string): Promise<AgentId> {
    const agentId = `agent-${name}` as AgentId;
    await this.store.transact((tx) => {
      tx.put('agent', [agentId], { agentId, name, roles: [], createdAtMs: this.clock.nowMs(), removedAtMs: null });
      tx.put('agentName', [name], { agentId, name, retiredAtMs: null });
    });
    return agentId;
  }

  /** Pins `other` as a pairing would; it has no address unless one is given. */
  async pin(other: RelayContext, address: string | null = null): Promise<PeerRow> {
    const encKey = signedEncKey(other.#identity);
    const host = { hostName: other.name as HostName, publicKey: other.key, encKey, address };
    const pinned = await this.store.transact((tx) => pinPeer(tx, this.context, host));
    if (isRefusal(pinned)) throw new Error(pinned.message);
    return pinned;
  }

  peerIdOf(other: RelayContext): Promise<PeerId> {
    return this.store.read((reader) => {
      const peer = found(peerOfName(reader, other.name), `${this.name} is not paired with ${other.name}`);
      return peer.peerId;
    });
  }

  /** Sends as `mail_send` does to agents of a paired host: the sender's record, and a sealed row in the outbox. */
  async sendTo(
    there: RelayContext,
    from: string,
    names: readonly string[],
    body = 'words',
    subject = 'Hello',
  ): Promise<MessageRow> {
    const peerId = await this.peerIdOf(there);
    const to = names.map((name) => `${name}@${there.name}` as Address);
    return sendSealed(this.context, peerId, { from: `${from}@${this.name}` as Address, to, body, subject });
  }

  /** Returns what is in a mailbox, in its order: references of messages, and the subjects of the host's own reports. */
  mailOf(name: string): Promise<{ ref: MessageRef; from: string; subject: string }[]> {
    return this.store.read(async (reader) => {
      const mail: { ref: MessageRef; from: string; subject: string }[] = [];
      for await (const { row } of reader.range('entry', [`agent-${name}` as AgentId])) {
        const message = reader.get('message', row.ref);
        mail.push({ ref: row.ref, from: message?.from ?? '', subject: message?.subject ?? '' });
      }
      return mail;
    });
  }

  outbox(): Promise<OutboxRow[]> {
    return rowsOf(this.store, 'outbox', []);
  }

  /** The row of a message's envelope. */
  async rowOf({ ref }: { ref: MessageRef }): Promise<OutboxRow> {
    return found(
      (await this.outbox()).find((found) => found.kind === 'envelope' && found.ref === ref),
      'there is no such row',
    );
  }

  answered(): void {
    this.side?.answered();
  }

  status(): ReturnType<RelayService['status']> {
    if (!this.side) throw new Error('it has not been started');
    return this.side.status();
  }
}

/** Both are paired with each other. */
export async function pinEachOther(a: RelayContext, b: RelayContext): Promise<void> {
  await a.pin(b);
  await b.pin(a);
}
