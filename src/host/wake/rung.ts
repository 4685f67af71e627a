/** One way to wake a session, as the ladder climbs it. */
import type { SessionRow, WakeMethod, WakeMethodName } from '../core/rows.ts';

/** `heard` only on proof; `unheard` when it was tried without; `unavailable` when there was nothing to try. */
export type RungOutcome = 'heard' | 'unheard' | 'unavailable';

export type Rung<N extends WakeMethodName = WakeMethodName> = (
  session: SessionRow,
  method: Extract<WakeMethod, { type: N }>,
  text: string,
  signal: AbortSignal,
) => Promise<RungOutcome>;

export type Rungs = { readonly [N in WakeMethodName]: Rung<N> };
