import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/checked-fetch.ts'],
    testTimeout: 60_000,
    hookTimeout: 30_000,
    // A test that logs by mistake should be seen; a test that passes has nothing to say.
    silent: 'passed-only',
  },
});
