/** Why a file or a folder cannot be used, in words for brackets: `(it is a folder)`. */
import { NotUtf8 } from './user-text.ts';

const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: 'it is not there',
  ENOTDIR: 'it lies below a file',
  EISDIR: 'it is a folder',
  EEXIST: 'a file is in its place',
  EACCES: 'this user has no right to it',
  EPERM: 'this user has no right to it',
};

/** Of an error of the system, or of text that is none; its code where there are no words for it. */
export function fileFault(error: unknown): string {
  if (error instanceof NotUtf8) return error.message;
  const { code = 'unknown error' } = error as NodeJS.ErrnoException;
  return FAULTS[code] ?? code;
}
