/** The subject and the checks of `poste relay doctor`, and the commands that it shows. */
import type { Check } from '../../../lib/check.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import type { RelayOptions } from '../../../relay/serve/options.ts';
import type { StatusDocument } from '../../../relay/operator/documents.ts';

/** The areas in the order in which they are shown. */
export const RELAY_AREAS = {
  relay: 'The relay',
  store: 'Its store',
  machine: 'This machine',
  tls: 'Certificate',
  backup: 'Backups',
  log: 'The shared log',
} as const;
type RelayArea = keyof typeof RELAY_AREAS;

/** DO NOT CHANGE an id: programs switch on them. */
type RelayCheckId =
  | 'config'
  | 'relay'
  | 'server'
  | 'connections'
  | 'admission'
  | 'store'
  | 'rows'
  | 'mail'
  | 'position'
  | 'key'
  | 'disk'
  | 'clock'
  | 'files'
  | 'certificate'
  | 'tls-key'
  | 'backup'
  | 'backup-folder'
  | 'log-reach'
  | 'log-role'
  | 'log-copies'
  | 'log-leader'
  | 'log-lag'
  | 'log-doubt'
  | 'log-fence'
  | 'log-settings'
  | 'log-clock';

export type RelayCheck = Check<RelayArea, RelayCheckId>;

/** A relay as it runs or would start. */
export interface RelaySubject {
  storeDir: string;
  /** Whether the folder is another than the one by default. */
  isStoreNamed: boolean;
  /** It would start with these; `undefined` when they cannot be used. */
  options: Omit<RelayOptions, 'log'> | undefined;
  /** How it runs; `undefined` while it does not, or does not answer. */
  status: StatusDocument | undefined;
  positionFile: string;
  /** Whether it is to have its log in PostgreSQL. */
  sharesLog: boolean;
  configFile: { path: string; isThere: boolean; isNamed: boolean };
  /** The text of its systemd unit, where this machine has it. */
  unit: string | undefined;
  /** What the relay's key is taken from besides the store folder, where that is known. */
  keySource: { environment: boolean; file: string | undefined };
  nowMs: number;
}

/** Sets something: in the config file, where there is one, else as a flag. */
export function settingCommand({ configFile }: RelaySubject, flag: string, value: string): string {
  const key = flag.slice(2).replaceAll('-', '_');
  const line = `${key} = ${/^[0-9]+$/.test(value) ? value : JSON.stringify(value)}`;
  if (configFile.isThere || configFile.isNamed) return `$EDITOR ${shellWord(configFile.path)}  # ${line}`;
  return `poste relay serve ${flag} ${shellWord(value)}`;
}

export function startCommand({ unit, storeDir, configFile }: RelaySubject): string {
  if (unit !== undefined) return 'systemctl start poste-relay';
  const config = configFile.isNamed ? ` --config ${shellWord(configFile.path)}` : '';
  return `poste relay serve --store-dir ${shellWord(storeDir)}${config}`;
}

export function restartCommand(subject: RelaySubject): string {
  if (subject.unit !== undefined) return 'systemctl restart poste-relay';
  return `kill ${subject.status?.pid ?? '<process of the relay>'}; ${startCommand(subject)}`;
}

export function logsCommand({ unit, storeDir }: RelaySubject): string {
  return unit === undefined ? `ls -la ${shellWord(storeDir)}` : 'journalctl -u poste-relay -n 50';
}
