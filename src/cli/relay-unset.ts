/** `poste relay unset`: uses no relay any more. */
import { Command } from 'commander';
import { printable } from '../protocol/printable.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine } from './text.ts';

const NOTES = `
Mail waits in the outbox for the LAN from then on. What the relay has taken may still be fetched and confirmed; what
waits there for this host stays until the relay is set again, or expires.

Example:
  $ poste relay unset`;

export function relayUnsetCommand(): Command {
  const command = new Command('unset').description('Use no relay any more.');
  return withDaemonFlags(command, 'print it as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: DaemonFlags) => {
      const { relay, relay_accepted: accepted } = await ask('relay-unset', {}, flags);
      if (flags.json) process.stdout.write(jsonLine({ relay, relay_accepted: accepted }));
      else {
        const rest = accepted > 0 ? ` Of what it took, ${accepted} in the outbox are not confirmed yet.` : '';
        process.stdout.write(`${printable(relay.url)} is not used any more.${rest}\n`);
      }
    });
}
