/**
 * Stands in for the program of an agent with a hook that waits for doorbells. It keeps what it was really shown, so
 * that what a daemon says of wakes can be compared with it.
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { CallFailed } from '../../../src/host/api/client.ts';
import type { PostHost } from './post-host.ts';

/**
 * `shows`: the agent is shown the line, and the program's hook reports that. `takes`: the program takes the line and
 * ends before it shows it. `refuses`: it says that it cannot show it. `other`: it shows another line. `away`: no
 * session.
 */
export const MANNERS = ['shows', 'shows', 'shows', 'takes', 'refuses', 'other', 'away'] as const;
export type Manner = (typeof MANNERS)[number];

const WAIT_MS = 20_000;
const SILENCE_MS = 40_000;
const AGAIN_MS = 50;
const OTHER_LINE = 'You have 999 unread messages in Poste. Read them with mail_inbox.';

export interface StandInParts {
  host: PostHost;
  agent: string;
  manner: Manner;
  /** Called before the daemon is told; what it answers is called afterwards. */
  onShown: () => () => void;
  signal: AbortSignal;
}

/** Until the signal is aborted, through every restart of the daemon. */
export async function standIn(parts: StandInParts): Promise<void> {
  const { signal, manner } = parts;
  if (manner === 'away') return;
  while (!signal.aborted) {
    try {
      await session(parts);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof CallFailed)) throw error;
    }
    // The daemon is away, or its session ended.
    await elapsed(AGAIN_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function session(parts: StandInParts): Promise<void> {
  const { host, agent, signal } = parts;
  const { client } = host.daemon;
  const options = { as: agent, signal };
  const id = { session_id: `s-${agent}` };
  const registered = { ...id, wake: [{ type: 'hook' as const }], reports_prompts: true };
  await client.call('session-register', { ...registered, begins: true }, options);
  while (!signal.aborted) {
    const waited = await client.call(
      'session-wait',
      { ...id, wait_ms: WAIT_MS },
      { ...options, silenceMs: SILENCE_MS },
    );
    if (waited.event === 'released') return;
    const { ring, text } = waited;
    if (waited.event !== 'doorbell' || ring === null || text === null) continue;
    const failed = parts.manner === 'refuses';
    const { counted } = await client.call('session-heard', { ...id, ring, ...(failed && { failed }) }, options);
    if (!counted || failed || parts.manner === 'takes') continue;
    const isOther = parts.manner === 'other';
    const told = isOther ? undefined : parts.onShown();
    const lines = [isOther ? OTHER_LINE : text];
    try {
      await client.call('session-register', { ...registered, doing: 'work', lines, tell: !isOther }, options);
    } finally {
      told?.();
    }
    await client.call('session-register', { ...registered, doing: 'idle' }, options);
  }
}
