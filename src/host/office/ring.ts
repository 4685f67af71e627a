/** How sending asks for a doorbell: whoever knows the sessions' wake methods rings, and says whether it was heard. */
import type { AgentId } from '../core/rows.ts';

export interface WakeOutcome {
  /** True only on proof: the recipient was woken now. */
  isWoken: boolean;
  /** By what, or why not. One sentence. */
  detail: string;
}

/** Called after the commit, for a recipient whose new message wakes. Bounded in time, and does not throw. */
export type Ring = (agentId: AgentId) => Promise<WakeOutcome>;
