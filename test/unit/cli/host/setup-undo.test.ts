/** `poste setup` beside what others wrote, and its undo. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { runHere } from '../../../support/command-run.ts';
import { copiesIn, machine, pathIn, read, setup, type SetupDocument, served } from '../../../support/setup-machine.ts';

const CODEX = ['.codex', 'config.toml'] as const;
const CRUSH = ['config', 'crush', 'crush.json'] as const;
const GEMINI = ['.gemini', 'settings.json'] as const;

test('undo prints a line for each thing, and removes the copies that setup made', async () => {
  const here = await served('claude');
  const before = '{"projects":{}}';
  await writeFile(pathIn(here, '.claude.json'), before);
  await setup(here, '--yes', '--allow-tools');
  await setup(here, '--yes', '--agent', 'claude-code=builder');
  expect(await copiesIn(here)).not.toEqual([]);
  const settings = pathIn(here, '.claude', 'settings.json');
  const steps = [
    `the hooks in ${settings}`,
    `the mail tools in ${pathIn(here, '.claude.json')}`,
    'the agent builder',
    `the rule that allows the mail tools in ${settings}`,
    'the agent claude',
  ];
  const dry = await runHere(['setup', '--undo', '--dry-run'], { environment: here });
  expect(dry.stdout).toBe(steps.map((step) => `to undo: ${step}\n`).join(''));
  expect(await setup(here, '--undo', '--dry-run')).toEqual(steps.map((step) => ({ step, state: 'planned' })));
  const { code, stdout, stderr } = await runHere(['setup', '--undo', '--yes'], { environment: here });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.replace(/^to undo: .*\n/gm, '')).toBe(steps.map((step) => `undone: ${step}\n`).join(''));
  expect(await copiesIn(here)).toEqual([]);
  expect(await read(here, '.claude.json')).toBe(before);
  expect(existsSync(settings)).toBe(false);
  const again = await runHere(['setup', '--undo', '--yes'], { environment: here });
  expect(again).toMatchObject({ code: 0, stdout: 'There is nothing to undo.\n', stderr: '' });
});

test('a file that setup changes twice has one copy to tell of: what its owner had', async () => {
  const here = await served('claude', 'gemini');
  await mkdir(pathIn(here, '.gemini'));
  await writeFile(pathIn(here, ...GEMINI), '{"theme":"dark"}');
  const { stdout } = await runHere(['setup', '--yes', '--allow-tools'], { environment: here });
  const told = stdout.split('\n').filter((line) => line.startsWith('The previous '));
  expect(told).toHaveLength(1);
  const [, copy = ''] = /is (\S+)\.$/.exec(told[0] ?? '') ?? [];
  expect(await readFile(copy, 'utf8')).toBe('{"theme":"dark"}');
});

test('where the owner changed a file after setup, undo takes out its part and names the copies', async () => {
  const here = await served('claude');
  const file = pathIn(here, '.claude.json');
  await writeFile(file, '{"projects":{}}');
  await setup(here, '--yes');
  await writeFile(file, (await readFile(file, 'utf8')).replace('{', '{"theme":"dark",'));
  const undone = await setup(here, '--undo', '--yes');
  const { copies = [] } = undone.find(({ step }) => step === `the mail tools in ${file}`) ?? {};
  expect(copies).toHaveLength(2);
  expect(await readFile(copies[0] ?? '', 'utf8')).toBe('{"projects":{}}');
  expect((await copiesIn(here)).map((name) => pathIn(here, name)).toSorted()).toEqual(copies.toSorted());
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({ theme: 'dark', projects: {} });
});

test('a server that was changed after setup is left, and undo says why', async () => {
  const here = await served('claude', 'codex');
  await setup(here, '--yes');
  await writeFile(pathIn(here, '.claude.json'), (await read(here, '.claude.json')).replace('"claude"', '"mine"'));
  await writeFile(pathIn(here, ...CODEX), (await read(here, ...CODEX)).replace('t", "codex"', 't", "mine"'));
  const texts = [await read(here, '.claude.json'), await read(here, ...CODEX)];
  const undone = await setup(here, '--undo', '--yes');
  for (const names of [['.claude.json'], CODEX]) {
    expect(undone).toContainEqual({
      step: `the mail tools in ${pathIn(here, ...names)}`,
      state: 'kept',
      why: expect.stringMatching(/^it was changed after setup, and now is .* --default-agent mine; remove it there/),
    });
  }
  expect([await read(here, '.claude.json'), await read(here, ...CODEX)]).toEqual(texts);
});

function starting(text: string): string {
  return text.replace(/("--default-agent",\s*)"claude"/, '$&, "--start"');
}

test('mail tools with the flag --start, as an earlier version wrote them, are up to date, and undone', async () => {
  const here = await served('claude');
  await setup(here, '--yes');
  for (const names of [['.claude.json'], ['poste', 'setup.json']])
    await writeFile(pathIn(here, ...names), starting(await read(here, ...names)));
  expect(await read(here, '.claude.json')).toContain('"--start"');
  expect((await setup(here, '--yes')).map(({ state }) => state)).toEqual([
    'already',
    'already',
    'already',
    'already',
    'already',
  ]);
  const step = `the mail tools in ${pathIn(here, '.claude.json')}`;
  expect(await setup(here, '--undo', '--yes')).toContainEqual(expect.objectContaining({ step, state: 'undone' }));
});

test('what Codex writes into the server of Poste goes with it, and the rest of the file stays', async () => {
  const here = await served('codex');
  await mkdir(pathIn(here, '.codex'));
  await writeFile(pathIn(here, ...CODEX), '# mine\nmodel = "o"\n');
  await setup(here, '--yes', '--allow-tools');
  const added = '\n[mcp_servers.poste.tools.mail_send]\napproval_mode = "approve"\n\n[tui]\ntheme = "x"\n';
  await writeFile(pathIn(here, ...CODEX), `${await read(here, ...CODEX)}${added}`);
  const undone = await setup(here, '--undo', '--yes');
  expect(undone.map(({ state }) => state)).toEqual(['undone', 'undone', 'undone', 'undone']);
  expect(await read(here, ...CODEX)).toBe('# mine\nmodel = "o"\n\n[tui]\ntheme = "x"\n');
});

test('the names of tools that Crush allowed before setup stay, also in a file that was changed since', async () => {
  const here = await served('crush');
  await mkdir(pathIn(here, 'config', 'crush'), { recursive: true });
  await writeFile(pathIn(here, ...CRUSH), '{"permissions":{"allowed_tools":["view","mcp_poste_mail_inbox"]}}');
  await setup(here, '--yes', '--allow-tools');
  const after = await read(here, ...CRUSH);
  expect(after).toContain('mcp_poste_mail_send');
  await writeFile(pathIn(here, ...CRUSH), after.replace('{', '{"options":{},'));
  await setup(here, '--undo', '--yes');
  expect(JSON.parse(await read(here, ...CRUSH))).toEqual({
    options: {},
    permissions: { allowed_tools: ['view', 'mcp_poste_mail_inbox'] },
  });
});

test.each([
  ['qwen', 'settings.json', '"args"', '"trust": true, "args"'],
  ['codex', 'config.toml', 'args =', 'default_tools_approval_mode = "approve"\nargs ='],
])('tools that the owner of %s allowed are not recorded as allowed by setup', async (program, name, from, to) => {
  const here = await served(program);
  const file = [`.${program}`, name];
  await setup(here, '--yes');
  await writeFile(pathIn(here, ...file), (await read(here, ...file)).replace(from, to));
  // The server is written anew for the other agent, and the approval in it stays.
  await setup(here, '--yes', '--allow-tools', '--agent', `${program}=builder`);
  expect(await read(here, ...file)).toContain(to.split(/[,\n]/)[0]);
  const steps = (await setup(here, '--undo', '--dry-run')).map(({ step }) => step);
  expect(steps.some((step) => step.startsWith('the mail tools in'))).toBe(true);
  expect(steps.filter((step) => step.startsWith('the rule'))).toEqual([]);
});

test('a server called poste that setup did not write is shown as what it is, and gets no rights', async () => {
  const here = await served('claude', 'codex', 'gemini');
  const foreign = '{"mcpServers":{"poste":{"command":"mail-bot","args":["--x"]}}}';
  await mkdir(pathIn(here, '.gemini'));
  await writeFile(pathIn(here, ...GEMINI), foreign);
  const byHand = '{"mcpServers":{"poste":{"command":"poste","args":["mcp","--agent","Claude"]}}}';
  await writeFile(pathIn(here, '.claude.json'), byHand);
  await mkdir(pathIn(here, '.codex'));
  const codex = '[mcp_servers.poste]\ncommand = "poste"\nargs = ["mcp", "--agent", "tester"]\n';
  await writeFile(pathIn(here, ...CODEX), codex);
  const steps = await setup(here, '--yes', '--allow-tools', '--agent', 'codex=other');
  const server = `the MCP server poste in ${pathIn(here, ...GEMINI)}`;
  const why = expect.stringMatching(/^it is another one, mail-bot --x: remove it there/) as string;
  expect(steps).toContainEqual({ step: server, state: 'kept', why });
  expect(steps).toContainEqual({
    step: `the rules in ${pathIn(here, ...GEMINI)}`,
    state: 'kept',
    why: expect.any(String),
  });
  const settings = JSON.parse(await read(here, ...GEMINI)) as { mcpServers: unknown };
  expect({ mcpServers: settings.mcpServers }).toEqual(JSON.parse(foreign));
  const tools = `add the mail tools of Claude to ${pathIn(here, '.claude.json')}`;
  expect(steps).toContainEqual({ step: tools, state: 'already' });
  const other = expect.stringContaining(
    'it has the mail tools of tester: leave out --agent to use that agent, or',
  ) as string;
  expect(steps).toContainEqual({
    step: `the MCP server poste in ${pathIn(here, ...CODEX)}`,
    state: 'kept',
    why: other,
  });
  expect(await read(here, ...CODEX)).toBe(codex);
  const plan = await runHere(['setup', '--dry-run'], { environment: here });
  expect(plan.stdout).toContain(`kept: ${server} (it is another one, mail-bot --x`);
  expect(plan.stdout).toContain('already: add the mail tools of tester');
  await setup(here, '--undo', '--yes');
  expect(JSON.parse(await read(here, ...GEMINI))).toEqual(JSON.parse(foreign));
  expect([await read(here, '.claude.json'), await read(here, ...CODEX)]).toEqual([byHand, codex]);
});

test.each(['claude', 'mine'])(
  'hooks of %s that stood there before setup are put back with the file, or left',
  async (agent) => {
    const here = await served('claude');
    const install = ['hooks', 'install', 'claude-code', '--agent', agent];
    expect(await runHere(install, { environment: here })).toMatchObject({ code: 0 });
    const before = await read(here, '.claude', 'settings.json');
    await setup(here, '--yes');
    await setup(here, '--undo', '--yes');
    expect(await read(here, '.claude', 'settings.json')).toBe(before);
    if (agent === 'claude') return;
    await setup(here, '--yes');
    const changed = (await read(here, '.claude', 'settings.json')).replace('{', '{"theme":"dark",');
    await writeFile(pathIn(here, '.claude', 'settings.json'), changed);
    const undone = await setup(here, '--undo', '--yes');
    expect(undone[0]).toMatchObject({ state: 'kept', why: 'hooks of Poste stood there before setup' });
    expect(await read(here, '.claude', 'settings.json')).toBe(changed);
  },
);

test('an agent that sent or got mail, or has another name now, is left', async () => {
  const here = await served('claude', 'codex', 'gemini', 'opencode');
  await setup(here, '--yes');
  const send = ['send', '--as', 'claude', '--to', 'codex', '--subject', 'Hello', '--body', 'Who are you?'];
  expect(await runHere(send, { environment: here })).toMatchObject({ code: 0 });
  expect(await runHere(['agent', 'rename', 'gemini', 'tester'], { environment: here })).toMatchObject({ code: 0 });
  const undone = await setup(here, '--undo', '--yes');
  const agents = undone.filter(({ step }) => step.startsWith('the agent '));
  expect(agents).toEqual([
    { step: 'the agent opencode', state: 'undone' },
    { step: 'the agent gemini', state: 'kept', why: 'you renamed it: it is tester now' },
    { step: 'the agent codex', state: 'kept', why: 'it has mail; poste agent remove codex deletes both' },
    { step: 'the agent claude', state: 'kept', why: 'it has sent mail; poste agent remove claude deletes both' },
  ]);
  expect(await runHere(['sent', '--as', 'claude'], { environment: here })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Hello'),
  });
});

test('settings with comments are put back to the byte; those that cannot be read can be left out', async () => {
  const here = await served('claude', 'gemini');
  const commented = '\uFEFF{\r\n  // at night\r\n  "theme": "dark", // always\r\n}\r\n';
  await mkdir(pathIn(here, '.gemini'));
  await writeFile(pathIn(here, ...GEMINI), commented);
  await writeFile(pathIn(here, '.claude.json'), '{');
  const refused = await runHere(['setup', '--yes'], { environment: here });
  const leaveOut = 'repair it and try again, or leave out claude-code with --program gemini';
  const advice = `${pathIn(here, '.claude.json')} is no JSON: ${leaveOut}.`;
  expect(refused).toMatchObject({ code: 1, stdout: '', stderr: `poste: ${advice}\n` });
  await setup(here, '--yes', '--allow-tools', '--program', 'gemini');
  expect(await read(here, ...GEMINI)).toMatch(/^\uFEFF\{\r\n {2}\/\/ at night\r\n {2}"theme": "dark", \/\/ always\r\n/);
  expect(await read(here, ...GEMINI)).toContain('"trust": true');
  await setup(here, '--undo', '--yes');
  expect(await read(here, ...GEMINI)).toBe(commented);
});

test.each([
  [['--undo', '--program', 'claude-code'], "option '--undo' cannot be used with option '--program <name...>'"],
  [['--undo', '--no-service'], "option '--undo' cannot be used with option '--no-service'"],
  [['--undo', '--agent', 'codex=x'], "option '--undo' cannot be used with option '--agent <program=name>'"],
  [
    ['--agent', 'claude=x'],
    'Give one of claude-code, codex, gemini, qwen, opencode, copilot, cline, crush, then = and the agent',
  ],
  [['--agent', 'codex'], 'then = and the agent: codex=builder'],
  [['--agent', 'codex='], "An agent's name has letters, digits"],
  [['--agent', 'codex=a=b'], "An agent's name has letters, digits"],
  [['--agent', 'codex=Owner'], 'Owner means the owner or the host itself: take another name'],
  [['--agent', 'codex=x', '--agent', 'codex=y'], 'codex has the agent x already'],
  [
    ['--program', 'claude-code', '--agent', 'codex=x'],
    'is for a program that --program does not name: add codex there',
  ],
  [['--program', 'claude'], 'Allowed choices are claude-code, codex, gemini, qwen, opencode, copilot, cline, crush'],
  [['--program'], 'argument missing'],
  [['claude'], 'too many arguments'],
])('wrong arguments are refused, and nothing is changed: %j', async (args, why) => {
  const here = await machine('claude', 'codex');
  const { code, stderr } = await runHere(['setup', '--yes', ...args], { environment: here });
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(why) });
  expect(existsSync(pathIn(here, 'poste'))).toBe(false);
});

test('as a document, a setup without --yes shows its plan to who is asked', async () => {
  const here = await served('claude');
  const { code, stdout, stderr } = await runHere(['setup', '--json'], { environment: here, typed: 'y\r' });
  expect(code).toBe(0);
  expect((JSON.parse(stdout) as SetupDocument).steps).toHaveLength(5);
  expect(stderr).toContain('to do: add the agent claude\n');
});

test.each([
  ['{', 'no JSON'],
  ['{}', 'not what this version of Poste writes'],
  ['null', 'not what this version of Poste writes'],
  ['{"version":2,"written":[]}', 'not what this version of Poste writes'],
])('a record that cannot be read stops setup and its undo: %s', async (text, why) => {
  const here = await machine('claude', 'codex');
  await mkdir(pathIn(here, 'poste'));
  await writeFile(pathIn(here, 'poste', 'setup.json'), text);
  const stderr =
    `poste: ${pathIn(here, 'poste', 'setup.json')}, which keeps what poste setup did, cannot be read (${why}): ` +
    'repair it, or move it away if you will not undo what setup did.\n';
  for (const args of [['--yes'], ['--undo', '--yes']]) {
    expect(await runHere(['setup', ...args], { environment: here })).toMatchObject({ code: 1, stdout: '', stderr });
  }
});

test('a folder that cannot be the host is named before anything is done', async () => {
  const here = await machine('claude');
  await writeFile(pathIn(here, 'file'), '');
  const no = await runHere(['setup', '--yes'], { environment: { ...here, POSTE_HOME: pathIn(here, 'file') } });
  expect(no).toMatchObject({ code: 1, stderr: expect.stringContaining('/file cannot be used as the folder of this') });
  const long = pathIn(here, 'a'.repeat(120));
  const tooLong = await runHere(['setup', '--yes'], { environment: { ...here, POSTE_HOME: long } });
  expect(tooLong).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('the path of the local socket'),
  });
  expect(existsSync(long)).toBe(false);
});

test('the first mail goes between two agents, or from the owner to the only one', async () => {
  const here = await served('claude', 'codex');
  const next = async (...args: string[]): Promise<string> =>
    (await runHere(['setup', '--yes', ...args], { environment: here })).stdout.split('\n').at(-2) ?? '';
  expect(await next()).toContain('poste send --as claude --to codex');
  const shown = await next('--agent', 'codex=claude');
  expect(shown).toContain('poste send --as owner --to claude');
  // As it is shown, so that no command line holds the body.
  const [, body = '', words = ''] = /^ {2}echo '(.*)' \| poste (.*)$/.exec(shown) ?? [];
  const sent = await runHere([...words.split(' '), '--json'], { environment: here, stdin: `${body}\n` });
  expect({ code: sent.code, stderr: sent.stderr }).toEqual({ code: 0, stderr: '' });
  const id = (JSON.parse(sent.stdout) as { message_id: string }).message_id;
  const read = await runHere(['inbox', 'read', '--as', 'claude', id, '--json'], { environment: here });
  expect(JSON.parse(read.stdout)).toMatchObject({ messages: [{ body: 'Who are you?\n' }] });
});
