/** The arguments of a script, or one line about what is wrong with them and exit code 2. */
import { parseArgs, type ParseArgsConfig } from 'node:util';

export function parsedArguments<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}
