/**
 * Checks what a run over real daemons must have left: every accepted message is in each recipient's mailbox exactly
 * once, or its sender was alerted; nothing that a sender is told of a recipient is more than what happened there; and
 * no send says that an agent was woken whom nothing woke. Pure: it compares what the callers did and were answered with
 * what is there.
 */
import { DELIVERY_STATES } from '../../../src/protocol/documents.ts';
import type { SendResult } from '../../../src/host/contract/mail.ts';

/** One message that an agent wrote. Times are by the monotonic clock of the test. */
export interface Asked {
  subject: string;
  /** `agent@host`. */
  from: string;
  beganMs: number;
  /** Absent while nothing was answered, or when it was refused. */
  accepted?: { result: SendResult; endedMs: number };
}

/** An act of an agent, or something it was shown, which a receipt may tell its senders. */
export interface Act {
  agent: string;
  /** `told`: it saw a list of its mailbox, or how many messages are unread. */
  what: 'told' | 'read' | 'acked';
  /** The messages; all when absent. */
  ids?: readonly string[];
  /** Those of them that it changed, as the answer said. */
  changed?: readonly string[];
  /** `Infinity` while it is not known when it was done last. */
  endedMs: number;
}

/** The line of a doorbell was shown to an agent, and that was about to be reported. */
export interface Shown {
  agent: string;
  atMs: number;
}

/** A host took the place of its present state by a backup. */
export interface HostRestore {
  host: string;
  takenMs: number;
  restoredMs: number;
  /** The number of messages that the restore said are missing now. */
  messagesSince: number;
}

export interface Mail {
  messageId: string;
  subject: string;
  from: string;
  kind: string;
  replyTo: string | null;
}

/** The state of everything once nothing moves any more. */
export interface Seen {
  /** By the id of each message that an agent sent: the states of each recipient, the present one last. */
  sent: ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;
  /** By `agent@host`. */
  boxes: ReadonlyMap<string, readonly Mail[]>;
  /** `agent@host` of those whose sessions a daemon calls woken. */
  woken: ReadonlySet<string>;
  /** The items still on their way or in quarantine, a line each. */
  open: readonly string[];
  /** Hosts whose owners have a report of a restore. */
  reported: ReadonlySet<string>;
}

export interface History {
  /** The requests of this run. */
  asked: readonly Asked[];
  /** The requests of every run of this world so far. */
  everAsked: readonly Asked[];
  acts: readonly Act[];
  shown: readonly Shown[];
  restores: readonly HostRestore[];
  /** In earlier runs of this world. */
  earlierRestores: readonly HostRestore[];
}

const RANKS = new Map<string, number>(DELIVERY_STATES.map((state, at) => [state, at + 1]));

function rank(state: string | undefined): number {
  return RANKS.get(state ?? '') ?? 0;
}

function hostOf(address: string): string {
  return address.slice(address.indexOf('@') + 1);
}

/** Returns what is wrong, a sentence each; nothing when all is well. */
export function faultsIn(history: History, seen: Seen): string[] {
  const faults = seen.open.map((row) => `${row}, for ever`);
  const lost = new Map<string, Set<string>>();
  for (const asked of history.asked) faults.push(...faultsOf(asked, history, seen, lost));
  faults.push(...strangeMail(history, seen), ...untoldLosses(history, seen, lost));
  for (const agent of seen.woken) {
    if (!history.shown.some((shown) => shown.agent === agent))
      faults.push(`${agent} is said to have been woken, and never was`);
  }
  return faults;
}

function faultsOf(asked: Asked, history: History, seen: Seen, lost: Map<string, Set<string>>): string[] {
  const { accepted, from, subject } = asked;
  if (!accepted) return [];
  const { message_id: id, recipients } = accepted.result;
  const faults = wakesThatWereNone(asked, history);
  const states = seen.sent.get(id);
  const isForgotten = !states && history.restores.some((restore) => mayForget(restore, asked));
  if (isForgotten) note(lost, hostOf(from), id);
  if (!states && !isForgotten) faults.push(`${subject} was accepted and is not there any more`);
  const alerts = (seen.boxes.get(from) ?? []).filter(({ kind, replyTo }) => kind === 'alert' && replyTo === id).length;
  if (alerts > 0 && history.restores.length === 0) faults.push(`${subject}: its sender was alerted for nothing`);
  for (const { recipient } of recipients) {
    const times = (seen.boxes.get(recipient) ?? []).filter(({ messageId }) => messageId === id).length;
    const what = `${subject} of ${from} to ${recipient}`;
    if (times > 1) faults.push(`${what} arrived ${times} times`);
    if (!states) continue;
    const known = states.get(recipient) ?? [];
    const state = known.at(-1) ?? 'unknown';
    const isUndone = history.restores.some(
      ({ host, restoredMs }) => host === hostOf(recipient) && restoredMs >= asked.beganMs,
    );
    if (times === 0 && isUndone && alerts === 0) note(lost, hostOf(recipient), id);
    if (times === 0 && !isUndone) {
      if (rank(state) > 0) faults.push(`${what} did not arrive and is said to be ${state}`);
      else if (alerts === 0) faults.push(`${what} was lost in silence (${state})`);
    }
    if (times === 1 && rank(state) === 0 && alerts === 0)
      faults.push(`${what} arrived and its sender knows nothing of it (${state})`);
    faults.push(...lies(what, { known, id, recipient }, asked, history));
  }
  return faults;
}

/** Says whether the restore may have taken the message from the host of its sender. */
export function mayForget({ host, takenMs, restoredMs }: HostRestore, { from, beganMs, accepted }: Asked): boolean {
  return host === hostOf(from) && (accepted?.endedMs ?? Infinity) >= takenMs && beganMs <= restoredMs;
}

function note(lost: Map<string, Set<string>>, host: string, id: string): void {
  const ids = lost.get(host) ?? new Set();
  lost.set(host, ids.add(id));
}

/** States that say more of a recipient than what happened. */
function lies(
  what: string,
  { known, id, recipient }: { known: readonly string[]; id: string; recipient: string },
  { beganMs }: Asked,
  { acts }: History,
): string[] {
  const done = acts.filter(
    ({ agent, ids, endedMs }) => agent === recipient && endedMs >= beganMs && (ids === undefined || ids.includes(id)),
  );
  const highest = Math.max(rank('delivered'), ...done.map(({ what: act }) => rank(act === 'told' ? 'notified' : act)));
  return known
    .filter((state) => rank(state) > highest)
    .map((state) => `${what} is said to be ${state}, and nobody did that`);
}

function wakesThatWereNone({ subject, beganMs, accepted }: Asked, { shown }: History): string[] {
  if (!accepted) return [];
  const { result, endedMs } = accepted;
  return result.recipients
    .filter(({ status }) => status === 'live-wake')
    .filter(
      ({ recipient }) => !shown.some(({ agent, atMs }) => agent === recipient && atMs >= beganMs && atMs <= endedMs),
    )
    .map(({ recipient }) => `${subject} says that it woke ${recipient}, and nothing did`);
}

/** Mail that nobody wrote, and mail of earlier runs that came again. */
function strangeMail({ everAsked }: History, { boxes }: Seen): string[] {
  const subjects = new Set(everAsked.map(({ subject }) => subject));
  const faults: string[] = [];
  for (const [address, box] of boxes) {
    const times = new Map<string, number>();
    for (const { subject, from } of box) {
      if (from.startsWith('poste@')) continue;
      if (!subjects.has(subject)) faults.push(`${address} has mail that nobody wrote: ${subject}`);
      times.set(subject, (times.get(subject) ?? 0) + 1);
    }
    for (const [subject, count] of times) if (count > 1) faults.push(`${address} has ${subject} ${count} times`);
  }
  return faults;
}

/** What a restore took away must be counted in what it said, and its owner must have the report. */
function untoldLosses(
  { restores }: History,
  { reported }: Seen,
  lost: ReadonlyMap<string, ReadonlySet<string>>,
): string[] {
  const faults: string[] = [];
  for (const [host, ids] of lost) {
    const own = restores.filter((restore) => restore.host === host);
    const told = own.reduce((sum, { messagesSince }) => sum + messagesSince, 0);
    if (ids.size > told) faults.push(`${ids.size} messages are gone from ${host}, and its restore spoke of ${told}`);
  }
  for (const { host } of restores)
    if (!reported.has(host)) faults.push(`the owner of ${host} has no report of its restore`);
  return faults;
}
