/** Decides whether a command may start a daemon. `poste mcp` asks this before it loads what commands load. */
import type { Environment } from '../../lib/user-folders.ts';

/** A script forbids it by the variable, set to anything but nothing and 0. */
export function mayStart({ POSTE_NO_START: forbidden = '' }: Environment): boolean {
  return forbidden === '' || forbidden === '0';
}
