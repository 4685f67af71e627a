/**
 * A relay whose queues lie in runs takes the same steps as plain maps: pushes, look-ups of what is known, acks, the
 * collector and its waits, expiry, losses, rotations in slices and acks of a rotated key, and openings, some of which
 * pack the queues anew at random, alone and in runs. The caller compares.
 */
import * as fc from 'fast-check';
import { DEFAULT_LIMITS, retentionMs } from '../../src/protocol/limits.ts';
import type { QueueRow } from '../../src/relay/core/rows.ts';
import { CUT_RUN_WAITS_MS } from '../../src/relay/store/collect.ts';
import { placedWires, queueRowsOf, wirePlaceOf } from '../../src/relay/store/item-run.ts';
import { PREFIX, collectedKey, prefixRange } from '../../src/relay/store/keys.ts';
import { ackOf, pushOf, rotateOf } from './commands.ts';
import type { Sayings } from './comparison.ts';
import { type TestHost, alice, hostNamed } from './hosts.ts';
import { packed } from './packed-queues.ts';
import { type TestRelay, outcomeOf } from './test-relay.ts';

const RETENTION_MS = retentionMs(DEFAULT_LIMITS);
/** Hosts that get mail; each goes on under other keys. */
const HOSTS = 2;

const host = fc.nat(HOSTS - 1);
const some = fc.array(fc.nat(40), { minLength: 1, maxLength: 12 });

export type Step =
  /** In one batch, or each in its own. */
  | { type: 'push'; to: number; sizes: number[]; isTogether: boolean }
  | { type: 'again'; to: number; which: number[] }
  /** So much of what waits. */
  | { type: 'ack'; to: number; part: number }
  | { type: 'lose'; to: number; which: number[] }
  | { type: 'rotate'; to: number; isOldAcked: boolean }
  | { type: 'expire'; afterMs: number }
  | { type: 'wait' }
  | { type: 'told' }
  | { type: 'open'; lengths: number[] | null };

const often = <T>(weight: number, arbitrary: fc.Arbitrary<T>): { weight: number; arbitrary: fc.Arbitrary<T> } => ({
  weight,
  arbitrary,
});
const size = fc.oneof(often(20, fc.integer({ min: 1, max: 60 })), often(1, fc.constantFrom(9000, 17_000)));
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  often(
    9,
    fc.record({
      type: fc.constant('push' as const),
      to: host,
      sizes: fc.array(size, { minLength: 1, maxLength: 20, size: 'max' }),
      isTogether: fc.boolean(),
    }),
  ),
  often(3, fc.record({ type: fc.constant('again' as const), to: host, which: some })),
  often(7, fc.record({ type: fc.constant('ack' as const), to: host, part: fc.constantFrom(0, 0.1, 0.2, 0.4, 0.7, 1) })),
  often(5, fc.record({ type: fc.constant('lose' as const), to: host, which: some })),
  often(3, fc.record({ type: fc.constant('rotate' as const), to: host, isOldAcked: fc.boolean() })),
  often(
    3,
    fc.record({ type: fc.constant('expire' as const), afterMs: fc.constantFrom(1, RETENTION_MS - 30, RETENTION_MS) }),
  ),
  often(2, fc.record({ type: fc.constant('wait' as const) })),
  often(1, fc.record({ type: fc.constant('told' as const) })),
  often(
    2,
    fc.record({
      type: fc.constant('open' as const),
      lengths: fc.option(fc.array(fc.nat(9), { minLength: 1, maxLength: 8 })),
    }),
  ),
);
/** So many steps a story. */
export const STEPS = 50;
export const anyStory: fc.Arbitrary<Step[]> = fc.array(anyStep, { minLength: STEPS, maxLength: STEPS });

const NOTHING: Sayings = { seen: undefined, expected: undefined };

interface Item {
  id: string;
  wire: string;
  expiresAtMs: number;
}

/** A queue as a map says it. */
interface PlainQueue {
  key: TestHost;
  headSeq: number;
  ackedThrough: number;
  /** By seq, ascending. */
  items: Map<number, Item & { pushedTo: string }>;
}

export class Story {
  readonly #relay: TestRelay;
  readonly #passMs: (ms: number) => void;
  readonly #queues: PlainQueue[];
  /** What the sender was told: the ids of notices, and when they expire. */
  #told = new Map<string, number>();
  #items = 0;
  #keys = 0;
  /** The wire bytes that were stored at the opening and came since. */
  #cameBytes = 0;

  constructor(relay: TestRelay, passMs: (ms: number) => void) {
    this.#relay = relay;
    this.#passMs = passMs;
    this.#queues = Array.from({ length: HOSTS }, () => this.#fresh());
  }

  async begin(): Promise<void> {
    await this.#relay.enrolAll(alice, ...this.#queues.map(({ key }) => key));
  }

  async take(step: Step): Promise<Sayings> {
    const relay = this.#relay;
    const { clock, engine } = relay;
    switch (step.type) {
      case 'push':
        return this.#push(step);
      case 'again': {
        const { key, items } = this.#queues[step.to]!;
        const known = picked([...items], step.which);
        const pushes = known.map(([, { id, wire }]) => pushOf(alice, id, [[key, wire]]));
        const seen = (await relay.push(...pushes)).map((outcome) => outcomeOf(outcome).verdict);
        return { seen, expected: known.map(() => 'duplicate') };
      }
      case 'ack': {
        const queue = this.#queues[step.to]!;
        const seqs = [...queue.items.keys()];
        const through = seqs[Math.floor(step.part * (seqs.length - 1))];
        if (through === undefined) return NOTHING;
        await relay.ack(queue.key, through);
        queue.ackedThrough = through;
        for (const seq of seqs) if (seq <= through) queue.items.delete(seq);
        return NOTHING;
      }
      case 'lose':
        return this.#lose(step);
      case 'rotate':
        await this.#rotate(step);
        return NOTHING;
      case 'expire':
        clock.move(step.afterMs);
        await relay.expire();
        await this.#expire(clock.nowMs);
        return NOTHING;
      case 'wait':
        // Twice: the first sees what waits.
        for (let beat = 0; beat < 2; beat++) {
          await engine.heartbeat(clock.nowMs);
          this.#passMs(CUT_RUN_WAITS_MS);
        }
        await engine.heartbeat(clock.nowMs);
        return NOTHING;
      case 'told':
        await relay.ack(alice, engine.head(alice.key).headSeq);
        this.#told.clear();
        return NOTHING;
      case 'open': {
        const { lengths } = step;
        let next = 0;
        await (lengths ? packed(relay, () => lengths[next++ % lengths.length]!) : relay.reopen());
        this.#cameBytes = (await this.#stored()).bytes + relay.store.collector.collectedBytes;
        return NOTHING;
      }
    }
  }

  /** Everything that is stored of queues, and what the maps say. */
  async state(): Promise<Sayings> {
    const relay = this.#relay;
    const seen: unknown[] = [];
    const expected: unknown[] = [];
    await relay.engine.durable();
    while (relay.store.collector.isPending) await relay.engine.durable();
    for (const { key, headSeq, ackedThrough, items } of this.#queues) {
      const rows = await relay.queue(key);
      const wires = await relay.wires(key);
      seen.push(rows.map(({ seq, itemId, payloadTarget }, at) => [seq, itemId, wires[at], payloadTarget]));
      expected.push(Array.from(items, ([seq, { id, wire, pushedTo }]) => [seq, id, wire, pushedTo]));
      const queueBytes = [...items.values()].reduce((sum, { wire }) => sum + wire.length, 0);
      seen.push(relay.engine.head(key.key));
      expected.push({ headSeq, ackedThrough, queueItems: items.size, queueBytes });
      for (const seq of items.keys()) {
        seen.push((await relay.store.queueRow(key.key, seq))?.seq);
        expected.push(seq);
      }
    }
    const { rows, places, bytes } = await this.#stored();
    const notices = (await relay.queue(alice)).map(({ itemId }) => itemId);
    const { failures, vanished, engine } = relay;
    seen.push(notices.toSorted(), places.toSorted(), bytes + relay.store.collector.collectedBytes);
    expected.push([...this.#told.keys()].toSorted(), rows.map(placeOf).toSorted(), this.#cameBytes);
    seen.push(await this.#behindMarks(rows), failures, vanished, engine.brokenQueues, engine.damagedRows);
    expected.push([], [], [], [], []);
    return { seen, expected };
  }

  #fresh(): PlainQueue {
    return { key: hostNamed(`packed-${this.#keys++}`), headSeq: 0, ackedThrough: 0, items: new Map() };
  }

  async #push({ to, sizes, isTogether }: Step & { type: 'push' }): Promise<Sayings> {
    const relay = this.#relay;
    const queue = this.#queues[to]!;
    const pushes = sizes.map((length) => {
      const id = `m${this.#items++}`;
      return { id, wire: `${id} `.padEnd(length, 'x') };
    });
    const commands = pushes.map(({ id, wire }) => pushOf(alice, id, [[queue.key, wire]]));
    const nowMs = relay.clock.nowMs;
    const outcomes = isTogether
      ? await relay.push(...commands)
      : (await Promise.all(commands.map((command) => relay.push(command)))).flat();
    // Requests of one item each may overtake one another.
    const seqs = outcomes.flatMap((outcome) => outcomeOf(outcome).seqs);
    const first = Math.max(queue.headSeq + 1, nowMs);
    const ascending = seqs.toSorted((a, b) => a - b);
    for (const seq of ascending) {
      const pushed = pushes[seqs.indexOf(seq)]!;
      queue.headSeq = seq;
      queue.items.set(seq, { ...pushed, expiresAtMs: nowMs + RETENTION_MS, pushedTo: queue.key.key });
      this.#cameBytes += pushed.wire.length;
    }
    relay.clock.move(1);
    return { seen: ascending, expected: pushes.map((_push, at) => first + at) };
  }

  /** Items that wait, and some that are gone. */
  async #lose({ to, which }: Step & { type: 'lose' }): Promise<Sayings> {
    const { lost, epoch: freshEpoch } = this.#relay.engine;
    const { key, items, headSeq, ackedThrough } = this.#queues[to]!;
    const seqs = new Set([...picked([...items.keys()], which), ...picked([headSeq, ackedThrough], which)]);
    const places = [...seqs].map((seq) => ({ targetPubkey: key.key, seq }));
    await lost.find(places);
    const { nowMs } = this.#relay.clock;
    const command = { type: 'ReportLostItem', freshEpoch, nowMs } as const;
    const seen = await Promise.all(places.map((place) => lost.report({ ...command, ...place })));
    // What it answers is whether the item waited.
    return { seen, expected: [...seqs].map((seq) => items.delete(seq)) };
  }

  async #rotate({ to, isOldAcked }: Step & { type: 'rotate' }): Promise<void> {
    const relay = this.#relay;
    const old = this.#queues[to]!;
    const queue = this.#fresh();
    this.#queues[to] = queue;
    const { nowMs } = relay.clock;
    await relay.rotate(rotateOf(old.key, queue.key, { nowMs, iatMs: nowMs }));
    let seq = Math.max(old.headSeq + 1, nowMs);
    for (const item of old.items.values()) {
      queue.headSeq = seq;
      queue.items.set(seq++, item);
    }
    // One that was on its way when the key was rotated.
    if (isOldAcked) await relay.engine.acks.ack({ ...ackOf(old.key, old.headSeq), epoch: relay.engine.epoch, nowMs });
  }

  async #expire(nowMs: number): Promise<void> {
    for (const [id, expiresAtMs] of this.#told) if (expiresAtMs <= nowMs) this.#told.delete(id);
    const fresh = new Set<string>();
    for (const { items } of this.#queues)
      for (const [seq, { id, pushedTo, expiresAtMs }] of items)
        if (expiresAtMs <= nowMs) {
          items.delete(seq);
          fresh.add(`expired:${id}:${pushedTo}`);
        }
    for (const id of fresh) this.#told.set(id, nowMs + RETENTION_MS);
    const rows = await this.#relay.queue(alice);
    for (const { itemId, bytes } of rows) if (fresh.has(itemId)) this.#cameBytes += bytes;
  }

  /** All rows, acked ones that are not collected among them; and where wire bytes lie. */
  async #stored(): Promise<{ rows: QueueRow[]; places: string[]; bytes: number }> {
    const { level } = this.#relay.store;
    const rows = (await level.iterator(prefixRange(PREFIX.queue)).all()).flatMap(queueRowsOf);
    const wires = (await level.iterator(prefixRange(PREFIX.payload)).all()).flatMap(placedWires);
    const bytes = wires.reduce((sum, [, wire]) => sum + wire.length, 0);
    return { rows, places: wires.map(([key]) => key.toString('hex')), bytes };
  }

  /** Rows that the collector says it has collected. */
  async #behindMarks(rows: readonly QueueRow[]): Promise<QueueRow[]> {
    const { level } = this.#relay.store;
    const marks = new Map<string, number>();
    for (const { targetPubkey } of rows)
      if (!marks.has(targetPubkey)) {
        const mark = await level.get(collectedKey(targetPubkey));
        marks.set(targetPubkey, mark ? Number(mark.readBigUInt64BE(mark.length - 8)) : 0);
      }
    return rows.filter(({ targetPubkey, seq }) => seq <= (marks.get(targetPubkey) ?? 0));
  }
}

/** Where its wire bytes lie. */
function placeOf(row: QueueRow): string {
  return wirePlaceOf(row).toString('hex');
}

/** Those at these places, each once, counted on from the last to the first. */
function picked<T>(all: readonly T[], which: readonly number[]): T[] {
  return all.length === 0 ? [] : [...new Set(which.map((at) => at % all.length))].map((at) => all[at] as T);
}
