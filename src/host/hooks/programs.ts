/**
 * The programs that run agents and call hooks: how each calls one, and what it takes from it.
 *
 * A hook gets one JSON document on stdin, with `session_id` and `hook_event_name`; its output or exit code reaches
 * the agent. What a hook does at each event is the same for all programs (run-hook.ts).
 */
import { join } from 'node:path';
import { type SessionRegisterInput, WAKE_ARGUMENT_CHARACTERS_MAX } from '../api/schemas/agents.ts';

export const HOOK_PROGRAMS = ['claude-code', 'codex'] as const;
export type HookProgramName = (typeof HOOK_PROGRAMS)[number];

/** What an event means for a session: it begins, it gets work, its agent is idle, it ends. */
export type HookMoment = 'start' | 'prompt' | 'idle' | 'end';

/** One hook in the program's settings. */
export interface HookEntry {
  event: string;
  moment: HookMoment;
  /** Members of the hook besides its type and its command. */
  members: Readonly<Record<string, number | boolean>>;
}

export type WakeMethods = NonNullable<SessionRegisterInput['wake']>;

export interface HookSurroundings {
  environment: Readonly<Record<string, string | undefined>>;
  /** The path of a program as a shell would find it; `undefined` when there is none. */
  findProgram: (name: string) => string | undefined;
}

export interface HookProgram {
  name: HookProgramName;
  /** For people. */
  title: string;
  entries: readonly HookEntry[];
  /** The folder of its settings, and the file there that has the hooks. */
  settingsFolder: (environment: HookSurroundings['environment'], homeFolder: string) => string;
  settingsFile: string;
  /** How a session of it can be woken. */
  wake: (sessionId: string, surroundings: HookSurroundings) => WakeMethods;
}

/** The time limit of a hook that makes one call and ends. */
const SHORT_SECONDS = 10;

/**
 * Codex: hooks in `hooks.json` of `CODEX_HOME` or `~/.codex`, as its hooks documentation describes them
 * (https://developers.openai.com/codex/hooks). A user has to trust them once, with `/hooks`.
 *
 * The daemon wakes an idle agent by `codex queue --thread <session> --message <text>`: Codex begins a
 * turn with the text, or takes it at the end of the one under way.
 */

/** Codex gives a SessionEnd hook at most this time. */
const END_SECONDS = 3;

/** The variables that `codex` needs to start and to find the session. */
const KEPT_VARIABLES = ['PATH', 'CODEX_HOME'];

export const CODEX: HookProgram = {
  name: 'codex',
  title: 'Codex',
  entries: [
    { event: 'SessionStart', moment: 'start', members: { timeout: SHORT_SECONDS } },
    { event: 'UserPromptSubmit', moment: 'prompt', members: { timeout: SHORT_SECONDS } },
    { event: 'SessionEnd', moment: 'end', members: { timeout: END_SECONDS } },
  ],
  settingsFolder: ({ CODEX_HOME: folder }, homeFolder) => (folder ? folder : join(homeFolder, '.codex')),
  settingsFile: 'hooks.json',
  wake(sessionId, { environment, findProgram }) {
    const codex = findProgram('codex');
    if (codex === undefined) return [];
    const kept = KEPT_VARIABLES.flatMap((name) => {
      const value = environment[name];
      const assignment = `${name}=${value}`;
      return value && assignment.length <= WAKE_ARGUMENT_CHARACTERS_MAX ? [assignment] : [];
    });
    const args = [...kept, codex, 'queue', '--thread', sessionId, '--message'];
    return [{ type: 'command', program: '/usr/bin/env', arguments: args }];
  },
};

/**
 * Claude Code: hooks in `settings.json` of `CLAUDE_CONFIG_DIR` or `~/.claude`, as its hooks reference describes them
 * (https://code.claude.com/docs/en/hooks).
 *
 * The `Stop` hook wakes an idle agent: `asyncRewake` runs it in the background, and when it exits with 2, Claude Code gives
 * its stderr to the agent at once. `async` is for versions that do not know `asyncRewake`: they run the hook
 * in the background and wake nobody, but do not hold the turn open.
 */

/** The time limit of the hook that waits while the agent is idle. */
const IDLE_SECONDS = 86_400;

export const CLAUDE_CODE: HookProgram = {
  name: 'claude-code',
  title: 'Claude Code',
  entries: [
    { event: 'SessionStart', moment: 'start', members: { timeout: SHORT_SECONDS } },
    { event: 'UserPromptSubmit', moment: 'prompt', members: { timeout: SHORT_SECONDS } },
    { event: 'Stop', moment: 'idle', members: { timeout: IDLE_SECONDS, async: true, asyncRewake: true } },
    { event: 'SessionEnd', moment: 'end', members: { timeout: SHORT_SECONDS } },
  ],
  settingsFolder: ({ CLAUDE_CONFIG_DIR: folder }, homeFolder) => (folder ? folder : join(homeFolder, '.claude')),
  settingsFile: 'settings.json',
  wake: () => [{ type: 'hook' }],
};
