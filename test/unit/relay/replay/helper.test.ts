/** The thread beside a verification: its answers, and what is done where it gives none. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { Level } from '../../../../src/relay/store/level.ts';
import { Helper } from '../../../../src/relay/replay/helper.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { resultOf, verified } from '../../../support/audits.ts';
import { liveALife } from '../../../support/life.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { openTestRelay } from '../../../support/test-relay.ts';

/** Of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../../../dist/program/audit-worker.js', import.meta.url);

async function livedStore(): Promise<string> {
  const relay = await openTestRelay();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  return relay.folder;
}

async function answerIn(folder: string, file: URL): Promise<unknown> {
  const offline = await openOffline(folder);
  const helper = Helper.start(offline.level, file);
  try {
    return helper && (await resultOf(helper.answer()));
  } finally {
    await helper?.close();
    await offline.close();
  }
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
    expect(await verified(folder, { helpedFrom: 1, helper: BUNDLED })).toEqual(alone);
  });

  test.each([
    ['cannot be read', 'throw'],
    ['throws', 'throw new Error("a fault of the thread");'],
    ['ends without an answer', 'process.exit(3);'],
    [
      'tells how far it is, and then dies',
      'import { parentPort } from "node:worker_threads"; parentPort.postMessage({ type: "progress", stage: "payloads", done: 1 }); setImmediate(() => process.exit());',
    ],
  ])('that %s is done without', async (_name, source) => {
    const folder = await livedStore();
    const file = await threadOf(source);
    expect(await answerIn(folder, file)).toBeUndefined();
    expect((await verified(folder, { helpedFrom: 1, helper: file })).findings).toEqual([]);
    await withRawLevel(folder, flipped(PREFIX.payload));
    const { findings } = await verified(folder, { helpedFrom: 1, helper: file });
    expect(findings.map(({ code }) => code)).toEqual(['PAYLOAD_DIFFERS']);
  });

  test('ends with the verification, wherever that is left', async () => {
    const folder = await livedStore();
    for (let steps = 1; steps < 8; steps++) {
      const offline = await openOffline(folder);
      const work = verify(offline, { helpedFrom: 1, helper: BUNDLED });
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
