/**
 * Knows who owes an answer to whom. A message with `needs_reply` is a question, and a question without an answer is a
 * debt of each of its recipients. Pure.
 *
 * What ends a debt:
 *   - an answer: a message that replies to the question and goes to its asker. It ends the debt of its sender, and of
 *     every recipient whom only a role or `*` meant: the first answer is enough for such a question;
 *   - the debtor's ack of the question;
 *   - that its delivery was cancelled, the debtor or the asker was removed, its host unpaired, or the message deleted.
 *
 * What a host cannot know, it does not decide: a debtor on another host is not told who else was asked, or that
 * somebody answered, so its own host keeps its debt until it answers or acks.
 */
import { isSameName, nameIn, OWNER_NAME } from './address.ts';
import { spanText } from './spans.ts';
import type { Address, AgentId, MessageRef, MessageRow, PeerRow, SentRecipient } from './rows.ts';

/** A debt of a mailbox here, under the position of the question in it. */
export interface OwedRow {
  ref: MessageRef;
  /** When the question came, by this host's clock. */
  sinceMs: number;
  remindedAtMs: number | null;
}

/** An agent here waits for this, under its question; deleted when nobody owes it anything any more. */
export interface AskedRow {
  sinceMs: number;
  open: OpenDebt[];
}

export interface OpenDebt {
  /** The place of the debtor among the recipients of the sent row. */
  at: number;
  /** Only a role or `*` meant it. */
  isGroup: boolean;
  /** The asker was told that the debtor may be gone. */
  isToldGone?: true;
}

type Question = Pick<MessageRow, 'needsReply' | 'fromAgent'>;

/** Nobody owes itself an answer. */
export function owesAnswer({ needsReply, fromAgent }: Question, agentId: AgentId | null): boolean {
  return needsReply && (agentId === null || agentId !== fromAgent);
}

/** The debts that a question begins; `groups`: the places of recipients whom only a role or `*` meant. */
export function debtsOf(
  question: Question,
  recipients: readonly Pick<SentRecipient, 'agentId' | 'state'>[],
  groups: ReadonlySet<number> = new Set(),
): OpenDebt[] {
  return recipients.flatMap(({ agentId, state }, at) =>
    owesAnswer(question, agentId) && !endsDebt(state) ? [{ at, isGroup: groups.has(at) }] : [],
  );
}

/** True of a state of a recipient after which it owes no answer. */
export function endsDebt(state: SentRecipient['state']): boolean {
  return state === 'acked' || state === 'cancelled';
}

type Recipient = Pick<SentRecipient, 'address' | 'agentId' | 'peerId'>;

/** The open debts that a message ends which replies to the question. */
export function settledBy(
  answer: Pick<MessageRow, 'from' | 'fromAgent' | 'fromPeer'>,
  recipients: readonly Recipient[],
  open: readonly OpenDebt[],
): OpenDebt[] {
  const writers = writersOf(answer, recipients);
  return writers.size === 0 ? [] : open.filter(({ at, isGroup }) => isGroup || writers.has(at));
}

function writersOf(
  { from, fromAgent, fromPeer }: Pick<MessageRow, 'from' | 'fromAgent' | 'fromPeer'>,
  recipients: readonly Recipient[],
): Set<number> {
  const places = (isMeant: (recipient: Recipient) => boolean): Set<number> =>
    new Set(recipients.flatMap((recipient, at) => (isMeant(recipient) ? [at] : [])));
  if (fromAgent !== null) return places(({ agentId }) => agentId === fromAgent);
  // A report of this host is no answer.
  if (fromPeer === null) return new Set();
  const named = places(({ address, peerId }) => peerId === fromPeer && isSameName(nameIn(address), nameIn(from)));
  if (named.size > 0) return named;
  // It may have been renamed, and a host does not tell whom it renamed.
  const ofHost = places(({ peerId }) => peerId === fromPeer);
  return ofHost.size === 1 ? ofHost : new Set();
}

/** A debtor is gone for good, or as far as its host's list of agents shows. */
export type Gone = 'removed' | 'unpaired' | 'unlisted';

interface WhereDebtorIs {
  /** The agent of this host was removed. */
  isRemoved: boolean;
  /** Null for an agent of this host. */
  peer: Pick<PeerRow, 'unpairedAtMs' | 'directory'> | null;
  /** A list with as many agents may have been cut. */
  listMax: number;
  /** When the question was asked, by this host's clock: the time of a state is by that of the debtor's host. */
  askedAtMs: number;
}

/** Undefined as long as an answer may come. */
export function howGone(
  { address, state, atMs }: Pick<SentRecipient, 'address' | 'state' | 'atMs'>,
  { isRemoved, peer, listMax, askedAtMs }: WhereDebtorIs,
): Gone | undefined {
  if (!peer) return isRemoved ? 'removed' : undefined;
  if (peer.unpairedAtMs !== null) return 'unpaired';
  const { directory } = peer;
  // The debtor was there when the question was delivered: a list from before that shows nothing, as one that was cut.
  const isTelling = directory && directory.fetchedAtMs > Math.max(atMs, askedAtMs) && directory.agents.length < listMax;
  if (!isTelling || !isWithDebtor(state)) return undefined;
  const isListed = directory.agents.some(({ name }) => isSameName(name, nameIn(address)));
  return isListed || isSameName(nameIn(address), OWNER_NAME) ? undefined : 'unlisted';
}

/** True when the debtor has the question; of any other state its asker was told in another way. */
export function isWithDebtor(state: SentRecipient['state']): boolean {
  return state === 'delivered' || state === 'notified' || state === 'read';
}

interface ReportText {
  subject: string;
  body: string;
}

/** A report names as many debtors: its subject is one line. */
const DEBTORS_NAMED_MAX = 5;

/**
 * The report to the asker. `debtors` are gone in the same way. It names the question by its id: the subject of a reply
 * may be of another host's words, and this is the host's voice.
 */
export function goneText(
  gone: Gone,
  { debtors, ref, hostName }: { debtors: readonly Address[]; ref: MessageRef; hostName: string },
): ReportText {
  const shown = debtors.slice(0, DEBTORS_NAMED_MAX).join(', ');
  const more = debtors.length - DEBTORS_NAMED_MAX;
  const whom = more > 0 ? `${shown} and ${more} more` : shown;
  const question = `your message ${ref}`;
  switch (gone) {
    case 'removed':
      return {
        subject: `No answer will come from ${whom}`,
        body: `${whom} was removed and had not answered ${question}.`,
      };
    case 'unpaired':
      return {
        subject: `No answer will come from ${whom}`,
        body: `This host and ${hostName} were unpaired before ${whom} answered ${question}.`,
      };
    case 'unlisted':
      return {
        subject: `An answer may not come from ${whom}`,
        body: `${hostName} does not list ${whom} any more: removed or renamed. There is no answer to ${question} yet.`,
      };
  }
}

/** The one reminder of a debt, in the thread of the question. Nothing of it is the asker's words, as in `goneText`. */
export function reminderText({ from, ref }: Pick<MessageRow, 'from' | 'ref'>, ageMs: number): ReportText {
  return {
    subject: `${from} waits for your answer`,
    body:
      `${from} asked you something ${spanText(ageMs)} ago, in message ${ref}, and has no answer. ` +
      `Reply to that message, or ack that message if it needs no answer.`,
  };
}
