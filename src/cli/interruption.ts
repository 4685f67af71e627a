/** Ctrl-c in the middle of work that leaves something behind: it is cleared away first. */
import { CommandFailed, EXIT } from './exit.ts';

export interface Interruption {
  /** Ends what waits. */
  signal: AbortSignal;
  /** What the command ends with when it was interrupted. */
  failure: () => CommandFailed | undefined;
}

/** From now on a first signal interrupts, and a second one ends the process at once. */
export function interruption(): Interruption {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => {
      process.once(name, () => process.exit(EXIT.interrupted));
      controller.abort();
    });
  }
  return {
    signal: controller.signal,
    failure: () =>
      controller.signal.aborted
        ? new CommandFailed('interrupted', 'INTERRUPTED', 'nothing was done, as the command was interrupted')
        : undefined,
  };
}
