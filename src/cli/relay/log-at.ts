/** `poste relay log at`: a queue, a quota or an allowlist as it was at one point of the log. */
import type { Command } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import {
  PrunedAway,
  type StateThen,
  enrolmentsThen,
  lsnAt,
  queueThen,
  sharesThen,
  stateAt,
} from '../../relay/replay/at.ts';
import { relayRow, sendersRow, targetRow } from '../../relay/core/decision.ts';
import type { FormatHost } from '../../relay/core/describe-event.ts';
import { type EnrolmentRow, NO_USAGE, type QueueRow, type UsageRow } from '../../relay/core/rows.ts';
import { openScratch } from '../../relay/store/scratch.ts';
import type { OfflineStore } from '../../relay/replay/offline.ts';
import {
  hostFormatter,
  inAuditedStore,
  knownKeysOf,
  requireKeysOf,
  prunedClause,
  withAuditedStore,
} from './audited-store.ts';
import { relayCommand } from './relay-command.ts';
import type { FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, usageFailure } from '../lib/exit.ts';
import { type Work, print } from '../lib/output.ts';
import { formatBytes } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { wholeNumber } from '../lib/values.ts';
import { hostReference, moment } from './values.ts';
import { documentOf } from '../../relay/replay/records.ts';

const NOTES = `
The state is replayed from the log, with --time through the last record that was written by then. A host is named by its
fingerprint, its public key or the name it had then, and is all keys that rotations had joined.

Examples:
  $ poste relay log at --lsn 1200 --hosts
  $ poste relay log at --time 2025-11-20T21:48Z --queue laptop
  $ poste relay log at --time 2025-11-20 --quota acme --json`;

export function atCommand(context: CommandContext): Command {
  return draft(context)
    .notes(NOTES)
    .action(async (flags) => {
      if (flags.lsn === undefined && flags.time === undefined)
        throw usageFailure('give the point of the log: --lsn or --time');
      await inAuditedStore(context, flags, async (offline, work) => {
        const lsn = await placeOf(flags, offline, work);
        const scratch = await openScratch();
        try {
          const state = await work.run(stateAt(offline, lsn, scratch)).catch((error: unknown) => {
            throw error instanceof PrunedAway ? prunedAway(offline) : error;
          });
          const { members, texts } = await partsOf(state, flags, screenOf(context));
          print(context, flags, documentOf(members), () => texts.join('\n'));
        } finally {
          await scratch.close();
        }
      });
    });
}

function draft(context: CommandContext) {
  return withAuditedStore(relayCommand(context, 'at'))
    .option('--lsn <n>', 'after this log record', { parse: wholeNumber(1), conflicts: ['time'] })
    .option('--time <time>', 'at this time', moment)
    .option('--queue <host>', 'what waited for this host', hostReference)
    .option('--quota <host or account>', 'what was charged to this host, by sender, or to this account')
    .option('--allowlist <host>', 'whose mail this host took', hostReference)
    .option('--hosts', 'who was enrolled');
}

type AtFlags = FlagsOf<typeof draft>;

async function placeOf({ lsn, time = 0 }: AtFlags, offline: OfflineStore, work: Work): Promise<number> {
  const { lastLsn } = offline.store;
  if (lsn !== undefined) {
    if (lsn <= lastLsn) return lsn;
    const message = `the log ends at record ${lastLsn}: give an --lsn up to there`;
    throw new CommandFailed('notFound', 'BEYOND_THE_LOG', message);
  }
  const found = await work.run(lsnAt(offline, time));
  if (found > 0) return found;
  if (offline.store.pruned.throughLsn > 0) throw prunedAway(offline);
  throw new CommandFailed('notFound', 'BEFORE_THE_LOG', 'the log begins later than that: give a later --time');
}

function prunedAway(offline: OfflineStore): CommandFailed {
  const advice = 'give a later point, or read a backup from before';
  return new CommandFailed('notFound', 'PRUNED', `${prunedClause(offline)}, so its state cannot be shown: ${advice}`);
}

/** A host or an account in the document, and its paragraph of the text. */
type Part = [document: object, text: string];

/** The parts of the state that the flags ask for. */
async function partsOf(
  state: StateThen,
  { queue, quota, allowlist, hosts }: AtFlags,
  screen: Screen,
): Promise<{ members: object; texts: string[] }> {
  const { lsn, timeMs, rows } = state;
  const relay = relayRow(rows);
  const enrolments = await enrolmentsThen(state);
  const formatHost = hostFormatter(enrolments);
  const live = enrolments.filter(({ revokedAtMs }) => revokedAtMs === null).length;
  const members: Record<string, unknown> = { lsn, timeMs, epoch: relay.epoch, relayPubkey: relay.relayPubkey };
  const texts = [
    `After log record ${lsn}, written ${isoTime(timeMs)}: epoch ${relay.epoch}, ${countText(live, 'live host')}.\n`,
  ];
  const add = async (name: string, keys: Iterable<PublicKey>, partOf: (key: PublicKey) => Part | Promise<Part>) => {
    const documents: object[] = [];
    members[name] = documents;
    for (const hostPubkey of keys) {
      const [document, text] = await partOf(hostPubkey);
      documents.push({ hostPubkey, ...document });
      texts.push(text);
    }
  };
  if (hosts) {
    members['hosts'] = enrolments;
    texts.push(table(screen, enrolments, HOST_COLUMNS));
  }
  if (queue !== undefined)
    await add('queues', requireKeysOf(queue, enrolments), (key) => queuePart(state, key, screen, formatHost));
  const charged = quota === undefined ? [] : [...knownKeysOf(quota, enrolments)];
  if (charged.length > 0) await add('quotas', charged, (key) => quotaPart(state, key, formatHost));
  else if (quota !== undefined) {
    if (!enrolments.some(({ account }) => account === quota)) throw unknownHost(quota);
    const usage = rows.get('account', quota) ?? NO_USAGE;
    members['account'] = { account: quota, usage };
    texts.push(`Charged to the account ${printable(quota)}: ${usageText(usage)}.\n`);
  }
  if (allowlist !== undefined)
    await add('allowlists', requireKeysOf(allowlist, enrolments), (key) => listPart(state, key, screen, formatHost));
  return { members, texts };
}

function unknownHost(text: string): CommandFailed {
  const message = `no host and no account was known as ${printable(text)} then: --hosts shows those that were`;
  return new CommandFailed('notFound', 'UNKNOWN_HOST', message);
}

async function queuePart(state: StateThen, key: PublicKey, screen: Screen, formatHost: FormatHost): Promise<Part> {
  const items = await queueThen(state, key);
  const queue = targetRow(state.rows, key);
  const { headSeq, ackedThrough, queueItems, queueBytes } = queue;
  const whole = usageText({ items: queueItems, bytes: queueBytes });
  const rows = items.length > 0 ? itemTable(screen, items, formatHost) : '';
  const text = `Queue of ${formatHost(key)}: ${whole}, last seq ${headSeq}, acked through ${ackedThrough}.\n${rows}`;
  return [{ ...queue, items }, text];
}

async function quotaPart(state: StateThen, key: PublicKey, formatHost: FormatHost): Promise<Part> {
  const [queue, shares] = [targetRow(state.rows, key), await sharesThen(state, key)];
  const lines = shares.map(({ senderPubkey, usage }) => `  ${formatHost(senderPubkey)}: ${usageText(usage)}\n`);
  const whole = usageText({ items: queue.queueItems, bytes: queue.queueBytes });
  return [{ queue, shares }, `Charged to ${formatHost(key)}: ${whole}.\n${lines.join('')}`];
}

function listPart(state: StateThen, key: PublicKey, screen: Screen, formatHost: FormatHost): Part {
  const list = sendersRow(state.rows, key);
  const senders = list?.senders.map((sender) => `  ${formatHost(sender)}  ${displayFingerprint(sender)}\n`) ?? [];
  const whom = list
    ? `of ${countText(list.senders.length, 'sender')}, by its list of ${formatMoment(screen, list.iatMs)}`
    : 'of anybody';
  return [{ list }, `${formatHost(key)} took mail ${whom}.\n${senders.join('')}`];
}

const HOST_COLUMNS: readonly Column<EnrolmentRow>[] = [
  { title: 'NAME', cell: ({ hostName }) => hostName },
  { title: 'FINGERPRINT', id: ({ hostPubkey }) => displayFingerprint(hostPubkey) },
  { title: 'ACCOUNT', cell: ({ account }) => account ?? '-' },
  { title: 'ENROLLED', time: ({ enrolledAtMs }) => enrolledAtMs },
  {
    title: 'STATE',
    cell: ({ revokedAtMs, rotatedTo }) =>
      rotatedTo !== null ? `rotated to ${displayFingerprint(rotatedTo)}` : revokedAtMs === null ? 'live' : 'revoked',
  },
];

function itemTable(screen: Screen, items: readonly QueueRow[], formatHost: FormatHost): string {
  return table<QueueRow>(screen, items, [
    { title: 'SEQ', cell: ({ seq }) => String(seq), isNumber: true },
    { title: 'KIND', cell: ({ kind }) => kind },
    { title: 'ITEM', id: ({ itemId }) => itemId },
    { title: 'SENDER', cell: ({ senderPubkey }) => formatHost(senderPubkey) },
    { title: 'BYTES', cell: ({ bytes }) => String(bytes), isNumber: true },
    { title: 'ACCEPTED', time: ({ acceptedAtMs }) => acceptedAtMs },
    { title: 'EXPIRES', time: ({ expiresAtMs }) => expiresAtMs },
  ]);
}

function usageText({ items, bytes }: UsageRow): string {
  return `${countText(items, 'item')}, ${formatBytes(bytes)}`;
}
