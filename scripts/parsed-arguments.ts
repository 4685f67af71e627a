/**
 * The arguments of a script. `--help` prints the comment at the head of its file, unless the script has help of its
 * own; what cannot be used ends it with one line and exit code 2.
 */
import { readFileSync } from 'node:fs';
import { parseArgs, type ParseArgsConfig } from 'node:util';

export function parsedArguments<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  if (!config.options?.['help'] && process.argv.includes('--help')) {
    console.log(headComment(process.argv[1] ?? ''));
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (error) {
    return unusable(`${(error as Error).message}: --help shows what there is`);
  }
}

/** Ends the script. */
export function unusable(message: string): never {
  console.error(message);
  process.exit(2);
}

function headComment(file: string): string {
  const [, comment = ''] = /^\/\*\*\n(.*?)\n \*\//s.exec(readFileSync(file, 'utf8')) ?? [];
  return comment.replaceAll(/^ \* ?/gm, '');
}
