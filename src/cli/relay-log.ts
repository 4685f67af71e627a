/** `poste relay log`: looks into the log of a relay that does not run, or of a backup of it, and checks proofs of it. */
import { Command } from 'commander';
import { type LazyCommands, addCommands } from './lazy.ts';

const LOG_COMMANDS: LazyCommands = {
  show: async () => (await import('./relay-log-show.ts')).relayLogShowCommand(),
  verify: async () => (await import('./relay-log-verify.ts')).relayLogVerifyCommand(),
  rebuild: async () => (await import('./relay-log-rebuild.ts')).relayLogRebuildCommand(),
  at: async () => (await import('./relay-log-at.ts')).relayLogAtCommand(),
  trace: async () => (await import('./relay-log-trace.ts')).relayLogTraceCommand(),
  archive: async () => (await import('./relay-log-archive.ts')).relayLogArchiveCommand(),
  'check-proof': async () => (await import('./relay-log-check-proof.ts')).checkProofCommand(),
};

const EXAMPLES = `
Examples:
  $ poste relay log show --host laptop --since 2025-11-20
  $ poste relay log verify --backup poste.backup
  $ poste relay log at --time 2025-11-20T21:48Z --queue laptop
  $ poste relay log trace 0197f3a2-55d1-7c60-8c55-2b1f0f6b8c11`;

/** `words` are the arguments that are no options. */
export async function relayLogCommand(words: readonly string[]): Promise<Command> {
  const log = new Command('log')
    .description(
      'Audit and replay: look into the log of a stopped relay, or of a backup; check what a relay proves of it.',
    )
    .addHelpText('after', EXAMPLES);
  await addCommands(log, LOG_COMMANDS, words);
  return log;
}
