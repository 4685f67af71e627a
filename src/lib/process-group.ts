/** A process group as a whole. A child that was started with `detached` leads its own. */

/** Sends a signal to the group that `pid` leads. A group that has ended is left alone. */
export function signalGroup(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {
    // It has ended.
  }
}
