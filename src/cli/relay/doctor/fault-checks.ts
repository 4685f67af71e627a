/** Turns what a running relay finds wrong with itself, which its console shows too, into checks of the doctor. */
import { broken, note } from '../../../lib/check.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { SHOW_STANDBYS } from './log-checks.ts';
import { type RelayCheck, type RelaySubject, logsCommand, settingCommand } from './subject.ts';

type Fault = Pick<RelayCheck, 'area' | 'id'> & {
  command: (subject: RelaySubject) => string;
  /** Also of an alert that is no more than a warning. */
  isBroken?: true;
};

const verifyCommand = ({ storeDir }: RelaySubject): string =>
  `poste relay log verify --store-dir ${shellWord(storeDir)}`;
const hostsCommand = ({ storeDir }: RelaySubject): string => `poste relay hosts --store-dir ${shellWord(storeDir)}`;

const ROWS: Fault = { area: 'store', id: 'rows', command: verifyCommand };
const MAIL: Fault = { area: 'store', id: 'mail', command: hostsCommand };
const LAG: Fault = { area: 'log', id: 'log-lag', command: logsCommand, isBroken: true };

const BY_ALERT: Readonly<Record<string, Fault>> = {
  PosteRelayNobodyLeads: { area: 'log', id: 'log-leader', command: logsCommand },
  PosteRelayLogUnreachable: LAG,
  PosteRelayLogStalled: { ...LAG, command: () => SHOW_STANDBYS },
  PosteRelayLogInDoubt: { area: 'log', id: 'log-doubt', command: logsCommand },
  PosteRelayRowsDamaged: ROWS,
  PosteRelayRowsDiffer: ROWS,
  PosteRelayQueueBroken: ROWS,
  PosteRelayMailLost: { ...MAIL, command: logsCommand },
  PosteRelayBackupOld: { area: 'backup', id: 'backup', command: logsCommand, isBroken: true },
  PosteRelayMailAboutToExpire: MAIL,
  PosteRelayQuotaReached: MAIL,
  PosteRelayEnrolmentsFull: {
    ...MAIL,
    command: (subject) => settingCommand(subject, '--max-enrolments', '<more hosts>'),
  },
  PosteRelayLogBehind: LAG,
  PosteRelayLogFenced: { area: 'log', id: 'log-fence', command: logsCommand },
};
/** The one fault without an alert. */
const SETTINGS: Fault = { area: 'log', id: 'log-settings', command: () => 'poste relay serve --print-config' };
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
    const { command, isBroken = isCritical, ...about } = BY_ALERT[alert ?? ''] ?? SETTINGS;
    return (isBroken ? broken : note)(about, `${what} ${mend}`, command(subject));
  });
}
