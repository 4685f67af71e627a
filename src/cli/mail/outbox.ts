/** `poste outbox`: what is on its way to paired hosts. */
import { Command } from 'commander';
import type { OutboxInput, OutboxResult, OutboxRowView } from '../../host/contract/outbox.ts';
import { OUTBOX_PAGE_MAX } from '../../host/contract/limits.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, daemonCommand } from '../lib/daemon-call.ts';
import type { Screen } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { wholeNumber, withoutUndefined } from '../lib/values.ts';

const NOTES = `
A row is one message, or one delivery receipt, for one host. A message is done when the host has signed that it
delivered it to every recipient. Add --receipts to list delivery receipts too; hosts do not confirm those.

Examples:
  $ poste outbox
  $ poste outbox list --show undelivered
  $ poste outbox list --show all --host laptop --json
  $ poste outbox cancel 17`;

export function outboxCommand(context: CommandContext): Command {
  const outbox = new Command('outbox').addHelpText('after', NOTES);
  daemonCommand(context, 'list')
    .childOf(outbox, 'List rows, the newest first.', { isDefault: true })
    .option('--show <which>', 'which rows (default: open)', { choices: ['open', 'undelivered', 'all'] })
    .option('--host <name>', 'only rows for this host')
    .option('--receipts', 'list delivery receipts too')
    .option('--limit <n>', `list at most this many, up to ${OUTBOX_PAGE_MAX}`, wholeNumber(1, OUTBOX_PAGE_MAX))
    .option('--before <row>', 'continue after an earlier list', wholeNumber(1))
    .notes('\nExample:\n  $ poste outbox list --show undelivered')
    .answers(({ start, json: _json, ...asked }) => ask(context, 'outbox', asked, withoutUndefined({ start })))
    .prints((list, screen, asked) => outboxText(screen, list, asked));
  daemonCommand(context, 'cancel')
    .childOf(outbox, 'Cancel a row that no other host has accepted yet.')
    .argument('<row>', 'its number', wholeNumber(1))
    .notes('\nExample:\n  $ poste outbox cancel 17')
    .answers((row, flags) => ask(context, 'outbox-cancel', { row }, flags))
    .prints(({ was_tried: wasTried }, _screen, row) => {
      const doubt = wasTried ? ' It was sent already, and may have arrived nonetheless.' : '';
      return `Cancelled row ${row}.${doubt}\n`;
    });
  return outbox;
}

export function outboxText(
  screen: Screen,
  { rows, next_before }: OutboxResult,
  { show = 'open', host }: OutboxInput,
): string {
  if (rows.length === 0) {
    const where = host === undefined ? '' : ` for ${printable(host)}`;
    if (show === 'undelivered') return `No row${where} is undelivered.\n`;
    return show === 'open' ? `No row${where} is open.\n` : `The outbox has no row${where}.\n`;
  }
  const more = next_before === null ? '' : `More: --before ${next_before}\n`;
  return `${table(screen, rows, COLUMNS)}${more}`;
}

const COLUMNS: readonly Column<OutboxRowView>[] = [
  { title: 'ROW', cell: ({ row }) => String(row), isNumber: true },
  { title: 'KIND', cell: ({ kind }) => kind },
  { title: 'STATE', cell: ({ state }) => state, style: ({ state }) => (state === 'undelivered' ? 'red' : undefined) },
  { title: 'HOST', cell: ({ host }) => host },
  { title: 'MESSAGE', id: ({ message_id }) => message_id },
  { title: 'SINCE', time: ({ created_at }) => created_at },
  { title: 'NEXT', time: ({ next_at }) => next_at },
  { title: 'FAILED', cell: (row) => String(row.lan_attempts + row.relay_attempts), isNumber: true },
  { title: 'LAST ERROR', cell: ({ last_error }) => last_error ?? '' },
];
