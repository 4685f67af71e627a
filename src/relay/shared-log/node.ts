/** A node of a shared log: it opens its view and follows, until it leads (take-lead.ts). */
import { randomUUID } from 'node:crypto';
import { rowKey } from '../core/rows.ts';
import { refuseForeignKey } from '../store/open.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { progressOf } from './fill-view.ts';
import { LogWentBack, ViewTooOld, catchUp } from './follow.ts';
import { LeaseWatch } from './leadership.ts';
import type { NodeOptions } from './node-options.ts';
import { type View, closeView, hasDatabase, nodeName, openView, putAside, thisBoot } from './open-view.ts';
import { Presence } from './presence.ts';
import { LogReach, NodeStopped } from './reach.ts';
import {
  Fenced,
  LogRefused,
  type LogServer,
  type LogState,
  OutcomeUnknown,
  type Tenure,
  copied,
  served,
} from './shared-log.ts';
import { type BegunLog, type LeadingNode, takeLead } from './take-lead.ts';
import { isSameServer, obstacle } from './takeover-rules.ts';
import { type SeenBatch, forgetWitness, isHeld, readWitness, refuseOlder, writeWitness } from './witness.ts';

/** How often a node that follows looks for new batches and for signs of life. */
export const LOOK_EVERY_MS = 100;

/**
 * Follows the log until this node leads it; `undefined` when `signal` aborts before, and then the log is closed. Waits for
 * a server that cannot be reached. Throws `LogRefused` (`ViewDiverged` is one) and `StoreRefused`.
 */
export async function joinLog(options: NodeOptions): Promise<LeadingNode | undefined> {
  const { log, signal } = options;
  // A statement may wait in the server for a standby: nothing else ends it.
  const close = (): void => void log.close();
  signal.addEventListener('abort', close);
  let led: LeadingNode | undefined;
  try {
    led = await joined(new Node(options));
    return led;
  } finally {
    signal.removeEventListener('abort', close);
    if (!led) await log.close();
  }
}

async function joined(node: Node): Promise<LeadingNode | undefined> {
  for (;;) {
    const view = await node.openView().catch((error: unknown) => {
      if (error instanceof NodeStopped) return undefined;
      throw error;
    });
    if (!view) return undefined;
    try {
      const led = await node.followUntilLead(view);
      if (!led) {
        await node.leaveView();
        await closeView(view);
      }
      return led;
    } catch (error) {
      await node.leaveView();
      await view.store.close();
      if (!node.opensAnew(error)) throw error;
    }
  }
}

class Node {
  readonly #options: NodeOptions;
  readonly #settings: Buffer;
  readonly #reach: LogReach;
  #said: string | undefined;
  #name = '';
  /** Of this run. */
  #tenure: string | undefined;
  /** Where the log was seen last. */
  #server: LogServer | undefined;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.#settings = Buffer.from(options.settings ? JSON.stringify(options.settings) : '');
    this.#reach = new LogReach(options);
  }

  async openView(): Promise<View | undefined> {
    const { folder, log, clock } = this.#options;
    // Names that are missing after a promotion may come: nothing is begun before.
    const opened = await this.#reach.reached(async () => copied(await this.#openedLog()));
    if (!opened) return undefined;
    this.#reach.noteCopies(undefined);
    const { state, server } = opened;
    const witness = await readWitness(folder);
    const seen = witness?.logId === state.logId ? witness : undefined;
    this.#server = seen?.server;
    if (seen) refuseOlder(server, seen.server);
    const view = await this.#viewOf(state);
    const lacking = await this.#lacking(view, state, [view.log.mark, ...(seen ? [seen] : [])]);
    if (lacking === undefined) return view;
    const why = `a node had seen batch ${lacking}, which the log lacks`;
    const isTold = await this.#reach.reached(() => log.doubt(state.logId, why).then(() => true));
    if (!isTold) return undefined;
    const notices = [`The log lacks batch ${lacking}, as this node had seen it.`];
    if (view.log.no > 0) notices.push(`The view was put aside as ${await putAside(folder, clock.nowMs())}.`);
    // Each start compares both with the log: one that was left would begin another epoch.
    await forgetWitness(folder);
    const fresh = await this.#viewOf(state);
    return { ...fresh, notices: [...view.notices, ...notices, ...fresh.notices] };
  }

  /** Whether to go on with a view that is opened anew after this error. */
  opensAnew(error: unknown): boolean {
    const { signal, logger } = this.#options;
    if (signal.aborted) return true;
    const isOver =
      error instanceof LogWentBack ||
      error instanceof ViewTooOld ||
      error instanceof Fenced ||
      error instanceof OutcomeUnknown;
    if (isOver) logger.error({ err: error }, 'this node opens its view again, and follows');
    return isOver;
  }

  /** To be called before the view is closed. */
  async leaveView(): Promise<void> {
    await this.#options.onViewLeft?.();
  }

  async followUntilLead(view: View): Promise<LeadingNode | undefined> {
    const { log, signer, leaseMs, clock, signal, logger } = this.#options;
    const hasLed = (tenure: string): boolean => tenure === this.#tenure || tenure === view.found?.tenure;
    const presence = new Presence({ ...this.#options, logId: view.log.logId, name: this.#name });
    const watch = new LeaseWatch({ leaseMs, monotonicMs: () => clock.monotonicMs(), holder: this.#name, hasLed });
    this.#options.onView?.(view, this.#name);
    let isTold = false;
    for (;;) {
      const opened = await this.#reach.reached(() => this.#openedLog());
      if (!opened) return undefined;
      const { state, server, copyFault } = opened;
      this.#reach.noteCopies(copyFault);
      if (state.logId !== view.log.logId)
        throw new LogRefused(
          'another log was put in the place of this one: start the relay again, and it puts its view aside and follows that log',
        );
      if (this.#server) refuseOlder(server, this.#server);
      const parts = { log, store: view.store, view: view.log };
      const applied = await this.#reach.reached(() => catchUp(parts, undefined, signal));
      // One that was told to stop in the middle has not caught up.
      if (applied === undefined || signal.aborted) return undefined;
      // Before this node leads: a relay of another key that leads has stopped the one that served.
      const relay = view.store.get('relay', rowKey.relay);
      if (relay) refuseForeignKey(relay, signer, 'log', log.place);
      this.#options.onFollowed?.();
      await this.#noteServer(server, view.log.mark);
      await this.#reach.reached(() => presence.note());
      if (watch.isFree(state) && copyFault === undefined && this.#mayLead(opened)) {
        const led = await this.#takeLead(view, opened, presence);
        if (led) return led;
      } else if (!isTold) {
        isTold = true;
        logger.info({ leader: state.holder }, 'this node follows');
      }
      await this.#reach.pause(LOOK_EVERY_MS);
    }
  }

  /** Notes where the log was seen, so that an older server is known for what it is. */
  async #noteServer(server: LogServer, mark: ViewMark): Promise<void> {
    if (mark.no === 0 || (this.#server && isSameServer(server, this.#server))) return;
    await writeWitness(this.#options.folder, mark, server);
    this.#server = server;
  }

  async #viewOf(state: LogState): Promise<View> {
    const { folder, log, clock, timers, logger, onStalled, onDoubt } = this.#options;
    const pause = (ms: number): Promise<void> => new Promise((resolve) => timers.after(ms, resolve));
    const bootId = await thisBoot();
    const filling = {
      asked: <T>(work: () => Promise<T>): Promise<T> => this.#reach.asked(work),
      onProgress: progressOf(logger),
    };
    const given = { folder, log, state, nowMs: clock.nowMs(), bootId };
    const view = await openView({ ...given, filling, pause, onStalled, onDoubt });
    this.#name = await nodeName(folder);
    return view;
  }

  /** The number of a batch that was seen and that the log does not hold; closes the view unless there is none. */
  async #lacking({ store }: View, state: LogState, seen: readonly SeenBatch[]): Promise<number | undefined> {
    const { log } = this.#options;
    let isRight = false;
    try {
      for (const batch of seen)
        if ((await this.#reach.reached(() => isHeld(log, state.logId, batch))) === false) return batch.no;
      isRight = true;
      return undefined;
    } finally {
      if (!isRight) await store.close();
    }
  }

  #takeLead(view: View, opened: BegunLog, presence: Presence): Promise<LeadingNode | undefined> {
    const onTaken = ({ tenure }: Tenure): void => void (this.#tenure = tenure);
    const parts = {
      options: this.#options,
      name: this.#name,
      settings: this.#settings,
      reach: this.#reach,
      presence,
      onTaken,
    };
    return takeLead(parts, view, opened);
  }

  #mayLead({ state, nowMs }: BegunLog): boolean {
    const { clock, acceptsSettings, logger, viewFault } = this.#options;
    const own = { holder: this.#name, settings: this.#settings, acceptsSettings, offMs: clock.nowMs() - nowMs };
    const why = viewFault?.() ?? obstacle(state, own);
    if (why !== undefined && this.#said !== why) logger.error({}, `this node does not take the lead: ${why}`);
    this.#said = why;
    return why === undefined;
  }

  async #openedLog(): Promise<BegunLog> {
    const { log, folder } = this.#options;
    const opened = await log.open();
    if (opened.state) return served({ ...opened, state: opened.state });
    if (hasDatabase(folder) || (await readWitness(folder)) !== undefined)
      throw new LogRefused(
        `the database of the log is empty, and ${folder} holds a relay already: see that --log names the right one, or name another folder with --store-dir`,
      );
    copied(opened);
    await log.initialise(randomUUID());
    const begun = await log.open();
    if (!begun.state) throw new LogRefused('the log could not be begun in this database');
    return served({ ...begun, state: begun.state });
  }
}
