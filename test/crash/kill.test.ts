/**
 * kill -9 under load, again and again on one store, with an oracle outside the process.
 *
 * Senders push the same bytes until they have an accept receipt; receivers pull, note and ack. Whatever happens to the
 * relay in between, what it gave a receipt for is delivered exactly once and in order, or is still queued.
 */
import { describe, expect, test } from 'vitest';
import { type PushResult, RelayClient } from '../../src/host/relay/relay-client.ts';
import type { ItemToPush } from '../../src/host/relay/relay-forms.ts';
import { RelayProblem } from '../../src/host/relay/relay-request.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { ADAPTERS } from '../support/adapters.ts';
import { epochSource } from '../support/epochs.ts';
import { freePort } from '../support/free-port.ts';
import { sha256 } from '../support/hops.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { type RelayProcess, poste, relayProcess, serveArgs } from '../support/poste-process.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH, TIMES, tried } from '../support/thorough.ts';

const ROUNDS = IS_THOROUGH ? 10 * TIMES : 2;
/** As many as it takes until an answer is lost, in the end. */
const KILLS_MAX = 40;
/** The number of pushes, at most, from one kill to the next. */
const ANSWERS_BETWEEN_MAX = IS_THOROUGH ? 1000 : 200;
const SENDERS = [alice, carol, dave];
const erin = hostNamed('erin');
const RECEIVERS = [bob, erin];
/** Pushes of one sender under way at once. */
const PUSHES_AT_ONCE = 3;
const LIMITS = JSON.stringify({
  max_queue_items: 1_000_000,
  max_sender_items: 1_000_000,
  max_queue_bytes: 1_000_000_000,
  max_sender_bytes: 1_000_000_000,
  max_pull: 20,
});

describe('kill -9', () => {
  test(
    `${ROUNDS} times under load loses nothing that was accepted, doubles nothing and reuses no seq`,
    async () => {
      const random = new SeededRandom(4711);
      const storeDir = await temporaryFolder();
      const port = await freePort();
      const oracle = new Oracle();
      const relay = new KilledRelay(storeDir, port, random);
      const load = { isOver: false };

      await relay.begin();
      for (const host of [...SENDERS, ...RECEIVERS]) await relay.client(host).enrol();
      const senders = SENDERS.flatMap((host) =>
        Array.from({ length: PUSHES_AT_ONCE }, (_, lane) =>
          new Sender(host, lane, relay, oracle, new SeededRandom(random.below(1e9))).run(load),
        ),
      );
      const receivers = RECEIVERS.map((host) => new Receiver(host, relay, oracle, new SeededRandom(random.below(1e9))));
      const received = receivers.map((receiver) => receiver.run(load));

      const someAnswers = (): Promise<void> => oracle.moreAnswers(100 + random.below(ANSWERS_BETWEEN_MAX - 100));
      await someAnswers();
      // A few kills may lose no answer: then there are more of them, so that there is something to find.
      for (let kills = 0; kills < ROUNDS || (oracle.repeated === 0 && kills < KILLS_MAX); kills++) {
        await relay.killAndBegin();
        await someAnswers();
      }
      load.isOver = true;
      await Promise.all([...senders, ...received]);
      // Bob takes the rest of his mail; erin leaves hers where it is.
      await receivers[0]?.takeAll();
      expect(await relay.end()).toBe(0);

      expect(relay.epochs.size).toBe(1);
      expect(relay.notices).toEqual([]);
      const { events, queued } = await readStore(storeDir);
      expectLogOf(events, oracle);
      for (const host of RECEIVERS) expectDelivery(host, oracle, queued.get(host.key) ?? []);
      expect(queued.get(bob.key)).toEqual([]);
      // The test has had something to find: lost answers that were stored all the same, and mail on both sides.
      expect(oracle.accepted.size).toBeGreaterThan(ROUNDS * 150);
      expect(oracle.repeated).toBeGreaterThan(0);
      tried(
        `${ROUNDS} kills at least; ${oracle.accepted.size} items accepted, ` +
          `${oracle.repeated} of them after a lost answer`,
      );
      expect(oracle.deliveredTo(bob).length).toBeGreaterThan(ROUNDS * 75);
    },
    180_000 * TIMES,
  );
});

/** Knows what the relay has promised, and what it has handed over. */
class Oracle {
  /** `sender item target` → seq, for everything that an accept receipt was given for. */
  readonly accepted = new Map<string, number>();
  /** Answers `duplicate`: the first answer was lost. */
  repeated = 0;
  readonly #delivered = new Map<PublicKey, { seq: number; item: string }[]>();
  #answers = 0;
  #waiting: { at: number; resolve: () => void }[] = [];

  /** Takes the accept receipt of an item that was pushed; throws when it is not what it must be. */
  accept(from: TestHost, item: ItemToPush, result: PushResult | undefined, relayPubkey: PublicKey): void {
    const { status = 'nothing', accept, targets = [] } = result ?? {};
    if (status !== 'accepted' && status !== 'duplicate') throw new Error(`${item.item_id} was answered ${status}`);
    if (!accept || !isReceiptSigned(relayPubkey, result)) throw new Error('no accept receipt');
    if (status === 'duplicate') this.repeated++;
    for (const [position, { host_pubkey, wire_b64 }] of item.targets.entries()) {
      const stated = accept.targets[position];
      const seq = targets[position]?.seq ?? -1;
      const wireHash = sha256(Buffer.from(wire_b64 ?? '', 'base64'));
      if (stated?.host_pubkey !== host_pubkey || stated.seq !== seq || stated.wire_hash !== wireHash) {
        throw new Error(`the accept receipt of ${item.item_id} is of something else`);
      }
      this.accepted.set(`${from.key} ${item.item_id} ${host_pubkey}`, seq);
    }
    this.#answers++;
    for (const { resolve } of this.#waiting.filter(({ at }) => at <= this.#answers)) resolve();
    this.#waiting = this.#waiting.filter(({ at }) => at > this.#answers);
  }

  /** Resolves when `count` more pushes have been answered. */
  moreAnswers(count: number): Promise<void> {
    const at = this.#answers + count;
    return new Promise((resolve) => {
      this.#waiting.push({ at, resolve });
    });
  }

  deliver(to: TestHost, seq: number, item: string): void {
    this.deliveredTo(to).push({ seq, item });
  }

  /** Each time that something was handed over, in order. */
  deliveredTo(host: TestHost): { seq: number; item: string }[] {
    const delivered = this.#delivered.get(host.key) ?? [];
    this.#delivered.set(host.key, delivered);
    return delivered;
  }
}

/** A relay process on one store and one port that is killed and begun again. */
class KilledRelay {
  readonly epochs = new Set<string>();
  readonly notices: string[] = [];
  readonly #storeDir: string;
  readonly #port: number;
  readonly #random: SeededRandom;
  #running: RelayProcess | undefined;
  #up: Promise<void> = Promise.resolve();
  #pubkey: PublicKey | undefined;

  constructor(storeDir: string, port: number, random: SeededRandom) {
    this.#storeDir = storeDir;
    this.#port = port;
    this.#random = random;
  }

  /** Resolves when a relay is there that may be asked. */
  up(): Promise<void> {
    return this.#up;
  }

  get pubkey(): PublicKey {
    if (this.#pubkey === undefined) throw new Error('no relay has begun yet');
    return this.#pubkey;
  }

  client(host: TestHost): RelayClient {
    const url = `http://127.0.0.1:${this.#port}`;
    const options = { url, signer: host.signer, hostName: host.name, nowMs: () => Date.now() };
    return new RelayClient(options, this.pubkey);
  }

  async begin(): Promise<void> {
    this.#running = await relayProcess(this.#storeDir, this.#args());
    const { epoch, notices, relay_pubkey } = this.#running.start;
    this.epochs.add(epoch);
    this.notices.push(...notices);
    this.#pubkey = relay_pubkey as PublicKey;
  }

  async killAndBegin(): Promise<void> {
    let begun!: () => void;
    this.#up = new Promise((resolve) => {
      begun = resolve;
    });
    await delay(this.#random.unit() * 5);
    await this.#running?.process.kill();
    if (this.#random.chance(0.3)) {
      // This one does not live to say that it is ready, or hardly longer.
      const stillborn = poste(serveArgs(this.#storeDir, this.#args()));
      await delay(this.#random.below(600));
      await stillborn.kill();
    }
    await this.begin();
    begun();
  }

  /** Stops the relay, as it should be stopped. Answers its exit code. */
  async end(): Promise<number | null | undefined> {
    this.#running?.process.signal('SIGTERM');
    return (await this.#running?.process.ended())?.code;
  }

  #args(): string[] {
    const server = this.#random.pick([...ADAPTERS]);
    const listen = `127.0.0.1:${this.#port}`;
    return ['--listen', listen, '--server', server, '--limits', LIMITS, '--pushes-per-minute', '10000000'];
  }
}

/** Pushes items of one host, one after the other, each with the same bytes until it has a receipt. */
class Sender {
  readonly #host: TestHost;
  readonly #lane: number;
  readonly #relay: KilledRelay;
  readonly #oracle: Oracle;
  readonly #random: SeededRandom;

  constructor(host: TestHost, lane: number, relay: KilledRelay, oracle: Oracle, random: SeededRandom) {
    this.#host = host;
    this.#lane = lane;
    this.#relay = relay;
    this.#oracle = oracle;
    this.#random = random;
  }

  async run(load: { isOver: boolean }): Promise<void> {
    const { name } = this.#host;
    for (let number = 1; !load.isOver; number++) {
      const id = `${name}-${this.#lane}-${number}`;
      const batch = Array.from({ length: 1 + this.#random.below(3) }, (_, at) => this.#item(`${id}-${at}`));
      const { results } = await asked(this.#relay, () => this.#relay.client(this.#host).push(batch));
      for (const [at, item] of batch.entries()) this.#oracle.accept(this.#host, item, results[at], this.#relay.pubkey);
    }
  }

  #item(id: string): ItemToPush {
    const targets = this.#random.chance(0.3) ? RECEIVERS : [this.#random.pick(RECEIVERS)];
    const bytes = this.#random.chance(0.05) ? 100_000 : this.#random.below(2000);
    return itemTo(targets, id, envelopeWire(id, bytes));
  }
}

/** Pulls from where it got to, notes what comes, and then acks, or forgets to, as hosts do that crash themselves. */
class Receiver {
  readonly #host: TestHost;
  readonly #relay: KilledRelay;
  readonly #oracle: Oracle;
  readonly #random: SeededRandom;
  #receivedThrough = 0;

  constructor(host: TestHost, relay: KilledRelay, oracle: Oracle, random: SeededRandom) {
    this.#host = host;
    this.#relay = relay;
    this.#oracle = oracle;
    this.#random = random;
  }

  async run(load: { isOver: boolean }): Promise<void> {
    while (!load.isOver) {
      await this.#take();
      await delay(this.#random.below(20));
    }
  }

  /** Takes everything, and acks it. */
  async takeAll(): Promise<void> {
    while (await this.#take());
    const client = this.#relay.client(this.#host);
    const { epoch } = await client.info();
    await client.ack(epoch, this.#receivedThrough);
  }

  /** Takes a page. Answers whether there is more. */
  async #take(): Promise<boolean> {
    const client = this.#relay.client(this.#host);
    const page = await asked(this.#relay, () => client.pull({ after: this.#receivedThrough }));
    // Rule 7 of receiving hosts: a head below what was received would be a store that went back in time.
    if (page.head_seq < this.#receivedThrough) throw new Error('the relay has gone back in time');
    for (const { seq, item_id, sender_pubkey, wire } of page.items) {
      if (seq <= this.#receivedThrough) throw new Error('a page does not ascend from where it was asked');
      const id = (JSON.parse(wire.toString()) as { id: string }).id;
      if (id !== item_id) throw new Error('an item came with the bytes of another');
      this.#oracle.deliver(this.#host, seq, `${sender_pubkey} ${item_id}`);
      this.#receivedThrough = seq;
    }
    if (page.last_seq !== this.#receivedThrough) throw new Error('last_seq is not the last seq returned');
    const through = this.#receivedThrough;
    if (this.#random.chance(0.7)) await asked(this.#relay, () => client.ack(page.epoch, through));
    return page.more;
  }
}

/** Returns what the relay answers in the end: asked again after every lost answer, and when there is a relay again. */
async function asked<T>(relay: KilledRelay, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 0; attempt < 10_000; attempt++) {
    await relay.up();
    try {
      return await ask();
    } catch (error) {
      // A lost connection, or a relay that says that it cannot answer now. Every other answer is a fault.
      if (error instanceof RelayProblem && error.status !== 503) throw error;
      await delay(1);
    }
  }
  throw new Error('the relay never answered');
}

/** The log from its beginning, contiguous and unaltered, and what is queued for each receiver. */
async function readStore(
  folder: string,
): Promise<{ events: RelayEvent[]; queued: Map<PublicKey, { seq: number; item: string }[]> }> {
  const { store, notices } = await openStore({ folder, nowMs: Date.now(), newEpoch: epochSource() });
  try {
    expect(notices).toEqual([]);
    const events: RelayEvent[] = [];
    for await (const { lsn, event } of store.read(1)) {
      if (lsn !== events.push(event)) throw new Error(`record ${lsn} is not where it belongs`);
    }
    expect(events).toHaveLength(store.lastLsn);
    const queued = new Map<PublicKey, { seq: number; item: string }[]>();
    for (const { key } of RECEIVERS) {
      const { headSeq = 0, ackedThrough = 0 } = store.get('target', key) ?? {};
      const rows = await store.queueRows(key, ackedThrough, headSeq, 1_000_000);
      const payloads = await store.payloads(rows);
      for (const [at, row] of rows.entries()) expect(sha256(payloads[at] ?? '')).toBe(row.wireHash);
      queued.set(
        key,
        rows.map(({ seq, senderPubkey, itemId }) => ({ seq, item: `${senderPubkey} ${itemId}` })),
      );
    }
    return { events, queued };
  } finally {
    await store.close();
  }
}

/** Every promise is in the log with its seq, nothing is in it twice, and no seq was given twice. */
function expectLogOf(events: readonly RelayEvent[], oracle: Oracle): void {
  const logged = new Map<string, number>();
  const seqs = new Set<string>();
  for (const event of events) {
    if (event.type !== 'ItemAccepted') continue;
    for (const { hostPubkey, seq } of event.targets) {
      const place = `${event.senderPubkey} ${event.itemId} ${hostPubkey}`;
      expect([place, logged.has(place), seqs.has(`${hostPubkey} ${seq}`)]).toEqual([place, false, false]);
      logged.set(place, seq);
      seqs.add(`${hostPubkey} ${seq}`);
    }
  }
  const promised = [...oracle.accepted].filter(([place, seq]) => logged.get(place) !== seq);
  expect(promised).toEqual([]);
  expect(events.filter(({ type }) => type === 'EpochRotated' || type === 'ItemLost')).toEqual([]);
}

/** What was promised to be delivered to `host` was, once and in order, or is queued behind what was. */
function expectDelivery(host: TestHost, oracle: Oracle, queued: readonly { seq: number; item: string }[]): void {
  const delivered = oracle.deliveredTo(host);
  const seqs = delivered.map(({ seq }) => seq);
  expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b));
  const receivedThrough = seqs.at(-1) ?? 0;
  const waiting = queued.filter(({ seq }) => seq > receivedThrough);
  const items = [...delivered, ...waiting].map(({ item }) => item);
  expect(new Set(items).size).toBe(items.length);
  const seqOf = new Map([...delivered, ...waiting].map(({ seq, item }) => [item, seq]));
  const lost = [...oracle.accepted].filter(([place, seq]) => {
    const [sender = '', itemId = '', target] = place.split(' ');
    return target === host.key && seqOf.get(`${sender} ${itemId}`) !== seq;
  });
  expect(lost).toEqual([]);
  // What is queued at or below the position was handed over already, as it is.
  const again = queued.filter(({ seq }) => seq <= receivedThrough);
  for (const { seq, item } of again) expect(seqOf.get(item)).toBe(seq);
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
