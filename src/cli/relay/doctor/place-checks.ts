/** Checks of what lies on the disk of a relay: room, certificate, backups, key. They change nothing. */
import { X509Certificate } from 'node:crypto';
import { access, constants, readFile, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { spanText } from '../../../host/core/spans.ts';
import { type TlsFiles, TlsRefused, readTls } from '../../../http/tls-files.ts';
import { broken, note, ok } from '../../../lib/check.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { type PublicKey, displayFingerprint } from '../../../protocol/public-key.ts';
import { backupTimeOf } from '../../../relay/jobs/backup-job.ts';
import { freeBytesOf } from '../../../relay/jobs/disk-guard.ts';
import { LEVEL_FOLDER } from '../../../relay/store/level.ts';
import { StoreRefused } from '../../../relay/store/refused.ts';
import { RELAY_KEY_FILE, readKeyFile } from '../../../relay/store/relay-key.ts';
import { isoTime } from '../../../protocol/time.ts';
import { formatBytes } from '../../lib/format.ts';
import { type RelayCheck, type RelaySubject, logsCommand, settingCommand } from './subject.ts';

/** The rights of everybody but the owner and the group. */
const OTHERS = 0o007;

export async function diskChecks(subject: RelaySubject): Promise<RelayCheck[]> {
  const { storeDir, positionFile } = subject;
  const { folder: backups } = planOf(subject) ?? {};
  const archives = subject.status ? subject.status.log_archive_folder : subject.options?.logRetention?.archiveFolder;
  const storeBytes = await bytesIn(join(storeDir, LEVEL_FOLDER));
  const checks = [await storeDisk(subject)];
  if (backups !== undefined) checks.push(await roomCheck(backups, Math.max(storeBytes, await newestBytes(backups))));
  if (archives) checks.push(await roomCheck(archives, storeBytes));
  if (dirname(positionFile) !== storeDir) checks.push(await roomCheck(dirname(positionFile), 0));
  return checks.flat();
}

async function storeDisk({ storeDir, status, options }: RelaySubject): Promise<RelayCheck[]> {
  const floor = status?.disk_floor_bytes ?? options?.diskFloorBytes ?? 0;
  const free = await freeIn(storeDir);
  if (free === undefined) return [];
  const subject = { area: 'machine', id: 'disk', about: storeDir } as const;
  const command = `du -xh --max-depth=1 ${shellWord(storeDir)} | sort -h`;
  const sentence = `${formatBytes(free)} are free for ${storeDir}`;
  if (free < floor)
    return [
      broken(subject, `${sentence}, less than --disk-floor (${formatBytes(floor)}): pushes are refused`, command),
    ];
  if (free < 2 * floor) return [note(subject, `${sentence}; below ${formatBytes(floor)} pushes are refused`, command)];
  return [ok(subject, sentence)];
}

async function roomCheck(folder: string, needed: number): Promise<RelayCheck[]> {
  const free = await freeIn(folder);
  if (free === undefined) return [];
  const subject = { area: 'machine', id: 'disk', about: folder } as const;
  const sentence = `${formatBytes(free)} are free for ${folder}`;
  if (free >= needed) return [ok(subject, sentence)];
  return [
    broken(
      subject,
      `${sentence}, and the next file there may take ${formatBytes(needed)}`,
      `ls -lhtr ${shellWord(folder)}`,
    ),
  ];
}

/** Asks for the folder, or for the one that it will be made in. */
async function freeIn(folder: string): Promise<number | undefined> {
  try {
    return await freeBytesOf(folder);
  } catch {
    return folder === dirname(folder) ? undefined : freeIn(dirname(folder));
  }
}

async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

const EXPIRY_SOON_MS = 14 * 86_400_000;

export async function certificateChecks(files: TlsFiles, nowMs: number): Promise<RelayCheck[]> {
  const { certFile, keyFile } = files;
  const subject = { area: 'tls', id: 'certificate' } as const;
  const look = `openssl x509 -in ${shellWord(certFile)} -noout -subject -issuer -dates`;
  try {
    const { cert } = await readTls(files);
    const certificate = new X509Certificate(cert);
    const [from, until] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
    const renew = 'put a renewed one into its place, which the relay takes within half a minute';
    const key = await tlsKeyCheck(keyFile);
    if (nowMs > until)
      return [broken(subject, `${certFile} expired on ${dayOf(until)}, and hosts refuse it: ${renew}`, look), key];
    if (nowMs < from) return [broken(subject, `${certFile} is not valid before ${dayOf(from)}`, look), key];
    const sentence = `${certFile} is valid until ${dayOf(until)}`;
    if (until - nowMs < EXPIRY_SOON_MS)
      return [note(subject, `${sentence}, for ${spanText(until - nowMs)} yet: ${renew}`, look), key];
    return [ok(subject, `${sentence}, and the key is its own`), key];
  } catch (error) {
    if (!(error instanceof TlsRefused)) throw error;
    return [broken(subject, error.message, `ls -l ${shellWord(certFile)} ${shellWord(keyFile)}`)];
  }
}

function dayOf(timeMs: number): string {
  return isoTime(timeMs).slice(0, 10);
}

async function tlsKeyCheck(keyFile: string): Promise<RelayCheck> {
  const subject = { area: 'tls', id: 'tls-key' } as const;
  const { mode } = await stat(keyFile);
  if ((mode & OTHERS) === 0) return ok(subject, `${keyFile} is closed to other users`);
  return broken(
    subject,
    `every user of this machine may open ${keyFile} (mode ${modeText(mode)})`,
    `chmod o= ${shellWord(keyFile)}`,
  );
}

function modeText(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0');
}

/** `storeKey`: the key that the store is of, where that was read. */
export async function keyChecks(subject: RelaySubject, storeKey: PublicKey | undefined): Promise<RelayCheck[]> {
  const { storeDir, keySource, status } = subject;
  if (keySource.environment) return [];
  const path = keySource.file ?? join(storeDir, RELAY_KEY_FILE);
  const about = { area: 'store', id: 'key' } as const;
  const word = shellWord(path);
  try {
    const signer = await readKeyFile(path);
    if (!signer) {
      // One that runs has its key from elsewhere; one that never ran makes it.
      if (keySource.file === undefined && (status !== undefined || storeKey === undefined)) return [];
      return [
        broken(
          about,
          `there is no key at ${path}: put the key of this relay back, or name its file`,
          settingCommand(subject, '--key-file', '<file>'),
        ),
      ];
    }
    if (storeKey !== undefined && signer.publicKey !== storeKey)
      return [
        broken(
          about,
          `${path} is another relay's: the store is of ${displayFingerprint(storeKey)}`,
          settingCommand(subject, '--key-file', '<file>'),
        ),
      ];
    const { mode } = await stat(path);
    if ((mode & OTHERS) !== 0)
      return [
        broken(
          about,
          `every user of this machine may open ${path} (mode ${modeText(mode)}), and who has the key can pretend to be this relay`,
          `chmod o= ${word}`,
        ),
      ];
    return [ok(about, `${path} is closed to other users; no backup holds it, so keep a copy elsewhere`)];
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    return [broken(about, error.message, `ls -l ${word}`)];
  }
}

interface BackupPlan {
  folder: string;
  everyMs: number;
}

function planOf({ status, options }: RelaySubject): BackupPlan | undefined {
  if (status) return status.backups ? { folder: status.backups.folder, everyMs: status.backups.every_ms } : undefined;
  return options?.backups;
}

export async function backupChecks(subject: RelaySubject): Promise<RelayCheck[]> {
  const { status, nowMs } = subject;
  const plan = planOf(subject);
  const about = { area: 'backup', id: 'backup' } as const;
  const taken = status?.last_backup_at ?? null;
  if (!plan) {
    const command = settingCommand(subject, '--backup-dir', '/var/lib/poste-backups');
    const last = taken === null ? '' : `; a command took the last one ${spanText(nowMs - taken)} ago`;
    return [note(about, `no regular backups are taken${last}`, command)];
  }
  const folder = await folderCheck(plan.folder);
  const newest = Math.max(taken ?? 0, await newestBackupMs(plan.folder));
  return [ageCheck(subject, plan, newest), ...folder];
}

function ageCheck(subject: RelaySubject, { folder, everyMs }: BackupPlan, newestMs: number): RelayCheck {
  const { status, nowMs, storeDir } = subject;
  const about = { area: 'backup', id: 'backup' } as const;
  const now = `poste relay backup ${shellWord(join(folder, 'now.backup'))} --store-dir ${shellWord(storeDir)}`;
  if (newestMs === 0) {
    const sentence = `none has been written to ${folder} yet`;
    return status
      ? note(about, `${sentence}: the first one is under way, or failed`, logsCommand(subject))
      : note(about, sentence, now);
  }
  const ageMs = nowMs - newestMs;
  const sentence = `the newest is ${spanText(Math.max(0, ageMs))} old, and one is due every ${spanText(everyMs)}`;
  if (ageMs > 2 * everyMs) return broken(about, sentence, status ? logsCommand(subject) : now);
  return ok(about, sentence);
}

async function folderCheck(folder: string): Promise<RelayCheck[]> {
  const about = { area: 'backup', id: 'backup-folder', about: folder } as const;
  const word = shellWord(folder);
  try {
    if (!(await stat(folder)).isDirectory())
      return [broken(about, `${folder} is no folder`, `mv ${word} ${shellWord(`${folder}.aside`)}`)];
    await access(folder, constants.W_OK | constants.X_OK);
    return [ok(about, `${folder} can be written to`)];
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT')
      return [
        note(
          about,
          `there is no folder ${folder}: the next start makes it, unless a disk is not mounted there`,
          `install -d -m 0700 ${word}`,
        ),
      ];
    return [broken(about, `${folder} cannot be written to (${code ?? 'unknown error'})`, `ls -ld ${word}`)];
  }
}

async function backupsIn(folder: string): Promise<{ name: string; timeMs: number }[]> {
  const names = await readdir(folder).catch(() => []);
  const found = names.map((name) => ({ name, timeMs: backupTimeOf(name) ?? 0 })).filter(({ timeMs }) => timeMs > 0);
  return found.toSorted((a, b) => a.timeMs - b.timeMs);
}

async function newestBackupMs(folder: string): Promise<number> {
  return (await backupsIn(folder)).at(-1)?.timeMs ?? 0;
}

async function newestBytes(folder: string): Promise<number> {
  const newest = (await backupsIn(folder)).at(-1);
  return newest ? (await stat(join(folder, newest.name))).size : 0;
}

/** The systemd unit of the relay, where this machine has it. */
export async function unitText(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}
