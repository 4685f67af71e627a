/** Hosts that reach each other over a relay alone: real stores and keys, a relay side each, paired by hand. */
import { randomBytes } from 'node:crypto';
import { onTestFinished } from 'vitest';
import type { Address, AgentId, MessageRef, MessageRow, OutboxRow, PeerId, PeerRow } from '../../src/host/core/rows.ts';
import { isRefusal } from '../../src/host/core/refusal.ts';
import { Bell } from '../../src/host/office/bell.ts';
import { identityOf, loadIdentity, newIdentityRow, signedEncKey } from '../../src/host/office/identity.ts';
import { keepSent } from '../../src/host/office/mailbox.ts';
import { newMessage } from '../../src/host/office/new-message.ts';
import type { Identity, Office } from '../../src/host/office/office.ts';
import { queueEnvelope } from '../../src/host/office/outbox.ts';
import { peerOfName, pinPeer } from '../../src/host/office/peers.ts';
import { generateSealKey } from '../../src/host/office/sealing.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import type { RelayTiming } from '../../src/host/transport/relay-side/relay-link.ts';
import { RelaySide } from '../../src/host/transport/relay-side/relay-side.ts';
import { OutboxPass } from '../../src/host/transport/outbox-pass.ts';
import { LanClient } from '../../src/host/transport/lan-client.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { type Death, Mortality } from './mortal-store.ts';
import { disposableFolder } from './temporary-folder.ts';
import { NOON_MS } from './test-clock.ts';

/** Short pauses: what they are waited for is in this process. */
const TIMING: Partial<RelayTiming> = { pauseFirstMs: 10, pauseMaxMs: 40, pollMs: 20 };

export interface Said {
  level: string;
  message: string;
}

/** What never goes back is the clock of the process, unless it is given. */
export interface OfficeClock {
  nowMs(): number;
  steadyMs?(): number;
}

export class RelayOffice {
  readonly name: string;
  readonly clock: OfficeClock;
  readonly bell = new Bell();
  readonly said: Said[] = [];
  office!: Office;
  store!: HostStore;
  side: RelaySide | undefined;
  readonly timing: Partial<RelayTiming>;
  #pass: OutboxPass | undefined;
  #mortality!: Mortality;
  #stopping = new AbortController();
  #identity!: Identity;
  readonly #folder: string;

  private constructor(name: string, folder: string, clock: OfficeClock, timing: Partial<RelayTiming>) {
    this.name = name;
    this.clock = clock;
    this.timing = { ...TIMING, ...timing };
    this.#folder = folder;
    this.bell.listen((happening) => {
      if (happening.type === 'identity-changed') this.#identity = happening.identity;
    });
  }

  /** Like the daemon's. What a life that was killed still does stays with its own store. */
  #live(store: HostStore): void {
    this.store = store;
    this.#mortality = new Mortality(store);
    this.office = {
      store,
      identity: () => this.#identity,
      nowMs: () => this.clock.nowMs(),
      monotonicMs: () => this.clock.steadyMs?.() ?? performance.now(),
      randomBytes: (count) => randomBytes(count),
      tell: (happening) => this.bell.tell(happening),
      listen: (listener) => this.bell.listen(listener),
      log: (level, message) => void this.said.push({ level, message }),
    };
  }

  /** For one test; call it inside. */
  static async open(
    name: string,
    clock: OfficeClock = { nowMs: () => NOON_MS },
    timing: Partial<RelayTiming> = {},
  ): Promise<RelayOffice> {
    const { folder, remove } = await disposableFolder();
    const host = new RelayOffice(name, folder, clock, timing);
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
    const { office } = this;
    const side = new RelaySide({ office, timing: this.timing });
    const client = new LanClient(office, this.#stopping.signal);
    const pass = new OutboxPass({ office, client, relay: side, doubted: () => undefined });
    const end = this.bell.listen((happening) => {
      if (happening.type === 'outbox-changed') pass.begin(happening.peerId);
    });
    this.#stopping.signal.addEventListener('abort', end);
    this.side = side;
    this.#pass = pass;
    side.start();
  }

  /** Looks at the whole outbox, as a timer would. */
  async pass(): Promise<void> {
    await this.#pass?.beginAll();
    this.side?.begin();
  }

  async stop(): Promise<void> {
    const { side } = this;
    const pass = this.#pass;
    this.side = undefined;
    this.#pass = undefined;
    this.#stopping.abort();
    await side?.stop();
    await pass?.stop();
  }

  /** As a daemon that ended and was started anew. */
  async restart(): Promise<void> {
    await this.stop();
    await this.store.close();
    this.#live(await openHostStore(this.#folder, () => undefined));
    this.start();
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
    // Requests end; whoever waits for the store waits for ever.
    this.#stopping.abort();
    void this.side?.stop();
    void this.#pass?.stop();
    this.side = undefined;
    this.#pass = undefined;
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
  async pin(other: RelayOffice, address: string | null = null): Promise<PeerRow> {
    const encKey = signedEncKey(other.#identity);
    const host = { hostName: other.name as HostName, publicKey: other.key, encKey, address };
    const pinned = await this.store.transact((tx) => pinPeer(tx, this.office, host));
    if (isRefusal(pinned)) throw new Error(pinned.message);
    return pinned;
  }

  peerIdOf(other: RelayOffice): Promise<PeerId> {
    return this.store.read((reader) => {
      const peer = peerOfName(reader, other.name);
      if (!peer) throw new Error(`${this.name} is not paired with ${other.name}`);
      return peer.peerId;
    });
  }

  /** Sends as `mail_send` does to agents of a paired host: the sender's record, and a sealed row in the outbox. */
  async sendTo(
    there: RelayOffice,
    from: string,
    names: readonly string[],
    body = 'words',
    subject = 'Hello',
  ): Promise<MessageRow> {
    const peerId = await this.peerIdOf(there);
    const to = names.map((name) => `${name}@${there.name}` as Address);
    return this.store.transact(async (tx) => {
      const agentId = `agent-${from}` as AgentId;
      const given = {
        from: `${from}@${this.name}` as Address,
        fromAgent: agentId,
        to,
        subject,
        kind: 'message',
        needsReply: false,
        origin: 'agent',
        refs: [],
        replyTo: null,
      } as const;
      const message = newMessage(tx, this.office, { ...given, to, refs: [] }, body, null);
      const threadPosition = keepSent(tx, agentId, message, body);
      const { ref, createdAtMs } = message;
      const recipients = to.map((address) => {
        const first = { state: 'pending', atMs: createdAtMs } as const;
        return { address, agentId: null, peerId, ...first, seq: 0, steps: [first] };
      });
      tx.put('sent', [ref], { ref, agentId, createdAtMs, recipients, threadPosition });
      const peer = tx.get('peer', peerId);
      if (!peer) throw new Error('the hosts are paired before they write');
      await queueEnvelope(tx, this.office, peer, message, body, to);
      return message;
    });
  }

  /** What is in a mailbox, in its order: references of messages, and the subjects of the host's own reports. */
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
    return this.store.read(async (reader) => {
      const rows: OutboxRow[] = [];
      for await (const { row } of reader.range('outbox', [])) rows.push(row);
      return rows;
    });
  }

  /** The row of a message's envelope. */
  async rowOf({ ref }: { ref: MessageRef }): Promise<OutboxRow> {
    const row = (await this.outbox()).find((found) => found.kind === 'envelope' && found.ref === ref);
    if (!row) throw new Error('there is no such row');
    return row;
  }

  status(): ReturnType<RelaySide['status']> {
    if (!this.side) throw new Error('it has not been started');
    return this.side.status();
  }
}

/** Both are paired with each other. */
export async function pinEachOther(a: RelayOffice, b: RelayOffice): Promise<void> {
  await a.pin(b);
  await b.pin(a);
}
