/**
 * A host with two relays, over the real core: its rows are stepped by `stepOutbox`, their ways are those of
 * relay-lanes.ts, and its receipts those of receipts.ts. What the daemon does around the core is here in short.
 */
import {
  type OutboxAlert,
  type OutboxClock,
  type OutboxEvent,
  RETRY_TIMING,
} from '../../../src/host/core/outbox-event.ts';
import { isSending } from '../../../src/host/core/outbox-row.ts';
import { stepOutbox } from '../../../src/host/core/outbox.ts';
import { answerToCopy, noteBrought, relaysOfArrival } from '../../../src/host/core/receipts.ts';
import {
  candidatesOf,
  DOUBT_AFTER_MS,
  DOUBTED_MS,
  EVIDENT_MS,
  factsOf,
  isElsewhere,
  laneAfter,
  owedFor,
  type PeerRelays,
  planRows,
  type RelayLane,
  type RelayStanding,
  type RelayState,
  standingOf,
  suspectsOf,
} from '../../../src/host/core/relay-lanes.ts';
import type { Address, ArrivalRow, MessageRef, OutboxRow, PeerId } from '../../../src/host/core/rows.ts';
import type { AcceptReceipt } from '../../../src/protocol/documents.ts';
import type { Epoch, ItemId } from '../../../src/protocol/names.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { outboxRow } from '../outbox-rows.ts';
import { type ModelItem, type ModelRelay, type PushResult, RETENTION_MS } from './model-relay.ts';

/** A rule that is taken away. */
export type Break =
  | 'order'
  | 'dedup'
  | 'notice'
  | 'second'
  | 'each'
  | 'unheard'
  | 'door'
  | 'doubt'
  | 'down'
  | 'repeat'
  | 'tried';

/** The world as a host sees it. */
export interface Surroundings {
  nowMs: number;
  unit: () => number;
  isBroken: (rule: Break) => boolean;
  /** The next number of an item. */
  nextNumber: () => number;
  elsewhereMs: number;
  secondCopyMs: number;
  /** The relays of the document that each host holds of the others; null when they showed none. */
  home: readonly PublicKey[] | null;
  onAlert: (row: OutboxRow, alert: OutboxAlert) => void;
}

interface ModelLink {
  number: number;
  key: PublicKey;
  heardMs: number;
  fails: number;
  /** Since when it was never down. */
  wellSinceMs: number;
  epoch: Epoch;
  through: number;
}

interface ModelLane {
  lane: RelayLane | undefined;
  carrying: PublicKey | undefined;
  cameOver: PublicKey | undefined;
  refusedUntilMs: Partial<Record<PublicKey, number>>;
  doubtedUntilMs: Partial<Record<PublicKey, number>>;
  confirmed: { rowId: number; atMs: number }[];
  suspects: { rowId: number; atMs: number }[];
}

interface ModelArrival {
  arrival: ArrivalRow;
  receiptAtMs: number;
  receiptRow: number;
}

/** All that a copy of the host has. */
export interface HostStore {
  rows: Map<number, OutboxRow>;
  /** The rows that something is still to be done about. */
  open: Set<number>;
  nextRow: number;
  box: string[];
  arrivals: Map<string, ModelArrival>;
  links: ModelLink[];
  lanes: Record<string, ModelLane>;
  /** It shut the door of relay 1, or has left it. */
  left: 'door' | 'gone' | null;
}

const DOWN_FAILS = 2;
const UNHEARD_FAILS = 3;
const REFUSED_MS = 60_000;
const WORD = 'sender not accepted by target';

export class ModelHost {
  readonly id: string;
  store: HostStore;
  readonly #around: Surroundings;

  constructor(id: string, relays: readonly ModelRelay[], around: Surroundings) {
    this.id = id;
    this.#around = around;
    const links = relays.map(({ number, key, epoch }) => ({
      number,
      key,
      heardMs: around.nowMs,
      fails: 0,
      wellSinceMs: around.nowMs,
      epoch,
      through: 0,
    }));
    this.store = {
      rows: new Map(),
      open: new Set(),
      nextRow: 1,
      box: [],
      arrivals: new Map(),
      links,
      lanes: {},
      left: null,
    };
  }

  linkTo(number: number): ModelLink | undefined {
    return this.store.links.find((link) => link.number === number);
  }

  /** Its open rows, of one peer or of all. */
  open(to?: string): OutboxRow[] {
    const { rows, open } = this.store;
    const all = [...open].flatMap((rowId) => rows.get(rowId) ?? []);
    return to === undefined ? all : all.filter(({ peerId }) => peerId === to);
  }

  /** The peers that open rows are for. */
  peers(): string[] {
    return [...new Set(this.open().map(({ peerId }) => peerId))];
  }

  #put(rowId: number, row: OutboxRow | null): void {
    const { rows, open } = this.store;
    if (row) rows.set(rowId, row);
    else rows.delete(rowId);
    if (row && row.nextAtMs !== null) open.add(rowId);
    else open.delete(rowId);
  }

  send(to: string): void {
    this.#queue(to, 'envelope', `${this.id}${this.#around.nextNumber()}`);
  }

  #queue(to: string, kind: 'envelope' | 'receipt', itemId: string, changes: Partial<OutboxRow> = {}): number {
    const rowId = this.store.nextRow++;
    const { nowMs } = this.#around;
    const row = outboxRow({
      rowId,
      kind,
      itemId: itemId as ItemId,
      ref: itemId as MessageRef,
      peerId: to as PeerId,
      recipients: [to as Address],
      createdAtMs: nowMs,
      nextAtMs: nowMs,
      ...changes,
    });
    this.#put(rowId, row);
    return rowId;
  }

  apply(rowId: number, event: OutboxEvent): OutboxRow | null {
    const row = this.store.rows.get(rowId);
    if (!row) return null;
    const around = this.#around;
    const facts = { ...this.clock, jitter: around.unit(), retry: RETRY_TIMING, hasPeerConfirmed: true };
    const step = stepOutbox(this.#withoutRules(row, event), event, facts);
    this.#put(rowId, step.row);
    for (const effect of step.effects) if (effect.type === 'Alert') around.onAlert(row, effect.alert);
    return step.row;
  }

  /** Controls: the row as a program without the rule would have it. */
  #withoutRules(row: OutboxRow, event: OutboxEvent): OutboxRow {
    const { isBroken } = this.#around;
    if (event.type !== 'expired' || !row.tried || !isBroken('notice')) return row;
    const tried = row.tried.filter(({ relayPubkey }) => relayPubkey === event.relayPubkey);
    return { ...row, tried };
  }

  get clock(): OutboxClock {
    return { nowMs: this.#around.nowMs, momentMs: (datedMs) => datedMs };
  }

  notify(event: OutboxEvent, to?: string): void {
    for (const { rowId } of this.open(to)) this.apply(rowId, event);
  }

  /** Another epoch, or a store that went back: what it had may be lost, and its queue is read from the start. */
  enter(link: ModelLink, { epoch, key: relayPubkey }: ModelRelay): void {
    const isNew = link.epoch !== epoch;
    Object.assign(link, { epoch, through: 0 });
    this.notify(isNew ? { type: 'new-epoch', relayPubkey, epoch } : { type: 'relay-rewound', relayPubkey });
    this.notify({ type: 'relay-ready', relayPubkey, epoch });
  }

  failed(link: ModelLink): void {
    link.fails++;
    if (link.fails >= DOWN_FAILS) link.wellSinceMs = Infinity;
  }

  heard(link: ModelLink): void {
    const { nowMs } = this.#around;
    Object.assign(link, { heardMs: nowMs, fails: 0, wellSinceMs: Math.min(link.wellSinceMs, nowMs) });
  }

  /** Relay 1 is used no more: all behind its door is here. */
  leave(): void {
    const first = this.linkTo(1);
    if (first) this.notify({ type: 'relay-removed', relayPubkey: first.key });
    this.store.links = this.store.links.filter(({ number }) => number !== 1);
    this.store.left = 'gone';
  }

  laneOf(to: string): ModelLane {
    return (this.store.lanes[to] ??= {
      lane: undefined,
      carrying: undefined,
      cameOver: undefined,
      refusedUntilMs: {},
      doubtedUntilMs: {},
      confirmed: [],
      suspects: [],
    });
  }

  #standings(known: ModelLane): RelayStanding[] {
    const { nowMs, isBroken } = this.#around;
    const { links } = this.store;
    return links.map(({ key: relayPubkey, epoch, heardMs, fails }) => {
      const facts = { relayPubkey, epoch, retentionMs: RETENTION_MS, isTargetEnrolled: true };
      const state: RelayState = {
        relayPubkey,
        facts: { ...facts, carriesReceipts: true, hasTwoHistories: false },
        isDown: !isBroken('down') && fails >= DOWN_FAILS,
        pauseMs: 0,
        unheardMs: fails >= UNHEARD_FAILS ? nowMs - heardMs : 0,
        isDoubted: !isBroken('doubt') && (known.doubtedUntilMs[relayPubkey] ?? 0) > nowMs,
        isRefused: (known.refusedUntilMs[relayPubkey] ?? 0) > nowMs,
      };
      return standingOf(state, links.length === 1);
    });
  }

  /** Where mail for the peer goes now. The lane may change, and rows that failed elsewhere are tried there at once. */
  relaysFor(to: string): PeerRelays {
    const { nowMs, isBroken, elsewhereMs, secondCopyMs, home } = this.#around;
    const known = this.laneOf(to);
    const own = this.#standings(known);
    const candidates = candidatesOf(own, { home, cameOver: known.cameOver });
    const rows = this.open(to);
    const hasAll = ({ relayPubkey }: RelayStanding): boolean => !rows.some((row) => isElsewhere(row, relayPubkey));
    known.lane = laneAfter(known.lane, candidates, { nowMs, hasAll }).lane ?? known.lane;
    const lane = known.lane?.relayPubkey;
    const carrying = own.find(({ relayPubkey, can }) => relayPubkey === lane && can === 'carry');
    const facts = factsOf(carrying);
    if (facts && known.carrying !== facts.relayPubkey) {
      const { relayPubkey, epoch } = facts;
      this.notify({ type: 'relay-ready', relayPubkey, epoch }, to);
    }
    known.carrying = facts?.relayPubkey;
    const shown = known.confirmed.filter(({ atMs }) => atMs + EVIDENT_MS <= nowMs).map(({ rowId }) => rowId);
    return {
      own,
      candidates,
      lane: carrying && lane,
      elsewhereMs: isBroken('unheard') ? Infinity : elsewhereMs,
      secondCopyMs: isBroken('second') ? null : secondCopyMs,
      secondCopyLast: Infinity,
      shown: { rowId: Math.max(0, ...shown), wroteAtMs: 0 },
    };
  }

  #plan(to: string, peer: PeerRelays): Map<PublicKey, OutboxRow[]> {
    return planRows(this.open(to).filter(isSending), peer, this.clock).rows;
  }

  /** The rows that leave for the relay next, as many as one request holds. */
  leaving(to: string, relayPubkey: PublicKey, max: number): OutboxRow[] {
    const peer = this.relaysFor(to);
    const planned = this.#plan(to, peer).get(relayPubkey) ?? [];
    if (!this.#around.isBroken('order')) return planned.slice(0, max);
    const relay = peer.own.find((one) => one.relayPubkey === relayPubkey);
    return planned.filter((row) => relay && owedFor(row, relay, peer, this.clock) !== undefined).slice(0, max);
  }

  pushing(rows: readonly OutboxRow[], relayPubkey: PublicKey): void {
    const isOneOfMany = this.store.links.length > 1;
    for (const { rowId } of rows) this.apply(rowId, { type: 'relay-pushing', relayPubkey, isOneOfMany });
  }

  answered({ rowId, peerId }: OutboxRow, { key: relayPubkey, epoch }: ModelRelay, result: PushResult): void {
    if (result === 'refused') {
      this.laneOf(peerId).refusedUntilMs[relayPubkey] = this.#around.nowMs + REFUSED_MS;
      this.apply(rowId, { type: 'relay-refused', relayPubkey, code: WORD });
      return;
    }
    const { seq, atMs: acceptedAtMs } = result.at;
    const accept = {} as AcceptReceipt;
    const acceptance = { relayPubkey, epoch, seq, accept, sig: '', acceptedAtMs, retentionMs: RETENTION_MS };
    this.apply(rowId, { type: 'relay-accepted', acceptance, isVerified: true });
  }

  receive(item: ModelItem, relayPubkey: PublicKey): void {
    const { sender, about } = item;
    if (item.kind !== 'expired') this.laneOf(sender).cameOver = relayPubkey;
    if (item.kind === 'envelope') this.#receiveEnvelope(item, relayPubkey);
    else {
      const row = [...this.store.rows.values()].find(({ itemId }) => itemId === about);
      if (!row) return;
      if (item.kind === 'receipt') this.#confirm(row, relayPubkey);
      else this.apply(row.rowId, { type: 'expired', relayPubkey, expiredAtMs: item.atMs });
    }
  }

  #confirm(row: OutboxRow, relayPubkey: PublicKey): void {
    const { rowId, peerId, recipients } = row;
    const [recipient] = recipients;
    if (!recipient) throw new Error('a row has its recipient');
    this.apply(rowId, { type: 'receipt', recipient, state: 'delivered', relayPubkey });
    const { confirmed, suspects } = this.laneOf(peerId);
    const { nowMs } = this.#around;
    if (row.confirmed.length > 0) return;
    confirmed.push({ rowId, atMs: nowMs });
    suspects.push({ rowId, atMs: nowMs + DOUBT_AFTER_MS });
  }

  #receiveEnvelope({ id, sender, atMs: storedAtMs }: ModelItem, relayPubkey: PublicKey): void {
    const { nowMs, isBroken } = this.#around;
    const known = this.store.arrivals.get(id);
    if (!known || isBroken('dedup')) this.store.box.push(id);
    if (!known) {
      const arrival = noteBrought({ relay: { pubkey: relayPubkey } } as ArrivalRow, relayPubkey);
      const receiptRow = this.#queueReceipt(sender, id, [relayPubkey]);
      this.store.arrivals.set(id, { arrival, receiptAtMs: nowMs, receiptRow });
      return;
    }
    const row = this.store.rows.get(known.receiptRow);
    const goesTo = row?.broughtBy ?? relaysOfArrival(known.arrival);
    const answer = answerToCopy({ atMs: known.receiptAtMs, row, goesTo }, { relayPubkey, storedAtMs });
    known.arrival = noteBrought(known.arrival, relayPubkey);
    if (answer === 'there-too' && row && !isBroken('each'))
      this.apply(row.rowId, { type: 'relay-brought', relayPubkey });
    if (answer !== 'next') return;
    if (row) this.#put(row.rowId, null);
    Object.assign(known, { receiptAtMs: nowMs, receiptRow: this.#queueReceipt(sender, id, [relayPubkey]) });
  }

  #queueReceipt(to: string, about: string, broughtBy: PublicKey[]): number {
    const itemId = `receipt:${about}:${this.#around.nextNumber()}`;
    return this.#queue(to, 'receipt', itemId, { ref: about as MessageRef, broughtBy });
  }

  /** Looks at what the clock alone does: deadlines, pauses, and relays that are doubted. */
  timePassed(): void {
    const { nowMs } = this.#around;
    const due = this.open().filter(({ nextAtMs }) => (nextAtMs ?? Infinity) <= nowMs);
    for (const to of new Set(due.map(({ peerId }) => peerId))) {
      const leaving = new Set([...this.#plan(to, this.relaysFor(to)).values()].flat());
      // What can leave leaves at the next request, soon; a deadline is due nevertheless.
      const stays = due.filter((row) => row.peerId === to && (!leaving.has(row) || row.state === 'relay-accepted'));
      for (const { rowId } of stays) this.apply(rowId, { type: 'time-passed' });
    }
    for (const known of Object.values(this.store.lanes)) {
      for (const { rowId } of known.suspects.filter(({ atMs }) => atMs <= nowMs)) {
        const row = this.store.rows.get(rowId);
        for (const key of (row && suspectsOf(row))?.relays ?? []) {
          const link = this.store.links.find((one) => one.key === key);
          const isWell = link && link.fails === 0 && link.wellSinceMs + DOUBT_AFTER_MS <= nowMs;
          if (isWell) known.doubtedUntilMs[key] = nowMs + DOUBTED_MS;
        }
      }
      known.suspects = known.suspects.filter(({ atMs }) => atMs > nowMs);
      known.confirmed = known.confirmed.slice(-20);
    }
  }
}
