/** `poste relay log show` and `trace`: the events of the log, a line each, and the whole life of one item. */
import type { Command } from 'commander';
import { printable } from '../../protocol/printable.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import { type LifeStep, describeEvent, type FormatHost } from '../../relay/core/describe-event.ts';
import {
  chosenEvents,
  documentOf,
  type EventChoice,
  eventDocument,
  readEntries,
  trace,
  type TracedItem,
} from '../../relay/replay/records.ts';
import { eventTimeMs, type LogEntry } from '../../relay/core/event.ts';
import { DamagedRecord, EVENT_TYPES } from '../../relay/store/record.ts';
import {
  enrolmentsOf,
  hostFormatter,
  inAuditedStore,
  prunedClause,
  prunedNotice,
  chosenKeys,
  withAuditedLog,
} from './audited-store.ts';
import { relayCommand } from './relay-command.ts';
import type { CommandContext } from '../lib/context.ts';
import { print, write } from '../lib/output.ts';
import { jsonLine } from '../lib/format.ts';
import { must, wholeNumber, withoutUndefined } from '../lib/values.ts';
import { hostReference, moment } from './values.ts';
import { CommandFailed } from '../lib/exit.ts';
import type { OfflineStore } from '../../relay/replay/offline.ts';
import { ID_END_CHARACTERS_MIN, ID_START_CHARACTERS_MIN, isIdEnd } from '../../host/core/short-ids.ts';
import { type Candidate, idMeant } from '../lib/short-id.ts';

const NOTES = `
Every choice must be met. A host is named by its fingerprint, its public key or its name, and is all keys that rotations
joined. Times are in UTC.

Types: ${EVENT_TYPES.join(', ')}.

Examples:
  $ poste relay log show --limit 20
  $ poste relay log show --host laptop --type ItemAccepted ItemsAcked --since 2025-11-20
  $ poste relay log show --backup poste.backup --json | jq .type
  $ poste relay log show --archive poste-log.archive --item m1`;

export function showCommand(context: CommandContext): Command {
  return withAuditedLog(relayCommand(context, 'show'))
    .option('--host <host>', 'only events that name this host', hostReference)
    .option('--item <id>', 'only events that name this item: its id, or the first or last characters')
    .option('--type <type...>', 'only events of these types', eventType)
    .option('--since <time>', 'only events from this time on', moment)
    .option('--until <time>', 'only events up to this time', moment)
    .option('--from <lsn>', 'begin at this log record', wholeNumber(1))
    .option('--limit <n>', 'show no more than so many', wholeNumber(1))
    .notes(NOTES)
    .action(async ({ host, item, type, since, until, from, limit, ...flags }) => {
      await inAuditedStore(context, flags, async (offline, { signal }) => {
        const enrolments = await enrolmentsOf(offline);
        const formatHost = hostFormatter(enrolments);
        const choice: EventChoice = withoutUndefined({
          hosts: chosenKeys(host, enrolments),
          itemId: item === undefined ? undefined : await itemMeant(offline, item),
          types: type && new Set(type),
          sinceMs: since,
          untilMs: until,
          fromLsn: from,
          limit,
        });
        for await (const entry of chosenEvents(offline, choice)) {
          signal.throwIfAborted();
          await write(context, flags.json ? jsonLine(eventDocument(entry)) : eventLine(entry, formatHost));
        }
        if ((from ?? 1) < offline.store.firstLsn) context.stderr.write(prunedNotice(offline));
      });
    });
}

function eventLine({ lsn, event }: LogEntry, formatHost: FormatHost): string {
  const head = `${String(lsn).padStart(8)}  ${isoTime(eventTimeMs(event))}  ${event.type.padEnd(16)}`;
  return `${head}  ${printable(describeEvent(event).sentence(formatHost))}\n`;
}

function eventType(text: string, before: string[] | undefined): string[] {
  const type = EVENT_TYPES.find((one) => one.toLowerCase() === text.toLowerCase());
  must(type !== undefined, `There is no such type; there are ${EVENT_TYPES.join(', ')}.`);
  return [...(before ?? []), type];
}

const LIMITS_OF_A_LOG =
  'The log holds what changed. A repeated push that was answered duplicate changed nothing and is not in it, nor ' +
  'is any pull: that an item was handed over is known by the ack that covers its seq.';

const TRACE_NOTES = `
${LIMITS_OF_A_LOG}

Examples:
  $ poste relay log trace 0197f3a2-55d1-7c60-8c55-2b1f0f6b8c11
  $ poste relay log trace m1 --sender laptop --json`;

export function traceCommand(context: CommandContext): Command {
  return withAuditedLog(relayCommand(context, 'trace'))
    .argument('<item>', 'its id, or the first or last characters')
    .option('--sender <host>', 'only as pushed by this host', hostReference)
    .option('--target <host>', 'only as pushed to this host', hostReference)
    .notes(TRACE_NOTES)
    .action(async (text, { sender, target, ...flags }) => {
      await inAuditedStore(context, flags, async (offline, work) => {
        const enrolments = await enrolmentsOf(offline);
        const itemId = await itemMeant(offline, text);
        const hosts = { senders: chosenKeys(sender, enrolments), targets: chosenKeys(target, enrolments) };
        const lives = await work.run(trace(offline, { itemId, ...withoutUndefined(hosts) }));
        if (lives.length === 0) {
          const whom = sender === undefined && target === undefined ? '' : ' between these hosts';
          const before = offline.store.firstLsn === 1 ? 'what was refused is not in the log' : prunedClause(offline);
          const message = `no item ${printable(itemId)} was ever accepted${whom} in this log; ${before}`;
          throw new CommandFailed('notFound', 'UNKNOWN_ITEM', message);
        }
        const document = { items: documentOf(lives), note: LIMITS_OF_A_LOG };
        print(context, flags, document, () => traceText(lives, hostFormatter(enrolments)));
      });
    });
}

function traceText(lives: readonly TracedItem[], formatHost: FormatHost): string {
  const parts = lives.map(({ itemId, kind, senderPubkey, targetPubkey, bytes, wireHash, state, steps }) => {
    const hosts = `${formatHost(senderPubkey)} for ${formatHost(targetPubkey)}`;
    const title = `${kind} ${printable(itemId)} of ${hosts}: ${state}\n`;
    const size = `  ${bytes} wire bytes, SHA-256 ${wireHash}\n`;
    const lines = steps.map((step) => {
      return `  ${String(step.lsn).padStart(8)}  ${isoTime(step.timeMs)}  ${stepWords(step, formatHost)}\n`;
    });
    return `${title}${size}${lines.join('')}`;
  });
  return `${parts.join('\n')}\n${LIMITS_OF_A_LOG}\n`;
}

function stepWords(step: LifeStep, formatHost: FormatHost): string {
  switch (step.type) {
    case 'accepted':
      return `accepted at ${seqOf(step, formatHost)}`;
    case 'rotated':
      return `its target went on as ${formatHost(step.targetPubkey)}, where it is to be moved`;
    case 'moved':
      return `moved from seq ${step.fromSeq} to ${seqOf(step, formatHost)}`;
    case 'acked':
      return `acked: the target had everything through seq ${step.through}`;
    case 'expired':
      return 'expired: its target did not ack it in time';
    case 'noticed':
      return `its sender got a notice: ${printable(step.itemId)} at ${seqOf(step, formatHost)}`;
    case 'lost':
      return `lost: its wire bytes were ${step.reason}; a push of the same item is accepted anew`;
    case 'target revoked':
      return 'its target was revoked: nobody can pull it any more';
    case 'forgotten':
      return 'forgotten: a push of the same item would be a new one from here on';
  }
}

function seqOf({ seq, targetPubkey }: { seq: number; targetPubkey: PublicKey }, formatHost: FormatHost): string {
  return `seq ${seq} of ${formatHost(targetPubkey)}`;
}

/** The whole id of an item of which the text is a beginning or an end; what means none comes back as it is. */
async function itemMeant(offline: OfflineStore, text: string): Promise<string> {
  if (text.length < ID_END_CHARACTERS_MIN) return text;
  const mayBegin = text.length >= ID_START_CHARACTERS_MIN;
  const candidates: Candidate[] = [];
  try {
    for await (const run of readEntries(offline)) {
      for (const { event, lsn } of run) {
        if (event.type !== 'ItemAccepted') continue;
        if (event.itemId === text) return text;
        const isMeant = isIdEnd(text, event.itemId) || (mayBegin && event.itemId.startsWith(text));
        if (!isMeant) continue;
        candidates.push({ id: event.itemId, about: `record ${lsn}` });
      }
    }
  } catch (error) {
    // The records before the damage can still be shown.
    if (!(error instanceof DamagedRecord)) throw error;
  }
  return idMeant(text, candidates) ?? text;
}
