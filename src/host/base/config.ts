/**
 * The configuration of a host. Flags win over environment variables, those over the config file, that over the
 * defaults.
 *
 * The file is TOML. An unknown key or an invalid value is refused with its line: a setting that is
 * ignored in silence is worse than none.
 */
import { ConfigRefused, configText, settingsOf } from '../../lib/config-file.ts';
import { RETRY_TIMING } from '../core/outbox-event.ts';
import { type ListenAddress, isLoopback, listenAddressText, parseListenAddress } from '../../lib/listen-address.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface HostConfig {
  /** Where paired hosts connect. Nothing listens there while no host is paired and no invite is open. */
  lanListen: ListenAddress;
  /** The address that paired hosts are to use; `undefined` for the one that they see. */
  lanAdvertise: ListenAddress | undefined;
  /** The address of the owner's page: a loopback address. */
  webListen: ListenAddress;
  /** How long read, acked and sent mail is kept. */
  retentionDays: number;
  logLevel: LogLevel;
  /** The wait after a failed send; each further failure doubles it, up to the longest. */
  retryFirstSeconds: number;
  retryLongestSeconds: number;
  /** Between two pulls from a relay without long polls. */
  relayPollSeconds: number;
}

const RETENTION_DAYS_MAX = 36_500;
/** An hour: no setting may delay mail longer. */
export const SETTING_SECONDS_MAX = 3600;

const RELAY_POLL_SECONDS = 15;

const DEFAULTS: HostConfig = {
  lanListen: { host: '0.0.0.0', port: 8789 },
  lanAdvertise: undefined,
  webListen: { host: '127.0.0.1', port: 8790 },
  retentionDays: 90,
  logLevel: 'info',
  retryFirstSeconds: RETRY_TIMING.firstMs / 1000,
  retryLongestSeconds: RETRY_TIMING.longestMs / 1000,
  relayPollSeconds: RELAY_POLL_SECONDS,
};

interface Setting<K extends keyof HostConfig> {
  member: K;
  environment: string;
  comment: string;
  /** The line in the config file of a new host. */
  example: string;
  /** The value, or `undefined` when it is invalid; only the file can give a number or a boolean. */
  parse(value: unknown): HostConfig[K] | undefined;
  /** Completes "it must be …". */
  expected: string;
}

type AnySetting = { [K in keyof HostConfig]: Setting<K> }[keyof HostConfig];

const ADDRESS = 'a text host:port, as in "127.0.0.1:8789" or "[::1]:8789"';

/** By key in the file; a dot leads into a table. */
const SETTINGS: Readonly<Record<string, AnySetting>> = {
  retention_days: {
    member: 'retentionDays',
    environment: 'POSTE_RETENTION_DAYS',
    comment: 'Days that mail is kept which nobody has to handle any more.',
    example: String(DEFAULTS.retentionDays),
    ...numberUpTo(RETENTION_DAYS_MAX),
  },
  log_level: {
    member: 'logLevel',
    environment: 'POSTE_LOG_LEVEL',
    comment: 'debug, info, warn, error or silent.',
    example: JSON.stringify(DEFAULTS.logLevel),
    parse: (value) => LOG_LEVELS.find((level) => level === value),
    expected: `one of ${LOG_LEVELS.join(', ')}`,
  },
  'lan.listen': {
    member: 'lanListen',
    environment: 'POSTE_LAN_LISTEN',
    comment:
      'Where paired hosts connect. Nothing listens there while no host is paired and no\n# pairing invite is open. 127.0.0.1 keeps it to this machine.',
    example: JSON.stringify(listenAddressText(DEFAULTS.lanListen)),
    parse: addressOf,
    expected: ADDRESS,
  },
  'lan.advertise': {
    member: 'lanAdvertise',
    environment: 'POSTE_LAN_ADVERTISE',
    comment: 'The address that paired hosts are told, where it is not the one they see.',
    example: '"laptop.local:8789"',
    parse: (value) => {
      const address = addressOf(value);
      return address?.port === 0 ? undefined : address;
    },
    expected: ADDRESS,
  },
  'web.listen': {
    member: 'webListen',
    environment: 'POSTE_WEB_LISTEN',
    comment: "Where the owner's page is shown: an address of this machine only.",
    example: JSON.stringify(listenAddressText(DEFAULTS.webListen)),
    parse: (value) => {
      const address = addressOf(value);
      return address && isLoopback(address.host) ? address : undefined;
    },
    expected: 'an address of this machine only, as in "127.0.0.1:8790" or "[::1]:8790"',
  },
  'retry.first_seconds': {
    member: 'retryFirstSeconds',
    environment: 'POSTE_RETRY_FIRST_SECONDS',
    comment: 'Seconds until mail that could not be sent is tried again. Each failure doubles them.',
    example: String(DEFAULTS.retryFirstSeconds),
    ...numberUpTo(SETTING_SECONDS_MAX),
  },
  'retry.longest_seconds': {
    member: 'retryLongestSeconds',
    environment: 'POSTE_RETRY_LONGEST_SECONDS',
    comment: 'Seconds that they grow to at most.',
    example: String(DEFAULTS.retryLongestSeconds),
    ...numberUpTo(SETTING_SECONDS_MAX),
  },
  'relay.poll_seconds': {
    member: 'relayPollSeconds',
    environment: 'POSTE_RELAY_POLL_SECONDS',
    comment:
      'Seconds between two pulls from a relay that answers at once when it has nothing, as\n# one does that speaks only v1.',
    example: String(DEFAULTS.relayPollSeconds),
    ...numberUpTo(SETTING_SECONDS_MAX),
  },
};

/** A number above 0, as a number or as text. */
function numberUpTo(most: number): { parse: (value: unknown) => number | undefined; expected: string } {
  return {
    parse: (value) => {
      const number = typeof value === 'string' && /^[0-9]+(?:\.[0-9]+)?$/.test(value) ? Number(value) : value;
      return typeof number === 'number' && number > 0 && number <= most ? number : undefined;
    },
    expected: `a number above 0, at most ${most}`,
  };
}

function addressOf(value: unknown): ListenAddress | undefined {
  return typeof value === 'string' ? parseListenAddress(value) : undefined;
}

export interface ConfigSources {
  /** Need not exist. */
  file: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** The settings from flags. */
  flags?: Partial<HostConfig>;
}

/** Throws `ConfigRefused`. */
export function loadConfig({ file, environment, flags = {} }: ConfigSources): HostConfig {
  const config: HostConfig = { ...DEFAULTS, ...configOfToml(configText(file) ?? '', file) };
  for (const setting of Object.values(SETTINGS)) {
    const text = environment[setting.environment];
    if (text === undefined || text === '') continue;
    if (!assign(config, setting, text)) {
      throw new ConfigRefused(`${setting.environment} must be ${setting.expected.replaceAll('"', '')}`);
    }
  }
  if (config.retryLongestSeconds < config.retryFirstSeconds) {
    throw new ConfigRefused('retry.longest_seconds must be at least retry.first_seconds');
  }
  return { ...config, ...flags };
}

/** Parses the text of a config file. Throws `ConfigRefused`, naming `file` and a line. */
export function configOfToml(text: string, file: string): Partial<HostConfig> {
  const config: Partial<HostConfig> = {};
  const known = Object.keys(SETTINGS);
  for (const { key, value, place } of settingsOf(text, file, known)) {
    const setting = Object.hasOwn(SETTINGS, key) ? SETTINGS[key] : undefined;
    if (!setting) {
      throw new ConfigRefused(`${place()}: there is no setting ${key}; there are ${known.join(', ')}`);
    }
    if (!assign(config, setting, value)) {
      throw new ConfigRefused(`${place()}: ${key} must be ${setting.expected}`);
    }
  }
  return config;
}

function assign(config: Partial<HostConfig>, setting: AnySetting, value: unknown): boolean {
  const parsedValue = setting.parse(value);
  if (parsedValue === undefined) return false;
  Object.assign(config, { [setting.member]: parsedValue });
  return true;
}

/** The config file of a new host: every setting, with its default. */
export function newConfigText(): string {
  const lines = ['# The settings of this host. A line that is commented out shows what holds without it.'];
  let table = '';
  for (const [key, { environment, comment, example }] of Object.entries(SETTINGS)) {
    const [name = '', inTable] = key.split('.');
    if (inTable !== undefined && name !== table) lines.push('', `[${name}]`);
    table = inTable === undefined ? '' : name;
    lines.push('', `# ${comment} (${environment})`, `# ${inTable ?? name} = ${example}`);
  }
  return `${lines.join('\n')}\n`;
}
