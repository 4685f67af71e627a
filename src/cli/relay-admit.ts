/** `poste relay admit`: an invite for one host, its token alone on stdout. */
import { Command, Option } from 'commander';
import { printable } from '../protocol/printable.ts';
import type { InviteDocument, IssuedInviteDocument } from '../relay/control/documents.ts';
import { type StoreDirFlags, relayOf, storeDirOption } from './store-dir.ts';
import { type Column, jsonLine, table, timeText } from './text.ts';
import { inviteLabel, inviteLifetimeMs } from './values.ts';

interface AdmitFlags extends StoreDirFlags {
  label: string;
  expires: number;
  list?: boolean;
  json?: boolean;
}

const LIFETIME_DEFAULT = '7d';

const NOTES = `
A relay that serves with --admission invite lets a new host in only if it shows such a token as the proof of its
enrolment. A token lets one host in; hosts that are in need none to enrol again.

Examples:
  $ poste relay admit --label "laptop of Ada" > invite.txt
  $ poste relay admit --expires 12h
  $ poste relay admit --list`;

export function relayAdmitCommand(): Command {
  return new Command('admit')
    .description('Print an invite token that lets one host in.')
    .addOption(storeDirOption())
    .addOption(
      new Option('--label <text>', 'whom it is for, to find it in the list').argParser(inviteLabel).default(''),
    )
    .addOption(
      new Option('--expires <time>', 'how long it is good: minutes, hours or days, as 30m, 12h or 7d')
        .argParser(inviteLifetimeMs)
        .default(inviteLifetimeMs(LIFETIME_DEFAULT), LIFETIME_DEFAULT),
    )
    .addOption(new Option('--list', 'list the invites that are open instead').conflicts(['label', 'expires']))
    .option('--json', 'print one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: AdmitFlags) => (flags.list ? list(flags) : admit(flags)));
}

async function admit(flags: AdmitFlags): Promise<void> {
  const request = { label: flags.label, lifetime_ms: flags.expires };
  const invite = (await relayOf(flags).post('/v1/invites', request)) as unknown as IssuedInviteDocument;
  if (flags.json) process.stdout.write(jsonLine(invite));
  else process.stdout.write(`${invite.token}\n`);
  if (flags.json) return;
  process.stderr.write(`It lets one host in, until ${timeText(invite.expires_at)}, and is not shown again.\n`);
  if (invite.admission === 'open') {
    process.stderr.write('This relay serves with --admission open: hosts enrol without an invite as well.\n');
  }
}

const COLUMNS: readonly Column<InviteDocument>[] = [
  { title: 'ISSUED', cell: ({ issued_at }) => timeText(issued_at) },
  { title: 'EXPIRES', cell: ({ expires_at }) => timeText(expires_at) },
  { title: 'LABEL', cell: ({ label }) => (label === '' ? '-' : printable(label)) },
];

async function list(flags: AdmitFlags): Promise<void> {
  const open = (await relayOf(flags).list('/v1/invites')) as unknown as InviteDocument[];
  const invites = open.toSorted((a, b) => a.expires_at - b.expires_at || a.issued_at - b.issued_at);
  if (flags.json) process.stdout.write(jsonLine({ invites }));
  else if (invites.length > 0) process.stdout.write(table(COLUMNS, invites));
  else process.stderr.write('No invite is open.\n');
}
