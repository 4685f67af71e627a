/** `poste relay rotate-epoch` on a stopped relay whose store takes no writes. */
import { hash } from 'node:crypto';
import { afterEach, expect, test, vi } from 'vitest';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { runHere } from '../../../support/command-run.ts';
import { openTestRelay } from '../../../support/test-relay.ts';

/** Of the test relay, see `hostNamed`. */
const MAIL_RELAY_KEY = hash('sha256', 'relay', 'buffer').toString('base64');

afterEach(() => {
  vi.restoreAllMocks();
});

test.each([
  ['LEVEL_IO_ERROR', 'IO error: /store/log/000005.log: Input/output error', 'Input/output error'],
  ['EIO', 'EIO: i/o error, fdatasync', 'EIO'],
])('a write that fails (%s) is one sentence and no stack', async (code, message, said) => {
  const relay = await openTestRelay();
  const { epoch } = relay.engine;
  await relay.close();
  vi.spyOn(RelayStore.prototype, 'append').mockRejectedValueOnce(Object.assign(new Error(message), { code }));
  const args = ['relay', 'rotate-epoch', '--store-dir', relay.folder];
  const failed = await runHere(args, { environment: { MAIL_RELAY_KEY } });
  expect([failed.code, failed.stdout]).toEqual([1, '']);
  expect(failed.stderr).toContain(`the store at ${relay.folder} cannot be used (`);
  expect(failed.stderr).toContain(said);
  expect(failed.stderr).not.toMatch(/\n\s+at /);
  await relay.open();
  expect(relay.engine.epoch).toBe(epoch);
  await relay.close();
  const rotated = await runHere(args, { environment: { MAIL_RELAY_KEY } });
  expect([rotated.code, rotated.stdout.length]).toEqual([0, epoch.length + 1]);
  // What was found when the store was opened is said as errors are.
  expect(rotated.stderr).toMatch(/^poste: The last heartbeat in the store is [0-9]+ minutes old: .*\.$/m);
});

test.each([
  ['restore', 'Stop the relay first.'],
  ['rotate-epoch', 'On a running relay it takes effect at once.'],
])('%s says in its help whether the relay may run', async (command, said) => {
  const { stdout } = await runHere(['relay', command, '--help']);
  expect(stdout.replace(/\s+/g, ' ')).toContain(said);
});
