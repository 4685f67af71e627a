/**
 * A move of this host from one of its relays to another. Pure: facts go in, the row after them and what is to be done
 * come out; `host/relay/relay-move.ts` carries it out.
 *
 *     adding ─▶ both ─▶ told ─▶ leaving ─▶ closing ─▶ done
 *
 * While it is `adding`, only this host uses the new relay. From `both` on its document names the new relay first, from
 * `leaving` on without the old one. In `closing` the old relay refuses every sender.
 *
 * Invariants:
 *   - each state follows from what is stored and from what relays and hosts showed, so a start goes on where it was;
 *   - the old relay is shut only while the new one is well, and removed only when it was seen empty after that;
 *   - a host that does not say what it knows is written to once, and holds the old relay for 60 days, not for ever.
 */
import { DAY_MS } from '../../protocol/limits.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { OutboxClock } from './outbox-event.ts';
import type { PeerId } from './rows.ts';
import { earliest } from './outbox-row.ts';

/** DO NOT CHANGE a state: persisted. */
export const MOVE_STATES = ['adding', 'both', 'told', 'leaving', 'closing', 'done'] as const;
export type MoveState = (typeof MOVE_STATES)[number];

/** Nothing came at the old relay for so long. */
export const MOVE_QUIET_MS = DAY_MS;
/** A host that does not say that it knows the new relay by then is written to. */
export const MOVE_WRITE_AFTER_MS = 7 * DAY_MS;
/** The old relay stays so long after its last item for hosts that do not say what they know. */
export const MOVE_HELD_MS = 60 * DAY_MS;

export interface MovedRelay {
  pubkey: PublicKey;
  url: string;
}

/** The move that is under way, or the last one. */
export interface RelayMoveRow {
  state: MoveState;
  from: MovedRelay;
  to: MovedRelay;
  /** The move added the new relay: it goes again when the move is cancelled before any host learned of it. */
  hasAdded: boolean;
  startedAtMs: number;
  /** When the state began. */
  sinceMs: number;
  /** When this host began to name the new relay; null before. */
  namedAtMs: number | null;
  /** The seq of the first document that names the new relay, and of the first without the old one; null before. */
  namedSeq: number | null;
  leftSeq: number | null;
  /** When the last item came at the old relay, as far as it is known; null before. */
  lastItemAtMs: number | null;
  /** The hosts whose owners were told in words. */
  written: readonly PeerId[];
}

/** A paired host, and the largest seq of this host's document that it showed to know: 0 for none. */
export interface MovePeer {
  peerId: PeerId;
  pairedAtMs: number;
  knownSeq: number;
}

export interface MoveFacts extends OutboxClock {
  /** The relays are in use. */
  hasOld: boolean;
  hasNew: boolean;
  /** The new relay has a session of this host's present key, and is not down. */
  isNewWell: boolean;
  /** The document that this host shows now. */
  document: { seq: number; relays: readonly PublicKey[] } | null;
  peers: readonly MovePeer[];
  lastItemAtMs: number | null;
  /** Messages that the old relay still has and that nobody confirmed. */
  heldAtOld: number;
  /** The old relay has the empty list of senders, in its present epoch. */
  isShut: boolean;
  /** All was received, by an answer to a pull that was asked for after that. */
  isDrained: boolean;
}

export type MoveEffect =
  /** The new relay becomes a home, and the first. */
  | { type: 'PreferNew' }
  /** The document is to name the old relay no more; in `closing`, that relay is to get the empty list. */
  | { type: 'LeaveOld' }
  /** The move is over: the document is to name the old relay again, and that one to take mail. */
  | { type: 'StayAtOld' }
  | { type: 'ShutOld' }
  | { type: 'RemoveOld' }
  /** The owners of these hosts are told in words. */
  | { type: 'Write'; peerIds: PeerId[] };

export interface MoveStep {
  /** The same object when nothing changed; null when the move is over without an end: its new relay is gone. */
  row: RelayMoveRow | null;
  effects: MoveEffect[];
  /** When time alone changes something, by the clock of now; null for never. */
  nextMs: number | null;
}

export function newMove(from: MovedRelay, to: MovedRelay, hasAdded: boolean, nowMs: number): RelayMoveRow {
  return {
    state: 'adding',
    from,
    to,
    hasAdded,
    startedAtMs: nowMs,
    sinceMs: nowMs,
    namedAtMs: null,
    namedSeq: null,
    leftSeq: null,
    lastItemAtMs: null,
    written: [],
  };
}

/** One step, or none. A row that changed is stepped again. */
export function stepMove(row: RelayMoveRow, facts: MoveFacts): MoveStep {
  if (row.state === 'done') return stay(row);
  // The owner removed one of the two.
  if (!facts.hasNew) return go(null, { type: 'StayAtOld' });
  if (!facts.hasOld) return go(entered(row, 'done', facts), { type: 'PreferNew' });
  switch (row.state) {
    case 'adding':
      if (!facts.isNewWell) return stay(row);
      return go({ ...entered(row, 'both', facts), namedAtMs: facts.nowMs }, { type: 'PreferNew' });
    case 'both':
      return stepBoth(row, facts);
    case 'told':
      return go(entered(row, 'leaving', facts), { type: 'LeaveOld' });
    case 'leaving':
      return stepLeaving(row, facts);
    case 'closing':
      if (!facts.isShut || !facts.isDrained) return stay(row);
      return go(entered(row, 'done', facts), { type: 'RemoveOld' });
  }
}

/** Waits for every host to know the new relay; for one that does not say so, until it was written to. */
function stepBoth(row: RelayMoveRow, facts: MoveFacts): MoveStep {
  const { document } = facts;
  if (row.namedSeq === null) {
    const isNamed = document?.relays.includes(row.to.pubkey) === true;
    return isNamed ? go({ ...row, namedSeq: document.seq }) : stay(row);
  }
  const writing = writtenTo(row, facts);
  if (writing.step) return writing.step;
  const isTold = facts.peers.every((peer) => isAware(row, peer) || row.written.includes(peer.peerId));
  return isTold ? go(entered(row, 'told', facts)) : stay(row, writing.nextMs);
}

function stepLeaving(row: RelayMoveRow, facts: MoveFacts): MoveStep {
  const { document, nowMs, momentMs, lastItemAtMs } = facts;
  const hasLeft = document !== null && !document.relays.includes(row.from.pubkey);
  if (row.leftSeq === null) return hasLeft ? go({ ...row, leftSeq: document.seq }) : stay(row);
  if (lastItemAtMs !== null && lastItemAtMs > (row.lastItemAtMs ?? 0)) return go({ ...row, lastItemAtMs });
  const writing = writtenTo(row, facts);
  if (writing.step) return writing.step;
  const { leftSeq, namedAtMs, sinceMs } = row;
  const afterItem = (ownMs: number, spanMs: number): number =>
    momentMs(Math.max(ownMs, row.lastItemAtMs ?? 0)) + spanMs;
  const isKnown = facts.peers.every(({ knownSeq }) => knownSeq >= leftSeq);
  const quietMs = afterItem(sinceMs, MOVE_QUIET_MS);
  const readyMs = isKnown ? quietMs : Math.max(quietMs, afterItem(namedAtMs ?? sinceMs, MOVE_HELD_MS));
  if (nowMs < readyMs) return stay(row, earliest([writing.nextMs, readyMs]));
  if (facts.heldAtOld > 0 || !facts.isNewWell) return stay(row, writing.nextMs);
  return go(entered(row, 'closing', facts), { type: 'ShutOld' });
}

/** Hosts that did not show for 7 days that they know the new relay; else when the next one is to be written to. */
function writtenTo(row: RelayMoveRow, facts: MoveFacts): { step?: MoveStep; nextMs: number | null } {
  const { nowMs, momentMs } = facts;
  let nextMs: number | null = null;
  const peerIds: PeerId[] = [];
  for (const peer of facts.peers) {
    const { peerId, pairedAtMs } = peer;
    if (isAware(row, peer) || row.written.includes(peerId)) continue;
    const atMs = momentMs(Math.max(row.namedAtMs ?? row.sinceMs, pairedAtMs)) + MOVE_WRITE_AFTER_MS;
    if (nowMs >= atMs) peerIds.push(peerId);
    else nextMs = earliest([nextMs, atMs]);
  }
  if (peerIds.length === 0) return { nextMs };
  const written = [...row.written, ...peerIds];
  return { step: go({ ...row, written }, { type: 'Write', peerIds }), nextMs };
}

/** It showed that it knows the new relay. */
function isAware({ namedSeq }: RelayMoveRow, { knownSeq }: MovePeer): boolean {
  return namedSeq !== null && knownSeq >= namedSeq;
}

function entered(row: RelayMoveRow, state: MoveState, { nowMs }: OutboxClock): RelayMoveRow {
  return { ...row, state, sinceMs: nowMs };
}

function go(row: RelayMoveRow | null, ...effects: MoveEffect[]): MoveStep {
  return { row, effects, nextMs: null };
}

function stay(row: RelayMoveRow, nextMs: number | null = null): MoveStep {
  return { row, effects: [], nextMs };
}

/** What becomes of the new relay when the owner cancels: undefined when the old relay may have refused mail already. */
export function cancelledMove({ state, hasAdded }: RelayMoveRow): 'remove-new' | 'keep-both' | undefined {
  if (state === 'closing' || state === 'done') return undefined;
  return state === 'adding' && hasAdded ? 'remove-new' : 'keep-both';
}

/** Says whether the document names this relay no more, though it is in use. */
export function isLeft(row: RelayMoveRow | undefined, relayPubkey: PublicKey): boolean {
  return row?.from.pubkey === relayPubkey && (row.state === 'leaving' || row.state === 'closing');
}

/** Says whether this relay is to refuse every sender. */
export function isDoorShut(row: RelayMoveRow | undefined, relayPubkey: PublicKey): boolean {
  return row?.from.pubkey === relayPubkey && row.state === 'closing';
}

/** The message to the owner of a host that does not say whether it knows. `word`: the new address in a command. */
export function moveLetter(
  { from, to }: RelayMoveRow,
  hostName: string,
  word: string,
): { subject: string; body: string } {
  const key = displayFingerprint(to.pubkey);
  return {
    subject: `${hostName} takes mail at another relay`,
    body:
      `The host ${hostName} takes mail at another relay from now on:\n\n  ${to.url}\n  ${key}\n\n` +
      `It leaves ${from.url}. Your host has not shown that it knows that: its software may be older. If it does not ` +
      `use the new relay yet, poste relay add ${word} --key ${key} --guest adds it; in older software, ` +
      `poste relay set ${word} --key ${key} takes it in the place of the present one. Until then your mail for ` +
      `${hostName} may wait on your host, and its sender is told.`,
  };
}
