/** Why a file or a folder cannot be used, in words for brackets: `(it is a folder)`. */
const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: 'it is not there',
  ENOTDIR: 'it lies below a file',
  EISDIR: 'it is a folder',
  EEXIST: 'a file is in its place',
  EACCES: 'this user has no right to it',
  EPERM: 'this user has no right to it',
};

/** Of an error of the system; its code where there are no words for it. */
export function fileFault(error: unknown): string {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException;
  return FAULTS[code] ?? code;
}
