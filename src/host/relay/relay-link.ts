/**
 * The connection to one pinned relay. The link checks the relay's key and epoch and registers this host; pulling and
 * pushing take their session from it and report what went wrong.
 *
 *     info ─▶ the pinned key? ─▶ epoch ─▶ rotations, enrolment, enc key, senders, each checked ─▶ session
 *
 * A session belongs to one key of this host and one epoch. Another epoch, `NOT_ENROLLED`, or a new key on either side
 * ends it, and all steps begin again. A failure or `retry-after` makes a pause. When the relay answers any request
 * again, the pause after a failure ends at once; what `retry-after` asked for is kept.
 */
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { RelayEnrolmentRow, RelayRow } from '../core/relay-rows.ts';
import { type HostContext, isStoreFailure } from '../base/context.ts';
import type { Transaction } from '../store/host-store.ts';
import { relayRowOf } from '../outbox/homes.ts';
import { type RelayScope, endEnrolment, noteSeenKey, rewindPosition, notifyOutbox } from './relay-rows.ts';
import { AnotherRelay, RelayCallFailed, isNotEnrolled } from './relay-request.ts';
import { type Connected, connect, type RelaySession, RENEW_BEFORE_MS } from './register-host.ts';
import { TokenUnavailable } from './enrolment-token.ts';
import { systemTimers } from '../../lib/clock.ts';
import { PAUSE_OF_SEVERAL_MAX_MS, type RelayTiming } from './relay-timing.ts';
import { SingleFlightTask } from '../../lib/periodic-task.ts';
import { LinkHealth } from './link-health.ts';

/** The relay's info is read again after this. */
const REFRESH_MS = 3_600_000;

type LinkState = 'unset' | 'key-changed' | 'connecting' | 'ready' | 'failing';

export interface LinkProblem {
  code: string;
  message: string;
  atMs: number;
}

export interface RelayLinkOptions {
  context: HostContext;
  relayPubkey: PublicKey;
  timing: RelayTiming;
  stopping: AbortSignal;
  /** Says whether this host has other relays besides. */
  isOneOfMany?: () => boolean;
  /** Called when there is a session that was not there before. */
  entered: () => void;
  /** Called when the relay became well, down or unheard, or is so no more. */
  turned?: () => void;
}

export class RelayLink {
  readonly health: LinkHealth;
  readonly #options: RelayLinkOptions;
  readonly #context: HostContext;
  #session: RelaySession | undefined;
  #ending = new AbortController();
  /** Aborted when the relay that is being entered is not the pinned one any more. */
  #entering = new AbortController();
  #state: LinkState = 'connecting';
  #problem: LinkProblem | undefined;
  #skewMs: number | null = null;
  readonly #establishing: SingleFlightTask;
  /** Since the relay last did what it was asked for: requests that failed, and sessions that it ended. */
  #failures = 0;
  #endings = 0;
  #backoffUntilMs = 0;
  #retryAfterUntilMs = 0;
  #resuming = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  readonly #progress: { scope: string; rotations: number } = { scope: '', rotations: 0 };
  #waiting: ((session: RelaySession | undefined) => void)[] = [];

  constructor(options: RelayLinkOptions) {
    this.#options = options;
    this.#context = options.context;
    this.health = new LinkHealth({
      monotonicMs: options.context.monotonicMs,
      timers: systemTimers,
      pauseMs: () => this.pauseMs,
      hasSession: () => this.current !== undefined,
      turned: () => options.turned?.(),
    });
    this.#establishing = new SingleFlightTask({
      work: () => this.#establish(),
      onError: (error) => {
        if (isStoreFailure(error)) return;
        this.#context.log('error', 'the relay could not be used', { err: error });
        this.#later(options.timing.pauseMaxMs);
      },
    });
    options.stopping.addEventListener('abort', () => this.#release(undefined), { once: true });
  }

  get relayPubkey(): PublicKey {
    return this.#options.relayPubkey;
  }

  get session(): RelaySession | undefined {
    return this.#session;
  }

  /**
   * The session, when it is of the key that this host has now. After a rotation the former session lives until the
   * relay knows the new key. What the new key signed would look like a thief's to its receiver, were it pushed under
   * the old one.
   */
  get current(): RelaySession | undefined {
    const session = this.#session;
    return session?.scope.hostPubkey === this.#context.identity().signer.publicKey ? session : undefined;
  }

  get state(): LinkState {
    return this.#state;
  }

  /** Says why the relay cannot be used at present. */
  get problem(): LinkProblem | undefined {
    return this.#problem;
  }

  /** The time by which this host's clock is ahead of the relay's. */
  get skewMs(): number | null {
    return this.#skewMs;
  }

  /** The time for which nothing may be asked of the relay. */
  get pauseMs(): number {
    return Math.max(0, Math.max(this.#backoffUntilMs, this.#retryAfterUntilMs) - this.#context.monotonicMs());
  }

  /** Aborted when the present pause is cut short. */
  get resumed(): AbortSignal {
    return this.#resuming.signal;
  }

  /** The session, when there is one; `undefined` when this host stops. */
  ready(): Promise<RelaySession | undefined> {
    if (this.#session || this.#options.stopping.aborted) return Promise.resolve(this.#session);
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Goes through all steps again: reads the relay's info, and publishes what changed here. */
  refresh(): void {
    if (this.#options.stopping.aborted) return;
    clearTimeout(this.#timer);
    void this.#establishing.rerun();
  }

  /** Begins again with the relay that is pinned now, without a pause. */
  restart(): void {
    this.#entering.abort();
    this.#leave();
    this.#failures = 0;
    this.#endings = 0;
    this.#retryAfterUntilMs = 0;
    this.#problem = undefined;
    this.#resume();
    this.health.begin();
    this.refresh();
  }

  /** A request of the session succeeded. */
  worked(): void {
    this.#failures = 0;
    this.#endings = 0;
    this.answered();
    if (this.#session) this.#setState('ready', undefined);
  }

  /** The relay answers, whatever was asked: what waits out a failure tries again now. */
  answered(): void {
    this.health.heard();
    if (this.#backoffUntilMs <= this.#context.monotonicMs()) return;
    this.#resume();
    if (!this.#session) this.refresh();
  }

  /** A request of `session` failed. Pauses, and ends the session where the failure says so. */
  async failed(session: RelaySession, error: RelayCallFailed): Promise<void> {
    if (this.#options.stopping.aborted || session !== this.#session) return;
    const isOver = error.code === 'EPOCH_CHANGED' || error.status === 401;
    // In v1 nothing but an enrolment tells the new epoch.
    const isUnknown = isNotEnrolled(error) || (error.code === 'EPOCH_CHANGED' && session.protocol === 1);
    if (isUnknown) await this.#context.store.transact((tx) => endEnrolment(tx, session.scope));
    this.#pause(error, isOver);
    if (isOver) this.#end(session);
  }

  /** An answer came from another epoch than the session's. When that happens again and again, the pauses grow. */
  ended(session: RelaySession): void {
    if (session !== this.#session) return;
    this.#pause(new RelayCallFailed('the relay answers from another epoch than it says it is in', 200), true);
    this.#end(session);
  }

  /** The relay's store went back in time within the session's epoch. That is handled as a new epoch is. */
  rewound(session: RelaySession): Promise<void> {
    return this.#context.store.transact((tx) => this.rewind(tx, session));
  }

  /** As `rewound`, as part of `tx`. */
  rewind(tx: Transaction, session: RelaySession): Promise<void> {
    tx.afterCommit(() => this.#end(session));
    return rewindPosition(tx, this.#context, session.scope);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.health.close();
    await this.#establishing.stop();
  }

  #end(session: RelaySession): void {
    if (this.#session !== session) return;
    this.#leave();
    this.#state = 'connecting';
    this.refresh();
  }

  async #establish(): Promise<void> {
    if (this.pauseMs > 0) return this.#later(this.pauseMs);
    const context = this.#context;
    const row = await this.#readRow();
    if (!row || row.seenKey) {
      this.#leave();
      this.#setState(row ? 'key-changed' : 'unset', row && keyChanged(row));
      this.health.stopped();
      return;
    }
    try {
      const made = await this.#connect(row);
      if (!made) return this.refresh();
      this.answered();
      await this.#enter(made.session);
      this.#later(refreshInMs(made.known, context.nowMs()));
    } catch (error) {
      if (this.#options.stopping.aborted) return;
      if (!(error instanceof RelayCallFailed) && !(error instanceof TokenUnavailable)) throw error;
      this.#pause(error, false);
      this.#later(this.pauseMs);
    }
  }

  async #enter(made: RelaySession): Promise<void> {
    const context = this.#context;
    const { scope, limits, retentionMs: keptMs } = made;
    const { relayPubkey, epoch } = scope;
    if (this.#session?.protocol === made.protocol && isSameScope(this.#session.scope, scope)) {
      Object.assign(this.#session, { limits, retentionMs: keptMs });
      this.#setState('ready', undefined);
      return;
    }
    this.#leave();
    this.#ending = made.ending;
    this.#session = made;
    this.#setState('ready', undefined);
    this.health.note();
    // Rows that this brings forward are sent at once, so the session is there first.
    await context.store.transact((tx) => notifyOutbox(tx, context, { type: 'relay-ready', relayPubkey, epoch }));
    this.#release(made);
    this.#options.entered();
  }

  #leave(): void {
    const had = this.#session;
    this.#session = undefined;
    this.#ending.abort();
    if (had) this.health.lost();
  }

  #readRow(): Promise<RelayRow | undefined> {
    const { context, relayPubkey } = this.#options;
    return context.store.read((reader) => relayRowOf(reader, relayPubkey));
  }

  /** Undefined when the relay showed another key, or when the pinned relay or this host's key changed meanwhile. */
  async #connect(row: RelayRow): Promise<Connected | undefined> {
    const context = this.#context;
    const identity = context.identity();
    const { signal } = (this.#entering = new AbortController());
    let made: Connected;
    try {
      made = await connect({
        context,
        identity,
        row,
        progress: this.#progress,
        noteSkew: (ms) => void (this.#skewMs = ms),
        asking: (waitMs) => this.health.asking(waitMs),
        stopping: AbortSignal.any([this.#options.stopping, signal]),
      });
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof AnotherRelay)) throw error;
      await context.store.transact((tx) => noteSeenKey(tx, context, row, error.shown));
      context.log('error', 'the relay shows another key than the pinned one: it is not used until poste relay set', {
        seen: displayFingerprint(error.shown),
      });
      return undefined;
    }
    const after = await this.#readRow();
    return after?.url === row.url && context.identity() === identity ? made : undefined;
  }

  #pause(error: RelayCallFailed | TokenUnavailable, isOver: boolean): void {
    const { timing, isOneOfMany } = this.#options;
    const { pauseFirstMs } = timing;
    const pauseMaxMs = Math.min(timing.pauseMaxMs, isOneOfMany?.() ? PAUSE_OF_SEVERAL_MAX_MS : Infinity);
    // Counted apart: a relay that comes back in another epoch ends the session once, however long it gave no answer.
    const count = isOver ? ++this.#endings : ++this.#failures;
    const half = Math.min(pauseMaxMs, pauseFirstMs * 2 ** Math.min(count - 1, 30)) / 2;
    const jitter = this.#context.randomBytes(1).readUInt8() / 256;
    const nowMs = this.#context.monotonicMs();
    // A session that ended is begun again at once, unless it ends again. Another request may have to wait longer.
    if (isOver && count === 1) this.#resume();
    else this.#backoffUntilMs = Math.max(this.#backoffUntilMs, nowMs + half + half * jitter);
    const retryAfterMs = (error instanceof RelayCallFailed && error.retryAfterMs) || 0;
    this.#retryAfterUntilMs = Math.max(this.#retryAfterUntilMs, nowMs + retryAfterMs);
    const code = error instanceof RelayCallFailed ? codeOf(error) : 'NO_TOKEN';
    this.health.failed();
    if (count > 1 || !isOver) this.#setState('failing', { code, message: error.message, atMs: this.#context.nowMs() });
  }

  /** Ends the pause that a failure made. */
  #resume(): void {
    this.#backoffUntilMs = 0;
    this.#resuming.abort();
    this.#resuming = new AbortController();
    this.health.note();
  }

  #setState(state: LinkState, problem: LinkProblem | undefined): void {
    if (problem && problem.code !== this.#problem?.code) {
      this.#context.log('warn', `the relay: ${problem.message}`, { code: problem.code });
    }
    if (!problem && this.#problem && state === 'ready') this.#context.log('info', 'the relay can be used again');
    this.#state = state;
    this.#problem = problem;
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#options.stopping.aborted) this.#timer = setTimeout(() => this.refresh(), ms);
  }

  #release(session: RelaySession | undefined): void {
    for (const resolve of this.#waiting.splice(0)) resolve(session);
  }
}

function codeOf({ code, status }: RelayCallFailed): string {
  if (code !== '') return code;
  return status === 0 ? 'UNREACHABLE' : `HTTP_${status}`;
}

function keyChanged({ seenKey, pubkey, isV1 }: RelayRow): LinkProblem {
  const seen = seenKey ? displayFingerprint(seenKey.pubkey) : '';
  const how = isV1 ? 'poste relay unset and set' : 'poste relay set';
  const before = displayFingerprint(pubkey);
  const message = `the relay shows the key ${seen} and not ${before} as before: confirm it with ${how}`;
  return { code: 'RELAY_KEY_MISMATCH', message, atMs: seenKey?.atMs ?? 0 };
}

function refreshInMs({ validUntilMs }: RelayEnrolmentRow, nowMs: number): number {
  if (validUntilMs === null) return REFRESH_MS;
  return Math.min(REFRESH_MS, Math.max(RENEW_BEFORE_MS / 4, validUntilMs - RENEW_BEFORE_MS - nowMs));
}

function isSameScope(a: RelayScope | undefined, b: RelayScope): boolean {
  return a?.relayPubkey === b.relayPubkey && a.epoch === b.epoch && a.hostPubkey === b.hostPubkey;
}
