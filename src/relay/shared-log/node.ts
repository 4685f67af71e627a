/** A node of a shared log: it opens its view and follows, until it leads (take-lead.ts). */
import { randomUUID } from 'node:crypto';
import { rowKey } from '../core/rows.ts';
import { refuseForeignKey } from '../store/open.ts';
import { settlePosition } from '../store/position-place.ts';
import { epochsOf, lackingDoubt } from './doubt.ts';
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
import { clocked, obstacle } from './takeover-rules.ts';
import { type SeenBatch, WitnessKeeper, forgetWitness, isHeld, readWitness, refuseOlder } from './witness.ts';

/** How often a node that follows looks for new batches and for signs of life. */
export const LOOK_EVERY_MS = 100;

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
  #witness: WitnessKeeper | undefined;

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
    const witness = await readWitness(this.#options);
    const noted = witness?.logId === state.logId ? witness : undefined;
    this.#server = noted?.server;
    if (noted) refuseOlder(server, noted.server);
    const view = await this.#viewOf(state);
    const held: SeenBatch = { ...view.log.mark, epochs: epochsOf(view.store.tree) };
    const lacking = await this.#lacking(view, state, noted ? [held, noted] : [held]);
    const [most] = lacking.toSorted((one, other) => other.no - one.no);
    if (!most) return view;
    // A view that was put back with the log goes on: only what was noted outside it shows that both had more.
    const goesOn = !lacking.includes(held);
    if (!goesOn) await view.store.close();
    const isTold = await this.#reach.reached(() => log.doubt(state.logId, lackingDoubt(most)).then(() => true));
    if (!isTold) {
      if (goesOn) await view.store.close();
      return undefined;
    }
    const notices = [`The log lacks batch ${most.no}, as this node had seen it.`];
    if (!goesOn) notices.push(`The view was put aside as ${await putAside(folder, clock.nowMs())}.`);
    // Each start compares both with the log, and tells it of what it lacks once.
    await forgetWitness(this.#options);
    const next = goesOn ? { ...view, survived: false, notices: [] } : await this.#viewOf(state);
    return { ...next, notices: [...view.notices, ...notices, ...next.notices] };
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
    await this.#stopWitness();
    await this.#options.onViewLeft?.();
  }

  async #stopWitness(): Promise<void> {
    await this.#witness?.stop();
    this.#witness = undefined;
  }

  async followUntilLead(view: View): Promise<LeadingNode | undefined> {
    const { log, signer, leaseMs, clock, signal, logger } = this.#options;
    const hasLed = (tenure: string): boolean => tenure === this.#tenure || tenure === view.found?.tenure;
    const presence = new Presence({ ...this.#options, logId: view.log.logId, name: this.#name });
    const watch = new LeaseWatch({ leaseMs, monotonicMs: () => clock.monotonicMs(), holder: this.#name, hasLed });
    this.#options.onView?.(view, this.#name);
    const onError = (error: unknown): void =>
      logger.error({ err: error }, 'how far the view has come could not be noted');
    const keeping = { ...this.#options, onError };
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
      this.#server = server;
      this.#witness ??= new WitnessKeeper(keeping, view);
      this.#witness.seenOn(server);
      await this.#reach.reached(() => presence.note());
      if (watch.isFree(state, opened.nowMs) && copyFault === undefined && this.#mayLead(opened)) {
        const led = await this.#takeLead(view, opened, presence, watch.seenMs);
        if (led) return led;
      } else if (!isTold) {
        isTold = true;
        logger.info({ leader: state.holder }, 'this node follows');
      }
      await this.#reach.pause(LOOK_EVERY_MS);
    }
  }

  async #viewOf(state: LogState): Promise<View> {
    const { log, clock, timers, logger, onStalled, onUnreached, onDoubt } = this.#options;
    const pause = (ms: number): Promise<void> => new Promise((resolve) => timers.after(ms, resolve));
    const bootId = await thisBoot();
    const filling = {
      asked: <T>(work: () => Promise<T>): Promise<T> => this.#reach.asked(work),
      onProgress: progressOf(logger),
    };
    const { folder, positionFile } = this.#options;
    const given = { folder, positionFile, log, state, nowMs: clock.nowMs(), bootId };
    const view = await openView({ ...given, filling, pause, onStalled, onUnreached, onDoubt });
    await settlePosition(folder, this.#options);
    this.#name = await nodeName(folder);
    return view;
  }

  /** Those of the batches that were seen and that the log does not hold. Closes the view when it fails. */
  async #lacking({ store }: View, state: LogState, seen: readonly SeenBatch[]): Promise<SeenBatch[]> {
    const { log } = this.#options;
    const lacking: SeenBatch[] = [];
    try {
      for (const batch of seen)
        if ((await this.#reach.reached(() => isHeld(log, state.logId, batch))) === false) lacking.push(batch);
      return lacking;
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  #takeLead(view: View, opened: BegunLog, presence: Presence, seenMs: number): Promise<LeadingNode | undefined> {
    const onTaken = ({ tenure }: Tenure): void => void (this.#tenure = tenure);
    const parts = {
      options: this.#options,
      name: this.#name,
      settings: this.#settings,
      reach: this.#reach,
      presence,
      onTaken,
      seenMs,
      stopWitness: () => this.#stopWitness(),
    };
    return takeLead(parts, view, opened);
  }

  #mayLead({ state, offMs }: BegunLog): boolean {
    const { acceptsSettings, logger, viewFault } = this.#options;
    const own = { holder: this.#name, settings: this.#settings, acceptsSettings, offMs };
    const why = viewFault?.() ?? obstacle(state, own);
    if (why !== undefined && this.#said !== why) logger.error({}, `this node does not take the lead: ${why}`);
    this.#said = why;
    return why === undefined;
  }

  async #openedLog(): Promise<BegunLog> {
    const { log, folder, clock } = this.#options;
    const opened = await clocked(clock, () => log.open());
    if (opened.state) return served({ ...opened, state: opened.state });
    if (hasDatabase(folder) || (await readWitness(this.#options)) !== undefined)
      throw new LogRefused(
        `the database of the log is empty, and ${folder} holds a relay already: see that --log names the right one, or name another folder with --store-dir`,
      );
    copied(opened);
    await log.initialise(randomUUID());
    const begun = await clocked(clock, () => log.open());
    if (!begun.state) throw new LogRefused('the log could not be begun in this database');
    return served({ ...begun, state: begun.state });
  }
}
