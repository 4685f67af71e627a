import { describe, expect, test } from 'vitest';
import { CLAUDE_CODE, CODEX, type HookProgram, PROGRAM_OF } from '../../../../src/host/hooks/programs.ts';
import { type HookOutcome, runHook } from '../../../../src/host/hooks/run-hook.ts';
import { CallFailed } from '../../../../src/host/api/client.ts';

const TEXT = 'You have 2 unread messages in Poste. Read them with mail_inbox.';
const STATE = { session_id: 's', live_ms: 1, unread: 2, text: TEXT };
const QUIET: HookOutcome = { exitCode: 0, stdout: '', stderr: '' };

/** The input that Claude Code sends, as its reference has it. */
const CLAUDE_INPUT = {
  session_id: '0a1b2c3d-0000-4000-8000-0123456789ab',
  transcript_path: '/home/u/.claude/projects/p/0a1b.jsonl',
  cwd: '/home/u/p',
  permission_mode: 'default',
};
/** The input that Codex sends, as its schemas have it. */
const CODEX_INPUT = {
  session_id: '01a072a7-6d07-76a1-828b-300553a73a70',
  transcript_path: null,
  cwd: '/home/u/p',
  model: 'gpt-5',
  permission_mode: 'default',
  turn_id: 't1',
};

type Answer = object | Error;

interface Daemon {
  asked: [name: string, input: object][];
  run: (program: HookProgram, input: object | string, given?: Given) => Promise<HookOutcome>;
}

interface Given {
  gone?: AbortSignal;
  waits?: boolean;
  pid?: number;
  environment?: Readonly<Record<string, string>>;
  commandLine?: readonly string[];
  agentIn?: (folder: string | undefined) => string | undefined;
}

/** A daemon that answers each operation with these, in order. */
function daemon(answers: Readonly<Record<string, Answer[]>>): Daemon {
  const asked: Daemon['asked'] = [];
  const client = {
    call(name: string, input: object): Promise<never> {
      asked.push([name, input]);
      const answer = answers[name]?.shift() ?? new CallFailed('DAEMON_NOT_RUNNING', 0, 'no daemon');
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer as never);
    },
  };
  return {
    asked,
    run: (
      program,
      input,
      {
        gone = new AbortController().signal,
        waits = false,
        environment = {},
        commandLine = [],
        pid = 77,
        agentIn = () => 'backend',
      } = {},
    ) =>
      runHook({
        program,
        input: typeof input === 'string' ? input : JSON.stringify(input),
        agentIn,
        client,
        pid,
        surroundings: {
          environment: { PATH: '/bin', CODEX_HOME: '/c', ...environment },
          findProgram: (name) => `/bin/${name}`,
          commandLine: () => commandLine,
        },
        waits,
        pause: () => Promise.resolve(),
        gone,
      }),
  };
}

function unreadable(): never {
  throw new Error('projects.json is no JSON');
}

const context = (event: string): string =>
  `${JSON.stringify({ hookSpecificOutput: { hookEventName: event, additionalContext: TEXT } })}\n`;

const input = (event: string): object => ({ ...CLAUDE_INPUT, hook_event_name: event });

describe('the hooks of Claude Code', () => {
  test('SessionStart registers the session and tells the count as context', async () => {
    const { run, asked } = daemon({ 'session-register': [STATE] });
    const outcome = await run(CLAUDE_CODE, { ...CLAUDE_INPUT, hook_event_name: 'SessionStart', source: 'startup' });
    expect(outcome).toEqual({ ...QUIET, stdout: context('SessionStart') });
    const { session_id } = CLAUDE_INPUT;
    const given = { wake: [{ type: 'hook' }], pid: 77, reports_prompts: true, tell: true, begins: true };
    expect(asked).toEqual([['session-register', { session_id, ...given }]]);
  });

  test('UserPromptSubmit says that the agent works, and nothing when nothing is unread', async () => {
    const { run, asked } = daemon({ 'session-register': [STATE, { ...STATE, unread: 0, text: null }] });
    const input = { ...CLAUDE_INPUT, hook_event_name: 'UserPromptSubmit', prompt: 'go' };
    expect(await run(CLAUDE_CODE, input)).toEqual({ ...QUIET, stdout: context('UserPromptSubmit') });
    expect(asked[0]?.[1]).toMatchObject({ tell: true, doing: 'work', lines: [] });
    expect(await run(CLAUDE_CODE, input)).toEqual(QUIET);
  });

  test('UserPromptSubmit without a text is no prompt: Qwen Code calls it between two tools of a turn', async () => {
    const { run, asked } = daemon({ 'session-register': [STATE] });
    const input = { session_id: 's-1', hook_event_name: 'UserPromptSubmit', prompt: '' };
    expect(await run(PROGRAM_OF.qwen, input)).toEqual(QUIET);
    expect(asked).toEqual([]);
    expect(await run(PROGRAM_OF.qwen, { ...input, prompt: 'go' })).toEqual({
      ...QUIET,
      stdout: context('UserPromptSubmit'),
    });
  });

  test('UserPromptSubmit reports the doorbell line that is its prompt, and does not repeat it', async () => {
    const { run, asked } = daemon({ 'session-register': [STATE, { ...STATE, unread: 3, text: 'THREE' }] });
    const prompt = `<task-notification>Stop hook blocking error: ${TEXT}</task-notification>`;
    const input = { ...CLAUDE_INPUT, hook_event_name: 'UserPromptSubmit', prompt };
    expect(await run(CLAUDE_CODE, input)).toEqual(QUIET);
    expect(asked[0]?.[1]).toMatchObject({ tell: true, lines: [TEXT] });
    // More came since that doorbell.
    expect(await run(CLAUDE_CODE, input)).toMatchObject({ stdout: expect.stringContaining('THREE') });
  });

  test.each(['SessionStart', 'UserPromptSubmit'])('a second hook at %s waits, and registers nothing', async (event) => {
    const absent = new CallFailed('NO_SUCH_SESSION', 404, 'no');
    const { run, asked } = daemon({
      'session-wait': [absent, { event: 'doorbell', ring: 'r', text: TEXT }],
      'session-heard': [{ counted: true }],
    });
    expect(await run(CLAUDE_CODE, input(event), { waits: true })).toEqual({
      exitCode: 2,
      stdout: '',
      stderr: `${TEXT}\n`,
    });
    // The hook beside it registers the session, and may come later.
    expect(asked.map(([name]) => name)).toEqual(['session-wait', 'session-wait', 'session-heard']);
  });

  test.each([{ CLAUDE_CODE_SESSION_ATTENDED: '0' }, { CLAUDE_CODE_ENTRYPOINT: 'sdk-cli' }])(
    'nothing waits in a session that nobody attends, and none of its ways to be woken is given: %j',
    async (environment) => {
      const { run, asked } = daemon({ 'session-register': [STATE, STATE] });
      expect(await run(CLAUDE_CODE, input('SessionStart'), { waits: true, environment })).toEqual(QUIET);
      expect(await run(CLAUDE_CODE, input('UserPromptSubmit'), { waits: true, environment })).toEqual(QUIET);
      expect(asked).toEqual([]);
      await run(CLAUDE_CODE, input('SessionStart'), { environment });
      expect(await run(CLAUDE_CODE, input('Stop'), { environment })).toEqual(QUIET);
      expect(asked.map(([name]) => name)).toEqual(['session-register', 'session-register']);
      expect(asked[0]?.[1]).toMatchObject({ wake: [], reports_prompts: false });
    },
  );

  test.each([
    ['codex', ['codex', '--full-auto', 'exec', 'do it'], []],
    ['codex', ['codex', 'e', 'do it'], []],
    ['codex', ['codex', 'review'], []],
    ['codex', ['codex', 'app-server', '--listen', 'unix://'], ['codex-socket', 'command']],
    ['codex', ['codex', 'say why exec fails'], ['command']],
    ['codex', [], ['codex-socket', 'command']],
    ['gemini', ['node', '/bin/gemini', '-p', 'do it'], []],
    ['gemini', ['node', '/bin/gemini', '--prompt=do it'], []],
    ['gemini', ['node', '/bin/gemini', '-yp', 'do it'], []],
    ['gemini', ['node', '/bin/gemini', '-i', 'do it'], ['tmux']],
    ['gemini', ['node', '--max-old-space-size=9', '/bin/gemini', '-m', 'm', 'do it'], ['tmux']],
    ['qwen', ['node', '--expose-gc', '/lib/qwen-code/cli.js', '-p', 'do it'], []],
    ['qwen', ['node', '/bin/qwen', 'do it'], []],
    ['qwen', ['node', '/bin/qwen', '--model', 'm', 'do it'], []],
    ['qwen', ['node', '/bin/qwen', '-i', 'do it'], ['tmux']],
    ['qwen', ['node', '/lib/qwen-code/cli.js', '--model', 'm', ''], ['tmux']],
    ['qwen', ['node', '/bin/qwen', '-m', 'm', '-c', 'do it', ''], []],
    ['qwen', ['node', '/bin/qwen', '-ym', 'm', 'do it'], []],
    ['qwen', ['node', '/bin/qwen', '--model=m', 'do it'], []],
    ['qwen', ['node', '/bin/qwen', '-y', '--', 'true'], []],
    ['qwen', ['node', '/bin/qwen', '--of-a-later-version', 'do it'], []],
    ['qwen', ['node', '/bin/qwen', '--allowed-tools', 'a', 'b', '-y', 'true', '-r', 'id', ''], ['tmux']],
    ['qwen', ['/opt/code', 'x'], []],
    ['qwen', ['/opt/code', '--model', 'm'], ['tmux']],
    ['qwen', [], ['tmux']],
  ] as const)(
    'the hooks of %s, started as %j, give these ways to wake it, and report prompts with them: %j',
    async (name, commandLine, methods) => {
      const { run, asked } = daemon({ 'session-register': [STATE] });
      const environment = { TMUX: '/tmux,1,0', TMUX_PANE: '%1' };
      const input = { ...CODEX_INPUT, hook_event_name: 'SessionStart' };
      await run(PROGRAM_OF[name], input, { environment, commandLine });
      const wake = methods.map((type) => ({ type }));
      expect(asked[0]?.[1]).toMatchObject({ wake, reports_prompts: methods.length > 0 });
    },
  );

  test.each(['CI', 'GITHUB_ACTIONS'])('a Gemini CLI whose %s is true answers once', async (variable) => {
    const { run, asked } = daemon({ 'session-register': [STATE] });
    const environment = { TMUX: '/tmux,1,0', TMUX_PANE: '%1', [variable]: 'true' };
    const commandLine = ['node', '/bin/gemini'];
    await run(PROGRAM_OF.gemini, { ...CODEX_INPUT, hook_event_name: 'SessionStart' }, { environment, commandLine });
    expect(asked[0]?.[1]).toMatchObject({ wake: [], reports_prompts: false });
  });

  test('Stop waits as long as it takes, and exits with 2 and the line when a doorbell is counted', async () => {
    const doorbell = { event: 'doorbell', ring: 'r', text: TEXT };
    const { run, asked } = daemon({
      'session-register': [STATE],
      'session-wait': [{ event: 'nothing', ring: null, text: null }, doorbell, doorbell],
      'session-heard': [{ counted: false }, { counted: true }],
    });
    const input = { ...CLAUDE_INPUT, hook_event_name: 'Stop', stop_hook_active: false, last_assistant_message: 'ok' };
    expect(await run(CLAUDE_CODE, input)).toEqual({ exitCode: 2, stdout: '', stderr: `${TEXT}\n` });
    const names = asked.map(([name]) => name);
    const cycle = ['session-wait', 'session-heard'];
    expect(names).toEqual(['session-register', 'session-wait', ...cycle, ...cycle]);
    expect(asked[0]?.[1]).not.toHaveProperty('tell');
  });

  const DOORBELL = { event: 'doorbell', ring: 'r', text: TEXT };
  const RELEASED = { event: 'released', ring: null, text: null };
  const GONE = new CallFailed('DAEMON_GONE', 0, 'gone');
  const LOST = new CallFailed('DAEMON_NOT_RUNNING', 0, 'no daemon');
  const UNKNOWN = new CallFailed('NO_SUCH_SESSION', 404, 'no');

  test.each<[when: string, exitCode: number, waits: Answer[], heard: Answer[]]>([
    ['it is not known whether its word was counted', 2, [DOORBELL], [GONE]],
    ['a daemon that was there a moment ago is there again', 2, [LOST, DOORBELL], [{ counted: true }]],
    ['it is released', 0, [RELEASED], []],
    ['the session is unknown', 0, [UNKNOWN], []],
  ])('Stop wakes, or ends quietly, when %s: %i', async (_when, exitCode, waits, heard) => {
    const { run } = daemon({ 'session-register': [STATE], 'session-wait': waits, 'session-heard': heard });
    const woken = { exitCode, stdout: '', stderr: `${TEXT}\n` };
    expect(await run(CLAUDE_CODE, input('Stop'))).toEqual(exitCode === 0 ? QUIET : woken);
  });

  test('Stop waits for nothing when its program has gone', async () => {
    const { run, asked } = daemon({ 'session-register': [STATE] });
    expect(await run(CLAUDE_CODE, input('Stop'), { gone: AbortSignal.abort() })).toEqual(QUIET);
    expect(asked).toHaveLength(1);
  });
});

describe('the hooks of Codex', () => {
  test('SessionStart registers a command that queues the text for the thread', async () => {
    const { run, asked } = daemon({ 'session-register': [STATE] });
    const outcome = await run(CODEX, { ...CODEX_INPUT, hook_event_name: 'SessionStart', source: 'resume' });
    expect(outcome).toEqual({ ...QUIET, stdout: context('SessionStart') });
    const queue = ['/bin/codex', 'queue', '--thread', CODEX_INPUT.session_id, '--message'];
    const args = ['PATH=/bin', 'CODEX_HOME=/c', ...queue];
    const socket = '/c/app-server-control/app-server-control.sock';
    const command = { type: 'command', program: '/usr/bin/env', arguments: args };
    expect(asked[0]?.[1]).toMatchObject({ wake: [{ type: 'codex-socket', socket }, command] });
  });
});

test.each<[program: HookProgram, event: string, says: object, context?: true]>([
  [CODEX, 'UserPromptSubmit', { tell: true, doing: 'work', lines: [] }, true],
  [CODEX, 'Interrupt', { doing: 'interrupted' }],
  [CODEX, 'Stop', { doing: 'idle' }],
])('$0.name at $1 says $2, and waits for nothing', async (program, event, says, tells) => {
  const { run, asked } = daemon({ 'session-register': [STATE] });
  const stdout = tells ? context(event) : '';
  expect(await run(program, { ...CODEX_INPUT, hook_event_name: event })).toEqual({ ...QUIET, stdout });
  expect(asked).toMatchObject([['session-register', { session_id: CODEX_INPUT.session_id, ...says }]]);
});

test.each([CLAUDE_CODE, PROGRAM_OF.qwen])(
  'StopFailure of $name says that the turn failed, and nothing of the process that called it',
  async (program) => {
    const { run, asked } = daemon({ 'session-heartbeat': [STATE] });
    expect(await run(program, { ...CODEX_INPUT, hook_event_name: 'StopFailure' })).toEqual(QUIET);
    expect(asked).toEqual([['session-heartbeat', { session_id: CODEX_INPUT.session_id, doing: 'failed' }]]);
  },
);

test.each([CLAUDE_CODE, CODEX])('SessionEnd of $name ends the session', async (program) => {
  const { run, asked } = daemon({ 'session-end': [{ ended: true }] });
  expect(await run(program, { ...CODEX_INPUT, hook_event_name: 'SessionEnd', reason: 'other' })).toEqual(QUIET);
  expect(asked).toEqual([['session-end', { session_id: CODEX_INPUT.session_id }]]);
});

describe('a hook never hinders its agent', () => {
  const start = input('SessionStart');

  test.each([
    ['SessionStart', false],
    ['SessionStart', true],
    ['UserPromptSubmit', false],
    ['UserPromptSubmit', true],
    ['Stop', false],
    ['SessionEnd', false],
  ])('%s is quiet and quick without a daemon (waits: %s)', async (event, waits) => {
    const { run, asked } = daemon({});
    expect(await run(CLAUDE_CODE, input(event), { waits })).toEqual(QUIET);
    expect(asked).toHaveLength(1);
  });

  test.each([
    ['no JSON', '{'],
    ['no object', 'null'],
    ['an event that is not ours', { ...start, hook_event_name: 'PreToolUse' }],
    ['a member of every object', { ...start, hook_event_name: 'toString' }],
    ['no session', { hook_event_name: 'SessionStart' }],
    ['a session that no file or key could be called', { ...start, session_id: '../x y' }],
    ['an event of a subagent', { ...start, agent_id: 'a1' }],
  ])('it asks nothing for %s', async (_what, input) => {
    const { run, asked } = daemon({ 'session-register': [STATE] });
    expect(await run(CLAUDE_CODE, input)).toEqual(QUIET);
    expect(asked).toEqual([]);
  });

  test('it is quiet when nobody said whose session it is', async () => {
    const { asked } = daemon({});
    const client = { call: () => Promise.reject(new Error('not to be asked')) };
    const surroundings = { environment: {}, findProgram: () => undefined, commandLine: () => [] };
    const gone = new AbortController().signal;
    const call = {
      program: CLAUDE_CODE,
      input: JSON.stringify(start),
      agentIn: () => undefined,
      client,
      pid: 77,
      surroundings,
      waits: false,
      pause: () => Promise.resolve(),
    };
    expect(await runHook({ ...call, gone })).toEqual(QUIET);
    expect(asked).toEqual([]);
  });

  test('a program that is process 1 of a container is registered without its number', async () => {
    const { asked, run } = daemon({ 'session-register': [{}, {}] });
    await run(CLAUDE_CODE, start, { pid: 1 });
    await run(CLAUDE_CODE, start);
    expect(asked.map(([, input]) => (input as { pid?: number }).pid)).toEqual([undefined, 77]);
  });

  test.each([
    [CLAUDE_CODE, { CLAUDE_PROJECT_DIR: '/began' }, '/began'],
    [CLAUDE_CODE, {}, '/home/u/p'],
    [CODEX, { CLAUDE_PROJECT_DIR: '/began' }, '/home/u/p'],
    [PROGRAM_OF.gemini, { GEMINI_PROJECT_DIR: '/began' }, '/began'],
    [PROGRAM_OF.qwen, { QWEN_PROJECT_DIR: '/began' }, '/began'],
  ])(
    '$name acts for the agent of the folder in which the session began, by %j: %s',
    async (program, environment, folder) => {
      const { asked, run } = daemon({ 'session-register': [STATE] });
      const folders: unknown[] = [];
      const agentIn = (at: string | undefined): string => {
        folders.push(at);
        return 'backend';
      };
      await run(program, start, { environment, agentIn });
      expect(folders).toEqual([folder]);
      expect(asked).toHaveLength(1);
    },
  );

  test('it is quiet when nothing can say whose session it is', async () => {
    const { asked, run } = daemon({ 'session-register': [STATE] });
    expect(await run(CLAUDE_CODE, start, { agentIn: unreadable })).toEqual(QUIET);
    expect(asked).toEqual([]);
  });

  test('it is quiet when the agent is unknown', async () => {
    const { run } = daemon({ 'session-register': [new CallFailed('NO_SUCH_AGENT', 404, 'no')] });
    expect(await run(CLAUDE_CODE, start)).toEqual(QUIET);
  });
});
