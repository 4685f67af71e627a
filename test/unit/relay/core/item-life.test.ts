/** The life of one item at one target: which records are steps of it, and which are of other items. */
import { describe, expect, test } from 'vitest';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import type {
  DedupExtended,
  DedupPurged,
  ExpiredItem,
  ItemLost,
  ItemsExpired,
  QueuedNotice,
  RelayEvent,
} from '../../../../src/relay/core/event.ts';
import { ItemLife } from '../../../../src/relay/core/describe-event.ts';
import { accepted, acked, moved, revoked, rotated } from '../../../support/events.ts';
import { alice, bob, carol, dave, relay } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const SEQ = 100;
/** Dedup knows the item until then, by its acceptance. */
const KNOWN_MS = NOON_MS + 1000;

/** alice's `m1` for bob, accepted by record 1 at 100; then these records, each a second after the one before. */
function life(...events: RelayEvent[]): ItemLife {
  const acceptance = accepted(alice, 'm1', [[bob, SEQ, 'x']], { dedupUntilMs: KNOWN_MS });
  const lived = new ItemLife(1, acceptance, acceptance.targets[0]!);
  for (const [at, event] of events.entries()) lived.follow({ lsn: at + 2, event });
  return lived;
}

const steps = (...events: RelayEvent[]): string[] => life(...events).steps.map(({ type }) => type);

function expired(targetPubkey: PublicKey, seqs: number[], changes: Partial<ItemsExpired> = {}): ItemsExpired {
  const items = seqs.map(
    (seq) =>
      ({ seq, kind: 'envelope', itemId: 'm1', senderPubkey: alice.key, pushedTo: bob.key, bytes: 1 }) as ExpiredItem,
  );
  const all = { relayPubkey: relay.key, account: null, dedupUntilMs: 0, notices: [] };
  return { type: 'ItemsExpired', targetPubkey, items, ...all, atMs: NOON_MS + 5, ...changes };
}

const noticeAt = (targetPubkey: PublicKey, itemId: string): QueuedNotice =>
  ({ targetPubkey, seq: 7, itemId, wire: '{}', wireHash: '', expiresAtMs: 1 }) as unknown as QueuedNotice;

const purged = (beforeMs: number): DedupPurged => ({ type: 'DedupPurged', beforeMs, senders: [], atMs: NOON_MS + 9 });

function lost(changes: Partial<ItemLost> = {}): ItemLost {
  const item = { itemId: 'm1', senderPubkey: alice.key, pushedTo: bob.key, bytes: 1 } as const;
  const place = { targetPubkey: bob.key, seq: SEQ, kind: 'envelope', account: null } as const;
  return { type: 'ItemLost', ...place, ...item, reason: 'missing', atMs: NOON_MS + 6, ...changes } as ItemLost;
}

function extended(dedupUntilMs: number, changes: Record<string, unknown> = {}): DedupExtended {
  const item = { itemId: 'm1', senderPubkey: alice.key, pushedTo: bob.key, ...changes };
  const others = [{ itemId: 'm0', senderPubkey: alice.key, pushedTo: bob.key }];
  const items = [...others, item] as DedupExtended['items'];
  return { type: 'DedupExtended', targetPubkey: bob.key, items, dedupUntilMs, atMs: NOON_MS };
}

test('begins where it was accepted, and waits there', () => {
  const lived = life();
  expect(lived).toMatchObject({ state: 'waiting', isWaiting: true, queuedKey: bob.key, queuedSeq: SEQ });
  expect(lived.steps).toEqual([{ lsn: 1, timeMs: NOON_MS, type: 'accepted', targetPubkey: bob.key, seq: SEQ }]);
});

describe('follows the item to where its queue goes', () => {
  test('when the target changes its key, and when the item is moved, once and again', () => {
    const lived = life(
      rotated(bob, carol, { atMs: NOON_MS + 1 }),
      moved(bob, carol, [90, SEQ, 110], 500, { atMs: NOON_MS + 2 }),
      rotated(carol, dave, { atMs: NOON_MS + 3 }),
      moved(carol, dave, [501], 900, { atMs: NOON_MS + 4 }),
      acked(dave, 900, [], { atMs: NOON_MS + 5 }),
    );
    expect(lived).toMatchObject({ state: 'acked', isWaiting: false, queuedKey: dave.key, queuedSeq: 900 });
    expect(lived.steps.slice(1)).toEqual([
      { lsn: 2, timeMs: NOON_MS + 1, type: 'rotated', targetPubkey: carol.key },
      { lsn: 3, timeMs: NOON_MS + 2, type: 'moved', targetPubkey: carol.key, fromSeq: SEQ, seq: 501 },
      { lsn: 4, timeMs: NOON_MS + 3, type: 'rotated', targetPubkey: dave.key },
      { lsn: 5, timeMs: NOON_MS + 4, type: 'moved', targetPubkey: dave.key, fromSeq: 501, seq: 900 },
      { lsn: 6, timeMs: NOON_MS + 5, type: 'acked', through: 900 },
    ]);
  });

  test('and not when another host changes its key, or other items are moved', () => {
    expect(steps(rotated(carol, bob), moved(bob, carol, [90, 110], 500), moved(carol, dave, [SEQ], 500))).toEqual([
      'accepted',
    ]);
  });
});

describe('ends', () => {
  test('with the ack of its target that covers its seq', () => {
    expect(steps(acked(carol, SEQ, []), acked(bob, SEQ - 1, []))).toEqual(['accepted']);
    expect(steps(acked(bob, SEQ, []))).toEqual(['accepted', 'acked']);
    expect(steps(acked(bob, SEQ + 1, []))).toEqual(['accepted', 'acked']);
  });

  test('with its expiry, and the notice of it is for its sender', () => {
    expect(steps(expired(carol.key, [SEQ]), expired(bob.key, [SEQ - 1, SEQ + 1]))).toEqual(['accepted']);
    const noticeId = `expired:m1:${bob.key}`;
    const notices = [noticeAt(dave.key, `expired:m1:${carol.key}`), noticeAt(alice.key, noticeId)];
    const lived = life(expired(bob.key, [SEQ - 1, SEQ], { notices }));
    expect(lived.state).toBe('expired');
    expect(lived.steps.slice(1)).toEqual([
      { lsn: 2, timeMs: NOON_MS + 5, type: 'expired' },
      { lsn: 2, timeMs: NOON_MS + 5, type: 'noticed', targetPubkey: alice.key, seq: 7, itemId: noticeId },
    ]);
  });

  test('with its loss, after which nothing is known of it', () => {
    expect(steps(lost({ targetPubkey: carol.key }), lost({ seq: SEQ + 1 }))).toEqual(['accepted']);
    const lived = life(lost(), purged(KNOWN_MS));
    expect(lived.state).toBe('lost');
    expect(lived.steps.slice(1)).toEqual([{ lsn: 2, timeMs: NOON_MS + 6, type: 'lost', reason: 'missing' }]);
  });

  test('once: what comes later at its place is of another item', () => {
    expect(steps(acked(bob, SEQ, []), acked(bob, SEQ + 1, []), expired(bob.key, [SEQ]))).toEqual(['accepted', 'acked']);
  });

  test('not with the revocation of its target, after which it expires in time', () => {
    expect(steps(revoked(carol))).toEqual(['accepted']);
    const lived = life(revoked(bob), expired(bob.key, [SEQ]));
    expect(lived.steps.map(({ type }) => type)).toEqual(['accepted', 'target revoked', 'expired']);
  });
});

describe('is forgotten', () => {
  test('when what was to be known as long as it is purged, and once', () => {
    expect(steps(purged(KNOWN_MS - 1))).toEqual(['accepted']);
    const lived = life(acked(bob, SEQ, []), purged(KNOWN_MS), purged(KNOWN_MS + 1));
    expect(lived.steps.slice(2)).toEqual([{ lsn: 3, timeMs: NOON_MS + 9, type: 'forgotten' }]);
  });

  test('later when it expired late, and never sooner for that', () => {
    const late = expired(bob.key, [SEQ], { dedupUntilMs: KNOWN_MS + 50 });
    expect(steps(late, purged(KNOWN_MS + 49))).not.toContain('forgotten');
    expect(steps(late, purged(KNOWN_MS + 50))).toContain('forgotten');
    const early = expired(bob.key, [SEQ], { dedupUntilMs: KNOWN_MS - 50 });
    expect(steps(early, purged(KNOWN_MS - 1))).not.toContain('forgotten');
  });

  test('later when it was acked late, and never sooner for that', () => {
    const late = extended(KNOWN_MS + 50);
    expect(steps(late, acked(bob, SEQ, []), purged(KNOWN_MS + 49))).toEqual(['accepted', 'acked']);
    expect(steps(late, acked(bob, SEQ, []), purged(KNOWN_MS + 50))).toEqual(['accepted', 'acked', 'forgotten']);
    expect(steps(extended(KNOWN_MS - 50), purged(KNOWN_MS - 1))).toEqual(['accepted']);
  });

  test.each([{ itemId: 'm2' }, { senderPubkey: dave.key }, { pushedTo: carol.key }])(
    'no later when another was acked late, one of %o',
    (changes) => {
      expect(steps(extended(KNOWN_MS + 50, changes), purged(KNOWN_MS))).toEqual(['accepted', 'forgotten']);
    },
  );
});
