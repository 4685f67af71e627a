/** `poste outbox`: what is on its way to paired hosts. */
import { Command, Option } from 'commander';
import { OUTBOX_PAGE_MAX, type OutboxInput, type OutboxResult, type OutboxRowView } from '../host/documents/outbox.ts';
import { printable } from '../protocol/printable.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine, table, timeText } from './text.ts';
import { wholeNumber } from './values.ts';

const NOTES = `
A row is one message, or one delivery receipt, for one host. It is done when the host has signed that it delivered it to
every recipient.

Examples:
  $ poste outbox
  $ poste outbox list --show undelivered
  $ poste outbox list --show all --host laptop --json
  $ poste outbox cancel 17`;

export function outboxCommand(): Command {
  return new Command('outbox')
    .description('Show what is on its way to paired hosts, and take it back.')
    .addCommand(listCommand(), { isDefault: true })
    .addCommand(cancelCommand())
    .addHelpText('after', NOTES);
}

function listCommand(): Command {
  const command = new Command('list')
    .description('List rows, the newest first.')
    .addOption(new Option('--show <which>', 'which (default: open)').choices(['open', 'undelivered', 'all']))
    .option('--host <name>', 'only rows for this host')
    .option('--limit <n>', `at most so many, up to ${OUTBOX_PAGE_MAX}`, wholeNumber(1))
    .option('--before <row>', 'go on after an earlier list', wholeNumber(1));
  return withDaemonFlags(command, 'print the rows as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste outbox list --show undelivered')
    .action(async ({ start, json, ...asked }: DaemonFlags & OutboxInput) => {
      const list = await ask('outbox', asked, { ...(start && { start }) });
      process.stdout.write(json ? jsonLine(list) : listText(list));
    });
}

function cancelCommand(): Command {
  const command = new Command('cancel')
    .description('Take back what no other host has accepted yet.')
    .argument('<row>', 'its number', wholeNumber(1));
  return withDaemonFlags(command, 'print the row as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste outbox cancel 17')
    .action(async (row: number, flags: DaemonFlags) => {
      const result = await ask('outbox-cancel', { row }, flags);
      const doubt = result.was_tried ? ' It was tried already, and may have arrived nonetheless.' : '';
      process.stdout.write(flags.json ? jsonLine(result) : `Row ${row} is cancelled.${doubt}\n`);
    });
}

function listText({ rows, next_before }: OutboxResult): string {
  if (rows.length === 0) return 'There is no such row in the outbox.\n';
  const more = next_before === null ? '' : `There are more: --before ${next_before}\n`;
  return `${table(COLUMNS, rows)}${more}`;
}

const COLUMNS = [
  { title: 'ROW', cell: ({ row }: OutboxRowView) => String(row), isNumber: true },
  { title: 'KIND', cell: ({ kind }: OutboxRowView) => kind },
  { title: 'STATE', cell: ({ state }: OutboxRowView) => state },
  { title: 'HOST', cell: ({ host }: OutboxRowView) => host },
  { title: 'MESSAGE', cell: ({ message_id }: OutboxRowView) => printable(message_id) },
  { title: 'SINCE', cell: ({ created_at }: OutboxRowView) => timeText(created_at) },
  { title: 'NEXT', cell: ({ next_at }: OutboxRowView) => (next_at === null ? '-' : timeText(next_at)) },
  { title: 'FAILED', cell: failures, isNumber: true },
  { title: 'LAST ERROR', cell: ({ last_error }: OutboxRowView) => printable(last_error ?? '') },
];

function failures({ lan_attempts, relay_attempts }: OutboxRowView): string {
  return String(lan_attempts + relay_attempts);
}
