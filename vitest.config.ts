import { statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { defineConfig } from 'vitest/config';
import { TestOrder } from './test/support/test-order.ts';

/** These keep nothing in modules or globals, so that the files which a worker runs share what they import. */
const IN_PROCESS = ['test/{unit,spec,property,http}/**/*.test.ts'];
/** These start processes: each file by itself. */
const WITH_PROCESSES = ['test/{control,browser,e2e,crash}/**/*.test.ts'];

const MEMORY_DISK = '/dev/shm';
const MEMORY_DISK_BYTES_MIN = 4 * 1024 ** 3;

/** Where tests keep their stores: in memory where there is room, since thousands of them wait for the disk otherwise. */
function temporaryRoot(): string {
  if (process.env['TMPDIR'] !== undefined) return tmpdir();
  try {
    const { bavail, bsize } = statfsSync(MEMORY_DISK);
    return bavail * bsize >= MEMORY_DISK_BYTES_MIN ? MEMORY_DISK : tmpdir();
  } catch {
    return tmpdir();
  }
}

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'in-process', include: IN_PROCESS, isolate: false } },
      { extends: true, test: { name: 'processes', include: WITH_PROCESSES } },
    ],
    setupFiles: ['test/support/checked-fetch.ts'],
    env: { TMPDIR: temporaryRoot() },
    sequence: { sequencer: TestOrder },
    // Many tests wait for other processes: one worker for each core would leave cores idle.
    maxWorkers: availableParallelism() * 2,
    // Read as one file each: typebox alone is 680 files, and every test file would look each of them up.
    deps: { optimizer: { ssr: { enabled: true, include: ['typebox', 'typebox/compile'] } } },
    testTimeout: 60_000,
    hookTimeout: 30_000,
    // What is polled for ends with the event; a loaded machine may take much longer than a second for it.
    expect: { poll: { timeout: 30_000 } },
    // A test that logs by mistake should be seen; a test that passes has nothing to say.
    silent: 'passed-only',
  },
});
