/** `poste relay log`: what there is to do with the log of a relay, a file for each command. */
import { Command } from 'commander';
import { checkProofCommand } from './relay-log-check-proof.ts';

export function relayLogCommand(): Command {
  return new Command('log').description('Look into the log of a relay.').addCommand(checkProofCommand());
}
