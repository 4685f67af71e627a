/** Tests when a host looks at the log of its relay, and what becomes of a look that does not come to its end. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Checkpoint } from '../../../../src/protocol/checkpoint.ts';
import { signCheckpoint } from '../../../../src/protocol/checkpoint.ts';
import type { KeptNote } from '../../../../src/host/core/relay-trust.ts';
import { leaveEpoch } from '../../../../src/host/outbox/trust-rows.ts';
import type { PeersAtRelay } from '../../../../src/host/relay/peers-at-relay.ts';
import type { RelaySession } from '../../../../src/host/relay/register-host.ts';
import type { RelayLink } from '../../../../src/host/relay/relay-link.ts';
import { RELAY_TIMING } from '../../../../src/host/relay/relay-timing.ts';
import { RelayLooks } from '../../../../src/host/relay/relay-looks.ts';
import { RelayCallFailed } from '../../../../src/host/relay/relay-request.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { relay } from '../../../support/hosts.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';

const EPOCH = epochNumbered(1);
const { lookMs, lookSoonMs, lookSettleMs } = RELAY_TIMING;
/** Nothing of a look that is not due happens within this. */
const TURNS = 20;

interface World {
  context: TestContext;
  looks: RelayLooks;
  link: { session: RelaySession | undefined; pauseMs: number };
  /** The heads that were asked for. */
  asked: { atMs: number }[];
  /** The next answers; a note of one leaf when there is none. */
  answers: (() => Promise<string>)[];
  /** Both clocks and the timers go on. */
  pass: (ms: number) => Promise<void>;
  kept: () => Promise<KeptNote | undefined>;
}

async function looksForTest(protocol: 1 | 2 = 2): Promise<World> {
  const context = await testContext();
  const asked: World['asked'] = [];
  const answers: World['answers'] = [];
  const client = {
    logCheckpoint: ({ after }: Pick<Checkpoint, 'after'>): Promise<string> => {
      asked.push({ atMs: context.nowMs() });
      const head: Checkpoint = { epoch: EPOCH, size: 1, rootHash: Buffer.alloc(32, 1), ...(after && { after }) };
      return answers.shift()?.() ?? Promise.resolve(signCheckpoint(head, relay.signer));
    },
  };
  const scope = { relayPubkey: relay.key, epoch: EPOCH, hostPubkey: context.identity().signer.publicKey };
  const link = { session: { protocol, scope, client } as unknown as RelaySession, pauseMs: 0 };
  const peers = { isEnrolled: () => true } as unknown as PeersAtRelay;
  const { signal } = new AbortController();
  const used = link as unknown as RelayLink;
  const looks = new RelayLooks({ context, link: used, peers, timing: RELAY_TIMING, stopping: signal });
  onTestFinished(() => looks.stop());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const pass = async (ms: number): Promise<void> => {
    context.clock.nowMs += ms;
    vi.advanceTimersByTime(ms);
    for (let turn = 0; turn < TURNS; turn++) await nextTurn();
  };
  const kept = (): Promise<KeptNote | undefined> =>
    context.store.read((reader) => reader.get('checkpoint', relay.key, EPOCH));
  return { context, looks, link, asked, answers, pass, kept };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Resolves when `check` throws no more; the timers stand still meanwhile. */
async function until(check: () => Promise<void> | void): Promise<void> {
  const lastMs = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > lastMs) throw error;
      await nextTurn();
    }
  }
}

const unavailable = (): Promise<string> => Promise.reject(new RelayCallFailed('', 503));

test('a look that is owed is done after a moment, the next one ten minutes later, give or take a fifth', async () => {
  const { looks, asked, pass, kept, context } = await looksForTest();
  expect(await kept()).toBeUndefined();
  looks.owe();
  await pass(lookSettleMs - 1);
  expect(asked).toHaveLength(0);
  await pass(1);
  await until(async () => expect(await kept()).toMatchObject({ size: 1, epoch: EPOCH }));
  const began = context.nowMs();
  looks.owe();
  await pass(0.8 * lookMs - 1);
  expect(asked).toHaveLength(1);
  await pass(0.4 * lookMs + 1);
  await until(() => expect(asked).toHaveLength(2));
  expect(context.nowMs()).toBe(began + 1.2 * lookMs);
});

test('nothing is looked at that is not owed, and nothing of a relay of v1', async () => {
  const { asked, pass } = await looksForTest();
  await pass(3 * lookMs);
  const v1 = await looksForTest(1);
  v1.looks.owe();
  await v1.looks.look(1_000);
  // Nor does it wait for a turn that never comes.
  expect(vi.getTimerCount()).toBe(0);
  await v1.pass(3 * lookMs);
  expect([asked, v1.asked]).toEqual([[], []]);
});

test('a look that does not end changes nothing and stays owed: for a minute where it is to confirm', async () => {
  const { looks, asked, answers, pass, kept } = await looksForTest();
  answers.push(unavailable);
  looks.owe(true);
  await pass(lookSettleMs);
  await until(() => expect(asked).toHaveLength(1));
  await looks.idle;
  expect(looks.youngerThan(lookMs)).toBe(false);
  expect(await kept()).toBeUndefined();
  await pass(0.8 * lookSoonMs - 1);
  expect(asked).toHaveLength(1);
  await pass(0.4 * lookSoonMs + 1);
  await until(() => expect(looks.youngerThan(1)).toBe(true));
  expect(asked).toHaveLength(2);
  expect(await kept()).toMatchObject({ size: 1 });
});

test('a relay that is to be left alone is not looked at before that is over', async () => {
  const { looks, link, asked, pass } = await looksForTest();
  link.pauseMs = 3 * lookMs;
  looks.owe();
  await looks.look(1_000);
  await pass(2 * lookMs);
  expect(asked).toHaveLength(0);
  link.pauseMs = 0;
  await pass(lookMs);
  await until(() => expect(asked).toHaveLength(1));
});

test('without a session a look stays owed, and the next session brings it', async () => {
  const { looks, link, asked, pass } = await looksForTest();
  const { session } = link;
  link.session = undefined;
  looks.owe();
  await pass(2 * lookMs);
  expect(asked).toHaveLength(0);
  link.session = session;
  looks.entered();
  await pass(1);
  await until(() => expect(asked).toHaveLength(1));
});

test('a look that is asked for is waited for, so long at most; one that is younger than a minute will do', async () => {
  const { looks, asked, answers, pass } = await looksForTest();
  let fail!: (error: unknown) => void;
  answers.push(() => new Promise((_answer, reject) => void (fail = reject)));
  let isOver = false;
  const waiting = looks.look(2_000).then(() => void (isOver = true));
  await until(() => expect(asked).toHaveLength(1));
  await pass(1_999);
  expect(isOver).toBe(false);
  await pass(1);
  await waiting;
  fail(new RelayCallFailed('', 503));
  await looks.idle;
  await looks.look(2_000);
  expect(asked).toHaveLength(2);
  await looks.look(2_000);
  expect(asked).toHaveLength(2);
  await pass(60_000);
  await looks.look(2_000);
  expect(asked).toHaveLength(3);
});

test('what cannot be written, as on a full disk, is not known, and the look stays owed', async () => {
  const { looks, context, asked, pass, kept } = await looksForTest();
  const transact = context.store.transact.bind(context.store);
  context.store.transact = () => Promise.reject(new Error('no space left'));
  await looks.look(1_000);
  context.store.transact = transact;
  expect([asked.length, looks.youngerThan(lookMs), await kept()]).toEqual([1, false, undefined]);
  await pass(1.2 * lookMs);
  await until(async () => expect(await kept()).toMatchObject({ size: 1 }));
});

test('what a look found over a state that is another by now is not written, and the look stays owed', async () => {
  const { looks, context, asked, answers, pass, kept } = await looksForTest();
  answers.push(async () => {
    await context.store.transact((tx) => leaveEpoch(tx, relay.key, epochNumbered(9)));
    return signCheckpoint({ epoch: EPOCH, size: 5, rootHash: Buffer.alloc(32, 5) }, relay.signer);
  });
  await looks.look(1_000);
  expect(await kept()).toBeUndefined();
  const { left } = (await context.store.read((reader) => reader.get('relayTrust', relay.key)))!;
  expect(left).toEqual([epochNumbered(9)]);
  await pass(1.2 * lookMs);
  await until(async () => expect(await kept()).toMatchObject({ size: 1 }));
  expect(asked).toHaveLength(2);
});
