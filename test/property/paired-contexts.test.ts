import { expect, test } from 'vitest';
import type { AgentId } from '../../src/host/core/rows.ts';
import type { IncomingItem } from '../../src/host/inbound/verify.ts';
import { afterAttempt, dueRows, wireOf } from '../../src/host/outbox/outbox.ts';
import { receiveItems } from '../../src/host/inbound/receive.ts';
import { issueReceipt } from '../../src/host/outbox/outgoing-items.ts';
import type { OutboxEvent } from '../../src/host/core/outbox-event.ts';
import type { DeliveryState } from '../../src/protocol/documents.ts';
import {
  type PairedContext,
  addAgent,
  lanItem,
  mailOf,
  pairedContext,
  peerIdOf,
  pin,
  sendTo,
} from '../support/paired-contexts.ts';
import { SeededRandom } from '../support/seeded-random.ts';

const ROUNDS = 60;
const AGENTS = ['one', 'two'];
const BATCH = 5;

/**
 * Two hosts that write to each other over a link which loses requests and answers, brings them twice and late, while
 * either store is closed and opened again. Everything is sent by what is in the stores alone.
 */
class Link {
  readonly #random: SeededRandom;
  readonly #sides: readonly [PairedContext, PairedContext];
  /** Requests that are still on their way, or will come a second time. */
  readonly #wandering: { to: PairedContext; items: IncomingItem[] }[] = [];
  isLossy = true;

  constructor(random: SeededRandom, sides: readonly [PairedContext, PairedContext]) {
    this.#random = random;
    this.#sides = sides;
  }

  /** One pass of one side's outbox. */
  async pass(from: PairedContext): Promise<number> {
    const to = this.#sides[0] === from ? this.#sides[1] : this.#sides[0];
    const peerId = peerIdOf(to.host);
    const rows = await dueRows(from.context, peerId, BATCH);
    const due = await from
      .store()
      .read((reader) =>
        rows.map((row) => ({ row, item: lanItem(from, row.kind, row.itemId, wireOf(reader, row.rowId)) })),
      );
    if (due.length === 0) return 0;
    const answers = await this.#carry(
      to,
      due.map(({ item }) => item),
    );
    await from.store().transact((tx) => {
      due.forEach(({ row }, at) => void afterAttempt(tx, from.context, row.rowId, answers?.[at] ?? LOST));
    });
    return due.length;
  }

  /** What wandered arrives at last, or again. */
  async deliverLate(): Promise<void> {
    const late = this.#wandering.splice(this.#random.below(this.#wandering.length + 1));
    for (const { to, items } of late) await receiveItems(to.context, items);
  }

  async #carry(to: PairedContext, items: IncomingItem[]): Promise<OutboxEvent[] | undefined> {
    if (this.isLossy && this.#random.chance(0.3)) this.#wandering.push({ to, items: items.toReversed() });
    if (this.isLossy && this.#random.chance(0.25)) return undefined;
    const received = await receiveItems(to.context, items);
    if (this.isLossy && this.#random.chance(0.25)) return undefined;
    return received.map(({ status }): OutboxEvent => {
      if (status === 'quarantined') return { type: 'lan-quarantined' };
      return status === 'rejected' ? { type: 'lan-rejected', code: 'x' } : { type: 'lan-accepted' };
    });
  }
}

const LOST: OutboxEvent = { type: 'lan-failed', reason: 'no answer' };

async function readSome(random: SeededRandom, side: PairedContext, said: Map<string, DeliveryState>): Promise<void> {
  const name = random.pick(AGENTS);
  const refs = await mailOf(side, name);
  if (refs.length === 0) return;
  const ref = random.pick(refs);
  const state = random.pick(['notified', 'read', 'acked'] as const);
  const key = `${ref} ${name}`;
  const order = ['notified', 'read', 'acked'];
  if (order.indexOf(state) > order.indexOf(said.get(key) ?? '')) said.set(key, state);
  await side.store().transact((tx) => {
    issueReceipt(tx, side.context, { ref, agentId: `agent-${name}` as AgentId }, state);
  });
}

test.each([1, 2, 3, 4])(
  'seed %i: over a link that loses, doubles and reorders, with crashes, every message arrives once and receipts agree',
  async (seed) => {
    const random = new SeededRandom(seed);
    const alice = await pairedContext('alice');
    const bob = await pairedContext('bob', alice.clock);
    try {
      await pin(alice, bob);
      await pin(bob, alice);
      for (const name of AGENTS) for (const side of [alice, bob]) await addAgent(side, name);
      const link = new Link(random, [alice, bob]);
      const sent: { ref: string; from: PairedContext; to: string[] }[] = [];
      const said = new Map<string, DeliveryState>();
      for (let round = 0; round < ROUNDS; round++) {
        const [from, to] = random.chance(0.5) ? [alice, bob] : [bob, alice];
        if (random.chance(0.4)) {
          const recipients = random.chance(0.3) ? AGENTS : [random.pick(AGENTS)];
          const { ref } = await sendTo(from, to, { from: 'one', to: recipients });
          sent.push({ ref, from, to: recipients });
        }
        if (random.chance(0.3)) await readSome(random, to, said);
        await link.pass(from);
        if (random.chance(0.2)) await link.deliverLate();
        if (random.chance(0.1)) await random.pick([alice, bob]).reopen();
        alice.clock.nowMs += random.below(20_000);
      }
      link.isLossy = false;
      await link.deliverLate();
      for (let quiet = 0; quiet < 3; ) {
        alice.clock.nowMs += 900_000;
        const moved = (await link.pass(alice)) + (await link.pass(bob));
        quiet = moved === 0 ? quiet + 1 : 0;
      }
      for (const name of AGENTS) {
        for (const side of [alice, bob]) {
          const expected = sent.filter(({ from, to }) => from !== side && to.includes(name)).map(({ ref }) => ref);
          expect((await mailOf(side, name)).toSorted()).toEqual(expected.toSorted());
        }
      }
      for (const { ref, from, to } of sent) {
        const row = await from.store().read((reader) => reader.get('sent', ref as never));
        const states = row?.recipients.map(({ address, state }) => [address.split('@')[0], state]);
        expect(states).toEqual(to.map((name) => [name, said.get(`${ref} ${name}`) ?? 'delivered']));
      }
      for (const side of [alice, bob]) {
        await side.store().read(async (reader) => {
          for await (const { row } of reader.range('outbox', []))
            expect(row).toMatchObject({ kind: 'envelope', state: 'done' });
          for await (const { key } of reader.range('outboxDue', [])) expect(key).toBeUndefined();
          for await (const { key } of reader.range('outboxWire', [])) expect(key).toBeUndefined();
          for await (const { row } of reader.range('quarantine', [])) expect(row).toBeUndefined();
        });
      }
      expect(sent.length).toBeGreaterThan(10);
    } finally {
      await alice.close();
      await bob.close();
    }
  },
);
