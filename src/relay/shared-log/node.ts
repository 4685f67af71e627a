/**
 * A node of a shared log: it follows until it leads.
 *
 * When it leads, it first catches up with everything that the log holds; then it decides whether the epoch goes on
 * (`epochFault`), and a new epoch is the first thing that it appends.
 */
import { randomUUID } from 'node:crypto';
import type { Clock, Timers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { EpochReason, RelayEvent } from '../core/event.ts';
import { type QueueRow, rowKey } from '../core/rows.ts';
import { payloadKey } from '../store/keys.ts';
import { SCHEMA_VERSION, appendAtOnce, refuseForeignKey } from '../store/open.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { ViewMark } from '../store/view-mark.ts';
import { catchUp } from './follow.ts';
import { LeaseWatch, Leadership } from './leadership.ts';
import { type View, nodeName, openView, putAside, readWitness, thisBoot, writeWitness } from './open-view.ts';
import type { Durability } from './postgres-log.ts';
import {
  type Fenced,
  LogRefused,
  type LogState,
  LogUnreachable,
  NotWritten,
  type OpenedLog,
  OutcomeUnknown,
  type SharedLog,
  type Tenure,
} from './shared-log.ts';
import { epochFault, obstacle } from './takeover-rules.ts';
import type { ViewLog } from './view-log.ts';

/** How often a node that follows looks for new batches and for signs of life. */
const LOOK_EVERY_MS = 100;
const WITNESS_EVERY_MS = 1_000;

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
 * Follows the log until this node leads it; `undefined` when `signal` aborts before. Waits for a server that cannot be
 * reached. Throws `LogRefused`, `StoreRefused`, and `ViewDiverged` after the log was told to doubt nothing of it.
 */
export async function joinLog(options: NodeOptions): Promise<LeadingNode | undefined> {
  const node = new Node(options);
  const view = await node.openView();
  if (!view) return undefined;
  try {
    const led = await node.followUntilLead(view);
    if (led) return led;
    await node.leave(view);
    return undefined;
  } catch (error) {
    await view.store.close();
    throw error;
  }
}

class Node {
  readonly #options: NodeOptions;
  readonly #settings: Buffer;
  #isReached = true;
  #said: string | undefined;
  #name = '';

  constructor(options: NodeOptions) {
    this.#options = options;
    this.#settings = Buffer.from(JSON.stringify(options.settings));
  }

  async openView(): Promise<View | undefined> {
    const { folder, log, clock, onStalled, onDoubt } = this.#options;
    const opened = await this.#reached(() => this.#openedLog());
    if (!opened) return undefined;
    const { state, server } = opened;
    const witness = await readWitness(folder);
    const notices: string[] = [];
    if (witness?.logId === state.logId && witness.no > state.prunedNo) {
      if (server.systemId === witness.server.systemId && server.timeline < witness.server.timeline)
        throw new LogRefused(
          'the server of the log is older than what this node has seen: it was replaced by another, which is to be named in --log',
        );
      const stored = await this.#reached(() => log.batch(state.logId, witness.no));
      if (!stored?.effects.equals(witness.effects)) {
        await this.#reached(() => log.doubt(state.logId, `a node had seen batch ${witness.no}, which the log lacks`));
        notices.push(
          `The log lacks what this node had seen of it: the view was put aside as ${await putAside(folder, clock.nowMs())}.`,
        );
      }
    }
    const view = await openView({
      folder,
      log,
      state,
      nowMs: clock.nowMs(),
      bootId: await thisBoot(),
      pause: (ms) => this.#pause(ms),
      onStalled,
      onDoubt,
    });
    this.#name = await nodeName(folder);
    return { ...view, notices: [...notices, ...view.notices] };
  }

  async followUntilLead(view: View): Promise<LeadingNode | undefined> {
    const { log, leaseMs, clock, signal, logger } = this.#options;
    const watch = new LeaseWatch({ leaseMs, monotonicMs: () => clock.monotonicMs(), holder: this.#name });
    const parts = { log, store: view.store, view: view.log };
    let isTold = false;
    for (;;) {
      const opened = await this.#reached(() => this.#openedLog());
      if (!opened) return undefined;
      const { state } = opened;
      if (state.logId !== view.log.logId) throw new LogRefused('another log was put in the place of this one');
      if ((await this.#reached(() => catchUp(parts, undefined, signal))) === undefined) return undefined;
      this.#options.onFollowed?.(Math.max(0, state.lastNo - view.log.no));
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

  /** Closes a view that follows. */
  async leave(view: View): Promise<void> {
    await closeView(view);
  }

  async #lead(view: View, opened: OpenedLog & { state: LogState }): Promise<LeadingNode | undefined> {
    const { log, leaseMs, clock, timers, onLost, onDoubt } = this.#options;
    const takenMs = clock.monotonicMs();
    const tenure = await this.#tenure(opened.state);
    if (!tenure) return undefined;
    const { store } = view;
    const leadership = new Leadership({
      log,
      tenure,
      leaseMs,
      clock,
      timers,
      takenMs,
      ackedNo: () => view.log.no,
      onLost,
      onRenewed: (error) => this.#noteReached(error),
      onDoubt,
    });
    try {
      await catchUp({ log, store, view: view.log }, tenure);
      view.log.leads(tenure);
      const begun = await this.#begin(view, opened, tenure);
      const stopWitness = this.#keepWitness(view.log, opened);
      return {
        store,
        leadership,
        ...begun,
        notices: [...view.notices, ...begun.notices],
        stopRetrying: () => view.log.stop(),
        wireBytes: (rows) => log.payloads(tenure.logId, rows.map(placeOf)),
        settleDoubt: () => log.clearDoubt(tenure),
        close: async () => {
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
      if (!isWaitedFor(error) || store.isFailed) throw error;
      this.#noteReached(error);
      return undefined;
    }
  }

  async #tenure(seen: LogState): Promise<Tenure | undefined> {
    const candidate = { holder: this.#name, settings: this.#settings };
    try {
      const tenure = await this.#options.log.lead(seen, candidate);
      return tenure === 'held' ? undefined : tenure;
    } catch (error) {
      // The row tells next time whether this node leads.
      if (!isWaitedFor(error) && !(error instanceof OutcomeUnknown)) throw error;
      this.#noteReached(error);
      return undefined;
    }
  }

  /** The first events of a leader: a new relay, or a new epoch when this one may not go on. */
  async #begin(
    view: View,
    { state, server }: OpenedLog & { state: LogState },
    tenure: Tenure,
  ): Promise<Pick<LeadingNode, 'initialised' | 'notices' | 'epochBegun'>> {
    const { folder, log, signer, clock, newEpoch, durability } = this.#options;
    const { store } = view;
    const nowMs = clock.nowMs();
    const relay = store.get('relay', rowKey.relay);
    if (!relay) {
      const relayPubkey = signer.publicKey;
      const fields = { relayPubkey, epoch: newEpoch(), schemaVersion: SCHEMA_VERSION, atMs: nowMs };
      await appendAtOnce(store, { type: 'RelayInitialised', ...fields }, nowMs);
      return { initialised: true, notices: [], epochBegun: undefined };
    }
    refuseForeignKey(relay, signer, folder);
    const { found, survived } = view;
    const proof = { ledLast: found?.tenure, isWhole: survived && (await this.#isInLog(found)) };
    const fault = epochFault(state, server, durability, proof);
    if (!fault) return { initialised: false, notices: [], epochBegun: undefined };
    const event: RelayEvent = { type: 'EpochRotated', epoch: newEpoch(), reason: fault.reason, atMs: nowMs };
    await appendAtOnce(store, event, nowMs);
    if (state.doubt !== undefined) await log.clearDoubt(tenure);
    const notice = `${fault.sentence} A new epoch begins; senders will push again what was not confirmed.`;
    return { initialised: false, notices: [notice], epochBegun: fault.reason };
  }

  async #isInLog(found: ViewMark | undefined): Promise<boolean> {
    if (!found || found.no === 0) return false;
    const stored = await this.#options.log.batch(found.logId, found.no);
    return stored !== undefined && stored.effects.equals(found.effects);
  }

  /** Notes once a second how far the view has come, outside of it. */
  #keepWitness(view: ViewLog, { state, server }: OpenedLog & { state: LogState }): () => Promise<void> {
    const { folder, timers, logger } = this.#options;
    let noted = -1;
    let writing: Promise<void> = Promise.resolve();
    const write = (): void => {
      const { no, lastLsn, effects } = view.mark;
      if (no === noted) return;
      noted = no;
      writing = writing
        .then(() => writeWitness(folder, { logId: state.logId, no, lastLsn, effects, server }))
        .catch((error: unknown) => logger.error({ err: error }, 'how far the view has come could not be noted'));
    };
    const cancel = timers.every(WITNESS_EVERY_MS, write);
    return () => {
      cancel();
      write();
      return writing;
    };
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
    if ((await readWitness(folder)) !== undefined)
      throw new LogRefused(
        'the database of the log is empty, and this node has a view of it: see that --log names the right one',
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
        if (!isWaitedFor(error)) throw error;
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

  #pause(ms: number): Promise<void> {
    const { timers, signal } = this.#options;
    return new Promise((resolve) => {
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

/** Marks the view as whole, and closes it. */
async function closeView({ store, log }: View): Promise<void> {
  log.closes();
  try {
    if (!store.isFailed) await store.append({ entries: [], changes: [], payloads: [] });
  } finally {
    await store.close();
  }
}

function isWaitedFor(error: unknown): boolean {
  return error instanceof LogUnreachable || error instanceof NotWritten;
}

function served<T extends { state: LogState }>(opened: T): T {
  const { state } = opened.state;
  if (state === 'serving') return opened;
  throw new LogRefused(`the log does not serve: it is ${state}`);
}
