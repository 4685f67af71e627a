/**
 * Every setting of `poste relay serve`, once: its flag, its variable, how its text is read. The flags of the command, the
 * keys of the config file and what `--print-config` prints are all made of this table. A key is the name of the flag with
 * `_` for `-`; each limit has a key of its own in the table `limits`.
 */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { BODY_BYTES_MAX, DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { DURABILITIES } from '../../relay/shared-log/durability.ts';
import { keyFileOption } from './relay-key.ts';
import { BACKUPS_KEPT, type ServeFlags } from './serve-settings.ts';
import {
  durabilityOption,
  logOption,
  logPasswordFileOption,
  leaseOption,
  snapshotBatchesOption,
  acceptSettingsOption,
} from './shared-log-options.ts';
import { STORE_DIR_DEFAULT } from './store-dir.ts';
import { wholeNumber } from '../lib/values.ts';
import {
  bodyBytes,
  intervalMs,
  issuerUrl,
  limitsOverridden,
  listenAddress,
  listenAddressOrOff,
  seconds,
  trustedUrl,
  webUrl,
} from './values.ts';

/**
 * What a setting is in the config file. A `path` starts at the folder of the file there, and at the working folder as a flag
 * or a variable; a `path or off` may be the word off instead.
 */
export type SettingKind = 'text' | 'path' | 'path or off' | 'number' | 'yes' | 'limits';

export interface ServeOption<Value = unknown> {
  /** Its default, where it has one, is a text, as it would be given. */
  option: () => Option;
  kind: SettingKind;
  environment?: string;
  /** Throws `InvalidArgumentError`. */
  parse: (text: string) => Value;
}

type OptionTable = {
  readonly [Name in keyof Required<ServeFlags>]: ServeOption<Exclude<ServeFlags[Name], undefined>>;
};

export const SERVE_OPTIONS: OptionTable = {
  storeDir: path('--store-dir <dir>', 'where the store, relay.key and position lie', STORE_DIR_DEFAULT),
  keyFile: { option: keyFileOption, kind: 'path', environment: 'MAIL_RELAY_KEY_FILE', parse: String },
  listen: {
    option: given('--listen <host:port>', 'where hosts connect', '127.0.0.1:8787'),
    kind: 'text',
    parse: listenAddress,
  },
  tlsCert: path('--tls-cert <file>', 'serve hosts over TLS with this certificate (PEM); read again when it changes'),
  tlsKey: path('--tls-key <file>', 'the key of that certificate (PEM)'),
  adminListen: {
    option: given(
      '--admin-listen <host:port>',
      "the operator's listener (health, metrics, console), or off",
      '127.0.0.1:8788',
    ),
    kind: 'text',
    parse: (text) => listenAddressOrOff(text) ?? '',
  },
  limits: {
    option: () =>
      new Option('--limits <json>', 'override documented limits; retention_days may be a fraction').default(
        '{}',
        'the documented ones',
      ),
    kind: 'limits',
    parse: limitsOverridden,
  },
  maxBody: {
    option: given('--max-body <bytes>', 'largest request body', String(BODY_BYTES_MAX)),
    kind: 'number',
    environment: 'RELAY_MAX_BODY',
    parse: bodyBytes,
  },
  pushesPerMinute: count(
    '--pushes-per-minute <n>',
    'push requests of one host, and 100 units of other work for each',
    600,
  ),
  enrolRate: count('--enrol-rate <n>', 'challenges, and enrolments, per minute of one client address', 30),
  maxEnrolments: count('--max-enrolments <n>', 'live enrolments', 10_000),
  maxConnections: {
    option: given('--max-connections <n>', 'connections at once (default: by how many files may be open)'),
    kind: 'number',
    parse: wholeNumber(2),
  },
  maxConnectionsPerAddress: {
    option: given(
      '--max-connections-per-address <n>',
      'of these, of one address or IPv6 /64 network (default: a quarter, from 256 to 1024)',
    ),
    kind: 'number',
    parse: wholeNumber(2),
  },
  admission: oneOf(
    () =>
      new Option(
        '--admission <who>',
        'who may enrol: any host, or only hosts with an invite from poste relay admit',
      ).default('open'),
    ['open', 'invite'],
  ),
  v1: oneOf(
    () => new Option('--v1 <state>', 'whether hosts that make no v2 hop are answered, on the v1 routes').default('on'),
    ['on', 'off'],
  ),
  authority: oneOf(
    () =>
      new Option('--authority <name>', 'what lets a host in: its key alone, or a token of an account service').default(
        'host-key',
      ),
    ['host-key', 'account-token'],
  ),
  issuer: { option: given('--issuer <url>', 'the account service: iss of its tokens'), kind: 'text', parse: issuerUrl },
  relayUrl: {
    option: given('--relay-url <url>', 'this relay, as aud of its tokens names it'),
    kind: 'text',
    parse: webUrl,
  },
  jwksUrl: {
    option: given('--jwks-url <url>', "where the issuer's keys are (default: <issuer>/.well-known/jwks.json)"),
    kind: 'text',
    parse: trustedUrl,
  },
  maxDedupRows: count('--max-dedup-rows <n>', 'dedup rows one sender may keep', 1_000_000),
  sweepSeconds: { option: given('--sweep-seconds <s>', 'how often to sweep', '60'), kind: 'number', parse: seconds },
  diskFloor: count('--disk-floor <mib>', 'refuse pushes while less is free on the disk', 256, 0),
  mailBudget: {
    option: given(
      '--mail-budget <mib>',
      'what mail may take of the disk; hosts without an invite or an account get half of it (default: half of what is free above the floor)',
    ),
    kind: 'number',
    parse: wholeNumber(1),
  },
  positionFile: path(
    '--position-file <file>',
    'where to note how far the log had come (default: in the state folder, else in the store folder)',
  ),
  backupDir: {
    ...path(
      '--backup-dir <dir>',
      'write regular backups into this folder, or off (default: backups in the store folder with --authority account-token, else off)',
    ),
    kind: 'path or off',
  },
  backupKeep: {
    option: given('--backup-keep <n>', `how many of them to keep (default: ${BACKUPS_KEPT})`),
    kind: 'number',
    parse: wholeNumber(1),
  },
  backupEvery: {
    option: given('--backup-every <time>', 'how often, as 90m, 24h or 7d (default: 24h)'),
    kind: 'text',
    parse: intervalMs,
  },
  logKeepDays: {
    option: given('--log-keep-days <n>', 'delete log records that are older (default: keep all)'),
    kind: 'number',
    parse: wholeNumber(1),
  },
  logArchiveDir: path('--log-archive-dir <dir>', 'write what is deleted from the log into this folder before'),
  log: { option: logOption, kind: 'text', environment: 'MAIL_RELAY_LOG', parse: String },
  logPasswordFile: { option: logPasswordFileOption, kind: 'path', parse: String },
  durability: oneOf(durabilityOption, DURABILITIES),
  leaseSeconds: { option: leaseOption, kind: 'number', parse: wholeNumber(1) },
  snapshotBatches: { option: snapshotBatchesOption, kind: 'number', parse: wholeNumber(1) },
  acceptSettings: { option: acceptSettingsOption, kind: 'yes', parse: (text) => text === 'true' },
  trustProxy: {
    ...oneOf(
      () =>
        new Option(
          '--trust-proxy [kind]',
          'believe the client address that the proxy in front says (xff without a kind)',
        ).default('none'),
      ['xff', 'cloudflare', 'none'],
    ),
    environment: 'MAIL_RELAY_TRUST_PROXY',
  },
  server: oneOf(given('--server <kind>', 'the HTTP server (default: uws where it runs)'), ['uws', 'node']),
  logLevel: oneOf(
    () => new Option('--log-level <level>', 'what to log on stderr').default('info'),
    ['debug', 'info', 'warn', 'error', 'silent'],
  ),
};

export function configOption(): Option {
  return new Option(
    '--config <file>',
    'read settings from this file (default: relay.toml in the config folder, if it is there)',
  );
}

/** The command with all of these options. What it is given stays text, as the file and the environment give it. */
export function withServeOptions(command: Command): Command {
  for (const { option: made, kind, parse } of Object.values<ServeOption>(SERVE_OPTIONS)) {
    const option = made();
    // Choices are looked at by commander, and a yes has no text.
    const isChecked = option.argChoices !== undefined || kind === 'yes';
    command.addOption(isChecked ? option : option.argParser((text) => (parse(text), text)));
  }
  return command;
}

/** The key in the config file. */
export function settingKey(option: Option): string {
  return option.name().replaceAll('-', '_');
}

/** Every key of the config file. */
export function settingKeys(): string[] {
  return Object.values<ServeOption>(SERVE_OPTIONS).flatMap(({ option, kind }) => {
    const key = settingKey(option());
    return kind === 'limits' ? Object.keys(DEFAULT_LIMITS).map((name) => `${key}.${name}`) : [key];
  });
}

function given(flags: string, description: string, byDefault?: string): () => Option {
  return () => {
    const option = new Option(flags, description);
    return byDefault === undefined ? option : option.default(byDefault, byDefault);
  };
}

function path(flags: string, description: string, byDefault?: string): ServeOption<string> {
  const option = (): Option => new Option(flags, description);
  return {
    option: () => (byDefault === undefined ? option() : option().default(byDefault)),
    kind: 'path',
    parse: String,
  };
}

function count(flags: string, description: string, byDefault: number, least = 1): ServeOption<number> {
  return { option: given(flags, description, String(byDefault)), kind: 'number', parse: wholeNumber(least) };
}

function oneOf<const Choice extends string>(
  option: () => Option,
  choices: readonly Choice[],
): ServeOption<Choice> & { kind: 'text' } {
  return {
    option: () => option().choices(choices),
    kind: 'text',
    parse: (text) => {
      const choice = choices.find((one) => one === text);
      if (choice !== undefined) return choice;
      throw new InvalidArgumentError(`It must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}.`);
    },
  };
}
