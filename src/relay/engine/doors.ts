/**
 * Who is let in and who is kept out: revocations, deny entries, invites.
 *
 * A deny entry is in force from the moment it is admitted; the hosts that it means are revoked after it, in stretches.
 * A crash in between leaves some of them in, and the next start revokes the rest (`revokeDenied`).
 */
import { type Admissions } from '../core/admissions.ts';
import type { DenyHosts, IssueInvite, RevokeHost } from '../core/command.ts';
import { decideDeny, decideInvite, decideLapse, decideRevoke, deniedHosts } from '../core/decide-admission.ts';
import type { Done, InviteOutcome, Refusal, RevokeOutcome } from '../core/decision.ts';
import type { Directory } from '../core/directory.ts';
import { fingerprints } from '../core/facts.ts';
import type { EnrolmentRow, InviteRow } from '../core/rows.ts';
import type { Committer } from './committer.ts';
import { Stretch } from './stretch.ts';

/** Deny entries and invites that one event forgets: a hundred thousand may lapse in one moment. */
const LAPSED_AT_ONCE = 250;

export interface DoorsOptions {
  committer: Committer;
  directory: Directory;
  admissions: Admissions;
  monotonicMs: () => number;
}

export class Doors {
  readonly #options: DoorsOptions;

  constructor(options: DoorsOptions) {
    this.#options = options;
  }

  async revokeHost(command: RevokeHost): Promise<RevokeOutcome | Refusal> {
    const { committer, directory } = this.#options;
    return committer.answer(decideRevoke(command, directory.get(command.hostPubkey)));
  }

  /** From now on these hosts are kept out; those that are in are revoked when this resolves. */
  async denyHosts(command: DenyHosts): Promise<Done | Refusal> {
    const { committer, directory, admissions } = this.#options;
    const decision = decideDeny(command, admissions.hasEntry(command), admissions.deniedCount);
    if (decision.type === 'Refusal') return committer.answer(decision);
    committer.admit(decision.events);
    await this.#revokeAll(deniedHosts(command, committer, directory), command.nowMs);
    return committer.answer({ ...decision, events: [] });
  }

  /** A crash may have come between a deny entry and the revocations that it asks for. */
  async revokeDenied(nowMs: number): Promise<void> {
    const { committer, directory, admissions } = this.#options;
    if (admissions.deniedCount === 0) return;
    const isDenied = (host: EnrolmentRow): boolean => {
      const keys = fingerprints(committer, host.hostPubkey);
      return admissions.isDenied({ ...host, fingerprints: keys }, nowMs);
    };
    const live = [...directory.all()].filter(({ revokedAtMs }) => revokedAtMs === null);
    await this.#revokeAll(live.filter(isDenied), nowMs);
  }

  async issueInvite(command: IssueInvite): Promise<InviteOutcome | Refusal> {
    const { committer, admissions } = this.#options;
    return committer.answer(decideInvite(command, admissions.inviteCount));
  }

  /** The invites that nobody has used and whose time has not passed, durable. */
  async openInvites(nowMs: number): Promise<InviteRow[]> {
    const rows = this.#options.admissions.openInvites(nowMs);
    await this.#options.committer.durable();
    return rows;
  }

  /** Forgets deny entries and invites whose time passed. */
  async lapse(nowMs: number): Promise<void> {
    const { committer, admissions, monotonicMs } = this.#options;
    const stretch = new Stretch(monotonicMs);
    for (;;) {
      const lapsed = admissions.lapsed(nowMs, LAPSED_AT_ONCE);
      const { events } = decideLapse({ type: 'LapseAdmissions', ...lapsed, nowMs });
      if (events.length === 0) break;
      committer.admit(events);
      if (stretch.isOver) await stretch.pause();
      while (committer.isFull) await committer.room();
    }
    await committer.durable();
  }

  async #revokeAll(hosts: readonly EnrolmentRow[], nowMs: number): Promise<void> {
    const { committer, directory, monotonicMs } = this.#options;
    const stretch = new Stretch(monotonicMs);
    for (const { hostPubkey } of hosts) {
      if (stretch.isOver) await stretch.pause();
      while (committer.isFull) await committer.room();
      const command = { type: 'RevokeHost', hostPubkey, cause: 'denied', nowMs } as const;
      const decision = decideRevoke(command, directory.get(hostPubkey));
      if (decision.type === 'Decided') committer.admit(decision.events);
    }
  }
}
