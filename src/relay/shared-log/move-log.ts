/**
 * The steps that `publish` and `withdraw` share: how they change the row of the log while nodes renew it and take the
 * lead, and how they work on the database of a stopped relay.
 */
import { randomUUID } from 'node:crypto';
import { rowKey } from '../core/rows.ts';
import { VIEW_KEY, rowKeyBytes } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { checkNewestRecords, openStopped } from '../store/open.ts';
import { notePosition, positionAt, positionPathOf } from '../store/position.ts';
import { encodeRow } from '../store/row-codec.ts';
import { StoreReader } from '../store/store-reader.ts';
import { type ViewMark, readViewMark } from '../store/marks.ts';
import { type LogPhase, phaseOf } from './log-phase.ts';
import type { NodeLogger, NodeOptions } from './node-options.ts';
import {
  type LogChange,
  LogRefused,
  type LogState,
  NotWritten,
  type OpenedLog,
  type SharedLog,
  type Tenure,
  copied,
} from './shared-log.ts';
import { type NotesPlace, witnessFile } from './witness.ts';

/** The options of a command that moves a log. */
export interface MoveOptions
  extends Pick<
    NodeOptions,
    'log' | 'durability' | 'folder' | 'positionFile' | 'signer' | 'clock' | 'timers' | 'newEpoch' | 'version'
  > {
  /** Another client of that log. */
  newLog: () => Promise<SharedLog>;
  logger: NodeLogger;
  /** Ends what waits for a server, and nothing that was decided. */
  signal: AbortSignal;
  /** Asked before anybody is stopped, with what will happen, as a clause; throws to leave everything as it is. */
  confirm: (stake: string) => Promise<void>;
  /** Called with each step before it is taken. */
  step: (step: string) => Promise<void>;
}

/** The row as a command found it. */
export interface SeenLog extends OpenedLog {
  state: LogState;
  phase: LogPhase;
}

export interface ChangedLog extends SeenLog {
  /** Names what the row says now, as long as it does. */
  hold: Tenure;
}

/** Each time, a node has changed the row since it was read. */
const TRIES = 100;

/** The row. Throws `LogRefused` where there is no log, and `NoSecondCopy`. */
export async function seenLog(log: SharedLog): Promise<SeenLog> {
  const { state, ...opened } = copied(await log.open());
  if (state) return { ...opened, state, phase: phaseOf(state.state) };
  throw new LogRefused(`${log.place} holds no log: see that --log names the right database`);
}

/**
 * Changes the row from what `decide` was shown last; what it throws ends the attempt. When it resolves, every copy has
 * the change and all that was stored before; it resolves to what the row said. Throws `LogUnreachable`, `NotWritten`
 * and `OutcomeUnknown` too: then the row may have been changed, and the next command finds out.
 */
export async function changeRow(
  log: SharedLog,
  decide: (seen: SeenLog) => Omit<LogChange, 'tenure'> & { tenure?: string | undefined },
): Promise<ChangedLog> {
  for (let tries = 0; tries < TRIES; tries++) {
    const seen = await seenLog(log);
    const { state, tenure = randomUUID(), replacedBy } = decide(seen);
    if (!(await log.change(seen.state, { state, tenure, replacedBy }))) continue;
    const { term, logId } = seen.state;
    return { ...seen, hold: { logId: replacedBy?.logId ?? logId, term: term + 1, tenure } };
  }
  throw new NotWritten('its row was changed by others each time');
}

/** Opens the database of the folder, a view or a store of its own, and closes it again. Throws `StoreRefused`. */
export async function inStoppedStore<T>(
  place: NotesPlace,
  work: (level: Level, mark: ViewMark | undefined) => Promise<T>,
): Promise<T> {
  const { folder, positionFile } = place;
  const level = await openStopped(folder, { positionFile, place: witnessFile(place) });
  try {
    return await work(level, await readViewMark(level));
  } finally {
    await level.close();
  }
}

/**
 * Makes of a view a store with a log of its own: first the position outside LevelDB, then one synced batch, so that a
 * crash between the two leaves a view. The caller knows that `level` holds all of the log: so the heartbeat, which a
 * view has not, is of now. Throws `DamagedRecord`.
 */
export async function becomeOwnLog(level: Level, { folder, positionFile, clock }: MoveOptions): Promise<void> {
  const store = new StoreReader(level, await checkNewestRecords(level));
  await notePosition(positionPathOf(folder, positionFile), await positionAt(store));
  const heartbeat = rowKeyBytes('heartbeat', rowKey.heartbeat);
  const writes = level.batch();
  writes.del(VIEW_KEY);
  writes.put(heartbeat, encodeRow('heartbeat', heartbeat, { atMs: clock.nowMs() }));
  await writes.write({ sync: true });
}
