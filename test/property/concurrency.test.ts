/**
 * Many at once: commands that nobody waits for, pages in between, a disk that confirms late or fails.
 *
 * What must hold at every moment: nobody is shown or told what is not durable; nothing durable is skipped; a known
 * item has one seq; and when all is over the log, the rows and the pages tell one story.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { pushOf } from '../support/commands.ts';
import { type TestHost, hostNamed } from '../support/hosts.ts';
import { inTime } from '../support/in-time.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { storedAndReplayed } from '../support/replay.ts';
import { type Delay, SlowDisk } from '../support/slow-disk.ts';
import { type Story, healthy, play, storyOf } from '../support/story.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay, outcomeOf } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';

const HOSTS = ['a', 'b', 'c'].map((name) => hostNamed(name));

type Action =
  | { type: 'push'; items: { sender: number; id: number; targets: number[]; isOther: boolean }[] }
  | { type: 'ack'; target: number; back: number }
  | { type: 'page'; target: number; limit: number };

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant('push' as const),
      items: fc.array(
        fc.record({
          sender: fc.nat(1),
          id: fc.nat(9),
          targets: fc.uniqueArray(fc.nat(2), { minLength: 1, maxLength: 3, size: 'max' }),
          isOther: fc.nat(9).map((number) => number === 0),
        }),
        { minLength: 1, maxLength: 4, size: 'max' },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ type: fc.constant('ack' as const), target: fc.nat(2), back: fc.nat(4) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('page' as const),
      target: fc.nat(2),
      limit: fc.constantFrom(1, 2, 500),
    }),
  },
);
const story = storyOf(action);

/** Starts every action at its time and answers what each found wrong, in words; and how it ended. */
class Crowd {
  readonly #relay: TestRelay;
  readonly #disk: SlowDisk;
  readonly wrong: string[] = [];
  /** The seq with which each (sender, item, target) was answered. */
  readonly answered = new Map<string, number>();

  constructor(relay: TestRelay, disk: SlowDisk) {
    this.#relay = relay;
    this.#disk = disk;
  }

  play(story: Story<Action>): Promise<PromiseSettledResult<void>[]> {
    return play(story, (what) =>
      what.type === 'push' ? this.#push(what) : what.type === 'ack' ? this.#ack(what) : this.#page(what),
    );
  }

  async #push({ items }: Action & { type: 'push' }): Promise<void> {
    const commands = items.map(({ sender, id, targets, isOther }) => {
      const to = targets.map((target) => [HOSTS[target]!, isOther ? 'other' : `m${id}`] as const);
      return pushOf(HOSTS[sender]!, `m${id}`, to);
    });
    const outcomes = await this.#relay.push(...commands);
    for (const [at, outcome] of outcomes.entries()) {
      const { verdict, seqs } = outcomeOf(outcome);
      for (const [number, seq] of seqs.entries()) {
        const target = HOSTS[items[at]!.targets[number]!]!;
        if (!this.#disk.seqsOf(target.key).includes(seq)) this.wrong.push(`${verdict} before ${seq} was durable`);
        const mark = `${items[at]!.sender} m${items[at]!.id} ${target.name}`;
        const before = this.answered.get(mark) ?? seq;
        if (before !== seq) this.wrong.push(`${mark} has the seqs ${before} and ${seq}`);
        this.answered.set(mark, seq);
      }
    }
  }

  async #ack({ target, back }: Action & { type: 'ack' }): Promise<void> {
    const host = HOSTS[target]!;
    const seqs = this.#disk.seqsOf(host.key);
    const through = seqs.at(-1 - back) ?? 0;
    const answer = await this.#relay.ack(host, through);
    if (answer.type !== 'Acked') this.wrong.push(`an ack of a durable seq was answered ${answer.code}`);
    else if (answer.ackedThrough > this.#disk.ackedThrough(host.key)) this.wrong.push('an ack was answered too early');
  }

  #answeredFor({ name }: TestHost): number[] {
    return [...this.answered].flatMap(([mark, seq]) => (mark.endsWith(` ${name}`) ? [seq] : []));
  }

  async #page({ target, limit }: Action & { type: 'page' }): Promise<void> {
    const { key } = HOSTS[target]!;
    const answered = this.#answeredFor(HOSTS[target]!);
    const page = await this.#relay.engine.page(key, 0, limit);
    const durable = new Set(this.#disk.seqsOf(key));
    const shown = page.rows.map(({ seq }) => seq);
    if (shown.some((seq) => !durable.has(seq))) this.wrong.push('a page shows an item that is not durable');
    if (shown.some((seq, at) => at > 0 && seq <= shown[at - 1]!)) this.wrong.push('a page does not ascend');
    if (page.headSeq > (this.#disk.seqsOf(key).at(-1) ?? 0)) this.wrong.push('a page shows a head that is not durable');
    // What was answered before the page was asked for, and all up to its head, must be on it up to where it ends, unless it is
    // acked now. Of what is durable since, a store that failed shows nothing: its process ends.
    const end = page.more || shown.length === limit ? (shown.at(-1) ?? 0) : Infinity;
    const acked = this.#disk.ackedThrough(key);
    const due = new Set([...answered, ...this.#disk.seqsOf(key).filter((seq) => seq <= page.headSeq)]);
    const skipped = [...due].filter((seq) => seq > acked && seq <= end && !shown.includes(seq));
    if (skipped.length > 0) this.wrong.push(`a page skips ${skipped.join(', ')}`);
  }
}

interface World {
  relay: TestRelay;
  disk: SlowDisk;
  crowd: Crowd;
}

async function inWorld(
  delays: readonly Delay[],
  passingMs: number,
  work: (world: World) => Promise<void>,
): Promise<void> {
  const { folder, remove } = await disposableFolder();
  const relay = new TestRelay(folder, { monotonicMs: lookedAtClock(passingMs) });
  await relay.open();
  try {
    await relay.enrolAll(...HOSTS);
    // Some items are there already and no index is in memory.
    const early = HOSTS.map((host): [TestHost, string] => [host, 'early']);
    await relay.push(pushOf(HOSTS[0]!, 'early', early));
    await relay.reopen();
    const disk = new SlowDisk(relay.store, delays);
    for await (const { event } of relay.store.read(1)) disk.durable.push(event);
    await work({ relay, disk, crowd: new Crowd(relay, disk) });
  } finally {
    await relay.close();
    await remove();
  }
}

test('nothing is shown, answered or skipped at any moment, and in the end all agrees', async () => {
  await fc.assert(
    fc.asyncProperty(story, healthy, anyPassingMs, async (started, delays, passingMs) => {
      await inWorld(delays, passingMs, async ({ relay, disk, crowd }) => {
        const results = await crowd.play(started);
        expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
        expect(crowd.wrong).toEqual([]);
        for (const { key, name } of HOSTS) {
          const waiting = disk.seqsOf(key).filter((seq) => seq > disk.ackedThrough(key));
          const queue = await relay.queue({ key, name } as TestHost);
          expect(queue.map(({ seq }) => seq)).toEqual(waiting);
          const queueBytes = queue.reduce((sum, { bytes }) => sum + bytes, 0);
          expect(relay.engine.head(key)).toMatchObject({ queueItems: queue.length, queueBytes });
        }
        const [stored, replayed] = await storedAndReplayed(relay.store);
        expect(stored).toEqual(replayed);
      });
    }),
    { numRuns: share(100), ...inTime(60_000) },
  );
});

test('a disk that fails loses nothing that was answered, and doubles nothing that is sent again', async () => {
  const failing = fc.tuple(healthy, fc.constantFrom('unwritten' as const, 'written' as const), fc.nat(4));
  await fc.assert(
    fc.asyncProperty(story, failing, anyPassingMs, async (started, [delays, fails, after], passingMs) => {
      const sequence = Array.from({ length: after }, (_none, at) => delays[at % delays.length]!);
      await inWorld([...sequence, { turnsBefore: 1, turnsAfter: 1, fails }], passingMs, async ({ relay, crowd }) => {
        const results = await crowd.play(started);
        const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
        expect(errors.filter((error) => !(error instanceof StoreFailed))).toEqual([]);
        expect(crowd.wrong).toEqual([]);
        expect(relay.failures.length).toBeLessThanOrEqual(1);
        await relay.reopen();
        expect(relay.notices).toEqual([]);
        const [stored, replayed] = await storedAndReplayed(relay.store);
        expect(stored).toEqual(replayed);
        // Everything is sent once more: what was answered before has the seq it was answered with.
        for (const [mark, seq] of crowd.answered) {
          const [sender = '', itemId = '', name = ''] = mark.split(' ');
          const target = HOSTS.find((host) => host.name === name)!;
          const answers = await Promise.all(
            [itemId, 'other'].map((wire) => relay.pushOne(pushOf(HOSTS[Number(sender)]!, itemId, [[target, wire]]))),
          );
          expect(answers.filter(({ verdict }) => verdict === 'duplicate')).toEqual([
            { verdict: 'duplicate', seqs: [seq] },
          ]);
        }
      });
    }),
    { numRuns: share(60), ...inTime(60_000) },
  );
});
