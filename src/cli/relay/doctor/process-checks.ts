/**
 * Checks of the process of the relay: whether it runs, on which HTTP server, with how many connections and files, and
 * how it stands to a log that several relays share.
 */
import { statSync } from 'node:fs';
import { agoText, countText, spanText } from '../../../host/core/spans.ts';
import { isLoopback, listenAddressText } from '../../../lib/listen-address.ts';
import { softwareVersion } from '../../../lib/package-root.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { HOUR_MS } from '../../../protocol/limits.ts';
import { NOT_INSTALLED, type UwsBinding, uwsHere } from '../../../relay/http/uws-binding.ts';
import type { StatusDocument } from '../../../relay/operator/documents.ts';
import { TooFewFiles, connectionLimits, openFilesMax } from '../../../relay/serve/connection-limits.ts';
import type { Durability } from '../../../relay/shared-log/durability.ts';
import type { LogInspection, LogStandby } from '../../../relay/shared-log/inspect-log.ts';
import { GRANTS } from '../../../relay/shared-log/pg-statements.ts';
import { CLOCK_OFF_MS } from '../../../relay/shared-log/takeover-rules.ts';
import type { CommandFailed } from '../../lib/exit.ts';
import {
  type RelayCheck,
  type RelayCheckId,
  type RelaySubject,
  broken,
  logsCommand,
  note,
  ok,
  restartCommand,
  settingCommand,
  startCommand,
  verifyCommand,
} from './subject.ts';

/** The outcome of asking the running relay: its status, why it gave none, or that nothing listens at its socket. */
export type AskedStatus =
  | { type: 'answered'; status: StatusDocument }
  /** `holder` is the process that has its database open. */
  | { type: 'absent'; wasStarted: boolean; holder: number | undefined }
  | { type: 'failed'; failure: CommandFailed };

/** The relay is another user's. */
const OF_ANOTHER: ReadonlySet<string> = new Set(['NOT_THE_OWNER', 'SOCKET_NOT_TRUSTED']);
const OTHERS_WRITE = 0o022;

export function processChecks(subject: RelaySubject, asked: AskedStatus, owner: string): (RelayCheck | undefined)[] {
  if (asked.type === 'answered') return [runsCheck(subject, asked.status), fullCheck(subject, asked.status)];
  if (asked.type === 'failed') return [failedCheck(subject, asked.failure, owner)];
  const { wasStarted, holder } = asked;
  if (holder !== undefined) {
    const sentence =
      `process ${holder} has the database of the store open and does not answer: a relay that starts, stops or ` +
      'hangs, or a command that looks into the store';
    return [broken('relay', sentence, `ps -fp ${holder}`)];
  }
  if (!wasStarted) return [note('relay', `no relay was ever started in ${subject.storeDir}`, startCommand(subject))];
  const sentence = 'it does not run: hosts reach nobody, and their mail waits with them';
  return [broken('relay', sentence, startCommand(subject))];
}

function failedCheck(subject: RelaySubject, { code, message }: CommandFailed, owner: string): RelayCheck {
  const { storeDir } = subject;
  const word = shellWord(storeDir);
  const isOpen = (): boolean => ((statSync(storeDir, { throwIfNoEntry: false })?.mode ?? 0) & OTHERS_WRITE) !== 0;
  if (code === 'SOCKET_PATH_TOO_LONG')
    return broken('relay', message, `ln -s ${word} ~/relay && poste relay doctor --store-dir ~/relay`);
  if (code === 'SOCKET_NOT_TRUSTED' && isOpen()) return broken('relay', message, `chmod go-w ${word}`);
  if (OF_ANOTHER.has(code)) return broken('relay', message, `sudo -u ${owner} poste relay doctor --store-dir ${word}`);
  return broken('relay', message, restartCommand(subject));
}

function runsCheck(
  subject: RelaySubject,
  { pid, version, role, is_ready: isReady, listen }: StatusDocument,
): RelayCheck {
  const runs = `runs as process ${pid}`;
  if (role !== 'following' && !isReady)
    return broken(
      'relay',
      `${runs} and takes no requests: it starts, stops, or its store failed`,
      logsCommand(subject),
    );
  const sentence = `${runs}, version ${version}, and ${role === 'following' ? 'follows' : `serves at ${listen}`}`;
  if (version === softwareVersion()) return ok('relay', sentence);
  return note('relay', `${sentence}; this command is version ${softwareVersion()}`, restartCommand(subject));
}

/** Beyond this share the idlest are about to be closed for new ones. */
const ALMOST_ALL = 0.9;

function fullCheck(subject: RelaySubject, { connections }: StatusDocument): RelayCheck | undefined {
  if (!connections) return undefined;
  const { open, max } = connections;
  const sentence = `${open} of ${countText(max, 'connection')} ${open === 1 ? 'is' : 'are'} open`;
  if (open < max * ALMOST_ALL) return ok('connections', sentence);
  const more = settingCommand(subject, '--max-connections', String(max * 2));
  return note('connections', `${sentence}: idle ones are closed for new ones`, more);
}

/** Says how old the newest cosignature of each witness is. */
export function witnessChecks(subject: RelaySubject): RelayCheck[] {
  return (subject.status?.witnesses ?? []).map(({ name, cosigned_ms_ago: ms, fault }) => {
    const last = ms === null ? 'has not cosigned the log yet' : `cosigned the log ${agoText(ms)}`;
    const sentence = `${name} ${last}${fault === null ? '' : `: ${fault}`}`;
    if (ms === null || ms >= HOUR_MS)
      return broken(['witness', name], `${sentence}; hosts that name it count nothing older`, logsCommand(subject));
    return fault === null ? ok(['witness', name], sentence) : note(['witness', name], sentence, logsCommand(subject));
  });
}

/** Names its HTTP server, and says why it is not the faster one. */
export function serverCheck(
  subject: RelaySubject,
  { binding, faults }: { binding: Pick<UwsBinding, 'version'> | undefined; faults: string[] } = uwsHere(),
): RelayCheck {
  const { status, options } = subject;
  const asked = status ? status.server_asked : (options?.server ?? null);
  if (asked === 'node') return ok('server', `${status?.server ?? 'node:http'}, because --server node asks for it`);
  const isNode = status && status.role !== 'following' ? status.server.startsWith('node:') : binding === undefined;
  if (!isNode) return ok('server', status?.server ?? `uWebSockets.js ${binding?.version ?? ''}`);
  if (binding) {
    const sentence =
      `${status?.server ?? 'node:http'}, although uWebSockets.js ${binding.version} runs here: the relay was ` +
      'started with another Node or installation than this command';
    return note('server', sentence, restartCommand(subject));
  }
  const why = faults.join('; ');
  if (asked === 'uws') {
    const missing = `--server uws asks for uWebSockets.js, which does not run here: ${why}`;
    return broken('server', missing, settingCommand(subject, '--server', 'node'));
  }
  const sentence = `node:http, which does all the same and is slower, because no uWebSockets.js runs here: ${why}`;
  const mend = why.includes(NOT_INSTALLED)
    ? 'npm ci --omit=dev'
    : 'node --version  # 22 or 20: theirs needs no more than glibc 2.27';
  return note('server', sentence, mend);
}

/** Says when strangers get in. */
export function admissionChecks(subject: RelaySubject, notices: readonly string[]): RelayCheck[] {
  const mend = settingCommand(subject, '--admission', 'invite');
  return notices.map((sentence) => note('admission', sentence, mend));
}

export function filesCheck(subject: RelaySubject): RelayCheck {
  const { status, options, unit } = subject;
  const inUnit = /^LimitNOFILE=(?<files>[0-9]+)$/m.exec(unit ?? '')?.groups?.['files'];
  const files = status?.open_files_max ?? (inUnit === undefined ? openFilesMax() : Number(inUnit));
  const whose = status ? 'its process' : inUnit === undefined ? 'a process of this user' : 'its unit';
  const raise = unit === undefined ? 'ulimit -n 65536' : 'systemctl edit poste-relay  # [Service] LimitNOFILE=65536';
  try {
    const { limits, notices } = connectionLimits(options?.connections ?? {}, files);
    const sentence = `${whose} may open ${files} files, enough for ${limits.max} connections`;
    return notices.length === 0 ? ok('files', sentence) : note('files', `${sentence} and no more`, raise);
  } catch (error) {
    if (!(error instanceof TooFewFiles)) throw error;
    return broken('files', error.message, raise);
  }
}

/** Checks a relay without a certificate: hosts must reach it over a proxy that has one. */
export function plainCheck(subject: RelaySubject): RelayCheck {
  const { status, options } = subject;
  const listen = status?.listen ?? (options ? listenAddressText(options.listen) : '');
  const host = listen.slice(0, listen.lastIndexOf(':')).replaceAll(/^\[|\]$/g, '');
  if (isLoopback(host))
    return ok('certificate', `it speaks plain HTTP at ${listen}: a proxy of this machine has the certificate`);
  const sentence =
    `it speaks plain HTTP at ${listen}: everybody on the way sees who writes to whom, unless a proxy with a ` +
    'certificate is the only one that reaches it';
  return note('certificate', sentence, `${settingCommand(subject, '--tls-cert', '<certificate>')}; and --tls-key`);
}

/** The check that a fault of the running relay becomes. */
interface Fault {
  id: RelayCheckId;
  command: (subject: RelaySubject) => string;
  /** True also of an alert that is no more than a warning. */
  isBroken?: true;
}

const hostsCommand = ({ storeDir }: RelaySubject): string => `poste relay hosts --store-dir ${shellWord(storeDir)}`;

const ROWS: Fault = { id: 'rows', command: ({ storeDir }) => verifyCommand(storeDir) };
const MAIL: Fault = { id: 'mail', command: hostsCommand };
const LAG: Fault = { id: 'log-lag', command: logsCommand, isBroken: true };

const BY_ALERT: Readonly<Record<string, Fault>> = {
  PosteRelayNobodyLeads: { id: 'log-leader', command: logsCommand },
  PosteRelayLogUnreachable: LAG,
  PosteRelayLogStalled: { ...LAG, command: () => SHOW_STANDBYS },
  PosteRelayLogInDoubt: { id: 'log-doubt', command: logsCommand },
  PosteRelayRowsDamaged: ROWS,
  PosteRelayRowsDiffer: ROWS,
  PosteRelayQueueBroken: ROWS,
  PosteRelayMailLost: { ...MAIL, command: logsCommand },
  PosteRelayBackupOld: { id: 'backup', command: logsCommand, isBroken: true },
  PosteRelayMailAboutToExpire: MAIL,
  PosteRelayQuotaReached: MAIL,
  PosteRelayEnrolmentsFull: {
    ...MAIL,
    command: (subject) => settingCommand(subject, '--max-enrolments', '<more hosts>'),
  },
  PosteRelayLogBehind: LAG,
  PosteRelayLogFenced: { id: 'log-fence', command: logsCommand },
};
/** The one fault without an alert. */
const SETTINGS: Fault = { id: 'log-settings', command: () => 'poste relay serve --print-config' };
/** The checks of the process and of the disk say these. */
const SAID_ELSEWHERE: ReadonlySet<string | null> = new Set(['PosteRelayNotReady', 'PosteRelayDiskLow']);

/** Puts what the running relay finds wrong in the place of the check of the same id. */
export function withFaults(subject: RelaySubject, checks: readonly RelayCheck[]): RelayCheck[] {
  const faults = faultChecks(subject);
  return [...checks.filter(({ id }) => faults.every((fault) => fault.id !== id)), ...faults];
}

function faultChecks(subject: RelaySubject): RelayCheck[] {
  return (subject.status?.faults ?? []).flatMap(({ alert, is_critical: isCritical, what, mend }) => {
    if (SAID_ELSEWHERE.has(alert)) return [];
    const { command, isBroken = isCritical, id } = BY_ALERT[alert ?? ''] ?? SETTINGS;
    return (isBroken ? broken : note)(id, `${what} ${mend}`, command(subject));
  });
}

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
      'the database lacks tables of the log: a relay makes them at its first start if its user may, or their ' +
      'owner does';
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

const SHOW_STANDBYS = `psql -c 'SELECT application_name, state, sync_state FROM pg_stat_replication'`;
/** Commits wait for standbys in these states. */
const SYNCHRONOUS: ReadonlySet<string | undefined> = new Set(['sync', 'quorum']);

function copiesCheck(
  { namesFault, standbyNames, standbys, synchronousCommit }: LogInspection,
  durability: Durability,
): RelayCheck {
  const names = `synchronous_standby_names is ${standbyNames === '' ? 'empty' : `'${standbyNames}'`}`;
  const commit = `synchronous_commit is ${synchronousCommit} for its user, and each batch sets it to on`;
  if (namesFault !== undefined) {
    const command = `psql -c "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (<standby>)'"`;
    return broken('log-copies', namesFault, `${command} -c 'SELECT pg_reload_conf()'`);
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

/** Says how far the running relay is. A fault that it finds in the log is a check of its own. */
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
