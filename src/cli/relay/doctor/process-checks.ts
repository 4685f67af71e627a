/** The process of the relay: whether it runs, on which HTTP server, with how many connections and files. */
import { countText } from '../../../host/core/spans.ts';
import { statSync } from 'node:fs';
import { broken, note, ok } from '../../../lib/check.ts';
import { listenAddressText } from '../../../lib/listen-address.ts';
import { softwareVersion } from '../../../lib/package-root.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { NOT_INSTALLED, type UwsBinding, uwsHere } from '../../../relay/http/uws-binding.ts';
import { TooFewFiles, connectionLimits, openFilesMax } from '../../../relay/serve/connection-limits.ts';
import type { CommandFailed } from '../../lib/exit.ts';
import {
  type RelayCheck,
  type RelaySubject,
  logsCommand,
  restartCommand,
  settingCommand,
  startCommand,
} from './subject.ts';

const RELAY = { area: 'relay', id: 'relay' } as const;
const SERVER = { area: 'relay', id: 'server' } as const;
const CONNECTIONS = { area: 'relay', id: 'connections' } as const;
const FILES = { area: 'machine', id: 'files' } as const;

/** The outcome of asking the running relay. */
export type Asked =
  | { type: 'answered' }
  /** Nothing listens at its socket. `holder` is the process that has its database open. */
  | { type: 'absent'; wasStarted: boolean; holder: number | undefined }
  | { type: 'failed'; failure: CommandFailed };

/** The relay is another user's. */
const OF_ANOTHER: ReadonlySet<string> = new Set(['NOT_THE_OWNER', 'SOCKET_NOT_TRUSTED']);
const OTHERS_WRITE = 0o022;

export function processChecks(subject: RelaySubject, asked: Asked, owner: string): RelayCheck[] {
  const { status } = subject;
  if (status) return [runsCheck(subject), ...fullCheck(subject)];
  if (asked.type === 'failed') return [failedCheck(subject, asked.failure, owner)];
  if (asked.type === 'absent' && asked.holder !== undefined) {
    const sentence = `process ${asked.holder} has the database of the store open and does not answer: a relay that starts, stops or hangs, or a command that looks into the store`;
    return [broken(RELAY, sentence, `ps -fp ${asked.holder}`)];
  }
  if (asked.type === 'absent' && !asked.wasStarted)
    return [note(RELAY, `no relay was ever started in ${subject.storeDir}`, startCommand(subject))];
  return [broken(RELAY, 'it does not run: hosts reach nobody, and their mail waits with them', startCommand(subject))];
}

function failedCheck(subject: RelaySubject, { code, message }: CommandFailed, owner: string): RelayCheck {
  const word = shellWord(subject.storeDir);
  if (code === 'SOCKET_PATH_TOO_LONG')
    return broken(RELAY, message, `ln -s ${word} ~/relay && poste relay doctor --store-dir ~/relay`);
  if (
    code === 'SOCKET_NOT_TRUSTED' &&
    ((statSync(subject.storeDir, { throwIfNoEntry: false })?.mode ?? 0) & OTHERS_WRITE) !== 0
  )
    return broken(RELAY, message, `chmod go-w ${word}`);
  if (OF_ANOTHER.has(code)) return broken(RELAY, message, `sudo -u ${owner} poste relay doctor --store-dir ${word}`);
  return broken(RELAY, message, restartCommand(subject));
}

function runsCheck(subject: RelaySubject): RelayCheck {
  const { status } = subject;
  if (!status) throw new Error('invariant: a relay without a status does not run');
  const { pid, version, role, is_ready: isReady, listen } = status;
  const doing = role === 'following' ? 'follows' : `serves at ${listen}`;
  const sentence = `runs as process ${pid}, version ${version}, and ${doing}`;
  if (role !== 'following' && !isReady)
    return broken(
      RELAY,
      `runs as process ${pid} and takes no requests: it starts, stops, or its store failed`,
      logsCommand(subject),
    );
  if (version !== softwareVersion())
    return note(RELAY, `${sentence}; this command is version ${softwareVersion()}`, restartCommand(subject));
  return ok(RELAY, sentence);
}

/** Beyond this share the idlest are about to be closed for new ones. */
const ALMOST_ALL = 0.9;

function fullCheck(subject: RelaySubject): RelayCheck[] {
  const { connections } = subject.status ?? {};
  if (!connections) return [];
  const { open, max } = connections;
  const sentence = `${open} of ${countText(max, 'connection')} ${open === 1 ? 'is' : 'are'} open`;
  if (open < max * ALMOST_ALL) return [ok(CONNECTIONS, sentence)];
  return [
    note(
      CONNECTIONS,
      `${sentence}: idle ones are closed for new ones`,
      settingCommand(subject, '--max-connections', String(max * 2)),
    ),
  ];
}

/** Which HTTP server it has, and why not the faster one. */
export function serverCheck(
  subject: RelaySubject,
  { binding, faults }: { binding: Pick<UwsBinding, 'version'> | undefined; faults: string[] } = uwsHere(),
): RelayCheck {
  const { status, options } = subject;
  const asked = status ? status.server_asked : (options?.server ?? null);
  if (asked === 'node') return ok(SERVER, `${status?.server ?? 'node:http'}, because --server node asks for it`);
  const isNode = status && status.role !== 'following' ? status.server.startsWith('node:') : binding === undefined;
  if (!isNode) return ok(SERVER, status?.server ?? `uWebSockets.js ${binding?.version ?? ''}`);
  if (binding) {
    const sentence = `${status?.server ?? 'node:http'}, although uWebSockets.js ${binding.version} runs here: the relay was started with another Node or installation than this command`;
    return note(SERVER, sentence, restartCommand(subject));
  }
  const why = faults.join('; ');
  if (asked === 'uws')
    return broken(
      SERVER,
      `--server uws asks for uWebSockets.js, which does not run here: ${why}`,
      settingCommand(subject, '--server', 'node'),
    );
  const sentence = `node:http, which does all the same and is slower, because no uWebSockets.js runs here: ${why}`;
  const mend = why.includes(NOT_INSTALLED)
    ? 'npm ci --omit=dev'
    : 'node --version  # 22 or 20: theirs needs no more than glibc 2.27';
  return note(SERVER, sentence, mend);
}

/** Says when strangers get in. */
export function admissionChecks(subject: RelaySubject, notices: readonly string[]): RelayCheck[] {
  const about = { area: 'relay', id: 'admission' } as const;
  const mend = settingCommand(subject, '--admission', 'invite');
  return notices.map((sentence) => note(about, sentence, mend));
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
    return notices.length === 0 ? ok(FILES, sentence) : note(FILES, `${sentence} and no more`, raise);
  } catch (error) {
    if (!(error instanceof TooFewFiles)) throw error;
    return broken(FILES, error.message, raise);
  }
}

const LOOPBACK = /^(?:::1|localhost|127(?:\.[0-9]{1,3}){3})$/;

/** Checks a relay without a certificate: hosts must reach it over a proxy that has one. */
export function plainCheck(subject: RelaySubject): RelayCheck {
  const { status, options } = subject;
  const listen = status?.listen ?? (options ? listenAddressText(options.listen) : '');
  const host = listen.slice(0, listen.lastIndexOf(':')).replaceAll(/^\[|\]$/g, '');
  const about = { area: 'tls', id: 'certificate' } as const;
  if (LOOPBACK.test(host))
    return ok(about, `it speaks plain HTTP at ${listen}: a proxy of this machine has the certificate`);
  const sentence = `it speaks plain HTTP at ${listen}: everybody on the way sees who writes to whom, unless a proxy with a certificate is the only one that reaches it`;
  return note(about, sentence, `${settingCommand(subject, '--tls-cert', '<certificate>')}; and --tls-key`);
}
