/**
 * A node of a shared log: it follows until it leads.
 *
 * When it leads, it first catches up with everything that the log holds; then it decides whether the epoch goes on
 * (`epochFault`), and a new epoch is the first thing that it appends.
 */
import { randomUUID } from 'node:crypto';
import type { Cancel, Clock, Timers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import { type QueueRow, rowKey } from '../core/rows.ts';
import { payloadKey } from '../store/keys.ts';
import { SCHEMA_VERSION, appendAtOnce, refuseForeignKey } from '../store/open.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { LogWentBack, catchUp } from './follow.ts';
import { LeaseWatch, Leadership } from './leadership.ts';
import { type View, closeView, hasDatabase, nodeName, openView, putAside, thisBoot } from './open-view.ts';
import type { Durability } from './postgres-log.ts';
import {
  Fenced,
  LogRefused,
  type LogServer,
  type LogState,
  type OpenedLog,
  OutcomeUnknown,
  type SharedLog,
  type Tenure,
  isPassing,
  served,
} from './shared-log.ts';
import { type EpochFault, epochFault, isSameServer, obstacle } from './takeover-rules.ts';
import {
  type SeenBatch,
  forgetWitness,
  isHeld,
  keepWitness,
  readWitness,
  refuseOlder,
  writeWitness,
} from './witness.ts';

/** How often a node that follows looks for new batches and for signs of life. */
const LOOK_EVERY_MS = 100;
/** A batch that a leader appends while it stops gets this long: it may wait for a standby that is away. */
const LAST_BATCH_WITHIN_MS = 5_000;

interface NodeLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface SharedLogOptions {
  log: SharedLog;
  durability: Durability;
  leaseMs: number;
  /** Lead also when the last leader decided by other settings. */
  acceptsSettings: boolean;
}

interface NodeOptions extends SharedLogOptions {
  folder: string;
  signer: Signer;
  /** What this node decides by: limits, admission, authority. */
  settings: object;
  clock: Clock;
  timers: Timers;
  newEpoch: () => Epoch;
  logger: NodeLogger;
  /** Ends the following. */
  signal: AbortSignal;
  /** Called once, when another node took the lead. */
  onLost: (error: Fenced) => void;
  /** Called when the log asks the leader for a new epoch. */
  onDoubt: (why: string) => void;
  onStalled: (why: string | undefined) => void;
  /** Called while the node follows, with how many batches its view is behind the log. */
  onFollowed?: (behind: number) => void;
}

/** A node that leads. */
export interface LeadingNode {
  store: RelayStore;
  leadership: Leadership;
  initialised: boolean;
  notices: string[];
  epochBegun: EpochReason | undefined;
  /** The wire bytes of these rows, as the log has them. Throws `LogUnreachable`. */
  wireBytes(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]>;
  /** Ends a doubt of the log, after a new epoch is durable. */
  settleDoubt(): Promise<void>;
  /** A batch that the log does not take fails from now on. */
  stopRetrying(): void;
  /** Gives the lead back and closes the view. To be called when nothing is appended any more. */
  close(): Promise<void>;
}

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
    const view = await node.openView();
    if (!view) return undefined;
    try {
      const led = await node.followUntilLead(view);
      if (!led) await closeView(view);
      return led;
    } catch (error) {
      await view.store.close();
      if (!node.opensAnew(error)) throw error;
    }
  }
}

class Node {
  readonly #options: NodeOptions;
  readonly #settings: Buffer;
  #isReached = true;
  #said: string | undefined;
  #name = '';
  /** Where the log was seen last. */
  #server: LogServer | undefined;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.#settings = Buffer.from(JSON.stringify(options.settings));
  }

  async openView(): Promise<View | undefined> {
    const { folder, log, clock } = this.#options;
    const opened = await this.#reached(() => this.#openedLog());
    if (!opened) return undefined;
    const { state, server } = opened;
    const witness = await readWitness(folder);
    const seen = witness?.logId === state.logId ? witness : undefined;
    this.#server = seen?.server;
    if (seen) refuseOlder(server, seen.server);
    const view = await this.#viewOf(state);
    const lacking = await this.#lacking(view, state, [view.log.mark, ...(seen ? [seen] : [])]);
    if (lacking === undefined) return view;
    const why = `a node had seen batch ${lacking}, which the log lacks`;
    const isTold = await this.#reached(() => log.doubt(state.logId, why).then(() => true));
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
    const isOver = error instanceof LogWentBack || error instanceof Fenced || error instanceof OutcomeUnknown;
    if (isOver) logger.error({ err: error }, 'this node opens its view again, and follows');
    return isOver;
  }

  async followUntilLead(view: View): Promise<LeadingNode | undefined> {
    const { log, leaseMs, clock, signal, logger } = this.#options;
    const watch = new LeaseWatch({ leaseMs, monotonicMs: () => clock.monotonicMs(), holder: this.#name });
    let isTold = false;
    for (;;) {
      const opened = await this.#reached(() => this.#openedLog());
      if (!opened) return undefined;
      const { state, server } = opened;
      if (state.logId !== view.log.logId) throw new LogRefused('another log was put in the place of this one');
      if (this.#server) refuseOlder(server, this.#server);
      const parts = { log, store: view.store, view: view.log, prunedNo: state.prunedNo };
      if ((await this.#reached(() => catchUp(parts, undefined, signal))) === undefined) return undefined;
      this.#options.onFollowed?.(Math.max(0, state.lastNo - view.log.no));
      await this.#noteServer(server, view.log.mark);
      if (watch.isFree(state) && this.#mayLead(opened)) {
        const led = await this.#lead(view, opened);
        if (led) return led;
      } else if (!isTold) {
        isTold = true;
        logger.info({ leader: state.holder }, 'this node follows');
      }
      await this.#pause(LOOK_EVERY_MS);
    }
  }

  /** Notes where the log was seen, so that an older server is known for what it is. */
  async #noteServer(server: LogServer, mark: ViewMark): Promise<void> {
    if (mark.no === 0 || (this.#server && isSameServer(server, this.#server))) return;
    await writeWitness(this.#options.folder, mark, server);
    this.#server = server;
  }

  async #viewOf(state: LogState): Promise<View> {
    const { folder, log, clock, timers, onStalled, onDoubt } = this.#options;
    const pause = (ms: number): Promise<void> => new Promise((resolve) => timers.after(ms, resolve));
    const bootId = await thisBoot();
    const view = await openView({ folder, log, state, nowMs: clock.nowMs(), bootId, pause, onStalled, onDoubt });
    this.#name = await nodeName(folder);
    return view;
  }

  /** The number of a batch that was seen and that the log does not hold; closes the view unless there is none. */
  async #lacking({ store }: View, state: LogState, seen: readonly SeenBatch[]): Promise<number | undefined> {
    const { log } = this.#options;
    let isRight = false;
    try {
      for (const batch of seen) if ((await this.#reached(() => isHeld(log, state, batch))) === false) return batch.no;
      isRight = true;
      return undefined;
    } finally {
      if (!isRight) await store.close();
    }
  }

  async #lead(view: View, opened: OpenedLog & { state: LogState }): Promise<LeadingNode | undefined> {
    const { folder, log, leaseMs, clock, timers, logger, onLost, onDoubt } = this.#options;
    const { state, server } = opened;
    const takenMs = clock.monotonicMs();
    const taken = await this.#take(view, opened);
    if (!taken) return undefined;
    const { tenure, fault } = taken;
    const { store } = view;
    let isServing = false;
    const given = { log, tenure, leaseMs, clock, timers, takenMs };
    const leadership = new Leadership({
      ...given,
      ackedNo: () => view.log.no,
      onLost: (error) => {
        if (isServing) onLost(error);
      },
      onRenewed: (error) => this.#noteReached(error),
      onDoubt,
    });
    try {
      await catchUp({ log, store, view: view.log, prunedNo: state.prunedNo }, tenure);
      view.log.leads(tenure);
      const begun = await this.#begin(view, fault);
      if (fault) await log.clearDoubt(tenure);
      if (leadership.isLost) throw new Fenced();
      const stopWitness = keepWitness(folder, view.log, server, {
        timers,
        onError: (error) => logger.error({ err: error }, 'how far the view has come could not be noted'),
      });
      let cancelGiveUp: Cancel | undefined;
      isServing = true;
      return {
        store,
        leadership,
        ...begun,
        notices: [...view.notices, ...begun.notices],
        stopRetrying: () => {
          view.log.stop();
          cancelGiveUp = timers.after(LAST_BATCH_WITHIN_MS, () => void log.close());
        },
        wireBytes: (rows) => log.payloads(tenure.logId, rows.map(placeOf)),
        settleDoubt: () => log.clearDoubt(tenure),
        close: async () => {
          cancelGiveUp?.();
          await stopWitness();
          // A node that is not reached leads until its lease is over.
          await leadership.resign().catch((error: unknown) => this.#noteReached(error));
          await closeView(view);
          await log.close();
        },
      };
    } catch (error) {
      await leadership.stop();
      // It still has the lead, and takes it again when the log is reached.
      if (!isPassing(error) || store.isFailed) throw error;
      this.#noteReached(error);
      return undefined;
    }
  }

  /** Takes the lead, and says why a new epoch must begin. */
  async #take(
    { found, survived }: View,
    { state, server }: OpenedLog & { state: LogState },
  ): Promise<{ tenure: Tenure; fault: EpochFault | undefined } | undefined> {
    const { log, durability } = this.#options;
    try {
      const isWhole = survived && found !== undefined && found.no > 0 && (await isHeld(log, state, found));
      const fault = epochFault(state, server, durability, { ledLast: found?.tenure, isWhole });
      const tenure = await log.lead(state, { holder: this.#name, settings: this.#settings, doubt: fault?.sentence });
      return tenure === 'held' ? undefined : { tenure, fault };
    } catch (error) {
      // The row tells next time whether this node leads.
      if (!isPassing(error) && !(error instanceof OutcomeUnknown)) throw error;
      this.#noteReached(error);
      return undefined;
    }
  }

  /** The first event of a leader: a new relay, or a new epoch when this one may not go on. */
  async #begin(
    { store }: View,
    fault: EpochFault | undefined,
  ): Promise<Pick<LeadingNode, 'initialised' | 'notices' | 'epochBegun'>> {
    const { folder, signer, clock, newEpoch } = this.#options;
    const nowMs = clock.nowMs();
    const relay = store.get('relay', rowKey.relay);
    if (!relay) {
      const fields = { relayPubkey: signer.publicKey, epoch: newEpoch(), schemaVersion: SCHEMA_VERSION, atMs: nowMs };
      await appendAtOnce(store, { type: 'RelayInitialised', ...fields }, nowMs);
      return { initialised: true, notices: [], epochBegun: undefined };
    }
    refuseForeignKey(relay, signer, folder);
    if (!fault) return { initialised: false, notices: [], epochBegun: undefined };
    const event: RelayEvent = { type: 'EpochRotated', epoch: newEpoch(), reason: fault.reason, atMs: nowMs };
    await appendAtOnce(store, event, nowMs);
    const notice = `${fault.sentence} A new epoch begins; senders will push again what was not confirmed.`;
    return { initialised: false, notices: [notice], epochBegun: fault.reason };
  }

  #mayLead({ state, nowMs }: OpenedLog & { state: LogState }): boolean {
    const { clock, acceptsSettings, logger } = this.#options;
    const own = { holder: this.#name, settings: this.#settings, acceptsSettings, offMs: clock.nowMs() - nowMs };
    const why = obstacle(state, own);
    if (why !== undefined && this.#said !== why) logger.error({}, `this node does not take the lead: ${why}`);
    this.#said = why;
    return why === undefined;
  }

  async #openedLog(): Promise<OpenedLog & { state: LogState }> {
    const { log, folder } = this.#options;
    const opened = await log.open();
    if (opened.state) return served({ ...opened, state: opened.state });
    if (hasDatabase(folder) || (await readWitness(folder)) !== undefined)
      throw new LogRefused(
        `the database of the log is empty, and ${folder} holds a relay already: see that --log names the right one, or name another folder with --store-dir`,
      );
    await log.initialise(randomUUID());
    const begun = await log.open();
    if (!begun.state) throw new LogRefused('the log could not be begun in this database');
    return served({ ...begun, state: begun.state });
  }

  /** What `work` gives once the log can be reached; `undefined` when the node is to stop. */
  async #reached<T>(work: () => Promise<T>): Promise<T | undefined> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      try {
        const result = await work();
        this.#noteReached(undefined);
        return result;
      } catch (error) {
        if (!isPassing(error)) throw error;
        this.#noteReached(error);
        await this.#pause(LOOK_EVERY_MS * 5);
      }
    }
    return undefined;
  }

  /** Logs the first of several errors, and when the log is reached again. */
  #noteReached(error: unknown): void {
    const { logger } = this.#options;
    if (error !== undefined && this.#isReached)
      logger.error({ err: error }, 'the log cannot be reached; it is tried again');
    if (error === undefined && !this.#isReached) logger.info({}, 'the log is reached again');
    this.#isReached = error === undefined;
  }

  async #pause(ms: number): Promise<void> {
    const { timers, signal } = this.#options;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        cancel();
        signal.removeEventListener('abort', end);
        resolve();
      };
      const cancel = timers.after(ms, end);
      signal.addEventListener('abort', end);
    });
  }
}

function placeOf({ payloadTarget, payloadSeq }: QueueRow): Buffer {
  return payloadKey(payloadTarget, payloadSeq).subarray(1);
}
