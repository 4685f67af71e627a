/**
 * Two hosts that write to each other through the proxy, as Poste's daemons do: they push until the relay signed that it
 * accepted, pull, answer each mail with a signed delivery receipt, ack, and in a new epoch push again what no receipt
 * confirmed. What they see goes into the ledger.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { type PushResult, RelayClient } from '../../src/host/relay/relay-client.ts';
import type { ItemToPush, PulledItem } from '../../src/host/relay/relay-forms.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { type TestHost, hostNamed } from '../../test/support/hosts.ts';
import { itemTo, receiptId, receiptWire } from '../../test/support/mail.ts';
import { Ledger } from './ledger.ts';

/** Each host writes a mail so often. */
const WRITES_EVERY_MS = 400;
/** So much waits to be accepted while nobody accepts; more is not written meanwhile. */
const OUTBOX_MAX = 50;
const TRIES_AGAIN_AFTER_MS = 200;
const PULL_WAIT_S = 2;

interface LoadOptions {
  proxyPort: number;
  relayKey: PublicKey;
  say: (what: string) => void;
}

interface Outgoing {
  item: ItemToPush;
  /** The epoch in which it was accepted last. */
  epoch?: string;
  /** Its delivery receipt came, which may be before the answer that says that it was accepted. */
  isConfirmed: boolean;
}

export class Load {
  readonly ledger = new Ledger();
  /** Says why hosts are not served now; empty when they are. */
  refusal = '';
  readonly #options: LoadOptions;
  readonly #stopping = new AbortController();
  readonly #hosts: readonly [TestHost, TestHost] = [hostNamed('desktop'), hostNamed('lab')];
  readonly #outboxes = new Map<TestHost, Map<string, Outgoing>>(this.#hosts.map((host) => [host, new Map()]));
  #written = 0;
  #isWriting = true;
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  start(): void {
    const [one, two] = this.#hosts;
    const lives = [this.#live(one, two), this.#live(two, one)];
    this.#running = Promise.all(lives);
  }

  /** No more mail is written; what was accepted still arrives. */
  stopWriting(): void {
    this.#isWriting = false;
  }

  /** Says whether all that was written was accepted, came, and is confirmed. */
  get isSettled(): boolean {
    const { accepted, arrived, confirmed } = this.ledger.counts;
    return (
      [...this.#outboxes.values()].every(({ size }) => size === 0) && accepted === arrived && confirmed === arrived
    );
  }

  async end(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #live(host: TestHost, peer: TestHost): Promise<void> {
    const url = `http://127.0.0.1:${this.#options.proxyPort}`;
    const given = { url, signer: host.signer, hostName: host.name, nowMs: Date.now, stopping: this.#stopping.signal };
    const client = new RelayClient(given, this.#options.relayKey);
    let isEnrolled = false;
    await this.#again(0, async () => {
      if (!isEnrolled) await client.enrol();
      isEnrolled = true;
      this.#stopping.signal.throwIfAborted();
      await Promise.all([
        this.#again(WRITES_EVERY_MS, async () => this.#write(host, peer)),
        this.#again(WRITES_EVERY_MS / 2, () => this.#push(client, host)),
        this.#again(0, () => this.#pull(client, host, peer)),
      ]);
    });
  }

  /** Does it until the end, and again after a failure. */
  async #again(everyMs: number, work: () => Promise<void>): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      let pauseMs = everyMs;
      try {
        await work();
      } catch (error) {
        pauseMs = TRIES_AGAIN_AFTER_MS;
        if (!signal.aborted) this.refusal = (error as Error).message;
      }
      if (!signal.aborted) await elapsed(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }

  #write(host: TestHost, peer: TestHost): void {
    const outbox = this.#outboxOf(host);
    const waiting = [...outbox.values()].filter(({ epoch }) => epoch === undefined).length;
    if (!this.#isWriting || waiting >= OUTBOX_MAX) return;
    const itemId = `${host.name}-${++this.#written}`;
    outbox.set(itemId, { item: itemTo([peer], itemId), isConfirmed: false });
  }

  /** What was accepted in an older epoch and not confirmed is pushed again. */
  async #push(client: RelayClient, host: TestHost): Promise<void> {
    const outbox = this.#outboxOf(host);
    const due = [...outbox.values()].filter(({ epoch }) => epoch === undefined || epoch !== this.ledger.epoch);
    if (due.length === 0) return;
    const { epoch, results } = await client.push(due.map(({ item }) => item));
    this.#sawEpoch(epoch);
    this.refusal = '';
    for (const [index, outgoing] of due.entries()) this.#notePushed(host, outgoing, epoch, results[index]);
  }

  #notePushed(host: TestHost, outgoing: Outgoing, epoch: string, result: PushResult | undefined): void {
    const { item_id: itemId, kind, targets } = outgoing.item;
    if (result?.status !== 'accepted' && result?.status !== 'duplicate') {
      this.refusal = `${itemId}: ${result?.status}`;
      return;
    }
    const fault = this.#receiptFault(host, outgoing.item, result);
    if (fault !== undefined) this.ledger.faults.push(`${itemId}: ${fault}`);
    if (kind === 'receipt') {
      this.#outboxOf(host).delete(itemId);
      return;
    }
    outgoing.epoch = epoch;
    if (outgoing.isConfirmed) this.#outboxOf(host).delete(itemId);
    const [target] = targets;
    const seq = result.targets?.[0]?.seq ?? 0;
    const to = target?.host_pubkey ?? '';
    const quietMs = this.ledger.accept(itemId, to, { epoch, seq }, performance.now());
    if (quietMs !== undefined) this.#options.say(`hosts are served again after ${(quietMs / 1000).toFixed(1)} s`);
  }

  /** Returns what is wrong with the receipt by which the relay says that it accepted. */
  #receiptFault(host: TestHost, item: ItemToPush, result: PushResult): string | undefined {
    const { accept } = result;
    if (!accept) return 'it was accepted without a receipt';
    if (!isReceiptSigned(this.#options.relayKey, result)) return 'its receipt is not signed';
    const [promised] = accept.targets;
    const [pushed] = item.targets;
    const isOf = accept.item_id === item.item_id && accept.sender_pubkey === host.key;
    const isFor = promised?.host_pubkey === pushed?.host_pubkey;
    const isSame = promised?.wire_hash === sha256Hex(Buffer.from(pushed?.wire_b64 ?? '', 'base64'));
    return isOf && isFor && isSame ? undefined : 'its receipt is of something else';
  }

  async #pull(client: RelayClient, host: TestHost, peer: TestHost): Promise<void> {
    const { epoch, items, last_seq: lastSeq } = await client.pull({ wait: PULL_WAIT_S });
    this.#sawEpoch(epoch);
    for (const item of items) this.#receive(host, peer, epoch, item);
    if (items.length === 0) return;
    await client.ack(epoch, lastSeq);
    this.ledger.pass(host.key, { epoch, seq: lastSeq });
  }

  #receive(host: TestHost, peer: TestHost, epoch: string, { kind, item_id: itemId, seq }: PulledItem): void {
    if (kind === 'receipt') {
      const [, mail = ''] = itemId.split(':');
      const sent = this.#outboxOf(host).get(mail);
      if (!sent || sent.isConfirmed) return;
      sent.isConfirmed = true;
      this.ledger.confirm();
      if (sent.epoch !== undefined) this.#outboxOf(host).delete(mail);
      return;
    }
    this.ledger.arrive(itemId, host.key, { epoch, seq });
    const id = receiptId(itemId, `agent@${host.name}`, 1);
    const wire = receiptWire(host, itemId, `agent@${host.name}`, 1);
    this.#outboxOf(host).set(id, { item: itemTo([peer], id, wire), isConfirmed: false });
  }

  #sawEpoch(epoch: string): void {
    const before = this.ledger.epoch;
    if (this.ledger.sawEpoch(epoch) && before !== undefined)
      this.#options.say('a new epoch began: the hosts push again what no receipt confirmed');
  }

  #outboxOf(host: TestHost): Map<string, Outgoing> {
    const outbox = this.#outboxes.get(host);
    if (!outbox) throw new Error(`${host.name} is no host of the cluster`);
    return outbox;
  }
}
