/** `poste quarantine`: what this host received and did not let in. */
import { Command, Option } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { QUARANTINE_REASONS } from '../../host/core/quarantine.ts';
import type {
  QuarantineInput,
  QuarantineResult,
  QuarantineRetryResult,
  QuarantineShowResult,
  QuarantinedItem,
} from '../../host/contract/outbox.ts';
import { QUARANTINE_PAGE_MAX } from '../../host/contract/limits.ts';
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { printable } from '../../protocol/printable.ts';
import { confirmed } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { type DaemonFlags, ask, daemonCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatBytes, formatFields } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { formatTime, type Screen } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { wholeNumber, withoutUndefined } from '../lib/values.ts';

/** A time longer than a full quarantine takes to be received again. */
const RETRY_SILENCE_MS = 600_000;
const WIRE_CHARACTERS_SHOWN = 2000;

const NOTES = `
This host drops nothing silently. It keeps, with a reason, every item that no paired host signed, that cannot be
decrypted, or that is for no agent here. It tries such items again when you pair with a host, or when a host rotates its
key. Paired hosts, relays and unpaired hosts have separate quotas. When the quota of unpaired hosts is full, the oldest
item goes; when another quota is full, new items are kept without their bytes.

Examples:
  $ poste quarantine
  $ poste quarantine list --reason unknown-agent
  $ poste quarantine show 3
  $ poste quarantine retry 3 4
  $ poste quarantine discard --yes 3`;

export function quarantineCommand(context: CommandContext): Command {
  const quarantine = new Command('quarantine').addHelpText('after', NOTES);
  const list = listing(context, 'list', 'all').description('List items, the newest first.');
  quarantine.addCommand(list, { isDefault: true });
  daemonCommand(context, 'show')
    .childOf(quarantine, 'Show one item with its bytes.')
    .argument('<number>', 'its number', wholeNumber(1))
    .notes('\nExample:\n  $ poste quarantine show 3')
    .answers((number, flags) => ask(context, 'quarantine-show', { number }, flags))
    .prints((shown, screen) => quarantinedItemText(screen, shown));
  daemonCommand(context, 'retry')
    .childOf(quarantine, 'Try to receive items again; without numbers, all of them.')
    .argument('[number...]', 'their numbers', numbers)
    .notes('\nExample:\n  $ poste quarantine retry 3 4')
    .action(async (named, flags) => {
      const asked = named?.length ? { numbers: named } : {};
      const result = await ask(context, 'quarantine-retry', asked, flags, { silenceMs: RETRY_SILENCE_MS });
      printDone(context, flags, result, retriedText(result), result.accepted.length + result.kept.length);
    });
  daemonCommand(context, 'discard')
    .childOf(quarantine, 'Delete items for good; their senders are not told.')
    .argument('<number...>', 'their numbers', numbers)
    .option('--yes', 'do not ask for confirmation')
    .notes('\nExample:\n  $ poste quarantine discard --yes 3')
    .action(async (named, flags) => {
      const question = `Delete ${countText(named.length, 'item')} of the quarantine for good?`;
      await confirmed(context, question, { ...flags, stake: 'discarded items cannot be restored' });
      const result = await ask(context, 'quarantine-discard', { numbers: named }, flags);
      const { length } = result.discarded;
      printDone(context, flags, result, `Discarded ${countText(length, 'item')}.\n`, length);
    });
  return quarantine;
}

/** The same list, of what came over relays and with where in their queues it was. */
export function relayQuarantineCommand(context: CommandContext): Command {
  return listing(context, 'quarantine', 'relay');
}

function listing(context: CommandContext, name: string, of: 'all' | 'relay'): Command {
  const via = new Option('--via <way>', 'only items that came over this transport').choices(['lan', 'relay']);
  return daemonCommand(context, name)
    .option('--host <name>', 'only items of this paired host')
    .option('--reason <reason>', 'only items with this reason', { choices: QUARANTINE_REASONS })
    .option('--limit <n>', `list at most this many, up to ${QUARANTINE_PAGE_MAX}`, wholeNumber(1, QUARANTINE_PAGE_MAX))
    .option('--before <number>', 'continue after an earlier list', wholeNumber(1))
    .takes<Pick<QuarantineInput, 'via'>>(...(of === 'all' ? [via] : []))
    .notes('\nExample:\n  $ poste quarantine list --host laptop')
    .answers(({ start, json: _json, ...asked }) => {
      const wanted = of === 'relay' ? { ...asked, via: 'relay' as const } : asked;
      return ask(context, 'quarantine', wanted, withoutUndefined({ start }));
    })
    .prints((list, screen) => quarantineText(screen, list, of));
}

/** Prints what was done with `count` items. Throws `CommandFailed` when a number that was given is no item's. */
function printDone(
  context: CommandContext,
  flags: DaemonFlags,
  result: { not_found: number[] },
  text: string,
  count: number,
): void {
  const { not_found: missing } = result;
  if (flags.json || count > 0 || missing.length === 0) print(context, flags, result, () => text);
  if (missing.length === 0) return;
  const message = `nothing in quarantine has the number ${missing.join(' or ')}: see poste quarantine`;
  throw new CommandFailed('notFound', 'NO_SUCH_ROW', message, { not_found: missing });
}

function numbers(text: string, before: number[] | undefined): number[] {
  return [...(before ?? []), wholeNumber(1)(text)];
}

export function quarantineText(screen: Screen, result: QuarantineResult, of: 'all' | 'relay'): string {
  const { items, next_before, total_items, total_bytes } = result;
  if (total_items === 0) return 'The quarantine is empty.\n';
  const more = next_before === null ? '' : `More: --before ${next_before}\n`;
  const columns = of === 'relay' ? [...COLUMNS.slice(0, 1), ...relayColumns(items), ...COLUMNS.slice(1)] : COLUMNS;
  const shown = items.length === 0 ? 'No item matches.\n' : table(screen, items, columns);
  const all = `${countText(total_items, 'item')}, ${formatBytes(total_bytes)} in total.\n`;
  return `${shown}${more}${all}${result.rooms.map(roomText).join('')}`;
}

const ROOM_TEXT: Readonly<Record<Room['room'], string>> = {
  hosts: 'paired hosts over the LAN',
  relays: 'relays',
  strangers: 'unpaired hosts',
};

/** Says why bytes are missing. */
function withoutBytesText(room: Room['room'] | null): string {
  return room === 'strangers' ? 'as no paired host brought them' : 'because the quota was full';
}

/** The text is empty for a quota that was never used. */
function roomText({ room, items, bytes, items_max, bytes_max, without_bytes, dropped }: Room): string {
  if (items + without_bytes + dropped === 0) return '';
  const parts = [`${items} of at most ${items_max}, ${formatBytes(bytes)} of at most ${formatBytes(bytes_max)}`];
  if (without_bytes > 0) parts.push(`${without_bytes} more without their bytes, ${withoutBytesText(room)}`);
  if (dropped > 0) parts.push(`${dropped} dropped for newer ones`);
  return `  ${ROOM_TEXT[room]}: ${parts.join('; ')}\n`;
}

type Room = QuarantineResult['rooms'][number];

const COLUMNS: readonly Column<QuarantinedItem>[] = [
  { title: 'NUMBER', cell: ({ number }) => String(number), isNumber: true },
  { title: 'KIND', cell: ({ kind }) => kind || '-' },
  { title: 'VIA', cell: ({ via }) => via },
  { title: 'FROM', cell: ({ host, sender_pubkey }) => (host ?? sender_pubkey) || '-' },
  { title: 'SINCE', time: ({ at }) => at },
  { title: 'BYTES', cell: ({ bytes }) => String(bytes), isNumber: true },
  { title: 'REASON', cell: ({ reason, detail }) => `${reason}: ${detail}` },
];

const RELAY_COLUMNS: readonly Column<QuarantinedItem>[] = [
  { title: 'RELAY', id: ({ relay }) => relay && relayName(relay) },
  { title: 'EPOCH', id: ({ relay }) => relay && relay.epoch },
  { title: 'SEQ', cell: ({ relay }) => String(relay?.seq ?? '-'), isNumber: true },
];

function relayColumns(items: readonly QuarantinedItem[]): readonly Column<QuarantinedItem>[] {
  if (!items.some(({ relays }) => relays)) return RELAY_COLUMNS;
  return [...RELAY_COLUMNS, { title: 'ALSO', cell: ({ relays }) => relays?.map(relayName).join(' ') ?? '-' }];
}

function relayName({ pubkey }: NonNullable<QuarantinedItem['relay']>): string {
  const key = parsePublicKey(pubkey);
  return key ? displayFingerprint(key) : pubkey;
}

/** A stranger chose the bytes: they are made printable and start with a bar. */
export function quarantinedItemText(screen: Screen, { item, wire_b64 }: QuarantineShowResult): string {
  const wire = Buffer.from(wire_b64 ?? '', 'base64').toString('utf8');
  const cut = wire.length > WIRE_CHARACTERS_SHOWN ? `\n  (${formatBytes(item.bytes)}; --json shows all of it)` : '';
  const rows = [
    ['item', item.item_id],
    ['kind', `${item.kind === '' ? 'none' : item.kind}, over ${item.via}`],
    ['from', item.host ?? 'an unpaired host'],
    ['key', item.sender_pubkey],
    ...[...(item.relay ? [item.relay] : []), ...(item.relays ?? [])].flatMap((relay) => [
      ['relay', relayName(relay)],
      ['epoch', relay.epoch],
      ['seq', String(relay.seq ?? 'none: the relay speaks v1')],
    ]),
    ['since', formatTime(screen, item.at)],
    ['reason', `${item.reason}: ${item.detail}`],
    item.recipients !== null && ['waits for', item.recipients.join(', ')],
    ['SHA-256', item.wire_hash],
  ];
  const shown =
    wire_b64 === null
      ? `  Its ${countText(item.bytes, 'byte was', 'bytes were')} not kept, ` +
        `${withoutBytesText(item.room)}: it must be sent again.`
      : `  | ${printable(wire.slice(0, WIRE_CHARACTERS_SHOWN))}${cut}`;
  return `Number ${item.number}\n${formatFields(rows, 10)}${shown}\n`;
}

function retriedText({ accepted, kept }: QuarantineRetryResult): string {
  const reasons = kept.map(({ number, reason, detail }) => `  ${number} stays: ${printable(`${reason}: ${detail}`)}\n`);
  return `Let in ${countText(accepted.length, 'item')}.\n${reasons.join('')}`;
}
