/** Items of a log by the first characters of their ids. */
import { expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { runHere } from '../../../support/command-run.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { itemTo } from '../../../support/mail.ts';
import { relayHere } from '../../../support/command-run.ts';
import { clientOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

test('the first characters mean the one item that begins with them', async () => {
  const folder = await temporaryFolder();
  const relay = await relayHere(folder);
  for (const host of [alice, bob]) await clientOf(relay, host).enrol();
  await clientOf(relay, alice).push(['report-1', 'report-1a', 'report-2'].map((id) => itemTo([bob], id)));
  await relay.process.stop();
  const log = (...args: string[]): ReturnType<typeof runHere> =>
    runHere(['relay', 'log', ...args, '--store-dir', folder]);

  expect((await log('trace', 'report-1')).stdout).toMatch(/^envelope report-1 of /);
  expect((await log('trace', 'report-1a')).stdout).toMatch(/^envelope report-1a of /);
  const several = await log('trace', 'report');
  expect(several.code).toBe(EXIT.conflict);
  expect(several.stderr).toMatch(
    /report-1 \(record \d+\), report-1a \(record \d+\), report-2 \(record \d+\); give more/,
  );
  // Too few, none, and one.
  for (const text of ['repor', 'report-3']) expect((await log('trace', text)).code).toBe(EXIT.notFound);
  expect((await log('show', '--item', 'repor')).stdout).toBe('');
  expect((await log('show', '--item', 'report-2')).stdout).toContain('envelope report-2 of alice');
  expect((await log('show', '--item', 'report')).code).toBe(EXIT.conflict);
});
