/**
 * The command line without the modules of `LARGE_COMMANDS`: the build bundles it as one small file. A person or an
 * agent waits for the commands that ask the daemon, and these take less time than the whole program takes to load.
 */
export { runToExit } from './run.ts';
