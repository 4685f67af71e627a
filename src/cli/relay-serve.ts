/** `poste relay serve`: runs the relay until it is told to stop. */
import { accessSync, constants, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import pino from 'pino';
import { BODY_BYTES_MAX, DAY_MS, DEFAULT_LIMITS, type Limits } from '../protocol/limits.ts';
import { displayFingerprint } from '../protocol/public-key.ts';
import { processClock, processRandom, processTimers } from '../relay/ambient-process.ts';
import type { IssuerSettings } from '../relay/auth/issuer.ts';
import type { BackupSettings } from '../relay/backup-plan.ts';
import type { AuthorityName } from '../relay/core/rows.ts';
import { StoreFailed } from '../relay/engine/committer.ts';
import type { LogKeepingSettings } from '../relay/log-plan.ts';
import type { TrustProxy } from '../relay/http/client-address.ts';
import { ListenFailed } from '../http/exchange.ts';
import { type Relay, startRelay } from '../relay/serve.ts';
import { type ListenAddress, listenAddressText } from '../system/listen-address.ts';
import { LEVEL_FOLDER } from '../relay/store/level.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { RELAY_KEY_FILE } from '../relay/store/relay-key.ts';
import { type DeployKey, deployKey, keyFileOption } from './deploy-key.ts';
import { CommandFailed } from './exit.ts';
import { stopSignal } from './stop-signal.ts';
import { STORE_DIR_DEFAULT } from './store-dir.ts';
import { storeRefused } from './store-refused.ts';
import {
  intervalMs,
  issuerUrl,
  limitsOverridden,
  listenAddress,
  listenAddressOrOff,
  seconds,
  trustedUrl,
  webUrl,
  wholeNumber,
} from './values.ts';
import { softwareVersion } from './version.ts';

/** How long the answers of a failing relay may take. */
const FAILED_STOP_MS = 3000;

/** "Limits": the backup plan. */
const BACKUPS_KEPT = 7;
const BACKUP_EVERY_MS = DAY_MS;

interface ServeFlags {
  storeDir: string;
  keyFile?: string;
  listen: ListenAddress;
  /** Empty for `off`: commander keeps no `undefined` of a parser. */
  adminListen: ListenAddress | '';
  limits: Limits;
  pushesPerMinute: number;
  enrolRate: number;
  maxEnrolments: number;
  admission: 'open' | 'invite';
  authority: AuthorityName;
  issuer?: string;
  relayUrl?: string;
  jwksUrl?: string;
  maxDedupRows: number;
  sweepSeconds: number;
  diskFloor: number;
  positionFile?: string;
  backupDir?: string;
  backupKeep?: number;
  backupEvery?: number;
  logKeepDays?: number;
  logArchiveDir?: string;
  trustProxy?: true | 'xff' | 'cloudflare';
  server?: 'uws' | 'node';
  json?: boolean;
  logLevel: string;
}

const EXAMPLES = `
Environment:
  MAIL_RELAY_KEY          the relay's base64 private key, instead of relay.key in the store folder
  MAIL_RELAY_KEY_FILE     the file that holds it: as --key-file
  MAIL_RELAY_TRUST_PROXY  xff or cloudflare: as --trust-proxy
  RELAY_MAX_BODY          largest request body in bytes, at most ${BODY_BYTES_MAX}

Examples:
  $ poste relay serve
  $ poste relay serve --store-dir /var/lib/poste --listen 127.0.0.1:8787 --trust-proxy xff
  $ poste relay serve --backup-dir /backups --backup-keep 14 --backup-every 12h
  $ poste relay serve --log-keep-days 90 --log-archive-dir /archives
  $ poste relay serve --limits '{"retention_days": 2.5, "max_queue_items": 2000}'
  $ poste relay serve --authority account-token --issuer https://accounts.example --relay-url https://mail.example`;

export function relayServeCommand(): Command {
  const listenDefault: ListenAddress = { host: '127.0.0.1', port: 8787 };
  const adminDefault: ListenAddress = { host: '127.0.0.1', port: 8788 };
  return new Command('serve')
    .description('Run the relay: keep sealed mail for hosts until they call for it.')
    .option('--store-dir <dir>', 'where the store, relay.key and position lie', STORE_DIR_DEFAULT)
    .addOption(keyFileOption())
    .addOption(
      new Option('--listen <host:port>', 'where hosts connect')
        .argParser(listenAddress)
        .default(listenDefault, '127.0.0.1:8787'),
    )
    .addOption(
      new Option('--admin-listen <host:port>', "the operator's listener (health, metrics, console), or off")
        .argParser(listenAddressOrOff)
        .default(adminDefault, '127.0.0.1:8788'),
    )
    .addOption(
      new Option('--limits <json>', 'override documented limits; retention_days may be a fraction')
        .argParser(limitsOverridden)
        .default(DEFAULT_LIMITS, 'the documented ones'),
    )
    .option('--pushes-per-minute <n>', 'push requests of one host', wholeNumber(1), 600)
    .option('--enrol-rate <n>', 'challenges, and enrolments, per minute of one client address', wholeNumber(1), 30)
    .option('--max-enrolments <n>', 'live enrolments', wholeNumber(1), 10_000)
    .addOption(
      new Option('--admission <who>', 'who may enrol: anybody, or whoever brings an invite of poste relay admit')
        .choices(['open', 'invite'])
        .default('open'),
    )
    .addOption(
      new Option('--authority <name>', 'what lets a host in: its key alone, or a token of an account service')
        .choices(['host-key', 'account-token'])
        .default('host-key'),
    )
    .addOption(new Option('--issuer <url>', 'the account service: iss of its tokens').argParser(issuerUrl))
    .addOption(new Option('--relay-url <url>', 'this relay, as aud of its tokens names it').argParser(webUrl))
    .addOption(
      new Option('--jwks-url <url>', "where the issuer's keys are (default: <issuer>/.well-known/jwks.json)").argParser(
        trustedUrl,
      ),
    )
    .option('--max-dedup-rows <n>', 'dedup rows one sender may keep', wholeNumber(1), 1_000_000)
    .option('--sweep-seconds <s>', 'how often to sweep', seconds, 60)
    .option('--disk-floor <mib>', 'refuse pushes while less is free on the disk', wholeNumber(0), 256)
    .option('--position-file <file>', 'where to note how far the log had come (default: position in the store folder)')
    .option('--backup-dir <dir>', 'write regular backups into this folder')
    .option('--backup-keep <n>', `how many of them to keep (default: ${BACKUPS_KEPT})`, wholeNumber(1))
    .option('--backup-every <time>', 'how often, as 90m, 24h or 7d (default: 24h)', intervalMs)
    .option('--log-keep-days <n>', 'delete log records that are older (default: keep all)', wholeNumber(1))
    .option('--log-archive-dir <dir>', 'write what is deleted from the log into this folder before')
    .addOption(
      new Option(
        '--trust-proxy [kind]',
        'believe the client address that the proxy in front says (xff without a kind)',
      ).choices(['xff', 'cloudflare']),
    )
    .addOption(new Option('--server <kind>', 'the HTTP server (default: uws where it runs)').choices(['uws', 'node']))
    .addOption(
      new Option('--log-level <level>', 'what to log on stderr')
        .choices(['debug', 'info', 'warn', 'error', 'silent'])
        .default('info'),
    )
    .option('--json', 'print the start as one JSON document')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: ServeFlags) => serve(flags));
}

async function serve(flags: ServeFlags): Promise<void> {
  const storeDir = resolve(flags.storeDir);
  const log = pino({ level: flags.logLevel, base: null }, pino.destination({ dest: 2, sync: true }));
  // Before anybody can know that the relay is ready, and end it.
  const signalled = stopSignal();
  const key = await orRefused(() => deployKey(flags.keyFile));
  const relay = await orRefused(() => startRelay({ ...relayOptions(flags, storeDir, key), log }));
  const start = {
    relay,
    key: key?.place ?? join(storeDir, RELAY_KEY_FILE),
    notices: [...(key?.notices ?? []), ...relay.notices],
  };
  for (const notice of start.notices) log.warn({}, notice);
  process.stdout.write(
    flags.json ? `${JSON.stringify(startDocument(start, flags, storeDir))}\n` : startText(start, flags, storeDir),
  );
  const ended = await Promise.race([relay.failed, signalled]);
  if (ended instanceof Error) {
    log.error({ err: ended.cause }, 'the store failed: nothing more is acknowledged');
    // Whoever waits is told; whatever still holds the process afterwards does not.
    await Promise.race([relay.stop().catch(() => undefined), elapsed(FAILED_STOP_MS)]);
    throw new CommandFailed(
      'failure',
      'STORE_FAILED',
      `${ended.message}; free disk space or replace the disk, then start the relay again`,
    );
  }
  log.info({ signal: ended }, 'stopping');
  await relay.stop();
  log.info({}, 'stopped');
}

function relayOptions(
  flags: ServeFlags,
  storeDir: string,
  key: DeployKey | undefined,
): Omit<Parameters<typeof startRelay>[0], 'log'> {
  const issuer = issuerSettings(flags);
  const backups = backupSettings(flags);
  const logKeeping = logKeepingSettings(flags);
  return {
    storeDir,
    ...(flags.positionFile !== undefined && { positionFile: resolve(flags.positionFile) }),
    ...(key && { signer: key.signer }),
    ...(flags.server && { server: flags.server }),
    listen: flags.listen,
    adminListen: flags.adminListen === '' ? undefined : flags.adminListen,
    limits: flags.limits,
    pushesPerMinute: flags.pushesPerMinute,
    enrolRate: flags.enrolRate,
    enrolmentsMax: flags.maxEnrolments,
    admission: flags.admission,
    dedupRowsMax: flags.maxDedupRows,
    ...(issuer && { issuer }),
    ...(backups && { backups }),
    ...(logKeeping && { logKeeping }),
    sweepMs: flags.sweepSeconds * 1000,
    diskFloorBytes: flags.diskFloor * 1_048_576,
    trustProxy: trustProxy(flags),
    bodyBytesMax: bodyBytesMax(),
    version: softwareVersion(),
    clock: processClock,
    timers: processTimers,
    randomBytes: processRandom,
  };
}

/** `undefined` with the authority host-key. */
function issuerSettings({ authority, issuer, relayUrl, jwksUrl, admission }: ServeFlags): IssuerSettings | undefined {
  if (authority === 'host-key') {
    const given = Object.entries({ '--issuer': issuer, '--relay-url': relayUrl, '--jwks-url': jwksUrl });
    const idle = given.find(([, url]) => url !== undefined);
    if (!idle) return undefined;
    throw new CommandFailed('usage', 'USAGE', `${idle[0]} says nothing without --authority account-token`);
  }
  if (issuer === undefined || relayUrl === undefined) {
    const missing = issuer === undefined ? '--issuer' : '--relay-url';
    throw new CommandFailed('usage', 'USAGE', `--authority account-token needs ${missing}`);
  }
  if (admission === 'invite') {
    const message = 'a host proves either an account or an invite: leave out --admission invite, or --authority';
    throw new CommandFailed('usage', 'USAGE', message);
  }
  return { issuer, relayUrl, jwksUrl: jwksUrl ?? `${issuer.replace(/\/$/, '')}/.well-known/jwks.json` };
}

/** `undefined` without `--backup-dir`. Makes the folder: the first backup is due at the start. */
function backupSettings({ backupDir, backupKeep, backupEvery }: ServeFlags): BackupSettings | undefined {
  if (backupDir === undefined) {
    const idle =
      backupKeep === undefined ? (backupEvery === undefined ? undefined : '--backup-every') : '--backup-keep';
    if (idle === undefined) return undefined;
    throw new CommandFailed('usage', 'USAGE', `${idle} says nothing without --backup-dir`);
  }
  const folder = usableFolder(backupDir, 'backups', '--backup-dir', 'BACKUP_DIR_UNUSABLE');
  return { folder, keep: backupKeep ?? BACKUPS_KEPT, everyMs: backupEvery ?? BACKUP_EVERY_MS };
}

/** `undefined` without `--log-keep-days`: every record is kept. Makes the folder for archives. */
function logKeepingSettings({ logKeepDays, logArchiveDir }: ServeFlags): LogKeepingSettings | undefined {
  if (logKeepDays === undefined) {
    if (logArchiveDir === undefined) return undefined;
    throw new CommandFailed('usage', 'USAGE', '--log-archive-dir says nothing without --log-keep-days');
  }
  const archiveFolder =
    logArchiveDir === undefined
      ? undefined
      : usableFolder(logArchiveDir, 'archives of the log', '--log-archive-dir', 'LOG_ARCHIVE_DIR_UNUSABLE');
  return { keepMs: logKeepDays * DAY_MS, archiveFolder };
}

/** The folder, made when it is missing, that may be written to. Throws `CommandFailed`. */
function usableFolder(named: string, use: string, flag: string, failure: string): string {
  const folder = resolve(named);
  try {
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    readdirSync(folder);
    accessSync(folder, constants.W_OK | constants.X_OK);
    return folder;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const message = `${folder} cannot be used for ${use} (${code ?? 'unknown error'}): name another folder with ${flag}`;
    throw new CommandFailed('failure', failure, message);
  }
}

function trustProxy(flags: ServeFlags): TrustProxy {
  if (flags.trustProxy === true) return 'xff';
  if (flags.trustProxy) return flags.trustProxy;
  const said = process.env['MAIL_RELAY_TRUST_PROXY'];
  if (said === undefined || said === '') return 'none';
  if (said === 'xff' || said === 'cloudflare') return said;
  throw new CommandFailed('usage', 'BAD_ENVIRONMENT', 'MAIL_RELAY_TRUST_PROXY must be xff or cloudflare');
}

function bodyBytesMax(): number {
  const said = process.env['RELAY_MAX_BODY'];
  if (said === undefined || said === '') return BODY_BYTES_MAX;
  const bytes = Number(said);
  if (/^[0-9]+$/.test(said) && bytes >= 1 && bytes <= BODY_BYTES_MAX) return bytes;
  throw new CommandFailed(
    'usage',
    'BAD_ENVIRONMENT',
    `RELAY_MAX_BODY must be a number of bytes from 1 to ${BODY_BYTES_MAX}`,
  );
}

/** What `start` gives, or the one sentence that ends the command. */
async function orRefused<T>(start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (error instanceof StoreRefused) throw storeRefused(error);
    if (error instanceof StoreFailed) {
      throw new CommandFailed(
        'failure',
        'STORE_FAILED',
        'the store cannot be written to: free disk space or replace the disk, then start the relay again',
      );
    }
    if (error instanceof ListenFailed) {
      throw new CommandFailed('conflict', 'LISTEN_FAILED', error.message);
    }
    throw error;
  }
}

interface Started {
  relay: Relay;
  /** Where its key is. */
  key: string;
  notices: readonly string[];
}

function startDocument({ relay, key, notices }: Started, flags: ServeFlags, storeDir: string): object {
  return {
    url: urlOf(flags.listen.host, relay.port),
    admin_url:
      flags.adminListen && relay.adminPort !== undefined ? urlOf(flags.adminListen.host, relay.adminPort) : null,
    store: join(storeDir, LEVEL_FOLDER),
    key,
    relay_pubkey: relay.signer.publicKey,
    fingerprint: displayFingerprint(relay.signer.publicKey),
    epoch: relay.engine.epoch,
    server: relay.serverName,
    authority: flags.authority,
    issuer: flags.issuer ?? null,
    initialised: relay.initialised,
    notices,
    pid: process.pid,
  };
}

function startText({ relay, key }: Started, flags: ServeFlags, storeDir: string): string {
  const admin =
    flags.adminListen && relay.adminPort !== undefined ? urlOf(flags.adminListen.host, relay.adminPort) : 'off';
  const rows = [
    ['address', urlOf(flags.listen.host, relay.port)],
    ['operator', admin],
    ['store', `${join(storeDir, LEVEL_FOLDER)}${relay.initialised ? ' (new)' : ''}`],
    ['key', key],
    ['fingerprint', displayFingerprint(relay.signer.publicKey)],
    ['epoch', relay.engine.epoch],
    ['server', relay.serverName],
    ['authority', flags.issuer === undefined ? flags.authority : `${flags.authority} of ${flags.issuer}`],
  ];
  const lines = rows.map(([name = '', value = '']) => `  ${name.padEnd(12)} ${value}`);
  return `Poste relay ${softwareVersion()} is ready.\n${lines.join('\n')}\n`;
}

function urlOf(host: string, port: number): string {
  return `http://${listenAddressText({ host, port })}`;
}

function elapsed(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms);
  });
}
