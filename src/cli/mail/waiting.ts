/** `poste waiting`: who owes an answer to whom, and since when. */
import type { Command } from 'commander';
import type { Debt, WaitingResult } from '../../host/contract/waiting.ts';
import { DEBTS_SHOWN_MAX } from '../../host/contract/limits.ts';
import { countText } from '../../host/core/spans.ts';
import type { CommandContext } from '../lib/context.ts';
import { actingCommand, ask } from '../lib/daemon-call.ts';
import type { Screen } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { wholeNumber, withoutUndefined } from '../lib/values.ts';

const NOTES = `
A message that needs a reply is owed one by each of its recipients, until that one answers it or acks it. A question to
a role or * is settled by the first answer. Without --as and POSTE_AGENT the list is of all agents of this host.

Examples:
  $ poste waiting
  $ poste waiting --as builder
  $ poste waiting --json`;

export function waitingCommand(context: CommandContext): Command {
  return actingCommand(context, 'waiting')
    .option('--limit <n>', `list at most this many, up to ${DEBTS_SHOWN_MAX}`, wholeNumber(1, DEBTS_SHOWN_MAX))
    .notes(NOTES)
    .answers(({ limit, ...flags }) => ask(context, 'waiting', withoutUndefined({ limit }), flags))
    .prints((result, screen) => waitingText(screen, result));
}

/** The longest waiting first. */
export function waitingText(screen: Screen, { debts, total }: WaitingResult): string {
  if (debts.length === 0) return 'Nobody waits for an answer.\n';
  const more =
    total > debts.length ? `${countText(total - debts.length, 'more answer')} owed: --limit shows them.\n` : '';
  return `${table(screen, debts, COLUMNS)}${more}`;
}

const COLUMNS: readonly Column<Debt>[] = [
  { title: 'SINCE', time: ({ since }) => since },
  { title: 'WAITS', cell: ({ asker }) => asker },
  { title: 'FOR', cell: ({ debtor }) => debtor },
  { title: 'WHO IS', cell: ({ debtor_is: is }) => is, style: ({ debtor_is: is }) => (isLost(is) ? 'red' : undefined) },
  { title: 'MESSAGE IS', cell: ({ state }) => state },
  { title: 'REMINDED', time: ({ reminded_at }) => reminded_at },
  { title: 'MESSAGE', id: ({ message_id }) => message_id },
  { title: 'SUBJECT', cell: ({ subject }) => subject },
];

function isLost(is: Debt['debtor_is']): boolean {
  return is === 'gone' || is === 'unlisted' || is === 'unreachable';
}
