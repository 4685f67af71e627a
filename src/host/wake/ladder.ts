/**
 * The wake methods of an agent's live sessions, best first: its own hook, which takes the text as the agent's program
 * wants it; a command; keys typed into a terminal. The first that is proven to have worked ends the climb, and is
 * recorded with its session.
 */
import type { RingOutcome } from '../core/doorbell.ts';
import type { AgentId, SessionRow, WakeMethod, WakeMethodName } from '../core/rows.ts';
import type { Office } from '../office/office.ts';
import { liveSessions } from '../office/sessions.ts';
import type { RungOutcome, Rungs } from './rung.ts';

/** Best first. */
export const LADDER: readonly WakeMethodName[] = ['hook', 'command', 'tmux'];
/** One doorbell tries at most so many rungs that do not work. */
export const RUNGS_TRIED_MAX = 8;

export interface LadderResult {
  outcome: RingOutcome;
  /** What worked. */
  by: { session: SessionRow; method: WakeMethodName } | null;
}

export async function climbLadder(
  office: Office,
  rungs: Rungs,
  agentId: AgentId,
  text: string,
  signal: AbortSignal,
): Promise<LadderResult> {
  const sessions = await office.store.read((reader) => liveSessions(reader, agentId, office.nowMs()));
  let tried = 0;
  for (const { session, method } of rungsOf(sessions)) {
    if (signal.aborted || tried === RUNGS_TRIED_MAX) break;
    const outcome = await tryRung(rungs, session, method, text, signal);
    if (outcome === 'heard') return { outcome, by: { session, method: method.type } };
    if (outcome === 'unheard') tried++;
  }
  return { outcome: tried === 0 ? 'nobody' : 'unheard', by: null };
}

function rungsOf(sessions: readonly SessionRow[]): { session: SessionRow; method: WakeMethod }[] {
  return LADDER.flatMap((name) =>
    sessions.flatMap((session) =>
      session.wake.filter(({ type }) => type === name).map((method) => ({ session, method })),
    ),
  );
}

function tryRung(
  rungs: Rungs,
  session: SessionRow,
  method: WakeMethod,
  text: string,
  signal: AbortSignal,
): Promise<RungOutcome> {
  switch (method.type) {
    case 'hook':
      return rungs.hook(session, method, text, signal);
    case 'command':
      return rungs.command(session, method, text, signal);
    case 'tmux':
      return rungs.tmux(session, method, text, signal);
  }
}
