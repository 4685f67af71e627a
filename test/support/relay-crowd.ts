/**
 * Many at once at one relay: pushes, acks and pages that nobody waits for, and what each of them found wrong.
 *
 * Nobody may be shown or told what is not durable, nothing that was answered may be skipped, and a known item has one
 * seq.
 */
import * as fc from 'fast-check';
import { pushOf } from './commands.ts';
import { type TestHost, hostNamed } from './hosts.ts';
import type { DurableEvents } from './slow-disk.ts';
import { type TestRelay, outcomeOf } from './test-relay.ts';

export const HOSTS = ['a', 'b', 'c'].map((name) => hostNamed(name));

export type Action =
  | { type: 'push'; items: { sender: number; id: number; targets: number[]; isOther: boolean }[] }
  | { type: 'ack'; target: number; back: number }
  | { type: 'page'; target: number; limit: number };

export const action: fc.Arbitrary<Action> = fc.oneof(
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

/** Keeps what each action found wrong, in words. */
export class Crowd {
  readonly #relay: TestRelay;
  readonly #disk: DurableEvents;
  readonly wrong: string[] = [];
  /** The seq with which each (sender, item, target) was answered. */
  readonly answered = new Map<string, number>();

  constructor(relay: TestRelay, disk: DurableEvents) {
    this.#relay = relay;
    this.#disk = disk;
  }

  act(what: Action): Promise<void> {
    if (what.type === 'push') return this.#push(what);
    return what.type === 'ack' ? this.#ack(what) : this.#page(what);
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
    // What was answered before the page was asked for, and all up to its head, must be on it up to where it ends,
    // unless it is acked now. Of what is durable since, a store that failed shows nothing: its process ends.
    const end = page.more || shown.length === limit ? (shown.at(-1) ?? 0) : Infinity;
    const acked = this.#disk.ackedThrough(key);
    const due = new Set([...answered, ...this.#disk.seqsOf(key).filter((seq) => seq <= page.headSeq)]);
    const skipped = [...due].filter((seq) => seq > acked && seq <= end && !shown.includes(seq));
    if (skipped.length > 0) this.wrong.push(`a page skips ${skipped.join(', ')}`);
  }
}
