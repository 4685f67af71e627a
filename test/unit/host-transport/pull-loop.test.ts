/** The loop that pulls, alone: the link and the relay are told by the test, and so are timers and dice. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { PulledPage, PullOptions } from '../../../src/host/transport/relay-client.ts';
import { RelayCallFailed, RelayProblem } from '../../../src/host/transport/relay-request.ts';
import { PullLoop } from '../../../src/host/transport/relay-side/pull-loop.ts';
import { RELAY_TIMING, type RelayLink } from '../../../src/host/transport/relay-side/relay-link.ts';
import type { RelaySession } from '../../../src/host/transport/relay-side/relay-session.ts';
import { problemDocument } from '../../../src/protocol/problem.ts';
import { putPosition } from '../../../src/host/office/relay-rows.ts';
import { hostNamed, relay } from '../../support/hosts.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import { testOffice } from '../../support/test-office.ts';

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
  ack(): void;
}

async function given(asked: Partial<Asked>) {
  const pulls: PullOptions[] = [];
  const seen = { rewinds: 0 };
  const office = await testOffice();
  const random = new SeededRandom(SEED);
  office.randomBytes = (count) => random.bytes(count);
  await office.store.transact((tx) => {
    const row = { url: 'https://relay.example', pubkey: relay.key, proof: null, pinnedAtMs: 0, seenKey: null };
    tx.put('relay', [], { ...row, epoch: scope.epoch, sendersIatMs: 0 });
  });
  const empty = (): PulledPage => ({ epoch: scope.epoch, head_seq: 100, items: [], last_seq: 0, more: false });
  const client = {
    pull: async (options: PullOptions) => {
      pulls.push(options);
      return asked.pull?.(options) ?? empty();
    },
    ack: async () => asked.ack?.(),
  };
  const session = { protocol: 2, client, scope, limits: { max_pull: 500 } } as unknown as RelaySession;
  const stopping = new AbortController();
  const link = {
    session,
    pauseMs: 0,
    ready: () => Promise.resolve(session),
    worked: () => undefined,
    rewound: async () => {
      seen.rewinds++;
    },
    failed: (_session: RelaySession, error: RelayCallFailed) => Promise.reject(error),
  };
  const timing = RELAY_TIMING;
  const loop = new PullLoop({ office, link: link as unknown as RelayLink, timing, stopping: stopping.signal });
  onTestFinished(async () => {
    stopping.abort();
    await loop.stop();
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  return { office, loop, pulls, seen };
}

/** Resolves when the loop waits for its next turn. */
async function resting(): Promise<void> {
  while (vi.getTimerCount() === 0) await nextTurn();
}

test('a relay that holds no empty page back is polled, with jitter', async () => {
  const { loop, pulls } = await given({});
  loop.start();
  const rest = rests();
  for (let pulled = 1; pulled <= 5; pulled++) {
    await resting();
    expect(pulls).toHaveLength(pulled);
    expect(loop.isHeldBack).toBe(false);
    const restMs = Number(rest.next().value);
    vi.advanceTimersByTime(Math.floor(restMs) - 1);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(2);
    expect(vi.getTimerCount()).toBe(0);
  }
});

test('a relay that goes back in time again and again is read anew as often as it is polled', async () => {
  const { loop, office, seen, pulls } = await given({
    ack: () => {
      throw new RelayProblem(400, problemDocument('BAD_ACK', 'beyond'));
    },
  });
  await office.store.transact((tx) => putPosition(tx, office, scope, 50));
  loop.start();
  await resting();
  expect(seen.rewinds).toBe(2);
  vi.advanceTimersByTime(1.5 * pollMs);
  await resting();
  expect(seen.rewinds).toBe(3);
  expect(pulls).toEqual([]);
});
