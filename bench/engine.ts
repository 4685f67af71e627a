/** An engine in this process, over a real store of its own, for figures that a socket would hide. */
import { hash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sha256Hex } from '../src/protocol/encodings.ts';
import { type HostName, type ItemId, randomEpoch } from '../src/protocol/names.ts';
import { DEFAULT_LIMITS } from '../src/protocol/limits.ts';
import { type PublicKey, publicKeyFromBytes } from '../src/protocol/public-key.ts';
import type { PushItem } from '../src/relay/core/command.ts';
import { Engine } from '../src/relay/engine/engine.ts';
import { openStore } from '../src/relay/store/open.ts';
import type { RelayStore } from '../src/relay/store/relay-store.ts';
import { namedSigner } from './work.ts';

/** Room for whatever a benchmark pushes. */
const ROOM = { max_queue_items: 1e7, max_queue_bytes: 1e12, max_sender_items: 1e7, max_sender_bytes: 1e12 };
const ENROLLED_AT_ONCE = 500;

const newEpoch = () => randomEpoch(randomBytes);

export class BenchEngine {
  engine!: Engine;
  store!: RelayStore;
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** On `store`, which the caller closes; absent: on one of its own, in a temporary folder or the one that is named. */
  static async start({ store, folder }: { store?: RelayStore; folder?: string } = {}): Promise<BenchEngine> {
    const relay = new BenchEngine(folder ?? mkdtempSync(join(tmpdir(), 'poste-bench-')));
    await relay.#open(store);
    return relay;
  }

  /** Nothing that was kept in memory is there any more. */
  async reopen(): Promise<void> {
    await this.close();
    await this.#open();
  }

  async remove(): Promise<void> {
    await this.close();
    this.removeClosed();
  }

  removeClosed(): void {
    rmSync(this.folder, { recursive: true });
  }

  async enrol(hostPubkey: PublicKey): Promise<void> {
    await this.engine.admissions.enrol({
      type: 'EnrolHost',
      hostPubkey,
      hostName: 'bench' as HostName,
      ownerFp: '',
      authorizedBy: 'host-key',
      answer: { ok: true },
      inviteHash: undefined,
      nowMs: Date.now(),
    });
  }

  async enrolAll(keys: readonly PublicKey[]): Promise<void> {
    for (let from = 0; from < keys.length; from += ENROLLED_AT_ONCE)
      await Promise.all(keys.slice(from, from + ENROLLED_AT_ONCE).map((key) => this.enrol(key)));
  }

  /** Acks everything that waits for this target. */
  async ackAll(target: PublicKey): Promise<void> {
    const { engine } = this;
    const through = engine.head(target).headSeq;
    await engine.acks.ack({ type: 'AckItems', targetPubkey: target, epoch: engine.epoch, through, nowMs: Date.now() });
  }

  /** Resolves when all that was acked is deleted; its heartbeats keep the relay in its epoch. */
  async collected(): Promise<void> {
    do await this.engine.heartbeat(Date.now());
    while (this.store.collector.isPending);
  }

  /** Pushes items in one request; every one must be accepted. */
  async push(items: readonly BenchItem[], nowMs: number): Promise<void> {
    const commands = items.map(({ sender, target, id, wire }): PushItem => {
      const pushed = { hostPubkey: target, wire, wireHash: sha256Hex(wire), bytes: wire.length };
      return {
        type: 'PushItem',
        senderPubkey: sender,
        item: { kind: 'envelope', itemId: id as ItemId, targets: [pushed] },
        isKnownById: false,
        wireVerdict: 'ok',
        freshEpoch: newEpoch(),
        nowMs,
      };
    });
    const pushed = await this.engine.pushes.push(commands, (outcomes) =>
      outcomes.find((outcome) => outcome.type !== 'ItemStored' || outcome.status !== 'accepted'),
    );
    const refused = pushed.type === 'Refusal' ? pushed : pushed.answer;
    if (refused) throw new Error(`invariant: the benchmark pushes good items, not ${JSON.stringify(refused)}`);
  }

  async #open(given?: RelayStore): Promise<void> {
    const store = given ?? (await openStore({ folder: this.folder, nowMs: Date.now(), newEpoch })).store;
    const settings = {
      limits: { ...DEFAULT_LIMITS, ...ROOM },
      admission: 'open',
      enrolmentsMax: 100_000,
      dedupRowsMax: 10_000_000,
    } as const;
    const options = {
      store,
      settings,
      signer: namedSigner('relay'),
      monotonicMs: () => performance.now(),
      onStoreFailed: failed,
    };
    this.store = store;
    this.engine = await Engine.start(options, Date.now());
  }

  async close(): Promise<void> {
    await this.engine.close();
    await this.store.close();
  }
}

export interface BenchItem {
  sender: PublicKey;
  target: PublicKey;
  id: string;
  wire: Buffer;
}

/** So many keys, named one after another. */
export function anyKeys(count: number, name: string): PublicKey[] {
  return Array.from({ length: count }, (_none, at) => anyKey(`${name} ${at}`));
}

/** A key that no signature is asked of. */
export function anyKey(name: string): PublicKey {
  return publicKeyFromBytes(hash('sha256', name, 'buffer'));
}

function failed(error: Error): void {
  throw error;
}
