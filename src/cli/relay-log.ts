/** `poste relay log`: looks into the log of a relay that does not run, or of a backup of it, and checks proofs of it. */
import { Command } from 'commander';
import { checkProofCommand } from './relay-log-check-proof.ts';
import { relayLogAtCommand } from './relay-log-at.ts';
import { relayLogRebuildCommand } from './relay-log-rebuild.ts';
import { relayLogShowCommand } from './relay-log-show.ts';
import { relayLogTraceCommand } from './relay-log-trace.ts';
import { relayLogVerifyCommand } from './relay-log-verify.ts';

const EXAMPLES = `
Examples:
  $ poste relay log show --host laptop --since 2025-11-20
  $ poste relay log verify --backup poste.backup
  $ poste relay log at --time 2025-11-20T21:48Z --queue laptop
  $ poste relay log trace 0197f3a2-55d1-7c60-8c55-2b1f0f6b8c11`;

export function relayLogCommand(): Command {
  return new Command('log')
    .description(
      'Audit and replay: look into the log of a stopped relay, or of a backup; check what a relay proves of it.',
    )
    .addCommand(relayLogShowCommand())
    .addCommand(relayLogVerifyCommand())
    .addCommand(relayLogRebuildCommand())
    .addCommand(relayLogAtCommand())
    .addCommand(relayLogTraceCommand())
    .addCommand(checkProofCommand())
    .addHelpText('after', EXAMPLES);
}
