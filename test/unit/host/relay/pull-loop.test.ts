/** The loop that pulls, alone: the link and the relay are told by the test, and so are timers and dice. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { PullOptions } from '../../../../src/host/relay/relay-client.ts';
import type { V1Page } from '../../../../src/host/relay/relay-v1-client.ts';
import type { PulledPage } from '../../../../src/host/relay/relay-forms.ts';
import { RelayCallFailed, RelayProblem } from '../../../../src/host/relay/relay-request.ts';
import { PeersAtRelay } from '../../../../src/host/relay/peers-at-relay.ts';
import { PullLoop } from '../../../../src/host/relay/pull-loop.ts';
import type { RelayLink } from '../../../../src/host/relay/relay-link.ts';
import { RELAY_TIMING } from '../../../../src/host/relay/relay-timing.ts';
import type { RelaySession } from '../../../../src/host/relay/register-host.ts';
import { problemDocument } from '../../../../src/protocol/problem.ts';
import { listQuarantine } from '../../../../src/host/inbound/quarantine.ts';
import { cursorIn, positionIn, putCursor, putPosition } from '../../../../src/host/relay/relay-rows.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { testContext } from '../../../support/test-context.ts';

const SEED = 7;
const { pollMs } = RELAY_TIMING;
const scope = { relayPubkey: relay.key, epoch: 'FIRST' as never, hostPubkey: hostNamed('alice').key };

/** The rests that the dice give, in their order: half of the time between pulls to one and a half of it. */
function* rests(): Generator<number> {
  const random = new SeededRandom(SEED);
  for (;;) yield pollMs * (0.5 + random.bytes(1).readUInt8() / 256);
}

interface Asked {
  pull(options: PullOptions): PulledPage;
  /** Pulls from a relay of version 1. */
  pullV1(after: string | null): V1Page;
  ack(): void;
  /** Does what follows a failure, where it is more than a pause. */
  failed(link: { session: unknown }): void;
}

function pageOf(changes: Partial<PulledPage> = {}): PulledPage {
  return { epoch: scope.epoch, head_seq: 100, items: [], unreadable: [], last_seq: 0, more: false, ...changes };
}

async function given(asked: Partial<Asked>, { maxPull = 500, protocol = 2 } = {}) {
  const pulls: PullOptions[] = [];
  const cursors: (string | null)[] = [];
  const acks: unknown[] = [];
  const seen = { rewinds: 0, ended: 0, worked: 0, failures: [] as string[], logged: [] as string[] };
  const context = await testContext();
  const random = new SeededRandom(SEED);
  context.randomBytes = (count) => random.bytes(count);
  context.log = (level, message) => void seen.logged.push(`${level}: ${message}`);
  await context.store.transact((tx) => {
    const row = { url: 'https://relay.example', pubkey: relay.key, proof: null, pinnedAtMs: 0, seenKey: null };
    tx.put('relay', [], { ...row, epoch: scope.epoch, sendersIatMs: 0 });
  });
  const client = {
    pull: async (options: PullOptions) => {
      pulls.push(options);
      return asked.pull?.(options) ?? pageOf();
    },
    ack: async (...given: unknown[]) => {
      acks.push(given);
      asked.ack?.();
    },
  };
  const clientV1 = {
    pull: async (after: string | null) => {
      cursors.push(after);
      return asked.pullV1?.(after) ?? { envelopes: [], cursor: 'c0', more: false };
    },
    ack: client.ack,
  };
  const used = protocol === 2 ? client : clientV1;
  const ending = new AbortController();
  const session = { protocol, client: used, scope, limits: { max_pull: maxPull }, ending } as unknown as RelaySession;
  const stopping = new AbortController();
  let resuming = new AbortController();
  const link = {
    session,
    pauseMs: 0,
    get resumed() {
      return resuming.signal;
    },
    answered: () => {
      link.pauseMs = 0;
      resuming.abort();
      resuming = new AbortController();
    },
    ready: async (): Promise<RelaySession | undefined> => {
      link.pauseMs = 0;
      return session;
    },
    worked: () => void seen.worked++,
    ended: () => {
      seen.ended++;
      link.pauseMs = pollMs;
    },
    rewound: async () => {
      seen.rewinds++;
    },
    failed: async (_session: RelaySession, error: RelayCallFailed) => {
      seen.failures.push(error.message);
      link.pauseMs = pollMs;
      asked.failed?.(link);
    },
  };
  const timing = RELAY_TIMING;
  const pace = { waitSeconds: timing.waitSeconds, restMs: timing.pollMs };
  timers = new ManualTimers();
  const usable = link as unknown as RelayLink;
  const peers = new PeersAtRelay({ context, link: usable, keyLearned: () => undefined });
  const looks = { owe: () => undefined };
  const loop = new PullLoop({
    context,
    link: usable,
    timing,
    pace: () => pace,
    peers,
    looks,
    timers,
    stopping: stopping.signal,
  });
  onTestFinished(async () => {
    stopping.abort();
    await loop.stop();
  });
  return { context, loop, link, session, pulls, cursors, acks, seen, stopping };
}

/** Those of the loop that the test has. */
let timers: ManualTimers;

/** The turns of the event loop; a store answers within far fewer. */
const TURNS_MAX = 1_000_000;

/** Resolves when the loop waits for its next turn. Throws when it never does. */
async function resting(): Promise<void> {
  for (let turns = 0; timers.count === 0; turns++) {
    if (turns > TURNS_MAX) throw new Error('the loop does not rest');
    await nextTurn();
  }
}

/** Lets the rest pass, and resolves when the loop waits again. */
async function rested(ms = 1.5 * pollMs): Promise<void> {
  timers.pass(ms);
  await resting();
}

/** An item that goes into quarantine, at its place in the queue. */
function unreadable(seq: number): PulledPage['unreadable'][number] {
  return { seq, bytes: Buffer.from(`{"kind":"envelope","n":${seq}}`) };
}

const BAD_ACK = new RelayProblem(400, problemDocument('BAD_ACK', 'beyond'));

test('a relay that holds no empty page back is polled, with jitter', async () => {
  const { loop, pulls } = await given({});
  loop.start();
  const rest = rests();
  for (let pulled = 1; pulled <= 5; pulled++) {
    await resting();
    expect(pulls).toHaveLength(pulled);
    expect(loop.isHeldBack).toBe(false);
    const restMs = Number(rest.next().value);
    timers.pass(Math.floor(restMs) - 1);
    expect(timers.count).toBe(1);
    timers.pass(2);
    expect(timers.count).toBe(0);
  }
});

test('a queue that is set to its start while a page is on its way is read from the start, the page too', async () => {
  const { loop, context, pulls } = await given({
    pull: ({ after }) => {
      // It is durable before the page is received.
      if (after === 50) void context.store.transact((tx) => putPosition(tx, context, scope, 0));
      return after === 50 ? pageOf({ unreadable: [unreadable(51)], last_seq: 51 }) : pageOf();
    },
  });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  expect(pulls.map(({ after }) => after)).toEqual([50, 0]);
  expect((await listQuarantine(context, {})).total_items).toBe(1);
});

test('a relay that goes back in time again and again is read anew as often as it is polled', async () => {
  const { loop, context, seen, pulls } = await given({
    ack: () => {
      throw BAD_ACK;
    },
  });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  expect(seen.rewinds).toBe(2);
  expect(seen.logged).toContain('warn: the relay went back in time: its queue is read from the start');
  timers.pass(1.5 * pollMs);
  await resting();
  expect(seen.rewinds).toBe(3);
  expect(pulls).toEqual([]);
});

test('a page of nothing that has a place is not asked for again at once: the relay is given a rest', async () => {
  const { loop, context, pulls, seen } = await given({
    pull: () => pageOf({ unreadable: [{ seq: null, bytes: Buffer.from('{"kind":"envelope"}') }] }),
  });
  loop.start();
  await resting();
  expect(seen.failures).toEqual(['the relay showed no item that has a place']);
  expect(pulls).toHaveLength(1);
  expect((await listQuarantine(context, {})).items).toMatchObject([{ kind: 'envelope', reason: 'malformed' }]);
  timers.pass(pollMs);
  await resting();
  // And fewer are asked for, so that what stands before it may come alone.
  expect(pulls.map(({ limit }) => limit)).toEqual([500, 250]);
  expect((await listQuarantine(context, {})).items).toHaveLength(1);
});

test('receiving host rule 8: a page of another epoch ends the session, and nothing of it is taken', async () => {
  const { loop, context, seen, pulls } = await given({
    pull: () => ({ ...pageOf({ head_seq: 7, last_seq: 7, unreadable: [] }), epoch: 'SECOND' }),
  });
  loop.start();
  await resting();
  expect(seen).toMatchObject({ ended: 1, rewinds: 0, failures: [] });
  expect(pulls).toHaveLength(1);
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
});

test('a relay that goes back in time again after a minute is read anew at once', async () => {
  const { loop, context, seen } = await given({
    ack: () => {
      throw BAD_ACK;
    },
  });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  context.clock.nowMs += 59_999;
  await rested();
  expect(seen.rewinds).toBe(3);
  context.clock.nowMs += 60_000;
  await rested();
  expect(seen.rewinds).toBe(5);
});

test('receiving host rule 5: items and received-through are one; the relay is asked to delete them once', async () => {
  const pages = [pageOf({ unreadable: [unreadable(6), unreadable(7)], last_seq: 7 })];
  const { loop, context, pulls, acks, seen } = await given({ pull: () => pages.shift() ?? pageOf() });
  loop.start();
  await resting();
  expect(pulls).toMatchObject([
    { after: 0, limit: 500, epoch: scope.epoch, wait: RELAY_TIMING.waitSeconds },
    { after: 7, wait: RELAY_TIMING.waitSeconds },
  ]);
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(7);
  expect(acks).toEqual([[scope.epoch, 7]]);
  await rested();
  expect(pulls).toHaveLength(3);
  expect(acks).toHaveLength(1);
  expect(seen).toMatchObject({ worked: 3, rewinds: 0, failures: [] });
});

test('receiving host rule 6: a failed ack is repeated, and nothing is waited for before', async () => {
  let isDown = true;
  const { loop, context, pulls, acks, seen } = await given({
    ack: () => {
      if (isDown) throw new RelayCallFailed('no answer');
    },
  });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  expect(seen.failures).toEqual(['no answer']);
  expect(pulls).toMatchObject([{ after: 50, wait: 0 }]);
  // It was not asked to hold anything back.
  expect(loop.isHeldBack).toBeNull();
  isDown = false;
  // The rest after an empty page, and then that of the link.
  await rested();
  await rested();
  expect(acks).toHaveLength(2);
  expect(pulls[1]).toMatchObject({ after: 50, wait: RELAY_TIMING.waitSeconds });
  expect(loop.isHeldBack).toBe(false);
});

test('a session that ended with its ack is not pulled from', async () => {
  const { loop, context, pulls } = await given({
    ack: () => {
      throw new RelayCallFailed('gone');
    },
    failed: (link) => void (link.session = undefined),
  });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  expect(pulls).toEqual([]);
});

test('receiving host rule 7: a head below received-through begins the queue anew, and one at it does not', async () => {
  const heads = [50, 49];
  const { loop, context, seen, acks } = await given({ pull: () => pageOf({ head_seq: heads.shift() ?? 100 }) });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  expect([seen.rewinds, loop.headSeq, acks.length]).toEqual([0, 50, 1]);
  await rested();
  // What was acked before says nothing of the store that the relay has now.
  expect([seen.rewinds, loop.headSeq, acks.length]).toEqual([1, 100, 2]);
});

test('a relay that holds an empty page back is asked again at once', async () => {
  const heldMs = [900, 899];
  const known: (boolean | null)[] = [];
  const { loop, context } = await given({
    pull: () => {
      context.clock.nowMs += heldMs.shift() ?? 0;
      known.push(loop.isHeldBack);
      return pageOf();
    },
  });
  expect([loop.isHeldBack, loop.headSeq]).toEqual([null, null]);
  loop.start();
  await resting();
  expect(known).toEqual([null, true]);
  expect([loop.isHeldBack, loop.headSeq]).toEqual([false, 100]);
});

test('after a page that failed half as many items are asked for, one at least, and then twice as many', async () => {
  let failures = 3;
  const { loop, pulls } = await given(
    {
      pull: () => {
        if (failures-- > 0) throw new RelayCallFailed('too slow');
        return pageOf();
      },
    },
    { maxPull: 5 },
  );
  loop.start();
  await resting();
  for (let turn = 1; turn < 7; turn++) await rested();
  expect(pulls.map(({ limit }) => limit)).toEqual([5, 2, 1, 1, 2, 4, 5]);
});

test('a relay that answers another request is pulled from at once, whatever is left of the pause', async () => {
  let isDown = true;
  const { loop, link, pulls, seen } = await given({
    pull: () => {
      if (isDown) throw new RelayCallFailed('no answer');
      return pageOf();
    },
  });
  loop.start();
  await resting();
  expect([pulls.length, seen.failures.length]).toEqual([1, 1]);
  isDown = false;
  link.answered();
  await resting();
  expect([pulls.length, seen.worked]).toEqual([2, 1]);
});

test('a relay that answers all else and fails each pull is pulled from no more often than a polled one', async () => {
  let isDown = true;
  const { loop, link, pulls } = await given({
    pull: () => {
      if (isDown) throw new RelayCallFailed('no answer');
      return pageOf();
    },
  });
  loop.start();
  await resting();
  link.answered();
  await resting();
  expect(pulls).toHaveLength(2);
  const rest = rests();
  for (let pulled = 2; pulled < 5; pulled++) {
    const restMs = Number(rest.next().value);
    for (let answers = 0; answers < 10; answers++) {
      link.answered();
      timers.pass(Math.floor(restMs / 10) - 1);
      expect([pulls.length, timers.count]).toEqual([pulled, 1]);
    }
    link.answered();
    await rested(restMs / 5);
    expect(pulls).toHaveLength(pulled + 1);
  }
  isDown = false;
  link.answered();
  await rested();
  expect(pulls).toHaveLength(6);
});

test('a rest after pulls that fail in vain ends with the session', async () => {
  const { loop, link, session, pulls } = await given({
    pull: () => {
      throw new RelayCallFailed('no answer');
    },
  });
  loop.start();
  await resting();
  link.answered();
  await resting();
  link.answered();
  session.ending.abort();
  await resting();
  expect(pulls).toHaveLength(3);
});

test('a relay that takes none at once is asked for one', async () => {
  const { loop, pulls } = await given({}, { maxPull: 0 });
  loop.start();
  await resting();
  expect(pulls).toMatchObject([{ limit: 1 }]);
});

test('what is no fault of the relay is said, and tried again after a minute', async () => {
  const { loop, seen, pulls } = await given({
    pull: () => {
      throw new Error('of this host');
    },
  });
  loop.start();
  await resting();
  expect(seen).toMatchObject({ failures: [], logged: ['error: what the relay holds could not be taken'] });
  timers.pass(59_999);
  expect(timers.count).toBe(1);
  await rested(1);
  expect(pulls).toHaveLength(2);
});

test('an ack that failed by a fault of this host ends the turn', async () => {
  const { loop, context, seen, pulls } = await given({
    ack: () => {
      throw new Error('of this host');
    },
  });
  await context.store.transact((tx) => putPosition(tx, context, scope, 50));
  loop.start();
  await resting();
  expect([seen.failures, seen.logged.length, pulls]).toEqual([[], 1, []]);
});

test('nothing is asked while the link has a pause, also one that began while it made the session ready', async () => {
  const { loop, link, session, pulls } = await given({});
  let readied = 0;
  link.ready = async () => {
    link.pauseMs = readied++ === 0 ? 7_000 : 0;
    return session;
  };
  link.pauseMs = 5_000;
  loop.start();
  await resting();
  expect([readied, pulls.length]).toEqual([0, 0]);
  await rested(5_000);
  expect([readied, pulls.length]).toEqual([1, 0]);
  timers.pass(6_999);
  expect(timers.count).toBe(1);
  await rested(1);
  expect([readied, pulls.length]).toEqual([2, 1]);
});

test('a loop ends when this host stops: in its rest, without a session, and before it asks anything else', async () => {
  const resters = await given({});
  resters.loop.start();
  await resting();
  resters.stopping.abort();
  await resters.loop.stop();
  expect(timers.count).toBe(0);
  expect(resters.pulls).toHaveLength(1);

  const without = await given({});
  without.link.ready = async () => undefined;
  without.loop.start();
  await without.loop.stop();
  expect(without.pulls).toEqual([]);

  const late = await given({});
  late.link.ready = async () => {
    late.stopping.abort();
    return late.session;
  };
  late.loop.start();
  await late.loop.stop();
  expect(late.pulls).toEqual([]);
});

test('a page that comes while this host stops is left for the next time', async () => {
  const { loop, context, seen, stopping } = await given({
    pull: () => {
      stopping.abort();
      return pageOf({ unreadable: [unreadable(7)], last_seq: 7 });
    },
  });
  loop.start();
  await loop.stop();
  expect(seen.failures).toEqual([]);
  expect(await context.store.read((reader) => positionIn(reader, scope))).toBe(0);
});

test('an answer that fails while this host stops is no failure of the relay', async () => {
  const { loop, seen, stopping } = await given({
    pull: () => {
      stopping.abort();
      throw new RelayCallFailed('aborted');
    },
  });
  loop.start();
  await loop.stop();
  expect(seen).toMatchObject({ failures: [], logged: [] });
});

test('v1: a page is acked by its cursor when all of it is done, and more of them are asked for at once', async () => {
  const pages: V1Page[] = [
    { envelopes: [Buffer.from('1'), Buffer.from('2')], cursor: 'c1', more: true },
    { envelopes: [Buffer.from('3')], cursor: 'c2', more: false },
    { envelopes: [], cursor: 'c2', more: true },
  ];
  const { loop, context, cursors, acks, seen } = await given(
    { pullV1: () => pages.shift() ?? { envelopes: [], cursor: 'c3', more: false } },
    { protocol: 1 },
  );
  loop.start();
  await resting();
  expect(cursors).toEqual([null, 'c1']);
  expect(acks).toEqual([['c1']]);
  expect(loop.isHeldBack).toBe(false);
  expect((await listQuarantine(context, {})).items).toHaveLength(3);
  // One that goes on to say that there is more, and moves nothing, is polled as any other.
  await rested();
  expect(cursors).toEqual([null, 'c1', 'c2']);
  expect(acks).toEqual([['c1'], ['c2']]);
  await rested();
  expect(await context.store.read((reader) => cursorIn(reader, scope))).toBe('c3');
  expect(seen).toMatchObject({ worked: 4, rewinds: 0 });
});

test('v1: a cursor that the relay does not know begins the queue anew; another answer is a failure', async () => {
  const errors = [new RelayCallFailed('what cursor', 400), new RelayCallFailed('down', 503), new Error('of this host')];
  const { loop, context, seen, acks } = await given(
    {
      pullV1: () => {
        const error = errors.shift();
        if (error) throw error;
        return { envelopes: [], cursor: 'c1', more: false };
      },
    },
    { protocol: 1 },
  );
  await context.store.transact((tx) => putCursor(tx, context, scope, 'c1'));
  loop.start();
  await resting();
  expect(seen).toMatchObject({ rewinds: 1, failures: ['down'] });
  expect(acks).toEqual([['c1'], ['c1']]);
  await rested();
  expect(seen).toMatchObject({
    rewinds: 1,
    failures: ['down'],
    logged: [expect.anything(), expect.stringMatching(/^error/)],
  });
});

test('v1: what refuses a page without a cursor is not of another time', async () => {
  const { loop, seen } = await given(
    {
      pullV1: () => {
        throw new RelayCallFailed('bad request', 400);
      },
    },
    { protocol: 1 },
  );
  loop.start();
  await resting();
  expect(seen).toMatchObject({ rewinds: 0, failures: ['bad request'] });
});

test('v1: an ack that is refused begins the queue anew, and one that ended the session asks for no page', async () => {
  const errors: Error[] = [BAD_ACK, new RelayCallFailed('gone')];
  const { loop, context, seen, cursors } = await given(
    {
      ack: () => {
        throw errors.shift() ?? new Error('asked too often');
      },
      failed: (link) => void (link.session = undefined),
    },
    { protocol: 1 },
  );
  await context.store.transact((tx) => putCursor(tx, context, scope, 'c1'));
  loop.start();
  await resting();
  expect(seen).toMatchObject({ rewinds: 1, failures: ['gone'] });
  expect(cursors).toEqual([]);
});

test('v1: a page that comes while this host stops moves no cursor', async () => {
  const { loop, context, stopping } = await given(
    {
      pullV1: () => {
        stopping.abort();
        return { envelopes: [Buffer.from('1')], cursor: 'c1', more: false };
      },
    },
    { protocol: 1 },
  );
  loop.start();
  await loop.stop();
  expect(await context.store.read((reader) => cursorIn(reader, scope))).toBeNull();
});

test('v1: a part of a page that is done moves no cursor', async () => {
  const { loop, context, stopping } = await given(
    {
      pullV1: () => {
        // This host stops while it takes the first items of the page.
        const nowMs = context.nowMs();
        context.nowMs = () => {
          stopping.abort();
          return nowMs;
        };
        const envelopes = Array.from({ length: 33 }, (_none, at) => Buffer.from(`${at}`));
        return { envelopes, cursor: 'c1', more: false };
      },
    },
    { protocol: 1 },
  );
  loop.start();
  await loop.stop();
  expect((await listQuarantine(context, { limit: 50 })).items).toHaveLength(32);
  expect(await context.store.read((reader) => cursorIn(reader, scope))).toBeNull();
});

test('a loop that stops is waited for until nothing of it is under way', async () => {
  const { loop, stopping, context } = await given({});
  let asked: (() => void) | undefined;
  const held = new Promise<void>((resolve) => (asked = resolve));
  const read = context.store.read.bind(context.store);
  context.store.read = async (use) => {
    await held;
    return read(use);
  };
  loop.start();
  await nextTurn();
  stopping.abort();
  let isOver = false;
  const over = loop.stop().then(() => (isOver = true));
  await nextTurn();
  expect(isOver).toBe(false);
  asked?.();
  await over;
  expect(isOver).toBe(true);
});

test('who waits for a pull is told when there will be none: the relay was removed', async () => {
  const { loop, stopping } = await given({});
  loop.start();
  await loop.turned();
  const told = loop.turned().then(() => 'told');
  stopping.abort();
  await loop.stop();
  expect(await Promise.race([told, nextTurn('not told')])).toBe('told');
});
