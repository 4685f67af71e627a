/**
 * The programs that run agents and call hooks: how each calls one, and what it takes from it.
 *
 * A hook gets one JSON document on stdin, with `session_id` and `hook_event_name`; its output or exit code reaches
 * the agent. What a hook does at each event is the same for all programs (run-hook.ts).
 */
import { isAbsolute, join } from 'node:path';
import { type Environment, homeFolder } from '../../lib/user-folders.ts';
import type { SessionRegisterInput } from '../contract/agents.ts';
import { WAKE_ARGUMENT_CHARACTERS_MAX } from '../contract/socket-protocol.ts';
import { GEMINI_WORDS, QWEN_WORDS, readCommandLine } from './command-lines.ts';

export const HOOK_PROGRAMS = ['claude-code', 'codex', 'gemini', 'qwen'] as const;
export type HookProgramName = (typeof HOOK_PROGRAMS)[number];

/** The flag of the agent where neither POSTE_AGENT nor the project names one. */
export const DEFAULT_AGENT = '--default-agent';

/**
 * The meaning of an event for a session: it begins, it gets a prompt, its agent is idle, its user interrupted the turn,
 * its model could not be asked, it ends. `wait` and `idle-wait` are hooks in the background, which wait for a doorbell.
 */
export type HookMoment = 'start' | 'prompt' | 'idle' | 'interrupted' | 'failed' | 'end' | 'wait' | 'idle-wait';

/** One hook in the program's settings. */
interface HookEntry {
  event: string;
  moment: HookMoment;
  /** The first version of the program that knows the event. An older one refuses the whole settings file. */
  since?: string;
  /** Members of the hook besides its type and its command. */
  members: Readonly<Record<string, string | number | boolean>>;
}

type WakeMethods = NonNullable<SessionRegisterInput['wake']>;

export interface HookSurroundings {
  environment: Environment;
  /** The path of a program as a shell would find it; `undefined` when there is none. */
  findProgram: (name: string) => string | undefined;
  /** The words with which the program that called the hook was started; empty where the system does not tell. */
  commandLine: () => readonly string[];
}

export interface HookProgram {
  name: HookProgramName;
  /** The name that people know. */
  title: string;
  entries: readonly HookEntry[];
  /** The folder of its settings, and the file there that has the hooks. */
  settingsFolder: (environment: Environment) => string;
  settingsFile: string;
  /** The variable of its hooks with the folder of a session, which may leave it. Without it, the event names one. */
  folderVariable?: string;
  /** True when somebody sits at this session. Any other may have had its only prompt, and a wait holds it up. */
  isAttended: (surroundings: HookSurroundings) => boolean;
  /** The ways to wake a session of it that somebody attends. */
  wake: (sessionId: string, surroundings: HookSurroundings) => WakeMethods;
}

/** The time limit of a hook that makes one call and ends. */
const SHORT_SECONDS = 10;

/**
 * Codex: hooks in `hooks.json` of `CODEX_HOME` or `~/.codex`, as its hooks documentation describes them
 * (https://developers.openai.com/codex/hooks). A user has to trust them once, with `/hooks`.
 *
 * The daemon wakes an idle agent over the control socket of the app server that its sessions share. A Codex that runs
 * without one is woken by `codex queue --thread <session> --message <text>`: it begins a turn with the text, or takes
 * it at the end of the one under way.
 */

/** Codex gives SessionEnd and Interrupt hooks at most this time. */
const END_SECONDS = 3;

/** The variables that `codex` needs to start and to find the session. */
const KEPT_VARIABLES = ['PATH', 'CODEX_HOME'];

/** The socket of the app server, in the folder of Codex. */
const CODEX_SOCKET = join('app-server-control', 'app-server-control.sock');

function codexFolder(environment: Environment): string {
  return environment['CODEX_HOME'] || join(homeFolder(environment), '.codex');
}

/** The command of the app server, which runs the hooks of all threads that it has. */
const CODEX_SERVER = 'app-server';

/** The commands of Codex that answer once and end. */
const CODEX_ONE_SHOTS: ReadonlySet<string> = new Set(['exec', 'e', 'review']);

export const CODEX: HookProgram = {
  name: 'codex',
  title: 'Codex',
  entries: [
    { event: 'SessionStart', moment: 'start', members: { timeout: SHORT_SECONDS } },
    { event: 'UserPromptSubmit', moment: 'prompt', members: { timeout: SHORT_SECONDS } },
    { event: 'Stop', moment: 'idle', members: { timeout: SHORT_SECONDS } },
    { event: 'Interrupt', moment: 'interrupted', members: { timeout: END_SECONDS } },
    { event: 'SessionEnd', moment: 'end', members: { timeout: END_SECONDS } },
  ],
  settingsFolder: codexFolder,
  settingsFile: 'hooks.json',
  isAttended: ({ commandLine }) =>
    !commandLine()
      .slice(1)
      .some((word) => CODEX_ONE_SHOTS.has(word)),
  wake(sessionId, { environment, findProgram, commandLine }) {
    const folder = codexFolder(environment);
    const socket = join(folder, CODEX_SOCKET);
    const words = commandLine();
    // A terminal with a server of its own is unknown to the one that others share, which would call its thread over.
    const isShared = words.length === 0 || words.includes(CODEX_SERVER);
    const methods: WakeMethods = isShared && isAbsolute(socket) ? [{ type: 'codex-socket', socket }] : [];
    const codex = findProgram('codex');
    if (codex === undefined) return methods;
    const kept = KEPT_VARIABLES.flatMap((name) => {
      const value = environment[name];
      const assignment = `${name}=${value}`;
      return value && assignment.length <= WAKE_ARGUMENT_CHARACTERS_MAX ? [assignment] : [];
    });
    const args = [...kept, codex, 'queue', '--thread', sessionId, '--message'];
    return [...methods, { type: 'command', program: '/usr/bin/env', arguments: args }];
  },
};

/**
 * Claude Code: hooks in `settings.json` of `CLAUDE_CONFIG_DIR` or `~/.claude`, as its hooks reference describes them
 * (https://code.claude.com/docs/en/hooks).
 *
 * A waiting hook wakes an idle agent: `asyncRewake` runs it in the background, and when it exits with 2, Claude Code
 * gives its stderr to the agent at once, or between two tools of a turn. `async` is for versions that do not know
 * `asyncRewake`: they run the hook in the background and wake nobody, but do not hold the turn open. One waits from the
 * start, before any prompt; a prompt and the end of a turn begin another one, because each rings once. The daemon ends
 * the older ones. `StopFailure` comes in place of `Stop` when the model's API ended the turn; what its hooks print and
 * how they end is ignored.
 */

/** The time limit of a hook that waits. */
const IDLE_SECONDS = 86_400;

const BACKGROUND = { timeout: IDLE_SECONDS, async: true, asyncRewake: true };

export const CLAUDE_CODE: HookProgram = {
  name: 'claude-code',
  title: 'Claude Code',
  entries: [
    { event: 'SessionStart', moment: 'start', members: { timeout: SHORT_SECONDS } },
    { event: 'SessionStart', moment: 'wait', members: BACKGROUND },
    { event: 'UserPromptSubmit', moment: 'prompt', members: { timeout: SHORT_SECONDS } },
    { event: 'UserPromptSubmit', moment: 'wait', members: BACKGROUND },
    { event: 'Stop', moment: 'idle-wait', members: BACKGROUND },
    { event: 'StopFailure', moment: 'failed', since: '2.1.78', members: { timeout: SHORT_SECONDS } },
    { event: 'SessionEnd', moment: 'end', members: { timeout: SHORT_SECONDS } },
  ],
  settingsFolder: (environment) => environment['CLAUDE_CONFIG_DIR'] || join(homeFolder(environment), '.claude'),
  settingsFile: 'settings.json',
  folderVariable: 'CLAUDE_PROJECT_DIR',
  isAttended: isClaudeAttended,
  wake: () => [{ type: 'hook' }],
};

/** `claude -p` ends only 30 s after its answer when a hook still waits. */
function isClaudeAttended({ environment }: HookSurroundings): boolean {
  if (environment['CLAUDE_CODE_SESSION_ATTENDED'] === '0') return false;
  return !environment['CLAUDE_CODE_ENTRYPOINT']?.startsWith('sdk-');
}

/**
 * Gemini CLI: hooks in `settings.json` of `~/.gemini`, as its hooks reference describes them
 * (https://geminicli.com/docs/hooks/reference). Its time limits are in milliseconds.
 *
 * No hook of it waits in the background, so an idle agent is woken in its terminal, when that is a pane of tmux.
 */

const GEMINI_HOOK = { name: 'poste', timeout: SHORT_SECONDS * 1000 };

export const GEMINI: HookProgram = {
  name: 'gemini',
  title: 'Gemini CLI',
  entries: [
    { event: 'SessionStart', moment: 'start', members: GEMINI_HOOK },
    { event: 'BeforeAgent', moment: 'prompt', members: GEMINI_HOOK },
    { event: 'AfterAgent', moment: 'idle', members: GEMINI_HOOK },
    { event: 'SessionEnd', moment: 'end', members: GEMINI_HOOK },
  ],
  settingsFolder: (environment) => join(environment['GEMINI_CLI_HOME'] || homeFolder(environment), '.gemini'),
  settingsFile: 'settings.json',
  folderVariable: 'GEMINI_PROJECT_DIR',
  isAttended: (surroundings) => !isGeminiOneShot(surroundings),
  wake: wakeInPane('gemini'),
};

/** At a terminal a prompt among its words begins a session that goes on, unless the variables say that this is a CI. */
function isGeminiOneShot({ environment, commandLine }: HookSurroundings): boolean {
  if (environment['CI'] === 'true' || environment['GITHUB_ACTIONS'] === 'true') return true;
  return isAmong(readCommandLine(commandLine(), GEMINI_WORDS).options, '-p', '--prompt');
}

/**
 * Qwen Code: hooks in `settings.json` of `QWEN_HOME` or `~/.qwen`, as its hooks documentation describes them
 * (https://qwenlm.github.io/qwen-code-docs/en/users/features/hooks). Its events are called as those of Claude Code are.
 *
 * The output of a hook in the background reaches no agent, so an idle agent is woken in its terminal, as in Gemini CLI.
 */

const QWEN_HOOK = { name: 'poste', timeout: SHORT_SECONDS };

export const QWEN: HookProgram = {
  name: 'qwen',
  title: 'Qwen Code',
  entries: [
    { event: 'SessionStart', moment: 'start', members: QWEN_HOOK },
    { event: 'UserPromptSubmit', moment: 'prompt', members: QWEN_HOOK },
    { event: 'Stop', moment: 'idle', members: QWEN_HOOK },
    { event: 'StopFailure', moment: 'failed', members: QWEN_HOOK },
    { event: 'SessionEnd', moment: 'end', members: QWEN_HOOK },
  ],
  settingsFolder: (environment) => environment['QWEN_HOME'] || join(homeFolder(environment), '.qwen'),
  settingsFile: 'settings.json',
  folderVariable: 'QWEN_PROJECT_DIR',
  isAttended: ({ commandLine }) => !isQwenOneShot(commandLine()),
  wake: wakeInPane('qwen'),
};

/** At a terminal it answers a prompt once and ends, unless it shall go on. */
function isQwenOneShot(commandLine: readonly string[]): boolean {
  const { options, hasPrompt } = readCommandLine(commandLine, QWEN_WORDS);
  if (isAmong(options, '-i', '--prompt-interactive')) return false;
  return hasPrompt || isAmong(options, '-p', '--prompt');
}

function isAmong(options: ReadonlySet<string>, ...names: readonly string[]): boolean {
  return names.some((name) => options.has(name));
}

type PaneMethod = Extract<WakeMethods[number], { type: 'tmux' }>;

/** Wakes a program that can be woken in its terminal alone. */
function wakeInPane(program: NonNullable<PaneMethod['input']>): HookProgram['wake'] {
  return (_sessionId, { environment }) => {
    const pane = tmuxPane(environment, program);
    return pane ? [pane] : [];
  };
}

/** The pane of tmux that this process runs in, as a wake method; `undefined` outside tmux. */
export function tmuxPane(
  { TMUX = '', TMUX_PANE: pane }: Environment,
  input: NonNullable<PaneMethod['input']>,
): PaneMethod | undefined {
  const [socket = ''] = TMUX.split(',');
  if (!isAbsolute(socket) || pane === undefined || !/^%[0-9]{1,9}$/.test(pane)) return undefined;
  return { type: 'tmux', socket, pane, input };
}

export const PROGRAM_OF: Readonly<Record<HookProgramName, HookProgram>> = {
  'claude-code': CLAUDE_CODE,
  codex: CODEX,
  gemini: GEMINI,
  qwen: QWEN,
};
