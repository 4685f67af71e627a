/** `poste pair`: two hosts on a LAN learn each other's keys by a code that is good once. */
import { text as readAll } from 'node:stream/consumers';
import { Command } from 'commander';
import type { InviteResult, PeerView } from '../host/documents/peers.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine, timeText } from './text.ts';
import { lanAddress } from './values.ts';

/** The other host is asked twice, and may be slow. */
const ACCEPT_SILENCE_MS = 90_000;

const NOTES = `
One host invites, the other accepts with the code and the inviting host's address. A code pairs one host, within ten
minutes, and is void after five wrong tries: send it by a way that nobody else reads. Nothing rests on comparing
fingerprints; they are shown so that it can be done.

Examples:
  $ poste pair invite
  $ poste pair accept 0123-4567-... 192.168.1.7:8789`;

export function pairCommand(): Command {
  return new Command('pair')
    .description('Pair this host with another on the LAN.')
    .addCommand(inviteCommand())
    .addCommand(acceptCommand())
    .addHelpText('after', NOTES);
}

function inviteCommand(): Command {
  const command = new Command('invite').description('Make a code that lets one host pair with this one.');
  return withDaemonFlags(command, 'print the code and where to call as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste pair invite')
    .action(async (flags: DaemonFlags) => {
      const invitation = await ask('pair-invite', {}, flags);
      process.stdout.write(flags.json ? jsonLine(invitation) : invitationText(invitation));
    });
}

function acceptCommand(): Command {
  const command = new Command('accept')
    .description('Pair with the host that made a code.')
    .argument('<code>', 'the code; - reads it from standard input')
    .argument('<address>', 'where that host listens, host:port', lanAddress);
  return withDaemonFlags(command, 'print the paired host as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste pair accept - 192.168.1.7:8789 < code.txt')
    .action(async (said: string, address: string, flags: DaemonFlags) => {
      const code = said === '-' ? (await readAll(process.stdin)).trim() : said;
      const peer = await ask('pair-accept', { code, address }, flags, { silenceMs: ACCEPT_SILENCE_MS });
      process.stdout.write(flags.json ? jsonLine(peer) : pairedText(peer));
    });
}

function invitationText({ code, expires_at, addresses, fingerprint }: InviteResult): string {
  const [address = ''] = addresses;
  const others = addresses.slice(1).map((other) => `  or at        ${other}\n`);
  return [
    `On the other host, until ${timeText(expires_at)}, and once:\n`,
    `  poste pair accept ${code} ${address}\n`,
    ...others,
    `  fingerprint  ${fingerprint}\n`,
  ].join('');
}

function pairedText({ host, fingerprint, address }: PeerView): string {
  return `Paired with ${host}.\n  fingerprint  ${fingerprint}\n  address      ${address ?? 'unknown'}\n`;
}
