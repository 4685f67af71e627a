/**
 * Claude Code: hooks in `settings.json` of `CLAUDE_CONFIG_DIR` or `~/.claude`, as its hooks reference describes them
 * (https://code.claude.com/docs/en/hooks).
 *
 * An idle agent is woken by its `Stop` hook: `asyncRewake` runs it in the background, and when it exits with 2, what it
 * said on stderr is given to the agent at once. `async` says the same to versions that know no `asyncRewake`: they wait
 * in the background and wake nobody, where they would else hold the turn open.
 */
import { join } from 'node:path';
import type { HookProgram } from './hook-program.ts';

/** For a hook that says one thing and ends. */
const SHORT_SECONDS = 10;
/** For the hook that waits while the agent is idle. */
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
