/**
 * The connection to the pinned relay: who it is, whether it is the pinned one, in which epoch, and that it knows this
 * host. Pulling and pushing take their session from here and bring back what went wrong.
 *
 *     info ─▶ the pinned key? ─▶ epoch ─▶ rotations, enrolment, enc key, senders, each checked ─▶ session (connect.ts)
 *
 * A session is of one key of this host and one epoch. What ends it (another epoch, `NOT_ENROLLED`, a key of this host or
 * of the relay) begins all of it again; what is only in the way (no answer, `retry-after`) makes a pause.
 */
import { displayFingerprint } from '../../../protocol/public-key.ts';
import type { RelayEnrolmentRow, RelayRow } from '../../core/rows.ts';
import type { Office } from '../../office/office.ts';
import { type RelayScope, dropEnrolment, noteSeenKey, rewindPosition, tellOutbox } from '../../office/relay-rows.ts';
import { isStoreFailure } from '../../office/store-failure.ts';
import { AnotherRelay, RelayCallFailed } from '../relay-request.ts';
import { type Connected, connect } from './connect.ts';
import { RENEW_BEFORE_MS } from './make-known.ts';
import { ProofUnavailable } from './relay-proof.ts';
import type { RelaySession } from './relay-session.ts';

export interface RelayTiming {
  /** The pause after the first failure, and the longest. */
  pauseFirstMs: number;
  pauseMaxMs: number;
  /** Between pulls where the relay does not hold an empty page back. */
  pollMs: number;
  /** How long a pull asks the relay to wait. */
  waitSeconds: number;
}
export const RELAY_TIMING: RelayTiming = { pauseFirstMs: 1_000, pauseMaxMs: 300_000, pollMs: 15_000, waitSeconds: 25 };
/** What the relay says of itself is asked again after this. */
const REFRESH_MS = 3_600_000;

export type LinkState = 'unset' | 'key-changed' | 'connecting' | 'ready' | 'failing';

export interface LinkProblem {
  code: string;
  message: string;
  atMs: number;
}

export interface RelayLinkOptions {
  office: Office;
  timing: RelayTiming;
  stopping: AbortSignal;
  /** There is a session, or another one. */
  ready: (session: RelaySession) => void;
}

export class RelayLink {
  readonly #options: RelayLinkOptions;
  readonly #office: Office;
  #session: RelaySession | undefined;
  #ending = new AbortController();
  #state: LinkState = 'connecting';
  #problem: LinkProblem | undefined;
  #skewMs: number | null = null;
  #establishing: Promise<void> | undefined;
  #again = false;
  #failures = 0;
  #pausedUntilMs = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #progress: { scope: string; rotations: number } = { scope: '', rotations: 0 };
  #waiting: ((session: RelaySession | undefined) => void)[] = [];

  constructor(options: RelayLinkOptions) {
    this.#options = options;
    this.#office = options.office;
    options.stopping.addEventListener('abort', () => this.#release(undefined), { once: true });
  }

  get session(): RelaySession | undefined {
    return this.#session;
  }

  get state(): LinkState {
    return this.#state;
  }

  /** The last thing that went wrong, while it is. */
  get problem(): LinkProblem | undefined {
    return this.#problem;
  }

  /** How far this host's clock is ahead of the relay's. */
  get skewMs(): number | null {
    return this.#skewMs;
  }

  /** How long nothing may be asked of the relay. */
  get pauseMs(): number {
    return Math.max(0, this.#pausedUntilMs - this.#office.monotonicMs());
  }

  /** The session, when there is one; `undefined` when this host stops. */
  ready(): Promise<RelaySession | undefined> {
    if (this.#session || this.#options.stopping.aborted) return Promise.resolve(this.#session);
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Looks at everything again: what changed here is published, and what the relay says of itself is read. */
  refresh(): void {
    if (this.#options.stopping.aborted) return;
    clearTimeout(this.#timer);
    this.#again = true;
    this.#establishing ??= this.#run();
  }

  /** Begins anew with what is pinned now; pauses are over. */
  restart(): void {
    this.#leave();
    this.#failures = 0;
    this.#pausedUntilMs = 0;
    this.#problem = undefined;
    this.refresh();
  }

  /** A request of the session did what it should. */
  worked(): void {
    this.#failures = 0;
    if (this.#session) this.#said('ready', undefined);
  }

  /** A request of `session` failed: what follows for the session, and how long to leave the relay alone. */
  async failed(session: RelaySession, error: RelayCallFailed): Promise<void> {
    if (this.#options.stopping.aborted || session !== this.#session) return;
    const isOver = error.code === 'EPOCH_CHANGED' || error.status === 401;
    // In v1 nothing but an enrolment tells the new epoch.
    const isUnknown = error.code === 'NOT_ENROLLED' || (error.code === 'EPOCH_CHANGED' && session.protocol === 1);
    if (isUnknown) await this.#office.store.transact((tx) => dropEnrolment(tx, session.scope));
    this.#pause(error, isOver);
    if (isOver) this.#end(session);
  }

  /** Another epoch than the session's was in an answer. A relay that goes on to differ from itself is left alone. */
  ended(session: RelaySession): void {
    if (session !== this.#session) return;
    this.#pause(new RelayCallFailed('the relay answers from another epoch than it says it is in', 200), true);
    this.#end(session);
  }

  /** The relay's store went back in time in the session's epoch, which is dealt with as a new one. */
  async rewound(session: RelaySession): Promise<void> {
    const office = this.#office;
    await office.store.transact((tx) => rewindPosition(tx, office, session.scope));
    this.#end(session);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#establishing;
  }

  #end(session: RelaySession): void {
    if (this.#session !== session) return;
    this.#leave();
    this.#state = 'connecting';
    this.refresh();
  }

  async #run(): Promise<void> {
    // Its promise is kept before it can end.
    await Promise.resolve();
    try {
      while (this.#again && !this.#options.stopping.aborted) {
        if (this.pauseMs > 0) {
          this.#later(this.pauseMs);
          break;
        }
        this.#again = false;
        await this.#establish();
      }
    } catch (error) {
      if (!isStoreFailure(error)) {
        this.#office.log('error', 'the relay could not be used', { err: error });
        this.#later(this.#options.timing.pauseMaxMs);
      }
    } finally {
      this.#establishing = undefined;
    }
  }

  async #establish(): Promise<void> {
    const office = this.#office;
    const row = await office.store.read((reader) => reader.get('relay'));
    if (!row || row.seenKey) {
      this.#leave();
      this.#said(row ? 'key-changed' : 'unset', row && keyChanged(row));
      return;
    }
    try {
      const made = await this.#connect(row);
      if (!made) return;
      await this.#enter(made.session);
      this.#later(refreshInMs(made.known, office.nowMs()));
    } catch (error) {
      if (this.#options.stopping.aborted) return;
      if (!(error instanceof RelayCallFailed) && !(error instanceof ProofUnavailable)) throw error;
      this.#pause(error, false);
      this.#later(this.pauseMs);
    }
  }

  async #enter(made: RelaySession): Promise<void> {
    const office = this.#office;
    const { scope, limits, retentionMs: keptMs } = made;
    const { relayPubkey, epoch } = scope;
    if (this.#session?.protocol === made.protocol && isSameScope(this.#session.scope, scope)) {
      Object.assign(this.#session, { limits, retentionMs: keptMs });
      this.#said('ready', undefined);
      return;
    }
    await office.store.transact((tx) => tellOutbox(tx, office, { type: 'relay-ready', relayPubkey, epoch }));
    this.#leave();
    this.#ending = made.ending;
    this.#session = made;
    this.#said('ready', undefined);
    this.#release(made);
    this.#options.ready(made);
  }

  #leave(): void {
    this.#session = undefined;
    this.#ending.abort();
  }

  /** Nothing when the relay showed another key, or when it changed here meanwhile. */
  async #connect(row: RelayRow): Promise<Connected | undefined> {
    const office = this.#office;
    const identity = office.identity();
    let made: Connected;
    try {
      made = await connect({
        office,
        identity,
        row,
        progress: this.#progress,
        noteSkew: (ms) => void (this.#skewMs = ms),
        stopping: this.#options.stopping,
      });
    } catch (error) {
      if (!(error instanceof AnotherRelay)) throw error;
      await office.store.transact((tx) => noteSeenKey(tx, office, row, error.shown));
      office.log('error', 'the relay shows another key than the pinned one: it is not used until poste relay set', {
        seen: displayFingerprint(error.shown),
      });
      this.#again = true;
      return undefined;
    }
    const after = await office.store.read((reader) => reader.get('relay'));
    const isAsBefore = after?.pubkey === row.pubkey && after.url === row.url && office.identity() === identity;
    if (!isAsBefore) {
      this.#again = true;
      return undefined;
    }
    return made;
  }

  #pause(error: RelayCallFailed | ProofUnavailable, isOver: boolean): void {
    const { pauseFirstMs, pauseMaxMs } = this.#options.timing;
    const failures = ++this.#failures;
    const half = Math.min(pauseMaxMs, pauseFirstMs * 2 ** Math.min(failures - 1, 30)) / 2;
    const jitter = this.#office.randomBytes(1).readUInt8() / 256;
    // A session that ended is begun again at once, unless it ends again.
    const backoffMs = isOver && failures === 1 ? 0 : half + half * jitter;
    const retryAfterMs = (error instanceof RelayCallFailed && error.retryAfterMs) || 0;
    // Another request may have been told to wait longer.
    const untilMs = this.#office.monotonicMs() + Math.max(backoffMs, retryAfterMs);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, untilMs);
    const code = error instanceof RelayCallFailed ? codeOf(error) : 'NO_TOKEN';
    if (failures > 1 || !isOver) this.#said('failing', { code, message: error.message, atMs: this.#office.nowMs() });
  }

  #said(state: LinkState, problem: LinkProblem | undefined): void {
    if (problem && problem.code !== this.#problem?.code) {
      this.#office.log('warn', `the relay: ${problem.message}`, { code: problem.code });
    }
    if (!problem && this.#problem && state === 'ready') this.#office.log('info', 'the relay can be used again');
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
  const message = `the relay shows the key ${seen} and not ${displayFingerprint(pubkey)} as before: confirm it with ${how}`;
  return { code: 'RELAY_KEY_MISMATCH', message, atMs: seenKey?.atMs ?? 0 };
}

function refreshInMs({ validUntilMs }: RelayEnrolmentRow, nowMs: number): number {
  if (validUntilMs === null) return REFRESH_MS;
  return Math.min(REFRESH_MS, Math.max(RENEW_BEFORE_MS / 4, validUntilMs - RENEW_BEFORE_MS - nowMs));
}

function isSameScope(a: RelayScope | undefined, b: RelayScope): boolean {
  return a?.relayPubkey === b.relayPubkey && a.epoch === b.epoch && a.hostPubkey === b.hostPubkey;
}
