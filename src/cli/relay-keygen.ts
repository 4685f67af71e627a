/** `poste relay keygen`: a new relay key on stdout, and nothing else. */
import { Command } from 'commander';
import { generateRelayKey } from '../relay/store/relay-key.ts';

export function relayKeygenCommand(): Command {
  return new Command('keygen')
    .description('Print a new base64 private relay key.')
    .addHelpText('after', '\nExample:\n  $ poste relay keygen > relay.key && chmod 600 relay.key')
    .action(() => {
      process.stdout.write(`${generateRelayKey()}\n`);
    });
}
