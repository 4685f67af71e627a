/**
 * A dispatcher between a real store and two carriers that the test plays: it sees each request and says what became of
 * it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { onTestFinished, vi } from 'vitest';
import type { OutboxEvent } from '../../src/host/core/outbox-event.ts';
import type { Address, MessageRef, OutboxRow, PeerRow } from '../../src/host/core/rows.ts';
import type { RelayFacts } from '../../src/host/core/transport-choice.ts';
import type { LaneSettings } from '../../src/host/outbox/peer-work.ts';
import type { Carrier, RelayTransport, Sent } from '../../src/host/outbox/peer-work.ts';
import { OutboxDispatcher } from '../../src/host/outbox/dispatcher.ts';
import { addOutboxRow, afterAttempt } from '../../src/host/outbox/outbox.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import { epochNumbered } from './epochs.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { found } from './found.ts';
import { relay } from './hosts.ts';
import { addPeer } from './mail-context.ts';
import { type TestContext, testContext } from './test-context.ts';

/** One request that is under way until it is answered. */
export interface Request {
  way: 'lan' | 'relay' | 'relay2' | 'relay3';
  peer: PeerRow;
  rows: readonly OutboxRow[];
  sinceMs: number;
  answer: (sent: Sent) => void;
}

export const RELAY_FACTS: RelayFacts = {
  relayPubkey: relay.key,
  epoch: epochNumbered(1),
  retentionMs: 14 * 86_400_000,
  isTargetEnrolled: true,
  carriesReceipts: true,
  hasTwoHistories: false,
};

/** A relay that does what the test sets. */
type ScriptedRelay = { -readonly [K in keyof RelayTransport]: RelayTransport[K] } & {
  /** What it tells of peers. */
  facts: RelayFacts | null | 'unknown';
  /** Questions that it has not answered. */
  asked: (() => void)[];
};

export class DispatcherWorld {
  readonly context: TestContext;
  readonly dispatcher: OutboxDispatcher;
  /** Those under way. */
  requests: Request[] = [];
  /** Told of every request when it begins. */
  onRequest: (request: Request) => void = () => undefined;
  /** In the owner's order. */
  readonly relays: ScriptedRelay[];
  #sent = 0;
  #storeCalls = 0;

  private constructor(context: TestContext, keys: readonly PublicKey[], settings?: LaneSettings) {
    this.context = context;
    this.#countCalls();
    const carrier = (way: string) => ({
      send: (peer: PeerRow, rows: readonly OutboxRow[]): Promise<Sent> =>
        new Promise((resolve) => {
          const request: Request = {
            way: way as Request['way'],
            peer,
            rows,
            sinceMs: context.nowMs(),
            answer: resolve,
          };
          request.answer = (sent): void => {
            this.requests = this.requests.filter((other) => other !== request);
            resolve(sent);
          };
          this.requests.push(request);
          this.onRequest(request);
        }),
    });
    this.relays = keys.map((relayPubkey, at) => {
      const byItself = carrier(at === 0 ? 'relay' : `relay${at + 1}`);
      const relayed: ScriptedRelay = {
        relayPubkey,
        role: 'home',
        facts: null,
        asked: [],
        pauseMs: 0,
        isDown: false,
        unheardMs: 0,
        hasTwoHistories: false,
        isLeft: false,
        get isUsable() {
          return relayed.facts !== null;
        },
        ...(keys.length === 1 ? byItself : { send: this.#pushing(relayPubkey, byItself) }),
        factsFor: () => relayed.facts,
        ask: () => new Promise((resolve) => relayed.asked.push(resolve)),
      };
      return relayed;
    });
    const relays = { all: this.relays };
    this.dispatcher = new OutboxDispatcher({ context, lan: carrier('lan'), relays, ...(settings && { settings }) });
  }

  /** As a carrier of one of several relays does: that the bytes leave is durable before. */
  #pushing(relayPubkey: PublicKey, carrier: Carrier): Carrier['send'] {
    const event = { type: 'relay-pushing', relayPubkey, isOneOfMany: true } as const;
    return async (peer, rows, signal) => {
      await this.context.store.transact((tx) => {
        for (const { rowId } of rows) afterAttempt(tx, this.context, rowId, event);
      });
      return carrier.send(peer, rows, signal);
    };
  }

  /** What the first relay tells of peers. */
  get facts(): RelayFacts | null | 'unknown' {
    return this.#first.facts;
  }

  set facts(facts: RelayFacts | null | 'unknown') {
    this.#first.facts = facts;
  }

  /** Questions about peers that the first relay has not answered. */
  get asked(): (() => void)[] {
    return this.#first.asked;
  }

  set relayPauseMs(ms: number) {
    this.#first.pauseMs = ms;
  }

  get #first(): ScriptedRelay {
    return found(this.relays[0], 'the host has no relay');
  }

  /** For one test; call it inside. Timers are those of vitest. */
  static async open(keys: readonly PublicKey[] = [relay.key], settings?: LaneSettings): Promise<DispatcherWorld> {
    const world = new DispatcherWorld(await testContext(), keys, settings);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(async () => {
      vi.useRealTimers();
      const ended = world.dispatcher.stop();
      for (const { answer } of world.requests) answer({ events: [] });
      for (const { asked } of world.relays) for (const resolve of asked) resolve();
      await ended;
    });
    await world.dispatcher.start();
    return world;
  }

  addPeer(name: string, changes: Partial<PeerRow> = {}): Promise<PeerRow> {
    return addPeer(this.context, name, null, { address: '127.0.0.1:1', ...changes });
  }

  /** Queues a message for a peer; nothing can open it. Answers its row. */
  queue(peer: PeerRow, changes: Partial<OutboxRow> = {}): Promise<OutboxRow> {
    const itemId = `ITEM-${String(this.#sent++).padStart(6, '0')}`;
    return this.context.store.transact((tx) => {
      const row = addOutboxRow(tx, this.context, {
        kind: 'envelope',
        itemId: itemId as ItemId,
        ref: itemId as MessageRef,
        peerId: peer.peerId,
        recipients: [`bert@${peer.hostName}` as Address],
        wire: Buffer.from(itemId),
      });
      tx.put('outbox', [row.rowId], { ...row, ...changes });
      return { ...row, ...changes };
    });
  }

  /** Several at once: they share the first request. */
  async queueMany(peer: PeerRow, count: number): Promise<void> {
    const queued = Array.from({ length: count }, () => this.queue(peer));
    await Promise.all(queued);
  }

  rowsOf(peer: PeerRow): Promise<OutboxRow[]> {
    return this.context.store.read(async (reader) => {
      const rows: OutboxRow[] = [];
      for await (const { row } of reader.range('outbox', [])) if (row.peerId === peer.peerId) rows.push(row);
      return rows;
    });
  }

  /** Both clocks and the timers go on. */
  async pass(ms: number): Promise<void> {
    this.context.clock.nowMs += ms;
    vi.advanceTimersByTime(ms);
    await this.settled();
  }

  /** Resolves when nothing is done any more but what waits for an answer: nothing asks the store, some turns long. */
  async settled(): Promise<void> {
    for (let quiet = 0; quiet < 5; quiet++) {
      await nextTurn();
      if (this.#storeCalls > 0) quiet = 0;
    }
  }

  /** Counts what is asked of the store and not answered yet. */
  #countCalls(): void {
    const { store } = this.context;
    const counted =
      <W>(ask: (work: W) => Promise<unknown>) =>
      async (work: W): Promise<unknown> => {
        this.#storeCalls++;
        try {
          return await ask(work);
        } finally {
          this.#storeCalls--;
        }
      };
    store.read = counted(store.read.bind(store)) as typeof store.read;
    store.transact = counted(store.transact.bind(store)) as typeof store.transact;
  }
}

/** The same for every row of a request. */
export function everyRow({ rows, way }: Request, event: OutboxEvent): Sent {
  const isAnswered = event.type === 'lan-accepted' || event.type === 'lan-rejected';
  const lan = way !== 'lan' ? {} : { lan: isAnswered ? ('reached' as const) : ('unreached' as const) };
  return { events: rows.map(({ rowId }) => ({ rowId, event })), ...lan };
}

/** As a relay that took the row says it; nobody checks the receipt. */
export function takenByRelay({ relayPubkey, epoch, retentionMs }: RelayFacts, nowMs: number): OutboxEvent {
  const accept = { targets: [] } as never;
  const acceptance = {
    relayPubkey,
    epoch,
    seq: 1,
    accept,
    sig: '',
    acceptedAtMs: nowMs,
    retentionMs,
  };
  return { type: 'relay-accepted', acceptance, isVerified: true };
}
