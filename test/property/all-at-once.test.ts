/**
 * Everything at once: pushes, acks, pages, rotations, sweeps, losses, new epochs, revocations and a clock that moves,
 * and nobody waits for anybody, on a disk that confirms late or fails, with queues that take many slices to move.
 *
 * What must hold in the end: nothing but the disk failed anybody, every item that is counted waits with its wire bytes
 * and can be acked, the log gives the stored rows, and an audit finds nothing.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { hostFingerprint } from '../../src/protocol/public-key.ts';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { verified } from '../support/audits.ts';
import { denyOf, enrolOf, pushOf, reportLostOf, revokeOf, rotateEpochOf, rotateOf } from '../support/commands.ts';
import { epochSource } from '../support/epochs.ts';
import { type TestHost, hostNamed } from '../support/hosts.ts';
import { inTime } from '../support/in-time.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { expectReplayed } from '../support/replay.ts';
import { type Delay, SlowDisk, microtasks, turns } from '../support/slow-disk.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';

const DAY_MS = 86_400_000;
const HOSTS = Array.from({ length: 12 }, (_none, at) => hostNamed(`host${at}`));
/** Those that are enrolled and have mail from the beginning. */
const FIRST = HOSTS.slice(0, 4);
const FIRST_ITEMS = 12;

type Action =
  | { type: 'push'; sender: number; items: { id: number; targets: number[] }[] }
  | { type: 'ack'; host: number; back: number }
  | { type: 'page'; host: number }
  | { type: 'rotate'; from: number; to: number }
  | { type: 'lost'; host: number; place: number }
  | { type: 'enrol'; host: number; isProven: boolean }
  | { type: 'revoke' | 'deny'; host: number }
  | { type: 'clock'; byMs: number }
  | { type: 'sweep' | 'epoch' };

interface Started {
  action: Action;
  /** The number of microtasks until the next action is started. */
  microtasks: number;
  turns: number;
}

const anyHost = fc.nat(HOSTS.length - 1);
const first = fc.nat(FIRST.length - 1);
const item = fc.record({ id: fc.nat(30), targets: fc.uniqueArray(first, { minLength: 1, maxLength: 3 }) });
const items = fc.array(item, { minLength: 1, maxLength: 8, size: 'max' });
const byMs = fc.constantFrom(1, -1, -DAY_MS, 3 * DAY_MS, 7 * DAY_MS, 14 * DAY_MS, 21 * DAY_MS);
const action = fc.oneof(
  { weight: 10, arbitrary: fc.record({ type: fc.constant('push' as const), sender: first, items }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('ack' as const), host: first, back: fc.nat(12) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('page' as const), host: first }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('rotate' as const), from: first, to: anyHost }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('lost' as const), host: first, place: fc.nat(10) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('enrol' as const), host: anyHost, isProven: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constantFrom('revoke' as const, 'deny' as const), host: anyHost }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('clock' as const), byMs }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constantFrom('sweep' as const, 'sweep' as const, 'epoch' as const) }) },
);
const story: fc.Arbitrary<Started[]> = fc.array(
  fc.record({ action, microtasks: fc.nat(6), turns: fc.constantFrom(0, 0, 0, 1, 2, 8) }),
  { minLength: 1, maxLength: 70, size: 'max' },
);
const healthy: fc.Arbitrary<Delay[]> = fc.array(
  fc.record({ turnsBefore: fc.nat(3), turnsAfter: fc.nat(3), fails: fc.constant('no' as const) }),
  { minLength: 1, maxLength: 5 },
);
/** The append that fails, if any, and how. */
const failure = fc.option(
  fc.record({ fails: fc.constantFrom('unwritten' as const, 'written' as const), after: fc.nat(25) }),
  { freq: 2 },
);

class Crowd {
  readonly #relay: TestRelay;
  readonly #newEpoch = epochSource(100);
  #sweeping: Promise<void> | undefined;

  constructor(relay: TestRelay) {
    this.#relay = relay;
  }

  /** Starts every action at its time and answers what ended in an error. */
  async play(started: readonly Started[]): Promise<unknown[]> {
    const running: Promise<unknown>[] = [];
    for (const one of started) {
      const run = this.take(one.action);
      // It may fail before anybody looks; it is looked at in the end.
      run.catch(() => undefined);
      running.push(run);
      await microtasks(one.microtasks);
      await turns(one.turns);
    }
    const results = await Promise.allSettled(running);
    return results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
  }

  async take(what: Action): Promise<unknown> {
    const relay = this.#relay;
    const { engine, clock } = relay;
    const { nowMs } = clock;
    switch (what.type) {
      case 'push': {
        const sender = this.#present(what.sender);
        const commands = what.items.map(({ id, targets }) => {
          return pushOf(
            sender,
            `m${id}`,
            targets.map((target) => [this.#present(target), `m${id}`] as const),
          );
        });
        return relay.push(...commands);
      }
      case 'ack': {
        const host = this.#present(what.host);
        return relay.ack(host, Math.max(0, engine.head(host.key).headSeq - what.back));
      }
      case 'page':
        return relay.wires(this.#present(what.host));
      case 'rotate':
        return relay.rotate(rotateOf(this.#present(what.from), HOSTS[what.to]!, { iatMs: nowMs }));
      case 'lost': {
        const host = this.#present(what.host);
        const { rows } = await engine.page(host.key, 0, 500);
        const row = rows[what.place];
        const freshEpoch = this.#newEpoch();
        return row && engine.lost.report(reportLostOf(host, row.seq, { freshEpoch, nowMs }));
      }
      case 'enrol':
        return relay.enrol(
          enrolOf(HOSTS[what.host]!, { answer: { ok: true, ...(what.isProven && { account: 'acme' }) } }),
        );
      case 'revoke':
        return engine.admissions.revokeHost(revokeOf(HOSTS[what.host]!, { nowMs }));
      case 'deny':
        return relay.deny(denyOf({ hostFp: hostFingerprint(HOSTS[what.host]!.key) }));
      case 'clock':
        return clock.move(what.byMs);
      case 'epoch':
        return engine.rotateEpoch(rotateEpochOf(this.#newEpoch(), { nowMs }));
      case 'sweep':
        this.#sweeping ??= this.#sweep().finally(() => {
          this.#sweeping = undefined;
        });
        return this.#sweeping;
    }
  }

  /** As the relay does it: one at a time, and not on the word of a clock that jumps in the middle. */
  async #sweep(): Promise<void> {
    const { engine, clock } = this.#relay;
    const { nowMs } = clock;
    const signal = {
      get aborted() {
        return clock.nowMs !== nowMs;
      },
    };
    await engine.expiry.expire(() => nowMs, signal);
    await engine.expiry.purgeDedup(() => nowMs, signal);
    if (!signal.aborted) await engine.admissions.lapse(nowMs);
  }

  #present(number: number): TestHost {
    const key = this.#relay.engine.presentKey(HOSTS[number]!.key);
    return HOSTS.find((host) => host.key === key)!;
  }
}

/** Some mail is there for everybody from everybody, more than one slice moves at first; no index is in memory. */
async function settle(relay: TestRelay): Promise<void> {
  for (const [at, host] of FIRST.entries())
    await relay.enrol(enrolOf(host, { answer: { ok: true, ...(at < 2 && { account: 'acme' }) } }));
  for (const sender of FIRST) {
    const early = Array.from({ length: FIRST_ITEMS }, (_none, at) => `early${at}`);
    await relay.push(
      ...early.map((id) =>
        pushOf(
          sender,
          id,
          FIRST.map((target) => [target, id] as const),
        ),
      ),
    );
  }
  await relay.reopen();
}

/** What is counted is there and can be acked. */
async function ackAll(relay: TestRelay): Promise<void> {
  for (const host of HOSTS) {
    const queue = await relay.queue(host);
    const { headSeq, queueItems } = relay.engine.head(host.key);
    expect(queue.filter(({ kind }) => kind !== 'expired')).toHaveLength(queueItems);
    expect(await relay.wires(host)).not.toContain(undefined);
    expect(await relay.ack(host, headSeq)).toMatchObject({ type: 'Acked', deleted: queue.length });
    expect(relay.engine.head(host.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
  }
}

test('whatever comes together, wherever the disk fails, the store is whole and its log tells all of it', async () => {
  await fc.assert(
    fc.asyncProperty(story, healthy, failure, anyPassingMs, async (started, delays, failing, passingMs) => {
      const { folder, remove } = await disposableFolder();
      const relay = new TestRelay(folder, { monotonicMs: lookedAtClock(passingMs) });
      await relay.open();
      try {
        await settle(relay);
        const before = Array.from({ length: failing?.after ?? 0 }, (_none, at) => delays[at % delays.length]!);
        const disk = failing ? [...before, { turnsBefore: 1, turnsAfter: 1, fails: failing.fails }] : delays;
        void new SlowDisk(relay.store, disk);
        const crowd = new Crowd(relay);
        const errors = await crowd.play(started);
        expect(errors.filter((error) => !failing || !(error instanceof StoreFailed))).toEqual([]);
        await relay.reopen();
        await crowd.take({ type: 'sweep' });
        await ackAll(relay);
        await expectReplayed(relay.store);
        await relay.close();
        expect((await verified(folder)).findings).toEqual([]);
      } finally {
        await relay.close();
        await remove();
      }
    }),
    { numRuns: share(25), ...inTime(90_000) },
  );
});
