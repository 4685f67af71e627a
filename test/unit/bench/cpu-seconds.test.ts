/** Tests that the processor time of a process is told apart by what its threads are for. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { NAMED_THREADS, threadSeconds } from '../../../bench/cpu-seconds.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** So much work takes some 0.1 s of processor time, however long a busy machine makes it wait. */
const WORK = `'a', 'b', 100_000, 64, 'sha512'`;
const THREAD = `require('node:crypto').pbkdf2Sync(${WORK});
require('node:worker_threads').parentPort.postMessage(0);
setInterval(() => {}, 1000);`;
const PROGRAM = `const { pbkdf2, pbkdf2Sync } = require('node:crypto');
new (require('node:worker_threads').Worker)(process.argv[2]).once('message', () => pbkdf2(${WORK}, () => {
  pbkdf2Sync(${WORK});
  process.send('done');
}));
process.once('message', () => process.exit());`;

test.runIf(process.platform === 'linux')('the loop, a thread of signatures and the pool are told apart', async () => {
  const folder = await temporaryFolder();
  const [program, worker] = [join(folder, 'main.cjs'), join(folder, 'signature-worker.js')];
  await writeFile(program, PROGRAM);
  await writeFile(worker, THREAD);
  const env = { ...process.env, ...NAMED_THREADS };
  const child = spawn(process.execPath, [program, worker], { env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  await once(child, 'message');

  const seen = threadSeconds(child.pid ?? 0);
  child.send('end');
  await once(child, 'exit');

  const of = (wanted: string): number =>
    [...seen.values()].reduce((sum, { kind, seconds }) => sum + (kind === wanted ? seconds : 0), 0);
  expect(of('signature thread')).toBeGreaterThan(0.02);
  expect(of('LevelDB and files')).toBeGreaterThan(0.02);
  expect(of('event loop')).toBeGreaterThan(0.02);
  expect([...seen.values()].filter(({ kind }) => kind === 'event loop')).toHaveLength(1);
  expect(of('other threads')).toBe(0);
});
