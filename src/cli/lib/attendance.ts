/**
 * The session of a command that takes mail for as long as it runs: the agent is live meanwhile, and the command says
 * which messages its program has, which proves to their senders that they arrived there.
 *
 * The session lives as long as this process. It waits for doorbells all the time, so that a sender hears what the
 * program does: that it was started, or is at work.
 */
import { randomBytes } from 'node:crypto';
import type { InputOf, OutputOf } from '../../host/api/operations.ts';
import { SESSION_WAIT_MS_MAX } from '../../host/contract/socket-protocol.ts';
import { silenceOf } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import type { AskDaemon, PatientDaemon } from './patient-daemon.ts';

/**
 * Waits for the doorbell of a session, and confirms it: the line that rang, `undefined` when none did within `waitMs`.
 * Throws `CommandFailed`, with code `RELEASED` when the session has no wait any more.
 */
export async function nextDoorbell(ask: AskDaemon, session_id: string, waitMs: number): Promise<string | undefined> {
  const untilMs = performance.now() + waitMs;
  for (;;) {
    const wait_ms = Math.min(SESSION_WAIT_MS_MAX, Math.max(0, Math.ceil(untilMs - performance.now())));
    const { event, ring, text } = await ask('session-wait', { session_id, wait_ms }, silenceOf(SESSION_WAIT_MS_MAX));
    if (event === 'released') {
      const why = 'the session ended, is busy, or waits in another process; poste session list shows it';
      throw new CommandFailed('temporary', 'RELEASED', `no doorbell: ${why}`);
    }
    if (event === 'doorbell' && ring !== null && text !== null) {
      const { counted } = await ask('session-heard', { session_id, ring });
      if (counted) return text;
    }
    if (performance.now() >= untilMs) return undefined;
  }
}

/** The time limit of the one call that ends the session. */
const END_MS = 1000;

interface AttendanceParts {
  daemon: PatientDaemon;
  /**
   * The name of what takes the mail: the beginning of the session's name. Alone, all of it: an agent has one such
   * session.
   */
  name: string;
  isAlone: boolean;
  /** Ends the calls of the session, also while the daemon is away. */
  signal: AbortSignal;
  /** Gets the line of each doorbell. */
  onDoorbell?: (line: string) => void;
}

export class Attendance {
  readonly #parts: AttendanceParts;
  readonly #daemon: PatientDaemon;
  readonly #sessionId: string;
  readonly #ending = new AbortController();
  readonly #signal: AbortSignal;
  /** The daemon may not see this process: it may be one of another container. */
  #namesProcess = true;
  #tellLost!: (error: unknown) => void;
  /** Rejects when the session is lost for good, as to another process that has it now. */
  readonly lost: Promise<never>;
  #waiting: Promise<void> = Promise.resolve();

  private constructor(parts: AttendanceParts) {
    this.#parts = parts;
    this.#signal = AbortSignal.any([this.#ending.signal, parts.signal]);
    this.#daemon = parts.daemon.endedBy(this.#signal);
    this.#sessionId = parts.isAlone ? parts.name : `${parts.name}-${randomBytes(4).toString('hex')}`;
    this.lost = new Promise((_resolve, reject) => {
      this.#tellLost = reject;
    });
    // A command that ends does not look at it any more.
    this.lost.catch(() => undefined);
  }

  /** Registers the session. Throws `CommandFailed`: at once when no daemon runs, or another process has it. */
  static async begin(parts: AttendanceParts): Promise<Attendance> {
    const attendance = new Attendance(parts);
    await attendance.#register((input) => attendance.#daemon.askNow('session-register', input));
    attendance.#waiting = attendance.#wait();
    return attendance;
  }

  /** Says which messages the program has from now on, what its agent was told, and what it does. */
  async report(given: Omit<InputOf<'session-heartbeat'>, 'session_id'>): Promise<void> {
    const input = { session_id: this.#sessionId, ...given };
    try {
      await this.#daemon.ask('session-heartbeat', input);
    } catch (error) {
      if (!isUnknownSession(error)) throw error;
      await this.#registerAgain();
      await this.#daemon.ask('session-heartbeat', input);
    }
  }

  /** Ends the session. A daemon that is away learns it from the end of this process. Never throws. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#waiting;
    const last = this.#parts.daemon.endedBy(AbortSignal.timeout(END_MS));
    // Where that fails, it ends with its process.
    await last.askNow('session-end', { session_id: this.#sessionId }).catch(() => undefined);
  }

  async #wait(): Promise<void> {
    const { onDoorbell = () => undefined } = this.#parts;
    const ask: AskDaemon = (...asked) => this.#daemon.ask(...asked);
    while (!this.#signal.aborted) {
      try {
        const line = await nextDoorbell(ask, this.#sessionId, SESSION_WAIT_MS_MAX);
        if (line !== undefined) onDoorbell(line);
      } catch (error) {
        await this.#recover(error);
      }
    }
  }

  /** Has the session again, or ends the waiting and tells the command why it has not. */
  async #recover(error: unknown): Promise<void> {
    if (this.#signal.aborted) return;
    const isReleased = error instanceof CommandFailed && error.code === 'RELEASED';
    try {
      if (!isUnknownSession(error) && !(isReleased && this.#namesProcess)) throw error;
      await this.#registerAgain();
    } catch (fault) {
      this.#ending.abort();
      this.#tellLost(fault);
    }
  }

  #registerAgain(): Promise<void> {
    return this.#register((input) => this.#daemon.ask('session-register', input));
  }

  async #register(
    register: (input: InputOf<'session-register'>) => Promise<OutputOf<'session-register'>>,
  ): Promise<void> {
    const input: InputOf<'session-register'> = {
      session_id: this.#sessionId,
      wake: [{ type: 'hook' }],
      reports_prompts: true,
      alone: this.#parts.isAlone,
    };
    try {
      await register(this.#namesProcess ? { ...input, pid: process.pid } : input);
    } catch (error) {
      const isOfProcess = error instanceof CommandFailed && error.details['field'] === 'pid';
      if (!isOfProcess || !this.#namesProcess) throw error;
      this.#namesProcess = false;
      await register(input);
    }
  }
}

function isUnknownSession(error: unknown): boolean {
  return error instanceof CommandFailed && error.code === 'NO_SUCH_SESSION';
}
