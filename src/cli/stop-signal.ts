/** How a command that serves is told to stop. */
import { EXIT } from './exit.ts';

/** Resolves with the name of the first SIGTERM or SIGINT; a second one ends the process at once. */
export function stopSignal(): Promise<string> {
  return new Promise((done) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        // A second one means now.
        process.once(signal, () => process.exit(EXIT.interrupted));
        done(signal);
      });
    }
  });
}
