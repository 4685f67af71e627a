import { realpathSync, statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { PATIENCE_MS } from './test/support/patience.ts';
import { RunNotes } from './test/support/run-notes.ts';
import { TestOrder } from './test/support/test-order.ts';
import { thoroughFiles } from './test/support/thorough-files.ts';
import { IS_MEASURED, LONG_FILES } from './test/support/long-files.ts';
import { IS_REST, IS_THOROUGH } from './test/support/thorough.ts';

/** With POSTE_TEST_THOROUGH=rest only the files that try more than in `npm test`, which has run before. */
const FILES = IS_REST ? thoroughFiles() : ['test/**/*.test.ts'];

/** Files that are named on the command line are run, also long ones; and all of them when they are measured. */
const LEFT_OUT =
  IS_THOROUGH || IS_MEASURED || process.argv.some((argument) => argument.includes('test/')) ? [] : LONG_FILES;

const MEMORY_DISK = '/dev/shm';
const MEMORY_DISK_BYTES_MIN = 4 * 1024 ** 3;

/**
 * Where tests keep their stores: in memory where there is room, since thousands of them wait for the disk otherwise. On
 * macOS not in the folder of the session, whose name leaves too little of the 103 bytes that a socket's path may have.
 */
function temporaryRoot(): string {
  if (process.platform === 'darwin') return realpathSync('/tmp');
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
    include: FILES,
    exclude: [...configDefaults.exclude, ...LEFT_OUT],
    // Tests keep nothing in modules or globals, so that the files which a worker runs share what they import.
    isolate: false,
    setupFiles: ['test/support/real-timers.ts', 'test/support/checked-fetch.ts'],
    // Relays keep positions in the state folder: that of this run is removed at its end.
    globalSetup: ['test/support/state-folder.ts'],
    env: { TMPDIR: temporaryRoot(), XDG_STATE_HOME: join(temporaryRoot(), `poste-test-state-${process.pid}`) },
    // What a newer Node.js calls deprecated fails the run that uses it.
    execArgv: ['--throw-deprecation'],
    // What the runner says at its end stands last.
    reporters: [new RunNotes(), 'default'],
    sequence: { sequencer: TestOrder },
    // Many tests wait for other processes: one worker for each core would leave cores idle.
    maxWorkers: availableParallelism() * 2,
    deps: {
      // Imports of libraries are what Node makes of them; a proxy around each made every use of one cost 200 ns.
      interopDefault: false,
      // Read as one file each: typebox alone is 680 files, and every test file would look each of them up.
      optimizer: { ssr: { enabled: true, include: ['typebox', 'typebox/compile'] } },
    },
    testTimeout: 240_000,
    hookTimeout: 60_000,
    // What is polled for ends with the event; a loaded machine may take much longer than a second for it.
    expect: { poll: { timeout: PATIENCE_MS } },
    // A test that logs by mistake should be seen; a test that passes has nothing to say.
    silent: 'passed-only',
  },
});
