/**
 * Rings the doorbells of this host's agents: hears what happens, looks at the mailbox, lets the core decide, climbs the
 * ladder, and keeps what was proven.
 *
 *     what happened ─▶ mailbox as it is ─▶ stepDoorbell ─▶ ladder ─▶ heard: entries notified, session recorded
 *                                               ▲  └─▶ timer            │
 *                                               └──── what came of it ◀─┘
 *
 * What an agent was told is in its mailbox (`notifiedAtMs`), so a daemon that starts again knows it; the cooldown is
 * not kept. For one agent everything here happens one after the other.
 */
import { type Doorbell, type DoorbellHappening, QUIET_DOORBELL, stepDoorbell } from '../core/doorbell.ts';
import type { AgentId, WakeMethodName } from '../core/rows.ts';
import type { Happening, Office } from '../office/office.ts';
import type { WakeOutcome } from '../office/ring.ts';
import { agentsPresent, recordWoken } from '../office/sessions.ts';
import type { Cancel, Timers } from '../office/timers.ts';
import { type Unread, markTold, unreadOf } from '../office/waking-mail.ts';
import { type LadderResult, climbLadder } from './ladder.ts';
import type { Rungs } from './rung.ts';

/** How long a sender waits to hear whether the recipient was woken. */
export const RING_WAIT_MS = 1500;

/** What a sender is told. */
const WOKEN_BY: Readonly<Record<WakeMethodName, string>> = {
  hook: 'Woken now: the hook of its session took the doorbell.',
  command: 'Woken now: the wake command of its session succeeded.',
  tmux: 'Woken now: the doorbell was typed into its terminal.',
};
const NOT_WOKEN = {
  told: 'It was told of what is unread.',
  later: 'A doorbell rang a moment ago; it rings again if this stays unread.',
  unheard: 'A doorbell was tried, and nothing proves that it was heard.',
  nobody: 'None of its sessions can be woken now.',
  underWay: 'Its doorbell is still being rung.',
} as const;

/** What is known of one agent's doorbell. */
interface Post {
  doorbell: Doorbell;
  queue: DoorbellHappening[];
  /** Looks and decides, as long as there is something in the queue. */
  running: Promise<void> | undefined;
  /** The doorbell that rings, until what came of it is in the queue. */
  ringing: Promise<void> | undefined;
  cancelTimer: Cancel;
  /** The last that rang. */
  last: LadderResult | undefined;
  /** How many were heard. */
  heard: number;
  /** Whether a doorbell is due after a pause. */
  isDueLater: boolean;
}

export interface DoorbellParts {
  office: Office;
  timers: Timers;
  rungs: Rungs;
}

export class Doorbells {
  readonly #parts: DoorbellParts;
  readonly #posts = new Map<AgentId, Post>();
  readonly #closing = new AbortController();
  readonly #endListening: () => void;

  constructor(parts: DoorbellParts) {
    this.#parts = parts;
    this.#endListening = parts.office.listen((happening) => this.#hear(happening));
  }

  /** What came while no daemon ran, or was not rung before it ended, rings for those who are there. */
  async start(): Promise<void> {
    for (const agentId of await agentsPresent(this.#parts.office)) this.#happen(agentId, { type: 'look' });
  }

  /** For who sends: after the commit, bounded in time. Never rejects. */
  readonly ring = async (agentId: AgentId): Promise<WakeOutcome> => {
    const post = this.#post(agentId);
    const heardBefore = post.heard;
    this.#happen(agentId, { type: 'look' });
    const isSettled = await this.#settledInTime(post);
    if (post.heard > heardBefore && post.last?.by) return { isWoken: true, detail: WOKEN_BY[post.last.by.method] };
    if (!isSettled) return { isWoken: false, detail: NOT_WOKEN.underWay };
    return { isWoken: false, detail: whyNot(post) };
  };

  /** Rings no more. Resolves when nothing here is under way. */
  async close(): Promise<void> {
    this.#endListening();
    this.#closing.abort();
    await Promise.all([...this.#posts.values()].map((post) => this.#settled(post)));
    for (const { cancelTimer } of this.#posts.values()) cancelTimer();
  }

  #hear(happening: Happening): void {
    switch (happening.type) {
      case 'mail-stored':
        if (happening.wakes) this.#happen(happening.agentId, { type: 'look' });
        return;
      case 'mail-handled':
        // Of an agent that nobody rings for there is nothing to take back.
        if (this.#posts.has(happening.agentId)) this.#happen(happening.agentId, { type: 'look' });
        return;
      case 'session-registered':
        this.#happen(happening.agentId, { type: 'session-came' });
        return;
      case 'session-told':
        this.#happen(happening.agentId, { type: 'told' });
        this.#happen(happening.agentId, { type: 'listener-came' });
        return;
      case 'session-waits':
        this.#happen(happening.agentId, { type: 'listener-came' });
        return;
      default:
    }
  }

  #happen(agentId: AgentId, happening: DoorbellHappening): void {
    const post = this.#post(agentId);
    // What came of a doorbell is taken in also while this closes: whoever waits for it is to end.
    if (this.#closing.signal.aborted && happening.type !== 'rung') return;
    post.queue.push(happening);
    post.running ??= this.#run(agentId, post);
  }

  async #run(agentId: AgentId, post: Post): Promise<void> {
    try {
      while (post.queue.length > 0) {
        const mail = await this.#parts.office.store.read((reader) => unreadOf(reader, agentId));
        for (const happening of post.queue.splice(0)) this.#step(agentId, post, mail, happening);
      }
    } catch (error) {
      // A store that failed ends the daemon; nothing here knows better.
      post.queue = [];
      this.#parts.office.log('warn', 'a doorbell could not be decided', { err: error });
    }
    // With the look at the queue: what comes from now on starts the next run.
    post.running = undefined;
  }

  #step(agentId: AgentId, post: Post, mail: Unread, happening: DoorbellHappening): void {
    const nowMs = this.#parts.office.monotonicMs();
    const { doorbell, rings, nextAtMs } = stepDoorbell(post.doorbell, mail.waking, happening, nowMs);
    post.doorbell = doorbell;
    post.cancelTimer();
    post.isDueLater = nextAtMs !== null;
    if (nextAtMs !== null && !this.#closing.signal.aborted) {
      const look = (): void => this.#happen(agentId, { type: 'look' });
      post.cancelTimer = this.#parts.timers.after(Math.max(0, nextAtMs - nowMs), look);
    }
    if (!rings) return;
    post.ringing = this.#ring(agentId, post, mail);
  }

  async #ring(agentId: AgentId, post: Post, { text, until }: Unread): Promise<void> {
    const { office, rungs } = this.#parts;
    let result: LadderResult = { outcome: 'nobody', by: null };
    try {
      if (text === null) throw new Error('invariant: whoever is rung for has unread mail');
      result = await climbLadder(office, rungs, agentId, text, this.#closing.signal);
      const { by } = result;
      if (by) {
        await office.store.transact(async (tx) => {
          recordWoken(tx, office, by.session, by.method);
          await markTold(tx, office, agentId, until);
        });
      }
    } catch (error) {
      office.log('warn', 'a doorbell failed', { err: error });
    }
    post.last = result;
    if (result.by) post.heard++;
    post.ringing = undefined;
    this.#happen(agentId, { type: 'rung', outcome: result.outcome });
  }

  #settledInTime(post: Post): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.#parts.timers.after(RING_WAIT_MS, () => resolve(false));
      void this.#settled(post).then(() => {
        cancel();
        resolve(true);
      });
    });
  }

  /** Resolves when nothing is under way for an agent; a doorbell that is due later is not waited for. */
  async #settled(post: Post): Promise<void> {
    while (post.running ?? post.ringing) {
      await post.running;
      await post.ringing;
    }
  }

  #post(agentId: AgentId): Post {
    const known = this.#posts.get(agentId);
    if (known) return known;
    const post: Post = {
      doorbell: QUIET_DOORBELL,
      queue: [],
      running: undefined,
      ringing: undefined,
      cancelTimer: () => undefined,
      last: undefined,
      heard: 0,
      isDueLater: false,
    };
    this.#posts.set(agentId, post);
    return post;
  }
}

function whyNot({ doorbell, isDueLater, last }: Post): string {
  if (doorbell.isStranded) return NOT_WOKEN.nobody;
  if (last?.outcome === 'unheard') return NOT_WOKEN.unheard;
  return isDueLater ? NOT_WOKEN.later : NOT_WOKEN.told;
}
