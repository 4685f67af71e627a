/** How an operator's command changes the row of a shared log, while nodes renew it and take the lead. */
import { randomUUID } from 'node:crypto';
import { type LogPhase, phaseOf } from './log-phase.ts';
import {
  LogRefused,
  type LogServer,
  type LogState,
  NotWritten,
  type OpenedLog,
  type SharedLog,
  type Tenure,
  copied,
} from './shared-log.ts';

/** Each time, a node has changed the row since it was read. */
const TRIES = 100;

/** The row as a command found it. */
export interface SeenLog extends OpenedLog {
  state: LogState;
  phase: LogPhase;
}

interface WantedChange {
  state: string;
  tenure?: string;
  replacedBy?: { logId: string; no: number };
}

export interface ChangedLog {
  /** From what it was changed. */
  seen: SeenLog;
  /** Names what the row says now, as long as it does. */
  hold: Tenure;
  server: LogServer;
}

/** The row; begins an empty log where there is none. Throws `NoSecondCopy`. */
export async function seenLog(log: SharedLog): Promise<SeenLog> {
  const opened = copied(await log.open());
  if (opened.state) return { ...opened, state: opened.state, phase: phaseOf(opened.state.state) };
  await log.initialise(randomUUID());
  return seenLog(log);
}

/** The row. Throws `LogRefused` where there is no log, and `NoSecondCopy`. */
export async function begunLog(log: SharedLog): Promise<SeenLog> {
  const opened = copied(await log.open());
  if (opened.state) return { ...opened, state: opened.state, phase: phaseOf(opened.state.state) };
  throw new LogRefused(`${log.place} holds no log: see that --log names the right database`);
}

/**
 * Changes the row from what `decide` was shown last; what it throws ends the attempt. When it resolves, every copy has the
 * change and all that was stored before. Throws `LogUnreachable`, `NotWritten` and `OutcomeUnknown` too: then the row may
 * have been changed, and the next command finds out.
 */
export async function changeRow(
  log: SharedLog,
  decide: (seen: SeenLog) => WantedChange | Promise<WantedChange>,
): Promise<ChangedLog> {
  for (let tries = 0; tries < TRIES; tries++) {
    const seen = await seenLog(log);
    const { state, tenure = randomUUID(), replacedBy } = await decide(seen);
    if (!(await log.change(seen.state, { state, tenure, replacedBy }))) continue;
    const { term, logId } = seen.state;
    return { seen, server: seen.server, hold: { logId: replacedBy?.logId ?? logId, term: term + 1, tenure } };
  }
  throw new NotWritten('its row was changed by others each time');
}
