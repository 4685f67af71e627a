/** What the commands that write a backup or an archive share: standard output as the file, and how they fail. */
import { resolve } from 'node:path';
import type { ImageNoun } from '../../lib/image.ts';
import { ImageUnwritten, type UnwrittenReason } from '../../lib/image-file.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed, type ExitName } from './exit.ts';
import { writeChunk } from './output.ts';

/** The file name that means standard output. */
const STDOUT = '-';

/** The absolute path of the file, or null for standard output. Throws `CommandFailed` when that is a terminal. */
export function backupPath({ stdout }: CommandContext, file: string): string | null {
  if (file !== STDOUT) return resolve(file);
  if (!stdout.isTTY) return null;
  throw new CommandFailed('usage', 'USAGE', 'a backup cannot be written to a terminal: name a file, or use a pipe');
}

/** Writes each chunk to standard output and yields it on, so that the backup is checked as it leaves. */
export async function* writtenToStdout(
  context: CommandContext,
  chunks: AsyncIterable<Buffer>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    await writeChunk(context, chunk, { what: 'the backup', signal });
    yield chunk;
  }
}

const UNWRITTEN_EXIT: Readonly<Record<UnwrittenReason, ExitName>> = {
  exists: 'conflict',
  'no-folder': 'notFound',
  'is-folder': 'usage',
  'no-file': 'usage',
  'no-right': 'refused',
  'no-space': 'failure',
  'not-whole': 'temporary',
  unreadable: 'failure',
  failed: 'failure',
};

/** The failure of the command when no file was written; every other error unchanged. */
export function unwrittenFailure(error: unknown, what: ImageNoun = 'backup'): unknown {
  if (!(error instanceof ImageUnwritten)) return error;
  const code = `${what}_${error.reason}`.toUpperCase().replaceAll('-', '_');
  return new CommandFailed(UNWRITTEN_EXIT[error.reason], code, error.message);
}
