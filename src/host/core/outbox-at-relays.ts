/**
 * The states of an outbox row at relays: what one event at one relay makes of it (outbox.ts has the other events).
 *
 * Specification, "Sender outbox row (relay path)". With one relay a row has `acceptance` alone. From the first push to
 * one of several on it has `tried`, with each relay that its bytes left for, and `copies`, with what each took; this
 * file alone changes both. Pure. Invariants of a row with several relays:
 *   - `tried` names a relay before the bytes leave for it, and keeps its name until it refused the item and answered
 *     every push there: its refusals come before its dedup, so one after a push without an answer proves nothing;
 *   - a notice ends the row only when every relay of `tried` has refused it, or says that its time was up when that can
 *     be true. One that has it, may have it, or never answered keeps the row open until its deadline;
 *   - what fails at one relay delays the row there alone, once another one has it;
 *   - `acceptance`, `proven` and `denied` are those of the newest live copy, so that older software reads the row.
 */
import { assertNever } from '../../lib/assert-never.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { OutboxClock, OutboxEvent, OutboxFacts } from './outbox-event.ts';
import {
  alertRow,
  backoffMs,
  changeRow,
  doubtedSoon,
  endRow,
  isSending,
  keepRow,
  keptError,
  type MovedRow,
  soonest,
  ASK_AGAIN_MS,
  askAgainMs,
  firstAcceptance,
  copiesOf,
  copyAt,
  isAcceptedIn,
  isExpiryInTime,
  liveCopies,
  triedAt,
} from './outbox-row.ts';
import type { RelayAcceptance, RelayCopy, TriedRelay } from './relay-acceptance.ts';
import type { OutboxRow } from './rows.ts';

/** A relay's word of when it took an item counts back to so long before the first push there. */
const CLOCKS_DIFFER_MS = 300_000;
/** A notice that is dated by more than this before the relay's retention is over is wrong. */
const NOTICE_EARLY_MS = DAY_MS;

export type RelayEvent = Extract<OutboxEvent, { type: `relay-${string}` | 'expired' | 'new-epoch' | 'too-large' }>;

/** Returns the row after `event`, before its deadlines are applied. */
export function moveAtRelay(row: OutboxRow, event: RelayEvent, facts: OutboxFacts): MovedRow {
  const { nowMs } = facts;
  switch (event.type) {
    case 'relay-pushing': {
      if (!isSending(row)) return keepRow(row);
      const { relayPubkey, isOneOfMany, oldestRelay } = event;
      const pushed = isOneOfMany ? severally(row, oldestRelay) : row;
      const tried = pushed.tried && { tried: triedAgain(pushed, relayPubkey, nowMs) };
      return changeRow(pushed, { firstPushAtMs: row.firstPushAtMs ?? nowMs, ...tried });
    }
    case 'relay-accepted': {
      if (event.isVerified) return acceptedByRelay(row, event, facts);
      return failedAtRelay(row, event.acceptance.relayPubkey, 'the accept receipt does not verify', facts);
    }
    case 'relay-stored':
      // An acceptance by a relay of v2 stands: v1 proves nothing.
      if (!isSending(row)) return keepRow(row);
      // The peer is asked next, where the LAN reaches it.
      if (row.state === 'lan-accepted')
        return changeRow(row, { relayAttempts: 1, nextAtMs: nowMs + askAgainMs(row, facts) });
      return changeRow(row, {
        relayAttempts: 0,
        lastError: null,
        nextAtMs: nowMs + ASK_AGAIN_MS,
        ...(row.state === 'pending' && { relayStoredAtMs: nowMs }),
      });
    case 'relay-refused':
      return refusedByRelay(row, event, facts);
    case 'too-large':
      return tooLarge(row, facts) ?? keepRow(row);
    case 'relay-failed':
      return failedAtRelay(row, event.relayPubkey, event.reason, facts);
    case 'expired':
      return expiredAtRelay(row, event, facts);
    case 'relay-removed': {
      const copy = copyAt(row, event.relayPubkey);
      if (!isSending(row) || row.firstPushAtMs === null || copy?.state === 'expired') return keepRow(row);
      const known = severally(row, event.relayPubkey);
      const gone = copy ? withCopy(known, { ...copy, state: 'gone' }) : known;
      return changeRow(gone, liveCopies(gone).length === 0 ? { nextAtMs: soonest(row, nowMs) } : {});
    }
    case 'relay-brought': {
      const { kind, broughtBy = [] } = row;
      if (kind !== 'receipt' || broughtBy.includes(event.relayPubkey)) return keepRow(row);
      const nextAtMs = copyAt(row, event.relayPubkey) ? row.nextAtMs : soonest(row, nowMs);
      return changeRow(row, { broughtBy: [...broughtBy, event.relayPubkey], nextAtMs });
    }
    case 'relay-ready':
      return relayReady(row, event, facts);
    default:
      return movedByStore(row, event, facts);
  }
}

type StoreEvent = Extract<RelayEvent, { type: 'new-epoch' | 'relay-rewound' | 'relay-proven' | 'relay-denied' }>;

/** What is learned of the relay's store concerns what it took. */
function movedByStore(row: OutboxRow, event: StoreEvent, facts: OutboxFacts): MovedRow {
  const { relayPubkey } = event;
  if (row.state !== 'relay-accepted') return keepRow(row);
  const copy = copyAt(row, relayPubkey);
  switch (event.type) {
    case 'new-epoch':
      if (isAcceptedIn(row, relayPubkey, event.epoch)) return keepRow(row);
      if (!row.tried) return changeRow(row, { relayAttempts: 0, nextAtMs: facts.nowMs });
      return copy ? toPushAgain(row, copy, facts) : keepRow(row);
    case 'relay-rewound':
      return copy ? toPushAgain(row, mayBeLost(copy), facts) : keepRow(row);
    case 'relay-proven': {
      if (!copy || !isAcceptedIn(row, relayPubkey, event.epoch)) return keepRow(row);
      const { denied: _denied, ...proven } = { ...copy, proven: event.proven };
      return { row: withCopy(row, proven), effects: [] };
    }
    case 'relay-denied':
      if (!copy || !isAcceptedIn(row, relayPubkey, event.epoch)) return keepRow(row);
      return toPushAgain(row, { ...mayBeLost(copy), denied: event.denied }, facts);
    default:
      return assertNever(event);
  }
}

/** The row as one of a host with several relays. `before`: where it was pushed, if it does not say that itself. */
function severally(row: OutboxRow, before: PublicKey | undefined): OutboxRow {
  if (row.tried) return row;
  const { acceptance, firstPushAtMs, createdAtMs } = row;
  const relayPubkey = acceptance?.relayPubkey ?? before;
  if (relayPubkey === undefined || (!acceptance && firstPushAtMs === null)) return { ...row, tried: [] };
  const tried = { relayPubkey, firstAtMs: firstPushAtMs ?? createdAtMs };
  if (!acceptance) return { ...row, tried: [{ ...tried, isUnanswered: true }] };
  return { ...row, tried: [tried], copies: copiesOf(row) };
}

/** The relays tried when the bytes leave for one: no earlier push there was answered, or it has or had the item. */
function triedAgain(row: OutboxRow, relayPubkey: PublicKey, nowMs: number): readonly TriedRelay[] {
  const before = triedAt(row, relayPubkey);
  if (!before) return [...(row.tried ?? []), { relayPubkey, firstAtMs: nowMs }];
  const { isRefused, ...others } = before;
  if (isRefused) return withTried(row, { ...others, firstAtMs: nowMs });
  if (copyAt(row, relayPubkey) || before.isUnanswered) return row.tried ?? [];
  return withTried(row, { ...before, isUnanswered: true });
}

function withTried({ tried = [] }: OutboxRow, changed: TriedRelay): readonly TriedRelay[] {
  return [...tried.filter(({ relayPubkey }) => relayPubkey !== changed.relayPubkey), changed];
}

/** The row with this copy, in the place of an earlier one at its relay; with one relay it has the newest alone. */
function withCopy(row: OutboxRow, changed: RelayCopy): OutboxRow {
  const { relayPubkey } = changed.acceptance;
  const before = copiesOf(row);
  const placed = before.map((copy) => (copy.acceptance.relayPubkey === relayPubkey ? changed : copy));
  const copies = !row.tried ? [changed] : placed.includes(changed) ? placed : [...placed, changed];
  const byAge = copies.toSorted((a, b) => b.atMs - a.atMs);
  const { acceptance, proven, denied } = byAge.find(({ state }) => state === 'live') ?? byAge[0] ?? changed;
  const { proven: _proven, denied: _denied, ...rest } = row;
  return { ...rest, acceptance, ...(proven && { proven }), ...(denied && { denied }), ...(row.tried && { copies }) };
}

/** Its store went back in time, as far as is known. */
function mayBeLost(copy: RelayCopy): RelayCopy {
  return { ...copy, acceptance: { ...copy.acceptance, mayBeLost: true } };
}

/** What the relay may have lost is given to it again, now; but for what it said it had kept for its time. */
function toPushAgain(row: OutboxRow, copy: RelayCopy, { nowMs }: OutboxFacts): MovedRow {
  if (copy.state === 'expired') return keepRow(row);
  const again = rested(withCopy(row, { ...copy, state: 'again' }), copy.acceptance.relayPubkey);
  return changeRow(again, { relayAttempts: 0, nextAtMs: nowMs });
}

/** The row without the pauses after what failed at relays: they were counted by another clock. */
export function withoutPauses(row: OutboxRow): OutboxRow {
  if (!row.tried?.some(({ failures }) => failures)) return row;
  return { ...row, tried: row.tried.map(({ failures: _failures, ...others }) => others) };
}

/** Nothing delays the row at the relay any more. */
function rested(row: OutboxRow, relayPubkey: PublicKey): OutboxRow {
  const before = row.tried && triedAt(row, relayPubkey);
  if (!before?.failures) return row;
  const { failures: _failures, ...others } = before;
  return { ...row, tried: withTried(row, others) };
}

type Accepted = Extract<RelayEvent, { type: 'relay-accepted' }>;

/** Nothing is due until the relays' retention is over, and for a message that may still be confirmed its grace. */
function acceptedByRelay(row: OutboxRow, { acceptance, why }: Accepted, facts: OutboxFacts): MovedRow {
  if (!isSending(row)) return keepRow(row);
  const { relayPubkey, retentionMs, epoch, seq } = acceptance;
  const before = copyAt(row, relayPubkey);
  const isOver = before?.state === 'expired' && before.acceptance.epoch === epoch && before.acceptance.seq === seq;
  // The answer of a push that was under way when that was known.
  if (isOver || before?.state === 'gone') return keepRow(row);
  const atMs = row.tried ? tookAtMs(row, acceptance, facts) : facts.nowMs;
  const firstAccepted = row.acceptance ? firstAcceptance(row, row.acceptance) : { atMs, retentionMs };
  // What was proven of another acceptance says nothing of this one.
  const kept = { ...(before?.denied && { denied: before.denied }), ...(row.tried && why && { why }) };
  const copy: RelayCopy = { acceptance, state: 'live', atMs, ...kept };
  const tried = row.tried && withTried(row, { relayPubkey, firstAtMs: firstAtMsOf(row, relayPubkey) });
  const accepted: OutboxRow = { ...row, state: 'relay-accepted', firstAccepted, ...(tried && { tried }) };
  return changeRow(withCopy(accepted, copy), { relayAttempts: 0, lastError: null, nextAtMs: null });
}

function firstAtMsOf(row: OutboxRow, relayPubkey: PublicKey): number {
  return triedAt(row, relayPubkey)?.firstAtMs ?? row.createdAtMs;
}

/** When the relay took the item: by its word, as far as that can be true by this host's clock. */
function tookAtMs(row: OutboxRow, acceptance: RelayAcceptance, { nowMs, momentMs }: OutboxClock): number {
  const earliestMs = momentMs(firstAtMsOf(row, acceptance.relayPubkey)) - CLOCKS_DIFFER_MS;
  return Math.min(nowMs, Math.max(acceptance.acceptedAtMs, earliestMs));
}

type Refused = Extract<RelayEvent, { type: 'relay-refused' }>;

function refusedByRelay(row: OutboxRow, { relayPubkey, code, unsent }: Refused, facts: OutboxFacts): MovedRow {
  const known = unsent?.isOneOfMany ? severally(row, undefined) : row;
  const step = failedAtRelay(known, relayPubkey, `rejected:${code}`, facts, unsent ? 'unsent' : 'refused');
  // Of several relays another one may take it: the dispatcher knows when all that can have refused it.
  return (code === 'too large' && !known.tried && tooLarge(step.row, facts)) || step;
}

/** The alert that no relay takes the item; undefined when its sender knows, or need not know. */
function tooLarge(row: OutboxRow, facts: OutboxFacts): MovedRow | undefined {
  const isToTell = row.kind === 'envelope' && row.state === 'pending' && row.alertedAtMs === null;
  return isToTell ? alertRow(row, 'undelivered', 'too-large', facts) : undefined;
}

/** `how`: whether the relay may have it now. Nothing of a push that was `unsent` is new to it. */
function failedAtRelay(
  row: OutboxRow,
  relayPubkey: PublicKey,
  words: string,
  facts: OutboxFacts,
  how: 'unanswered' | 'refused' | 'unsent' = 'unanswered',
): MovedRow {
  if (!isSending(row)) return keepRow(row);
  const { nowMs } = facts;
  const error = keptError(words);
  const relayAttempts = row.relayAttempts + 1;
  const nextAtMs = nowMs + backoffMs(relayAttempts, facts);
  if (!row.tried) return changeRow(row, { relayAttempts, lastError: error, nextAtMs });
  const before = triedAt(row, relayPubkey);
  const count = (before?.failures?.count ?? 0) + 1;
  const failures = { count, nextAtMs: nowMs + backoffMs(count, facts), error };
  const tried = { ...withAnswer(row, before ?? { relayPubkey, firstAtMs: nowMs, isRefused: true }, how), failures };
  const failed = { ...row, tried: withTried(row, tried) };
  if (liveCopies(row).length > 0) return changeRow(failed, {});
  return changeRow(failed, { relayAttempts, lastError: error, nextAtMs: nextTryMs(failed, nowMs) ?? nextAtMs });
}

/** What the last attempt showed of whether the relay may have the item. */
function withAnswer(row: OutboxRow, before: TriedRelay, how: 'unanswered' | 'refused' | 'unsent'): TriedRelay {
  if (how === 'unsent' || before.isUnanswered || copyAt(row, before.relayPubkey)) return before;
  const { isRefused: _isRefused, ...tried } = before;
  return { ...tried, ...(how === 'refused' ? { isRefused: true } : { isUnanswered: true }) };
}

/** The first time at which a relay that failed may be tried again; undefined when none is to be waited for. */
export function nextTryMs({ tried = [] }: OutboxRow, nowMs: number): number | undefined {
  const moments = tried.flatMap(({ failures }) => (failures && failures.nextAtMs > nowMs ? [failures.nextAtMs] : []));
  return moments.length === 0 ? undefined : Math.min(...moments);
}

type Expired = Extract<RelayEvent, { type: 'expired' }>;

function expiredAtRelay(row: OutboxRow, { relayPubkey, expiredAtMs }: Expired, facts: OutboxFacts): MovedRow {
  const copy = copyAt(row, relayPubkey);
  // What was settled before is no other for a notice: its trace shows that it came.
  const isSettled = row.state === 'done' && row.tried !== undefined;
  if ((row.state !== 'relay-accepted' && !isSettled) || !copy || copy.state === 'expired') return keepRow(row);
  const { acceptedAtMs, retentionMs } = copy.acceptance;
  // A notice of before this acceptance comes again when a relay's queue is read anew.
  if (expiredAtMs < acceptedAtMs) return keepRow(row);
  const said = { ...copy, state: 'expired', expiredAtMs: facts.nowMs } as const;
  if (isSettled) return changeRow(withCopy(row, said), {});
  const canBeTrue = isExpiryInTime(row, relayPubkey, facts);
  if (!row.tried) return canBeTrue ? endRow(row, 'expired', 'expired', facts) : keepRow(row);
  const isWrong = !canBeTrue || expiredAtMs < acceptedAtMs + retentionMs - NOTICE_EARLY_MS;
  const expired = withCopy(row, isWrong ? { ...said, wrongAtMs: facts.nowMs } : said);
  if (!isWrong && isOverAtAll(expired, facts)) return endRow(expired, 'expired', 'expired', facts);
  return changeRow(expired, liveCopies(expired).length === 0 ? { nextAtMs: facts.nowMs } : {});
}

/** True when no relay can have the item any more: each refused it, or said that its time was up when it can be. */
function isOverAtAll(row: OutboxRow, clock: OutboxClock): boolean {
  return (row.tried ?? []).every(
    ({ relayPubkey, isRefused }) =>
      isRefused || (copyAt(row, relayPubkey)?.state === 'expired' && isExpiryInTime(row, relayPubkey, clock)),
  );
}

type Ready = Extract<RelayEvent, { type: 'relay-ready' }>;

function relayReady(row: OutboxRow, { relayPubkey, epoch }: Ready, facts: OutboxFacts): MovedRow {
  const { nowMs } = facts;
  if (row.state === 'lan-accepted') return doubtedSoon(rested(row, relayPubkey), facts);
  if (row.state === 'pending')
    return changeRow(rested(row, relayPubkey), { relayAttempts: 0, nextAtMs: soonest(row, nowMs) });
  if (row.state !== 'relay-accepted' || isAcceptedIn(row, relayPubkey, epoch)) return keepRow(row);
  const copy = copyAt(row, relayPubkey);
  if (row.tried && copy) return toPushAgain(row, copy, facts);
  if (row.tried && liveCopies(row).length > 0) return keepRow(row);
  return changeRow(rested(row, relayPubkey), { relayAttempts: 0, nextAtMs: soonest(row, nowMs) });
}
