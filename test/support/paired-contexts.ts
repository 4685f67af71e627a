/** Contexts that are paired: each has its keys in its store and the other's pinned, and agents with mailboxes. */
import { randomUUID } from 'node:crypto';
import { onTestFinished } from 'vitest';
import type {
  Address,
  AgentId,
  Identity,
  MessageRef,
  MessageRow,
  PeerId,
  PeerRow,
  SealKey,
} from '../../src/host/core/rows.ts';
import type { IncomingItem } from '../../src/host/inbound/verify.ts';
import { keepSent, newMessage, storeMessage } from '../../src/host/mailbox/mailbox.ts';
import { type HostContext, EventBus, type HostEvent } from '../../src/host/base/context.ts';
import { outboxRowOf, wireOf } from '../../src/host/outbox/outbox.ts';
import { queueEnvelope } from '../../src/host/outbox/outgoing-items.ts';
import { generateSealKey } from '../../src/host/wire/sealing.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import { type TestHost, hostNamed } from './hosts.ts';
import { SeededRandom } from './seeded-random.ts';
import { disposableFolder } from './temporary-folder.ts';
import { NOON_MS } from './test-clock.ts';
import { contextWithoutStore } from './test-context.ts';
import { onEvent } from './on-event.ts';
import { found } from './found.ts';

export interface PairedContext {
  host: TestHost;
  context: HostContext;
  store(): HostStore;
  clock: { nowMs: number };
  sealKey: SealKey;
  told: HostEvent[];
  /** Closes the store and opens it again, as a daemon that was started anew would. */
  reopen: () => Promise<void>;
  close: () => Promise<void>;
}

/** alice and bob, paired with each other, for one test: call it inside. They have no agents yet. */
export async function pairedContexts(): Promise<{ alice: PairedContext; bob: PairedContext }> {
  const alice = await pairedContext('alice');
  onTestFinished(() => alice.close());
  const bob = await pairedContext('bob', alice.clock);
  onTestFinished(() => bob.close());
  await pin(alice, bob);
  await pin(bob, alice);
  return { alice, bob };
}

export async function pairedContext(name: string, clock = { nowMs: NOON_MS }): Promise<PairedContext> {
  const host = hostNamed(name);
  const { folder, remove } = await disposableFolder();
  const failures: unknown[] = [];
  const failed = (error: unknown): void => void failures.push(error);
  let store = await createHostStore(folder, failed);
  const { enc_pub: encPub, secret } = await generateSealKey();
  const sealKey: SealKey = { encPub, secret, sinceMs: clock.nowMs, retiredAtMs: null };
  const random = new SeededRandom(host.key.charCodeAt(0));
  const told: HostEvent[] = [];
  const bus = new EventBus();
  onEvent(bus, (event) => told.push(event));
  const identity: Identity = { hostName: host.name, signer: host.signer, sealKey };
  const parts = contextWithoutStore({
    identity: () => identity,
    nowMs: () => clock.nowMs,
    randomBytes: (count) => random.bytes(count),
    bus,
  });
  const context: HostContext = {
    ...parts,
    get store() {
      return store;
    },
  };
  await store.transact((tx) =>
    tx.put('identity', [], {
      hostName: host.name,
      createdAtMs: clock.nowMs,
      keys: [{ publicKey: host.key, seed: '', sinceMs: clock.nowMs, retiredAtMs: null }],
      sealKeys: [sealKey],
      rotations: [],
      receiptFloor: 0,
    }),
  );
  const reopen = async (): Promise<void> => {
    await store.close();
    store = await openHostStore(folder, failed);
  };
  const close = async (): Promise<void> => {
    await store.close();
    await remove();
    if (failures.length > 0) throw failures[0];
  };
  return { host, context, store: () => store, clock, sealKey, told, reopen, close };
}

export function peerIdOf(host: TestHost): PeerId {
  return `peer-${host.name}` as PeerId;
}

/** Pins `other` at `here`. */
export async function pin(here: PairedContext, other: PairedContext, changes: Partial<PeerRow> = {}): Promise<PeerRow> {
  const peerId = peerIdOf(other.host);
  const { key, name } = other.host;
  const peer: PeerRow = {
    peerId,
    hostName: name,
    keys: [{ publicKey: key, pinnedAtMs: here.clock.nowMs, retiredAtMs: null }],
    encKey: { hostPubkey: key, encPub: other.sealKey.encPub, at: here.clock.nowMs, sig: '' },
    address: '127.0.0.1:1',
    pairedAtMs: here.clock.nowMs,
    unpairedAtMs: null,
    reachedAtMs: null,
    lanFailures: 0,
    directory: null,
    hasConfirmed: false,
    pinnedOurKey: here.host.key,
    ...changes,
  };
  await here.store().transact((tx) => {
    tx.put('peer', [peerId], peer);
    for (const { publicKey } of peer.keys) tx.put('peerKey', [publicKey], peerId);
    tx.put('peerName', [name.toLowerCase()], peerId);
  });
  return peer;
}

export async function addAgent(here: PairedContext, name: string): Promise<AgentId> {
  const agentId = `agent-${name}` as AgentId;
  await here.store().transact((tx) => {
    tx.put('agent', [agentId], { agentId, name, roles: [], createdAtMs: here.clock.nowMs, removedAtMs: null });
    tx.put('agentName', [name.toLowerCase()], { agentId, name, retiredAtMs: null });
  });
  return agentId;
}

export interface Letter {
  from: string;
  to: string[];
  body?: string;
  subject?: string;
}

/** Sends as `mail_send` does to agents of one paired host: the sender's record, and a sealed row in the outbox. */
export function sendTo(here: PairedContext, there: PairedContext, letter: Letter): Promise<MessageRow> {
  return sendSealed(here.context, peerIdOf(there.host), {
    from: `${letter.from}@${here.host.name}` as Address,
    to: letter.to.map((name) => `${name}@${there.host.name}` as Address),
    body: letter.body ?? `words ${randomUUID()}`,
    subject: letter.subject ?? 'Hello',
  });
}

interface Sent {
  /** The address of the agent `agent-<name>`. */
  from: Address;
  to: Address[];
  body: string;
  subject: string;
}

/** The same from any host's context to one peer of it. */
export function sendSealed(
  context: HostContext,
  peerId: PeerId,
  { from, to, body, subject }: Sent,
): Promise<MessageRow> {
  return context.store.transact(async (tx) => {
    const agentId = `agent-${from.split('@')[0]}` as AgentId;
    const given = { from, fromAgent: agentId, subject, kind: 'message', needsReply: false, origin: 'agent' } as const;
    const message = newMessage(tx, context, { ...given, to, refs: [], replyTo: null }, body, null);
    const threadPosition = keepSent(tx, agentId, message, body);
    const { ref, createdAtMs } = message;
    const recipients = to.map((address) => {
      const first = { state: 'pending', atMs: createdAtMs } as const;
      return { address, agentId: null, peerId, ...first, seq: 0, steps: [first] };
    });
    tx.put('sent', [ref], { ref, agentId, createdAtMs, recipients, threadPosition });
    const peer = found(tx.get('peer', peerId), 'the hosts are paired before they write');
    await queueEnvelope(tx, context, peer, message, body, to);
    return message;
  });
}

/** The item of a row of `from`'s outbox, as its peer gets it over the LAN. */
export async function itemFor(from: PairedContext, to: PairedContext, itemId: string): Promise<IncomingItem> {
  return from.store().read((reader) => {
    const row = found(outboxRowOf(reader, peerIdOf(to.host), itemId), `there is no row of ${itemId}`);
    return lanItem(from, row.kind, itemId, wireOf(reader, row.rowId));
  });
}

export function lanItem(from: PairedContext, kind: string, itemId: string, wire: Buffer): IncomingItem {
  return { via: 'lan', relay: null, kind, itemId, wire, senderPubkey: from.host.key };
}

/** The ids of the messages in a mailbox, in their order. */
export function mailOf(here: PairedContext, name: string): Promise<MessageRef[]> {
  return here.store().read(async (reader) => {
    const refs: MessageRef[] = [];
    for await (const { row } of reader.range('entry', [`agent-${name}` as AgentId])) refs.push(row.ref);
    return refs;
  });
}

/** A message that is here already, from nobody in particular. */
export async function occupy(here: PairedContext, message: MessageRow, agentId: AgentId): Promise<void> {
  await here
    .store()
    .transact((tx) => void storeMessage(tx, here.context, message, 'words', [{ agentId, forwardedFrom: null }]));
}
