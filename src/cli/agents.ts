/** `poste agents`: whom mail can be sent to. */
import { Command } from 'commander';
import type { AgentsResult } from '../host/documents/mail.ts';
import { printable } from '../protocol/printable.ts';
import { type ActingFlags, ask, withActingFlags } from './daemon-call.ts';
import { jsonLine, table } from './text.ts';

type Listed = AgentsResult['agents'][number];

const NOTES = `
Agents of this host, and those that paired hosts told of, with how old their word is.

Examples:
  $ poste agents
  $ poste agents --host laptop --role review --json`;

export function agentsCommand(): Command {
  const command = new Command('agents')
    .description('Show whom mail can be sent to.')
    .option('--host <name>', 'only agents of this host')
    .option('--role <role>', 'only agents with this role');
  return withActingFlags(command, 'print them as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: ActingFlags & { host?: string; role?: string }) => {
      const { host, role } = flags;
      const asked = { ...(host !== undefined && { host }), ...(role !== undefined && { role }) };
      const result = await ask('mail-agents', asked, flags);
      process.stdout.write(flags.json ? jsonLine(result) : listText(result));
    });
}

function listText({ agents }: AgentsResult): string {
  if (agents.length === 0) return 'There is no such agent.\n';
  return table<Listed>(
    [
      { title: 'ADDRESS', cell: ({ address }) => printable(address) },
      { title: 'ROLES', cell: ({ roles }) => printable(roles.join(',')) },
      { title: 'PRESENCE', cell: ({ presence }) => presence },
      { title: 'HEARD', cell: ({ directory_age_seconds: age }) => (age === null ? '' : `${age} s ago`) },
    ],
    agents,
  );
}
