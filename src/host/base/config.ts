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

const RETENTION_DAYS_MAX = 36_500;
/** A year. */
const SETTING_HOURS_MAX = 8760;
/** An hour: no setting may delay mail longer. */
const SETTING_SECONDS_MAX = 3600;
const DAY_SECONDS = 86_400;

interface Setting<Value = unknown> {
  /** The name in the file; a dot leads into a table. The variable is POSTE_ and the same in capitals. */
  key: string;
  byDefault: Value;
  /** The value that the config file of a new host shows. */
  example: Value;
  comment: string;
  /** Returns `undefined` for an invalid value; only the file can give a number or a boolean. */
  parse(value: unknown): Value | undefined;
  /** Completes "it must be …". */
  expected: string;
}

const ADDRESS = 'a text host:port, as in "127.0.0.1:8789" or "[::1]:8789"';
const OWN_ADDRESS = 'an address of this machine only, as in "127.0.0.1:8790" or "[::1]:8790"';

const SETTINGS = {
  retentionDays: number(
    'retention_days',
    90,
    RETENTION_DAYS_MAX,
    'Days that mail is kept which nobody has to handle any more.',
  ),
  remindAfterHours: number(
    'remind_after_hours',
    24,
    SETTING_HOURS_MAX,
    'Hours until an agent is reminded, once, of a message that needs its reply. 0 is never.',
    0,
  ),
  logLevel: logLevel(),
  lanListen: address(
    'lan.listen',
    { host: '0.0.0.0', port: 8789 },
    'Where paired hosts connect. Nothing listens there while no host is paired and no\n' +
      '# pairing invite is open. 127.0.0.1 keeps it to this machine.',
  ),
  lanAdvertise: {
    ...address(
      'lan.advertise',
      { host: 'laptop.local', port: 8789 },
      'The address that paired hosts are told, where it is not the one they see.',
      ({ port }) => port !== 0,
    ),
    byDefault: undefined as ListenAddress | undefined,
  },
  webListen: {
    ...address(
      'web.listen',
      { host: '127.0.0.1', port: 8790 },
      "Where the owner's page is shown: an address of this machine only. Where none is set\n" +
        '# and another program has 8790, the page takes another port, and keeps it.',
      ({ host }) => isLoopback(host),
    ),
    byDefault: undefined as ListenAddress | undefined,
    expected: OWN_ADDRESS,
  },
  retryFirstSeconds: number(
    'retry.first_seconds',
    RETRY_TIMING.firstMs / 1000,
    SETTING_SECONDS_MAX,
    'Seconds until mail that could not be sent is tried again. Each failure doubles them.',
  ),
  retryLongestSeconds: number(
    'retry.longest_seconds',
    RETRY_TIMING.longestMs / 1000,
    SETTING_SECONDS_MAX,
    'Seconds that they grow to at most.',
  ),
  relayPollSeconds: number(
    'relay.poll_seconds',
    15,
    SETTING_SECONDS_MAX,
    'Seconds between two pulls from a relay that answers at once when it has nothing, as\n' +
      '# one does that speaks only v1.',
  ),
  relayRetryElsewhereSeconds: number(
    'relay.retry_elsewhere_s',
    300,
    SETTING_SECONDS_MAX,
    'Seconds, and up to half as many more by chance, that one of several relays is not\n' +
      '# heard until what it has is sent over another one.',
  ),
  relaySecondCopySeconds: orOff(
    number(
      'relay.second_copy_s',
      3600,
      DAY_SECONDS,
      'Seconds until a message that one of several relays has, and nobody confirmed, is given\n' +
        '# to another one too. "off" is never: a relay that loses mail in silence then loses it.',
    ),
  ),
} satisfies Readonly<Record<string, Setting>>;

export type HostConfig = { [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name]['byDefault'] };

const NAMES = Object.keys(SETTINGS) as (keyof HostConfig)[];
const DEFAULTS = Object.fromEntries(NAMES.map((name) => [name, SETTINGS[name].byDefault])) as HostConfig;
const KEYS = NAMES.map((name) => SETTINGS[name].key);

/** A number above 0, or `least` that is also allowed, as a number or as text. */
function number(key: string, byDefault: number, most: number, comment: string, least?: number): Setting<number> {
  const parse = (value: unknown): number | undefined => {
    const read = typeof value === 'string' && /^[0-9]+(?:\.[0-9]+)?$/.test(value) ? Number(value) : value;
    return typeof read === 'number' && (read > 0 || read === least) && read <= most ? read : undefined;
  };
  return {
    key,
    byDefault,
    example: byDefault,
    comment,
    parse,
    expected: `${least === undefined ? 'a number above 0' : `a number from ${least}`}, at most ${most}`,
  };
}

/** The same setting, or the text `off`. */
function orOff(setting: Setting<number>): Setting<number | 'off'> {
  const parse = (value: unknown): number | 'off' | undefined => (value === 'off' ? 'off' : setting.parse(value));
  return { ...setting, parse, expected: `${setting.expected}, or "off"` };
}

function logLevel(): Setting<LogLevel> {
  return {
    key: 'log_level',
    byDefault: 'info',
    example: 'info',
    comment: 'debug, info, warn, error or silent.',
    parse: (value) => LOG_LEVELS.find((one) => one === value),
    expected: `one of ${LOG_LEVELS.join(', ')}`,
  };
}

function address(
  key: string,
  byDefault: ListenAddress,
  comment: string,
  isAllowed: (read: ListenAddress) => boolean = () => true,
): Setting<ListenAddress> {
  const parse = (value: unknown): ListenAddress | undefined => {
    const read = typeof value === 'string' ? parseListenAddress(value) : undefined;
    return read && isAllowed(read) ? read : undefined;
  };
  return { key, byDefault, example: byDefault, comment, parse, expected: ADDRESS };
}

function variableOf({ key }: Setting): string {
  return `POSTE_${key.toUpperCase().replace('.', '_')}`;
}

interface ConfigSources {
  /** It need not exist. */
  file: string;
  environment: Readonly<Record<string, string | undefined>>;
  flags?: Partial<HostConfig>;
}

/** Throws `ConfigRefused`. */
export function loadConfig({ file, environment, flags = {} }: ConfigSources): HostConfig {
  const config: HostConfig = { ...DEFAULTS, ...configOfToml(configText(file) ?? '', file) };
  for (const name of NAMES) {
    const variable = variableOf(SETTINGS[name]);
    const text = environment[variable];
    if (text === undefined || text === '') continue;
    assign(config, name, text, (expected) => `${variable} must be ${expected.replaceAll('"', '')}`);
  }
  if (config.retryLongestSeconds < config.retryFirstSeconds) {
    throw new ConfigRefused('retry.longest_seconds must be at least retry.first_seconds');
  }
  return { ...config, ...flags };
}

/** Parses the text of a config file. Throws `ConfigRefused`, naming `file` and a line. */
export function configOfToml(text: string, file: string): Partial<HostConfig> {
  const config: Partial<HostConfig> = {};
  for (const { key, value, place } of settingsOf(text, file, KEYS)) {
    const name = NAMES[KEYS.indexOf(key)];
    if (!name) throw new ConfigRefused(`${place()}: there is no setting ${key}; there are ${KEYS.join(', ')}`);
    assign(config, name, value, (expected) => `${place()}: ${key} must be ${expected}`);
  }
  return config;
}

function assign(
  config: Partial<HostConfig>,
  name: keyof HostConfig,
  value: unknown,
  refusal: (expected: string) => string,
): void {
  const parsed = SETTINGS[name].parse(value);
  if (parsed === undefined) throw new ConfigRefused(refusal(SETTINGS[name].expected));
  Object.assign(config, { [name]: parsed });
}

/** The config file of a new host: every setting, with its default. */
export function newConfigText(): string {
  const lines = ['# The settings of this host. A line that is commented out shows what holds without it.'];
  let table = '';
  for (const setting of Object.values<Setting>(SETTINGS)) {
    const [name = '', inTable] = setting.key.split('.');
    if (inTable !== undefined && name !== table) lines.push('', `[${name}]`);
    table = inTable === undefined ? '' : name;
    const { example, comment } = setting;
    const shown = typeof example === 'object' ? listenAddressText(example as ListenAddress) : example;
    lines.push('', `# ${comment} (${variableOf(setting)})`, `# ${inTable ?? name} = ${JSON.stringify(shown)}`);
  }
  return `${lines.join('\n')}\n`;
}
