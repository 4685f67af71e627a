/**
 * Moves a shared log into the store of this node, which then holds the log itself.
 *
 *   1. this node leads: it stops whoever leads, and its view catches up with all of the log
 *   2. the row says that the log went to this node: from here on it serves nowhere else, and never here again
 *   3. the view becomes a store with a log of its own: from here on it serves
 *
 * Before step 2 nothing has changed but who leads. After it the command goes on with step 3 when it is given again; or the
 * log is published again, which takes step 2 back as long as step 3 was not taken.
 */
import { join } from 'node:path';
import { POSITION_FILE, makeFolder } from '../store/open.ts';
import { becomeOwnLog } from '../store/own-log.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { type MoveOptions, leadNow } from './lead-now.ts';
import { phaseText, whyNotServed } from './log-phase.ts';
import { hasDatabase, nodeName } from './open-view.ts';
import { type SeenLog, begunLog, changeRow } from './row-change.ts';
import { Fenced, LogRefused } from './shared-log.ts';
import { inStoppedStore } from './stopped-store.ts';
import { forgetWitness } from './witness.ts';

export interface WithdrawReport {
  logId: string;
  /** Whether an earlier command had done all of it. */
  isDone: boolean;
  notices: string[];
}

/** Throws as `publishStore` does. */
export async function withdrawLog(options: MoveOptions): Promise<WithdrawReport> {
  const { log, folder } = options;
  const seen = await begunLog(log);
  await makeFolder(folder);
  const node = await nodeName(folder);
  const { state, phase } = seen;
  const { logId } = state;
  const hasStore = hasDatabase(folder);
  const mark = hasStore ? await inStoppedStore(options, async (_level, found) => found) : undefined;
  if (phase.type === 'moved' && phase.node === node) {
    if (hasStore && !mark) return { logId, isDone: true, notices: [] };
    // On every copy, whatever was seen of it: the store serves only after that.
    await changeRow(log, (now) => asMoved(seen, now, node));
    await becomeOwn(options, await begunLog(log));
    return { logId, isDone: false, notices: [] };
  }
  const why = whyNotServed(phase);
  if (why !== undefined) throw new LogRefused(why);
  if (hasStore && !mark)
    throw new LogRefused(
      `the store at ${folder} is a relay with a log of its own: name the folder of a relay of this log, or an empty one, with --store-dir`,
    );
  // It would be put aside, and another log than the one that was there would be in the folder afterwards.
  if (mark && mark.logId !== logId)
    throw new LogRefused(
      `the store at ${folder} is a view of the log ${mark.logId}, and ${log.place} holds ${logId}: see that --log names the right database, or name an empty folder with --store-dir`,
    );
  const notices = await moveHere(options, node, state.isFree ? undefined : state.holder);
  await becomeOwn(options, await begunLog(log));
  return { logId, isDone: false, notices };
}

/** Steps 1 and 2. */
async function moveHere(options: MoveOptions, node: string, leader: string | undefined): Promise<string[]> {
  const { log, confirm, step } = options;
  const leads = leader === undefined || leader === node ? '' : ` (${leader} leads now)`;
  await confirm(`every other relay of the log at ${log.place} stops for good${leads}`);
  await step('this node takes the lead');
  const led = await leadNow(options);
  try {
    const { tenure } = led.leadership.tenure;
    await step('the log is moved to this node');
    await changeRow(log, ({ state, phase }) => {
      if (state.tenure !== tenure || phase.type !== 'serving') throw new Fenced();
      return { state: phaseText({ type: 'moved', node }) };
    });
    return led.notices;
  } finally {
    await led.close();
  }
}

function asMoved(before: SeenLog, { state }: SeenLog, node: string): { state: string } {
  if (state.logId !== before.state.logId || state.state !== before.state.state) throw new Fenced();
  return { state: phaseText({ type: 'moved', node }) };
}

/** Step 3. */
async function becomeOwn(options: MoveOptions, { state }: SeenLog): Promise<void> {
  const { folder, positionFile, clock, step } = options;
  await step('the view becomes a store of its own');
  await inStoppedStore(options, async (level, mark) => {
    if (!isWhole(mark, state))
      throw new LogRefused(
        `the store at ${folder} does not hold all of the log ${state.logId}, which went to it: move the log back with poste relay log publish, and begin again`,
      );
    await becomeOwnLog(level, positionFile ?? join(folder, POSITION_FILE), clock.nowMs());
  });
  await forgetWitness(options);
}

function isWhole(mark: ViewMark | undefined, { logId, lastNo, lastLsn }: SeenLog['state']): boolean {
  return mark?.logId === logId && mark.no === lastNo && mark.lastLsn === lastLsn;
}
