import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { type IndexedItem, QueueIndex, type Released } from '../../../../src/relay/core/queue-index.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';

/** The index without cleverness. */
class NaiveIndex {
  items: IndexedItem[] = [];

  late(through: number, nowMs: number, max: number): number[] {
    const late = this.items.filter(({ seq, expiresAtMs }) => seq <= through && expiresAtMs <= nowMs);
    return late.map(({ seq }) => seq).slice(0, max);
  }

  released(through: number, sendersMax: number): Released {
    const released: Released = { through, items: 0, bytes: 0, notices: 0, shares: [] };
    let last = through;
    for (const { seq, bytes, senderPubkey } of this.items.filter((item) => item.seq <= through)) {
      if (senderPubkey === null) {
        last = seq;
        released.notices++;
        continue;
      }
      const share = released.shares.find((one) => one.senderPubkey === senderPubkey);
      if (senderPubkey !== null && !share && released.shares.length === sendersMax)
        return { ...released, through: last };
      last = seq;
      released.items++;
      released.bytes += bytes;
      if (share) {
        share.items++;
        share.bytes += bytes;
      } else if (senderPubkey !== null) {
        released.shares.push({ senderPubkey, items: 1, bytes });
      }
    }
    return released;
  }
}

type Step =
  | { type: 'append'; gap: number; bytes: number; sender: number; times: number }
  | { type: 'dropThrough' | 'drop' | 'released'; where: number; senders: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('append' as const),
      gap: fc.integer({ min: 1, max: 2 ** 41 }),
      bytes: fc.nat(524_288),
      sender: fc.nat(3),
      times: fc.integer({ min: 1, max: 50 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constantFrom('dropThrough' as const, 'drop' as const, 'released' as const),
      // Not a double, which lies near 0 as a rule.
      where: fc.integer({ min: 0, max: 110 }).map((percent) => percent / 100),
      senders: fc.integer({ min: 1, max: 4 }),
    }),
  },
);

test('agrees with an array after any appends, acks and losses', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const index = new QueueIndex();
      const naive = new NaiveIndex();
      const seen: [Released, Released][] = [];
      let head = 0;
      // A seq that is in the index, between two, below all or above all.
      const seqAt = (where: number): number =>
        where > 1 ? head + 5 : where === 0 ? 0 : (naive.items.at(Math.floor(where * naive.items.length))?.seq ?? head);
      for (const one of steps) {
        switch (one.type) {
          case 'append':
            for (let time = 0; time < one.times; time++) {
              head += one.gap;
              const senderPubkey = [alice.key, bob.key, carol.key, null][one.sender] ?? null;
              const item = { seq: head, bytes: one.bytes + time, senderPubkey, expiresAtMs: (head * 7) % 11 };
              index.append(item);
              naive.items.push(item);
            }
            break;
          case 'dropThrough': {
            const through = seqAt(one.where);
            index.dropThrough(through);
            naive.items = naive.items.filter(({ seq }) => seq > through);
            break;
          }
          case 'drop': {
            const lost = seqAt(one.where);
            index.drop(lost);
            naive.items = naive.items.filter(({ seq }) => seq !== lost);
            break;
          }
          case 'released':
            seen.push([index.released(seqAt(one.where), one.senders), naive.released(seqAt(one.where), one.senders)]);
            break;
        }
        expect(index.length).toBe(naive.items.length);
        const [through, nowMs] = [seqAt(0.8), 5];
        expect(index.late(through, nowMs, 3)).toEqual(naive.late(through, nowMs, 3));
      }
      for (const [released, expected] of seen) expect(released).toEqual(expected);
      expect(index.released(head, 9)).toEqual(naive.released(head, 9));
    }),
    { numRuns: 300 },
  );
});

test('refuses a seq that does not ascend', () => {
  const index = new QueueIndex();
  index.append({ seq: 5, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 });
  expect(() => index.append({ seq: 5, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 })).toThrow('ascend');
  expect(() => index.append({ seq: 4, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 })).toThrow('ascend');
  expect(index.length).toBe(1);
});

test('keeps sequence numbers and sizes exactly up to the largest there are', () => {
  const index = new QueueIndex();
  index.append({ seq: Number.MAX_SAFE_INTEGER - 1, bytes: 2 ** 32 - 1, senderPubkey: alice.key, expiresAtMs: 1 });
  index.append({ seq: Number.MAX_SAFE_INTEGER, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 });
  expect(index.released(Number.MAX_SAFE_INTEGER - 1, 1)).toMatchObject({ items: 1, bytes: 2 ** 32 - 1, notices: 0 });
  expect(index.released(Number.MAX_SAFE_INTEGER, 1)).toMatchObject({ items: 2, bytes: 2 ** 32, notices: 0 });
});

const filled = (count: number): QueueIndex => {
  const index = new QueueIndex();
  for (let seq = 1; seq <= count; seq++) index.append({ seq, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 });
  return index;
};

test('takes more memory when it is full, and not where dropped items leave half of it', () => {
  expect([64, 65, 128, 129].map((count) => filled(count).capacity)).toEqual([64, 128, 128, 256]);
  const half = filled(64);
  half.dropThrough(32);
  half.append({ seq: 65, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 });
  expect([half.capacity, half.length]).toEqual([64, 33]);
});

test('is empty as well when its last item is lost', () => {
  const index = filled(10_000);
  index.dropThrough(9999);
  index.drop(10_000);
  expect([index.capacity, index.length]).toEqual([64, 0]);
});

test('an emptied index keeps no memory of how large it was, nor of its senders', () => {
  const index = new QueueIndex();
  for (let seq = 1; seq <= 10_000; seq++) index.append({ seq, bytes: 1, senderPubkey: alice.key, expiresAtMs: 1 });
  const { capacity } = index;
  index.dropThrough(10_000);
  expect(index.capacity).toBeLessThan(capacity / 100);
  index.append({ seq: 10_001, bytes: 7, senderPubkey: bob.key, expiresAtMs: 1 });
  expect(index.released(10_001, 1).shares).toEqual([{ senderPubkey: bob.key, items: 1, bytes: 7 }]);
});
