/** `poste relay log at`: a queue, a quota or an allowlist as it was at one point of the log. */
import { type Command, Option } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import { PrunedAway, type StateThen, lsnAt, stateAt } from '../../relay/replay/at.ts';
import type { FormatHost } from '../../relay/core/describe-event.ts';
import type { EnrolmentRow, QueueRow, SendersRow, TargetRow, UsageRow } from '../../relay/core/rows.ts';
import { openScratch } from '../../relay/store/scratch.ts';
import type { OfflineStore } from '../../relay/replay/offline.ts';
import {
  type AuditedStoreFlags,
  hostFormatter,
  inAuditedStore,
  knownKeysOf,
  requireKeysOf,
  prunedClause,
  withAuditedStore,
} from './audited-store.ts';
import { relayCommand } from './relay-command.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { type Work, print } from '../lib/output.ts';
import { formatBytes } from '../lib/format.ts';
import { formatMoment, type Screen, screenOf } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { wholeNumber } from '../lib/values.ts';
import { hostReference, moment } from './values.ts';
import { documentOf } from '../../relay/replay/records.ts';

interface AtFlags extends AuditedStoreFlags {
  lsn?: number;
  time?: number;
  queue?: string;
  quota?: string;
  allowlist?: string;
  hosts?: boolean;
}

const NOTES = `
The state is replayed from the log, with --time through the last record that was written by then. A host is named by its
fingerprint, its public key or the name it had then, and is all keys that rotations had joined.

Examples:
  $ poste relay log at --lsn 1200 --hosts
  $ poste relay log at --time 2025-11-20T21:48Z --queue laptop
  $ poste relay log at --time 2025-11-20 --quota acme --json`;

export function relayLogAtCommand(context: CommandContext): Command {
  return withAuditedStore(relayCommand(context, 'at'))
    .addOption(new Option('--lsn <n>', 'after this log record').argParser(wholeNumber(1)).conflicts('time'))
    .option('--time <time>', 'at this time', moment)
    .option('--queue <host>', 'what waited for this host', hostReference)
    .option('--quota <host or account>', 'what was charged to this host, by sender, or to this account')
    .option('--allowlist <host>', 'whose mail this host took', hostReference)
    .option('--hosts', 'who was enrolled')
    .addHelpText('after', NOTES)
    .action(async (flags: AtFlags) => at(context, flags));
}

async function at(context: CommandContext, flags: AtFlags): Promise<void> {
  if (flags.lsn === undefined && flags.time === undefined) {
    throw new CommandFailed('usage', 'USAGE', 'give the point of the log: --lsn or --time');
  }
  await inAuditedStore(context, flags, async (offline, work) => {
    const lsn = await placeOf(flags, offline, work);
    const scratch = await openScratch();
    try {
      const state = await work.run(stateAt(offline, lsn, scratch)).catch((error: unknown) => {
        throw error instanceof PrunedAway ? prunedAway(offline) : error;
      });
      const shown = await look(state, flags);
      print(context, flags, shownDocument(shown), () => shownText(screenOf(context), shown));
    } finally {
      await scratch.close();
    }
  });
}

async function placeOf({ lsn, time = 0 }: AtFlags, offline: OfflineStore, work: Work): Promise<number> {
  const { lastLsn } = offline.store;
  if (lsn !== undefined) {
    if (lsn <= lastLsn) return lsn;
    throw new CommandFailed(
      'notFound',
      'BEYOND_THE_LOG',
      `the log ends at record ${lastLsn}: give an --lsn up to there`,
    );
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

interface QueueThen extends TargetRow {
  hostPubkey: PublicKey;
  items: QueueRow[];
}

interface Shown {
  state: StateThen;
  formatHost: FormatHost;
  enrolments: readonly EnrolmentRow[];
  hosts?: readonly EnrolmentRow[];
  queues?: QueueThen[];
  quotas?: { hostPubkey: PublicKey; queue: TargetRow; shares: { senderPubkey: PublicKey; usage: UsageRow }[] }[];
  account?: { account: string; usage: UsageRow };
  allowlists?: { hostPubkey: PublicKey; list: SendersRow | undefined }[];
}

async function look(state: StateThen, { queue, quota, allowlist, hosts }: AtFlags): Promise<Shown> {
  const enrolments = await state.enrolments();
  const shown: Shown = { state, formatHost: hostFormatter(enrolments), enrolments };
  if (hosts) shown.hosts = enrolments;
  if (queue !== undefined) {
    shown.queues = [];
    for (const hostPubkey of requireKeysOf(queue, enrolments)) {
      const items: QueueRow[] = [];
      for await (const run of state.queue(hostPubkey)) items.push(...run);
      shown.queues.push({ hostPubkey, ...state.queueAsWhole(hostPubkey), items });
    }
  }
  if (quota !== undefined) {
    const keys = knownKeysOf(quota, enrolments);
    if (keys.size > 0) {
      shown.quotas = [];
      for (const hostPubkey of keys) shown.quotas.push({ hostPubkey, ...(await state.quota(hostPubkey)) });
    } else if (enrolments.some(({ account }) => account === quota)) {
      shown.account = { account: quota, usage: state.account(quota) };
    } else {
      throw new CommandFailed(
        'notFound',
        'UNKNOWN_HOST',
        `no host and no account was known as ${printable(quota)} then: --hosts shows those that were`,
      );
    }
  }
  if (allowlist !== undefined) {
    const keys = [...requireKeysOf(allowlist, enrolments)];
    shown.allowlists = keys.map((hostPubkey) => ({ hostPubkey, list: state.allowlist(hostPubkey) }));
  }
  return shown;
}

function shownDocument({ state, formatHost: _formatHost, enrolments: _enrolments, ...asked }: Shown): object {
  const { lsn, timeMs, relay } = state;
  return {
    lsn,
    time: timeMs,
    epoch: relay.epoch,
    relay_pubkey: relay.relayPubkey,
    ...(documentOf(asked) as object),
  };
}

function shownText(screen: Screen, shown: Shown): string {
  const { state, formatHost, enrolments, hosts, queues, quotas, account, allowlists } = shown;
  const { lsn, timeMs, relay } = state;
  const live = enrolments.filter(({ revokedAtMs }) => revokedAtMs === null).length;
  const parts = [
    `After log record ${lsn}, written ${isoTime(timeMs)}: epoch ${relay.epoch}, ${countText(live, 'live host')}.\n`,
  ];
  if (hosts) parts.push(table(screen, HOST_COLUMNS, hosts));
  for (const { hostPubkey, headSeq, ackedThrough, queueItems, queueBytes, items } of queues ?? []) {
    const whole = `${countText(queueItems, 'item')}, ${formatBytes(queueBytes)}, last seq ${headSeq}, acked through ${ackedThrough}`;
    parts.push(
      `Queue of ${formatHost(hostPubkey)}: ${whole}.\n${items.length > 0 ? itemTable(screen, items, formatHost) : ''}`,
    );
  }
  for (const { hostPubkey, queue, shares } of quotas ?? []) {
    const lines = shares.map(({ senderPubkey, usage }) => `  ${formatHost(senderPubkey)}: ${usageText(usage)}\n`);
    const whole = usageText({ items: queue.queueItems, bytes: queue.queueBytes });
    parts.push(`Charged to ${formatHost(hostPubkey)}: ${whole}.\n${lines.join('')}`);
  }
  if (account) parts.push(`Charged to the account ${printable(account.account)}: ${usageText(account.usage)}.\n`);
  for (const { hostPubkey, list } of allowlists ?? []) {
    const senders = list?.senders.map((key) => `  ${formatHost(key)}  ${displayFingerprint(key)}\n`).join('');
    const whom = list
      ? `of ${countText(list.senders.length, 'sender')}, by its list of ${formatMoment(screen, list.iatMs)}`
      : 'of anybody';
    parts.push(`${formatHost(hostPubkey)} took mail ${whom}.\n${senders ?? ''}`);
  }
  return parts.join('\n');
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
  return table<QueueRow>(
    screen,
    [
      { title: 'SEQ', cell: ({ seq }) => String(seq), isNumber: true },
      { title: 'KIND', cell: ({ kind }) => kind },
      { title: 'ITEM', id: ({ itemId }) => itemId },
      { title: 'SENDER', cell: ({ senderPubkey }) => formatHost(senderPubkey) },
      { title: 'BYTES', cell: ({ bytes }) => String(bytes), isNumber: true },
      { title: 'ACCEPTED', time: ({ acceptedAtMs }) => acceptedAtMs },
      { title: 'EXPIRES', time: ({ expiresAtMs }) => expiresAtMs },
    ],
    items,
  );
}

function usageText({ items, bytes }: UsageRow): string {
  return `${countText(items, 'item')}, ${formatBytes(bytes)}`;
}
