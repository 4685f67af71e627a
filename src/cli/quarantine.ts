/** `poste quarantine`: what came from outside and was not let in. */
import { Command, Option } from 'commander';
import { QUARANTINE_REASONS } from '../host/core/quarantine-reasons.ts';
import {
  QUARANTINE_PAGE_MAX,
  type QuarantineInput,
  type QuarantineResult,
  type QuarantineRetryResult,
  type QuarantineShowResult,
  type QuarantinedItem,
} from '../host/documents/outbox.ts';
import { printable } from '../protocol/printable.ts';
import { confirmed } from './confirm.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { bytesText, jsonLine, table, timeText } from './text.ts';
import { wholeNumber } from './values.ts';

/** All of a full quarantine is received again within this. */
const RETRY_SILENCE_MS = 600_000;
const WIRE_CHARACTERS_SHOWN = 2000;

const NOTES = `
Nothing that comes is dropped in silence: what is not signed by a paired host, does not open, or is for nobody here is
kept with its reason. It is received again by itself when a host is paired or goes on under a new key.

Examples:
  $ poste quarantine
  $ poste quarantine list --reason unknown-agent
  $ poste quarantine show 3
  $ poste quarantine retry 3 4
  $ poste quarantine discard --yes 3`;

export function quarantineCommand(): Command {
  return new Command('quarantine')
    .description('Show what came from outside and was not let in.')
    .addCommand(listCommand(), { isDefault: true })
    .addCommand(showCommand())
    .addCommand(retryCommand())
    .addCommand(discardCommand())
    .addHelpText('after', NOTES);
}

function listCommand(): Command {
  const command = new Command('list')
    .description('List items, the newest first.')
    .option('--host <name>', 'only items of this paired host')
    .addOption(new Option('--reason <reason>', 'only items kept for this').choices(QUARANTINE_REASONS))
    .addOption(new Option('--via <way>', 'only items that came so').choices(['lan', 'relay']))
    .option('--limit <n>', `at most so many, up to ${QUARANTINE_PAGE_MAX}`, wholeNumber(1))
    .option('--before <number>', 'go on after an earlier list', wholeNumber(1));
  return withDaemonFlags(command, 'print the items as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste quarantine list --host laptop')
    .action(async ({ start, json, ...asked }: DaemonFlags & QuarantineInput) => {
      const list = await ask('quarantine', asked, { ...(start && { start }) });
      process.stdout.write(json ? jsonLine(list) : listText(list));
    });
}

function showCommand(): Command {
  const command = new Command('show')
    .description('Show one item, its bytes too.')
    .argument('<number>', 'its number', wholeNumber(1));
  return withDaemonFlags(command, 'print the item, its bytes in base64, as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste quarantine show 3')
    .action(async (number: number, flags: DaemonFlags) => {
      const shown = await ask('quarantine-show', { number }, flags);
      process.stdout.write(flags.json ? jsonLine(shown) : itemText(shown));
    });
}

function retryCommand(): Command {
  const command = new Command('retry')
    .description('Receive items again, or all when none is named.')
    .argument('[number...]', 'their numbers', numbers);
  return withDaemonFlags(command, 'print what became of them as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste quarantine retry 3 4')
    .action(async (named: number[] | undefined, flags: DaemonFlags) => {
      const asked = named && named.length > 0 ? { numbers: named } : {};
      const result = await ask('quarantine-retry', asked, flags, { silenceMs: RETRY_SILENCE_MS });
      process.stdout.write(flags.json ? jsonLine(result) : retriedText(result));
    });
}

function discardCommand(): Command {
  const command = new Command('discard')
    .description('Delete items for good. Their senders are not told.')
    .argument('<number...>', 'their numbers', numbers)
    .option('--yes', 'do not ask');
  return withDaemonFlags(command, 'print what became of them as one JSON document')
    .addHelpText('after', '\nExample:\n  $ poste quarantine discard --yes 3')
    .action(async (named: number[], flags: DaemonFlags & { yes?: boolean }) => {
      const stake = 'what is discarded is gone';
      await confirmed(`Delete ${named.length} of what is in quarantine, for good?`, { ...flags, stake });
      const result = await ask('quarantine-discard', { numbers: named }, flags);
      const missing = result.not_found.length === 0 ? '' : ` There is no ${result.not_found.join(', ')}.`;
      process.stdout.write(flags.json ? jsonLine(result) : `Discarded ${result.discarded.length}.${missing}\n`);
    });
}

function numbers(text: string, before: number[] | undefined): number[] {
  return [...(before ?? []), wholeNumber(1)(text)];
}

function listText(result: QuarantineResult): string {
  const { items, next_before, total_items, total_bytes } = result;
  if (total_items === 0) return 'The quarantine is empty.\n';
  const more = next_before === null ? '' : `There are more: --before ${next_before}\n`;
  const shown = items.length === 0 ? 'There is no such item in quarantine.\n' : table(COLUMNS, items);
  const room = `of at most ${result.items_max} and ${bytesText(result.bytes_max)}`;
  return `${shown}${more}${total_items} items and ${bytesText(total_bytes)} in all, ${room}.\n`;
}

const COLUMNS = [
  { title: 'NUMBER', cell: ({ number }: QuarantinedItem) => String(number), isNumber: true },
  { title: 'KIND', cell: ({ kind }: QuarantinedItem) => kind },
  { title: 'VIA', cell: ({ via }: QuarantinedItem) => via },
  { title: 'FROM', cell: ({ host, sender_pubkey }: QuarantinedItem) => printable(host ?? sender_pubkey) },
  { title: 'SINCE', cell: ({ at }: QuarantinedItem) => timeText(at) },
  { title: 'BYTES', cell: ({ bytes }: QuarantinedItem) => String(bytes), isNumber: true },
  { title: 'REASON', cell: ({ reason, detail }: QuarantinedItem) => printable(`${reason}: ${detail}`) },
];

/** A stranger chose the bytes: they stand behind a bar, and no terminal obeys them. */
function itemText({ item, wire_b64 }: QuarantineShowResult): string {
  const wire = Buffer.from(wire_b64, 'base64').toString('utf8');
  const cut = wire.length > WIRE_CHARACTERS_SHOWN ? `\n  (${item.bytes} bytes; --json has them all)` : '';
  const rows = [
    ['item', item.item_id],
    ['kind', `${item.kind}, over ${item.via}`],
    ['from', item.host ?? 'a host that is not paired'],
    ['key', item.sender_pubkey],
    ['since', timeText(item.at)],
    ['reason', `${item.reason}: ${item.detail}`],
    ...(item.recipients ? [['waits for', item.recipients.join(', ')]] : []),
  ];
  const head = rows.map(([name = '', value = '']) => `  ${name.padEnd(10)} ${printable(value)}\n`).join('');
  return `Number ${item.number}\n${head}  | ${printable(wire.slice(0, WIRE_CHARACTERS_SHOWN))}${cut}\n`;
}

function retriedText({ accepted, kept, not_found }: QuarantineRetryResult): string {
  const reasons = kept.map(({ number, reason, detail }) => `  ${number} stays: ${printable(`${reason}: ${detail}`)}\n`);
  const missing = not_found.map((number) => `  ${number} is not there\n`);
  return `Let in ${accepted.length}.\n${reasons.join('')}${missing.join('')}`;
}
