/** A log that several relays share: what its server promises, and how this relay stands to it. */
import { spanText, countText } from '../../../host/core/spans.ts';
import type { Durability } from '../../../relay/shared-log/durability.ts';
import type { LogInspection, LogStandby } from '../../../relay/shared-log/inspect-log.ts';
import { GRANTS } from '../../../relay/shared-log/pg-statements.ts';
import { CLOCK_OFF_MS } from '../../../relay/shared-log/takeover-rules.ts';
import {
  broken,
  note,
  ok,
  type RelayCheck,
  type RelaySubject,
  logsCommand,
  settingCommand,
  startCommand,
} from './subject.ts';

/** The outcome of asking its server. */
export type AskedLog =
  | { type: 'inspected'; inspection: LogInspection }
  /** `message` is a clause. */
  | { type: 'failed'; message: string }
  /** The running relay shares a log, and the command was not told where it is. */
  | { type: 'unknown' };

/** A relay that leads shows a sign of life at least once in a lease; this is more than any that is of use. */
const SILENT_MS = 60_000;
const CLOCK_APART_MS = 5_000;

export function logChecks(subject: RelaySubject, asked: AskedLog, durability: Durability): RelayCheck[] {
  const own = behindChecks(subject);
  if (asked.type === 'inspected') return [...serverChecks(subject, asked.inspection, durability), ...own];
  const unasked = 'the relay has its log in PostgreSQL, which is not asked: name it as the relay does';
  const reach =
    asked.type === 'failed'
      ? broken('log-reach', asked.message, settingCommand(subject, '--log', ADDRESS))
      : note('log-reach', unasked, `poste relay doctor --log ${ADDRESS}`);
  return [reach, ...seenLeader(subject), ...own];
}

const ADDRESS = 'postgres://<user>@<host>/<database>';

function serverChecks(subject: RelaySubject, inspection: LogInspection, durability: Durability): RelayCheck[] {
  const { place, user, lacking, log } = inspection;
  const reach = ok('log-reach', `${place} answers, and its primary takes ${user}`);
  const checks = [reach, clockCheck(subject, inspection), copiesCheck(inspection, durability)];
  if (lacking.some(({ isTable }) => isTable)) {
    const sentence =
      'the database lacks tables of the log: a relay makes them at its first start if its user may, or their owner does';
    const init = 'poste relay cluster init --log postgres://<owner>@<host>/<database>';
    return [...checks, note('log-role', sentence, init)];
  }
  if (lacking.length > 0) {
    const rights = lacking.map(({ right, table }) => `${right} on ${table}`).join(', ');
    return [...checks, broken('log-role', `${user} lacks rights (${rights})`, `psql -c '${GRANTS(user)}'`)];
  }
  const role = ok('log-role', `${user} may do everything that a relay does`);
  if (log) return [...checks, role, ...leaderChecks(subject, log)];
  const sentence = 'no log was begun in this database: the first relay begins it';
  return [...checks, role, note('log-leader', sentence, startCommand(subject))];
}

function clockCheck({ nowMs }: RelaySubject, { nowMs: serverMs }: LogInspection): RelayCheck {
  const apartMs = Math.abs(nowMs - serverMs);
  const sentence = `this clock and that of the database are ${(apartMs / 1000).toFixed(1)} s apart`;
  const command = 'timedatectl set-ntp true && timedatectl';
  if (apartMs > CLOCK_OFF_MS) return broken('log-clock', `${sentence}: this relay does not take the lead`, command);
  return apartMs > CLOCK_APART_MS ? note('log-clock', sentence, command) : ok('log-clock', sentence);
}

export const SHOW_STANDBYS = `psql -c 'SELECT application_name, state, sync_state FROM pg_stat_replication'`;
/** Commits wait for standbys in these states. */
const SYNCHRONOUS: ReadonlySet<string | undefined> = new Set(['sync', 'quorum']);

function copiesCheck(
  { namesFault, standbyNames, standbys, synchronousCommit }: LogInspection,
  durability: Durability,
): RelayCheck {
  const names = `synchronous_standby_names is ${standbyNames === '' ? 'empty' : `'${standbyNames}'`}`;
  const commit = `synchronous_commit is ${synchronousCommit} for its user, and each batch sets it to on`;
  if (namesFault !== undefined) {
    const command = `psql -c "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (<standby>)'" -c 'SELECT pg_reload_conf()'`;
    return broken('log-copies', namesFault, command);
  }
  if (durability !== 'standby')
    return ok('log-copies', `--durability ${durability} asks for no standby; ${names}; ${commit}`);
  const seen = standbys.filter(({ sync }) => sync !== undefined);
  const waitedFor = seen.filter(({ sync }) => SYNCHRONOUS.has(sync));
  if (waitedFor.length > 0)
    return ok('log-copies', `commits wait for ${waitedFor.map(standbyText).join(', ')}; ${commit}`);
  if (standbys.length > 0 && seen.length === 0)
    return ok(
      'log-copies',
      `${names}; which of ${countText(standbys.length, 'standby')} commits wait for, this user may not see; ${commit}`,
    );
  return broken(
    'log-copies',
    `${names}, and no such standby is connected: pushes wait, and hosts get 503`,
    SHOW_STANDBYS,
  );
}

function standbyText({ name, lagSeconds }: LogStandby): string {
  return lagSeconds === undefined ? name : `${name} (${lagSeconds.toFixed(1)} s behind)`;
}

function leaderChecks(subject: RelaySubject, log: NonNullable<LogInspection['log']>): RelayCheck[] {
  const { whyNotServed, format, isNewer, leader, term, beatAgeMs, doubt } = log;
  if (isNewer) {
    const sentence = `the log has the format ${format}, which this software does not read: start the newer software`;
    return [broken('log-leader', sentence, 'poste --version')];
  }
  if (whyNotServed !== undefined) return [broken('log-leader', whyNotServed, 'poste relay cluster publish --help')];
  const logs = logsCommand(subject);
  const undecided = `the log is in doubt (${doubt}), and no relay has begun the new epoch yet`;
  const silent = `${leader} led last, and has shown no sign of life for ${spanText(beatAgeMs)}: hosts get no answer`;
  return [
    leader === undefined
      ? broken('log-leader', 'no relay leads the log: hosts get no answer', logs)
      : beatAgeMs > SILENT_MS
        ? broken('log-leader', silent, logs)
        : ok('log-leader', `${leader} leads, in term ${term}`),
    (doubt ?? null) === null ? ok('log-doubt', 'the log is not in doubt') : broken('log-doubt', undecided, logs),
  ];
}

/** Says how far the running relay is. What it finds wrong with the log is a fault of its own. */
function behindChecks({ status }: RelaySubject): RelayCheck[] {
  const batches = status?.shared_log?.behind_batches;
  if (batches === undefined) return [];
  const sentence =
    batches === 0
      ? 'the running relay has everything that was acknowledged'
      : `the running relay is ${countText(batches, 'batch', 'batches')} behind`;
  return [ok('log-lag', sentence)];
}

/** Says who leads as the running relay knows it, where the database was not asked. */
function seenLeader({ status }: RelaySubject): RelayCheck[] {
  if (!status?.shared_log) return [];
  const { leader, term } = status.shared_log;
  return [ok('log-leader', `${leader} leads, in term ${term}`), ok('log-doubt', 'the log is not in doubt')];
}
