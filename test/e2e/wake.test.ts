/** Agents that are woken, with the program's side of each hook played by the test: `sh -c` and the documented stdin. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { SendResult } from '../../src/host/contract/mail.ts';
import type { SessionListResult, SessionState } from '../../src/host/contract/agents.ts';
import { type CommandRun, daemonHere, runHere } from '../support/command-run.ts';
import { type Ended, poste } from '../support/poste-process.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';

interface Hooked {
  hooks: Record<string, { hooks: { command: string }[] }[]>;
}

/** A host with alice and bob, and a folder for the settings of programs. */
class Home {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;

  constructor(folder: string) {
    this.folder = folder;
    this.environment = {
      POSTE_HOME: join(folder, 'poste'),
      CLAUDE_CONFIG_DIR: join(folder, 'claude'),
      CODEX_HOME: join(folder, 'codex'),
      GEMINI_CLI_HOME: folder,
      QWEN_HOME: join(folder, '.qwen'),
      XDG_CONFIG_HOME: join(folder, 'config'),
    };
  }

  run(...args: string[]): Promise<Ended> {
    return runHere(args, { environment: this.environment });
  }

  async json<T>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  daemon(): Promise<CommandRun> {
    return daemonHere(this.environment);
  }

  /** A request of alice to bob; how bob is told. */
  async request(): Promise<string | undefined> {
    const args = [
      'send',
      '--as',
      'alice',
      '--to',
      'bob',
      '--subject',
      'SUBJECT',
      '--body',
      'BODY',
      '--kind',
      'request',
    ];
    const { recipients } = await this.json<SendResult>(...args);
    return recipients[0]?.status;
  }

  /** Calls an installed hook as its program does; `waits`: the second one of the event. */
  hook(
    settings: Hooked,
    event: string,
    environment: Readonly<Record<string, string>> = {},
    { waits = false, prompt = 'go', program }: { waits?: boolean; prompt?: string; program?: string } = {},
  ): Promise<Ended> {
    const commands = settings.hooks[event]?.flatMap(({ hooks }) => hooks.map(({ command }) => command)) ?? [];
    const command = commands.find((line) => line.includes('poste-hook') && line.endsWith(' --wait') === waits) ?? '';
    // The program itself: without a shell that stays between it and the hook.
    const [file = '', ...args] = program === undefined ? ['/bin/sh', '-c', command] : [process.execPath, program];
    const child = spawn(file, args, {
      env: { PATH: process.env['PATH'], HOME: this.folder, COMMAND: command, ...this.environment, ...environment },
    });
    onTestFinished(() => {
      child.kill('SIGKILL');
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    child.stdin.end(JSON.stringify({ session_id: 's-1', hook_event_name: event, cwd: '/', prompt }));
    return once(child, 'close').then(([code, signal]) => ({ code, signal, stdout, stderr }));
  }

  async session(): Promise<SessionListResult['sessions'][number] | undefined> {
    return (await this.json<SessionListResult>('session', 'list')).sessions[0];
  }
}

async function home(): Promise<Home> {
  const made = new Home(await temporaryFolder());
  await made.json('init', '--host', 'here');
  return made;
}

async function homeWithAgents(): Promise<{ here: Home; daemon: CommandRun }> {
  const here = await home();
  const daemon = await here.daemon();
  for (const name of ['alice', 'bob']) await here.json('agent', 'add', name);
  return { here, daemon };
}

async function settingsOf(path: string): Promise<Hooked> {
  return JSON.parse(await readFile(path, 'utf8')) as Hooked;
}

const context = (event: string): object => ({
  hookSpecificOutput: { hookEventName: event, additionalContext: TEXT },
});

describe('Claude Code', () => {
  test('is told at its start and its prompts, woken when idle, and gone when it ends', async () => {
    const { here, daemon } = await homeWithAgents();
    await here.json('hooks', 'install', 'claude-code', '--agent', 'bob');
    const settings = await settingsOf(join(here.folder, 'claude', 'settings.json'));
    expect(await here.request()).toBe('offline');
    const start = await here.hook(settings, 'SessionStart');
    expect(start).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(start.stdout)).toEqual(context('SessionStart'));
    // It was told, so it is idle in peace until something else comes; it was never prompted. What the sender is told
    // when the proof is in time, unit/host/hooks/wake-proof.test.ts has.
    const idle = here.hook(settings, 'SessionStart', {}, { waits: true });
    const sending = here.request();
    const woken = await idle;
    expect(woken).toMatchObject({ code: 2, stdout: '' });
    expect(woken.stderr).toMatch(/^You have \d+ unread messages in Poste\. Read them with mail_inbox\.\n$/);
    const prompted = here.hook(settings, 'UserPromptSubmit', {}, { prompt: `feedback: ${woken.stderr}` });
    await sending;
    expect(await prompted).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect(await here.session()).toMatchObject({ agent: 'bob', presence: 'live', wake: ['hook'] });
    const unattended = { CLAUDE_CODE_SESSION_ATTENDED: '0' };
    expect(await here.hook(settings, 'Stop', unattended)).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect(await here.hook(settings, 'SessionEnd')).toMatchObject({ code: 0, stdout: '', stderr: '' });
    expect(await here.session()).toMatchObject({ presence: 'ended' });
    daemon.signal('SIGTERM');
    expect(await daemon.ended()).toMatchObject({ code: 0 });
    for (const event of ['SessionStart', 'UserPromptSubmit', 'Stop', 'SessionEnd']) {
      expect(await here.hook(settings, event)).toMatchObject({ code: 0, stdout: '', stderr: '' });
    }
  });

  test('has its settings back when the hooks are uninstalled', async () => {
    const here = await home();
    await mkdir(join(here.folder, 'claude'));
    const file = join(here.folder, 'claude', 'settings.json');
    const before = { model: 'opus', hooks: { Stop: [{ hooks: [{ type: 'command', command: 'say done' }] }] } };
    const text = `${JSON.stringify(before, null, 4)}\n`;
    await writeFile(file, text);
    const dry = await here.json<{ changed: boolean; text: string }>('hooks', 'install', 'claude-code', '--dry-run');
    expect(dry.changed).toBe(true);
    expect(await readFile(file, 'utf8')).toBe(text);
    const { backup } = await here.json<{ backup: string }>('hooks', 'install', 'claude-code');
    expect(await readFile(file, 'utf8')).toBe(dry.text);
    expect(await readFile(backup, 'utf8')).toBe(text);
    expect(await here.json('hooks', 'install', 'claude-code')).toMatchObject({ changed: false, backup: null });
    const again = await runHere(['hooks', 'install', 'claude-code'], { environment: here.environment });
    expect(again.stdout).toContain(`add "mcp__poste" to permissions.allow in ${file}.`);
    expect(await here.json('hooks', 'uninstall', 'claude-code')).toMatchObject({ notices: [] });
    expect(await readFile(file, 'utf8')).toBe(text);
    await writeFile(file, '{');
    const refused = await runHere(['hooks', 'install', 'claude-code'], { environment: here.environment });
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toBe(`poste: ${file} is no JSON: repair it and try again.\n`);
  });
});

test('Codex is woken by its queue, in the folder and with the thread of its session', async () => {
  const { here } = await homeWithAgents();
  const bin = join(here.folder, 'bin');
  await mkdir(bin);
  const queued = join(here.folder, 'queued');
  await writeFile(join(bin, 'codex'), `#!/bin/sh\nprintf '%s|' "$CODEX_HOME" "$@" > ${queued}\n`);
  await chmod(join(bin, 'codex'), 0o700);
  await here.json('hooks', 'install', 'codex');
  const settings = await settingsOf(join(here.folder, 'codex', 'hooks.json'));
  const session = { POSTE_AGENT: 'bob', PATH: `${bin}:${process.env['PATH']}` };
  expect(await here.hook(settings, 'SessionStart', session)).toMatchObject({ code: 0, stdout: '', stderr: '' });
  const sending = here.request();
  const command = `${join(here.folder, 'codex')}|queue|--thread|s-1|--message|${TEXT}|`;
  await expect.poll(() => readFile(queued, 'utf8').catch(() => '')).toBe(command);
  const prompt = await here.hook(settings, 'UserPromptSubmit', session, { prompt: TEXT });
  expect(prompt).toMatchObject({ code: 0, stdout: '', stderr: '' });
  await sending;
});

const RUNS_COMMAND = `
  const { spawn } = require('node:child_process');
  spawn('/bin/sh', ['-c', process.env.COMMAND], { stdio: 'inherit' }).on('exit', (code) => process.exit(code));
`;

test.each([
  ['gemini', 'BeforeAgent', 'AfterAgent'],
  ['qwen', 'UserPromptSubmit', 'Stop'],
])('%s is told at its prompts, registers its pane of tmux, and is idle after its turn', async (name, begins, ends) => {
  const { here } = await homeWithAgents();
  await here.json('hooks', 'install', name, '--agent', 'bob');
  const settings = await settingsOf(join(here.folder, `.${name}`, 'settings.json'));
  expect(await here.request()).toBe('offline');
  const pane = { TMUX: '/no/such/socket,1,0', TMUX_PANE: '%0' };
  // Its command line says whether somebody sits at a session, and that of a test runner says something else.
  const program = join(here.folder, name);
  await writeFile(program, RUNS_COMMAND);
  const prompt = await here.hook(settings, begins, pane, { program });
  expect(JSON.parse(prompt.stdout)).toEqual(context(begins));
  expect(await here.session()).toMatchObject({ agent: 'bob', wake: ['tmux'] });
  expect(await here.hook(settings, ends, pane)).toMatchObject({ code: 0, stdout: '', stderr: '' });
  expect(await here.hook(settings, 'SessionStart')).toMatchObject({ code: 0 });
  expect(await here.session()).toMatchObject({ wake: [] });
  expect(await here.hook(settings, 'SessionEnd')).toMatchObject({ code: 0, stdout: '' });
  expect(await here.session()).toMatchObject({ presence: 'ended' });
});

interface OpenCodeHooks {
  event: (given: object) => Promise<void>;
  'chat.message': (input: object, output: object) => Promise<void>;
  'chat.params': (input: object) => Promise<void>;
}
type Plugin = (given: object) => Promise<OpenCodeHooks>;

test('OpenCode is woken by the plugin, and the request to its model is the proof; a subagent is not', async () => {
  const { here } = await homeWithAgents();
  const { file } = await here.json<{ file: string }>('hooks', 'install', 'opencode', '--agent', 'bob');
  expect(file).toBe(join(here.folder, 'config', 'opencode', 'plugins', 'poste.js'));
  expect(await here.json('hooks', 'install', 'opencode', '--agent', 'bob')).toMatchObject({ changed: false });
  const plugin = (await import(pathToFileURL(file).href)) as { Poste: Plugin };
  const prompts: string[] = [];
  const session = {
    get: async ({ path }: { path: { id: string } }) => ({ data: path.id === 'ses_sub' ? { parentID: 'ses_1' } : {} }),
    // As OpenCode does: a prompt calls the hook when it is taken, which may be long before its model is asked.
    async promptAsync({ path, body }: { path: { id: string }; body: { parts: { text: string }[] } }) {
      await hooks['chat.message']({ sessionID: path.id }, { ...body, message: { id: 'msg_2' } });
      prompts.push(...body.parts.map(({ text }) => `${path.id}: ${text}`));
    },
  };
  const hooks = await plugin.Poste({ client: { session } });
  onTestFinished(() => hooks.event({ event: { type: 'session.deleted', properties: { info: { id: 'ses_1' } } } }));
  await hooks.event({ event: { type: 'session.created', properties: { info: { id: 'ses_1' } } } });
  await hooks['chat.message'](
    { sessionID: 'ses_sub' },
    { message: { id: 'msg_0' }, parts: [{ type: 'text', text: 'go' }] },
  );
  await expect
    .poll(() => here.session(), { timeout: PATIENCE_MS })
    .toMatchObject({ session_id: 'ses_1', wake: ['hook'] });
  const sending = here.request();
  await expect.poll(() => prompts, { timeout: PATIENCE_MS }).toEqual([`ses_1: ${TEXT}`]);
  // The turn that it found goes on: another session asks its model, and its own with the prompt before.
  await hooks['chat.params']({ sessionID: 'ses_sub', message: { id: 'msg_2' } });
  await hooks['chat.params']({ sessionID: 'ses_1', message: { id: 'msg_1' } });
  expect(await here.session()).toMatchObject({ woken_by: null });
  await hooks['chat.params']({ sessionID: 'ses_1', message: { id: 'msg_2' } });
  await sending;
  await expect.poll(() => here.session(), { timeout: PATIENCE_MS }).toMatchObject({ woken_by: 'hook' });
  await here.json('hooks', 'uninstall', 'opencode');
  await expect(readFile(file)).rejects.toThrow('ENOENT');
  await writeFile(file, '// mine');
  expect((await here.run('hooks', 'install', 'opencode')).stderr).toContain('is not a plugin that Poste wrote');
  expect((await here.run('hooks', 'uninstall', 'opencode')).code).toBe(1);
  expect(await readFile(file, 'utf8')).toBe('// mine');
});

test('OpenCode gets no turn of ours where it answers once: in opencode run, and in sessions of it', async () => {
  const { here } = await homeWithAgents();
  const { file } = await here.json<{ file: string }>('hooks', 'install', 'opencode', '--agent', 'bob');
  const plugin = (await import(pathToFileURL(file).href)) as { Poste: Plugin };
  const rules = [{ permission: 'question', pattern: '*', action: 'deny' }];
  const session = { get: () => Promise.resolve({ data: { permission: rules } }) };
  const startedAs = (...words: string[]): Promise<OpenCodeHooks> => {
    process.argv = ['bun', '/opencode', ...words];
    return plugin.Poste({ client: { session } });
  };
  const { argv } = process;
  onTestFinished(() => {
    process.argv = argv;
  });
  expect(await startedAs('--print-logs', 'run', 'go')).toEqual({});
  expect(await startedAs('run', '--interactive')).toHaveProperty('event');
  const hooks = await startedAs('serve');
  const created = (info: object) => hooks.event({ event: { type: 'session.created', properties: { info } } });
  await created({ id: 'ses_run', permission: rules });
  await hooks['chat.message']({ sessionID: 'ses_run' }, { message: { id: 'msg_0' }, parts: [] });
  onTestFinished(() => hooks.event({ event: { type: 'session.deleted', properties: { info: { id: 'ses_1' } } } }));
  await created({ id: 'ses_1' });
  await expect.poll(() => here.session(), { timeout: PATIENCE_MS }).toMatchObject({ session_id: 'ses_1' });
  const { sessions } = await here.json<SessionListResult>('session', 'list');
  expect(sessions).toHaveLength(1);
});

test('the owner allows the tools with the hooks, and uninstall takes exactly that back', async () => {
  const here = await home();
  const claude = join(here.folder, 'claude', 'settings.json');
  await here.json('hooks', 'install', 'claude-code', '--allow-tools');
  expect(await readFile(claude, 'utf8')).toContain('"mcp__poste"');
  await here.json('hooks', 'uninstall', 'claude-code');
  expect(JSON.parse(await readFile(claude, 'utf8'))).toEqual({});
  // The owner's own rule stays.
  await writeFile(claude, '{"permissions":{"allow":["mcp__poste"]}}');
  await here.json('hooks', 'install', 'claude-code', '--allow-tools');
  await here.json('hooks', 'uninstall', 'claude-code');
  expect(JSON.parse(await readFile(claude, 'utf8'))).toEqual({ permissions: { allow: ['mcp__poste'] } });
  // Nothing is written when one of the two files cannot be.
  const codex = join(here.folder, 'codex');
  const refused = await runHere(['hooks', 'install', 'codex', '--allow-tools'], { environment: here.environment });
  const first = 'run poste setup --allow-tools, or codex mcp add poste -- poste mcp --agent NAME';
  expect(refused.stderr).toBe(
    `poste: ${join(codex, 'config.toml')} has no MCP server poste yet, whose tools could be allowed: ` +
      `${first}, and then this command again.\n`,
  );
  await expect(readFile(join(codex, 'hooks.json'))).rejects.toThrow('ENOENT');
  await mkdir(codex);
  const config = '# mine\n[mcp_servers.poste]\ncommand = "poste"\nargs = ["mcp"]\n';
  const foreign = config.replace('"poste"', '"mail-bot"');
  await writeFile(join(codex, 'config.toml'), foreign);
  const others = await here.run('hooks', 'install', 'codex', '--allow-tools');
  expect(others).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('is another one, mail-bot mcp, whose tools'),
  });
  expect(await readFile(join(codex, 'config.toml'), 'utf8')).toBe(foreign);
  await writeFile(join(codex, 'config.toml'), config);
  const { tools } = await here.json<{ tools: object }>('hooks', 'install', 'codex', '--allow-tools', '--dry-run');
  expect(tools).toMatchObject({ changed: true, backup: null });
  expect(await readFile(join(codex, 'config.toml'), 'utf8')).toBe(config);
  const done = await here.json<{ notices: string[] }>('hooks', 'install', 'codex', '--allow-tools');
  expect(done.notices.join()).not.toContain('approve');
  await here.json('hooks', 'uninstall', 'codex');
  expect(await readFile(join(codex, 'config.toml'), 'utf8')).toBe(config);
});

describe('poste session', () => {
  test('registers, waits for a doorbell, says what is unread, lists and ends', async () => {
    const { here } = await homeWithAgents();
    const as = ['--as', 'bob'];
    const state = await here.json<SessionState>('session', 'register', 's-2', '--hook', ...as);
    expect(state).toMatchObject({ session_id: 's-2', unread: 0, text: null });
    const nothing = await runHere(['session', 'wait', 's-2', '--timeout', '0', ...as], {
      environment: here.environment,
    });
    expect(nothing).toMatchObject({ code: 75, stdout: '' });
    const waiting = runHere(['session', 'wait', 's-2', ...as], { environment: here.environment });
    const sending = here.request();
    const { code, stdout } = await waiting;
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${TEXT}\n` });
    const told = await here.json('session', 'heartbeat', 's-2', '--line', stdout.trimEnd(), ...as);
    expect(told).toMatchObject({ unread: 1, text: TEXT });
    // When the word comes in time; on a slow machine the sender does not wait for it.
    expect(['live-wake', 'offline']).toContain(await sending);
    expect(await here.json('session', 'end', 's-2', ...as)).toEqual({ ended: true });
    expect(await here.run('session', 'end', 's-2', ...as)).toMatchObject({
      code: 3,
      stdout: '',
      stderr: 'poste: there is no session s-2 of this agent, or it has ended already: see poste session list.\n',
    });
    const gone = await runHere(['session', 'heartbeat', 's-2', ...as], { environment: here.environment });
    expect(gone).toMatchObject({ code: 3 });
  });

  test('rings a session when it registers, by its own command', async () => {
    const { here } = await homeWithAgents();
    expect(await here.request()).toBe('offline');
    const rung = join(here.folder, 'rung');
    const program = join(here.folder, 'ring');
    await writeFile(program, `#!/bin/sh\nprintf '%s|' "$@" > ${rung}.new && mv ${rung}.new ${rung}\n`);
    await chmod(program, 0o700);
    const args = ['session', 'register', 's-3', '--as', 'bob', '--', program, '--title', 'mail'];
    expect(await here.run(...args)).toMatchObject({ code: 0 });
    const said = await vi.waitFor(() => readFile(rung, 'utf8'), { timeout: PATIENCE_MS });
    expect(said).toBe(`--title|mail|${TEXT}|`);
  });

  test('a wait does not keep the daemon from stopping', async () => {
    const { here, daemon } = await homeWithAgents();
    await here.json('session', 'register', 's-4', '--hook', '--as', 'bob');
    const waiting = poste(['session', 'wait', 's-4', '--as', 'bob'], here.environment);
    const isWaiting = async (): Promise<void> => {
      const { registered_at = 0, seen_at = 0 } = (await here.session()) ?? {};
      // As the command prints them: ISO 8601.
      const [seenAtMs, registeredAtMs] = [seen_at, registered_at].map((time) => new Date(time).getTime());
      expect(seenAtMs).toBeGreaterThan(registeredAtMs ?? 0);
    };
    await vi.waitFor(isWaiting, { timeout: PATIENCE_MS });
    const started = performance.now();
    daemon.signal('SIGTERM');
    expect(await daemon.ended()).toMatchObject({ code: 0 });
    expect(performance.now() - started).toBeLessThan(15_000);
    expect(await waiting.ended()).toMatchObject({ stdout: '' });
  });

  test.each([
    [['register', 's', '--as', 'bob', '--tmux'], 2, 'this is not a tmux pane'],
    [['register', 's', '--as', 'bob', '--', 'no-such-program-here'], 3, 'there is no program no-such-program-here'],
    [['register', 's', '--as', 'bob', '--pid', 'x'], 2, 'must be a process id'],
    [['register', '../s', '--as', 'bob'], 2, '<session> must be letters'],
    [['register', 's', '--as', 'nobody'], 3, 'nobody'],
    [['register', 's'], 2, 'no agent given: use --as NAME or POSTE_AGENT'],
  ])('refuses %j', async (args, code, why) => {
    const { here } = await homeWithAgents();
    const refused = await runHere(['session', ...args], { environment: here.environment });
    expect(refused).toMatchObject({ code, stdout: '' });
    expect(refused.stderr).toContain(why);
  });
});
