/** What the operator's commands say when a folder, a file or a right is not as it should be. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { getuid } from 'node:process';
import { expect, test } from 'vitest';
import { runHere } from '../../../support/command-run.ts';
import { EXIT, sentenceOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const KEY = { MAIL_RELAY_KEY: Buffer.alloc(32, 1).toString('base64') };
const LOG = ['--log', 'postgres://127.0.0.1:1/x'];

test.each([
  [['hosts']],
  [['admit']],
  [['console']],
  [['backup', '-']],
  [['rotate-epoch']],
  [['serve', '--listen', '127.0.0.1:0', '--admin-listen', 'off']],
  [['restore', 'package.json', '--yes']],
  [['log', 'verify']],
  [['log', 'show']],
  [['log', 'rebuild', '--yes']],
  [['log', 'publish', ...LOG]],
  [['log', 'withdraw', ...LOG, '--yes']],
  [['log', 'take-lead', ...LOG]],
])('relay %j says that the store folder is a file', async (args) => {
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, 'some text\n');
  const ended = await runHere(['relay', ...args, '--store-dir', file], { environment: KEY });
  expect(ended.code).toBe(EXIT.failure);
  expect(sentenceOf(ended)).toMatch(/file(?:, and no store folder|\)).*--store-dir/);
});

test.each([
  [['log', 'show', '--archive', 'none'], EXIT.notFound, 'none cannot be read (ENOENT): name a file that you can read'],
  [['log', 'show', '--archive', '.'], EXIT.failure, 'cannot be read (EISDIR)'],
  [['log', 'verify', '--archive', 'none'], EXIT.notFound, 'none cannot be read (ENOENT)'],
  [['log', 'show', '--backup', 'none'], EXIT.notFound, 'none cannot be read (ENOENT): name a file that you can read'],
  [['restore', 'none', '--yes'], EXIT.notFound, 'none cannot be read (ENOENT): name a file that you can read'],
  [['hosts', '--config', '.'], EXIT.usage, 'is a folder: name the config file in it'],
  [['hosts', '--config', 'none'], EXIT.usage, 'there is no config file at'],
  [['rotate-epoch', '--key-file', '.'], EXIT.refused, 'is a folder, and no key file'],
  [
    ['log', 'init', ...LOG, '--log-password-file', '.'],
    EXIT.failure,
    'name one that you can read with --log-password-file',
  ],
  [['log', 'publish', ...LOG, '--store-dir', 'none'], EXIT.notFound, 'there is no store folder at'],
] as const)('relay %j says what is not there', async (args, code, sentence) => {
  const store = await temporaryFolder();
  const isGiven = args.some((word) => word === '--store-dir' || word === 'init' || word === '--config');
  const ended = await runHere(['relay', ...args, ...(isGiven ? [] : ['--store-dir', store])]);
  expect(ended.code).toBe(code);
  expect(sentenceOf(ended)).toContain(sentence);
});

// The rights of files do not hold for root.
test
  .skipIf(getuid?.() === 0)
  .each([
    [['restore', 'package.json', '--yes']],
    [['log', 'verify']],
    [['log', 'publish', ...LOG]],
    [['log', 'take-lead', ...LOG]],
  ])('relay %j says that this user may not use the folder', async (args) => {
  const folder = join(await temporaryFolder(), 'store');
  await mkdir(folder);
  await chmod(folder, 0);
  const ended = await runHere(['relay', ...args, '--store-dir', folder], { environment: KEY });
  await chmod(folder, 0o700);
  expect(ended.code).toBe(EXIT.refused);
  expect(sentenceOf(ended)).toContain('give the command as the user of the relay');
});
