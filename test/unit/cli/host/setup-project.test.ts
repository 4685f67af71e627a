/** `poste setup --project` and `--notes`: agents of their own for the checkouts on one machine, and their way back. */
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runHere } from '../../../support/command-run.ts';
import { connectMcpHere } from '../../../support/mcp-client.ts';
import { type Environment, poste } from '../../../support/poste-process.ts';
import { pathIn, read, served, setup, type SetupStep } from '../../../support/setup-machine.ts';

async function checkout(here: Environment, ...names: string[]): Promise<string> {
  const folder = pathIn(here, ...names);
  await mkdir(join(folder, '.git'), { recursive: true });
  return folder;
}

async function agents(here: Environment): Promise<string[]> {
  const { stdout } = await runHere(['agent', 'list', '--json'], { environment: here });
  return (JSON.parse(stdout) as { agents: { name: string }[] }).agents.map(({ name }) => name).toSorted();
}

const statesOf = (steps: SetupStep[]): string[] => steps.map(({ state, step }) => `${state}: ${step}`);

async function refused(here: Environment, ...args: string[]): Promise<string> {
  const { code, stderr } = await runHere(['setup', ...args], { environment: here });
  expect(code).not.toBe(0);
  return stderr;
}

async function sessionsOf(here: Environment, agent: string): Promise<string[]> {
  const { stdout } = await runHere(['session', 'list', '--as', agent, '--json'], { environment: here });
  return (JSON.parse(stdout) as { sessions: { session_id: string }[] }).sessions.map(({ session_id }) => session_id);
}

describe('agents of a project', () => {
  test('each checkout gets its own, with a name of its folder; a second time changes nothing', async () => {
    const here = await served('claude', 'codex');
    const [shop, other] = [await checkout(here, 'shop'), await checkout(here, 'other', 'Shop')];
    const steps = statesOf(await setup(here, '--yes', '--project', shop));
    expect(steps).toContain('done: add the agent claude-shop');
    expect(steps).toContain(`done: let codex in ${shop} act for codex-shop`);
    await setup(here, '--yes', '--project', other);
    // Names are compared lowercased.
    expect(await agents(here)).toEqual(
      ['claude', 'claude-shop', 'claude-Shop-2', 'codex', 'codex-shop', 'codex-Shop-2'].toSorted(),
    );
    const again = await setup(here, '--yes', '--project', other);
    expect(new Set(again.map(({ state }) => state))).toEqual(new Set(['already']));
    expect(await readdir(shop)).toEqual(['.git']);
  });

  test.each([
    ['zwei Wörter!', 'claude-zwei-Worter'],
    ['.hidden', 'claude-hidden'],
    ['…', 'claude-project'],
    ['x'.repeat(80), `claude-${'x'.repeat(57)}`],
  ])('the name of %j is one that an agent can have: %s', async (name, agent) => {
    const here = await served('claude');
    const folder = await checkout(here, name);
    await setup(here, '--yes', '--project', folder);
    expect(await agents(here)).toContain(agent);
  });

  test('an agent of this host keeps its name, and --agent gives the project one on purpose', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    await runHere(['agent', 'add', 'claude-shop'], { environment: here });
    const dry = statesOf(await setup(here, '--dry-run', '--project', shop));
    expect(dry).toContain(`planned: let claude-code in ${shop} act for claude-shop-2`);
    expect(existsSync(pathIn(here, 'poste', 'projects.json'))).toBe(false);
    await setup(here, '--yes', '--project', shop, '--agent', 'claude-code=claude-shop');
    const document = JSON.parse(await read(here, 'poste', 'projects.json')) as object;
    expect(document).toEqual({ version: 1, projects: { [shop]: { 'claude-code': 'claude-shop' } } });
    // The agent of all other folders is what it was.
    expect(await agents(here)).toEqual(['claude', 'claude-shop']);
    await setup(here, '--yes', '--project', shop);
    expect(await agents(here)).toEqual(['claude', 'claude-shop']);
  });

  test('mail tools that name their agent themselves stay, and so does their agent', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    const entry = { mcpServers: { poste: { command: 'poste', args: ['mcp', '--agent', 'mine'] } } };
    await writeFile(pathIn(here, '.claude.json'), JSON.stringify(entry));
    const steps = await setup(here, '--yes', '--project', shop);
    const why = `the MCP server poste in ${pathIn(here, '.claude.json')} names its agent itself: remove it there`;
    expect(steps).toContainEqual({
      step: `the agent of claude-code in ${shop}`,
      state: 'kept',
      why: expect.stringContaining(why),
    });
  });

  test.each([
    [['--project', '/nowhere/at-all'], 'there is no folder /nowhere/at-all'],
    [['--project', 'package.json'], 'there is no folder'],
    [['--notes', '--undo'], 'cannot be used with'],
  ])('%j is refused with a remedy', async (args, why) => {
    expect(await refused(await served('claude'), ...args, '--yes')).toContain(why);
  });

  test('without a folder it is the git checkout around the working folder, also of a worktree', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    const worktree = pathIn(here, 'tree');
    await mkdir(join(worktree, 'src'), { recursive: true });
    await writeFile(join(worktree, '.git'), `gitdir: ${shop}/.git/worktrees/tree\n`);
    await mkdir(join(shop, 'src', 'deep'), { recursive: true });
    const run = (folder: string, ...args: string[]) =>
      poste(['setup', ...args], here, { under: ['/usr/bin/env', '-C', folder] }).ended();
    expect((await run(join(shop, 'src', 'deep'), '--dry-run', '--project')).stdout).toContain(
      `in ${shop} act for claude-shop`,
    );
    expect((await run(join(worktree, 'src'), '--dry-run', '--project')).stdout).toContain(
      `in ${worktree} act for claude-tree`,
    );
    const outside = await run(pathIn(here), '--dry-run', '--project');
    expect(outside.stderr).toContain('this folder is in no git checkout: name the folder of the project');
  });

  test('a file of projects that cannot be read stops setup before it changes anything', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    await writeFile(pathIn(here, 'poste', 'projects.json'), '{');
    expect(await refused(here, '--yes', '--project', shop)).toContain('cannot be read (no JSON)');
    expect(existsSync(pathIn(here, '.claude.json'))).toBe(false);
  });
});

describe('the sessions in a project', () => {
  const START = { session_id: 's-1', hook_event_name: 'SessionStart' };
  test.each([
    ['in the project', [], {}, 'claude-shop'],
    ['in the project, for POSTE_AGENT', [], { POSTE_AGENT: 'other' }, 'other'],
    ['in the project, for a flag', ['--agent', 'flagged'], { POSTE_AGENT: 'other' }, 'flagged'],
  ])('are reported %s by the hooks: of %j and %j for %s', async (_where, flags, environment, agent) => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    await setup(here, '--yes', '--project', shop);
    for (const name of ['other', 'flagged']) await runHere(['agent', 'add', name], { environment: here });
    const hook = ['hooks', 'run', 'claude-code', '--default-agent', 'claude', ...flags];
    const stdin = JSON.stringify({ ...START, cwd: join(shop, 'src') });
    await runHere(hook, { environment: { ...here, ...environment }, stdin });
    expect(await sessionsOf(here, agent)).toEqual(['s-1']);
    expect(await sessionsOf(here, 'claude')).toEqual([]);
    await runHere(hook, {
      environment: here,
      stdin: JSON.stringify({ ...START, session_id: 's-2', cwd: here['HOME'] }),
    });
    expect(await sessionsOf(here, flags.length > 0 ? 'flagged' : 'claude')).toContain('s-2');
  });

  test('have the mail tools of its agent, and the plugin of OpenCode asks for it', async () => {
    const here = await served('claude', 'opencode');
    // The working folder of this process, in which the tools start.
    await setup(here, '--yes', '--project', '.', '--agent', 'claude-code=mine', '--agent', 'opencode=writes');
    const tools = ['--program', 'claude-code', '--default-agent', 'claude'];
    const { client } = await connectMcpHere(here, tools);
    const mail = { to: ['claude'], subject: 'Hello', body: 'Who are you?' };
    expect(await client.callTool({ name: 'mail_send', arguments: mail })).not.toHaveProperty('isError', true);
    await client.close();
    const listed = await runHere(['inbox', 'list', '--as', 'claude', '--json'], { environment: here });
    expect(listed.stdout).toMatch(/"from":"mine(?:@here)?"/);
    const plugin = ['hooks', 'agent', 'opencode', '--default-agent', 'opencode'];
    expect(await runHere(plugin, { environment: here })).toMatchObject({ code: 0, stdout: 'writes\n' });
    const codex = ['hooks', 'agent', 'codex'];
    expect(await runHere(codex, { environment: here })).toMatchObject({ code: 0, stdout: '' });
  });
});

describe('what is undone', () => {
  test('--undo with --project takes back one checkout; the rest goes with --undo', async () => {
    const here = await served('claude');
    const [shop, tree] = [await checkout(here, 'shop'), await checkout(here, 'tree')];
    await writeFile(join(shop, 'CLAUDE.md'), 'Be kind.');
    await setup(here, '--yes', '--project', shop, '--notes');
    await setup(here, '--yes', '--project', tree, '--notes');
    expect(statesOf(await setup(here, '--undo', '--yes', '--project', shop))).toEqual([
      `undone: the notes on mail in ${join(shop, 'CLAUDE.md')}`,
      `undone: the agent of claude-code in ${shop}`,
      'undone: the agent claude-shop',
    ]);
    expect(await readFile(join(shop, 'CLAUDE.md'), 'utf8')).toBe('Be kind.');
    expect(await readdir(shop)).toEqual(['.git', 'CLAUDE.md']);
    expect(await agents(here)).toEqual(['claude', 'claude-tree']);
    expect(existsSync(join(tree, 'CLAUDE.md'))).toBe(true);
    await setup(here, '--undo', '--yes');
    expect(await agents(here)).toEqual([]);
    expect(await readdir(tree)).toEqual(['.git']);
    expect(existsSync(pathIn(here, 'poste', 'projects.json'))).toBe(false);
  });

  test('what was done for a checkout that is gone can be undone', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    await setup(here, '--yes', '--project', shop, '--notes');
    await rm(shop, { recursive: true });
    const undone = await setup(here, '--undo', '--yes', '--project', shop);
    expect(new Set(undone.map(({ state }) => state))).toEqual(new Set(['undone']));
    expect(await agents(here)).toEqual(['claude']);
    expect(existsSync(shop)).toBe(false);
  });

  test('doctor names a checkout that is gone, and undo takes it by a path through a symbolic link', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'work', 'shop');
    await setup(here, '--yes', '--project', shop);
    const doctor = async () => (await runHere(['doctor'], { environment: here })).stdout;
    expect(await doctor()).not.toContain('is gone');
    await rm(shop, { recursive: true });
    expect(await doctor()).toContain(`the checkout ${shop} is gone`);
    symlinkSync(pathIn(here, 'work'), pathIn(here, 'linked'));
    await setup(here, '--undo', '--yes', '--project', pathIn(here, 'linked', 'shop'));
    expect(await agents(here)).toEqual(['claude']);
    expect(await doctor()).not.toContain('is gone');
  });

  test('an agent that was chosen since stays the one of the project', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    await setup(here, '--yes', '--project', shop);
    const file = pathIn(here, 'poste', 'projects.json');
    await writeFile(file, readFileSync(file, 'utf8').replace('claude-shop', 'mine'));
    expect(await setup(here, '--undo', '--yes', '--project', shop)).toContainEqual({
      step: `the agent of claude-code in ${shop}`,
      state: 'kept',
      why: 'it is mine now',
    });
    expect(readFileSync(file, 'utf8')).toContain('mine');
  });
});

describe('the notes on mail', () => {
  test('stand in the file of each program once, and in one that takes the other in not at all', async () => {
    const here = await served('claude', 'codex', 'gemini', 'opencode');
    const shop = await checkout(here, 'shop');
    await setup(here, '--yes', '--project', shop, '--notes');
    expect((await readdir(shop)).toSorted()).toEqual(['.git', 'AGENTS.md', 'CLAUDE.md', 'GEMINI.md']);
    const tree = await checkout(here, 'tree');
    await writeFile(join(tree, 'CLAUDE.md'), '# Ours\n@AGENTS.md\n');
    await writeFile(join(tree, 'AGENTS.md'), 'Rules.\n');
    symlinkSync('AGENTS.md', join(tree, 'GEMINI.md'));
    const steps = statesOf(await setup(here, '--yes', '--project', tree, '--notes'));
    expect(steps.filter((step) => step.includes('notes'))).toEqual([
      `done: add the notes on mail to ${join(tree, 'AGENTS.md')}`,
    ]);
    expect(await readFile(join(tree, 'CLAUDE.md'), 'utf8')).toBe('# Ours\n@AGENTS.md\n');
  });

  test('are only planned by a dry run; markers that are no pair stop setup before any change', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    const file = join(shop, 'CLAUDE.md');
    const dry = statesOf(await setup(here, '--dry-run', '--project', shop, '--notes'));
    expect(dry).toContain(`planned: add the notes on mail to ${file}`);
    expect(existsSync(file)).toBe(false);
    await writeFile(file, '<!-- poste: begin -->\n');
    expect(await refused(here, '--yes', '--project', shop, '--notes')).toContain('markers of Poste that are no pair');
    expect(existsSync(pathIn(here, '.claude.json'))).toBe(false);
  });

  test('that their owner wrote around stay readable: only what is between the markers goes', async () => {
    const here = await served('claude');
    const shop = await checkout(here, 'shop');
    const file = join(shop, 'CLAUDE.md');
    await setup(here, '--yes', '--project', shop, '--notes');
    await writeFile(file, `${await readFile(file, 'utf8')}\nOurs.\n`);
    await setup(here, '--undo', '--yes', '--project', shop);
    expect(await readFile(file, 'utf8')).toBe('\nOurs.\n');
  });
});
