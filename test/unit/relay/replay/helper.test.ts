/** The thread beside a verification: its answers, and what is done where it gives none. */
import { existsSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Pair } from '../../../../src/lib/pair-block.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { Helper } from '../../../../src/relay/replay/helper.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { rebuilt, resultOf, verified } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { eventually } from '../../../support/eventually.ts';
import { liveALife } from '../../../support/life.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { openTestRelay } from '../../../support/test-relay.ts';

/** The file of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../../../dist/program/audit-worker.js', import.meta.url);

async function livedStore(): Promise<string> {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  return relay.folder;
}

async function answerIn(folder: string, file: URL): Promise<unknown> {
  const offline = await openOffline(folder);
  const helper = Helper.start(offline.level, 1, { helpedFrom: 1, helper: file, verifiesWires: true });
  try {
    return helper && (await resultOf(helper.answer()));
  } finally {
    await helper?.close();
    await offline.close();
  }
}

function pairsOf(level: Level): Promise<Pair[]> {
  return level.iterator().all();
}

/** A file that a thread runs. */
async function threadOf(source: string): Promise<URL> {
  const file = join(await temporaryFolder(), 'thread.mjs');
  await writeFile(file, source);
  return pathToFileURL(file);
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

describe('a thread beside a verification', () => {
  test('says that the stored bytes are sound, and of how much', async () => {
    const folder = await livedStore();
    const { payloads } = await verified(folder);
    expect(payloads).toBeGreaterThan(0);
    expect(await answerIn(folder, BUNDLED)).toMatchObject({ type: 'sound', payloads });
  });

  test('says that wire bytes are not', async () => {
    const folder = await livedStore();
    await withRawLevel(folder, flipped(PREFIX.payload));
    expect(await answerIn(folder, BUNDLED)).toEqual({ type: 'unsound' });
  });

  test.each([
    ['nothing', []],
    ['a payload', [PREFIX.payload]],
    ['a record', [PREFIX.log]],
    ['rows, a tile and an entry', [PREFIX.queue, PREFIX.dedup, PREFIX.logLink, PREFIX.expiry]],
  ])('changes nothing of what is found where %s was altered', async (_name, prefixes) => {
    const folder = await livedStore();
    for (const prefix of prefixes) await withRawLevel(folder, flipped(prefix));
    const alone = await verified(folder);
    expect(alone.found > 0).toBe(prefixes.length > 0);
    expect(await verified(folder, { helpedFrom: 1, helper: BUNDLED, firstRecords: 3 })).toEqual(alone);
  });

  test.each([
    ['cannot be read', 'throw'],
    ['throws', 'throw new Error("a fault of the thread");'],
    ['ends without an answer', 'process.exit(3);'],
    [
      'tells how far it is, and then dies',
      'import { parentPort } from "node:worker_threads"; parentPort.postMessage({ type: "progress", stage: ' +
        '"payloads", done: 1 }); setImmediate(() => process.exit());',
    ],
  ])('that %s is done without', async (_name, source) => {
    const folder = await livedStore();
    const file = await threadOf(source);
    expect(await answerIn(folder, file)).toBeUndefined();
    expect((await verified(folder, { helpedFrom: 1, helper: file, firstRecords: 0 })).findings).toEqual([]);
    await withRawLevel(folder, flipped(PREFIX.payload));
    const { findings } = await verified(folder, { helpedFrom: 1, helper: file, firstRecords: 0 });
    expect(findings.map(({ code }) => code)).toEqual(['PAYLOAD_DIFFERS']);
  });

  test('is heard where it answers while its caller does something else', async () => {
    const folder = await livedStore();
    const said = join(await temporaryFolder(), 'said');
    const file = await threadOf(`
      import { writeFileSync } from 'node:fs';
      import { parentPort } from 'node:worker_threads';
      parentPort.on('message', () => parentPort.close());
      parentPort.postMessage({ type: 'unsound' });
      writeFileSync(${JSON.stringify(said)}, '');`);
    const offline = await openOffline(folder);
    const helper = Helper.start(offline.level, 1, { helpedFrom: 1, helper: file, verifiesWires: true });
    const steps = helper?.answer();
    expect((await steps?.next())?.done).toBe(false);
    expect(await eventually(async () => existsSync(said), Boolean)).toBe(true);
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    let step = await steps?.next();
    while (step?.done === false) step = await steps?.next();
    expect(step?.value).toEqual({ type: 'unsound' });
    await helper?.close();
    await offline.close();
  });

  test.each([1, 2, 4, 7])('that dies behind block %i is done without from there on', async (nth) => {
    const folder = await livedStore();
    const file = await threadOf(`
      import { parentPort } from 'node:worker_threads';
      const post = parentPort.postMessage.bind(parentPort);
      let blocks = 0;
      parentPort.postMessage = (message, transferred) => {
        post(message, transferred);
        if (message.type === 'block' && ++blocks === ${nth}) process.exit();
      };
      await import(${JSON.stringify(BUNDLED.href)});
    `);
    const helped = { helpedFrom: 1, helper: file, firstRecords: 0 };
    const alone = await verified(folder);
    expect(await verified(folder, helped)).toEqual(alone);
    await withRawLevel(folder, flipped(PREFIX.dedup));
    const { findings } = await verified(folder, helped);
    expect(findings.map(({ code }) => code)).toEqual(['ROW_DAMAGED']);
  });

  test('hands over what a walk gives, a few blocks ahead, also pairs that are larger than a block', async () => {
    const folder = await livedStore();
    const pairs = Array.from(
      { length: 60 },
      (_none, nth): Pair => [Buffer.from([0xee, nth]), Buffer.alloc(nth % 7 === 0 ? 700_000 : 200_000, nth)],
    );
    await withRawLevel(folder, async (level) => {
      for (const [key, value] of pairs) await level.put(key, value);
    });
    const offline = await openOffline(folder);
    const helper = Helper.start(offline.level, 1, { helpedFrom: 1, helper: BUNDLED });
    try {
      const walked = await collected(helper!.rows(prefixRange(0xee)));
      expect(walked.length).toBeGreaterThan(20);
      // Without a comparison of each byte for a message.
      expect(walked.flat()).toHaveLength(pairs.length);
      const differing = walked
        .flat()
        .filter(([key, value], nth) => !pairs[nth]![0].equals(key) || !pairs[nth]![1].equals(value));
      expect(differing).toEqual([]);
      for await (const run of helper!.rows({ gt: Buffer.of(0xee, 5), lte: Buffer.of(0xee, 40) })) {
        expect(run[0]![0]).toEqual(pairs[6]![0]);
        // Left in the middle.
        break;
      }
    } finally {
      await helper?.close();
      await offline.close();
    }
  });

  test('changes nothing of what a rebuild gives, or refuses', async () => {
    const [folder, other] = [await livedStore(), await temporaryFolder()];
    await cp(folder, other, { recursive: true });
    const helped = { helpedFrom: 1, helper: BUNDLED, firstRecords: 3 };
    const { replaced: _alone, ...alone } = await rebuilt(folder);
    const { replaced: _helped, ...withThread } = await rebuilt(other, helped);
    expect(withThread).toEqual(alone);
    expect(await withRawLevel(other, pairsOf)).toEqual(await withRawLevel(folder, pairsOf));
    for (const one of [folder, other]) await withRawLevel(one, flipped(PREFIX.log));
    const refused = await rebuilt(folder).then(
      () => 'nothing',
      (error: Error) => error.message,
    );
    expect(refused).toMatch('log record 1 does not match its checksum');
    for (const firstRecords of [0, 3])
      await expect(rebuilt(other, { ...helped, firstRecords })).rejects.toThrow(refused);
  });

  test('ends with the verification, wherever that is left', async () => {
    const folder = await livedStore();
    for (let steps = 1; steps < 8; steps++) {
      const offline = await openOffline(folder);
      const work = verify(offline, { helpedFrom: 1, helper: BUNDLED, firstRecords: 0 });
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
