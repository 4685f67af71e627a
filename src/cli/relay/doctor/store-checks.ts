/**
 * Checks of the store and of what else lies on the disk of a relay: who has the store open, its schema, its position,
 * which shows a store that was put back, the clock, room, certificate, backups and key. They change nothing.
 */
import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { access, constants, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { spanText } from '../../../host/core/spans.ts';
import { type TlsFiles, TlsRefused, readTls } from '../../../http/tls-files.ts';
import { nothing } from '../../../lib/caught.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { type PublicKey, displayFingerprint } from '../../../protocol/public-key.ts';
import { isoTime } from '../../../protocol/time.ts';
import { type BackupSettings, backupTimeOf } from '../../../relay/jobs/backup-job.ts';
import { freeBytesOf } from '../../../relay/jobs/disk-guard.ts';
import { isRestoreUnderWay } from '../../../relay/store/cutover.ts';
import { LEVEL_FOLDER } from '../../../relay/store/level.ts';
import { type StoreLook, lookAtStore } from '../../../relay/store/unopened.ts';
import { readPosition } from '../../../relay/store/position.ts';
import { StoreRefused } from '../../../relay/store/refused.ts';
import { RELAY_KEY_FILE, openToAll, readKeyFile } from '../../../relay/store/relay-key.ts';
import { logPlace, SCHEMA_VERSION } from '../../../relay/store/marks.ts';
import { formatBytes } from '../../lib/format.ts';
import {
  type RelayCheck,
  type RelaySubject,
  broken,
  logsCommand,
  note,
  ok,
  restartCommand,
  settingCommand,
  startCommand,
  verifyCommand,
} from './subject.ts';

/** The checks of a stopped store, and what was read of it; `undefined` when nothing was. */
interface SeenStore {
  checks: RelayCheck[];
  look: StoreLook | undefined;
}

/** Says of a relay that runs that it has its store. A fault that it finds in its rows is a check of its own. */
export function runningStore({ status, storeDir }: RelaySubject): SeenStore {
  if (!status) return { checks: [], look: undefined };
  const { pid, schema_version: schema } = status;
  const checks = [
    ok('store', `process ${pid} has ${storeDir} open, of schema ${schema}`),
    ok('rows', 'no damaged row and no queue at fault was found since the start'),
  ];
  return { checks, look: undefined };
}

/** Reads the store of a relay that does not run, without opening it. */
export async function stoppedStore(subject: RelaySubject): Promise<SeenStore> {
  const { storeDir, positionFile, nowMs } = subject;
  const absent = existsSync(join(storeDir, LEVEL_FOLDER)) ? undefined : absentCheck(subject);
  if (absent) return { checks: [absent], look: undefined };
  if (isRestoreUnderWay(storeDir)) {
    const sentence = 'a restore was decided and is not carried out to its end: the next start goes on with it';
    return { checks: [note('store', sentence, startCommand(subject))], look: undefined };
  }
  try {
    const look = await lookAtStore(storeDir, await readPosition(positionFile).catch(() => undefined), nowMs);
    return { checks: [schemaCheck(subject, look)], look };
  } catch (error) {
    return { checks: [unreadable(subject, error)], look: undefined };
  }
}

function absentCheck(subject: RelaySubject): RelayCheck {
  const { storeDir, positionFile, isStoreNamed } = subject;
  if (existsSync(positionFile)) {
    const lost = `the database at ${join(storeDir, LEVEL_FOLDER)} is missing, although the relay has run here before`;
    return broken('store', lost, `poste relay restore <backup> --store-dir ${shellWord(storeDir)}`);
  }
  if (!isStoreNamed || existsSync(storeDir))
    return ok('store', `there is none at ${storeDir} yet: the first start makes it`);
  const sentence = `there is no folder ${storeDir}: name the right one, or start the relay, which makes it`;
  return broken('store', sentence, startCommand(subject));
}

function unreadable({ storeDir }: RelaySubject, error: unknown): RelayCheck {
  if (error instanceof StoreRefused) return broken('store', error.message, verifyCommand(storeDir));
  const { code, message } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string') throw error;
  const sentence = `${storeDir} cannot be read (${code.startsWith('LEVEL_') ? message : code})`;
  return broken('store', sentence, `ls -la ${shellWord(storeDir)} ${shellWord(join(storeDir, LEVEL_FOLDER))}`);
}

function schemaCheck(subject: RelaySubject, { schema, view, lastLsn }: StoreLook): RelayCheck {
  const { storeDir, sharesLog } = subject;
  if (view && !sharesLog) {
    const sentence = `${storeDir} is a view of a log that is kept ${logPlace(view)}, and no --log is given`;
    return broken('store', sentence, settingCommand(subject, '--log', 'postgres://<user>@<host>/<database>'));
  }
  if (schema === undefined && !view)
    return broken('store', `${storeDir} holds no schema version`, verifyCommand(storeDir));
  const known = `schema ${schema ?? SCHEMA_VERSION}`;
  const upTo = `this software knows schemas up to ${SCHEMA_VERSION}`;
  const newer = `${storeDir} has ${known}, and ${upTo}: start the newer software`;
  if (schema !== undefined && schema > SCHEMA_VERSION) return broken('store', newer, 'poste --version');
  const sentence = `nobody has ${storeDir} open; it has ${known}, and its log ends with record ${lastLsn}`;
  if (schema === undefined || schema === SCHEMA_VERSION) return ok('store', sentence);
  const older = `${sentence}; the next start brings it to schema ${SCHEMA_VERSION}, and the way back is a backup`;
  return note('store', older, `poste relay backup before-upgrade.backup --store-dir ${shellWord(storeDir)}`);
}

/** The file outside the database that says how far the log had come. A view has none. */
export async function positionCheck(
  subject: RelaySubject,
  look: StoreLook | undefined,
): Promise<RelayCheck | undefined> {
  const { positionFile, status, storeDir } = subject;
  if (status?.shared_log || look?.view || (!status && !look)) return undefined;
  try {
    const position = await readPosition(positionFile);
    if (!position) {
      const sentence =
        `${positionFile} is missing or unreadable: the next start cannot tell whether the store is current, ` +
        'and begins a new epoch, which loses nothing';
      const mend = status ? restartCommand(subject) : settingCommand(subject, '--position-file', '<file>');
      return note('position', sentence, mend);
    }
    const fault = `${look?.epochFault}: the next start begins a new epoch, which loses nothing`;
    if (look?.epochFault !== undefined) return note('position', fault, verifyCommand(storeDir));
    const [file, folder] = await Promise.all([stat(positionFile), stat(join(storeDir, LEVEL_FOLDER))]);
    const sentence = `${positionFile} is of log record ${position.lsn}`;
    const inside =
      `${sentence}, and lies in the store folder: an older copy of the folder brings an older position along, ` +
      'and nothing here shows that it is one. The first start with another place begins a new epoch, which ' +
      'loses nothing';
    if (dirname(positionFile) === storeDir)
      return note('position', inside, settingCommand(subject, '--position-file', '<file beyond the folder>'));
    const where = file.dev === folder.dev ? 'on the disk of the store' : 'on another disk than the store';
    return ok('position', `${sentence}, ${where}`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code !== 'string') throw error;
    const look = `ls -l ${shellWord(positionFile)} ${shellWord(dirname(positionFile))}`;
    return broken('position', `${positionFile} cannot be read (${code})`, look);
  }
}

/** Small steps of a clock are common. */
const AHEAD_MS = 60_000;

/** This clock, against what was written by it before. */
export async function clockCheck(subject: RelaySubject, look: StoreLook | undefined): Promise<RelayCheck | undefined> {
  const { nowMs, positionFile, storeDir, status } = subject;
  const files = [positionFile, join(storeDir, LEVEL_FOLDER), join(storeDir, LEVEL_FOLDER, 'CURRENT')];
  const written = await Promise.all(files.map((file) => stat(file).catch(() => undefined)));
  const marks: [what: string, atMs: number][] = [
    ['the newest event of the log', look?.newestMs ?? 0],
    ['the last backup', status?.last_backup_at ?? 0],
    ...files.map((file, at): [string, number] => [file, written[at]?.mtimeMs ?? 0]),
  ];
  const [what, atMs] = marks.reduce((latest, one) => (one[1] > latest[1] ? one : latest));
  if (atMs === 0) return undefined;
  if (atMs - nowMs <= AHEAD_MS) return ok('clock', 'nothing that the relay wrote lies ahead of this clock');
  const sentence = `${what} lies ${spanText(atMs - nowMs)} ahead of this clock: it was set back, or ran ahead before`;
  return broken('clock', sentence, 'timedatectl set-ntp true && timedatectl');
}

export async function diskChecks(subject: RelaySubject): Promise<(RelayCheck | undefined)[]> {
  const { storeDir, positionFile, status, options } = subject;
  const { folder: backups } = planOf(subject) ?? {};
  const archives = status ? status.log_archive_folder : options?.logRetention?.archiveFolder;
  const storeBytes = await bytesIn(join(storeDir, LEVEL_FOLDER));
  const checks = [await storeDisk(subject)];
  if (backups !== undefined) {
    const newest = (await backupsIn(backups)).at(-1);
    const newestBytes = newest ? (await stat(join(backups, newest.name))).size : 0;
    checks.push(await roomCheck(backups, Math.max(storeBytes, newestBytes)));
  }
  if (archives) checks.push(await roomCheck(archives, storeBytes));
  if (dirname(positionFile) !== storeDir) checks.push(await roomCheck(dirname(positionFile), 0));
  return checks;
}

async function storeDisk({ storeDir, status, options }: RelaySubject): Promise<RelayCheck | undefined> {
  const floor = status?.disk_floor_bytes ?? options?.diskFloorBytes ?? 0;
  const free = await freeIn(storeDir);
  if (free === undefined) return undefined;
  const about = ['disk', storeDir] as const;
  const command = `du -xh --max-depth=1 ${shellWord(storeDir)} | sort -h`;
  const sentence = `${formatBytes(free)} are free for ${storeDir}`;
  if (free >= 2 * floor) return ok(about, sentence);
  const low = `${sentence}, less than --disk-floor (${formatBytes(floor)}): pushes are refused`;
  if (free < floor) return broken(about, low, command);
  return note(about, `${sentence}; below ${formatBytes(floor)} pushes are refused`, command);
}

async function roomCheck(folder: string, needed: number): Promise<RelayCheck | undefined> {
  const free = await freeIn(folder);
  if (free === undefined) return undefined;
  const sentence = `${formatBytes(free)} are free for ${folder}`;
  if (free >= needed) return ok(['disk', folder], sentence);
  const small = `${sentence}, and the next file there may take ${formatBytes(needed)}`;
  return broken(['disk', folder], small, `ls -lhtr ${shellWord(folder)}`);
}

/** Asks for the folder, or for the one that it will be made in. */
async function freeIn(folder: string): Promise<number | undefined> {
  const free = await freeBytesOf(folder).catch(nothing);
  return free ?? (folder === dirname(folder) ? undefined : freeIn(dirname(folder)));
}

async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const files = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)));
  return files.reduce((sum, file) => sum + (file?.size ?? 0), 0);
}

const EXPIRY_SOON_MS = 14 * 86_400_000;

export async function certificateChecks(files: TlsFiles, nowMs: number): Promise<RelayCheck[]> {
  const { certFile, keyFile } = files;
  const look = `openssl x509 -in ${shellWord(certFile)} -noout -subject -issuer -dates`;
  try {
    const { cert } = await readTls(files);
    const certificate = new X509Certificate(cert);
    const [from, until] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
    const renew = 'put a renewed one into its place, which the relay takes within half a minute';
    const key = await tlsKeyCheck(keyFile);
    if (nowMs > until)
      return [
        broken('certificate', `${certFile} expired on ${dayOf(until)}, and hosts refuse it: ${renew}`, look),
        key,
      ];
    if (nowMs < from) return [broken('certificate', `${certFile} is not valid before ${dayOf(from)}`, look), key];
    const sentence = `${certFile} is valid until ${dayOf(until)}`;
    if (until - nowMs < EXPIRY_SOON_MS)
      return [note('certificate', `${sentence}, for ${spanText(until - nowMs)} yet: ${renew}`, look), key];
    return [ok('certificate', `${sentence}, and the key is its own`), key];
  } catch (error) {
    if (!(error instanceof TlsRefused)) throw error;
    return [broken('certificate', error.message, `ls -l ${shellWord(certFile)} ${shellWord(keyFile)}`)];
  }
}

function dayOf(timeMs: number): string {
  return isoTime(timeMs).slice(0, 10);
}

async function tlsKeyCheck(keyFile: string): Promise<RelayCheck> {
  const open = await openToAll(keyFile);
  if (open === undefined) return ok('tls-key', `${keyFile} is closed to other users`);
  return broken('tls-key', open, `chmod o= ${shellWord(keyFile)}`);
}

/** `storeKey`: the key that the store is of, where that was read. */
export async function keyCheck(
  subject: RelaySubject,
  storeKey: PublicKey | undefined,
): Promise<RelayCheck | undefined> {
  const { storeDir, keySource, status } = subject;
  if (keySource.environment) return undefined;
  const path = keySource.file ?? join(storeDir, RELAY_KEY_FILE);
  const word = shellWord(path);
  const name = settingCommand(subject, '--key-file', '<file>');
  try {
    const signer = await readKeyFile(path);
    // One that runs has its key from elsewhere; one that never ran makes it.
    if (!signer && keySource.file === undefined && (status !== undefined || storeKey === undefined)) return undefined;
    if (!signer)
      return broken('key', `there is no key at ${path}: put the key of this relay back, or name its file`, name);
    if (storeKey !== undefined && signer.publicKey !== storeKey)
      return broken('key', `${path} is another relay's: the store is of ${displayFingerprint(storeKey)}`, name);
    const open = await openToAll(path);
    if (open === undefined)
      return ok('key', `${path} is closed to other users; no backup holds it, so keep a copy elsewhere`);
    return broken('key', `${open}, and who has the key can pretend to be this relay`, `chmod o= ${word}`);
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    return broken('key', error.message, `ls -l ${word}`);
  }
}

type BackupPlan = Pick<BackupSettings, 'folder' | 'everyMs'>;

function planOf({ status, options }: RelaySubject): BackupPlan | undefined {
  if (status) return status.backups ? { folder: status.backups.folder, everyMs: status.backups.every_ms } : undefined;
  return options?.backups;
}

export async function backupChecks(subject: RelaySubject): Promise<RelayCheck[]> {
  const { status, nowMs } = subject;
  const plan = planOf(subject);
  const taken = status?.last_backup_at ?? null;
  if (!plan) {
    const command = settingCommand(subject, '--backup-dir', '/var/lib/poste-backups');
    const last = taken === null ? '' : `; a command took the last one ${spanText(nowMs - taken)} ago`;
    return [note('backup', `no regular backups are taken${last}`, command)];
  }
  const newest = (await backupsIn(plan.folder)).at(-1)?.timeMs ?? 0;
  return [ageCheck(subject, plan, Math.max(taken ?? 0, newest)), await folderCheck(plan.folder)];
}

function ageCheck(subject: RelaySubject, { folder, everyMs }: BackupPlan, newestMs: number): RelayCheck {
  const { status, nowMs, storeDir } = subject;
  const now = `poste relay backup ${shellWord(join(folder, 'now.backup'))} --store-dir ${shellWord(storeDir)}`;
  if (newestMs === 0) {
    const sentence = `none has been written to ${folder} yet`;
    return status
      ? note('backup', `${sentence}: the first one is under way, or failed`, logsCommand(subject))
      : note('backup', sentence, now);
  }
  const ageMs = nowMs - newestMs;
  const sentence = `the newest is ${spanText(Math.max(0, ageMs))} old, and one is due every ${spanText(everyMs)}`;
  if (ageMs > 2 * everyMs) return broken('backup', sentence, status ? logsCommand(subject) : now);
  return ok('backup', sentence);
}

async function folderCheck(folder: string): Promise<RelayCheck> {
  const about = ['backup-folder', folder] as const;
  const word = shellWord(folder);
  try {
    if (!(await stat(folder)).isDirectory())
      return broken(about, `${folder} is no folder`, `mv ${word} ${shellWord(`${folder}.aside`)}`);
    await access(folder, constants.W_OK | constants.X_OK);
    return ok(about, `${folder} can be written to`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const absent = `there is no folder ${folder}: the next start makes it, unless a disk is not mounted there`;
    if (code === 'ENOENT') return note(about, absent, `install -d -m 0700 ${word}`);
    return broken(about, `${folder} cannot be written to (${code ?? 'unknown error'})`, `ls -ld ${word}`);
  }
}

/** The backups in the folder, the newest last. */
async function backupsIn(folder: string): Promise<{ name: string; timeMs: number }[]> {
  const names = await readdir(folder).catch(() => []);
  const found = names.map((name) => ({ name, timeMs: backupTimeOf(name) ?? 0 })).filter(({ timeMs }) => timeMs > 0);
  return found.toSorted((a, b) => a.timeMs - b.timeMs);
}
