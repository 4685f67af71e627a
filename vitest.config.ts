import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** These keep nothing in modules or globals, so that the files which a worker runs share what they import. */
const IN_PROCESS = ['test/{unit,spec,property,http}/**/*.test.ts'];
/** These start processes: each file by itself. */
const WITH_PROCESSES = ['test/{control,browser,e2e,crash}/**/*.test.ts'];

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'in-process', include: IN_PROCESS, isolate: false } },
      { extends: true, test: { name: 'processes', include: WITH_PROCESSES } },
    ],
    setupFiles: ['test/support/checked-fetch.ts'],
    // Many tests wait for other processes: one worker for each core would leave cores idle.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
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
