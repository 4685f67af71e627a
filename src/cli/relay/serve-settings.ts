/** The settings of `poste relay serve` as those of a relay; combinations that are impossible are refused. */
import { accessSync, constants, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { BODY_BYTES_MAX, DAY_MS } from '../../protocol/limits.ts';
import { ITEM_ID_CHARACTERS_MAX } from '../../protocol/names.ts';
import { PUBLIC_KEY_CHARACTERS } from '../../protocol/public-key.ts';
import { systemClock, systemRandom, systemTimers } from '../../lib/clock.ts';
import type { IssuerSettings } from '../../relay/auth/issuer.ts';
import type { BackupSettings } from '../../relay/jobs/backup-job.ts';
import type { LogRetentionSettings } from '../../relay/jobs/retention-job.ts';
import { WITNESSES_MAX, type WitnessSettings } from '../../relay/jobs/witnesses.ts';
import type { RelayOptions } from '../../relay/serve/options.ts';
import type { TlsFiles } from '../../http/tls-files.ts';
import { BACKUPS_KEPT, type ServeFlags } from './settings.ts';
import { refuseIdle } from './shared-log-options.ts';
import { withoutUndefined } from '../lib/values.ts';
import type { DeployKey } from './relay-command.ts';
import { CommandFailed, usageFailure } from '../lib/exit.ts';
import { softwareVersion } from '../../lib/package-root.ts';

const BACKUP_EVERY_MS = DAY_MS;
/** The folder in the store folder where a hosted relay writes its backups by default. */
const OWN_BACKUPS = 'backups';

const MIB_BYTES = 1_048_576;

/** Bytes of a request with one item of the longest id for one target, but for its wire bytes. */
const LARGEST_REQUEST_BESIDE = JSON.stringify({
  items: [
    {
      kind: 'envelope',
      item_id: 'x'.repeat(ITEM_ID_CHARACTERS_MAX),
      targets: [{ host_pubkey: 'x'.repeat(PUBLIC_KEY_CHARACTERS), wire_b64: '' }],
    },
  ],
}).length;

/** Makes and changes nothing. Throws `CommandFailed` for settings that contradict each other. */
export function relayOptions(
  flags: ServeFlags,
  storeDir: string,
  key: DeployKey | undefined,
): Omit<RelayOptions, 'log'> {
  const { listen, adminListen, limits, pushesPerMinute, enrolRate, admission, trustProxy } = flags;
  const alike = { listen, adminListen, limits, pushesPerMinute, enrolRate, admission, trustProxy };
  return {
    ...alike,
    ...withoutUndefined({
      positionFile: flags.positionFile,
      signer: key?.signer,
      server: flags.server,
      tls: tlsFiles(flags),
      issuer: issuerSettings(flags),
      backups: backupSettings(flags, storeDir),
      logRetention: logRetentionSettings(flags),
      witnesses: witnessSettings(flags),
      mailBudgetBytes: flags.mailBudget === undefined ? undefined : flags.mailBudget * MIB_BYTES,
    }),
    storeDir,
    enrolmentsMax: flags.maxEnrolments,
    connections: withoutUndefined({ max: flags.maxConnections, perAddressMax: flags.maxConnectionsPerAddress }),
    takesV1: flags.v1 === 'on',
    dedupRowsMax: flags.maxDedupRows,
    sweepMs: flags.sweepSeconds * 1000,
    diskFloorBytes: flags.diskFloor * MIB_BYTES,
    bodyBytesMax: flags.maxBody,
    version: softwareVersion(),
    clock: systemClock,
    timers: systemTimers,
    randomBytes: systemRandom,
  };
}

/** `undefined`: plain HTTP. Throws `CommandFailed` for one without the other. */
export function tlsFiles({ tlsCert, tlsKey }: Pick<ServeFlags, 'tlsCert' | 'tlsKey'>): TlsFiles | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined) throw usageFailure('--tls-key needs --tls-cert');
  if (tlsKey === undefined) throw usageFailure('--tls-cert needs --tls-key');
  return { certFile: tlsCert, keyFile: tlsKey };
}

/** `undefined` with the authority host-key. */
function issuerSettings(flags: ServeFlags): IssuerSettings | undefined {
  const { authority, issuer, relayUrl, jwksUrl, admission } = flags;
  if (authority === 'host-key') {
    refuseIdle(flags, ['issuer', 'relayUrl', 'jwksUrl'], '--authority account-token');
    return undefined;
  }
  if (issuer === undefined) throw usageFailure('--authority account-token needs --issuer');
  if (relayUrl === undefined) throw usageFailure('--authority account-token needs --relay-url');
  if (admission === 'invite')
    throw usageFailure('a host proves either an account or an invite: leave out --admission invite, or --authority');
  return { issuer, relayUrl, jwksUrl: jwksUrl ?? `${issuer.replace(/\/$/, '')}/.well-known/jwks.json` };
}

/** True of a hosted relay, which takes the daily backup of the specification by default. */
export function hasOwnBackups({ backupDir, authority }: ServeFlags): boolean {
  return backupDir === undefined && authority === 'account-token';
}

/** The notice about backups when no folder was named. */
export function backupNoticeOf(flags: ServeFlags, storeDir: string): string[] {
  if (flags.backupDir !== undefined) return [];
  return hasOwnBackups(flags)
    ? [
        `Daily backups are written to ${join(storeDir, OWN_BACKUPS)}, which is on the disk of the store: name a ` +
          'folder on another disk with --backup-dir.',
      ]
    : ['No regular backups are taken: name a folder for them with --backup-dir, or give --backup-dir off.'];
}

/** `undefined` where none are to be taken. */
function backupSettings(flags: ServeFlags, storeDir: string): BackupSettings | undefined {
  const { backupKeep, backupEvery } = flags;
  const named = flags.backupDir === 'off' ? undefined : flags.backupDir;
  const backupDir = hasOwnBackups(flags) ? join(storeDir, OWN_BACKUPS) : named;
  if (backupDir === undefined) {
    refuseIdle(flags, ['backupKeep', 'backupEvery'], '--backup-dir');
    return undefined;
  }
  return { folder: backupDir, keep: backupKeep ?? BACKUPS_KEPT, everyMs: backupEvery ?? BACKUP_EVERY_MS };
}

/** `undefined` without `--log-keep-days`: every record is kept. */
function logRetentionSettings(flags: ServeFlags): LogRetentionSettings | undefined {
  const { logKeepDays, logArchiveDir: archiveFolder } = flags;
  if (logKeepDays !== undefined) return { keepMs: logKeepDays * DAY_MS, archiveFolder };
  refuseIdle(flags, ['logArchiveDir'], '--log-keep-days');
  return undefined;
}

/** `undefined` where nobody cosigns. */
function witnessSettings({ witness: urls = [], witnessKey: keys = [] }: ServeFlags): WitnessSettings[] | undefined {
  if (urls.length !== keys.length) throw usageFailure('each --witness needs its --witness-key, in the same order');
  if (urls.length > WITNESSES_MAX) throw usageFailure(`at most ${WITNESSES_MAX} witnesses may be named`);
  if (new Set(keys.map(({ name }) => name)).size < keys.length)
    throw usageFailure('two of the --witness-key have one name: each witness has a name of its own');
  const pairs = urls.flatMap((url, nth) => keys.slice(nth, nth + 1).map((key) => ({ url, key })));
  return pairs.length === 0 ? undefined : pairs;
}

/** Makes the folders of backups and archives, where they are missing: the first backup is due at the start. */
export function makeOwnFolders({ backups, logRetention }: Pick<RelayOptions, 'backups' | 'logRetention'>): void {
  if (backups) makeUsable(backups.folder, 'backups', '--backup-dir', 'BACKUP_DIR_UNUSABLE');
  const archives = logRetention?.archiveFolder;
  if (archives !== undefined)
    makeUsable(archives, 'archives of the log', '--log-archive-dir', 'LOG_ARCHIVE_DIR_UNUSABLE');
}

function makeUsable(folder: string, use: string, flag: string, failure: string): void {
  try {
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    readdirSync(folder);
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = `${folder} cannot be used for ${use} (${code ?? 'unknown error'})`;
    throw new CommandFailed('failure', failure, `${why}: name another folder with ${flag}`);
  }
}

/** Refuses an item limit that `/v2/relay/info` would promise although no request can carry such an item. */
export function refuseUnpushable({ limits: { max_item_bytes: itemBytesMax }, maxBody: bodyBytes }: ServeFlags): void {
  const most = Math.max(0, Math.floor((bodyBytes - LARGEST_REQUEST_BESIDE) / 4) * 3);
  if (itemBytesMax <= most) return;
  throw usageFailure(
    `max_item_bytes is ${itemBytesMax}, and a request of ${bodyBytes} bytes carries an item of ${most} at most: ` +
      `lower it with --limits '{"max_item_bytes": ${most}}', or let requests be larger (--max-body or ` +
      `RELAY_MAX_BODY, up to ${BODY_BYTES_MAX})`,
  );
}
