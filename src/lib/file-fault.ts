/** Says why a file or a folder cannot be used, in words for brackets: `(it is a folder)`. */
import { NotUtf8, TextTooLarge } from './user-text.ts';

const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: 'it is not there',
  ENOTDIR: 'it lies below a file',
  EISDIR: 'it is a folder',
  EEXIST: 'a file is in its place',
  EACCES: 'this user has no right to it',
  EPERM: 'this user has no right to it',
};

/** Words an error of the system, or text that is none or too long; its code where there are no words for it. */
export function fileFault(error: unknown): string {
  if (error instanceof NotUtf8 || error instanceof TextTooLarge) return error.message;
  const { code = 'unknown error' } = error as NodeJS.ErrnoException;
  return FAULTS[code] ?? code;
}

/** The things that an operator does when the system refuses, by its code or by its words, which LevelDB passes on. */
const REMEDIES: readonly (readonly [said: RegExp, remedy: string])[] = [
  [/EMFILE|ENFILE|Too many open files/i, 'raise the limit of open files (LimitNOFILE of the unit, or ulimit -n)'],
  [/ENOSPC|EDQUOT|No space left|quota exceeded/i, 'make room on the disk'],
  [/EROFS|Read-only file system/i, 'make the disk writable again'],
  [/EACCES|EPERM|Permission denied|not permitted/i, 'give this user the right to it'],
  [/EIO|Input\/output error/i, 'look at the disk, of which the log of the kernel says more'],
];

/** Returns what is to be done about a store that failed with this error of the system or of LevelDB. */
export function storeRemedy(error: unknown): string {
  const { code, message } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  return code === 'LEVEL_CORRUPTION' ? 'restore a backup' : systemRemedy(`${code} ${message}`);
}

export function systemRemedy(said: string): string {
  return REMEDIES.find(([words]) => words.test(said))?.[1] ?? 'look at the disk';
}
