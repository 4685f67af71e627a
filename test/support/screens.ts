/** Makes the screens on which the output of a command is shown. */
import type { Screen } from '../../src/cli/lib/screen.ts';
import { NOON_MS } from './test-clock.ts';

/** A pipe or a file. */
export const PIPE: Screen = { columns: undefined, hasColor: false, nowMs: NOON_MS, timeZone: 'UTC' };

/** A terminal without colours, in UTC. */
export function terminal(columns: number, changes: Partial<Screen> = {}): Screen {
  return { ...PIPE, columns, ...changes };
}
