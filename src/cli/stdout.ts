/** Standard output: no faster than it is read, and what becomes of it when its reader leaves. */
import { once } from 'node:events';
import { CommandFailed, EXIT } from './exit.ts';

let isPartEnough = true;

/** To be called once. Whoever reads the output may stop early, as head does; other failures end the process. */
export function letReadersLeave(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // `passed` tells it.
    if (!isPartEnough) return;
    if (error.code !== 'EPIPE') throw error;
    process.exit(EXIT.ok);
  });
}

export async function written(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

/** Writes a piece of something of which a part is worth nothing. Throws `CommandFailed`, or why the signal aborted. */
export async function passed(piece: Buffer, what: string, signal: AbortSignal): Promise<void> {
  isPartEnough = false;
  signal.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', abort);
    process.stdout.write(piece, (error) => {
      signal.removeEventListener('abort', abort);
      if (!error) resolve();
      else reject(notTaken(error, what));
    });
  });
}

function notTaken(error: NodeJS.ErrnoException, what: string): CommandFailed {
  return new CommandFailed(
    'failure',
    'OUTPUT_FAILED',
    `standard output did not take all of ${what} (${error.code ?? error.message}), and a part of it is none: see where it goes, and give the command again`,
  );
}
