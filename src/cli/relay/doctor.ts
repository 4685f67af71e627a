/** `poste relay doctor`: checks a relay and its machine for its operator, and shows how to mend what is wrong. */
import { existsSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { getuid } from 'node:process';
import type { Command } from 'commander';
import { attempt } from '../../lib/caught.ts';
import { userEntry } from '../../lib/user-folders.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { inspectLog } from '../../relay/shared-log/inspect-log.ts';
import { LogRefused, LogUnreachable } from '../../relay/shared-log/shared-log.ts';
import { storeHolder } from '../../relay/store/unopened.ts';
import { LEVEL_FOLDER } from '../../relay/store/level.ts';
import { positionPathOf } from '../../relay/store/position.ts';
import { type Examination, reportChecks } from '../lib/checks.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { ControlClient } from './control-client.ts';
import {
  type AskedStatus,
  type AskedLog,
  logChecks,
  admissionChecks,
  filesCheck,
  plainCheck,
  processChecks,
  serverCheck,
  witnessChecks,
  withFaults,
} from './doctor/process-checks.ts';
import {
  backupChecks,
  certificateChecks,
  clockCheck,
  diskChecks,
  keyCheck,
  positionCheck,
  runningStore,
  stoppedStore,
} from './doctor/store-checks.ts';
import { broken, ok, RELAY_AREAS, type RelayCheck, type RelaySubject } from './doctor/subject.ts';
import { effectiveSettings, flagsAlone } from './serve-config.ts';
import { STORE_DIR_DEFAULT, configFileOf, configOption, type ServeFlags, serveOptions } from './settings.ts';
import { refuseUnpushable, relayOptions } from './serve-settings.ts';
import { openNotices } from '../../relay/serve/options.ts';
import { sharedLogPlace, warningOfPassword } from './shared-log-options.ts';

/** The place where docs/operating.md installs the unit. */
const UNIT = '/etc/systemd/system/poste-relay.service';

const NOTES = `
Give it the config file and the flags of the relay, and run it as the user of the relay. It asks a relay that runs
over its local socket; of one that does not run it reads what it can without opening the store. It changes nothing,
and asks nothing outside but the database of a shared log.

Below each check that is not ok stands what mends it. If something is broken, the command ends with 1.

Examples:
  $ poste relay doctor --store-dir /var/lib/poste
  $ poste relay doctor --config /etc/poste/relay.toml --json`;

export function doctorCommand(context: CommandContext): Command {
  const draft = new CommandDraft(context, 'doctor').takes(...serveOptions(), configOption());
  warningOfPassword(context, draft.command);
  return draft
    .option(...JSON_FLAG)
    .notes(NOTES)
    .action(async ({ json = false }, command) => reportChecks(context, await examine(context, command), json));
}

async function examine(context: CommandContext, command: Command): Promise<Examination> {
  const { settings, check, isUsable } = configCheck(context, command);
  const storeDir = resolve(settings.storeDir);
  const asked = await askRelay(storeDir);
  const status = asked.type === 'answered' ? asked.status : undefined;
  const options = isUsable ? relayOptions(settings, storeDir, undefined) : undefined;
  const path = configFileOf(context, command);
  const isThere = existsSync(path);
  const subject: RelaySubject = {
    storeDir,
    isStoreNamed: storeDir !== resolve(STORE_DIR_DEFAULT),
    options,
    status,
    positionFile: status?.position_file ?? positionPathOf(storeDir, options?.positionFile),
    sharesLog: settings.log !== undefined,
    configFile: { path, isThere, isNamed: command.getOptionValueSource('config') === 'cli' },
    unit: await readFile(UNIT, 'utf8').catch(() => undefined),
    keySource: { environment: Boolean(context.env['MAIL_RELAY_KEY']), file: settings.keyFile },
    nowMs: context.nowMs(),
  };
  const isIdle = asked.type === 'absent' && asked.holder === undefined;
  const { checks: ofStore, look } = isIdle ? await stoppedStore(subject) : runningStore(subject);
  const checks = [
    check,
    ...processChecks(subject, asked, ownerOf(storeDir)),
    serverCheck(subject),
    ...witnessChecks(subject),
    ...admissionChecks(subject, options ? openNotices(options) : []),
    ...ofStore,
    await positionCheck(subject, look),
    await keyCheck(subject, look?.relayPubkey),
    ...(await diskChecks(subject)),
    await clockCheck(subject, look),
    filesCheck(subject),
    ...(await tlsChecks(subject)),
    ...(await backupChecks(subject)),
    ...(await sharedLogChecks(context, settings, subject)),
  ].filter((one) => one !== undefined);
  const document = { store: storeDir, config: isThere ? path : null, pid: status?.pid ?? null };
  const examined = { titles: RELAY_AREAS, head: `Relay of ${storeDir}`, subject: document };
  return { checks: withFaults(subject, checks), ...examined };
}

/** The settings, and what is wrong with them; those of the flags alone when the others cannot be used. */
function configCheck(
  context: CommandContext,
  command: Command,
): { settings: ServeFlags; check: RelayCheck; isUsable: boolean } {
  const path = configFileOf(context, command);
  try {
    const { settings, file } = effectiveSettings(context, command);
    refuseUnpushable(settings);
    relayOptions(settings, settings.storeDir, undefined);
    const absent = `there is no ${file.path}: flags, the environment and defaults hold`;
    return { settings, check: ok('config', file.isThere ? `${file.path} is understood` : absent), isUsable: true };
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    const [variable = ''] = error.message.split(' ', 1);
    const mend = error.code === 'BAD_ENVIRONMENT' ? `unset ${variable}` : `$EDITOR ${shellWord(path)}`;
    const check = broken('config', `${error.message}: the relay does not start with it`, mend);
    return { settings: flagsAlone(command), check, isUsable: false };
  }
}

async function askRelay(storeDir: string): Promise<AskedStatus> {
  try {
    return { type: 'answered', status: await new ControlClient(storeDir).get('/v1/status') };
  } catch (failure) {
    if (!(failure instanceof CommandFailed)) throw failure;
    if (failure.code !== 'RELAY_NOT_RUNNING' && failure.code !== 'NO_STORE') return { type: 'failed', failure };
    const wasStarted = existsSync(join(storeDir, LEVEL_FOLDER));
    return { type: 'absent', wasStarted, holder: await storeHolder(storeDir) };
  }
}

/** The user of the store folder, for sudo. */
function ownerOf(storeDir: string): string {
  // It may not be there, or not be for this user to see: the checks of the store say so.
  const uid = attempt(() => statSync(storeDir).uid);
  if (uid === undefined) return 'poste';
  return (uid === getuid?.() && userEntry()?.username) || `'#${uid}'`;
}

function tlsChecks(subject: RelaySubject): Promise<RelayCheck[]> | RelayCheck[] {
  const { status, options, nowMs } = subject;
  const files = status
    ? status.tls && { certFile: status.tls.cert_file, keyFile: status.tls.key_file }
    : (options?.tls ?? null);
  if (files) return certificateChecks(files, nowMs);
  return status || options ? [plainCheck(subject)] : [];
}

async function sharedLogChecks(
  context: CommandContext,
  settings: ServeFlags,
  subject: RelaySubject,
): Promise<RelayCheck[]> {
  const asked = await askLog(context, settings);
  if (asked.type === 'unknown' && !subject.status?.shared_log) return [];
  return logChecks(subject, asked, settings.durability ?? 'standby');
}

async function askLog(context: CommandContext, settings: ServeFlags): Promise<AskedLog> {
  try {
    const place = await sharedLogPlace(context, settings);
    if (!place) return { type: 'unknown' };
    return { type: 'inspected', inspection: await inspectLog(place.endpoints, place.durability) };
  } catch (error) {
    if (error instanceof CommandFailed || error instanceof LogRefused || error instanceof LogUnreachable)
      return { type: 'failed', message: error.message };
    throw error;
  }
}
