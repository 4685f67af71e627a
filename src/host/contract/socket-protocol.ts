/**
 * The daemon's socket as far as a caller needs it that loads nothing else: a hook runs at every prompt of an agent, and
 * loading the schemas of the operations takes several times as long as its call.
 */

/** The header that names the acting agent; `owner` is the person. */
export const AGENT_HEADER = 'x-poste-agent';

/** The header that names the session that calls: of a `poste mcp`, whose tools the agent uses. */
export const SESSION_HEADER = 'x-poste-session';

/** The header in which a caller that waits for mail names its call: it says later what became of the answer. */
export const CALL_HEADER = 'x-poste-call';

/** The header of every answer that names the version of the daemon. */
export const VERSION_HEADER = 'x-poste-version';

/** The longest request: the longest body of a message with every character escaped, and room for the rest. */
export const REQUEST_BYTES_MAX = 4 << 20;

export function operationTarget(name: string): string {
  return `/v1/${name}`;
}

export const BACKUP_TARGET = '/v1/backup';

/** The longest wait for a doorbell; who waits then waits again. Well below `SESSION_LIVE_MS`. */
export const SESSION_WAIT_MS_MAX = 55_000;
/** The longest argument of a command that wakes an agent, and the longest path. */
export const WAKE_ARGUMENT_CHARACTERS_MAX = 4096;
/** The most arguments of such a command. */
export const WAKE_ARGUMENTS_MAX = 64;
