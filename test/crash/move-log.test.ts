/**
 * A log that moves into a shared log and back, and a crash before and after everything that the move does: exactly one
 * of the two serves at any time, and a command that is given again goes on or gives up, with everything as it was.
 */
import { randomInt } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { abortPublish, publishStore } from '../../src/relay/shared-log/publish.ts';
import { phaseOf } from '../../src/relay/shared-log/log-phase.ts';
import type { MoveOptions } from '../../src/relay/shared-log/move-log.ts';
import type { SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import { withdrawLog } from '../../src/relay/shared-log/withdraw.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { verified } from '../support/audits.ts';
import { pushOf } from '../support/commands.ts';
import { alice, carol, relay as relayHost } from '../support/hosts.ts';
import { MemoryLogServer } from '../support/memory-log.ts';
import { MovedRelay } from '../support/moved-relay.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

/** `npm test` tries one of so many points, others each time. */
const TRIED_EVERY = 8;

class Crash extends Error {}

/** Counts what a command does outside its own memory, and ends it at one of these points. */
class Crashes {
  passed = 0;
  readonly #at: number;

  constructor(at: number) {
    this.#at = at;
  }

  point(): void {
    if (this.passed++ === this.#at) throw new Crash();
  }

  /** A client that ends before a call comes to the server, or before its answer comes back. */
  client(log: SharedLog): SharedLog {
    return new Proxy(log, {
      get: (target, name: keyof SharedLog) => {
        const member = target[name];
        if (typeof member !== 'function') return member;
        return async (...given: never[]) => {
          this.point();
          const answer = await (member as (...args: never[]) => Promise<unknown>).apply(target, given);
          this.point();
          return answer;
        };
      },
    });
  }
}

function publishing(relay: MovedRelay, crashes: Crashes): MoveOptions {
  const options = relay.move(() => crashes.client(relay.server.client()));
  return { ...options, step: async () => crashes.point() };
}

function newEpoch(): never {
  throw new Error('the epoch goes on');
}

/** Says whether the store of the folder would serve without a shared log. */
async function servesAlone(relay: MovedRelay): Promise<boolean> {
  const folder = join(await temporaryFolder(), 'copy');
  await cp(relay.folder, folder, { recursive: true });
  try {
    const { store } = await openStore({ folder, signer: relayHost.signer, nowMs: relay.clock.nowMs, newEpoch });
    await store.close();
    return true;
  } catch (error) {
    if ((error as { reason?: string }).reason !== 'view') throw error;
    return false;
  }
}

/** Says whether the shared log holds this relay, and a node may lead it. */
function servesShared({ server: { state } }: MovedRelay): boolean {
  return state !== undefined && phaseOf(state.state).type === 'serving' && state.lastNo > 0;
}

async function filled(): Promise<{ relay: MovedRelay; before: object }> {
  const relay = new MovedRelay(join(await temporaryFolder(), 'store'), new MemoryLogServer());
  await relay.open();
  await relay.fill();
  await relay.close();
  return { relay, before: await relay.seen('store') };
}

/** Does `work` with a crash at each of its points in turn, until it has none left; then what follows is done. */
async function atEachPoint(
  begun: () => Promise<{ relay: MovedRelay; before: object }>,
  work: (relay: MovedRelay, crashes: Crashes) => Promise<unknown>,
  follows: (relay: MovedRelay, before: object) => Promise<void>,
): Promise<number> {
  const every = IS_THOROUGH ? 1 : TRIED_EVERY;
  for (let at = randomInt(every); ; at += every) {
    const { relay, before } = await begun();
    const crashes = new Crashes(at);
    const isOver = await work(relay, crashes).then(
      () => true,
      (error: unknown) => {
        if (!(error instanceof Crash)) throw error;
        return false;
      },
    );
    if (isOver) return at;
    const serving = [await servesAlone(relay), servesShared(relay)];
    expect(serving.filter(Boolean).length, `${serving.join()} at point ${at}`).toBeLessThanOrEqual(1);
    await follows(relay, before);
  }
}

const publish = (relay: MovedRelay, crashes = new Crashes(-1)): Promise<unknown> =>
  publishStore(publishing(relay, crashes));
const withdraw = (relay: MovedRelay, crashes = new Crashes(-1)): Promise<unknown> =>
  withdrawLog(publishing(relay, crashes));

const abort = (relay: MovedRelay, crashes: Crashes): Promise<unknown> => abortPublish(publishing(relay, crashes));

async function published(): Promise<{ relay: MovedRelay; before: object }> {
  const { relay, before } = await filled();
  await publish(relay);
  return { relay, before };
}

/** A move that was marked in the store, and not in the row. */
async function halfway(): Promise<{ relay: MovedRelay; before: object }> {
  const { relay, before } = await filled();
  const options = publishing(relay, new Crashes(-1));
  const step = async (name: string): Promise<void> => {
    if (name === 'the log takes its place') throw new Crash();
  };
  await expect(publishStore({ ...options, step })).rejects.toThrow(Crash);
  expect([await servesAlone(relay), servesShared(relay)]).toEqual([false, false]);
  return { relay, before };
}

test('a log that moved into a shared log goes on there as it was, and in its own store after its return', async () => {
  const { relay, before } = await filled();
  expect(await publish(relay)).toMatchObject({ loaded: { items: 15, damaged: 0 } });
  expect([await servesAlone(relay), servesShared(relay)]).toEqual([false, true]);
  await expect(relay.seen('store')).rejects.toThrow('is a view of a log that is kept at memory');
  expect(await relay.seen('log')).toEqual(before);
  await withdraw(relay);
  expect([await servesAlone(relay), servesShared(relay)]).toEqual([true, false]);
  await expect(relay.seen('log')).rejects.toThrow('the log went to the store of node');
  expect(await relay.seen('store')).toEqual(before);
  // And once more, over what it left.
  await publish(relay);
  expect(await relay.seen('log')).toEqual(before);
  expect([...relay.server.logs.values()].filter(({ batches }) => batches.length > 0)).toHaveLength(1);
});

test('another node begins where the store ended, and both make the same of the log', async () => {
  const { relay, before } = await filled();
  await publish(relay);
  const other = new MovedRelay(join(await temporaryFolder(), 'other'), relay.server);
  const { records: _before, ...asBefore } = before as { records: string[] };
  expect(await other.seen('log')).toMatchObject(asBefore);
  const checkpoints: (string | undefined)[] = [];
  for (const node of [other, relay]) {
    node.where = 'log';
    await node.open();
    await node.push(pushOf(alice, `by ${node.folder}`, [[carol, 'one more']]));
    await node.ack(carol, (await node.queue(carol))[0]?.seq ?? 0);
    await node.close();
  }
  for (const node of [other, relay]) {
    await node.open();
    checkpoints.push(node.engine.log.checkpoint());
    await node.close();
    expect((await verified(node.folder)).findings).toEqual([]);
  }
  expect(new Set(checkpoints).size).toBe(1);
  // It may move to that node too, which has no record from before.
  await withdraw(other);
  expect([await servesAlone(other), await servesAlone(relay), servesShared(relay)]).toEqual([true, false, false]);
  await expect(relay.seen('log')).rejects.toThrow('the log went to the store of node');
  expect((await verified(other.folder)).findings).toEqual([]);
});

test('a move into a shared log that crashed anywhere goes on when it is begun again', {
  timeout: 300_000,
}, async () => {
  const goesOn = async (relay: MovedRelay, before: object): Promise<void> => {
    await publish(relay);
    expect([await servesAlone(relay), servesShared(relay)]).toEqual([false, true]);
    expect(await relay.seen('log')).toEqual(before);
  };
  expect(await atEachPoint(filled, publish, goesOn)).toBeGreaterThan(20);
  // And one that gives up the move before it, and crashes too.
  expect(await atEachPoint(halfway, publish, goesOn)).toBeGreaterThan(20);
});

test('a move into a shared log that crashed anywhere is given up, or has happened', { timeout: 300_000 }, async () => {
  let given = 0;
  await atEachPoint(filled, publish, async (relay, before) => {
    const isGivenUp = await abortPublish(relay.move()).then(
      () => true,
      () => false,
    );
    if (isGivenUp) given++;
    const alone = await servesAlone(relay);
    // What could not be given up had happened.
    expect([alone, servesShared(relay)]).toEqual([alone, !alone]);
    expect(!isGivenUp || alone).toBe(true);
    expect(await relay.seen(alone ? 'store' : 'log')).toEqual(before);
    const left = [...relay.server.logs.values()].filter(({ batches, wire }) => batches.length + wire.size > 0);
    expect(left).toHaveLength(alone ? 0 : 1);
  });
  expect(given).toBeGreaterThan(0);
});

test('giving up that crashed anywhere is given up when it is done again', { timeout: 300_000 }, async () => {
  await atEachPoint(halfway, abort, async (relay, before) => {
    if (phaseOf(relay.server.row?.state ?? '').type !== 'serving') await abortPublish(relay.move());
    expect([await servesAlone(relay), servesShared(relay)]).toEqual([true, false]);
    expect(await relay.seen('store')).toEqual(before);
    await publish(relay);
    expect(await relay.seen('log')).toEqual(before);
  });
  await atEachPoint(halfway, abort, async (relay, before) => {
    await publish(relay);
    expect(await relay.seen('log')).toEqual(before);
  });
});

test('a move back that crashed anywhere goes on when it is begun again, or is published again', {
  timeout: 300_000,
}, async () => {
  await atEachPoint(published, withdraw, async (relay, before) => {
    await withdraw(relay);
    expect([await servesAlone(relay), servesShared(relay)]).toEqual([true, false]);
    expect(await relay.seen('store')).toEqual(before);
  });
  await atEachPoint(published, withdraw, async (relay, before) => {
    await publish(relay);
    expect([await servesAlone(relay), servesShared(relay)]).toEqual([false, true]);
    expect(await relay.seen('log')).toEqual(before);
  });
});
