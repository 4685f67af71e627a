/**
 * A host of a simulation: a sender and a receiver that follow the rules of the specification and nothing else. What it
 * keeps is durable at once, since what is tried is the relay; a host that is killed forgets its requests.
 */
import { type Sha256Hex, sha256Hex } from '../../../src/protocol/encodings.ts';
import { type ExpiryNotice, isDocumentSigned } from '../../../src/protocol/documents.ts';
import type { Epoch } from '../../../src/protocol/names.ts';
import { DAY_MS } from '../../../src/protocol/limits.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { type TestHost, hostNamed, relay as relayHost } from '../hosts.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { SimulatedNetwork } from './network.ts';
import type { Answer, PulledItem, PushResult, SentItem } from './requests.ts';
import type { SimulatedProcess, Simulator } from './simulator.ts';

const ITEMS_AT_ONCE = 8;
const PULLED_AT_ONCE = 5;
const WAIT_S = 25;
const PAUSE_MAX_MS = 20_000;
/** A sender waits so long after the retention for a delivery receipt. */
const GRACE_MS = DAY_MS;

/** One target of an item that this host brings there. */
export interface OutboxRow {
  kind: 'envelope' | 'receipt';
  itemId: string;
  to: number;
  wire: string;
  /** `expired` and `unconfirmed` are alerts to its sender. */
  state: 'pending' | 'accepted' | 'done' | 'expired' | 'unconfirmed';
  /** Accepted in an epoch that ended: pushed again. */
  isAgain: boolean;
  /** By the last receipt. */
  acceptedAtMs: number;
  sentAtMs: number;
}

export interface HostOptions {
  simulator: Simulator;
  random: SeededRandom;
  network: SimulatedNetwork;
  retentionMs: number;
  /** Its clock is that of the relay. */
  wallMs: () => number;
  /** Returns which host a key belongs to. */
  ownerOf: (key: PublicKey) => number | undefined;
  fault: (sentence: string) => void;
}

export class SimulatedHost {
  readonly no: number;
  readonly outbox: OutboxRow[] = [];
  /** The number of times that each envelope was delivered to somebody here, by sender and id. */
  readonly delivered = new Map<string, number>();
  /** The keys of others as it knows them: of each host the number of its key. */
  readonly knownKeys = new Map<number, number>();
  process: SimulatedProcess = { isAlive: false };
  keyNo = 0;
  receivedThrough = 0;
  epoch: Epoch | undefined;
  readonly #options: HostOptions;
  /** The relay has said that it released its items so far, in this epoch. */
  #ackedThrough = 0;
  #isEnrolled = false;
  #sent = 0;
  #wake: () => void = () => undefined;

  constructor(no: number, options: HostOptions) {
    this.no = no;
    this.#options = options;
  }

  get key(): TestHost {
    return keyOf(this.no, this.keyNo);
  }

  /** Says whether nothing is on its way any more, as far as this host knows. */
  get isSettled(): boolean {
    return this.receivedThrough === this.#ackedThrough && this.#due.length === 0;
  }

  get #due(): OutboxRow[] {
    return this.outbox.filter((row) => row.state === 'pending' || row.isAgain);
  }

  start(): void {
    const process = { isAlive: true };
    this.process = process;
    this.#isEnrolled = false;
    void this.#pushes(process);
    void this.#pulls(process);
  }

  kill(): void {
    this.process.isAlive = false;
  }

  send(targets: readonly number[], filler: number): void {
    const itemId = `m${this.no}-${this.#sent++}`;
    for (const to of targets) {
      const wire = JSON.stringify({ itemId, from: this.no, to, filler: 'x'.repeat(filler) });
      this.#add({ kind: 'envelope', itemId, to, wire });
    }
    this.#wake();
  }

  /** It has another key from now on, whether the relay knows that or not. */
  rotate(): void {
    this.keyNo++;
    this.receivedThrough = 0;
    this.#ackedThrough = 0;
    this.#isEnrolled = false;
    this.#wake();
  }

  /** Gives up at the sender's deadline what nobody has confirmed. */
  #passDeadlines(): void {
    const { wallMs, retentionMs } = this.#options;
    for (const row of this.outbox) {
      const isDue = row.state === 'accepted' && wallMs() > row.acceptedAtMs + retentionMs + GRACE_MS;
      if (isDue && row.kind === 'envelope') row.state = 'unconfirmed';
    }
  }

  #add(item: Pick<OutboxRow, 'kind' | 'itemId' | 'to' | 'wire'>): void {
    this.outbox.push({ ...item, state: 'pending', isAgain: false, acceptedAtMs: 0, sentAtMs: this.#options.wallMs() });
  }

  async #pushes(process: SimulatedProcess): Promise<void> {
    const { simulator, random } = this.#options;
    for (let pauseMs = 500; ; ) {
      const isDone = await this.#pushSome(process);
      pauseMs = isDone ? 500 : Math.min(PAUSE_MAX_MS, 2 * pauseMs);
      const isIdle = isDone && this.#due.length === 0;
      await new Promise<void>((resolve) => {
        if (isIdle) this.#wake = resolve;
        else simulator.after(pauseMs * (0.5 + random.unit()), resolve, process);
      });
      // It may have been woken for another process of this host.
      if (!process.isAlive) return;
      this.#wake = () => undefined;
    }
  }

  /** Says whether it went on. */
  async #pushSome(process: SimulatedProcess): Promise<boolean> {
    if (!(await this.#enrolled(process))) return false;
    this.#passDeadlines();
    const due = this.#due;
    if (due.length === 0) return true;
    const key = this.key;
    const sent = this.#itemsOf(due);
    const items = sent.map(({ item }) => item);
    const answer = await this.#ask({ type: 'push', items, caller: key }, process);
    if (!answer || answer.type !== 'pushed') return this.#refused(answer);
    this.#noteEpoch(answer.epoch);
    let isDone = true;
    for (const [at, result] of answer.results.entries()) {
      const { item, rows } = sent[at]!;
      if (!this.#noteResult(item, rows, result, answer.epoch, key)) isDone = false;
    }
    return isDone;
  }

  /** The rows of an item go together, or each alone. */
  #itemsOf(due: readonly OutboxRow[]): { item: SentItem; rows: OutboxRow[] }[] {
    const { random } = this.#options;
    const groups = new Map<string, OutboxRow[]>();
    for (const row of due) {
      const name = random.chance(0.7) ? row.itemId : `${row.itemId} ${row.to}`;
      groups.set(name, [...(groups.get(name) ?? []), row]);
    }
    return [...groups.values()].slice(0, ITEMS_AT_ONCE).map((rows) => {
      const [{ kind, itemId }] = rows as [OutboxRow];
      const targets = rows.map(({ to, wire }) => ({ key: keyOf(to, this.knownKeys.get(to) ?? 0).key, wire }));
      return { item: { kind, itemId, targets }, rows };
    });
  }

  /** Says whether the item is accepted. */
  #noteResult(item: SentItem, rows: OutboxRow[], result: PushResult, epoch: Epoch, sender: TestHost): boolean {
    const { status, accept, sig } = result;
    if (status.startsWith('rejected:')) {
      if (status === 'rejected:conflict') this.#options.fault(`${item.itemId} conflicts with itself`);
      return false;
    }
    const isMine = accept?.item_id === item.itemId && accept.sender_pubkey === sender.key && accept.epoch === epoch;
    const areTargets = item.targets.every(({ key, wire }) =>
      accept?.targets.some((one) => one.host_pubkey === key && one.wire_hash === wireHash(wire)),
    );
    if (!accept || !isMine || !areTargets || !isDocumentSigned(relayHost.key, accept, sig)) {
      this.#options.fault(`the receipt of ${item.itemId} is no receipt of it`);
      return false;
    }
    for (const row of rows) {
      if (row.state === 'pending') row.state = 'accepted';
      row.isAgain = false;
      row.acceptedAtMs = Math.max(row.acceptedAtMs, accept.at);
    }
    return true;
  }

  async #pulls(process: SimulatedProcess): Promise<void> {
    const { simulator, random } = this.#options;
    for (;;) {
      const isDone = await this.#pullPage(process);
      if (!isDone) await simulator.elapsed(500 + random.unit() * 3000, process);
    }
  }

  /** Says whether it was answered with a page, and did what is to be done with it. */
  async #pullPage(process: SimulatedProcess): Promise<boolean> {
    if (!(await this.#enrolled(process))) return false;
    const { key, epoch, receivedThrough: after } = this;
    const isWaiting = after === this.#ackedThrough;
    const asked = {
      type: 'pull',
      caller: key,
      after,
      limit: PULLED_AT_ONCE,
      epoch,
      waitS: isWaiting ? WAIT_S : 0,
    } as const;
    const page = await this.#ask(asked, process);
    // Another answer may have begun an epoch meanwhile, or a rotation: then this page is of a place that it left.
    if (key !== this.key || epoch !== this.epoch || after !== this.receivedThrough) return true;
    if (!page || page.type !== 'page') return this.#refused(page);
    if (epoch === undefined) this.#noteEpoch(page.epoch);
    if (page.headSeq < this.receivedThrough) return this.#rewound(page.epoch);
    for (const item of page.items) this.#receive(item);
    this.receivedThrough = Math.max(this.receivedThrough, page.lastSeq);
    return this.receivedThrough === this.#ackedThrough || this.#ack(key, page.epoch, process);
  }

  /** Says whether it was answered; one that was not is tried again after the next page. */
  async #ack(key: TestHost, epoch: Epoch, process: SimulatedProcess): Promise<boolean> {
    const through = this.receivedThrough;
    const acked = await this.#ask({ type: 'ack', caller: key, epoch, through }, process);
    if (key !== this.key || epoch !== this.epoch) return true;
    if (acked?.type === 'refused' && acked.code === 'BAD_ACK') return this.#rewound(epoch);
    if (acked?.type !== 'acked') return this.#refused(acked);
    this.#ackedThrough = through;
    return true;
  }

  #receive({ kind, itemId, wire }: PulledItem): void {
    if (kind === 'expired') return this.#expired(JSON.parse(wire) as { rec: ExpiryNotice; sig: string });
    const message = JSON.parse(wire) as { itemId: string; from: number; to: number; of?: string };
    if (message.itemId !== itemId || message.to !== this.no)
      return this.#options.fault(`${itemId} came to host ${this.no} with other bytes`);
    if (kind === 'receipt') {
      for (const row of this.outbox) {
        if (row.kind !== 'envelope' || row.itemId !== message.of || row.to !== message.from) continue;
        Object.assign(row, { state: 'done', isAgain: false });
      }
      return;
    }
    const name = `${message.from} ${itemId}`;
    if (!this.delivered.has(name)) this.delivered.set(name, 1);
    this.#confirm(itemId, message.from);
  }

  /** The delivery receipt; once more when the envelope came again, because the first may be lost. */
  #confirm(of: string, to: number): void {
    const itemId = `receipt:${of}:${this.no}:1`;
    const known = this.outbox.find((row) => row.itemId === itemId);
    if (known) known.isAgain = known.state !== 'pending';
    else {
      const wire = JSON.stringify({ itemId, from: this.no, to, of });
      this.#add({ kind: 'receipt', itemId, to, wire });
    }
    this.#wake();
  }

  #expired({ rec, sig }: { rec: ExpiryNotice; sig: string }): void {
    const { fault, retentionMs, ownerOf } = this.#options;
    if (!isDocumentSigned(relayHost.key, rec, sig)) fault(`the notice of ${rec.item_id} is not signed`);
    if (rec.expired_at - rec.accepted_at < retentionMs) fault(`${rec.item_id} expired before its time`);
    const to = ownerOf(rec.target_pubkey);
    for (const row of this.outbox) {
      if (row.itemId !== rec.item_id || row.to !== to || row.state === 'done') continue;
      Object.assign(row, { state: 'expired', isAgain: false });
    }
  }

  async #enrolled(process: SimulatedProcess): Promise<boolean> {
    if (this.#isEnrolled) return true;
    const { keyNo, epoch } = this;
    // The relay may have been told of none of them, or have forgotten it.
    for (let no = 0; no < keyNo; no++) {
      const rotation = { type: 'rotate', caller: keyOf(this.no, no), to: keyOf(this.no, no + 1) } as const;
      if (!(await this.#ask(rotation, process))) return false;
    }
    const caller = keyOf(this.no, keyNo);
    const given = await this.#ask({ type: 'challenge', caller }, process);
    if (given?.type !== 'challenge') return false;
    const answer = await this.#ask({ type: 'enrol', caller, challenge: given.text }, process);
    if (keyNo !== this.keyNo || epoch !== this.epoch) return false;
    this.#isEnrolled = answer?.type === 'done';
    return this.#isEnrolled;
  }

  /** Returns what a refusal says of the epoch and of this host; never done. */
  #refused(answer: Answer | undefined): false {
    if (answer?.type !== 'refused') return false;
    if (answer.epoch !== undefined) this.#noteEpoch(answer.epoch);
    if (answer.code === 'NOT_ENROLLED') this.#isEnrolled = false;
    return false;
  }

  #rewound(epoch: Epoch): false {
    this.#options.fault(`host ${this.no} was ahead of the relay in ${epoch}`);
    this.epoch = undefined;
    this.#noteEpoch(epoch);
    return false;
  }

  #noteEpoch(epoch: Epoch): void {
    if (epoch === this.epoch) return;
    const isFirst = this.epoch === undefined;
    this.epoch = epoch;
    // What it was told of its rotations and its enrolment may be of an epoch that ended.
    this.#isEnrolled = false;
    if (isFirst) return;
    this.receivedThrough = 0;
    this.#ackedThrough = 0;
    for (const row of this.outbox) if (row.state === 'accepted') row.isAgain = true;
    this.#wake();
  }

  async #ask(request: Parameters<SimulatedNetwork['ask']>[0], process: SimulatedProcess): Promise<Answer | undefined> {
    const { simulator, network } = this.#options;
    const answer = await network.ask(request, process);
    simulator.note(`host ${this.no} ${request.type}: ${answer ? JSON.stringify(answer) : 'nothing'}`);
    return answer;
  }
}

/** The key with this number, of the host with that one. */
export function keyOf(host: number, no: number): TestHost {
  const name = `simulated ${host} ${no}`;
  const known = keys.get(name) ?? hostNamed(name);
  keys.set(name, known);
  return known;
}

const keys = new Map<string, TestHost>();

const hashes = new Map<string, Sha256Hex>();

function wireHash(wire: string): Sha256Hex {
  const known = hashes.get(wire) ?? sha256Hex(wire);
  if (hashes.size > 10_000) hashes.clear();
  hashes.set(wire, known);
  return known;
}
