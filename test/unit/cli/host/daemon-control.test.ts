/** `poste daemon stop`, `restart` and `logs`, and what commands say of a daemon of another version. */
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { softwareVersion } from '../../../../src/lib/package-root.ts';
import { CommandRun, commandContext, runHere } from '../../../support/command-run.ts';
import { endDaemon, posteHome, type PosteHome } from '../../../support/poste-home.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { wakeContext } from '../../../support/wake-context.ts';

interface Running {
  pid: number;
  version: string;
}

test('stop ends the daemon and waits for that; without one it says so and is no error', async () => {
  const here = await posteHome();
  const daemon = await here.daemonProcess();
  expect(await here.run('daemon', 'stop')).toMatchObject({
    code: 0,
    stdout: `The daemon has stopped (process ${daemon.pid}).\n`,
  });
  expect(await daemon.ended()).toMatchObject({ code: 0 });
  expect((await here.run('status')).code).toBe(1);
  expect(await here.run('daemon', 'stop')).toMatchObject({ code: 0, stdout: 'No daemon was running.\n' });
  expect(await here.json('daemon', 'stop')).toEqual({ stopped: false, pid: null });
});

test('restart ends the daemon and starts another one in the background; logs print what that one logs', async () => {
  const here = await posteHome();
  expect((await here.run('daemon', 'logs')).stderr).toMatch(/^poste: there is no log at \S+daemon\.log: a daemon /);
  const before = await here.daemonProcess();
  const after = await here.json<Running & { stopped: boolean }>('daemon', 'restart');
  onTestFinished(() => endDaemon(after.pid));
  expect(after.stopped).toBe(true);
  expect(after.pid).not.toBe(before.pid);
  expect(await before.ended()).toMatchObject({ code: 0 });
  expect((await here.json<Running>('status')).pid).toBe(after.pid);
  await writeFile(join(here.folder, 'daemon.log'), 'one\ntwo\nthree\n');
  expect(await here.run('daemon', 'logs', '-n', '2')).toMatchObject({ code: 0, stdout: 'two\nthree\n' });
});

test('logs --follow prints what is added, until ctrl-c', async () => {
  const here = await posteHome();
  const file = join(here.folder, 'daemon.log');
  await writeFile(file, 'one\n');
  const logs = new CommandRun(['daemon', 'logs', '-f'], commandContext({ environment: here.environment }));
  await logs.printed('one\n');
  await writeFile(file, 'two\n', { flag: 'a' });
  await logs.printed('two\n');
  logs.signal('SIGINT');
  expect(await logs.ended()).toMatchObject({ code: 130, stderr: '' });
});

test('on a terminal logs are lines for people, unless JSON is asked for', async () => {
  const here = await posteHome();
  const line = '{"level":30,"time":"2025-11-20T21:48:23.250Z","peer":"laptop","msg":"pushed"}\n';
  await writeFile(join(here.folder, 'daemon.log'), `${line}no JSON\n`);
  const world = { environment: { ...here.environment, NO_COLOR: '1', TZ: 'UTC' }, columns: 80 };
  const { stdout } = await runHere(['daemon', 'logs'], world);
  expect(stdout).toBe('2025-11-20 21:48:23 info  pushed peer=laptop\nno JSON\n');
  expect((await runHere(['daemon', 'logs', '--log-format', 'json'], world)).stdout).toBe(`${line}no JSON\n`);
});

test('wrong arguments are usage errors', async () => {
  for (const args of [
    ['stop', 'now'],
    ['restart', '--soon'],
    ['logs', '-n', 'many'],
    ['logs', '-n', '-1'],
  ]) {
    expect(await runHere(['daemon', ...args])).toMatchObject({ code: 2, stdout: '' });
  }
});

interface Served {
  here: PosteHome;
  told: () => Promise<string[]>;
  /** `poste daemon`. */
  run: (...args: string[]) => ReturnType<typeof runHere>;
  /** A command at a terminal, which may start the daemon. */
  typed: (...args: string[]) => ReturnType<typeof runHere>;
}

/** A host whose service a script stands for: it notes its words, and does besides what the lines say. */
async function withService(
  platform: 'linux' | 'darwin',
  program: string,
  lines = (_folder: string): string => '',
): Promise<Served> {
  const here = await posteHome();
  const bin = join(here.folder, 'bin');
  await mkdir(bin);
  const notes = join(here.folder, 'told');
  await writeFile(notes, '');
  await writeFile(join(bin, program), `#!/bin/sh\necho "$@" >> '${notes}'\n${lines(here.folder)}`);
  await chmod(join(bin, program), 0o755);
  const environment = {
    ...here.environment,
    PATH: bin,
    HOME: here.folder,
    XDG_CONFIG_HOME: join(here.folder, 'config'),
  };
  const told = async (): Promise<string[]> => {
    const lines = (await readFile(notes, 'utf8')).split('\n').slice(0, -1);
    await writeFile(notes, '');
    return lines;
  };
  const run = (...args: string[]): ReturnType<typeof runHere> =>
    runHere(['daemon', ...args], { environment, platform });
  const typed = (...args: string[]): ReturnType<typeof runHere> => {
    const world = { environment: { ...environment, POSTE_NO_START: '' }, platform, columns: 80, typed: '' };
    return runHere(args, world);
  };
  return { here, told, run, typed };
}

/** The daemon that answers; it is ended when the test is over, if it runs then. */
async function running({ here }: Served): Promise<number> {
  const { pid } = await here.json<Running>('status');
  onTestFinished(() => endDaemon(pid).catch(() => undefined));
  return pid;
}

/** A manager that starts the service at this word, once it is let, and notes which process that is. */
function starting(word: string): (folder: string) => string {
  const daemon = `'${process.execPath}' '${commandContext().program}' daemon`;
  return (folder) => `case "$*" in *'${word}'*) [ ! -e '${folder}/let' ] || {
    POSTE_HOME='${folder}' setsid ${daemon} > /dev/null 2>&1 &
    echo "$!" > '${folder}/pid'; };;
  esac`;
}

test.each([
  ['linux', 'systemctl', '--user start', () => ['--user start poste.service']],
  [
    'darwin',
    'launchctl',
    'kickstart',
    (folder: string) => {
      const domain = `gui/${process.getuid?.()}`;
      const file = join(folder, 'Library', 'LaunchAgents', 'org.poste.daemon.plist');
      return [`bootstrap ${domain} ${file}`, `kickstart ${domain}/org.poste.daemon`];
    },
  ],
] as const)('on %s a command starts the service that is installed, and no daemon beside it', async (...given) => {
  const [platform, program, word, words] = given;
  const served = await withService(platform, program, starting(word));
  const { here, told, run, typed } = served;
  expect((await run('install')).code).toBe(0);
  await told();
  await writeFile(join(here.folder, 'let'), '');
  const { code, stderr } = await typed('agent', 'list');
  const pid = await running(served);
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'poste: starting the daemon; poste daemon stop ends it.\n' });
  expect(pid).toBe(Number(await readFile(join(here.folder, 'pid'), 'utf8')));
  // It runs now, and is started once.
  expect((await typed('agent', 'list')).stderr).toBe('');
  // On a slow machine it is asked whether it has failed.
  expect((await told()).filter((line) => !line.includes('is-failed'))).toEqual(words(here.folder));
});

test.each([
  [
    'that its manager refuses',
    `case "$2" in st*) echo 'Failed to connect to bus' >&2; exit 1;; esac`,
    ['--user start poste.service', '--user stop poste.service'],
    'the service was not started, as systemctl --user start poste.service ended with 1: Failed to connect to bus',
  ],
  [
    'that fails',
    `[ "$2" != is-failed ] || echo failed`,
    ['--user start poste.service', '--user is-failed poste.service', '--user stop poste.service'],
    'the service has failed (systemd)',
  ],
])('a service %s is ended, and the daemon started without it', async (_about, lines, words, why) => {
  const served = await withService('linux', 'systemctl', () => lines);
  const { told, run, typed } = served;
  await run('install');
  await told();
  const { code, stderr } = await typed('agent', 'list');
  await running(served);
  const says = ['starting the daemon; poste daemon stop ends it', `${why}; the daemon is started without it`];
  expect({ code, stderr }).toEqual({ code: 0, stderr: says.map((one) => `poste: ${one}.\n`).join('') });
  expect(await told()).toEqual(words);
  // So are they started again, and stopped, where the manager does not do it.
  const again = await run('restart');
  await running(served);
  expect(again).toMatchObject({ code: 0, stderr: '' });
  expect(await run('stop')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^The daemon has stopped/) as string,
  });
});

test('a service of another host of this user is left alone', async () => {
  const served = await withService('linux', 'systemctl');
  const { here, told, run, typed } = served;
  await run('install');
  const unit = join(here.folder, 'config', 'systemd', 'user', 'poste.service');
  await writeFile(unit, (await readFile(unit, 'utf8')).replace(here.folder, join(here.folder, 'other')));
  await told();
  expect((await typed('agent', 'list')).code).toBe(0);
  await running(served);
  expect((await run('restart')).code).toBe(0);
  await running(served);
  expect((await run('stop')).code).toBe(0);
  for (const change of ['install', 'uninstall'] as const) {
    expect(await run(change)).toMatchObject({
      code: EXIT.conflict,
      stderr: `poste: ${unit} is the service of another host, in ${join(here.folder, 'other')}, and stays as it is.\n`,
    });
  }
  expect(await told()).toEqual([]);
});

test('a daemon that is a service of systemd is stopped and restarted as one', async () => {
  const { here, told, run } = await withService('linux', 'systemctl');
  expect((await run('install')).code).toBe(0);
  await told();
  const daemon = await here.daemonProcess();
  expect(await run('stop')).toMatchObject({ code: 0, stdout: `The daemon has stopped (process ${daemon.pid}).\n` });
  expect(await told()).toEqual(['--user stop poste.service']);
});

test('on macOS the service is an agent of launchd: written, loaded, stopped, restarted, taken away', async () => {
  const { here, told, run } = await withService('darwin', 'launchctl');
  const file = join(here.folder, 'Library', 'LaunchAgents', 'org.poste.daemon.plist');
  const target = `gui/${process.getuid?.()}/org.poste.daemon`;
  const installed = await run('install', '--json');
  expect(installed.code).toBe(0);
  expect(JSON.parse(installed.stdout)).toMatchObject({ unit: file, changed: true });
  const domain = target.replace('/org.poste.daemon', '');
  const loading = [`enable ${target}`, `bootstrap ${domain} ${file}`, `kickstart ${target}`];
  expect(await told()).toEqual([`bootout ${target}`, ...loading]);
  expect(await readFile(file, 'utf8')).toContain(`<string>${here.folder}</string>`);
  expect(JSON.parse((await run('install', '--json')).stdout)).toMatchObject({ changed: false });
  expect(await told()).toEqual(loading);
  const daemon = await here.daemonProcess();
  expect((await run('stop')).code).toBe(0);
  expect(await told()).toEqual([`kill SIGTERM ${target}`]);
  expect(await daemon.ended()).toMatchObject({ code: 0 });
  expect(JSON.parse((await run('uninstall', '--json')).stdout)).toMatchObject({ changed: true });
  expect(await told()).toEqual([`bootout ${target}`]);
});

test.each(['agent list', 'outbox list', 'quarantine list', 'sent --as owner'])(
  'a daemon of another version is told of once on stderr, to people: %s',
  async (command) => {
    const world = await wakeContext(['alice']);
    const { home } = await contextAtSocket(world, undefined, '0.0.9');
    const shown = (...args: string[]): Promise<{ stderr: string; code: number | null }> =>
      runHere([...command.split(' '), ...args], { environment: { POSTE_HOME: home } });
    const versions = `is version 0.0.9, and this command is ${softwareVersion()}`;
    const stderr = `poste: warning: the daemon that runs ${versions}: run poste daemon restart.\n`;
    expect(await shown()).toMatchObject({ code: 0, stderr });
    expect(await shown('--json')).toMatchObject({ code: 0, stderr: '' });
  },
);
