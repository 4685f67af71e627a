/** `poste relay console`: a one-time URL that opens the operator's console, alone on stdout. */
import { Command } from 'commander';
import type { ConsoleUrlDocument } from '../relay/control/documents.ts';
import { type StoreDirFlags, relayOf, storeDirOption } from './store-dir.ts';
import { jsonLine } from './text.ts';

interface ConsoleFlags extends StoreDirFlags {
  json?: boolean;
}

const NOTES = `
The console is a page of the running relay, for a browser on the same machine: what it does, its hosts and its log. To
reach it from elsewhere bring its port over by ssh, under the same number: ssh -L 8788:127.0.0.1:8788 <machine>.
Paste the URL into the browser: what is on a command line, every user of the machine may read, and use first.

Examples:
  $ poste relay console
  $ poste relay console --json`;

export function relayConsoleCommand(): Command {
  return new Command('console')
    .description('Print a URL that opens the console of the running relay, once.')
    .addOption(storeDirOption())
    .option('--json', 'print one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: ConsoleFlags) => openConsole(flags));
}

async function openConsole(flags: ConsoleFlags): Promise<void> {
  const issued = (await relayOf(flags).post('/v1/console', {})) as unknown as ConsoleUrlDocument;
  process.stdout.write(flags.json ? jsonLine(issued) : `${issued.url}\n`);
  if (!flags.json) process.stderr.write('It opens the console once, within a minute.\n');
}
