/**
 * Checks of the store: who has it open, its schema, its position, which shows a store that was put back, and the clock.
 */
import { stat } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { spanText } from '../../../host/core/spans.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { isRestoreUnderWay } from '../../../relay/store/cutover.ts';
import { LEVEL_FOLDER } from '../../../relay/store/level.ts';
import { type StoreLook, lookAtStore } from '../../../relay/store/look.ts';
import { SCHEMA_VERSION } from '../../../relay/store/open.ts';
import { readPosition } from '../../../relay/store/position.ts';
import { StoreRefused } from '../../../relay/store/refused.ts';
import { logPlace } from '../../../relay/store/view-mark.ts';
import {
  broken,
  note,
  ok,
  type RelayCheck,
  type RelaySubject,
  restartCommand,
  settingCommand,
  startCommand,
  verifyCommand,
} from './subject.ts';

/** The checks of a stopped store, and what was read of it; `undefined` when nothing was. */
export interface SeenStore {
  checks: RelayCheck[];
  look: StoreLook | undefined;
}

/** Says of a relay that runs that it has its store. What it finds wrong with its rows is a fault of its own. */
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
  const newer = `${storeDir} has ${known}, and this software knows schemas up to ${SCHEMA_VERSION}: start the newer software`;
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
      const sentence = `${positionFile} is missing or unreadable: the next start cannot tell whether the store is current, and begins a new epoch, which loses nothing`;
      const mend = status ? restartCommand(subject) : settingCommand(subject, '--position-file', '<file>');
      return note('position', sentence, mend);
    }
    const fault = `${look?.epochFault}: the next start begins a new epoch, which loses nothing`;
    if (look?.epochFault !== undefined) return note('position', fault, verifyCommand(storeDir));
    const [file, folder] = await Promise.all([stat(positionFile), stat(join(storeDir, LEVEL_FOLDER))]);
    const sentence = `${positionFile} is of log record ${position.lsn}`;
    const inside = `${sentence}, and lies in the store folder: an older copy of the folder brings an older position along, and nothing here shows that it is one. The first start with another place begins a new epoch, which loses nothing`;
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
