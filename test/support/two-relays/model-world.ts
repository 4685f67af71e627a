/**
 * Random interleavings of two senders (A, B), two receivers (C, D) and two relays: requests and answers are lost, hosts
 * die within a page, relays are away for days, links are cut, notices come late, stores go back with and without a new
 * epoch, hosts are restored from copies, a relay swallows everything or receipts alone, receivers leave a relay. The
 * rules are those of the core; `broken` takes some away, to show that a check notices it.
 */
import type { OutboxAlert } from '../../../src/host/core/outbox-event.ts';
import { GIVE_UP_MS } from '../../../src/host/core/outbox-row.ts';
import type { OutboxRow } from '../../../src/host/core/rows.ts';
import { HOUR_MS } from '../../../src/protocol/limits.ts';
import { SeededRandom } from '../seeded-random.ts';
import { NOON_MS } from '../test-clock.ts';
import { type Break, type HostStore, ModelHost, type Surroundings } from './model-host.ts';
import { ModelRelay, RETENTION_MS } from './model-relay.ts';

/** The limits keep their proportions roughly: nobody asks more than once or twice in this time. */
const TICK_MS = HOUR_MS / 2;
const ACT_MS = 10_000;
const ACTS_A_TICK = 60;
const PUSHED_MAX = 4;
const PAGE_MAX = 5;
const SENDERS = ['A', 'B'] as const;
const RECEIVERS = ['C', 'D'] as const;

/**
 * 0: one relay at a time may be away, for any time. 1: anything may be away. 2: and stores go back, relays lie now and
 * then. 3: and hosts are restored from copies. 4: relay 1 lies from some time on, and relay 2 works. 5: as 0, and C and
 * D leave relay 1: they shut its door, take what is behind it, and go; nobody was told.
 */
export type Mode = 0 | 1 | 2 | 3 | 4 | 5;
const ONE_WORKS: ReadonlySet<Mode> = new Set([0, 4, 5]);

export interface Played {
  faults: string[];
  counts: { sent: number; delivered: number; copies: number; underLies: number; underLiesMs: number };
}

/** Plays one world, of which the mode goes by the seed. `steps`: some 25 are a tick of half an hour. */
export function play(seed: number, broken: readonly Break[] = [], steps = 2500): Played {
  return new ModelWorld(seed, broken).play(steps);
}

class ModelWorld {
  readonly #mode: Mode;
  readonly #random: SeededRandom;
  readonly #relays: [ModelRelay, ModelRelay];
  readonly #hosts = new Map<string, ModelHost>();
  readonly #around: Surroundings;
  readonly #broken: readonly Break[];
  /** Hosts and relays that do not reach each other, as `A1`. */
  readonly #cuts = new Set<string>();
  readonly #copies = new Map<string, HostStore>();
  /** Messages that a restore took from their receiver, and those that a relay held until their time was up. */
  readonly #gone = new Set<string>();
  readonly #late = new Set<string>();
  readonly #alerts = new Map<string, OutboxAlert[]>();
  readonly #faults: string[] = [];
  readonly #counts: Played['counts'] = { sent: 0, delivered: 0, copies: 0, underLies: 0, underLiesMs: 0 };

  constructor(seed: number, broken: readonly Break[]) {
    this.#mode = (seed % 6) as Mode;
    this.#random = new SeededRandom(seed * 7919);
    this.#broken = broken;
    this.#relays = [new ModelRelay(1), new ModelRelay(2)];
    let number = 0;
    this.#around = {
      nowMs: NOON_MS,
      unit: () => this.#random.unit(),
      isBroken: (rule) => broken.includes(rule),
      nextNumber: () => number++,
      elsewhereMs: 2 * TICK_MS,
      secondCopyMs: 6 * TICK_MS,
      home: Math.floor(seed / 6) % 3 === 0 ? null : this.#relays.map(({ key }) => key),
      onAlert: (row, alert) => this.#alerted(row, alert),
    };
    for (const id of [...SENDERS, ...RECEIVERS]) this.#hosts.set(id, new ModelHost(id, this.#relays, this.#around));
  }

  play(steps: number): Played {
    for (let step = 0; step < steps; step++) {
      const dice = this.#random.unit();
      if (dice < 0.03) this.#send();
      else if (dice < 0.07) this.#tick();
      else if (dice < 0.09) this.#trouble();
      else this.#act();
    }
    this.#cuts.clear();
    for (const relay of this.#relays) {
      relay.isUp = true;
      if (this.#mode !== 4) relay.lies = null;
    }
    const longest = (GIVE_UP_MS + 2 * RETENTION_MS) / TICK_MS;
    for (let rest = 0; rest < longest && (rest < 20 || this.#isOpen()); rest++) {
      for (let turn = 0; turn < ACTS_A_TICK; turn++) this.#act();
      this.#tick();
    }
    for (const host of this.#hosts.values()) this.#check(host);
    return { faults: this.#faults, counts: this.#counts };
  }

  #fault(what: string, about: unknown): void {
    this.#faults.push(`${what} (mode ${this.#mode}): ${JSON.stringify(about).slice(0, 1500)}`);
  }

  #host(id: string): ModelHost {
    const host = this.#hosts.get(id);
    if (!host) throw new Error(`there is no host ${id}`);
    return host;
  }

  #isOpen(): boolean {
    return SENDERS.some((id) =>
      this.#host(id)
        .open()
        .some(({ kind }) => kind === 'envelope'),
    );
  }

  #send(): void {
    this.#host(this.#random.pick(SENDERS)).send(this.#random.pick(RECEIVERS));
    this.#counts.sent++;
  }

  #tick(): void {
    this.#around.nowMs += TICK_MS;
    for (const relay of this.#relays) {
      if (relay.isUp) for (const id of relay.sweep(this.#around.nowMs)) this.#late.add(id);
    }
    for (const host of this.#hosts.values()) host.timePassed();
  }

  #act(): void {
    this.#around.nowMs += ACT_MS;
    const isPush = this.#random.chance(0.5);
    const host = this.#random.pick([...this.#hosts.values()]);
    const relay = this.#random.pick(this.#relays);
    if (isPush) this.#push(host, relay);
    else this.#pull(host, relay);
  }

  #reaches(host: ModelHost, relay: ModelRelay): boolean {
    return relay.isUp && !this.#cuts.has(`${host.id}${relay.number}`) && !this.#random.chance(0.05);
  }

  #push(host: ModelHost, relay: ModelRelay): void {
    const link = host.linkTo(relay.number);
    const peers = host.peers();
    if (!link || peers.length === 0) return;
    const to = this.#random.pick(peers);
    const rows = host.leaving(to, relay.key, PUSHED_MAX);
    if (rows.length === 0) return;
    if (!this.#reaches(host, relay)) {
      host.failed(link);
      for (const { rowId } of rows) host.apply(rowId, { type: 'relay-failed', relayPubkey: relay.key, reason: 'cut' });
      return;
    }
    if (relay.epoch !== link.epoch) return host.enter(link, relay);
    host.pushing(rows, relay.key);
    // The sender, the relay or the network died on the way.
    const isCut = this.#random.chance(0.1);
    const taken = isCut ? rows.slice(0, this.#random.below(rows.length)) : rows;
    const results = taken.map(({ kind, itemId, ref }) =>
      relay.push(to, { kind, id: itemId, about: ref, sender: host.id }, this.#around.nowMs),
    );
    if (isCut || this.#random.chance(0.1)) {
      host.failed(link);
      const reason = 'no answer';
      if (this.#random.chance(0.5))
        for (const { rowId } of rows) host.apply(rowId, { type: 'relay-failed', relayPubkey: relay.key, reason });
      return;
    }
    host.heard(link);
    taken.forEach((row, at) => {
      if ((row.copies ?? []).length > 0) this.#counts.copies++;
      host.answered(row, relay, results[at] ?? 'refused');
    });
  }

  #pull(host: ModelHost, relay: ModelRelay): void {
    const link = host.linkTo(relay.number);
    if (!link) return;
    if (!this.#reaches(host, relay)) return host.failed(link);
    host.heard(link);
    const head = relay.headOf(host.id);
    if (relay.epoch !== link.epoch || head < link.through) return host.enter(link, relay);
    const page = relay
      .queueOf(host.id)
      .filter(({ seq }) => seq > link.through)
      .slice(0, PAGE_MAX);
    // The host may die within the page.
    const done = this.#random.chance(0.1) ? page.slice(0, this.#random.below(page.length + 1)) : page;
    for (const item of done) {
      this.#noteLies(host, item.kind === 'receipt' ? item.about : undefined);
      host.receive(item, relay.key);
      link.through = item.seq;
    }
    const isEmpty = done.length === page.length && link.through >= head;
    if (relay.number === 1 && host.store.left === 'door' && isEmpty) return host.leave();
    if (this.#random.chance(0.7)) relay.ack(host.id, link.through);
  }

  /** Counts for how long messages are unconfirmed while a relay lies. */
  #noteLies(host: ModelHost, about: string | undefined): void {
    if (this.#mode !== 4 || !this.#relays[0].lies || about === undefined) return;
    const row = [...host.store.rows.values()].find(({ itemId }) => itemId === about);
    if (!row || row.confirmed.length > 0) return;
    this.#counts.underLies++;
    this.#counts.underLiesMs += this.#around.nowMs - row.createdAtMs;
  }

  #alerted(row: OutboxRow, alert: OutboxAlert): void {
    this.#alerts.set(row.itemId, [...(this.#alerts.get(row.itemId) ?? []), alert]);
    const isHeld = this.#relays.some((relay) => relay.queueOf(row.peerId).some(({ id }) => id === row.itemId));
    if (alert === 'expired' && this.#mode < 2 && isHeld) this.#fault('told "expired" while a relay has it', row);
  }

  #trouble(): void {
    const [mode, random] = [this.#mode, this.#random];
    const relay = random.pick(this.#relays);
    const other = this.#relays[relay.number === 1 ? 1 : 0];
    const host = random.pick([...this.#hosts.values()]);
    if (mode === 4) {
      if (relay.number === 1 && !relay.lies && random.chance(0.2))
        relay.lies = random.pick(['all', 'receipts'] as const);
      return;
    }
    if (mode === 5 && relay.number === 2) return;
    const isLeaving = mode === 5 && host.store.left === null && (RECEIVERS as readonly string[]).includes(host.id);
    if (isLeaving && this.#around.nowMs > NOON_MS + 30 * TICK_MS && this.#reaches(host, relay)) {
      relay.shut.add(host.id);
      host.store.left = 'door';
      if (this.#broken.includes('door')) {
        relay.shut.delete(host.id);
        host.leave();
      }
    }
    const isOtherWell = other.isUp && ![...this.#cuts].some((cut) => cut.endsWith(String(other.number)));
    const mayFail = (mode !== 0 && mode !== 5) || isOtherWell;
    const kinds = { 0: ['up', 'cut'], 1: ['up', 'cut'], 5: ['up', 'cut'], 2: ['up', 'cut', 'store', 'store', 'lie'] };
    const kind = random.pick(mode === 3 ? ['up', 'cut', 'store', 'lie', 'host'] : kinds[mode]);
    const cut = `${host.id}${relay.number}`;
    if (kind === 'up' && !relay.isUp) relay.isUp = random.chance(mode === 5 ? 0.9 : 0.3);
    else if (kind === 'up' && mayFail) relay.isUp = false;
    if (kind === 'cut' && this.#cuts.has(cut)) {
      if (random.chance(0.3)) this.#cuts.delete(cut);
    } else if (kind === 'cut' && mayFail) this.#cuts.add(cut);
    if (kind === 'lie') relay.lies = random.chance(0.3) ? random.pick(['all', 'receipts'] as const) : null;
    if (kind === 'store' && (!relay.copy || random.chance(0.4))) relay.keepCopy();
    else if (kind === 'store') relay.goBack(random.chance(0.6));
    if (kind === 'host') this.#restore(host);
  }

  #restore(host: ModelHost): void {
    const copy = this.#copies.get(host.id);
    if (!copy || this.#random.chance(0.4)) {
      this.#copies.set(host.id, structuredClone(host.store));
      return;
    }
    for (const id of host.store.box) if (!copy.box.includes(id)) this.#gone.add(id);
    host.store = structuredClone(copy);
  }

  #check(host: ModelHost): void {
    const { box, rows } = host.store;
    const mode = this.#mode;
    if (new Set(box).size < box.length) this.#fault('doubled', box);
    if (mode < 2 || mode > 3) for (const from of SENDERS) this.#checkOrder(host, from);
    for (const row of rows.values()) {
      if (row.kind !== 'envelope') continue;
      const { itemId, state } = row;
      const isThere = this.#host(row.peerId).store.box.includes(itemId);
      const alerts = this.#alerts.get(itemId) ?? [];
      if (isThere) this.#counts.delivered++;
      if (row.nextAtMs !== null) this.#fault('never ended', row);
      if (!isThere && alerts.length === 0 && !this.#gone.has(itemId)) this.#fault('lost in silence', row);
      // Modes 1 to 3: the sender may reach one relay alone, and the receiver the other one.
      if (isThere && state === 'expired' && ONE_WORKS.has(mode)) this.#fault('told "expired" and delivered', row);
      if (ONE_WORKS.has(mode) && !isThere) this.#fault('not delivered though one relay worked', row);
      if (ONE_WORKS.has(mode) && alerts.length > 0) this.#fault('alerted though one relay worked', { alerts, row });
    }
  }

  /** No order is promised to what a relay held, or may have held, until its time was up, or whose sender was told. */
  #checkOrder(host: ModelHost, from: string): void {
    const over = [...this.#host(from).store.rows.values()].filter(pushedLongAgo).map(({ itemId }) => itemId as string);
    const free = new Set([...this.#late, ...this.#alerts.keys(), ...over]);
    const inOrder = host.store.box.filter((id) => id.startsWith(from) && !free.has(id));
    const numbers = inOrder.map((id) => Number(id.slice(1)));
    if (numbers.some((number, at) => number < (numbers[at - 1] ?? 0))) this.#fault('out of order', inOrder);
  }
}

/** True when a push had no answer for so long that the row could not be repeated there: later messages passed it. */
function pushedLongAgo({ firstAccepted, tried = [] }: OutboxRow): boolean {
  const pushedMs = tried.map(({ firstAtMs }) => firstAtMs);
  return (firstAccepted?.atMs ?? Math.max(...pushedMs)) >= Math.min(...pushedMs) + RETENTION_MS;
}
