/** `poste unpair <host>`: nothing goes to a host or is taken from it any more. */
import { Command } from 'commander';
import { confirmed } from './confirm.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine } from './text.ts';

const NOTES = `
What waits for the host is not sent any more, and its senders are told; what comes from it goes into quarantine. The
other host is not told: unpair there too. Pairing again takes a new code.

Examples:
  $ poste unpair laptop
  $ poste unpair --yes SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y`;

export function unpairCommand(): Command {
  const command = new Command('unpair')
    .description('End the pairing with a host.')
    .argument('<host>', 'its name or fingerprint')
    .option('--yes', 'do not ask');
  return withDaemonFlags(command, 'print the host as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (host: string, flags: DaemonFlags & { yes?: boolean }) => {
      const stake = 'unpairing ends what waits for that host';
      await confirmed(`Unpair ${host}? What waits for it is not sent any more.`, { ...flags, stake });
      const peer = await ask('unpair', { host }, flags);
      process.stdout.write(flags.json ? jsonLine(peer) : `This host is not paired with ${peer.host} any more.\n`);
    });
}
