/** A node of a shared log: it opens its view and follows, until it leads (take-lead.ts). */
import { randomUUID } from 'node:crypto';
import { rowKey } from '../core/rows.ts';
import { refuseForeignKey } from '../store/open.ts';
import { settlePosition } from '../store/position.ts';
import { LogWentBack, ViewTooOld, catchUp } from './follow.ts';
import { LeaseWatch } from './leadership.ts';
import type { NodeOptions } from './node-options.ts';
import { type View, closeView, hasDatabase, nodeName, openView, putAside } from './open-view.ts';
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
import { clocked, obstacle } from './takeover-rules.ts';
import {
  type SeenBatch,
  WitnessKeeper,
  doubtLacking,
  forgetWitness,
  heldBy,
  readWitness,
  refuseOlder,
} from './witness.ts';

/** A node that follows looks so often for new batches and for signs of life. */
export const LOOK_EVERY_MS = 100;

/** After one of these the node opens its view again, and follows. */
const GOES_ON_AFTER = [LogWentBack, ViewTooOld, Fenced, OutcomeUnknown];

/**
 * Follows the log until this node leads it; `undefined` when `signal` aborts before, and then the log is closed. Waits
 * for a server that cannot be reached. Throws `LogRefused` (`ViewDiverged` is one) and `StoreRefused`.
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
  try {
    for (;;) {
      const view = await node.openView();
      try {
        return await node.followUntilLead(view);
      } catch (error) {
        await node.leaveView();
        await (error instanceof NodeStopped ? closeView(view) : view.store.close());
        if (!node.opensAnew(error)) throw error;
      }
    }
  } catch (error) {
    if (error instanceof NodeStopped) return undefined;
    throw error;
  }
}

class Node {
  readonly options: NodeOptions;
  readonly settings: Buffer;
  readonly reach: LogReach;
  name = '';
  #said: string | undefined;
  /** The tenure of this run. */
  #tenure: string | undefined;
  /** The server where the log was seen last. */
  #server: LogServer | undefined;
  #witness: WitnessKeeper | undefined;

  constructor(options: NodeOptions) {
    this.options = options;
    this.settings = Buffer.from(options.settings ? JSON.stringify(options.settings) : '');
    this.reach = new LogReach(options);
  }

  async openView(): Promise<View> {
    // Names that are missing after a promotion may come: nothing is begun before.
    const { state, server } = await this.reach.reached(async () => copied(await this.#openedLog()));
    this.reach.noteCopies(undefined);
    const witness = await readWitness(this.options);
    const noted = witness?.logId === state.logId ? witness : undefined;
    this.#server = noted?.server;
    if (noted) refuseOlder(server, noted.server);
    const view = await this.#viewOf(state);
    try {
      return await this.#comparedView(view, state, noted);
    } catch (error) {
      await view.store.close();
      throw error;
    }
  }

  /** The view, or another in its place where the log does not hold what this one does. */
  async #comparedView(view: View, state: LogState, noted: SeenBatch | undefined): Promise<View> {
    const { folder, log, clock } = this.options;
    const held = heldBy(view);
    const seen = noted ? [held, noted] : [held];
    const lacking = await this.reach.reached(() => doubtLacking(log, state.logId, seen));
    const [most] = lacking;
    if (!most) return view;
    const notices = [...view.notices, `The log lacks batch ${most.no}, as this node had seen it.`];
    // A view that was put back with the log goes on: only what was noted outside it shows that both had more.
    const goesOn = !lacking.includes(held);
    if (!goesOn) {
      await view.store.close();
      notices.push(`The view was put aside as ${await putAside(folder, clock.nowMs())}.`);
    }
    // Each start compares both with the log, and tells it of what it lacks once.
    await forgetWitness(this.options);
    if (goesOn) return { ...view, survived: false, notices };
    const next = await this.#viewOf(state);
    return { ...next, notices: [...notices, ...next.notices] };
  }

  /** True when the node goes on after this error, with a view that is opened anew. */
  opensAnew(error: unknown): boolean {
    const { signal, logger } = this.options;
    if (signal.aborted) return true;
    const isOver = GOES_ON_AFTER.some((kind) => error instanceof kind);
    if (isOver) logger.error({ err: error }, 'this node opens its view again, and follows');
    return isOver;
  }

  /** To be called before the view is closed. */
  async leaveView(): Promise<void> {
    await this.stopWitness();
    await this.options.onViewLeft?.();
  }

  async stopWitness(): Promise<void> {
    await this.#witness?.stop();
    this.#witness = undefined;
  }

  hasTaken({ tenure }: Tenure): void {
    this.#tenure = tenure;
  }

  async followUntilLead(view: View): Promise<LeadingNode> {
    const { log, signer, leaseMs, clock, signal, logger } = this.options;
    const hasLed = (tenure: string): boolean => tenure === this.#tenure || tenure === view.found?.tenure;
    const presence = new Presence({ ...this.options, logId: view.log.logId, name: this.name });
    const watch = new LeaseWatch({ leaseMs, monotonicMs: clock.monotonicMs, holder: this.name, hasLed });
    this.options.onView?.(view, this.name);
    const onError = (error: unknown): void =>
      logger.error({ err: error }, 'how far the view has come could not be noted');
    let isTold = false;
    for (;;) {
      const opened = await this.reach.reached(() => this.#openedLog());
      const { state, server, copyFault } = opened;
      this.reach.noteCopies(copyFault);
      if (state.logId !== view.log.logId)
        throw new LogRefused(
          'another log was put in the place of this one: start the relay again, and it puts its ' +
            'view aside and follows that log',
        );
      if (this.#server) refuseOlder(server, this.#server);
      const parts = { log, store: view.store, view: view.log };
      await this.reach.reached(() => catchUp(parts, undefined, signal));
      // One that was told to stop in the middle has not caught up.
      if (signal.aborted) throw new NodeStopped();
      // Before this node leads: a relay of another key that leads has stopped the one that served.
      const relay = view.store.get('relay', rowKey.relay);
      if (relay) refuseForeignKey(relay, signer, 'log', log.place);
      await this.reach.reached(async () => this.options.onFollowed?.());
      this.#server = server;
      this.#witness ??= new WitnessKeeper({ ...this.options, onError }, view);
      this.#witness.seenOn(server);
      await this.reach.reached(() => presence.note());
      if (watch.isFree(state, opened.nowMs) && copyFault === undefined && this.#mayLead(opened)) {
        const led = await takeLead(this, { view, opened, presence, seenMs: watch.seenMs });
        if (led) return led;
      } else if (!isTold) {
        isTold = true;
        logger.info({ leader: state.holder }, 'this node follows');
      }
      await this.reach.pause(LOOK_EVERY_MS);
    }
  }

  async #viewOf(state: LogState): Promise<View> {
    const { folder } = this.options;
    const view = await openView({ ...this.options, state, asked: (work) => this.reach.reached(work) });
    await settlePosition(folder, this.options);
    this.name = await nodeName(folder);
    return view;
  }

  #mayLead({ state, offMs }: BegunLog): boolean {
    const { acceptsSettings, logger, viewFault } = this.options;
    const own = { holder: this.name, settings: this.settings, acceptsSettings, offMs };
    const why = viewFault?.() ?? obstacle(state, own);
    if (why !== undefined && this.#said !== why) logger.error({}, `this node does not take the lead: ${why}`);
    this.#said = why;
    return why === undefined;
  }

  async #openedLog(): Promise<BegunLog> {
    const { log, folder, clock } = this.options;
    for (let isBegun = false; ; isBegun = true) {
      const { state, ...opened } = await clocked(clock, () => log.open());
      if (state) return served({ ...opened, state });
      if (isBegun) throw new LogRefused('the log could not be begun in this database');
      if (hasDatabase(folder) || (await readWitness(this.options)) !== undefined)
        throw new LogRefused(
          `the database of the log is empty, and ${folder} holds a relay already: see that --log names the ` +
            'right one, or name another folder with --store-dir',
        );
      copied(opened);
      await log.initialise(randomUUID());
    }
  }
}
