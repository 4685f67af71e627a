/** `poste relay hosts`: who is in. */
import { Command, Option } from 'commander';
import type { HostDocument } from '../relay/control/documents.ts';
import { type HostFilter, chosenHosts, hostTable } from './host-list.ts';
import { type StoreDirFlags, relayOf, storeDirOption } from './store-dir.ts';
import { jsonLine } from './text.ts';

interface HostsFlags extends StoreDirFlags {
  name?: string;
  account?: string;
  live?: boolean;
  revoked?: boolean;
  all?: boolean;
  json?: boolean;
}

const EXAMPLES = `
Examples:
  $ poste relay hosts
  $ poste relay hosts --name 'build-*' --all
  $ poste relay hosts --store-dir /var/lib/poste --json`;

export function relayHostsCommand(): Command {
  return new Command('hosts')
    .description('List the hosts of the running relay.')
    .addOption(storeDirOption())
    .option('--name <pattern>', 'only hosts of this name; * stands for any text and ? for one character')
    .option('--account <account>', 'only hosts of this proven account')
    .addOption(new Option('--live', 'only hosts that are not revoked (the default)').conflicts(['revoked', 'all']))
    .addOption(new Option('--revoked', 'only hosts that are revoked or changed their key').conflicts('all'))
    .option('--all', 'every host key that was ever admitted')
    .option('--json', 'print one JSON document')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: HostsFlags) => hosts(flags));
}

async function hosts(flags: HostsFlags): Promise<void> {
  const all = (await relayOf(flags).list('/v1/hosts')) as unknown as HostDocument[];
  const chosen = chosenHosts(all, filterOf(flags));
  if (flags.json) process.stdout.write(jsonLine({ hosts: chosen }));
  else if (chosen.length > 0) process.stdout.write(hostTable(chosen));
  else process.stderr.write(all.length === 0 ? 'No host has enrolled yet.\n' : 'No host is like that.\n');
}

function filterOf({ name, account, revoked, all }: HostsFlags): HostFilter {
  return { name, account, which: all ? 'all' : revoked ? 'revoked' : 'live' };
}
