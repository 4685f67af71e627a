/** The thread that does one half of an audit: what it says, and what is done where it says nothing. */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { array, assert, asyncProperty, constantFrom, nat, record } from 'fast-check';
import { afterAll, describe, expect, test, vi } from 'vitest';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { Helper, type HelperOptions } from '../../../../src/relay/replay/helper.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { verify, verifyHalf } from '../../../../src/relay/replay/verify.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { StoreReader } from '../../../../src/relay/store/store-reader.ts';
import { rebuilt, resultOf, verified } from '../../../support/audits.ts';
import { pushOf, rotateOf } from '../../../support/commands.ts';
import { pruneOnce, takeCheckpoint } from '../../../support/flips.ts';
import { type TestHost, alice, bob, hostNamed } from '../../../support/hosts.ts';
import { carolAfter, liveALife } from '../../../support/life.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { disposableFolder, temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { IS_THOROUGH, share } from '../../../support/thorough.ts';
import { found } from '../../../support/found.ts';
import { fileOfThread } from '../../../support/thread-file.ts';

/** Damages of a store that are tried. */
const DAMAGES = IS_THOROUGH ? share(100) : 3;

/** The file of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../../../dist/program/audit-worker.js', import.meta.url);
const HELPED = { helpedFrom: 1, helper: BUNDLED };

/** Stores are made once, and each test has a copy. */
const made = new Map<(relay: TestRelay) => Promise<void>, { folder: string; remove: () => Promise<void> }>();

afterAll(async () => {
  for (const { remove } of made.values()) await remove();
});

async function copyOf(live: (relay: TestRelay) => Promise<void>): Promise<string> {
  const copy = await temporaryFolder();
  let store = made.get(live);
  if (!store) {
    store = await disposableFolder();
    made.set(live, store);
    const relay = await openTestRelay();
    await live(relay);
    await relay.close();
    await cp(relay.folder, store.folder, { recursive: true });
  }
  await cp(store.folder, copy, { recursive: true });
  return copy;
}

/** Its log has a rotation, so that one half is given moved rows by the other. */
const livedStore = (): Promise<string> => copyOf(lived);

function lived({ engine, clock }: TestRelay): Promise<void> {
  return liveALife(engine, clock);
}

/** Its replay begins with one checkpoint of the rows, and comes by another. */
const prunedStore = (): Promise<string> => copyOf(pruned);

async function pruned(relay: TestRelay): Promise<void> {
  await liveALife(relay.engine, relay.clock);
  await pruneOnce(relay.engine, relay.clock);
  await relay.push(
    pushOf(
      alice,
      'after',
      [
        [bob, 'after'],
        [carolAfter, 'after'],
      ],
      { nowMs: relay.clock.nowMs },
    ),
  );
  await takeCheckpoint(relay);
  await relay.push(pushOf(bob, 'behind', [[carolAfter, 'behind']], { nowMs: relay.clock.nowMs }));
}

/** What the thread in `file` says of the store, beside the other half here. */
async function answerIn(folder: string, file: URL): Promise<unknown> {
  const offline = await openOffline(folder);
  const helper = found(Helper.start(offline, {}, { helpedFrom: 1, helper: file }), 'a thread could not be had');
  try {
    const own = await resultOf(helper.beside(verifyHalf(offline, helper.half, {})));
    return own && (await resultOf(helper.answer()));
  } finally {
    await helper.stop();
    await offline.close();
  }
}

function pairsOf(level: Level): Promise<Pair[]> {
  return level.iterator().all();
}

/** What comes of it, a refusal too. */
function said(run: Promise<unknown>): Promise<unknown> {
  return run.catch((error: Error) => error.message);
}

/** Alters one byte of the first value under the prefix. */
function flipped(prefix: number): (level: Level) => Promise<void> {
  return async (level) => {
    const [[key, value] = []] = await level.iterator(prefixRange(prefix)).all();
    const altered = Buffer.from(value as Buffer);
    altered[altered.length - 1]! ^= 1;
    await level.put(key as Buffer, altered);
  };
}

/** Rebuilds the store alone, and a copy of it with the thread, which has to come to the same. Returns the copy. */
async function withSameRebuild(folder: string, helped: HelperOptions): Promise<string> {
  const copy = await temporaryFolder();
  await cp(folder, copy, { recursive: true });
  const { replaced: _alone, ...alone } = await rebuilt(folder);
  const { replaced: _helped, ...withThread } = await rebuilt(copy, helped);
  expect(withThread).toEqual(alone);
  expect(await withRawLevel(copy, pairsOf)).toEqual(await withRawLevel(folder, pairsOf));
  return copy;
}

describe('the thread of an audit', () => {
  test('says that its half is sound, and of how much', async () => {
    const folder = await livedStore();
    const { rows, found } = await verified(folder);
    expect(found).toBe(0);
    const answer = await answerIn(folder, BUNDLED);
    expect(answer).toMatchObject({ checkpoints: [] });
    const half = (answer as { rows: number }).rows;
    expect(half).toBeGreaterThan(0);
    expect(half).toBeLessThan(rows);
    const alone = await verified(folder);
    expect(await verified(folder, HELPED)).toEqual(alone);
    expect(await verified(folder, { ...HELPED, memoryBytes: 2, partRows: 1 })).toEqual(alone);
  });

  test.each([PREFIX.dedup, PREFIX.dedupUntil, PREFIX.sender, PREFIX.log])(
    'says nothing where a value under %i was altered',
    async (prefix) => {
      const folder = await livedStore();
      await withRawLevel(folder, flipped(prefix));
      expect(await answerIn(folder, BUNDLED)).toBeUndefined();
    },
  );

  test.each([
    ['a store that lived', livedStore],
    ['one whose log was pruned', prunedStore],
  ])('changes nothing of what is found, and in which order, whatever is wrong with %s', async (_name, make) => {
    const [folder, copy] = [await make(), join(await temporaryFolder(), 'copy')];
    expect(await answerIn(folder, BUNDLED)).toBeDefined();
    const pairs = await withRawLevel(folder, pairsOf);
    const damage = record({
      at: nat(pairs.length - 1),
      kind: constantFrom('flip', 'delete', 'swap', 'add'),
      bit: nat(),
    });
    await assert(
      asyncProperty(array(damage, { minLength: 1, maxLength: 3 }), async (damages) => {
        await cp(folder, copy, { recursive: true, force: true });
        await withRawLevel(copy, async (level) => {
          await level.clear();
          await level.batch(pairs.map(([key, value]) => ({ type: 'put', key, value })));
          for (const { at, kind, bit } of damages) {
            const [key, value] = pairs[at] as Pair;
            const altered = Buffer.from(kind === 'add' ? key : value);
            const place = 1 + (bit % Math.max(1, altered.length - 1));
            if (altered.length > place) altered[place]! ^= 1 << (bit % 8);
            if (kind === 'flip') await level.put(key, altered);
            else if (kind === 'add') await level.put(altered, value);
            else if (kind === 'delete') await level.del(key);
            else await level.put(key, (pairs[(at + 1) % pairs.length] as Pair)[1]);
          }
        });
        expect(await said(verified(copy, HELPED))).toEqual(await said(verified(copy)));
      }),
      { numRuns: DAMAGES },
    );
  });

  test.each([
    ['cannot be read', 'throw'],
    ['throws', 'throw new Error("a fault of the thread");'],
    ['ends without an answer', 'process.exit(3);'],
    [
      'tells how far it is, and then dies',
      'import { parentPort } from "node:worker_threads"; parentPort.postMessage({ type: "progress", progress: ' +
        '{ stage: "log", done: 1 } }); setImmediate(() => process.exit());',
    ],
  ])('that %s is done without', async (_name, source) => {
    const folder = await livedStore();
    const file = await fileOfThread(source);
    expect(await answerIn(folder, file)).toBeUndefined();
    const helped = { helpedFrom: 1, helper: file };
    expect((await verified(folder, helped)).findings).toEqual([]);
    await withSameRebuild(folder, helped);
    await withRawLevel(folder, flipped(PREFIX.payload));
    const { findings } = await verified(folder, helped);
    expect(findings.map(({ code }) => code)).toEqual(['PAYLOAD_DIFFERS']);
  });

  test.each(IS_THOROUGH ? [1, 2, 4, 7] : [1, 4])('that dies behind message %i is done without', async (nth) => {
    const folder = await livedStore();
    const file = await fileOfThread(`
      import { parentPort } from 'node:worker_threads';
      const post = parentPort.postMessage.bind(parentPort);
      let messages = 0;
      parentPort.postMessage = (message) => {
        if (++messages === ${nth}) process.exit();
        post(message);
      };
      await import(${JSON.stringify(BUNDLED.href)});
    `);
    const helped = { helpedFrom: 1, helper: file };
    expect(await verified(folder, helped)).toEqual(await verified(folder));
    await withSameRebuild(folder, helped);
  });

  test('is given the rows of many moves, and waited for', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'one']]), pushOf(alice, 'm2', [[bob, 'two']]));
    let host = bob;
    for (let nth = 1; nth <= 60; nth++) {
      const next = hostNamed(`bob ${nth}`);
      await relay.engine.admissions.rotateKey(rotateOf(host, next, { iatMs: NOON_MS + nth, nowMs: NOON_MS + nth }));
      host = next;
    }
    await relay.close();
    const alone = await verified(relay.folder);
    expect(alone).toMatchObject({ found: 0, payloads: 2 });
    expect(await answerIn(relay.folder, BUNDLED)).toMatchObject({ rows: 3 });
    expect(await verified(relay.folder, HELPED)).toEqual(alone);
  });

  test('is given the rows of a move behind one that found none', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.push(pushOf(alice, 'm1', [[bob, 'one']]));
    const [gone, next, last] = ['gone', 'next', 'last'].map(hostNamed) as [TestHost, TestHost, TestHost];
    await relay.engine.admissions.rotateKey(rotateOf(bob, gone, { iatMs: NOON_MS, nowMs: NOON_MS }));
    const { store } = relay;
    const rows = vi.spyOn(store, 'queueRows');
    rows.mockImplementation((...given) =>
      store.get('move', gone.key) ? Promise.resolve([]) : StoreReader.prototype.queueRows.apply(store, given),
    );
    await relay.engine.admissions.rotateKey(rotateOf(gone, next, { iatMs: NOON_MS + 1, nowMs: NOON_MS + 1 }));
    rows.mockRestore();
    await relay.push(pushOf(alice, 'm2', [[next, 'two']]));
    await relay.engine.admissions.rotateKey(rotateOf(next, last, { iatMs: NOON_MS + 2, nowMs: NOON_MS + 2 }));
    await relay.close();
    expect(await answerIn(relay.folder, BUNDLED)).toBeDefined();
  });

  test('changes nothing of what a rebuild gives, or refuses', async () => {
    await withSameRebuild(await prunedStore(), HELPED);
    const folder = await livedStore();
    const other = await withSameRebuild(folder, HELPED);
    for (const one of [folder, other]) await withRawLevel(one, flipped(PREFIX.log));
    const refused = await rebuilt(folder).then(
      () => 'nothing',
      (error: Error) => error.message,
    );
    expect(refused).toMatch('log record 1 does not match its checksum');
    await expect(rebuilt(other, HELPED)).rejects.toThrow(refused);
  });

  test('ends with the audit, wherever that is left', async () => {
    const folder = await livedStore();
    for (let steps = 1; steps < 10; steps += IS_THOROUGH ? 1 : 4) {
      const offline = await openOffline(folder);
      const work = verify(offline, HELPED);
      for (let step = 0; step < steps; step++) await work.next();
      await work.return(undefined as never);
      await offline.close();
    }
    // The thread would hold the database open.
    await withRawLevel(folder, async (level) => {
      expect(level.status).toBe('open');
    });
    expect(process.getActiveResourcesInfo()).not.toContain('Worker');
  });
});
