/** `poste relay serve`: runs the relay until a signal stops it. */
import { join, resolve } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import type { Command } from 'commander';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { StoreFailed } from '../../relay/engine/committer.ts';
import { openNotices, type Relay, type RelayOptions } from '../../relay/serve/options.ts';
import { startRelay } from '../../relay/relay.ts';
import { StoppedFollowing } from '../../relay/standby/shared-lead.ts';
import { passwordWarning, sharedLogOf } from './shared-log-options.ts';
import { storeRemedy } from '../../lib/file-fault.ts';
import { listenAddressText } from '../../lib/listen-address.ts';
import { LEVEL_FOLDER } from '../../relay/store/level.ts';
import { makeFolder } from '../../relay/store/refused.ts';
import { RELAY_KEY_FILE } from '../../relay/store/relay-key.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { formatFields, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { deployKey } from './relay-command.ts';
import { CommandFailed, stopSignal } from '../lib/exit.ts';
import { commandLog, endLog } from '../lib/log.ts';
import { announce } from '../lib/output.ts';
import { stateFolder } from '../../host/base/paths.ts';
import { softwareVersion } from '../../lib/package-root.ts';
import { effectiveSettings, printedConfig } from './serve-config.ts';
import { configOption, type ServeFlags, serveOptions } from './settings.ts';
import { relayOptions, hasOwnBackups, backupNoticeOf, makeOwnFolders, refuseUnpushable } from './serve-settings.ts';

/** The time that the answers of a failing relay may take. */
const FAILED_STOP_MS = 3000;

const EXAMPLES = `
Settings come from flags, then the environment, then the config file, then the defaults. The file is TOML: its keys
are the names of the flags with _ for -, and [limits] is a table. Relative paths in it start at its folder.

Environment:
  MAIL_RELAY_KEY          the relay's base64 private key, instead of relay.key
  MAIL_RELAY_KEY_FILE     as --key-file
  MAIL_RELAY_LOG          as --log
  MAIL_RELAY_TRUST_PROXY  as --trust-proxy
  RELAY_MAX_BODY          as --max-body
  POSTE_HOME              the folder of relay.toml; else the XDG config folder
  STATE_DIRECTORY         the folder in it that ends in -position holds the
                          position; else XDG_STATE_HOME

Examples:
  $ poste relay serve
  $ poste relay serve --config /etc/poste/relay.toml
  $ poste relay serve --store-dir /var/lib/poste --trust-proxy xff --print-config
  $ poste relay serve --backup-dir /backups --backup-keep 14 --backup-every 12h
  $ poste relay serve --log-keep-days 90 --log-archive-dir /archives
  $ poste relay serve --limits '{"retention_days": 2.5, "max_queue_items": 2000}'
  $ poste relay serve --authority account-token --issuer https://accounts.example --relay-url https://mail.example
  $ poste relay serve --log postgres://relay@db.example/mail --log-password-file /run/secrets/log --key-file relay.key`;

export function serveCommand(context: CommandContext): Command {
  const printed = 'start nothing: print the settings as a config file, and where each comes from';
  return new CommandDraft(context, 'serve')
    .takes(...serveOptions(), configOption())
    .option('--print-config', printed, { conflicts: ['json'] })
    .option(...JSON_FLAG)
    .notes(EXAMPLES)
    .action(async ({ json: isJson = false, printConfig }, command) => {
      const effective = effectiveSettings(context, command);
      if (printConfig) context.stdout.write(printedConfig(context, effective));
      else await serve(context, effective.settings, { isJson, warning: passwordWarning(command) });
    });
}

async function serve(
  context: CommandContext,
  flags: ServeFlags,
  { isJson, warning }: { isJson: boolean; warning: string | undefined },
): Promise<void> {
  const storeDir = resolve(flags.storeDir);
  const log = commandLog(context, flags.logLevel, flags.logFormat);
  if (warning !== undefined) log.warn({}, warning);
  // Before the relay reports that it is ready: a signal may follow at once.
  const signalled = stopSignal(context);
  refuseUnpushable(flags);
  const key = await deployKey(context, flags.keyFile);
  const backupNotice = backupNoticeOf(flags, storeDir);
  const following = new AbortController();
  void signalled.then(() => following.abort());
  // A relay that gave its lead to another, or takes it anew on another server, starts again.
  const options = { ...relayOptions(flags, storeDir, key), positionHome: positionHome(context) };
  // The folder of its backups lies in it.
  if (hasOwnBackups(flags)) await makeFolder(storeDir);
  makeOwnFolders(options);
  for (;;) {
    const sharedLog = await sharedLogOf(context, flags);
    const relay = await startUnlessStopped({
      ...options,
      ...(sharedLog && { sharedLog, stopFollowing: following.signal }),
      log,
    });
    if (!relay) break;
    const notices = [...(key?.notices ?? []), ...backupNotice, ...openNotices(options), ...relay.notices];
    for (const notice of notices) log.warn({}, notice);
    const document = { ...startDocument(relay, flags, key?.place), notices, pid: process.pid };
    announce(context, isJson ? jsonLine(document) : startText(document));
    const isToFollow = await endOf(relay, signalled, log);
    await relay.stop();
    if (!isToFollow) break;
  }
  log.info({}, 'stopped');
  endLog(context);
}

/** The place of the position when nothing names its file: in the folder of the unit for it, or in the user's. */
function positionHome(context: CommandContext): string | undefined {
  const ofUnit = context.env['STATE_DIRECTORY']?.split(':').find((folder) => folder.endsWith('-position'));
  return ofUnit ?? stateFolder(context);
}

/** `undefined` when it was stopped while it followed. */
async function startUnlessStopped(options: RelayOptions): Promise<Relay | undefined> {
  try {
    return await startRelay(options);
  } catch (error) {
    if (error instanceof StoppedFollowing) return undefined;
    if (!(error instanceof StoreFailed)) throw error;
    const message = `the store cannot be written to: ${storeRemedy(error.cause)}, and start the relay again`;
    throw new CommandFailed('failure', 'STORE_FAILED', message);
  }
}

/** Resolves when the relay is to stop: true when it is to follow then. Throws when its store or its log failed. */
async function endOf(relay: Relay, signalled: Promise<string>, log: RelayOptions['log']): Promise<boolean> {
  const ended = await Promise.race([relay.failed, signalled, relay.handedOver]);
  if (ended instanceof Error) {
    log.error({ err: ended.cause }, 'nothing more is acknowledged');
    // Clients that wait get their answers; nothing else keeps the process alive for longer.
    await Promise.race([relay.stop().catch(() => undefined), elapsed(FAILED_STOP_MS)]);
    throw ended;
  }
  if (typeof ended === 'string') {
    log.info({ signal: ended }, 'stopping');
    return false;
  }
  if (ended.type === 'clock') log.error({}, `this node leads no more, so that another does: ${ended.why}`);
  else if (ended.type === 'other-node')
    log.info({ by: ended.by }, 'another node of the relay is to lead: this one stops, and follows');
  else
    log.warn({}, 'the log lies on another server now: this node stops, looks whether that has everything, and leads');
  return true;
}

function startDocument(
  relay: Relay,
  { listen, adminListen, tlsCert, authority, issuer, storeDir }: ServeFlags,
  keyPlace?: string,
) {
  const store = resolve(storeDir);
  return {
    url: urlOf(tlsCert === undefined ? 'http' : 'https', listen.host, relay.port),
    admin_url: adminListen && relay.adminPort !== undefined ? urlOf('http', adminListen.host, relay.adminPort) : null,
    store: join(store, LEVEL_FOLDER),
    key: keyPlace ?? join(store, RELAY_KEY_FILE),
    relay_pubkey: relay.signer.publicKey,
    fingerprint: displayFingerprint(relay.signer.publicKey),
    epoch: relay.engine.epoch,
    server: relay.serverName,
    server_why: relay.serverWhy ?? null,
    authority,
    issuer: issuer ?? null,
    initialised: relay.initialised,
  };
}

function startText(start: ReturnType<typeof startDocument>): string {
  const { store, server, server_why: why, authority, issuer } = start;
  const rows = [
    ['address', start.url],
    ['operator', start.admin_url ?? 'off'],
    ['store', `${store}${start.initialised ? ' (new)' : ''}`],
    ['key', start.key],
    ['fingerprint', start.fingerprint],
    ['epoch', start.epoch],
    ['server', why === null ? server : `${server}, as ${why}`],
    ['authority', issuer === null ? authority : `${authority} of ${issuer}`],
  ];
  return `Poste relay ${softwareVersion()} is ready.\n${formatFields(rows, 12)}`;
}

function urlOf(scheme: string, host: string, port: number): string {
  return `${scheme}://${listenAddressText({ host, port })}`;
}
