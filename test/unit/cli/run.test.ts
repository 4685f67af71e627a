/** The `poste` command as a function: what it is given is all that it uses, and it ends with an exit code. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { EXIT, failureOf } from '../../../src/cli/lib/exit.ts';
import { softwareVersion } from '../../../src/lib/package-root.ts';
import { runHere } from '../../support/command-run.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const SOURCES = join(import.meta.dirname, '../../../src/cli');
/** The names that belong to the process: only main.ts hands them out. */
const OF_THE_PROCESS = new RegExp(
  String.raw`\bprocess\.(?:stdin|stdout|stderr|env|argv|exit|exitCode|on|once|off|kill)\b` +
    String.raw`|\bconsole\.(?:log|warn|error)\(|\b(?:homedir|userInfo)\(`,
);
const MAY_USE_IT = new Set(['main.ts', 'lib/context.ts']);

afterEach(() => {
  vi.restoreAllMocks();
});

test('no command uses streams, environment, signals or the exit of the process', () => {
  const all = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' });
  const files = all.filter((name) => name.endsWith('.ts') && !MAY_USE_IT.has(name));
  expect(files.length).toBeGreaterThan(40);
  const found = files.flatMap((name) => {
    const lines = readFileSync(join(SOURCES, name), 'utf8').split('\n');
    return lines.filter((line) => OF_THE_PROCESS.test(line)).map((line) => `${name}: ${line.trim()}`);
  });
  expect(found).toEqual([]);
  expect(readFileSync(join(SOURCES, 'main.ts'), 'utf8')).toMatch(OF_THE_PROCESS);
});

test.each(['--version', '-V'])('%s is the version, and no error', async (flag) => {
  expect(await runHere([flag])).toEqual({ code: EXIT.ok, signal: null, stdout: `${softwareVersion()}\n`, stderr: '' });
});

test('commands side by side keep their environments, outputs and exit codes apart', async () => {
  const [here, there] = [join(await temporaryFolder(), 'a'), join(await temporaryFolder(), 'b')];
  const [made, other, wrong] = await Promise.all([
    runHere(['init', '--host', 'here', '--json'], { environment: { POSTE_HOME: here } }),
    runHere(['init', '--host', 'there', '--json'], { environment: { POSTE_HOME: there } }),
    runHere(['init', '--hsot', 'x'], { environment: { POSTE_HOME: there } }),
  ]);
  expect([made.code, other.code, wrong.code]).toEqual([EXIT.ok, EXIT.ok, EXIT.usage]);
  expect(JSON.parse(made.stdout)).toMatchObject({ host: 'here', store: join(here, 'store') });
  expect(JSON.parse(other.stdout)).toMatchObject({ host: 'there', store: join(there, 'store') });
  expect(wrong).toMatchObject({ stdout: '', stderr: expect.stringContaining('--host') as string });
});

test('the environment that is given is used, and not that of the process', async () => {
  const environment = { POSTE_HOME: join(await temporaryFolder(), 'none') };
  process.env['POSTE_AGENT'] = 'not a name';
  try {
    const unnamed = await runHere(['mcp'], { environment });
    expect(unnamed).toMatchObject({
      code: EXIT.usage,
      stderr: expect.stringContaining('use --agent NAME or POSTE_AGENT') as string,
    });
    const named = await runHere(['mcp'], { environment: { ...environment, POSTE_AGENT: 'owner' } });
    expect(named).toMatchObject({ code: EXIT.usage, stderr: expect.stringContaining('owner is a person') as string });
  } finally {
    delete process.env['POSTE_AGENT'];
  }
  const status = await runHere(['status'], { environment });
  expect(status.stderr).toContain(environment.POSTE_HOME);
});

test('an empty POSTE_AGENT counts as none', async () => {
  const environment = { POSTE_HOME: join(await temporaryFolder(), 'none'), POSTE_AGENT: '' };
  const { code, stderr } = await runHere(['mcp'], { environment });
  expect(code).toBe(EXIT.usage);
  expect(stderr).toContain('use --agent NAME or POSTE_AGENT');
  for (const command of [['inbox'], ['sent'], ['send', 'bob', '--subject', 's', '--body', 'b']]) {
    const { POSTE_AGENT: _, ...without } = environment;
    expect(await runHere(command, { environment })).toEqual(await runHere(command, { environment: without }));
  }
});

test('every error begins with poste:, and a wrong word with the help that has the right one', async () => {
  const environment = { POSTE_HOME: join(await temporaryFolder(), 'none') };
  for (const [args, text] of [
    [['inbox', 'list', '--no-such'], "poste: unknown option '--no-such'\n(see poste inbox list --help)\n"],
    [['relay', 'log', 'trace'], "poste: missing required argument 'item'\n(see poste relay log trace --help)\n"],
    [['sned'], "poste: unknown command 'sned'\n(Did you mean send?)\n(see poste --help)\n"],
    [
      ['relay', 'evidence', 'exprot'],
      "poste: unknown command 'exprot'\n(Did you mean export?)\n(see poste relay evidence --help)\n",
    ],
    [
      ['relay', 'evidence', 'list', 'x'],
      "poste: too many arguments for 'list'. Expected 0 arguments but got 1.\n(see poste relay evidence list --help)\n",
    ],
  ] as const) {
    expect(await runHere(args, { environment })).toEqual({ code: EXIT.usage, signal: null, stdout: '', stderr: text });
  }
  const colored = await runHere(['sned'], { environment: { ...environment, FORCE_COLOR: '1' } });
  expect(colored.stderr).toContain('\u001b[31mposte:\u001b[39m unknown command');
});

test.each(['EIO', 'ENOSPC', 'LEVEL_IO_ERROR'])(
  'an error of the system, %s, is one sentence wherever it was met',
  (code) => {
    const error = Object.assign(new Error('IO error: /x/000005.ldb: Input/output error'), { code });
    expect(failureOf(error)).toMatchObject({
      exit: 'failure',
      message: expect.stringMatching(
        /^the system could not read or write \(IO error: .* error\): .+, and give the command again$/,
      ),
    });
    const remedies = [
      ['EMFILE', 'EMFILE: too many open files, open', 'raise the limit of open files'],
      ['LEVEL_IO_ERROR', 'IO error: /x/000005.ldb: Too many open files', 'raise the limit of open files'],
      ['LEVEL_IO_ERROR', 'IO error: /x/000005.log: No space left on device', 'make room on the disk'],
      ['EROFS', 'EROFS: read-only file system, open', 'make the disk writable'],
    ] as const;
    for (const [refusal, said, remedy] of remedies)
      expect(failureOf(Object.assign(new Error(said), { code: refusal }))?.message).toContain(`): ${remedy}`);
    expect(failureOf(new Error('a bug'))).toBeUndefined();
    expect(failureOf(Object.assign(new Error('no such file'), { code: 'ENOENT' }))).toBeUndefined();
  },
);

test('where nothing says which folder is the home of the user, every command says that in one sentence', async () => {
  vi.spyOn(process.getBuiltinModule('node:os'), 'userInfo').mockImplementation(() => {
    throw new Error('uv_os_get_passwd returned ENOENT');
  });
  const environment = { HOME: '' };
  for (const command of ['status', 'init', 'inbox', 'doctor', 'daemon', 'relay serve', 'relay doctor']) {
    const { code, stdout, stderr } = await runHere(command.split(' '), { environment });
    expect([command, code, stdout]).toEqual([command, EXIT.failure, '']);
    expect(stderr).toMatch(/^poste: HOME is no absolute path, .+: set HOME to a folder of yours\.\n$/);
  }
  // A hook never disturbs its agent.
  const hook = await runHere(['hooks', 'run', 'codex', '--agent', 'bob'], { environment, stdin: '{}' });
  expect(hook).toEqual({ code: EXIT.ok, signal: null, stdout: '', stderr: '' });
  // What needs no home folder goes on, and what can say more says the rest.
  const folder = await temporaryFolder();
  const doctor = await runHere(['doctor'], { environment: { ...environment, POSTE_HOME: join(folder, 'host') } });
  expect(doctor.stdout).toMatch(/note +claude-code +HOME is no absolute path/);
  expect(doctor.stdout.match(/HOME is no absolute path/g)).toHaveLength(1);
  const store = { environment: { ...environment, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder } };
  expect((await runHere(['relay', 'doctor', '--store-dir', folder], store)).stdout).toContain(`Relay of ${folder}`);
});

test('in a folder that was deleted a command does what needs no folder, and else says so in one sentence', async () => {
  const environment = { POSTE_HOME: join(await temporaryFolder(), 'none') };
  vi.spyOn(process, 'cwd').mockImplementation(() => {
    throw Object.assign(new Error('ENOENT: no such file or directory, uv_cwd'), { code: 'ENOENT', syscall: 'uv_cwd' });
  });
  expect((await runHere(['status'], { environment })).stderr).toContain(environment.POSTE_HOME);
  for (const command of [['restore', 'file'], ['relay', 'serve', '--store-dir', 'x'], ['status']]) {
    const POSTE_HOME = command[0] === 'status' ? 'relative' : environment.POSTE_HOME;
    expect(await runHere(command, { environment: { POSTE_HOME } })).toEqual({
      code: EXIT.notFound,
      signal: null,
      stdout: '',
      stderr:
        'poste: the folder that this is run in is not there any more: go to one that is, and give the command again.\n',
    });
  }
});

test('where no folder for temporary files can be made, a command says so in one sentence', () => {
  const said = "ENOENT: no such file or directory, mkdtemp '/none/poste-rehearsal-x'";
  expect(failureOf(Object.assign(new Error(said), { code: 'ENOENT', syscall: 'mkdtemp' }))).toMatchObject({
    exit: 'failure',
    message:
      `no folder for temporary files could be made (${said}): set TMPDIR to a folder of ` +
      'yours, and give the command again',
  });
  const full = failureOf(Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC', syscall: 'mkdtemp' }));
  expect(full?.message).toContain('make room on the disk');
});
