/** Writes the image of a command, a backup or an archive: to a file, or to standard output as `-`. */
import { resolve } from 'node:path';
import { type CheckedImage, type ImageKind, checkImage } from '../../lib/image.ts';
import { ImageUnwritten, type UnwrittenReason, writeImageFile } from '../../lib/image-file.ts';
import type { CommandContext } from './context.ts';
import { CommandFailed, type ExitName, usageFailure } from './exit.ts';
import { type Work, writeChunk } from './output.ts';

/** The absolute path of the file, or null for standard output. Throws `CommandFailed` when that is a terminal. */
export function backupPath({ stdout }: CommandContext, file: string): string | null {
  if (file !== '-') return resolve(file);
  if (!stdout.isTTY) return null;
  throw usageFailure('a backup cannot be written to a terminal: name a file, or use a pipe');
}

interface ImageTo {
  /** Null for standard output. */
  path: string | null;
  force: boolean | undefined;
  work: Work;
  bytesAbout?: () => number;
}

/** Writes the image and checks it as it leaves. Throws `CommandFailed`, and what `source` throws. */
export async function writeImageTo<Header, Contents extends object>(
  context: CommandContext,
  source: AsyncIterable<Buffer>,
  kind: ImageKind<Header, Contents>,
  { path, force = false, work, bytesAbout = () => 0 }: ImageTo,
): Promise<CheckedImage<Header, Contents>> {
  const progress = (bytes: number): void => work.bytes(kind.noun, bytes, bytesAbout());
  try {
    if (path === null) return await checkImage(throughStdout(context, source, work.signal), kind, { progress });
    return await writeImageFile(source, { path, replaces: force, signal: work.signal, progress }, kind);
  } catch (error) {
    if (!(error instanceof ImageUnwritten)) throw error;
    const code = `${kind.noun}_${error.reason}`.toUpperCase().replaceAll('-', '_');
    throw new CommandFailed(UNWRITTEN_EXIT[error.reason], code, error.message);
  }
}

/** Writes each chunk to standard output and yields it on. */
async function* throughStdout(
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
