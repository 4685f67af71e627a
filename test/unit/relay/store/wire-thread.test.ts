/** The thread that writes wire bytes as base64: what it writes, what it leaves to its caller, and how it ends. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import type { TextsAround } from '../../../../src/protocol/encodings.ts';
import type { QueueRow } from '../../../../src/relay/core/rows.ts';
import { encodeWireRun, wireEntry } from '../../../../src/relay/store/item-run.ts';
import { payloadKey } from '../../../../src/relay/store/keys.ts';
import { type Level, levelAt } from '../../../../src/relay/store/level.ts';
import { WireThread } from '../../../../src/relay/store/wire-thread.ts';
import { anyText } from '../../../support/any-text.ts';
import { bob, carol } from '../../../support/hosts.ts';
import { queueRowAt } from '../../../support/queue-rows.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { fileOfThread } from '../../../support/thread-file.ts';

/** The file of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../../../dist/program/wire-worker.js', import.meta.url);
const KIB = 1024;

async function sharedLevel(): Promise<Level> {
  const level = levelAt(join(await temporaryFolder(), 'log'), { isShared: true });
  await level.open();
  return level;
}

interface Subject {
  level: Level;
  thread: WireThread;
}

/** A thread that answers. */
async function running(): Promise<Subject> {
  const level = await sharedLevel();
  const thread = new WireThread(level.location, BUNDLED);
  onTestFinished(async () => {
    await thread.close();
    await level.close();
  });
  const rows = await stored(level, [Buffer.from('the first')]);
  await expect.poll(async () => (await thread.encode(rows, around(rows)))?.bytes.length, { interval: 1 }).toBe(15);
  return { level, thread };
}

/** The rows of these payloads, which are stored. */
async function stored(level: Level, wires: readonly Buffer[], firstSeq = 1): Promise<QueueRow[]> {
  const rows = wires.map((wire, at) => queueRowAt(bob.key, firstSeq + at, wire));
  for (const [at, { payloadTarget, payloadSeq }] of rows.entries())
    await level.put(payloadKey(payloadTarget, payloadSeq), wires[at] ?? Buffer.alloc(0));
  return rows;
}

function around(rows: readonly QueueRow[], isBase64 = true): TextsAround {
  return { before: rows.map(({ seq }) => (isBase64 ? `${seq}:` : `\n${seq}\xff`)), after: ';', isBase64 };
}

function expected(rows: readonly QueueRow[], wires: readonly Buffer[], isBase64: boolean): Buffer {
  const { before } = around(rows, isBase64);
  const texts = wires.map((wire, at) => `${before[at]}${wire.toString(isBase64 ? 'base64' : 'latin1')};`);
  return Buffer.from(texts.join(''), 'latin1');
}

test('writes payloads of every length and alphabet between their texts', async () => {
  const { level, thread } = await running();
  const wire = fc.oneof(
    anyText({ maxLength: 300 }).map((text) => Buffer.from(text)),
    fc.integer({ min: 1, max: 100 * KIB }).map((size) => Buffer.alloc(size, 'sealed mail ')),
  );
  let seq = 1;
  await fc.assert(
    fc.asyncProperty(fc.array(wire, { minLength: 1, maxLength: 6 }), fc.boolean(), async (wires, isBase64) => {
      const rows = await stored(level, wires, seq);
      seq += rows.length;
      const encoded = await thread.encode(rows, around(rows, isBase64));
      expect(encoded?.bytes.equals(expected(rows, wires, isBase64))).toBe(true);
      encoded?.release();
    }),
    { numRuns: 16 },
  );
});

test('answers its first question where it was begun before', async () => {
  const level = await sharedLevel();
  const thread = new WireThread(level.location, BUNDLED);
  onTestFinished(async () => {
    await thread.close();
    await level.close();
  });
  thread.begin();
  await expect.poll(() => thread.isRunning, { interval: 5 }).toBe(true);
  const rows = await stored(level, [Buffer.from('the first')]);
  expect((await thread.encode(rows, around(rows)))?.bytes.toString('latin1')).toBe('1:dGhlIGZpcnN0;');
});

test.each<[string, (row: QueueRow) => QueueRow, Buffer | undefined]>([
  ['altered', (row) => row, Buffer.from('changed')],
  ['cut short', (row) => row, Buffer.from('whol')],
  ['missing', (row) => row, undefined],
  ['longer than its row says', (row) => ({ ...row, bytes: row.bytes - 3 }), Buffer.from('whole')],
  ['shorter than its row says', (row) => ({ ...row, bytes: row.bytes + 3 }), Buffer.from('whole')],
  ['under the key of another host', (row) => ({ ...row, payloadTarget: carol.key }), Buffer.from('whole')],
])('leaves payloads to its caller when one is %s, and goes on', async (_, changed, value) => {
  const { level, thread } = await running();
  const wires = ['one', 'whole', 'three'].map((text) => Buffer.from(text));
  const rows = await stored(level, wires, 10);
  if (value) await level.put(payloadKey(bob.key, 11), value);
  else await level.del(payloadKey(bob.key, 11));
  const asked = rows.map((row) => (row.seq === 11 ? changed(row) : row));
  expect(await thread.encode(asked, around(asked))).toBeUndefined();
  const others = rows.filter(({ seq }) => seq !== 11);
  expect((await thread.encode(others, around(others)))?.bytes.toString()).toBe('10:b25l;12:dGhyZWU=;');
});

test('writes what lies in runs, of several hosts too, and leaves what does not match its checksum', async () => {
  const { level, thread } = await running();
  const wires = [Buffer.of(0x7b, 0xff, 0xfe, 0x7d), Buffer.from('second'), Buffer.from('of another')];
  const [first, second, other] = [
    { ...queueRowAt(bob.key, 20, wires[0]!), payloadBound: 30 },
    { ...queueRowAt(bob.key, 21, wires[1]!), payloadBound: 30 },
    { ...queueRowAt(bob.key, 31, wires[2]!), payloadTarget: carol.key, payloadBound: 40 },
  ];
  const key = payloadKey(bob.key, 30);
  const entries = [wireEntry(key, 20, wires[0]!), wireEntry(key, 21, wires[1]!)];
  await level.put(key, encodeWireRun(key, entries));
  const otherKey = payloadKey(carol.key, 40);
  await level.put(otherKey, encodeWireRun(otherKey, [wireEntry(otherKey, 31, wires[2]!)]));
  const rows = [first, second, other];
  for (const isBase64 of [true, false]) {
    const encoded = await thread.encode(rows, around(rows, isBase64));
    expect(encoded?.bytes.equals(expected(rows, wires, isBase64))).toBe(true);
  }
  await level.put(key, encodeWireRun(key, [entries[0]!, { ...entries[1]!, wire: Buffer.from('altered') }]));
  expect(await thread.encode(rows, around(rows))).toBeUndefined();
  expect((await thread.encode([first, other], around([first, other])))?.bytes.length).toBeGreaterThan(0);
});

test('memory is used again when it is given back, and not before', async () => {
  const { level, thread } = await running();
  const wires = Array.from({ length: 6 }, () => Buffer.from(randomBytes(48 * KIB).toString('base64')));
  const rows = await stored(level, wires);
  const asked = await Promise.all(rows.map((row) => thread.encode([row], around([row]))));
  for (const [at, encoded] of asked.entries())
    expect(encoded?.bytes.equals(expected([rows[at]!], [wires[at]!], true))).toBe(true);
  expect(new Set(asked.map((encoded) => encoded?.bytes.buffer)).size).toBe(6);
  asked[2]?.release();
  const again = await thread.encode([rows[0]!], around([rows[0]!]));
  expect(again?.bytes.buffer).toBe(asked[2]?.bytes.buffer);
});

test.each([
  ['there is no file for it', undefined],
  ['it cannot be loaded', 'import "./nothing-here.mjs";'],
  ['it fails at once', 'throw new Error("no");'],
  [
    'it ends when it is asked',
    'import { parentPort } from "node:worker_threads"; parentPort.on("message", () => process.exit(1)); ' +
      'parentPort.postMessage("ready");',
  ],
])('there is no answer where %s', async (_, source) => {
  const level = await sharedLevel();
  const thread = new WireThread(level.location, source === undefined ? undefined : await fileOfThread(source));
  const rows = await stored(level, [Buffer.from('wire')]);
  for (let asked = 0; asked < 50; asked++) {
    expect(await thread.encode(rows, around(rows))).toBeUndefined();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await thread.close();
  await level.close();
});

test('what it was asked before it was closed is answered or not, nothing later is, the database is free', async () => {
  const { level, thread } = await running();
  const rows = await stored(level, [Buffer.from('wire')]);
  const asked = Array.from({ length: 20 }, () => thread.encode(rows, around(rows)));
  await thread.close();
  for (const encoded of await Promise.all(asked))
    expect([undefined, '1:d2lyZQ==;']).toContain(encoded?.bytes.toString());
  expect(await thread.encode(rows, around(rows))).toBeUndefined();
  await level.close();
  const alone = levelAt(level.location);
  await alone.open({ createIfMissing: false });
  await alone.close();
});
