/**
 * Where should payload bytes live? Two layouts under the same long push-and-ack run:
 *   target   W + target + seq      a page is one scan
 *   arrival  W + lsn + index       writes are sequential, rotation moves nothing
 *
 * Every round pushes one batch (items spread over targets) and acks the oldest page of one target, so that the
 * store holds a steady backlog while its tables churn. Printed: items/s pushed, MB/s of pages read, bytes written
 * to disk per payload byte (from /proc/self/io where there is one), and the size on disk at the end.
 *
 *   npx tsx bench/payload-keys.ts [rounds]
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, readdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';

type Layout = 'target' | 'arrival';
interface Queued {
  key: Buffer;
}

const rounds = Number(process.argv[2] ?? 1500);
const itemsPerBatch = 200;
const payloadBytes = 1024;
const targetCount = 40;
const backlogPerTarget = 1000;
const pageItems = 500;

function payloadKey(layout: Layout, target: Buffer, seq: number, lsn: number): Buffer {
  const key = Buffer.alloc(layout === 'target' ? 41 : 11);
  key.write('W', 0, 'latin1');
  if (layout === 'target') {
    target.copy(key, 1);
    key.writeBigUInt64BE(BigInt(seq), 33);
  } else {
    key.writeBigUInt64BE(BigInt(lsn), 1);
  }
  return key;
}

function diskBytesWritten(): number {
  try {
    return Number(/^write_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function folderBytes(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

async function readPage(db: ClassicLevel<Buffer, Buffer>, layout: Layout, page: readonly Queued[]): Promise<number> {
  const first = page[0];
  const last = page.at(-1);
  if (!first || !last) return 0;
  let bytes = 0;
  if (layout === 'target') {
    const values = db.values<Buffer, Buffer>({
      gte: first.key,
      lte: last.key,
      fillCache: false,
      highWaterMarkBytes: 1 << 20,
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
    });
    for (;;) {
      const chunk = await values.nextv(pageItems);
      if (chunk.length === 0) break;
      for (const value of chunk) bytes += value.length;
    }
    await values.close();
  } else {
    for (const value of await db.getMany(
      page.map((item) => item.key),
      { fillCache: false },
    )) {
      bytes += value?.length ?? 0;
    }
  }
  return bytes;
}

async function run(layout: Layout): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'poste-bench-'));
  const db = new ClassicLevel<Buffer, Buffer>(folder, {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    writeBufferSize: 16 << 20,
    cacheSize: 32 << 20,
    compression: false,
  });
  await db.open();
  const targets = Array.from({ length: targetCount }, () => randomBytes(32));
  const queues: Queued[][] = targets.map(() => []);
  const writtenBefore = diskBytesWritten();
  const startedAt = process.hrtime.bigint();
  let pushMs = 0;
  let pullMs = 0;
  let pulledBytes = 0;
  let lsn = 0;
  let pushed = 0;
  for (let round = 0; round < rounds; round++) {
    const operations: ({ type: 'put'; key: Buffer; value: Buffer } | { type: 'del'; key: Buffer })[] = [];
    for (let i = 0; i < itemsPerBatch; i++) {
      const chosen = Math.floor(Math.random() * targetCount);
      const key = payloadKey(layout, targets[chosen]!, ++lsn, lsn);
      operations.push({ type: 'put', key, value: randomBytes(payloadBytes) });
      operations.push({ type: 'put', key: Buffer.concat([Buffer.from('D'), randomBytes(32)]), value: randomBytes(60) });
      queues[chosen]!.push({ key });
    }
    let before = performance.now();
    await db.batch(operations, { sync: true });
    pushMs += performance.now() - before;
    pushed += itemsPerBatch;
    const longest = queues.reduce((best, queue) => (queue.length > best.length ? queue : best));
    if (longest.length > backlogPerTarget) {
      const page = longest.splice(0, pageItems);
      before = performance.now();
      pulledBytes += await readPage(db, layout, page);
      pullMs += performance.now() - before;
      await db.batch(
        page.map((item) => ({ type: 'del' as const, key: item.key })),
        { sync: true },
      );
    }
  }
  const totalS = Number(process.hrtime.bigint() - startedAt) / 1e9;
  await db.close();
  const amplification = (diskBytesWritten() - writtenBefore) / (pushed * payloadBytes);
  console.log(
    `${layout.padEnd(8)} push ${(pushed / (pushMs / 1e3)).toFixed(0)} items/s, pages ${(pulledBytes / 1e6 / (pullMs / 1e3)).toFixed(0)} MB/s, ` +
      `write amplification ${amplification.toFixed(1)}, on disk ${(folderBytes(folder) / 1e6).toFixed(0)} MB, ${totalS.toFixed(1)} s`,
  );
  rmSync(folder, { recursive: true });
}

for (const layout of ['target', 'arrival', 'target', 'arrival'] as const) await run(layout);
