/** Says what the exit codes mean, for docs/cli.md and the manual page. */
import type { ExitName } from '../src/cli/lib/exit.ts';

export const EXIT_MEANINGS: Readonly<Record<ExitName, string>> = {
  ok: 'done',
  failure:
    'failed, or no daemon or relay runs; `doctor`, `trace`, `relay rehearse`, `relay log verify`, ' +
    '`relay log check-proof` and `relay evidence check` also end so when they find something wrong',
  usage:
    'a flag, an argument or a command that does not exist, or a value that cannot be read; for ' +
    '`relay evidence check` also what cannot be told',
  notFound: 'what was named is not there: a message, an agent, a host, an item, a file',
  conflict: 'something is in the way: a port or a store in use, a name that several hosts have, a file that exists',
  refused: 'refused: a key that is not the right one, a newer store, a relay, daemon or file of another user',
  temporary: 'not now: something does not answer, or a limit is reached; try again later',
  interrupted: 'interrupted by ctrl-c',
};
