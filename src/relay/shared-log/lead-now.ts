/**
 * Leads a shared log at once, for an operator's command: the node that leads now is stopped, and does not take the lead back
 * before a lease is over.
 */
import { clockFault, clocked, epochFault } from './takeover-rules.ts';
import { joinLog } from './node.ts';
import type { NodeLogger, NodeOptions } from './node-options.ts';
import { nodeName } from './open-view.ts';
import { LogRefused, type SharedLog, served } from './shared-log.ts';
import { seenLog } from './row-change.ts';
import type { LeadingNode } from './take-lead.ts';

/** What a command that moves a log is given. */
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

/** By which the lead is renewed often enough for any lease that other nodes may have. */
const LEASE_MS = 1_000;

/**
 * The view of `folder` is whole then: it has caught up with the log, and nobody else appends. The node that leads is stopped
 * only when the view has caught up with what was acknowledged, and is of the relay of this key. Throws `LogRefused`,
 * `StoreRefused`, and why the signal aborted. The caller closes what it gets.
 */
export async function leadNow(options: MoveOptions): Promise<LeadingNode> {
  const { log, clock, signal } = options;
  for (;;) {
    const { state, offMs } = served(await clocked(clock, () => seenLog(log)));
    const ofClock = clockFault(offMs);
    if (ofClock !== undefined) throw new LogRefused(`this machine cannot lead: ${ofClock}; set it first`);
    const { settings } = state;
    let isFollowing!: () => void;
    const following = new Promise<void>((resolve) => (isFollowing = resolve));
    const stopped = new AbortController();
    const joining = joinLog({
      ...options,
      log: await options.newLog(),
      leaseMs: LEASE_MS,
      acceptsSettings: true,
      settings: settings.length === 0 ? undefined : (JSON.parse(settings.toString()) as object),
      signal: AbortSignal.any([signal, stopped.signal]),
      onFollowed: isFollowing,
      onLost: () => undefined,
      onDoubt: () => undefined,
      onStalled: () => undefined,
      onHandOver: () => undefined,
    });
    try {
      await Promise.race([following, joining]);
      signal.throwIfAborted();
      await stopOther(options);
    } catch (error) {
      stopped.abort();
      const led = await joining.catch(() => undefined);
      await led?.close();
      throw error;
    }
    const led = await joining;
    if (led) return led;
    signal.throwIfAborted();
  }
}

/** Takes the lead from another node that has it: this node leads then when nobody has shown life for a lease. */
async function stopOther({ log, folder, durability }: MoveOptions): Promise<void> {
  const holder = await nodeName(folder);
  for (;;) {
    const { state, server, nowMs } = served(await seenLog(log));
    if (state.isFree || state.holder === holder) return;
    // What this node could prove is not asked: it did not lead last.
    const fault = epochFault(state, server, durability, { ledLast: undefined, isWhole: false }, nowMs);
    const taken = await log.lead(state, { holder, settings: state.settings, doubt: fault?.sentence });
    if (taken !== 'held') return;
  }
}
