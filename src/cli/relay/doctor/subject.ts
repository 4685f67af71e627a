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

/** The checks of each area. DO NOT CHANGE an id: programs switch on them. */
const IDS = {
  relay: ['config', 'relay', 'server', 'connections', 'admission', 'witness'],
  store: ['store', 'rows', 'mail', 'position', 'key'],
  machine: ['disk', 'clock', 'files'],
  tls: ['certificate', 'tls-key'],
  backup: ['backup', 'backup-folder'],
  log: [
    'log-reach',
    'log-role',
    'log-copies',
    'log-leader',
    'log-lag',
    'log-doubt',
    'log-fence',
    'log-settings',
    'log-clock',
  ],
} as const;
export type RelayCheckId = (typeof IDS)[RelayArea][number];
export type RelayCheck = Check<RelayArea, RelayCheckId>;

/** The id of a check, with the folder that it is about where there may be several. */
type About = RelayCheckId | readonly [id: RelayCheckId, about: string];

export function ok(about: About, sentence: string): RelayCheck {
  return checkOf('ok', about, sentence, null);
}

export function note(about: About, sentence: string, command: string): RelayCheck {
  return checkOf('note', about, sentence, command);
}

export function broken(about: About, sentence: string, command: string): RelayCheck {
  return checkOf('broken', about, sentence, command);
}

function checkOf(state: RelayCheck['state'], what: About, sentence: string, command: string | null): RelayCheck {
  const [id, about = null] = typeof what === 'string' ? [what] : what;
  const areas = Object.keys(IDS) as RelayArea[];
  const area = areas.find((one) => IDS[one].some((its) => its === id));
  if (area === undefined) throw new Error(`invariant: the check ${id} has an area`);
  return { area, id, about, state, sentence, command };
}

/** A relay as it runs or would start. */
export interface RelaySubject {
  storeDir: string;
  /** True when the folder is another than the one by default. */
  isStoreNamed: boolean;
  /** It would start with these; `undefined` when they cannot be used. */
  options: Omit<RelayOptions, 'log'> | undefined;
  /** The state in which it runs; `undefined` while it does not, or does not answer. */
  status: StatusDocument | undefined;
  positionFile: string;
  /** True when it is to have its log in PostgreSQL. */
  sharesLog: boolean;
  configFile: { path: string; isThere: boolean; isNamed: boolean };
  /** The text of its systemd unit, where this machine has it. */
  unit: string | undefined;
  /** The sources of the relay's key besides the store folder, where they are known. */
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

export function verifyCommand(storeDir: string): string {
  return `poste relay log verify --store-dir ${shellWord(storeDir)}`;
}
