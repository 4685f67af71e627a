/** `poste setup` as a process, with a program in the place of systemctl that starts and stops what the unit names. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { commandContext, runHere } from '../../../support/command-run.ts';
import { endDaemon } from '../../../support/poste-home.ts';
import { type Environment, run as runProcess } from '../../../support/poste-process.ts';
import { withSetupLock } from '../../../../src/cli/lib/setup-record.ts';
import {
  addProgram,
  daemonPid,
  endDaemonAtEnd,
  machine,
  pathIn,
  read,
  setup,
  type SetupDocument,
  served,
} from '../../../support/setup-machine.ts';
import { atTestEnd } from '../../../support/test-end.ts';

/** It is back before the daemon listens, as systemd is. */
function systemctl(here: Environment, fault?: string): string {
  const [told, unit, pid] = ['told', 'config/systemd/user/poste.service', 'service.pid'].map((name) =>
    JSON.stringify(pathIn(here, name)),
  );
  return `#!${process.execPath}
const { spawn } = require('node:child_process');
const { appendFileSync, readFileSync, writeFileSync } = require('node:fs');
const words = process.argv.slice(2);
appendFileSync(${told}, words.join(' ') + '\\n');
if (${fault !== undefined}) {
  console.error(${JSON.stringify(fault ?? '')});
  process.exit(1);
}
const isRunning = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
if (words[1] === 'restart') {
  const text = readFileSync(${unit}, 'utf8');
  const variables = [...text.matchAll(/^Environment=(\\w+)=(.*)$/gm)];
  const env = Object.fromEntries(variables.map(([, name, value]) => [name, value]));
  const command = ['-c', 'sleep 0.3; exec "$@"', 'sh', ...text.match(/^ExecStart=(.*)$/m)[1].split(' ')];
  const child = spawn('/bin/sh', command, { detached: true, stdio: 'ignore', env: { PATH: '/bin:/usr/bin', ...env } });
  writeFileSync(${pid}, String(child.pid));
  child.unref();
}
if (words[1] === 'disable') {
  const pid = Number(readFileSync(${pid}, 'utf8'));
  if (isRunning(pid)) process.kill(pid, 'SIGTERM');
  while (isRunning(pid)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
}
`;
}

async function document(here: Environment, ...args: string[]): Promise<SetupDocument> {
  const { code, stdout, stderr } = await runProcess(['setup', '--yes', '--json', ...args], here);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as SetupDocument;
}

const UNIT = ['config', 'systemd', 'user', 'poste.service'] as const;

test('where systemd is, the daemon is a service that serves the setup, and undo takes the service away', async () => {
  const here = await machine('claude');
  await addProgram(here, 'systemctl', systemctl(here));
  atTestEnd(async () => endDaemon(Number(await read(here, 'service.pid'))).catch(() => undefined));
  endDaemonAtEnd(here);
  const service = 'install the daemon as a service, and start it';
  const done = await document(here);
  expect(done.steps).toContainEqual({ step: service, state: 'done' });
  expect(done.steps).toContainEqual({ step: 'add the agent claude', state: 'done' });
  expect(done.notices).toContainEqual(expect.stringContaining('while you are logged in'));
  const pid = await daemonPid(here);
  expect(pid).toBe(Number(await read(here, 'service.pid')));
  const installed = '--user daemon-reload\n--user enable poste.service\n--user restart poste.service\n';
  expect(await read(here, 'told')).toBe(installed);
  expect(new Set((await document(here)).steps.map(({ state }) => state))).toEqual(new Set(['already']));
  expect(await read(here, 'told')).toBe(installed);
  const undone = await document(here, '--undo');
  expect(undone.steps).toContainEqual({ step: 'the service of the daemon', state: 'undone' });
  expect(undone.steps.map(({ step }) => step)).not.toContain('the daemon that was started');
  expect(await read(here, 'told')).toBe(`${installed}--user disable --now poste.service\n--user daemon-reload\n`);
  expect(existsSync(pathIn(here, ...UNIT))).toBe(false);
  expect(await daemonPid(here)).toBeUndefined();
});

test('where systemd refuses, setup says so, starts the daemon itself and keeps no service in its record', async () => {
  const here = await machine('claude');
  await addProgram(here, 'systemctl', systemctl(here, 'Failed to connect to bus'));
  endDaemonAtEnd(here);
  // An earlier setup was cut off while its daemon began.
  await mkdir(pathIn(here, 'poste'));
  const earlier = { version: 1, written: [{ type: 'starting', sinceMs: 0 }] };
  await writeFile(pathIn(here, 'poste', 'setup.json'), JSON.stringify(earlier));
  const { steps, notices } = await document(here);
  expect(steps).toContainEqual({ step: 'start the daemon', state: 'done' });
  expect(steps.map(({ step }) => step)).not.toContainEqual(expect.stringContaining('service'));
  expect(notices[0]).toMatch(
    /^systemd refused the service: .*Failed to connect to bus.* No service starts the daemon: /,
  );
  expect(await read(here, 'poste', 'setup.json')).not.toMatch(/service|starting/);
  expect(existsSync(pathIn(here, ...UNIT))).toBe(false);
  const undone = await document(here, '--undo');
  expect(undone.steps).toContainEqual({ step: 'the daemon that was started', state: 'undone' });
  await expect.poll(() => daemonPid(here)).toBeUndefined();
});

test('a daemon that runs without a service is not said to be one', async () => {
  const here = await served('claude');
  await addProgram(here, 'systemctl', systemctl(here));
  const { stdout } = await runHere(['setup', '--yes'], { environment: here });
  expect(stdout).toContain('\nalready: start the daemon\n');
  expect(stdout).toContain('The daemon that runs is no service. To make it one, stop it');
  expect(stdout).not.toContain('install the daemon as a service');
  expect(existsSync(pathIn(here, 'told'))).toBe(false);
});

test('a setup that is killed when its daemon begins leaves a daemon that undo knows, and no lock', async () => {
  const here = await machine('claude');
  endDaemonAtEnd(here);
  const killer = `if (process.argv[2] === 'daemon') process.kill(process.ppid, 'SIGKILL')`;
  const cut = await runProcess(['setup', '--yes'], {
    ...here,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(killer)}`,
  });
  expect(cut.signal).toBe('SIGKILL');
  await expect.poll(() => daemonPid(here), { timeout: 20_000 }).toBeDefined();
  const { steps } = await document(here, '--undo');
  expect(steps).toContainEqual({ step: 'the daemon that was started', state: 'undone' });
  await expect.poll(() => daemonPid(here)).toBeUndefined();
  expect(existsSync(pathIn(here, 'poste', 'setup.lock'))).toBe(false);
});

test('two setups do not work at once', async () => {
  const here = await served('claude');
  const setupHere = (...args: string[]): unknown => runHere(['setup', ...args], { environment: here });
  const refused = {
    code: 4,
    stderr: expect.stringContaining(`another poste setup is at work (process ${process.pid})`),
  };
  await withSetupLock(commandContext({ environment: here }), async () => {
    expect(await setupHere('--yes')).toMatchObject(refused);
    expect(await setupHere('--dry-run')).toMatchObject({ code: 0 });
  });
  expect(existsSync(pathIn(here, '.claude.json'))).toBe(false);
  await setup(here, '--yes');
  await withSetupLock(commandContext({ environment: here }), async () => {
    expect(await setupHere('--undo', '--yes')).toMatchObject(refused);
  });
  expect(existsSync(pathIn(here, '.claude.json'))).toBe(true);
  expect(await readFile(pathIn(here, 'poste', 'setup.json'), 'utf8')).toContain('"hooks"');
});
