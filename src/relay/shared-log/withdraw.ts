/**
 * Moves a shared log into the store of this node, which then holds the log itself.
 *
 *   1. this node leads: its view catches up with the log, and the node that leads hands the lead over
 *   2. the row says that the log went to this node: from here on it serves nowhere else, and never here again
 *   3. the view becomes a store with a log of its own: from here on it serves
 *
 * Before step 2 nothing has changed but who leads. After it the command goes on with step 3 when it is given again; or
 * the log is published again, which takes step 2 back as long as step 3 was not taken.
 */
import { makeFolder } from '../store/refused.ts';
import { phaseText, whyNotServed } from './log-phase.ts';
import { type MoveOptions, becomeOwnLog, changeRow, inStoppedStore, seenLog } from './move-log.ts';
import { joinLog } from './node.ts';
import { hasDatabase, nodeName } from './open-view.ts';
import { Fenced, LogRefused, type LogState, served } from './shared-log.ts';
import type { LeadingNode } from './take-lead.ts';
import { clockFault, clocked } from './takeover-rules.ts';
import { forgetWitness } from './witness.ts';

export interface WithdrawReport {
  logId: string;
  /** True when an earlier command had done all of it. */
  isDone: boolean;
  notices: string[];
}

/** By which the lead is renewed often enough for any lease that other nodes may have. */
const LEASE_MS = 1_000;

/** Throws as `publishStore` does, and what `confirm` throws. */
export async function withdrawLog(options: MoveOptions): Promise<WithdrawReport> {
  const { log, folder } = options;
  const { state, phase } = await seenLog(log);
  const { logId } = state;
  await makeFolder(folder);
  const node = await nodeName(folder);
  const hasStore = hasDatabase(folder);
  const mark = hasStore ? await inStoppedStore(options, async (_level, found) => found) : undefined;
  const isHere = phase.type === 'moved' && phase.node === node;
  if (isHere && hasStore && !mark) return { logId, isDone: true, notices: [] };
  const why = isHere ? undefined : whyNotServed(phase);
  if (why !== undefined) throw new LogRefused(why);
  if (hasStore && !mark)
    throw new LogRefused(`the store at ${folder} has a log of its own: name an empty folder with --store-dir`);
  // It would be put aside, and another log than the one that was there would be in the folder afterwards.
  if (!isHere && mark && mark.logId !== logId)
    throw new LogRefused(
      `the store at ${folder} is a view of the log ${mark.logId}, and ${log.place} holds ${logId}: name the ` +
        'right database with --log, or an empty folder with --store-dir',
    );
  const led = isHere ? undefined : await askAndLead(options, node, state);
  try {
    await options.step('the log is moved to this node');
    const { tenure } = led?.leadership.tenure ?? state;
    // On every copy, whatever was seen of it: the store serves only after that.
    await changeRow(log, (now) => {
      const isAsBefore = now.state.logId === logId && now.state.tenure === tenure && now.state.state === state.state;
      if (!isAsBefore) throw new Fenced();
      return { state: phaseText({ type: 'moved', node }) };
    });
  } finally {
    await led?.close();
  }
  await becomeOwn(options, node);
  return { logId, isDone: false, notices: led?.notices ?? [] };
}

/** Step 1. */
async function askAndLead(options: MoveOptions, node: string, { isFree, holder }: LogState): Promise<LeadingNode> {
  const leads = isFree || holder === node ? '' : ` (${holder} leads now)`;
  await options.confirm(`every other relay of the log at ${options.log.place} stops for good${leads}`);
  await options.step('this node takes the lead');
  return leadNow(options, node);
}

/** Step 3. */
async function becomeOwn(options: MoveOptions, node: string): Promise<void> {
  const { log, folder, step } = options;
  await step('the view becomes a store of its own');
  await inStoppedStore(options, async (level, mark) => {
    const { state, phase } = await seenLog(log);
    // It was published again meanwhile, and serves.
    if (phase.type !== 'moved' || phase.node !== node) throw new Fenced();
    const isWhole = mark?.logId === state.logId && mark.no === state.lastNo && mark.lastLsn === state.lastLsn;
    if (!isWhole)
      throw new LogRefused(
        `the store at ${folder} lacks a part of the log, which went to it: move the log back with ` +
          'poste relay cluster publish, and begin again',
      );
    await becomeOwnLog(level, options);
  });
  await forgetWitness(options);
}

/**
 * Leads the log. The view of `folder` is whole then: it has caught up with the log, and nobody else appends. The node
 * that leads is asked for the lead only when the view has caught up with what was acknowledged, and is of the relay of
 * this key; one that shows no life for a lease is not waited for. Throws `LogRefused`, `StoreRefused`, and why the
 * signal aborted. The caller closes what it gets.
 */
async function leadNow(options: MoveOptions, node: string): Promise<LeadingNode> {
  const { clock, signal } = options;
  const { state, offMs } = served(await clocked(clock, () => seenLog(options.log)));
  const ofClock = clockFault(offMs);
  if (ofClock !== undefined) throw new LogRefused(`this machine cannot lead: ${ofClock}; set it first`);
  const log = await options.newLog();
  let askedMs = -Infinity;
  // It is asked for again: another node that takes the lead ends every wish for it.
  const askForLead = async (): Promise<void> => {
    const nowMs = clock.monotonicMs();
    if (nowMs - askedMs < LEASE_MS) return;
    await log.want(state.logId, node);
    askedMs = nowMs;
  };
  const led = await joinLog({
    ...options,
    log,
    leaseMs: LEASE_MS,
    acceptsSettings: true,
    settings: state.settings.length === 0 ? undefined : (JSON.parse(state.settings.toString()) as object),
    onFollowed: askForLead,
  });
  if (led) return led;
  signal.throwIfAborted();
  throw new Error('invariant: a node leads, unless its signal aborts');
}
