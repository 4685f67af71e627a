/** `poste relay serve`: runs the relay until a signal stops it. */
import { join, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { BODY_BYTES_MAX, DEFAULT_LIMITS } from '../../protocol/limits.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { StoreFailed } from '../../relay/engine/committer.ts';
import { ListenFailed } from '../../http/exchange.ts';
import { TooFewFiles } from '../../relay/connection-limits.ts';
import type { Relay, RelayOptions } from '../../relay/options.ts';
import { startRelay } from '../../relay/serve.ts';
import { TlsRefused } from '../../http/tls-files.ts';
import { StoppedFollowing } from '../../relay/follower.ts';
import { logFailure, serveWithSharedLog, sharedLogOf } from './shared-log-options.ts';
import { type ListenAddress, listenAddressText } from '../../lib/listen-address.ts';
import { LEVEL_FOLDER } from '../../relay/store/level.ts';
import { makeFolder } from '../../relay/store/open.ts';
import { StoreRefused } from '../../relay/store/refused.ts';
import { RELAY_KEY_FILE } from '../../relay/store/relay-key.ts';
import type { CommandContext } from '../lib/context.ts';
import { formatFields } from '../lib/format.ts';
import { deployKey, keyFileOption } from './relay-key.ts';
import { CommandFailed, stopSignal } from '../lib/exit.ts';
import { commandLog } from '../lib/log.ts';
import { STORE_DIR_DEFAULT, storeRefused } from './store-dir.ts';
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
} from '../lib/values.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import {
  BACKUPS_KEPT,
  type ServeFlags,
  relayOptions,
  hasOwnBackups,
  backupNoticeOf,
  refuseUnpushable,
  bodyBytesMax,
} from './serve-settings.ts';

/** How long the answers of a failing relay may take. */
const FAILED_STOP_MS = 3000;

const EXAMPLES = `
Environment:
  MAIL_RELAY_KEY          the relay's base64 private key, instead of relay.key
  MAIL_RELAY_KEY_FILE     the file that holds it: as --key-file
  MAIL_RELAY_LOG          the address of a shared log: as --log
  MAIL_RELAY_TRUST_PROXY  xff or cloudflare: as --trust-proxy
  RELAY_MAX_BODY          largest request body in bytes, at most ${BODY_BYTES_MAX}

Examples:
  $ poste relay serve
  $ poste relay serve --store-dir /var/lib/poste --listen 127.0.0.1:8787 --trust-proxy xff
  $ poste relay serve --backup-dir /backups --backup-keep 14 --backup-every 12h
  $ poste relay serve --log-keep-days 90 --log-archive-dir /archives
  $ poste relay serve --limits '{"retention_days": 2.5, "max_queue_items": 2000}'
  $ poste relay serve --authority account-token --issuer https://accounts.example --relay-url https://mail.example
  $ poste relay serve --log postgres://relay@db.example/mail --log-password-file /run/secrets/log --key-file relay.key`;

export function relayServeCommand(context: CommandContext): Command {
  const listenDefault: ListenAddress = { host: '127.0.0.1', port: 8787 };
  const adminDefault: ListenAddress = { host: '127.0.0.1', port: 8788 };
  return serveWithSharedLog(new Command('serve'))
    .option('--store-dir <dir>', 'where the store, relay.key and position lie', STORE_DIR_DEFAULT)
    .addOption(keyFileOption())
    .addOption(
      new Option('--listen <host:port>', 'where hosts connect')
        .argParser(listenAddress)
        .default(listenDefault, '127.0.0.1:8787'),
    )
    .option('--tls-cert <file>', 'serve hosts over TLS with this certificate (PEM); read again when it changes')
    .option('--tls-key <file>', 'the key of that certificate (PEM)')
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
    .option('--max-connections <n>', 'connections at once (default: by how many files may be open)', wholeNumber(2))
    .option(
      '--max-connections-per-address <n>',
      'of these, of one address or IPv6 /64 network (default: a quarter, from 256 to 1024)',
      wholeNumber(2),
    )
    .addOption(
      new Option('--admission <who>', 'who may enrol: any host, or only hosts with an invite from poste relay admit')
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
    .option(
      '--backup-dir <dir>',
      'write regular backups into this folder, or off (default: backups in the store folder with --authority account-token, else off)',
    )
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
    .action(async (flags: ServeFlags) => serve(context, flags));
}

async function serve(context: CommandContext, flags: ServeFlags): Promise<void> {
  const storeDir = resolve(flags.storeDir);
  const log = commandLog(context, flags.logLevel);
  // Before the relay reports that it is ready: a signal may follow at once.
  const signalled = stopSignal(context);
  refuseUnpushable(flags.limits, bodyBytesMax(context));
  const key = await orRefused(() => deployKey(context, flags.keyFile));
  const backupNotice = backupNoticeOf(flags, storeDir);
  // The folder of its backups lies in it.
  if (hasOwnBackups(flags)) await orRefused(() => makeFolder(storeDir));
  const following = new AbortController();
  void signalled.then(() => following.abort());
  // A relay that gave its lead to another starts again, and follows.
  for (;;) {
    const sharedLog = await sharedLogOf(context, flags);
    const relay = await startedRelay({
      ...relayOptions(context, flags, storeDir, key),
      ...(sharedLog && { sharedLog, stopFollowing: following.signal }),
      log,
    });
    if (!relay) break;
    const start = {
      relay,
      key: key?.place ?? join(storeDir, RELAY_KEY_FILE),
      notices: [...(key?.notices ?? []), ...backupNotice, ...relay.notices],
    };
    for (const notice of start.notices) log.warn({}, notice);
    context.stdout.write(
      flags.json ? `${JSON.stringify(startDocument(start, flags, storeDir))}\n` : startText(start, flags, storeDir),
    );
    const isToFollow = await endOf(relay, signalled, log);
    await relay.stop();
    if (!isToFollow) break;
  }
  log.info({}, 'stopped');
}

/** `undefined` when it was stopped while it followed. */
async function startedRelay(options: RelayOptions): Promise<Relay | undefined> {
  try {
    return await orRefused(() => startRelay(options));
  } catch (error) {
    if (error instanceof StoppedFollowing) return undefined;
    throw error;
  }
}

/** Resolves when the relay is to stop, and with whether it is to follow then. Throws when its store or its log failed. */
async function endOf(relay: Relay, signalled: Promise<string>, log: RelayOptions['log']): Promise<boolean> {
  const wanted = relay.wanted.then((by) => ({ by }));
  const ended = await Promise.race([relay.failed, signalled, wanted]);
  if (ended instanceof Error) {
    log.error({ err: ended.cause }, 'nothing more is acknowledged');
    // Clients that wait get their answers; nothing else keeps the process alive for longer.
    await Promise.race([relay.stop().catch(() => undefined), elapsed(FAILED_STOP_MS)]);
    throw failureOf(ended);
  }
  if (typeof ended === 'string') log.info({ signal: ended }, 'stopping');
  else log.info({ by: ended.by }, 'another node of the relay is to lead: this one stops, and follows');
  return typeof ended !== 'string';
}

function failureOf({ message, cause }: StoreFailed): CommandFailed {
  const ofLog = logFailure(cause);
  if (ofLog instanceof CommandFailed) return ofLog;
  return new CommandFailed(
    'failure',
    'STORE_FAILED',
    `${message}; free disk space or replace the disk, then start the relay again`,
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
    const ofLog = logFailure(error);
    if (ofLog instanceof CommandFailed) throw ofLog;
    if (error instanceof TlsRefused) throw new CommandFailed('refused', 'TLS_REFUSED', error.message);
    if (error instanceof TooFewFiles) throw new CommandFailed('refused', 'TOO_FEW_FILES', error.message);
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
    url: addressOf(flags, relay),
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
    ['address', addressOf(flags, relay)],
    ['operator', admin],
    ['store', `${join(storeDir, LEVEL_FOLDER)}${relay.initialised ? ' (new)' : ''}`],
    ['key', key],
    ['fingerprint', displayFingerprint(relay.signer.publicKey)],
    ['epoch', relay.engine.epoch],
    ['server', relay.serverName],
    ['authority', flags.issuer === undefined ? flags.authority : `${flags.authority} of ${flags.issuer}`],
  ];
  return `Poste relay ${softwareVersion()} is ready.\n${formatFields(rows, 12)}`;
}

function addressOf({ listen, tlsCert }: ServeFlags, { port }: Relay): string {
  const plain = urlOf(listen.host, port);
  return tlsCert === undefined ? plain : plain.replace('http:', 'https:');
}

function urlOf(host: string, port: number): string {
  return `http://${listenAddressText({ host, port })}`;
}

function elapsed(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms);
  });
}
