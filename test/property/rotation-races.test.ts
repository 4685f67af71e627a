/**
 * Rotations in the middle of everything: hosts change their keys while mail for them and by them is pushed, pulled and
 * acked, and nobody waits for anybody, on a disk that confirms late or fails.
 *
 * What must hold in the end: an item of one host for another was stored once, whichever keys were used; nobody was told
 * two sequence numbers for it; and it was acked or waits under the present key, in order.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { pushOf, rotateOf } from '../support/commands.ts';
import { type TestHost, hostNamed } from '../support/hosts.ts';
import { inTime } from '../support/in-time.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { expectReplayed } from '../support/replay.ts';
import { type Delay, SlowDisk } from '../support/slow-disk.ts';
import { type Story, healthy, play, storyOf } from '../support/story.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay, outcomeOf } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';

/** The keys of each host, in the order in which it takes them. */
const KEYS = ['a', 'b', 'c'].map((host) => Array.from({ length: 7 }, (_none, at) => hostNamed(`${host}${at}`)));
const HOST_OF = new Map(KEYS.flatMap((keys, host) => keys.map(({ key }) => [key, host] as const)));

type Action =
  | { type: 'push'; items: { sender: number; id: number; target: number; isLate: boolean }[] }
  | { type: 'ack'; host: number; back: number }
  | { type: 'page'; host: number }
  | { type: 'rotate'; host: number; isAgain: boolean };

const host = fc.nat(2);
const pushed = fc.record({
  sender: host,
  id: fc.nat(6),
  target: host,
  isLate: fc.nat(5).map((number) => number === 0),
});
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('push' as const),
      items: fc.array(pushed, { minLength: 1, maxLength: 4, size: 'max' }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('ack' as const), host, back: fc.nat(4) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('page' as const), host }) },
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant('rotate' as const), host, isAgain: fc.nat(3).map((n) => n === 0) }),
  },
);
const story = storyOf(action);

class Crowd {
  readonly #relay: TestRelay;
  readonly #disk: SlowDisk;
  readonly wrong: string[] = [];
  /** The seq with which each (sender, id, target) was answered. */
  readonly answered = new Map<string, number>();
  /** Each host began so often to change its key. */
  readonly #turns = [0, 0, 0];

  constructor(relay: TestRelay, disk: SlowDisk) {
    this.#relay = relay;
    this.#disk = disk;
  }

  play(story: Story<Action>): Promise<PromiseSettledResult<void>[]> {
    return play(story, (what) => this.#take(what));
  }

  /** The key that others think the host has, or had before it began to change it. */
  keyOf(number: number, isLate = false): TestHost {
    return KEYS[number]![Math.max(0, this.#turns[number]! - (isLate ? 1 : 0))]!;
  }

  /**
   * The key with which a hop of the host is let in now, or was let in before its last rotation: a request may be under
   * way since then.
   */
  #callerOf(number: number, isLate = false): TestHost {
    const turn = KEYS[number]!.findLastIndex(({ key }) => this.#relay.engine.directory.get(key) !== undefined);
    return KEYS[number]![Math.max(0, turn - (isLate ? 1 : 0))]!;
  }

  async #take(what: Action): Promise<void> {
    switch (what.type) {
      case 'push':
        return this.#push(what);
      case 'ack': {
        const key = this.#callerOf(what.host);
        const { headSeq } = this.#relay.engine.head(key.key);
        await this.#relay.ack(key, Math.max(0, headSeq - what.back));
        return;
      }
      case 'page': {
        const { rows } = await this.#relay.engine.page(this.#callerOf(what.host).key, 0, 500);
        const seqs = rows.map(({ seq }) => seq);
        if (seqs.some((seq, at) => at > 0 && seq <= seqs[at - 1]!)) this.wrong.push('a page does not ascend');
        return;
      }
      case 'rotate':
        return this.#rotate(what);
    }
  }

  async #push({ items }: Action & { type: 'push' }): Promise<void> {
    const commands = items.map(({ sender, id, target, isLate }) => {
      return pushOf(this.#callerOf(sender, isLate), `m${id}`, [[this.keyOf(target, isLate), `m${id}`]]);
    });
    const outcomes = await this.#relay.push(...commands);
    for (const [at, outcome] of outcomes.entries()) {
      const { verdict, seqs } = outcomeOf(outcome);
      const { sender, id, target } = items[at]!;
      const mark = `${sender} m${id} ${target}`;
      const accepted = this.#disk.accepted.filter(({ itemId }) => itemId === `m${id}`);
      if (verdict === 'accepted' && accepted.length === 0)
        this.wrong.push(`${mark} was answered before it was durable`);
      for (const seq of seqs) {
        const before = this.answered.get(mark) ?? seq;
        if (before !== seq) this.wrong.push(`${mark} has the seqs ${before} and ${seq}`);
        this.answered.set(mark, seq);
      }
    }
  }

  async #rotate({ host: number, isAgain }: Action & { type: 'rotate' }): Promise<void> {
    if (!isAgain && this.#turns[number]! < KEYS[number]!.length - 1) this.#turns[number]!++;
    const turn = this.#turns[number]!;
    if (turn === 0) return;
    const answer = await this.#relay.rotate(rotateOf(KEYS[number]![turn - 1]!, KEYS[number]![turn]!));
    // It may overtake the one before it, which is then refused as a client would see it: and tried again.
    if (answer.type === 'Refusal' && answer.code !== 'NOT_ENROLLED') this.wrong.push(`a rotation is ${answer.code}`);
  }

  /** Every rotation once more, oldest first, as a client does that has not heard. */
  async rotateAll(): Promise<void> {
    for (const [number, keys] of KEYS.entries()) {
      for (let turn = 1; turn <= this.#turns[number]!; turn++) {
        const answer = await this.#relay.rotate(rotateOf(keys[turn - 1]!, keys[turn]!));
        if (answer.type === 'Refusal') this.wrong.push(`rotation ${turn} of ${number} is ${answer.code}`);
      }
    }
  }
}

interface Queued {
  mark: string;
  seq: number;
}

/** Returns what the log says of every queue, told as if each event were the whole of it: an array for each key. */
function queuesOf(events: readonly RelayEvent[]): { queues: Map<PublicKey, Queued[]>; stored: string[] } {
  const queues = new Map<PublicKey, Queued[]>();
  const stored: string[] = [];
  const queue = (key: PublicKey): Queued[] => queues.get(key) ?? [];
  for (const event of events) {
    if (event.type === 'ItemAccepted') {
      for (const { hostPubkey, seq } of event.targets) {
        const mark = `${HOST_OF.get(event.senderPubkey)} ${event.itemId} ${HOST_OF.get(hostPubkey)}`;
        stored.push(mark);
        queues.set(hostPubkey, [...queue(hostPubkey), { mark, seq }]);
      }
    } else if (event.type === 'ItemsAcked') {
      const left = queue(event.targetPubkey).filter(({ seq }) => seq > event.through);
      expect(queue(event.targetPubkey).length - left.length).toBe(event.items);
      queues.set(event.targetPubkey, left);
    } else if (event.type === 'KeyRotated') {
      const { oldPubkey, newPubkey, firstSeq } = event;
      const moved = queue(oldPubkey).map(({ mark }, at) => ({ mark, seq: firstSeq + at }));
      queues.set(newPubkey, [...queue(newPubkey), ...moved]);
      queues.set(oldPubkey, []);
    }
  }
  return { queues, stored };
}

async function inWorld(
  delays: readonly Delay[],
  passingMs: number,
  work: (relay: TestRelay, crowd: Crowd) => Promise<void>,
): Promise<void> {
  const { folder, remove } = await disposableFolder();
  const relay = new TestRelay(folder, { monotonicMs: lookedAtClock(passingMs) });
  await relay.open();
  try {
    const first = KEYS.map((keys) => keys[0]!);
    await relay.enrolAll(...first);
    // Some items are there already and no index is in memory.
    for (const from of first)
      await relay.pushOne(
        pushOf(
          from,
          'm0',
          first.map((to) => [to, 'm0'] as const),
        ),
      );
    await relay.reopen();
    const disk = new SlowDisk(relay.store, delays);
    await work(relay, new Crowd(relay, disk));
  } finally {
    await relay.close();
    await remove();
  }
}

/** Compares log, rows and pages, and what was stored with what was answered. */
async function judge(relay: TestRelay, crowd: Crowd): Promise<void> {
  expect(crowd.wrong).toEqual([]);
  const events: RelayEvent[] = [];
  for await (const { event } of relay.store.read(1)) events.push(event);
  const { queues, stored } = queuesOf(events);
  expect(new Set(stored).size).toBe(stored.length);
  for (const mark of crowd.answered.keys()) expect(stored).toContain(mark);
  for (const one of KEYS.flat()) {
    const queue = await relay.queue(one);
    const shown = queue.map(({ seq, senderPubkey, itemId }) => {
      return { mark: `${HOST_OF.get(senderPubkey)} ${itemId} ${HOST_OF.get(one.key)}`, seq };
    });
    expect(shown).toEqual(queues.get(one.key) ?? []);
    expect((await relay.wires(one)).every((wire, at) => wire === queue[at]?.itemId)).toBe(true);
  }
  await expectReplayed(relay.store);
  expect(await relay.store.moves()).toEqual([]);
}

test('whatever overtakes what, every item is stored once and is where its host is', async () => {
  await fc.assert(
    fc.asyncProperty(story, healthy, anyPassingMs, async (started, delays, passingMs) => {
      await inWorld(delays, passingMs, async (relay, crowd) => {
        const results = await crowd.play(started);
        expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
        await crowd.rotateAll();
        await judge(relay, crowd);
      });
    }),
    { numRuns: share(80), ...inTime(60_000) },
  );
});

test('a disk failing in the middle loses nothing answered, and a retry under new keys doubles nothing', async () => {
  const failing = fc.tuple(healthy, fc.constantFrom('unwritten' as const, 'written' as const), fc.nat(6));
  await fc.assert(
    fc.asyncProperty(story, failing, anyPassingMs, async (started, [delays, fails, after], passingMs) => {
      const sequence = Array.from({ length: after }, (_none, at) => delays[at % delays.length]!);
      await inWorld([...sequence, { turnsBefore: 1, turnsAfter: 1, fails }], passingMs, async (relay, crowd) => {
        const results = await crowd.play(started);
        const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
        expect(errors.filter((error) => !(error instanceof StoreFailed))).toEqual([]);
        await relay.reopen();
        expect(relay.notices).toEqual([]);
        await crowd.rotateAll();
        for (const [mark, seq] of crowd.answered) {
          const [sender = '', itemId = '', target = ''] = mark.split(' ');
          const again = pushOf(crowd.keyOf(Number(sender)), itemId, [[crowd.keyOf(Number(target)), itemId]]);
          expect(await relay.pushOne(again)).toEqual({ verdict: 'duplicate', seqs: [seq] });
        }
        await judge(relay, crowd);
      });
    }),
    { numRuns: share(60), ...inTime(60_000) },
  );
});
