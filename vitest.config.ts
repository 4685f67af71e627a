import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
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
