/**
 * A little mail through a relay's process whose disk fails somewhere on the way, and what came to be promised: items
 * that were answered with an accept receipt are there for good, whatever the disk did; of others nothing is known.
 */
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { RelayCallFailed } from '../../src/host/relay/relay-request.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import { type TestHost, alice, bob } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { type PromisedItem, type Promises, RECEIVERS, RELAY_SIGNER } from '../support/mutated-store.ts';

export class ServedMail {
  readonly #url: string;
  readonly #nowMs: number;
  readonly #epoch: Promises['epoch'];
  readonly #items: PromisedItem[];
  readonly #acked: number[];
  /** Requests that got no answer, or one that says that the relay cannot now. */
  unanswered = 0;
  accepted = 0;

  constructor(url: string, { items, acked, nowMs, epoch }: Promises) {
    this.#url = url;
    this.#nowMs = nowMs;
    this.#epoch = epoch;
    this.#items = [...items];
    this.#acked = [...acked];
  }

  /** Returns what has been promised by now. */
  get promises(): Promises {
    return { epoch: this.#epoch, nowMs: this.#nowMs, items: this.#items, acked: this.#acked };
  }

  /** Alice pushes an item to every receiver. Answers whether it was accepted. */
  async push(id: string, bytes = 300): Promise<boolean> {
    const wire = envelopeWire(id, bytes);
    const pushed = await this.#asked(() => this.#client(alice).push([itemTo(RECEIVERS, id, wire)]));
    const [result] = pushed?.results ?? [];
    if (!result) return false;
    const { status, targets = [] } = result;
    if (status !== 'accepted' || !isReceiptSigned(RELAY_SIGNER.publicKey, result))
      throw new Error(`${id} was answered ${status}`);
    this.#items.push({ id, text: wire.toString(), seqs: targets.map(({ seq }) => seq ?? 0) });
    this.accepted++;
    return true;
  }

  /** Bob pulls, and acks what he got first. */
  async pullAndAck(): Promise<void> {
    const [acked = 0] = this.#acked;
    const client = this.#client(bob);
    const page = await this.#asked(() => client.pull({ after: acked }));
    const seq = page?.items[0]?.seq;
    if (!page || seq === undefined) return;
    // He has it, whether or not the relay comes to know that.
    this.#acked[0] = seq;
    await this.#asked(() => client.ack(page.epoch, seq));
  }

  #client(host: TestHost): RelayClient {
    const options = { url: this.#url, signer: host.signer, hostName: host.name, nowMs: () => this.#nowMs };
    return new RelayClient(options, RELAY_SIGNER.publicKey);
  }

  async #asked<T>(ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RelayCallFailed) || (error.status !== 0 && error.status !== 503)) throw error;
      this.unanswered++;
      return undefined;
    }
  }
}
