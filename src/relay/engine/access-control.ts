/**
 * Decides which hosts are admitted: enrolments, key rotations, revocations, deny entries, invites.
 *
 * A deny entry is in force from the moment it is admitted; the hosts that it names are revoked after it, in time
 * slices. A crash in between leaves some of them live, and the next start revokes the rest (`revokeDenied`).
 */
import type { Sha256Hex } from '../../protocol/encodings.ts';
import type { DenyHosts, EnrolHost, IssueInvite, RevokeHost, RotateKey } from '../core/command.ts';
import { decideDeny, decideInvite, decideLapse, decideRevoke, deniedHosts } from '../core/decide-admission.ts';
import { decideEnrol } from '../core/decide-enrolment.ts';
import { decideRotate } from '../core/decide-rotation.ts';
import {
  type Done,
  type EnrolOutcome,
  type HostFacts,
  type InviteOutcome,
  type Refusal,
  type RevokeOutcome,
  type RotateOutcome,
  fingerprints,
} from '../core/decision.ts';
import type { OpenInvite } from '../core/directory.ts';
import type { EnrolmentRow } from '../core/rows.ts';
import type { EngineParts } from './parts.ts';
import { TimeSlice } from '../../lib/clock.ts';

/** Deny entries and invites that one event forgets: a hundred thousand may expire at one moment. */
const LAPSED_AT_ONCE = 250;

export class AccessControl {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  async enrol(command: EnrolHost): Promise<EnrolOutcome | Refusal> {
    const { committer, store } = this.#parts;
    return committer.answer(decideEnrol(command, this.#facts(), store.logFormat));
  }

  #facts(): HostFacts {
    const { committer: rows, directory, admissions, settings } = this.#parts;
    return { rows, directory, admissions, settings };
  }

  /** Replaces a host's key. Resolves when its whole queue is under the new key. */
  async rotateKey(command: RotateKey): Promise<RotateOutcome | Refusal> {
    const { committer, queues } = this.#parts;
    const { oldPubkey, newPubkey, nowMs } = command;
    const keys = [oldPubkey, newPubkey];
    for (;;) {
      const wait = committer.isFull ? committer.room() : queues.waitFor(keys);
      const index = queues.index(oldPubkey);
      if (wait) await wait;
      else if (!index) await queues.loadIndex(oldPubkey);
      else {
        const decision = decideRotate(command, this.#facts(), index.released(Infinity, Infinity));
        if (decision.type === 'Refusal') return committer.answer(decision);
        committer.admit(decision.events);
        await queues.move(oldPubkey, nowMs);
        return committer.answer({ ...decision, events: [] });
      }
    }
  }

  async revokeHost(command: RevokeHost): Promise<RevokeOutcome | Refusal> {
    const { committer, directory } = this.#parts;
    return committer.answer(decideRevoke(command, directory.get(command.hostPubkey)));
  }

  /** Refuses these hosts from now on. Resolves when those that are live are revoked. */
  async denyHosts(command: DenyHosts): Promise<Done | Refusal> {
    const { committer, directory, admissions } = this.#parts;
    const decision = decideDeny(command, admissions.hasEntry(command), admissions.deniedCount);
    if (decision.type === 'Refusal') return committer.answer(decision);
    committer.admit(decision.events);
    await this.#revokeAll(deniedHosts(command, committer, directory), command.nowMs);
    return committer.answer({ ...decision, events: [] });
  }

  /** Revokes live hosts that a deny entry names: a crash may have come between the two. */
  async revokeDenied(nowMs: number): Promise<void> {
    const { directory, admissions } = this.#parts;
    if (admissions.deniedCount === 0) return;
    const isDenied = (host: EnrolmentRow): boolean => {
      const keys = fingerprints(directory, host.hostPubkey);
      return admissions.isDenied({ ...host, fingerprints: keys }, nowMs);
    };
    const live = [...directory.all()].filter(({ revokedAtMs }) => revokedAtMs === null);
    await this.#revokeAll(live.filter(isDenied), nowMs);
  }

  async issueInvite(command: IssueInvite): Promise<InviteOutcome | Refusal> {
    const { committer, admissions } = this.#parts;
    return committer.answer(decideInvite(command, admissions.inviteCount));
  }

  /** Invites that are neither used nor expired, durable. */
  async openInvites(nowMs: number): Promise<OpenInvite[]> {
    const rows = this.#parts.admissions.openInvites(nowMs);
    await this.#parts.committer.durable();
    return rows;
  }

  /** Ends an open invite before its time. Resolves with false when it was used, has expired or never was. */
  async revokeInvite(inviteHash: Sha256Hex, nowMs: number): Promise<boolean> {
    const { committer, admissions } = this.#parts;
    const invites = admissions.hasInvite(inviteHash) ? [inviteHash] : [];
    await committer.answer(decideLapse({ type: 'LapseAdmissions', denied: [], invites, nowMs }));
    return invites.length > 0;
  }

  async lapse(nowMs: number): Promise<void> {
    const { committer, admissions, monotonicMs } = this.#parts;
    const slice = new TimeSlice(monotonicMs);
    for (;;) {
      const lapsed = admissions.lapsed(nowMs, LAPSED_AT_ONCE);
      const { events } = decideLapse({ type: 'LapseAdmissions', ...lapsed, nowMs });
      if (events.length === 0) break;
      committer.admit(events);
      if (slice.isOver) await slice.pause();
      while (committer.isFull) await committer.room();
    }
    await committer.durable();
  }

  async #revokeAll(hosts: readonly EnrolmentRow[], nowMs: number): Promise<void> {
    const { committer, directory, monotonicMs } = this.#parts;
    const slice = new TimeSlice(monotonicMs);
    for (const { hostPubkey } of hosts) {
      if (slice.isOver) await slice.pause();
      while (committer.isFull) await committer.room();
      const command = { type: 'RevokeHost', hostPubkey, cause: 'denied', nowMs } as const;
      const decision = decideRevoke(command, directory.get(hostPubkey));
      if (decision.type === 'Decided') committer.admit(decision.events);
    }
  }
}
