/**
 * Codex: hooks in `hooks.json` of `CODEX_HOME` or `~/.codex`, as its hooks documentation describes them
 * (https://developers.openai.com/codex/hooks). A user has to trust them once, with `/hooks`.
 *
 * An idle agent is woken by `codex queue --thread <session> --message <text>`, which the daemon runs: Codex begins a
 * turn with the text, or takes it at the end of the one under way.
 */
import { join } from 'node:path';
import { WAKE_ARGUMENT_CHARACTERS_MAX } from '../documents/sessions.ts';
import type { HookProgram } from './hook-program.ts';

const SHORT_SECONDS = 10;
/** Codex gives a SessionEnd hook no more. */
const END_SECONDS = 3;

/** Variables that `codex` needs to be found whole, and to find the session. */
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
