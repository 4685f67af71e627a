/** `poste relay log show`: the events of the log, a line each. */
import { type Command, InvalidArgumentError } from 'commander';
import { printable } from '../../protocol/printable.ts';
import { isoTime } from '../../protocol/time.ts';
import { describeEvent } from '../../relay/core/describe-event.ts';
import { chosenEvents, type EventChoice, eventDocument } from '../../relay/replay/records.ts';
import { eventTimeMs } from '../../relay/core/event.ts';
import { EVENT_TYPES } from '../../relay/store/record.ts';
import {
  type AuditedStoreFlags,
  enrolmentsOf,
  hostFormatter,
  inAuditedStore,
  requireKeysOf,
  prunedNotice,
  withAuditedLog,
} from './audited-store.ts';
import { relayCommand } from './relay-command.ts';
import type { CommandContext } from '../lib/context.ts';
import { write } from '../lib/output.ts';
import { jsonLine } from '../lib/format.ts';
import { itemMeant } from './item-meant.ts';
import { wholeNumber } from '../lib/values.ts';
import { hostReference, moment } from './values.ts';

interface ShowFlags extends AuditedStoreFlags {
  host?: string;
  item?: string;
  type?: string[];
  since?: number;
  until?: number;
  from?: number;
  limit?: number;
}

const NOTES = `
Every choice must be met. A host is named by its fingerprint, its public key or its name, and is all keys that rotations
joined. Times are in UTC.

Types: ${EVENT_TYPES.join(', ')}.

Examples:
  $ poste relay log show --limit 20
  $ poste relay log show --host laptop --type ItemAccepted ItemsAcked --since 2025-11-20
  $ poste relay log show --backup poste.backup --json | jq .type
  $ poste relay log show --archive poste-log.archive --item m1`;

export function relayLogShowCommand(context: CommandContext): Command {
  return withAuditedLog(relayCommand(context, 'show'))
    .option('--host <host>', 'only events that name this host', hostReference)
    .option('--item <id>', 'only events that name this item: its id, or the first characters')
    .option('--type <type...>', 'only events of these types', eventType)
    .option('--since <time>', 'only events from this time on', moment)
    .option('--until <time>', 'only events up to this time', moment)
    .option('--from <lsn>', 'begin at this log record', wholeNumber(1))
    .option('--limit <n>', 'show no more than so many', wholeNumber(1))
    .addHelpText('after', NOTES)
    .action(async (flags: ShowFlags) => show(context, flags));
}

function eventType(text: string, before: string[] | undefined): string[] {
  const type = EVENT_TYPES.find((one) => one.toLowerCase() === text.toLowerCase());
  if (!type) throw new InvalidArgumentError(`There is no such type; there are ${EVENT_TYPES.join(', ')}.`);
  return [...(before ?? []), type];
}

async function show(context: CommandContext, flags: ShowFlags): Promise<void> {
  await inAuditedStore(context, flags, async (offline, { signal }) => {
    const enrolments = await enrolmentsOf(offline);
    const formatHost = hostFormatter(enrolments);
    const { host, item, type, since, until, from, limit } = flags;
    const choice: EventChoice = {
      ...(host !== undefined && { hosts: requireKeysOf(host, enrolments) }),
      ...(item !== undefined && { itemId: await itemMeant(offline, item) }),
      ...(type !== undefined && { types: new Set(type) }),
      ...(since !== undefined && { sinceMs: since }),
      ...(until !== undefined && { untilMs: until }),
      ...(from !== undefined && { fromLsn: from }),
      ...(limit !== undefined && { limit }),
    };
    for await (const entry of chosenEvents(offline, choice)) {
      signal.throwIfAborted();
      const { lsn, event } = entry;
      const time = isoTime(eventTimeMs(event));
      const line = `${String(lsn).padStart(8)}  ${time}  ${event.type.padEnd(16)}  ${printable(describeEvent(event).sentence(formatHost))}\n`;
      await write(context, flags.json ? jsonLine(eventDocument(entry)) : line);
    }
    if ((from ?? 1) < offline.store.firstLsn) context.stderr.write(prunedNotice(offline));
  });
}
