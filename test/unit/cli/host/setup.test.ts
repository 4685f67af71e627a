import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { CommandRun, commandContext, runHere } from '../../../support/command-run.ts';
import { endDaemon } from '../../../support/poste-home.ts';
import { run as runProcess } from '../../../support/poste-process.ts';
import {
  addProgram,
  daemonPid,
  endDaemonAtEnd,
  machine,
  pathIn,
  read,
  served,
  setup,
  type SetupDocument,
} from '../../../support/setup-machine.ts';

/** Settings in a layout that no formatter would write. */
const ODD = '{"projects": {},\r\n   "list": [1, 2]}';

test('all programs that are found are set up, once; undo takes back exactly that', async () => {
  const here = await served('claude', 'codex', 'gemini', 'opencode');
  const home = here['HOME'] ?? '';
  await mkdir(join(home, '.codex'));
  await writeFile(join(home, '.codex', 'config.toml'), '# mine\nmodel = "o"\n');
  await writeFile(join(home, '.claude.json'), ODD);
  const planned = await setup(here, '--dry-run', '--allow-tools');
  expect(planned.filter(({ state }) => state === 'planned')).toHaveLength(4 + 4 * 2 + 3);
  expect(await read(here, '.claude.json')).toBe(ODD);
  const done = await setup(here, '--yes', '--allow-tools', '--agent', 'codex=reviewer');
  expect(done.map(({ state }) => state).filter((state) => state === 'done')).toHaveLength(15);
  expect(await read(here, '.codex', 'config.toml')).toContain('"reviewer"');
  expect(await read(here, '.codex', 'config.toml')).toContain('default_tools_approval_mode = "approve"');
  expect(await read(here, '.claude.json')).toContain('"claude"');
  expect(await read(here, '.claude', 'settings.json')).toContain('"mcp__poste"');
  expect(await read(here, '.gemini', 'settings.json')).toContain('"trust": true');
  expect(await read(here, 'config', 'opencode', 'opencode.json')).toContain('"local"');
  expect(await read(here, 'config', 'opencode', 'plugins', 'poste.js')).toContain('"opencode"');
  const again = await setup(here, '--yes', '--allow-tools', '--agent', 'codex=reviewer');
  expect(new Set(again.map(({ state }) => state))).toEqual(new Set(['already']));
  const sent = ['send', '--as', 'claude', '--to', 'reviewer', '--subject', 'Hello', '--body', 'Who are you?'];
  expect(await runHere(sent, { environment: here })).toMatchObject({ code: 0 });
  const undone = await setup(here, '--undo', '--yes');
  const kept = undone.filter(({ state }) => state === 'kept').map(({ step }) => step);
  expect(kept).toEqual(['the agent reviewer', 'the agent claude']);
  expect(await read(here, '.codex', 'config.toml')).toBe('# mine\nmodel = "o"\n');
  expect(await read(here, '.claude.json')).toBe(ODD);
  for (const folder of ['.claude', '.gemini']) {
    await expect(read(here, folder, 'settings.json')).rejects.toThrow('ENOENT');
  }
  await expect(read(here, 'config', 'opencode', 'plugins', 'poste.js')).rejects.toThrow('ENOENT');
  expect(await setup(here, '--undo', '--yes')).toEqual([]);
});

test('Qwen Code gets tools, hooks and trust, Copilot CLI, Cline and Crush the tools; undo leaves none', async () => {
  const here = await served('qwen', 'copilot', 'cline', 'crush');
  const files = [
    ['.qwen', 'settings.json'],
    ['.copilot', 'mcp-config.json'],
    ['.cline', 'data', 'settings', 'cline_mcp_settings.json'],
    ['config', 'crush', 'crush.json'],
  ] as const;
  const done = await setup(here, '--yes', '--allow-tools', '--agent', 'crush=tester');
  expect(done.filter(({ state }) => state === 'done')).toHaveLength(4 + 4 + 1 + 2);
  const [qwen = '', ...others] = await Promise.all(files.map((file) => read(here, ...file)));
  expect(JSON.parse(qwen)).toMatchObject({ hooks: { Stop: [{}] }, mcpServers: { poste: { trust: true } } });
  for (const [at, agent] of ['copilot', 'cline', 'tester'].entries()) {
    expect(others[at]).toContain(`"${agent}"`);
    expect(others[at]).not.toContain('hooks');
  }
  expect(others[2]).toContain('mcp_poste_mail_send');
  const again = await runHere(['setup', '--yes', '--json', '--allow-tools'], { environment: here });
  const { steps, notices } = JSON.parse(again.stdout) as SetupDocument;
  expect(new Set(steps.map(({ state }) => state))).toEqual(new Set(['already']));
  expect(notices.join('\n')).toContain('--allow-tool=poste');
  await setup(here, '--undo', '--yes');
  for (const file of files) await expect(read(here, ...file)).rejects.toThrow('ENOENT');
});

test('an entry of an earlier setup gets what this version writes besides, and undo takes back both', async () => {
  const here = await served('claude');
  const file = join(here['HOME'] ?? '', '.claude.json');
  await writeFile(file, ODD);
  await setup(here, '--yes');
  const written = await read(here, '.claude.json');
  expect(JSON.parse(written)).toMatchObject({ mcpServers: { poste: { alwaysLoad: true } } });
  await writeFile(file, written.replace(/"alwaysLoad": ?true,/, ''));
  const step = 'add the mail tools of claude to ';
  const again = await setup(here, '--yes');
  expect(again.find(({ step: one }) => one.startsWith(step))).toMatchObject({ state: 'done' });
  expect(JSON.parse(await read(here, '.claude.json'))).toMatchObject({ mcpServers: { poste: { alwaysLoad: true } } });
  expect((await setup(here, '--yes')).map(({ state }) => state)).not.toContain('done');
  await setup(here, '--undo', '--yes');
  expect(JSON.parse(await read(here, '.claude.json'))).toEqual(JSON.parse(ODD));
});

test('--print prints the entry of the mail tools for any other program, and changes nothing', async () => {
  const here = await machine();
  const { code, stdout, stderr } = await runHere(['setup', '--print', 'tester'], { environment: here });
  expect(code).toBe(0);
  const { mcpServers } = JSON.parse(stdout) as { mcpServers: { poste: object } };
  const args = [expect.any(String), 'mcp', '--agent', 'tester'];
  expect(mcpServers.poste).toEqual({ command: process.execPath, args, env: { POSTE_HOME: here['POSTE_HOME'] } });
  expect(stderr).toContain('poste agent add tester adds the agent');
  const json = await runHere(['setup', '--print', 'tester', '--json'], { environment: here });
  expect(json).toMatchObject({ stdout: `${JSON.stringify({ mcpServers })}\n`, stderr: '' });
  expect(await readdir(here['HOME'] ?? '')).toEqual(['bin']);
  const none = await runHere(['setup', '--yes'], { environment: here });
  expect(none.stderr).toContain('none of claude, codex, gemini, qwen, opencode, copilot, cline, crush is on PATH');
  expect(none.stderr).toContain('poste setup --print <agent>');
  const refused = await runHere(['setup', '--print', 'b b'], { environment: here });
  expect(refused.stderr).toContain("An agent's name has letters");
  expect((await runHere(['setup', '--print', 'b', '--undo'], { environment: here })).code).toBe(2);
});

test('a setup that was cut off in the middle goes on where it was, and is undone whole', async () => {
  const here = await served('claude', 'codex');
  const home = here['HOME'] ?? '';
  // The write of Codex's hooks fails, after everything of Claude Code.
  await mkdir(join(home, '.codex'));
  await mkdir(join(home, '.codex', `hooks.json.poste-${process.pid}`));
  const cut = await runHere(['setup', '--yes'], { environment: here });
  expect(cut).toMatchObject({ code: 1, stderr: expect.stringContaining('hooks.json cannot be written') });
  await rm(join(home, '.codex', `hooks.json.poste-${process.pid}`), { recursive: true, force: true });
  const again = await setup(here, '--yes');
  expect(again.filter(({ state }) => state === 'done').map(({ step }) => step)).toEqual([
    expect.stringContaining('hooks.json'),
  ]);
  expect((await setup(here, '--undo', '--yes')).every(({ state }) => state === 'undone')).toBe(true);
  await expect(read(here, '.codex', 'config.toml')).rejects.toThrow('ENOENT');
});

test('nothing is changed when settings cannot be read, nobody can be asked, or a program is absent', async () => {
  const here = await machine('claude', 'codex');
  const home = here['HOME'] ?? '';
  const ended = async (...args: string[]): Promise<unknown> => runHere(['setup', ...args], { environment: here });
  expect(await ended()).toMatchObject({ code: 2, stderr: expect.stringContaining('add --yes') });
  await writeFile(join(home, '.claude.json'), '{');
  const refused = `${join(home, '.claude.json')} is no JSON`;
  expect(await ended('--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining(refused) });
  expect(await ended('--program', 'gemini', '--yes')).toMatchObject({ code: 3 });
  expect(await ended('--agent', 'codex')).toMatchObject({ code: 2 });
  expect(await ended('--agent', 'vim=x')).toMatchObject({ code: 2 });
  expect(await ended('--agent', 'gemini=x', '--dry-run')).toMatchObject({ code: 3 });
  await rm(join(home, '.claude.json'));
  await symlink(join(home, 'absent'), join(home, '.claude.json'));
  const nowhere = `${join(home, '.claude.json')} is a symbolic link to a file that is not there`;
  expect(await ended('--yes')).toMatchObject({ code: 1, stderr: expect.stringContaining(nowhere) });
  await expect(read(here, 'poste', 'setup.json')).rejects.toThrow('ENOENT');
  const bare = await machine();
  expect(await runHere(['setup', '--yes'], { environment: bare })).toMatchObject({ code: 3 });
});

const NAME_QUESTION = 'Name of the agent for claude-code [claude]: ';

test('at a terminal it asks for names and for the tools, and does nothing without a yes', async () => {
  const here = await served('claude');
  const answered = async (firsts: string[], ...answers: string[]): Promise<unknown> => {
    const stdin = new PassThrough();
    const context = commandContext({ environment: here, stdin });
    for (const stream of [context.stdin, context.stderr]) Object.assign(stream, { isTTY: true });
    const questions = [...firsts, 'each time? [y/N] ', 'Do this? [y/N] '];
    context.stderr.on('more', () => {
      if (!context.stderr.text.includes(questions[0] ?? '\0')) return;
      questions.shift();
      const answer = answers.shift();
      setImmediate(() => stdin.write(`${answer}\r`));
    });
    return new CommandRun(['setup'], context).ended();
  };
  expect(await answered([NAME_QUESTION], 'backend', 'y', 'n')).toMatchObject({
    code: 1,
    stdout: expect.not.stringContaining('done'),
  });
  await expect(read(here, '.claude.json')).rejects.toThrow('ENOENT');
  expect(await answered([NAME_QUESTION, 'take another name.\n'], 'owner', 'backend', 'y', 'y')).toMatchObject({
    code: 0,
  });
  expect(await read(here, '.claude.json')).toContain('"backend"');
  expect(await read(here, '.claude', 'settings.json')).toContain('"mcp__poste"');
});

test('a setup with another agent changes the tools and the hooks that an earlier one wrote', async () => {
  const here = await served('claude', 'codex');
  await setup(here, '--yes');
  await setup(here, '--yes', '--agent', 'claude-code=builder', '--agent', 'codex=tester');
  for (const file of [['.claude.json'], ['.claude', 'settings.json']]) {
    expect(await read(here, ...file)).toMatch(/--default-agent\W+builder/);
    expect(await read(here, ...file)).not.toMatch(/--default-agent\W+claude/);
  }
  expect(await read(here, '.codex', 'config.toml')).toMatch(/"tester"/);
  expect(await read(here, '.codex', 'config.toml')).not.toMatch(/--default-agent\W+codex/);
  const again = await setup(here, '--yes', '--agent', 'claude-code=builder', '--agent', 'codex=tester');
  expect(new Set(again.map(({ state }) => state))).toEqual(new Set(['already']));
  const withoutFlags = await setup(here, '--yes');
  expect(new Set(withoutFlags.map(({ state }) => state))).toEqual(new Set(['already']));
  await setup(here, '--undo', '--yes');
  await expect(read(here, '.claude.json')).rejects.toThrow('ENOENT');
});

test('a daemon that undo started to remove the agents does not stay', async () => {
  const here = await machine('claude');
  expect(await runProcess(['setup', '--yes', '--json'], here)).toMatchObject({ code: 0 });
  const first = await daemonPid(here);
  if (first === undefined) throw new Error('setup started no daemon');
  await endDaemon(first);
  endDaemonAtEnd(here);
  const undone = await runProcess(['setup', '--undo', '--yes', '--json'], here);
  const { steps } = JSON.parse(undone.stdout) as SetupDocument;
  expect(steps.map(({ step, state }) => `${state}: ${step.replace(/ in \S+$/, '')}`)).toEqual([
    'undone: the hooks',
    'undone: the mail tools',
    'undone: the agent claude',
    'undone: the daemon that was started',
    'kept: the host',
  ]);
  await expect.poll(() => daemonPid(here)).toBeUndefined();
});

test('doctor and status name what setup wrote for a program that is gone, and how to write it again', async () => {
  const here = await served('claude', 'codex', 'gemini', 'opencode');
  await setup(here, '--yes', '--no-service');
  const found = async (): Promise<string[][]> => {
    const { stdout } = await runHere(['doctor', '--json'], { environment: here });
    const { checks } = JSON.parse(stdout) as { checks: Record<'id' | 'state' | 'sentence' | 'command', string>[] };
    return checks
      .filter(({ id }) => id === 'installed')
      .map(({ state, sentence, command }) => [state, command, sentence]);
  };
  expect(await found()).toEqual([['ok', null, expect.stringContaining('programs that are there')]]);
  const node = '/gone/v22/bin/node';
  const files = [['.claude.json'], ['.claude', 'settings.json'], ['.codex', 'config.toml'], ['.codex', 'hooks.json']];
  files.push(['.gemini', 'settings.json'], ['config', 'opencode', 'opencode.json']);
  files.push(['config', 'opencode', 'plugins', 'poste.js']);
  for (const file of files) {
    const text = (await read(here, ...file)).replaceAll(process.execPath, node);
    await writeFile(join(here['HOME'] ?? '', ...file), text);
  }
  const missing = expect.stringContaining(`runs ${node}, which is not there`);
  expect(await found()).toEqual(Array.from({ length: 8 }, () => ['broken', 'poste setup', missing]));
  const status = await runHere(['status'], { environment: here });
  expect(status.stdout).toContain(`runs ${node}, which is not there.\n    poste setup\n`);
  // Hooks that were installed for one agent are installed again for it.
  await runHere(['hooks', 'install', 'codex', '--agent', 'tester'], { environment: here });
  const hooks = (await read(here, '.codex', 'hooks.json')).replaceAll(process.execPath, node);
  await writeFile(pathIn(here, '.codex', 'hooks.json'), hooks);
  expect(await found()).toContainEqual(['broken', 'poste hooks install codex --agent tester', missing]);
});

test('a service whose file cannot be read is a note of doctor and status, and not their end', async () => {
  const here = await served('claude');
  const file = join(here['HOME'] ?? '', 'config', 'systemd', 'user', 'poste.service');
  await mkdir(file, { recursive: true });
  const sentence = `${file} cannot be read (EISDIR): repair that and try again`;
  const doctor = await runHere(['doctor', '--json'], { environment: here });
  expect((JSON.parse(doctor.stdout) as { checks: object[] }).checks).toContainEqual(
    expect.objectContaining({ area: 'daemon', id: 'installed', about: 'service', state: 'note', sentence }),
  );
  const status = await runHere(['status'], { environment: here });
  expect(status).toMatchObject({ code: 0, stderr: '' });
  const stop = await runHere(['daemon', 'logs'], { environment: here });
  expect(stop).toMatchObject({ code: 1, stderr: `poste: ${sentence}.\n` });
});

test('hooks are written as the version of the program takes them: an unknown one would cost all settings', async () => {
  const here = await machine();
  const install = ['hooks', 'install', 'claude-code', '--agent', 'claude'];
  const settings = ['.claude', 'settings.json'];
  for (const [version, isKnown] of [
    ['2.1.77', false],
    ['2.1.330', true],
    ['unclear', false],
  ] as const) {
    await addProgram(here, 'claude', `#!/bin/sh\n[ "$*" = --version ] && echo '${version} (Claude Code)'\n`);
    expect(await runHere(install, { environment: here })).toMatchObject({ code: 0 });
    expect((await read(here, ...settings)).includes('StopFailure')).toBe(isKnown);
  }
});
