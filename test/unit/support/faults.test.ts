/** Tests what the checker of histories finds: each kind of fault, and none in a history that is right. */
import { expect, test } from 'vitest';
import { signCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { type AcceptReceipt, acceptReceipt, signDocument } from '../../../src/protocol/documents.ts';
import type { Epoch, ItemId } from '../../../src/protocol/names.ts';
import type { Sha256Hex } from '../../../src/protocol/encodings.ts';
import { faultsOf } from '../../support/history/faults.ts';
import type { AckSeen, CheckpointSeen, GrowthSeen, PullSeen, PushSeen, Seen } from '../../support/history/history.ts';
import { alice, bob, relay } from '../../support/hosts.ts';
import { naiveConsistency, naiveRoot } from '../../support/merkle-oracle.ts';

const FIRST = 'FIRST' as Epoch;
const SECOND = 'SECOND' as Epoch;
const HASH = 'a'.repeat(64) as Sha256Hex;

/** A history in which one thing follows another. */
class Story {
  readonly seen: Seen[] = [];
  #nowMs = 1;

  /** Alice pushed an item to Bob. */
  pushed(itemId: string, seq: number, { epoch = FIRST, forge = {} }: { epoch?: Epoch; forge?: object } = {}): this {
    const accept: AcceptReceipt = acceptReceipt({
      relay_pubkey: relay.key,
      epoch,
      sender_pubkey: alice.key,
      item_id: itemId as ItemId,
      targets: [{ host_pubkey: bob.key, seq, wire_hash: HASH }],
      at: 1,
    });
    const sig = signDocument(relay.signer, { ...accept, ...forge });
    const result = { item_id: itemId, status: 'accepted', targets: [{ host_pubkey: bob.key, seq }], sig };
    const push: Omit<PushSeen, 'startedMs' | 'endedMs'> = {
      type: 'push',
      client: 'alice',
      epoch,
      sender: alice.key,
      itemId,
      targets: [{ target: bob.key, wireHash: HASH }],
      result: { ...result, accept: { ...accept, ...forge } },
    };
    return this.#add(push);
  }

  /** Bob got these of what waits. */
  pulled(items: readonly [itemId: string, seq: number][], head: number, more: Partial<PullSeen> = {}): this {
    const pull: Omit<PullSeen, 'startedMs' | 'endedMs'> = {
      type: 'pull',
      client: 'bob',
      epoch: FIRST,
      target: bob.key,
      head,
      lastSeq: items.at(-1)?.[1] ?? 0,
      more: false,
      items: items.map(([itemId, seq]) => ({ itemId, seq, sender: alice.key, wireHash: HASH })),
      ...more,
    };
    return this.#add(pull);
  }

  acked(through: number): this {
    const ack: Omit<AckSeen, 'startedMs' | 'endedMs'> = {
      type: 'ack',
      client: 'bob',
      epoch: FIRST,
      target: bob.key,
      through,
    };
    return this.#add(ack);
  }

  signed(leaves: readonly string[], epoch = FIRST): this {
    const checkpoint: Omit<CheckpointSeen, 'startedMs' | 'endedMs'> = {
      type: 'checkpoint',
      client: 'observer',
      epoch,
      note: noteOf(leaves, epoch),
    };
    return this.#add(checkpoint);
  }

  /** The relay proves that the log of `newer` continues `older`, as it is in `served`. */
  grew(older: readonly string[], newer: readonly string[], served = newer): this {
    const [from, to] = [older.length, newer.length];
    const hashes = naiveConsistency(from, leavesOf(served)).map((hash) => hash.toString('base64'));
    const growth: Omit<GrowthSeen, 'startedMs' | 'endedMs'> = {
      type: 'growth',
      client: 'observer',
      epoch: FIRST,
      proof: { relay_pubkey: relay.key, epoch: FIRST, from, to, proof: hashes },
      older: noteOf(older, FIRST),
      newer: noteOf(newer, FIRST),
    };
    return this.#add(growth);
  }

  /** Lets the newest answer be one that was asked for before all others. */
  askedLongBefore(): this {
    const last = this.seen.pop();
    if (last) this.seen.push({ ...last, startedMs: 0 });
    return this;
  }

  /** The kinds of what is wrong with it. */
  faults(isDrained = false): string[] {
    return faultsOf(this.seen, { relayKey: relay.key, isDrained }).map(({ kind }) => kind);
  }

  #add<T extends Seen>(seen: Omit<T, 'startedMs' | 'endedMs'>): this {
    this.seen.push({ ...seen, startedMs: this.#nowMs, endedMs: this.#nowMs + 1 } as unknown as Seen);
    this.#nowMs += 2;
    return this;
  }
}

function leavesOf(leaves: readonly string[]): Buffer[] {
  return leaves.map((leaf) => Buffer.from(leaf));
}

function noteOf(leaves: readonly string[], epoch: Epoch): string {
  return signCheckpoint({ epoch, size: leaves.length, rootHash: naiveRoot(leavesOf(leaves)) }, relay.signer);
}

test('nothing is wrong with a history in which everything comes once', () => {
  const story = new Story()
    .pushed('one', 5)
    .signed(['a'])
    .pulled([['one', 5]], 5)
    // The ack was lost, and the sender did not hear of its first push.
    .pulled([['one', 5]], 5)
    .pushed('one', 5)
    .acked(5)
    .pushed('two', 6)
    .signed(['a', 'b'])
    .grew(['a'], ['a', 'b'])
    .pulled([['two', 6]], 6);
  expect(story.faults(true)).toEqual([]);
});

test('an item that a page beyond it lacks is lost', () => {
  expect(new Story().pushed('one', 5).pulled([], 5).faults()).toEqual(['lost']);
  expect(
    new Story()
      .pushed('one', 5)
      .pulled([['two', 6]], 6)
      .faults(),
  ).toEqual(['lost']);
  // The page ends before it, or was asked for before it was accepted.
  expect(
    new Story()
      .pushed('two', 6)
      .pulled([['one', 5]], 6, { more: true })
      .faults(),
  ).toEqual([]);
  expect(new Story().pushed('one', 5).pulled([], 5).askedLongBefore().faults()).toEqual([]);
});

test('an item that came is not lost, also when it is pushed again', () => {
  expect(
    new Story()
      .pushed('one', 5)
      .pulled([['one', 5]], 5)
      .pushed('one', 5)
      .pulled([], 5)
      .faults(true),
  ).toEqual([]);
});

test('after a new epoch an item may be gone until it is pushed again, and at the end it must have come', () => {
  const story = new Story().pushed('one', 5).pulled([], 4, { epoch: SECOND });
  expect(story.faults()).toEqual([]);
  expect(story.faults(true)).toEqual(['lost']);
  story.pushed('one', 7, { epoch: SECOND });
  expect(story.pulled([['one', 7]], 7, { epoch: SECOND }).faults(true)).toEqual([]);
});

test('an item at two seqs of an epoch is doubled; in another epoch it may have another', () => {
  expect(new Story().pushed('one', 5).pushed('one', 6).faults()).toEqual(['doubled']);
  expect(
    new Story()
      .pushed('one', 5)
      .pulled([['one', 6]], 6)
      .faults(),
  ).toEqual(['doubled']);
  expect(new Story().pushed('one', 5).pushed('one', 6, { epoch: SECOND }).faults()).toEqual([]);
});

test('a seq of two items is found, in one epoch and over two', () => {
  expect(new Story().pushed('one', 5).pushed('two', 5).faults()).toEqual(['seq used twice']);
  expect(new Story().pushed('one', 5).pushed('two', 5, { epoch: SECOND }).faults()).toEqual(['seq used twice']);
});

test('what was acked does not come again', () => {
  const story = new Story()
    .pushed('one', 5)
    .pulled([['one', 5]], 5)
    .acked(5);
  expect(story.pulled([['one', 5]], 5).faults()).toEqual(['acked item came again']);
});

test('a head does not go back after a page, push or ack told it; a page that was asked for before may be older', () => {
  const heads = [
    new Story().pulled([], 9),
    new Story().pushed('one', 9).pulled([['one', 9]], 9),
    new Story().pulled([], 9).acked(9),
  ];
  for (const story of heads) expect(story.pulled([], 8).faults()).toContain('head went back');
  expect(new Story().pushed('one', 9).pulled([], 0).faults()).toEqual(['head went back']);
  expect(new Story().pulled([], 9).pulled([], 8).askedLongBefore().faults()).toEqual([]);
  expect(new Story().pulled([], 9).pulled([], 8, { epoch: SECOND }).faults()).toEqual([]);
});

test('an epoch does not come back, whoever saw it', () => {
  const story = new Story().pulled([], 1).pulled([], 1, { epoch: SECOND, client: 'carol' });
  expect(story.faults()).toEqual([]);
  expect(story.pulled([], 1).faults()).toEqual(['epoch went back']);
  const late = new Story().pulled([], 1).pulled([], 1, { epoch: SECOND }).pulled([], 1).askedLongBefore();
  expect(late.faults()).toEqual([]);
});

test.each([
  ['signature', { at: 2 }, 'sig'],
  ['epoch', { epoch: SECOND }, undefined],
  ['seq', { targets: [{ host_pubkey: bob.key, seq: 6, wire_hash: HASH }] }, undefined],
  ['wire hash', { targets: [{ host_pubkey: bob.key, seq: 5, wire_hash: 'b'.repeat(64) }] }, undefined],
  ['sender', { sender_pubkey: bob.key }, undefined],
])('a receipt with another %s is found', (_, forge, isUnsigned) => {
  const story = new Story().pushed('one', 5, { forge });
  const [push] = story.seen;
  // The others are signed as they are.
  if (isUnsigned && push?.type === 'push') push.result.sig = signDocument(relay.signer, {});
  expect(story.faults()).toEqual(['bad receipt']);
});

test('an item with other bytes than it was pushed with is found', () => {
  const story = new Story().pushed('one', 5).pulled([['one', 5]], 5);
  const page = story.seen.at(-1);
  if (page?.type === 'pull') page.items = [{ itemId: 'one', seq: 5, sender: alice.key, wireHash: 'b'.repeat(64) }];
  expect(story.faults()).toEqual(['other bytes']);
});

test('checkpoints that contradict each other are found', () => {
  expect(new Story().signed(['a']).signed(['b']).faults()).toEqual(['checkpoints contradict each other']);
  expect(new Story().signed(['a']).signed(['b'], SECOND).faults()).toEqual([]);
  const [older, newer] = [['a'], ['a', 'b']];
  expect(new Story().grew(older, newer, ['a', 'x']).faults()).toEqual(['checkpoints contradict each other']);
  expect(new Story().grew(older, ['x', 'b']).faults()).toEqual(['checkpoints contradict each other']);
  expect(new Story().signed(newer).signed(older).faults()).toEqual(['checkpoint went back']);
});
