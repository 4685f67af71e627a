/**
 * Every setting of `poste relay serve`, once: its flag, its variable, its default, how its text is read. The flags of
 * the command, the keys of the config file and what `--print-config` prints are all made of this table. A key is the
 * name of the flag with `_` for `-`; each limit has a key of its own in the table `limits`.
 */
import { dirname, join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { ownPaths } from '../../host/base/paths.ts';
import { BODY_BYTES_MAX, DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { DURABILITIES } from '../../relay/shared-log/durability.ts';
import type { CommandContext } from '../lib/context.ts';
import { LOG_FORMAT_FLAG, LOG_FORMATS } from '../lib/log.ts';
import { must, wholeNumber } from '../lib/values.ts';
import {
  bodyBytes,
  issuerUrl,
  limitsOverridden,
  listenAddress,
  listenAddressOrOff,
  seconds,
  span,
  trustedUrl,
  webUrl,
  witnessKey,
} from './values.ts';

export const STORE_DIR_DEFAULT = './poste-relay';

/** "Limits": the backup plan. */
export const BACKUPS_KEPT = 7;

/**
 * The form of a setting in the config file. A `path` starts at the folder of the file there, and at the working folder
 * as a flag or a variable; a `path or off` may be the word off instead. `texts` are one text with spaces between them,
 * and on the command line the flag may be repeated.
 */
export type SettingKind = 'text' | 'texts' | 'path' | 'path or off' | 'number' | 'yes' | 'limits';

export interface Setting<Value = unknown, Default extends string | undefined = string | undefined> {
  kind: SettingKind;
  flags: string;
  description: string;
  /** The text that would be given. */
  byDefault: Default;
  environment?: string;
  choices?: readonly string[];
  /** Throws `InvalidArgumentError`. */
  parse: (text: string) => Value;
}

function setting<Value, const Default extends string | undefined = undefined>(
  kind: SettingKind,
  flags: string,
  description: string,
  parse: (text: string) => Value,
  byDefault?: Default,
): Setting<Value, Default> {
  return { kind, flags, description, parse, byDefault: byDefault as Default };
}

function path<const Default extends string | undefined = undefined>(
  flags: string,
  description: string,
  byDefault?: Default,
): Setting<string, Default> {
  return setting('path', flags, description, String, byDefault);
}

function oneOf<const Choice extends string, const Default extends Choice | undefined = undefined>(
  choices: readonly Choice[],
  flags: string,
  description: string,
  byDefault?: Default,
): Setting<Choice, Default> {
  const parse = (text: string): Choice => {
    const choice = choices.find((one) => one === text);
    must(choice !== undefined, `It must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}.`);
    return choice;
  };
  return { ...setting('text', flags, description, parse, byDefault), choices };
}

function text<Value, const Default extends string | undefined = undefined>(
  flags: string,
  description: string,
  parse: (text: string) => Value,
  byDefault?: Default,
): Setting<Value, Default> {
  return setting('text', flags, description, parse, byDefault);
}

/** A whole number of at least `least`. */
function whole<const Default extends string | undefined = undefined>(
  flags: string,
  description: string,
  least: number,
  byDefault?: Default,
): Setting<number, Default> {
  return setting('number', flags, description, wholeNumber(least), byDefault);
}

export const SETTINGS = {
  storeDir: path('--store-dir <dir>', 'where the store, relay.key and position lie', STORE_DIR_DEFAULT),
  keyFile: {
    ...path('--key-file <file>', "the file that holds the relay's key, instead of relay.key in the store folder"),
    environment: 'MAIL_RELAY_KEY_FILE',
  },
  listen: text('--listen <host:port>', 'where hosts connect', listenAddress, '127.0.0.1:8787'),
  tlsCert: path('--tls-cert <file>', 'serve hosts over TLS with this certificate (PEM); read again when it changes'),
  tlsKey: path('--tls-key <file>', 'the key of that certificate (PEM)'),
  adminListen: text(
    '--admin-listen <host:port>',
    "the operator's listener (health, metrics, console), or off",
    listenAddressOrOff,
    '127.0.0.1:8788',
  ),
  limits: setting(
    'limits',
    '--limits <json>',
    'override documented limits; retention_days may be a fraction (default: the documented ones)',
    limitsOverridden,
    '{}',
  ),
  maxBody: {
    ...setting('number', '--max-body <bytes>', 'largest request body', bodyBytes, `${BODY_BYTES_MAX}`),
    environment: 'RELAY_MAX_BODY',
  },
  pushesPerMinute: whole(
    '--pushes-per-minute <n>',
    'push requests of one host, and 100 units of other work for each',
    1,
    '600',
  ),
  enrolRate: whole('--enrol-rate <n>', 'challenges, and enrolments, per minute of one client address', 1, '30'),
  maxEnrolments: whole('--max-enrolments <n>', 'live enrolments', 1, '10000'),
  maxConnections: whole('--max-connections <n>', 'connections at once (default: by how many files may be open)', 2),
  maxConnectionsPerAddress: whole(
    '--max-connections-per-address <n>',
    'of these, of one address or IPv6 /64 network (default: a quarter, from 256 to 1024)',
    2,
  ),
  admission: oneOf(
    ['open', 'invite'],
    '--admission <who>',
    'who may enrol: any host, or only hosts with an invite from poste relay admit',
    'open',
  ),
  v1: oneOf(['on', 'off'], '--v1 <state>', 'whether hosts that make no v2 hop are answered, on the v1 routes', 'on'),
  authority: oneOf(
    ['host-key', 'account-token'],
    '--authority <name>',
    'what lets a host in: its key alone, or a token of an account service',
    'host-key',
  ),
  issuer: text('--issuer <url>', 'the account service: iss of its tokens', issuerUrl),
  relayUrl: text('--relay-url <url>', 'this relay, as aud of its tokens names it', webUrl),
  jwksUrl: text(
    '--jwks-url <url>',
    "where the issuer's keys are (default: <issuer>/.well-known/jwks.json)",
    trustedUrl,
  ),
  maxDedupRows: whole('--max-dedup-rows <n>', 'dedup rows one sender may keep', 1, '1000000'),
  sweepSeconds: setting('number', '--sweep-seconds <s>', 'how often to sweep', seconds, '60'),
  witness: setting(
    'texts',
    '--witness <url>',
    'a witness that cosigns the log; may be repeated, up to four times',
    (all) => all.split(' ').map(webUrl),
  ),
  witnessKey: setting('texts', '--witness-key <vkey>', 'the verifier key of that witness, in the same order', (all) =>
    all.split(' ').map(witnessKey),
  ),
  diskFloor: whole('--disk-floor <mib>', 'refuse pushes while less is free on the disk', 0, '256'),
  mailBudget: whole(
    '--mail-budget <mib>',
    'what mail may take of the disk; hosts without an invite or an account get half of it (default: half of what ' +
      'is free above the floor)',
    1,
  ),
  positionFile: path(
    '--position-file <file>',
    'where to note how far the log had come (default: in the state folder, else in the store folder)',
  ),
  backupDir: setting(
    'path or off',
    '--backup-dir <dir>',
    'write regular backups into this folder, or off (default: backups in the store folder with --authority ' +
      'account-token, else off)',
    String,
  ),
  backupKeep: whole('--backup-keep <n>', `how many of them to keep (default: ${BACKUPS_KEPT})`, 1),
  backupEvery: text('--backup-every <time>', 'how often, as 90m, 24h or 7d (default: 24h)', span('90m, 24h or 7d')),
  logKeepDays: whole('--log-keep-days <n>', 'delete log records that are older (default: keep all)', 1),
  logArchiveDir: path('--log-archive-dir <dir>', 'write what is deleted from the log into this folder before'),
  log: {
    ...text(
      '--log <url>',
      'keep the log in PostgreSQL, where several relays share it: postgres://user@host/database',
      String,
    ),
    environment: 'MAIL_RELAY_LOG',
  },
  logPasswordFile: path('--log-password-file <file>', 'the file that holds the password of that user'),
  durability: oneOf(
    DURABILITIES,
    '--durability <kind>',
    'what must have a batch before it is acknowledged: the standbys that the server names, its replicated ' +
      'storage, or the server alone (default: standby)',
  ),
  leaseSeconds: whole(
    '--lease-seconds <s>',
    'how long the relay that leads shows no sign of life before another may lead (default: 6)',
    1,
  ),
  snapshotBatches: whole(
    '--snapshot-batches <n>',
    'while it leads, write a snapshot into the log when it has grown by so many batches (default: 50000)',
    1,
  ),
  acceptSettings: setting(
    'yes',
    '--accept-settings',
    'take the lead although the relay that led before decided by other settings',
    (text) => text === 'true',
  ),
  trustProxy: {
    ...oneOf(
      ['xff', 'cloudflare', 'none'],
      '--trust-proxy [kind]',
      'believe the client address that the proxy in front says (xff without a kind)',
      'none',
    ),
    environment: 'MAIL_RELAY_TRUST_PROXY',
  },
  server: oneOf(['uws', 'node'], '--server <kind>', 'the HTTP server (default: uws where it runs)'),
  logLevel: oneOf(['debug', 'info', 'warn', 'error', 'silent'], '--log-level <level>', 'what to log on stderr', 'info'),
  logFormat: oneOf(LOG_FORMATS, ...LOG_FORMAT_FLAG),
} satisfies Readonly<Record<string, Setting>>;

type Table = typeof SETTINGS;
export type SettingName = keyof Table;

/** The values of the settings: those with a default are there, the others where they are given. */
export type ServeFlags = {
  [Name in SettingName as Table[Name]['byDefault'] extends string ? Name : never]: ReturnType<Table[Name]['parse']>;
} & {
  [Name in SettingName as Table[Name]['byDefault'] extends string ? never : Name]?: ReturnType<Table[Name]['parse']>;
};

/** A setting with its member of `ServeFlags` and its key in the file; for a limit both are `limits.` and its name. */
export interface NamedSetting extends Setting {
  name: string;
  key: string;
}

/** Every setting, in the order of the table, with each limit by itself in the place of `limits`. */
export const ALL_SETTINGS: readonly NamedSetting[] = Object.entries<Setting>(SETTINGS).flatMap(([name, one]) => {
  if (one.kind !== 'limits') return [{ ...one, name, key: flagOf(one.flags).slice(2).replaceAll('-', '_') }];
  return Object.entries(DEFAULT_LIMITS).map(([limit, value]) => {
    const key = `limits.${limit}`;
    const parse = (text: string): unknown => one.parse(JSON.stringify({ [limit]: Number(text) }));
    return Object.assign({}, one, { name: key, key, byDefault: String(value), parse });
  });
});

/** `--key-file` of `--key-file <file>`. */
export function flagOf(flags: string): string {
  return flags.split(' ', 1)[0] ?? '';
}

/** The flag of a setting, for the command whose settings these are and for those that take it from its config file. */
export function optionOf(name: SettingName): Option {
  const { flags, description, byDefault, choices, kind }: Setting = SETTINGS[name];
  const option = new Option(flags, description);
  // An empty text is no path, and is refused before the command runs.
  if (kind === 'path') option.argParser((text) => text && resolve(text));
  if (byDefault !== undefined && name !== 'limits') option.default(byDefault);
  if (name === 'trustProxy') option.preset('xff');
  return choices ? option.choices(choices) : option;
}

export function configOption(): Option {
  return new Option(
    '--config <file>',
    'read settings from this file (default: relay.toml in the config folder, if it is there)',
  );
}

/** The config file that the command uses: the one that a flag names, or one beside that of a host. */
export function configFileOf(context: CommandContext, command: Command): string {
  const { config } = command.opts<{ config?: string }>();
  return config === undefined ? join(dirname(ownPaths(context).configFile), 'relay.toml') : resolve(config);
}

/** Returns all of these options. A value stays text, as the file and the environment give it. */
export function serveOptions(): Option[] {
  return Object.entries<Setting>(SETTINGS).map(([name, { kind, parse }]) => {
    const option = optionOf(name as SettingName);
    // Choices are looked at by commander, and a yes has no text.
    const isChecked = option.argChoices !== undefined || kind === 'yes';
    const before = (given: unknown): string => (kind === 'texts' && typeof given === 'string' ? `${given} ` : '');
    return isChecked ? option : option.argParser((text, given) => (parse(text), before(given) + text));
  });
}
