/**
 * The command line for the commands that ask the daemon. A person or an agent waits for them, and the whole program takes
 * longer to load than they take: so the build makes one file of this, without the modules of `LARGE_COMMANDS`.
 */
export { runToExit } from './run.ts';
