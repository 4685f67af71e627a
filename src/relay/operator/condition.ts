/**
 * Says what is wrong with the relay now, in words for its operator. The conditions are those of `/readyz` and of the
 * alerts in scripts/deploy/alerts.yml, without the time that an alert waits.
 */
import { countText } from '../core/count-text.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { isoTime } from '../../protocol/time.ts';
import type { BackupState } from '../jobs/backup-job.ts';
import type { RefusalCount, RelayFault, SharedLogShown } from '../../protocol/operator-documents.ts';

export interface Condition {
  /** `undefined`: this relay follows, which is no fault. */
  isReady: boolean | undefined;
  isDiskLow: boolean;
  brokenQueues: number;
  damagedRows: number;
  /** The number of differences that the last check of the rows against the log found. */
  rowsFound: number;
  /** Items that the last scrub found missing or altered. */
  lost: number;
  /** `undefined` while it is unknown. */
  oldestItemAgeMs: number | undefined;
  retentionMs: number;
  /** The refusals of the last hour. */
  refusals: readonly RefusalCount[];
  /** `undefined` without a plan. */
  backups: Pick<BackupState, 'everyMs' | 'last' | 'newest'> | undefined;
  sharedLog: SharedLogShown | undefined;
  nowMs: number;
}

interface Rule extends Omit<RelayFault, 'what'> {
  /** Returns what is wrong, as a sentence; `undefined` when it is not. */
  what: (condition: Condition) => string | undefined;
}

/** Mail that is this near to its expiry is a fault: `PosteRelayMailAboutToExpire` says 12 of 14 days. */
const NEAR_EXPIRY_MS = 2 * DAY_MS;
/** The codes with which a host is told that there is no room for it. */
const FULL: ReadonlySet<string> = new Set(['ENROLMENTS_FULL', 'CHALLENGES_FULL']);
/** The alert `PosteRelayLogBehind` has the same bound. */
const FAR_BEHIND_MS = 30_000;
/** Long enough to be seen by a person who is called; afterwards the metric and the panel of the shared log have it. */
const TOLD_OF_A_FENCE_MS = 60 * 60_000;

/** The worst first. */
export const RULES: readonly Rule[] = [
  {
    alert: 'PosteRelayNotReady',
    is_critical: true,
    what: ({ isReady }) => (isReady === false ? 'The relay takes no requests.' : undefined),
    mend: 'It starts or stops, its store failed, or its shared log takes nothing: /readyz and its log say which.',
  },
  {
    alert: 'PosteRelayNobodyLeads',
    is_critical: true,
    what: ({ sharedLog }) => (sharedLog?.leader === null ? 'No relay leads, so hosts get no answer.' : undefined),
    mend:
      'The log messages of each relay say why it does not take the lead. Look at PostgreSQL ' +
      'and the standby that it names.',
  },
  {
    alert: 'PosteRelayLogUnreachable',
    is_critical: true,
    what: ({ sharedLog }) =>
      sharedLog?.is_reached === false ? 'This relay does not reach its shared log.' : undefined,
    mend: 'Look at the network and at PostgreSQL.',
  },
  {
    alert: 'PosteRelayLogStalled',
    is_critical: true,
    what: ({ sharedLog }) => (sharedLog?.is_stalled ? stalledSentence(sharedLog) : undefined),
    mend:
      'Look at the disk, the locks, the connections and the standbys of PostgreSQL. ' +
      'Nothing that was accepted is lost.',
  },
  {
    alert: 'PosteRelayLogInDoubt',
    is_critical: true,
    what: ({ sharedLog }) =>
      typeof sharedLog?.doubt === 'string' ? `The shared log is in doubt: ${sharedLog.doubt}.` : undefined,
    mend: 'The relay that leads begins a new epoch. If this lasts, its log messages say why it cannot.',
  },
  {
    alert: 'PosteRelayDiskLow',
    is_critical: true,
    what: ({ isDiskLow }) => (isDiskLow ? 'The disk is almost full, and the relay takes no mail.' : undefined),
    mend: 'Make room on the disk of the store: mail is taken again as soon as there is some.',
  },
  {
    alert: 'PosteRelayRowsDamaged',
    is_critical: true,
    what: ({ damagedRows }) =>
      damagedRows > 0
        ? `${countText(damagedRows, 'row')} of the store ${damagedRows === 1 ? 'is' : 'are'} damaged.`
        : undefined,
    mend:
      'Stop the relay, run poste relay log verify, and then poste relay log rebuild. Of a relay whose log is ' +
      'shared, move the database aside instead: it is made anew from the log.',
  },
  {
    alert: 'PosteRelayRowsDiffer',
    is_critical: true,
    what: ({ rowsFound }) =>
      rowsFound > 0 ? `The last check found ${countText(rowsFound, 'row')} that the log does not give.` : undefined,
    mend:
      'Stop the relay, run poste relay log verify, and then poste relay log rebuild. Of a relay whose log is ' +
      'shared, move the database aside instead: it is made anew from the log. Test the disk ' +
      'and the memory of this machine.',
  },
  {
    alert: 'PosteRelayQueueBroken',
    is_critical: true,
    what: ({ brokenQueues }) =>
      brokenQueues > 0 ? `${countText(brokenQueues, 'queue')} contradicts itself and is left as it is.` : undefined,
    mend: 'Stop the relay, and run poste relay log verify.',
  },
  {
    alert: 'PosteRelayMailLost',
    is_critical: true,
    what: ({ lost }) =>
      lost > 0 ? `The last check of the disk found ${countText(lost, 'item')} missing or altered.` : undefined,
    mend: 'Their senders push them again. Test the disk and the memory of this machine.',
  },
  {
    alert: 'PosteRelayBackupOld',
    is_critical: false,
    what: ({ backups, nowMs }) => backups && backupFault(backups, nowMs),
    mend:
      'Look at the room and the rights of the backup folder, and whether it is mounted. The ' +
      'log of the relay names the error.',
  },
  {
    alert: 'PosteRelayMailAboutToExpire',
    is_critical: false,
    what: ({ oldestItemAgeMs, retentionMs }) =>
      oldestItemAgeMs !== undefined && retentionMs > NEAR_EXPIRY_MS && oldestItemAgeMs > retentionMs - NEAR_EXPIRY_MS
        ? 'Mail expires within two days, because its host has not called for it.'
        : undefined,
    mend: 'Sort the hosts by what waits: wake that host, or revoke it if it is gone.',
  },
  {
    alert: 'PosteRelayQuotaReached',
    is_critical: false,
    what: ({ refusals }) =>
      refusals.some(({ reason }) => reason.startsWith('quota:'))
        ? 'Mail was rejected in the last hour, because a quota is used up.'
        : undefined,
    mend: 'Sort the hosts by how full they are: wake the one that does not call, or revoke it if it is gone.',
  },
  {
    alert: 'PosteRelayEnrolmentsFull',
    is_critical: false,
    what: ({ refusals }) =>
      refusals.some(({ reason }) => FULL.has(reason))
        ? 'A host could not enrol in the last hour, because there is no room for it.'
        : undefined,
    mend: 'Revoke hosts that are gone, or start the relay with a larger --max-enrolments.',
  },
  {
    alert: 'PosteRelayLogBehind',
    is_critical: false,
    what: ({ sharedLog }) =>
      sharedLog && sharedLog.behind_ms > FAR_BEHIND_MS
        ? `This relay is ${Math.round(sharedLog.behind_ms / 1000)} seconds behind its shared log.`
        : undefined,
    mend: 'Look at the disk and the processor of this machine; its log names a batch that it cannot apply.',
  },
  {
    alert: 'PosteRelayLogFenced',
    is_critical: false,
    what: ({ sharedLog, nowMs }) =>
      typeof sharedLog?.fenced_at === 'number' && nowMs - sharedLog.fenced_at < TOLD_OF_A_FENCE_MS
        ? `Another relay took the lead while this one served (${isoTime(sharedLog.fenced_at)}).`
        : undefined,
    mend: 'Was this machine paused, or its link cut? Nothing that it accepted is lost.',
  },
  {
    alert: null,
    is_critical: false,
    what: ({ sharedLog }) =>
      sharedLog && sharedLog.settings_differ.length > 0
        ? `This relay has other settings than the one that leads: ${sharedLog.settings_differ.join(', ')}.`
        : undefined,
    mend: 'Start both with the same settings: otherwise this one does not take the lead.',
  },
];

export function faultsOf(condition: Condition): RelayFault[] {
  return RULES.flatMap(({ what, ...rule }) => {
    const text = what(condition);
    return text === undefined ? [] : [{ ...rule, what: text }];
  });
}

function backupFault({ everyMs, last, newest }: NonNullable<Condition['backups']>, nowMs: number): string | undefined {
  if (last?.isGood === false) return 'The last backup failed; it is tried again.';
  const isOld = newest !== undefined && nowMs - newest.atMs > 2 * everyMs;
  return isOld ? 'The last good backup is older than two intervals.' : undefined;
}

function stalledSentence({ copy_fault: fault }: SharedLogShown): string {
  if (fault === null) return 'The shared log takes nothing, and pushes are refused.';
  return `The shared log takes nothing, and pushes are refused: ${fault}.`;
}
