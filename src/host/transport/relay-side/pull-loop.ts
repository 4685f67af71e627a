/**
 * Takes what waits for this host at the relay, in the order of its seqs.
 *
 *     page after received-through ─▶ chunks: items received and received-through, one transaction each ─▶ ack
 *
 * Specification, "Receiving host rules". Invariants:
 *   - received-through moves over items that are done, without a gap, in the transaction that makes the last of them so;
 *   - an ack is asked for only when that is durable, never beyond it, and its failure changes nothing;
 *   - what shows that the store went back in time begins the queue at 0 again.
 */
import { decodeBase64 } from '../../../protocol/base64.ts';
import type { IncomingItem } from '../../office/incoming.ts';
import type { Office } from '../../office/office.ts';
import { receiveItem } from '../../office/receive.ts';
import { positionIn, putPosition, rewindPosition } from '../../office/relay-rows.ts';
import { isStoreFailure } from '../../office/store-failure.ts';
import { type PulledItem, RelayCallFailed } from '../relay-client.ts';
import type { RelayLink, RelaySession, RelayTiming } from './relay-link.ts';

/** Items and wire bytes of one transaction: nobody else writes meanwhile. */
const CHUNK_ITEMS_MAX = 32;
const CHUNK_BYTES_MAX = 1 << 20;
/** Until there may be room in the quarantine again. */
const FULL_PAUSE_MS = 60_000;
/** An empty page that came sooner was not held back by the relay. */
const HELD_BACK_MS = 900;

export interface PullLoopOptions {
  office: Office;
  link: RelayLink;
  timing: RelayTiming;
  stopping: AbortSignal;
}

export class PullLoop {
  readonly #options: PullLoopOptions;
  #running: Promise<void> = Promise.resolve();
  /** Up to where the relay has deleted, as far as is known of this session. */
  #acked: { session: RelaySession; through: number } | undefined;
  /** Items asked for at once: fewer after a page that did not come. */
  #limit = Number.POSITIVE_INFINITY;
  #isHeldBack: boolean | null = null;
  #headSeq: number | null = null;

  constructor(options: PullLoopOptions) {
    this.#options = options;
  }

  /** Whether the relay holds an empty page back; null before one came. */
  get isHeldBack(): boolean | null {
    return this.#isHeldBack;
  }

  /** The last seq that the relay gave an item for this host. */
  get headSeq(): number | null {
    return this.#headSeq;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Resolves when nothing is under way any more. */
  stop(): Promise<void> {
    return this.#running;
  }

  async #run(): Promise<void> {
    const { office, link, stopping } = this.#options;
    for (;;) {
      await this.#sleep(link.pauseMs);
      const session = await link.ready();
      if (!session || stopping.aborted) return;
      if (link.pauseMs > 0) continue;
      try {
        await this.#sleep(await this.#turn(session));
      } catch (error) {
        if (stopping.aborted || isStoreFailure(error)) return;
        if (error instanceof RelayCallFailed) {
          this.#limit = Math.max(1, Math.floor(Math.min(this.#limit, session.limits.max_pull) / 2));
          await link.failed(session, error);
        } else {
          office.log('error', 'what the relay holds could not be taken', { err: error });
          await this.#sleep(FULL_PAUSE_MS);
        }
      }
    }
  }

  /** One page; answers how long to rest after it. Throws `RelayCallFailed`. */
  async #turn(session: RelaySession): Promise<number> {
    const { office, link, timing } = this.#options;
    const { client, scope, limits } = session;
    const after = await office.store.read((reader) => positionIn(reader, scope));
    const acked = await this.#ack(session, after);
    if (acked === 'rewound' || link.session !== session) return 0;
    const limit = Math.min(this.#limit, limits.max_pull);
    const startedMs = office.monotonicMs();
    // What could not be acked is acked soon, and not when something comes.
    const wait = acked === 'failed' ? 0 : timing.waitSeconds;
    const page = await client.pull({ after, limit, epoch: scope.epoch, wait });
    if (page.epoch !== scope.epoch) {
      link.ended(session);
      return 0;
    }
    link.worked();
    this.#limit = limit * 2;
    this.#headSeq = page.head_seq;
    if (page.head_seq < after) {
      await this.#rewind(session);
      return 0;
    }
    if (page.items.length === 0) {
      const isHeldBack = office.monotonicMs() - startedMs >= HELD_BACK_MS;
      if (wait > 0) this.#isHeldBack = isHeldBack;
      return isHeldBack ? 0 : this.#jittered(timing.pollMs);
    }
    const done = await this.#receive(session, page.items);
    return done === page.items.length ? 0 : FULL_PAUSE_MS;
  }

  /** How many of the first items are done: all, unless there is no room in the quarantine. */
  async #receive(session: RelaySession, items: readonly PulledItem[]): Promise<number> {
    const { office, stopping } = this.#options;
    let done = 0;
    while (done < items.length && !stopping.aborted) {
      const chunk = firstChunk(items.slice(done));
      const taken = await this.#receiveChunk(session, chunk);
      done += taken;
      if (taken < chunk.length) {
        office.log('error', 'mail waits at the relay: the quarantine is full');
        break;
      }
    }
    return done;
  }

  /** In one transaction with received-through, which moves to the last item that is done. */
  #receiveChunk({ scope }: RelaySession, chunk: readonly PulledItem[]): Promise<number> {
    const { office } = this.#options;
    return office.store.transact(async (tx) => {
      let done = 0;
      for (const item of chunk) {
        const { status } = await receiveItem(tx, office, incoming(item, scope));
        if (status === 'rejected') break;
        done++;
      }
      const last = chunk[done - 1];
      if (last) putPosition(tx, office, scope, last.seq);
      return done;
    });
  }

  /** Asks the relay to delete what is done; that it could not is no matter: it is asked again before the next page. */
  async #ack(session: RelaySession, through: number): Promise<'acked' | 'failed' | 'rewound'> {
    const { link } = this.#options;
    const acked = this.#acked?.session === session ? this.#acked.through : 0;
    if (through <= acked) return 'acked';
    try {
      await session.client.ack(session.scope.epoch, through);
      this.#acked = { session, through };
    } catch (error) {
      if (!(error instanceof RelayCallFailed)) throw error;
      if (error.code === 'BAD_ACK') {
        await this.#rewind(session);
        return 'rewound';
      }
      await link.failed(session, error);
      return 'failed';
    }
    return 'acked';
  }

  async #rewind(session: RelaySession): Promise<void> {
    const { office } = this.#options;
    office.log('warn', 'the relay went back in time: its queue is read from the start');
    this.#acked = undefined;
    await office.store.transact((tx) => rewindPosition(tx, office, session.scope));
  }

  #jittered(ms: number): number {
    return ms * (0.5 + this.#options.office.randomBytes(1).readUInt8() / 256);
  }

  #sleep(ms: number): Promise<void> {
    const { stopping } = this.#options;
    if (ms <= 0 || stopping.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        stopping.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      stopping.addEventListener('abort', wake, { once: true });
    });
  }
}

function firstChunk(items: readonly PulledItem[]): readonly PulledItem[] {
  let characters = 0;
  const end = items.findIndex(({ wire_b64: wire }, at) => {
    characters += wire.length;
    return at > 0 && (at >= CHUNK_ITEMS_MAX || characters > (CHUNK_BYTES_MAX / 3) * 4);
  });
  return end === -1 ? items : items.slice(0, end);
}

/** Bytes that are no base64 are what the relay showed: they are kept as they came, and found malformed. */
function incoming(item: PulledItem, { relayPubkey, epoch }: RelaySession['scope']): IncomingItem {
  const { seq, kind, item_id: itemId, sender_pubkey: senderPubkey, wire_b64: text } = item;
  const wire = decodeBase64(text) ?? Buffer.from(text, 'utf8');
  return { via: 'relay', relay: { pubkey: relayPubkey, epoch, seq }, kind, itemId, senderPubkey, wire };
}
