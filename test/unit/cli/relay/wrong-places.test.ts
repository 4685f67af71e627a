/** The sentences of the operator's commands when a folder, a file or a right is not as it should be. */
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { getuid } from 'node:process';
import { expect, onTestFinished, test } from 'vitest';
import { ADAPTERS } from '../../../support/adapters.ts';
import { commandsBelow } from '../../../../src/cli/lib/command-tree.ts';
import { posteCommand } from '../../../../src/cli/run.ts';
import { commandContext, relayHere, runHere } from '../../../support/command-run.ts';
import { EXIT, sentenceOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const KEY = { MAIL_RELAY_KEY: Buffer.alloc(32, 1).toString('base64') };
const FREE = ['--listen', '127.0.0.1:0', '--admin-listen', 'off'];
const LOG = ['--log', 'postgres://127.0.0.1:1/x'];

test('every command with --log warns of a password that stands there, and of none from elsewhere', async () => {
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, 'some text\n');
  const [bare, secret] = ['postgres://relay@127.0.0.1:1/x', 'postgres://relay:hush@127.0.0.1:1/x'];
  const withLog = commandsBelow(await posteCommand(undefined, commandContext())).filter(({ command }) =>
    command.options.some(({ long }) => long === '--log'),
  );
  expect(withLog.length).toBeGreaterThan(6);
  for (const { name, command } of withLog) {
    const given = { '--store-dir': [file], '--yes': [], '--authority': ['account-token'] };
    const taken = Object.entries(given).filter(([flag]) => command.options.some(({ long }) => long === flag));
    const args = [...name.split(' ').slice(1), ...taken.flat(2)];
    const run = (more: string[], environment = {}) =>
      runHere([...args, ...more], { environment: { ...KEY, ...environment } });
    const [warned, parameter, clean, elsewhere] = await Promise.all([
      run(['--log', secret]),
      run(['--log', `${bare}?password=hush`]),
      run(['--log', bare]),
      run([], { MAIL_RELAY_LOG: secret }),
    ]);
    const lines = [warned, parameter, clean, elsewhere].map(
      ({ stderr }) => stderr.split('\n').filter((line) => line.includes('the password in --log is shown')).length,
    );
    expect({ name, lines }).toEqual({ name, lines: [1, 1, 0, 0] });
    expect(warned.stderr).toContain('--log-password-file');
    expect(warned.stderr + parameter.stderr).not.toContain('hush');
  }
});

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
  [['cluster', 'publish', ...LOG]],
  [['cluster', 'withdraw', ...LOG, '--yes']],
  [['cluster', 'take-lead', ...LOG]],
])('relay %j says that the store folder is a file', async (args) => {
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, 'some text\n');
  const ended = await runHere(['relay', ...args, '--store-dir', file], { environment: KEY });
  expect(ended.code).toBe(EXIT.failure);
  expect(sentenceOf(ended)).toMatch(/file(?:, and no store folder|\)).*--store-dir/);
});

test.each([
  [
    ['log', 'show', '--archive', 'none'],
    EXIT.notFound,
    'none cannot be read (it is not there): name a file that you can read',
  ],
  [['log', 'show', '--archive', '.'], EXIT.failure, 'cannot be read (it is a folder)'],
  [['log', 'verify', '--archive', 'none'], EXIT.notFound, 'none cannot be read (it is not there)'],
  [
    ['log', 'show', '--backup', 'none'],
    EXIT.notFound,
    'none cannot be read (it is not there): name a file that you can read',
  ],
  [['restore', 'none', '--yes'], EXIT.notFound, 'none cannot be read (it is not there): name a file that you can read'],
  // The file is looked at before the question is.
  [['restore', 'none'], EXIT.notFound, 'none cannot be read (it is not there): name a file that you can read'],
  [['serve', ...FREE, '--key-file', 'none'], EXIT.notFound, 'there is no key file at'],
  [
    ['serve', ...FREE, '--tls-cert', 'none', '--tls-key', 'package.json'],
    EXIT.notFound,
    'none cannot be read (it is not there)',
  ],
  [
    ['serve', ...FREE, '--tls-cert', 'package.json', '--tls-key', 'none'],
    EXIT.notFound,
    'none cannot be read (it is not there)',
  ],
  [['rotate-epoch', '--key-file', 'none'], EXIT.notFound, 'there is no key file at'],
  [['hosts', '--config', '.'], EXIT.usage, 'is a folder: name the config file in it'],
  [['hosts', '--config', 'none'], EXIT.notFound, 'there is no config file at'],
  [['log', 'check-proof', 'none'], EXIT.notFound, 'none cannot be read (it is not there)'],
  [['log', 'check-proof', 'package.json/below'], EXIT.notFound, '(it lies below a file)'],
  [['log', 'show', '--backup', 'package.json/below'], EXIT.notFound, '(it lies below a file)'],
  [['restore', 'package.json/below', '--yes'], EXIT.notFound, '(it lies below a file)'],
  [['cluster', 'init', ...LOG, '--log-password-file', 'none'], EXIT.notFound, 'none cannot be read (it is not there)'],
  [['rotate-epoch', '--key-file', '.'], EXIT.refused, 'is a folder, and no key file'],
  [
    ['cluster', 'init', ...LOG, '--log-password-file', '.'],
    EXIT.failure,
    'name one that you can read with --log-password-file',
  ],
  [['cluster', 'publish', ...LOG, '--store-dir', 'none'], EXIT.notFound, 'there is no store folder at'],
] as const)('relay %j says what is not there', async (args, code, sentence) => {
  const store = await temporaryFolder();
  const isGiven = args.some((word) => ['--store-dir', 'init', '--config', 'check-proof'].includes(word));
  const ended = await runHere(['relay', ...args, ...(isGiven ? [] : ['--store-dir', store])]);
  expect(ended.code).toBe(code);
  expect(sentenceOf(ended)).toContain(sentence);
});

test.each([
  ['restore', 'none'],
  ['relay', 'set', 'http://127.0.0.1:1', '--ca', 'none'],
])('poste %s %s says that a file is not there, before anything else is asked', async (...args) => {
  const ended = await runHere(args, { environment: { POSTE_HOME: await temporaryFolder() } });
  expect(ended.code).toBe(EXIT.notFound);
  expect(sentenceOf(ended)).toContain('none cannot be read (it is not there)');
});

test('a position file that is a folder is named as that, and not the store', async () => {
  const storeDir = join(await temporaryFolder(), 'store');
  const { process: relay } = await relayHere(storeDir);
  await relay.stop();
  for (const command of [['log', 'verify'], ['rotate-epoch'], ['serve', '--listen', '127.0.0.1:0']]) {
    const ended = await runHere(['relay', ...command, '--store-dir', storeDir, '--position-file', storeDir]);
    expect([command[0], ended.code]).toEqual([command[0], EXIT.failure]);
    expect(sentenceOf(ended)).toContain(`the position file ${storeDir} cannot be used (it is a folder)`);
  }
});

test.each([['file/below'], ['shut/below']])('relay doctor of the store folder %s says what is wrong', async (place) => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'file'), 'some text\n');
  await mkdir(join(folder, 'shut'));
  await chmod(join(folder, 'shut'), 0);
  const ended = await runHere(['relay', 'doctor', '--store-dir', join(folder, place)]);
  await chmod(join(folder, 'shut'), 0o700);
  expect(ended.stdout).toContain(`Relay of ${join(folder, place)}`);
  expect(ended.stdout).toContain('The relay\n');
});

test.each([
  ['127.0.0.1:PORT', EXIT.conflict, 'another process has it'],
  ['192.0.2.1:0', EXIT.conflict, 'no network interface of this machine has that address'],
])('a relay that cannot listen on %s says why, with either server', async (listen, code, why) => {
  const taken = createServer();
  taken.listen(0, '127.0.0.1');
  await once(taken, 'listening');
  onTestFinished(() => void taken.close());
  const address = listen.replace('PORT', String((taken.address() as AddressInfo).port));
  for (const server of ADAPTERS) {
    const storeDir = join(await temporaryFolder(), 'store');
    const args = ['relay', 'serve', '--store-dir', storeDir, '--listen', address, '--server', server];
    const ended = await runHere([...args, '--admin-listen', 'off']);
    expect([ended.code, sentenceOf(ended)]).toEqual([
      code,
      expect.stringContaining(`${address} cannot be listened on: ${why}`) as string,
    ]);
  }
});

test.each([
  ['serve', '--store-dir'],
  ['serve', '--backup-dir'],
  ['serve', '--log'],
  ['hosts', '--config'],
  ['log', 'show', '--backup'],
  ['set', 'https://relay.example', '--token-file'],
])('relay %s %s takes no empty value, as of a variable that is not set', async (...args) => {
  const ended = await runHere(['relay', ...args, '']);
  expect(ended.code).toBe(EXIT.usage);
  expect(ended.stderr).toContain("argument '' is invalid. It must not be empty.");
});

test.skipIf(getuid?.() === 0)('a file without the right to read it is refused', async () => {
  const file = join(await temporaryFolder(), 'locked');
  await writeFile(file, 'some text\n', { mode: 0 });
  for (const args of [
    ['log', 'check-proof', file],
    ['log', 'show', '--backup', file],
    ['cluster', 'init', ...LOG, '--log-password-file', file],
  ]) {
    const ended = await runHere(['relay', ...args]);
    expect([ended.code, sentenceOf(ended)]).toEqual([
      EXIT.refused,
      expect.stringContaining('(this user has no right to it)') as string,
    ]);
  }
});

// The rights of files do not hold for root.
test
  .skipIf(getuid?.() === 0)
  .each([
    [['restore', 'package.json', '--yes']],
    [['log', 'verify']],
    [['cluster', 'publish', ...LOG]],
    [['cluster', 'take-lead', ...LOG]],
  ])('relay %j says that this user may not use the folder', async (args) => {
  const folder = join(await temporaryFolder(), 'store');
  await mkdir(folder);
  await chmod(folder, 0);
  const ended = await runHere(['relay', ...args, '--store-dir', folder], { environment: KEY });
  await chmod(folder, 0o700);
  expect(ended.code).toBe(EXIT.refused);
  expect(sentenceOf(ended)).toContain('give the command as the user of the relay');
});
