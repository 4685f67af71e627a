/**
 * The tests that `npm run mutants` runs: those of rules and of the pure core, which need no process and little time.
 * `POSTE_MUTANT_TESTS` names fewer of them, as patterns with spaces between: what imports less tries a mutant sooner.
 */
import { defineConfig, mergeConfig } from 'vitest/config';
import common from '../../vitest.config.ts';

const { include: _all, sequence: _order, reporters: _reporters, ...shared } = common.test ?? {};

const TESTS = [
  'test/spec/*.test.ts',
  'test/spec/host/mail-*.test.ts',
  'test/unit/relay/core/**/*.test.ts',
  'test/unit/host/{core,agents,doctor,inbound,mail,mailbox,outbox,peers}/**/*.test.ts',
  'test/unit/host/relay/{connect,pull-loop,register-host,relay-choices,relay-rows}.test.ts',
  'test/property/{core-model,relay,mailbox,outbox-rows}.test.ts',
];
const FEWER = process.env['POSTE_MUTANT_TESTS']?.split(' ');

export default mergeConfig(
  { test: shared },
  defineConfig({
    test: {
      include: FEWER ?? TESTS,
      setupFiles: ['scripts/mutants/thread-umask.ts'],
      maxWorkers: 1,
    },
  }),
);
