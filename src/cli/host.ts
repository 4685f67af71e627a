/** `poste host`: this host itself. */
import { Command } from 'commander';
import { confirmed } from './confirm.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine } from './text.ts';

const NOTES = `
The new key is signed by the old one, so paired hosts go on without pairing again: those that answer are told at once,
the others when they do. Mail that was sealed to the old key opens for 60 days. Make a backup afterwards: an older one
holds the old key, which nobody takes any more.

Examples:
  $ poste host rotate-key
  $ poste host rotate-key --yes --json`;

export function hostCommand(): Command {
  return new Command('host')
    .description('Change what this host is.')
    .addCommand(rotateKeyCommand())
    .addHelpText('after', '\nExample:\n  $ poste host rotate-key');
}

function rotateKeyCommand(): Command {
  const command = new Command('rotate-key')
    .description('Give this host a new key, and tell paired hosts.')
    .option('--yes', 'do not ask');
  return withDaemonFlags(command, 'print the keys as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: DaemonFlags & { yes?: boolean }) => {
      const stake = 'a new key cannot be taken back';
      await confirmed('Give this host a new key? The old one is not used again.', { ...flags, stake });
      const rotated = await ask('rotate-key', {}, flags);
      const told = rotated.peers === 0 ? '' : `  paired hosts ${rotated.peers}, told as they answer\n`;
      const text = `This host has a new key.\n  fingerprint  ${rotated.fingerprint}\n${told}`;
      process.stdout.write(flags.json ? jsonLine(rotated) : text);
    });
}
