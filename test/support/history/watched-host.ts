/**
 * A host that notes what a relay answers it. It follows the rules of hosts: it pushes an item until that is accepted,
 * acks what it has, enrols again when the relay does not know it, and pushes again, when a new epoch begins, what its
 * targets do not have. That a target has an item it knows at once, and not by a delivery receipt.
 */
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import { type PushResult, RelayClient } from '../../../src/host/relay/relay-client.ts';
import type { ItemToPush } from '../../../src/host/relay/relay-forms.ts';
import { RelayCallFailed, isNotEnrolled } from '../../../src/host/relay/relay-request.ts';
import { type TestHost, relay } from '../hosts.ts';
import { itemTo } from '../mail.ts';
import type { Front } from './front.ts';
import { type PushedTarget, type Seen, itemKey } from './history.ts';

const AGAIN_AT_ONCE = 20;
const STORED: ReadonlySet<string> = new Set(['accepted', 'duplicate']);

interface OwnItem {
  item: ItemToPush;
  targets: readonly PushedTarget[];
  isAccepted: boolean;
}

export class WatchedHost {
  readonly host: TestHost;
  /** Statuses that were neither accepted nor duplicate, and how often. */
  readonly refused = new Map<string, number>();
  readonly #front: Front;
  readonly #seen: Seen[];
  /** The items that came to anybody. */
  readonly #came: Set<string>;
  readonly #own: OwnItem[] = [];
  #waiting: OwnItem[] = [];
  #epoch = '';

  readonly #label: string;

  /** The names of its items begin with `label`. */
  constructor(
    host: TestHost,
    { front, seen, came }: { front: Front; seen: Seen[]; came: Set<string> },
    label: string = host.name,
  ) {
    this.host = host;
    this.#label = label;
    this.#front = front;
    this.#seen = seen;
    this.#came = came;
  }

  get accepted(): number {
    return this.#own.filter(({ isAccepted }) => isAccepted).length;
  }

  /** The epoch of the last push. */
  get epoch(): string {
    return this.#epoch;
  }

  /** Says whether it has nothing to push. */
  get isIdle(): boolean {
    return this.#waiting.length === 0;
  }

  /** Says whether everything that it sent came. */
  get isDone(): boolean {
    return this.#own.every((own) => own.isAccepted && this.#isThere(own));
  }

  async enrol(signal: AbortSignal): Promise<void> {
    await this.#front.ask((url) => this.#client(url).enrol(), signal);
  }

  /** One more item for these hosts, with the next push. */
  write(targets: readonly TestHost[]): void {
    const item = itemTo(targets, `${this.#label}-${this.#own.length}`);
    const hashes = item.targets.map(({ host_pubkey: target, wire_b64: wire }) => {
      return { target, wireHash: sha256Hex(Buffer.from(wire ?? '', 'base64')) };
    });
    const own = { item, targets: hashes, isAccepted: false };
    this.#own.push(own);
    this.#waiting.push(own);
  }

  /** As if it had heard of no answer. */
  pushesAllAgain(): void {
    this.#waiting = [...this.#own];
  }

  /** Pushes some of what waits, once. */
  async push(signal: AbortSignal): Promise<void> {
    const pushed = this.#waiting.slice(0, AGAIN_AT_ONCE);
    if (pushed.length === 0) return;
    const items = pushed.map(({ item }) => item);
    const { answer, ...times } = await this.#front.ask(
      (url) => this.#enrolled(url, (client) => client.push(items)),
      signal,
    );
    const { epoch, results } = answer;
    const stored = pushed.filter((own, at) => this.#isStored(own, results[at]));
    for (const [at, own] of pushed.entries()) {
      const result = results[at];
      if (!result || !stored.includes(own)) continue;
      const itemId = own.item.item_id;
      const { name: client, key: sender } = this.host;
      this.#seen.push({ type: 'push', client, sender, epoch, itemId, targets: own.targets, result, ...times });
    }
    this.#waiting = this.#waiting.filter((own) => !stored.includes(own));
    if (epoch !== this.#epoch) this.#pushAgain(stored);
    this.#epoch = epoch;
  }

  /** A page of what waits; acks it unless that is lost. Answers how many items came. */
  async pull(signal: AbortSignal, losesAck = false): Promise<number> {
    const { answer: page, ...times } = await this.#front.ask(
      (url) => this.#enrolled(url, (client) => client.pull()),
      signal,
    );
    const { name: client, key: target } = this.host;
    const { epoch, head_seq: head, last_seq: lastSeq, more } = page;
    const items = page.items.map(({ seq, item_id: itemId, sender_pubkey: sender, wire }) => {
      return { seq, itemId, sender, wireHash: sha256Hex(wire) };
    });
    this.#seen.push({ type: 'pull', client, epoch, target, head, lastSeq, more, items, ...times });
    for (const { sender, itemId } of items) this.#came.add(itemKey(sender, itemId, target));
    const last = items.at(-1);
    if (last && !losesAck) await this.#ack(epoch, last.seq, signal);
    return items.length;
  }

  async #ack(epoch: string, through: number, signal: AbortSignal): Promise<void> {
    const { answer: isDone, ...times } = await this.#front.ask(async (url) => {
      try {
        await this.#client(url).ack(epoch, through);
        return true;
      } catch (error) {
        // Of another epoch, or of a relay that forgot this host: it pulls first.
        const isOver = error instanceof RelayCallFailed && (error.code === 'EPOCH_CHANGED' || isNotEnrolled(error));
        if (isOver) return false;
        throw error;
      }
    }, signal);
    const { name: client, key: target } = this.host;
    if (isDone) this.#seen.push({ type: 'ack', client, epoch, target, through, ...times });
  }

  #isStored(own: OwnItem, result: PushResult | undefined): boolean {
    const status = result?.status ?? '';
    if (STORED.has(status)) own.isAccepted = true;
    else this.refused.set(status, (this.refused.get(status) ?? 0) + 1);
    return STORED.has(status);
  }

  /** Pushes again what was accepted in another epoch and did not come. */
  #pushAgain(stored: readonly OwnItem[]): void {
    const again = this.#own.filter(
      (own) => !this.#waiting.includes(own) && !stored.includes(own) && !this.#isThere(own),
    );
    this.#waiting = [...again, ...this.#waiting];
  }

  #isThere({ item, targets }: OwnItem): boolean {
    return targets.every(({ target }) => this.#came.has(itemKey(this.host.key, item.item_id, target)));
  }

  async #enrolled<T>(url: string, work: (client: RelayClient) => Promise<T>): Promise<T> {
    const client = this.#client(url);
    try {
      return await work(client);
    } catch (error) {
      if (!(error instanceof RelayCallFailed) || !isNotEnrolled(error)) throw error;
      await client.enrol();
      // Asked again as a request of its own: this one began before the host was known.
      throw error;
    }
  }

  #client(url: string): RelayClient {
    const { signer, name: hostName } = this.host;
    return new RelayClient({ url, signer, hostName, nowMs: Date.now }, relay.key);
  }
}
