/**
 * Checks of the store: who has it open, its schema, its position, which shows a store that was put back, and the clock.
 */
import { stat } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { spanText } from '../../../host/core/spans.ts';
import { broken, note, ok } from '../../../lib/check.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import { isRestoreUnderWay } from '../../../relay/store/cutover.ts';
import { LEVEL_FOLDER } from '../../../relay/store/level.ts';
import { type StoreLook, lookAtStore } from '../../../relay/store/look.ts';
import { SCHEMA_VERSION } from '../../../relay/store/open.ts';
import { readPosition } from '../../../relay/store/position.ts';
import { StoreRefused } from '../../../relay/store/refused.ts';
import { logPlace } from '../../../relay/store/view-mark.ts';
import { type RelayCheck, type RelaySubject, restartCommand, settingCommand, startCommand } from './subject.ts';

const STORE = { area: 'store', id: 'store' } as const;
const POSITION = { area: 'store', id: 'position' } as const;
const CLOCK = { area: 'machine', id: 'clock' } as const;

/** The checks of a stopped store, and what was read of it; `undefined` when nothing was. */
export interface SeenStore {
  checks: RelayCheck[];
  look: StoreLook | undefined;
}

/** Says of a relay that runs that it has its store. What it finds wrong with its rows is a fault of its own. */
export function runningStore({ status, storeDir }: RelaySubject): RelayCheck[] {
  if (!status) return [];
  const { pid, schema_version: schema } = status;
  const about = { area: 'store', id: 'rows' } as const;
  return [
    ok(STORE, `process ${pid} has ${storeDir} open, of schema ${schema}`),
    ok(about, 'no damaged row and no queue at fault was found since the start'),
  ];
}

/** Reads the store of a relay that does not run, without opening it. */
export async function stoppedStore(subject: RelaySubject): Promise<SeenStore> {
  const { storeDir, positionFile, nowMs } = subject;
  const database = join(storeDir, LEVEL_FOLDER);
  if (!existsSync(database)) {
    if (!existsSync(positionFile) && subject.isStoreNamed && !existsSync(storeDir)) {
      const sentence = `there is no folder ${storeDir}: name the right one, or start the relay, which makes it`;
      return { checks: [broken(STORE, sentence, startCommand(subject))], look: undefined };
    }
    if (!existsSync(positionFile))
      return { checks: [ok(STORE, `there is none at ${storeDir} yet: the first start makes it`)], look: undefined };
    const sentence = `the database at ${database} is missing, although the relay has run here before`;
    return {
      checks: [broken(STORE, sentence, `poste relay restore <backup> --store-dir ${shellWord(storeDir)}`)],
      look: undefined,
    };
  }
  if (isRestoreUnderWay(storeDir)) {
    const sentence = 'a restore was decided and is not carried out to its end: the next start goes on with it';
    return { checks: [note(STORE, sentence, startCommand(subject))], look: undefined };
  }
  try {
    const look = await lookAtStore(storeDir, await readPosition(positionFile).catch(() => undefined), nowMs);
    return { checks: [schemaCheck(subject, look)], look };
  } catch (error) {
    return { checks: [unreadable(subject, error)], look: undefined };
  }
}

function unreadable({ storeDir }: RelaySubject, error: unknown): RelayCheck {
  const word = shellWord(storeDir);
  if (error instanceof StoreRefused) return broken(STORE, error.message, `poste relay log verify --store-dir ${word}`);
  const { code, message } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string') throw error;
  return broken(
    STORE,
    `${storeDir} cannot be read (${code.startsWith('LEVEL_') ? message : code})`,
    `ls -la ${word} ${shellWord(join(storeDir, LEVEL_FOLDER))}`,
  );
}

function schemaCheck(subject: RelaySubject, { schema, view, lastLsn }: StoreLook): RelayCheck {
  const { storeDir, sharesLog } = subject;
  if (view && !sharesLog) {
    const sentence = `${storeDir} is a view of a log that is kept ${logPlace(view)}, and no --log is given`;
    return broken(STORE, sentence, settingCommand(subject, '--log', 'postgres://<user>@<host>/<database>'));
  }
  if (schema === undefined && !view)
    return broken(
      STORE,
      `${storeDir} holds no schema version`,
      `poste relay log verify --store-dir ${shellWord(storeDir)}`,
    );
  if (schema !== undefined && schema > SCHEMA_VERSION)
    return broken(
      STORE,
      `${storeDir} has schema ${schema}, and this software knows schemas up to ${SCHEMA_VERSION}: start the newer software`,
      'poste --version',
    );
  const sentence = `nobody has ${storeDir} open; it has schema ${schema ?? SCHEMA_VERSION}, and its log ends with record ${lastLsn}`;
  if (schema !== undefined && schema < SCHEMA_VERSION)
    return note(
      STORE,
      `${sentence}; the next start brings it to schema ${SCHEMA_VERSION}, and the way back is a backup`,
      `poste relay backup before-upgrade.backup --store-dir ${shellWord(storeDir)}`,
    );
  return ok(STORE, sentence);
}

/** The file outside the database that says how far the log had come. A view has none. */
export async function positionChecks(subject: RelaySubject, look: StoreLook | undefined): Promise<RelayCheck[]> {
  const { positionFile, status, storeDir } = subject;
  if (status?.shared_log || look?.view || (!status && !look)) return [];
  try {
    const position = await readPosition(positionFile);
    if (!position) {
      const sentence = `${positionFile} is missing or unreadable: the next start cannot tell whether the store is current, and begins a new epoch, which loses nothing`;
      return [
        note(
          POSITION,
          sentence,
          status ? restartCommand(subject) : settingCommand(subject, '--position-file', '<file>'),
        ),
      ];
    }
    if (look?.epochFault !== undefined)
      return [
        note(
          POSITION,
          `${look.epochFault}: the next start begins a new epoch, which loses nothing`,
          `poste relay log verify --store-dir ${shellWord(storeDir)}`,
        ),
      ];
    const [file, folder] = await Promise.all([stat(positionFile), stat(join(storeDir, LEVEL_FOLDER))]);
    const sentence = `${positionFile} is of log record ${position.lsn}`;
    if (dirname(positionFile) === storeDir)
      return [
        note(
          POSITION,
          `${sentence}, and lies in the store folder: an older copy of the folder brings an older position along, and nothing here shows that it is one. The first start with another place begins a new epoch, which loses nothing`,
          settingCommand(subject, '--position-file', '<file beyond the folder>'),
        ),
      ];
    const where = file.dev === folder.dev ? 'on the disk of the store' : 'on another disk than the store';
    return [ok(POSITION, `${sentence}, ${where}`)];
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code !== 'string') throw error;
    return [
      broken(
        POSITION,
        `${positionFile} cannot be read (${code})`,
        `ls -l ${shellWord(positionFile)} ${shellWord(dirname(positionFile))}`,
      ),
    ];
  }
}

/** Small steps of a clock are common. */
const AHEAD_MS = 60_000;

/** This clock, against what was written by it before. */
export async function clockCheck(subject: RelaySubject, look: StoreLook | undefined): Promise<RelayCheck[]> {
  const { nowMs, positionFile, storeDir, status } = subject;
  const files = [positionFile, join(storeDir, LEVEL_FOLDER), join(storeDir, LEVEL_FOLDER, 'CURRENT')];
  const written = await Promise.all(
    files.map((file) =>
      stat(file).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0,
      ),
    ),
  );
  const marks: [what: string, atMs: number][] = [
    ['the newest event of the log', look?.newestMs ?? 0],
    ['the last backup', status?.last_backup_at ?? 0],
    ...files.map((file, at): [string, number] => [file, written[at] ?? 0]),
  ];
  const [what, atMs] = marks.reduce((latest, one) => (one[1] > latest[1] ? one : latest));
  if (atMs === 0) return [];
  if (atMs - nowMs <= AHEAD_MS) return [ok(CLOCK, 'nothing that the relay wrote lies ahead of this clock')];
  const sentence = `${what} lies ${spanText(atMs - nowMs)} ahead of this clock: it was set back, or ran ahead before`;
  return [broken(CLOCK, sentence, 'timedatectl set-ntp true && timedatectl')];
}
