/**
 * Makes batches durable in a shared log, and writes the view behind it without a sync.
 *
 * A node either leads, and its batches go to the log first; or it follows, and its batches come from there. With each
 * batch the view gets its mark (store/marks.ts). A batch that concerns this node alone never goes to the log.
 *
 * A batch of which the log takes nothing (its disk is full) is given to it again until it is taken, or until another
 * node leads. Of one whose answer was lost the log is asked what became of it: nothing is acknowledged before it says
 * so.
 */
import type { ViewBatch, DurableLog, LogBatch, ViewWrites, BatchEffects } from '../store/durable-log.ts';
import { payloadKey } from '../store/keys.ts';
import { type ViewMark, viewMarkPair } from '../store/marks.ts';
import { encodeShared } from './batch-body.ts';
import type { NodeOptions } from './node-options.ts';
import {
  type EncodedBatch,
  type FollowedBatch,
  LogRefused,
  NotWritten,
  OutcomeUnknown,
  type SharedLog,
  type StoredPayload,
  type Tenure,
  isPassing,
  isUnreached,
} from './shared-log.ts';

const AGAIN_MS = 500;
const NOTHING_FORGOTTEN = { expiryEntries: [], dedupEntries: [], dedupRows: [] };

/** Thrown when this view does something else with a batch than the node that appended it. */
export class ViewDiverged extends LogRefused {
  constructor({ no, firstLsn, lastLsn }: FollowedBatch) {
    super(
      `this view makes something else of batch ${no} of the log (records ${firstLsn} to ${lastLsn}) than the ` +
        'node that appended it: start all nodes with the same version; if it stays, move the view aside',
    );
  }
}

/** Thrown for work between batches that are followed, when this node leads or stops. */
export class FollowsNoMore extends Error {
  constructor() {
    super('this node does not follow any more');
  }
}

interface ViewLogOptions extends Pick<NodeOptions, 'log' | 'timers' | 'onStalled' | 'onUnreached' | 'onDoubt'> {
  mark: ViewMark;
}

export class ViewLog implements DurableLog {
  readonly isShared = true;
  /** The format of the log that this node leads: it rises when every node reads a newer one. */
  format = 0;
  readonly #log: SharedLog;
  readonly #options: ViewLogOptions;
  #mark: ViewMark;
  #tenure: Tenure | undefined;
  #following: FollowedBatch | undefined;
  #isClosing = false;
  /** The mark says more than the one that is stored. */
  #isMarkDue = false;
  #isStopped = false;
  /** Ends with the last batch that is followed, or other work between two of them. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ViewLogOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#mark = options.mark;
  }

  /** The last batch that the view holds. */
  get no(): number {
    return this.#mark.no;
  }

  get logId(): string {
    return this.#mark.logId;
  }

  get mark(): ViewMark {
    return this.#mark;
  }

  /** The next batch of this node alone closes the view: it is synced, and marked as closed. */
  async closes(): Promise<void> {
    this.#isClosing = true;
    await this.#turn;
  }

  /**
   * The next batches are this node's own. The next one of this node alone marks the view with the tenure, so that a
   * leader that appends nothing can prove later that it led.
   */
  async leads(tenure: Tenure): Promise<void> {
    this.#tenure = tenure;
    await this.#turn;
    this.#mark = { ...this.#mark, tenure: tenure.tenure, isClosed: false };
    this.#isMarkDue = true;
  }

  /** Runs `work` between two batches that are followed. Throws `FollowsNoMore` when this node leads or stops. */
  between<T>(work: () => Promise<T>): Promise<T> {
    return this.#inTurn(() => {
      if (this.#tenure || this.#isClosing || this.#isStopped) throw new FollowsNoMore();
      return work();
    });
  }

  /** `append` applies the batch of `batch` to the view: what `write` appends is checked against it. */
  follows(batch: FollowedBatch, write: () => Promise<void>): Promise<void> {
    return this.#inTurn(async () => {
      this.#following = batch;
      try {
        await write();
      } finally {
        this.#following = undefined;
      }
    });
  }

  async append(batch: ViewBatch, view: ViewWrites, written: () => void): Promise<void> {
    await this.#append(batch, view);
    written();
  }

  async #append(batch: ViewBatch, view: ViewWrites): Promise<void> {
    if (!batch.effects) throw new Error('invariant: a batch for a shared log comes with its effects');
    if (this.#following) return this.#apply(this.#following, batch.effects, view);
    if (isOfThisNode(batch.batch)) {
      if (this.#isClosing || this.#isMarkDue) view.put(...viewMarkPair({ ...this.#mark, isClosed: this.#isClosing }));
      await view.write({ sync: this.#isClosing });
      this.#isMarkDue = false;
      return;
    }
    await this.#appendOwn(batch, batch.effects, view);
  }

  /** Ends what is asked of the log again and again. */
  stop(): void {
    this.#isStopped = true;
  }

  async close(): Promise<void> {
    this.stop();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #apply(followed: FollowedBatch, noted: BatchEffects, view: ViewWrites): Promise<void> {
    const { effects } = noted.taken(this.#mark.effects);
    if (!effects.equals(followed.effects)) throw new ViewDiverged(followed);
    await this.#writeView({ no: followed.no, lastLsn: followed.lastLsn, effects }, undefined, view);
  }

  async #appendOwn(
    { firstLsn, lastLsn, records, batch }: ViewBatch,
    noted: BatchEffects,
    view: ViewWrites,
  ): Promise<void> {
    const tenure = this.#tenure;
    if (!tenure) throw new Error('invariant: only the node that leads appends');
    const { effects, dropped } = noted.taken(this.#mark.effects);
    const no = this.#mark.no + 1;
    const { forgotten = NOTHING_FORGOTTEN, collected } = batch;
    const shared = encodeShared({ forgotten, collected });
    const payloads = batch.payloads.map(storedPayload);
    const encoded = { no, firstLsn, lastLsn, records, payloads, dropped, shared, effects };
    const { doubt } = await this.#appendUntilTaken(tenure, encoded);
    await this.#writeView({ no, lastLsn, effects }, tenure.tenure, view);
    if (doubt !== undefined) this.#options.onDoubt?.(doubt);
  }

  async #appendUntilTaken(tenure: Tenure, batch: EncodedBatch): Promise<{ doubt: string | undefined }> {
    const { timers, onStalled, onUnreached } = this.#options;
    let unknown: OutcomeUnknown | undefined;
    for (let isStalled = false; ; isStalled = true) {
      try {
        const isStored = unknown !== undefined && (await this.#log.settle(tenure, batch)) === 'stored';
        unknown = undefined;
        const appended = isStored ? { doubt: undefined } : await this.#log.append(tenure, batch, this.#mark.no);
        if (isStalled) onStalled?.(undefined);
        return appended;
      } catch (error) {
        if (error instanceof OutcomeUnknown) unknown ??= error;
        else if (!(error instanceof NotWritten) && !(unknown !== undefined && isPassing(error))) throw error;
        if (this.#isStopped) throw unknown ?? error;
        if (isUnreached(error)) onUnreached?.();
        onStalled?.((error as Error).message);
        await new Promise<void>((resolve) => timers.after(AGAIN_MS, resolve));
      }
    }
  }

  async #writeView(
    batch: Pick<ViewMark, 'no' | 'lastLsn' | 'effects'>,
    tenure: string | undefined,
    view: ViewWrites,
  ): Promise<void> {
    const mark = { ...this.#mark, ...batch, tenure, isClosed: false };
    view.put(...viewMarkPair(mark));
    await view.write({ sync: false });
    this.#mark = mark;
  }
}

function isOfThisNode({ entries, collected, forgotten }: LogBatch): boolean {
  const { expiryEntries, dedupEntries, dedupRows } = forgotten ?? NOTHING_FORGOTTEN;
  return entries.length + expiryEntries.length + dedupEntries.length + dedupRows.length === 0 && !collected;
}

function storedPayload({ targetPubkey, seq, wire }: LogBatch['payloads'][number]): StoredPayload {
  return { place: payloadKey(targetPubkey, seq).subarray(1), wire };
}
