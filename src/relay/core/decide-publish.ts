/**
 * Decides what a host publishes about itself: whose mail it takes, and the key to seal its mail with.
 *
 * Invariants ("Sender allowlist", rules 1 to 3; "Encryption-key advertisement"):
 *   - a newer statement replaces an older one, never the other way;
 *   - the same statement again changes nothing, so that a replayed hop is harmless;
 *   - a list of the same senders at a later time is noted by its time alone: it makes older ones stale, also those that
 *     this relay never saw, and the host that checks its answer is answered with the time that it signed;
 *   - nothing is taken that was issued more than 5 minutes ahead of this clock.
 */
import { ISSUED_AHEAD_MAX_MS, LISTED_SENDERS_MAX } from '../../protocol/limits.ts';
import type { PublishEncKey, PublishSenders } from './command.ts';
import { type Decided, type EncKeyOutcome, type Refusal, type SendersOutcome, decided, refusal } from './decision.ts';
import type { EncKeyRow, SendersRow } from './rows.ts';

export function decidePublishSenders(
  command: PublishSenders,
  published: SendersRow | undefined,
): Decided<SendersOutcome> | Refusal {
  const { callerPubkey, hostPubkey, iatMs, nowMs } = command;
  if (hostPubkey !== callerPubkey) return refusal('KEY_MISMATCH', 'the list names another host key than the caller');
  if (command.senders.length > LISTED_SENDERS_MAX) {
    return refusal('BAD_REQUEST', `a list may hold ${LISTED_SENDERS_MAX} senders`);
  }
  if (iatMs > nowMs + ISSUED_AHEAD_MAX_MS) return issuedAhead();
  const senders = [...new Set(command.senders)].toSorted();
  const outcome: SendersOutcome = { type: 'SendersListed', senders: senders.length, iatMs };
  const isSame = published !== undefined && haveSameKeys(published.senders, senders);
  if (published && published.iatMs >= iatMs) return isSame && published.iatMs === iatMs ? decided(outcome) : stale();
  if (isSame) return decided(outcome, { type: 'SendersRenewed', hostPubkey, iatMs, atMs: nowMs });
  return decided(outcome, { type: 'SendersPublished', hostPubkey, senders, iatMs, atMs: nowMs });
}

export function decidePublishEncKey(
  command: PublishEncKey,
  published: EncKeyRow | undefined,
): Decided<EncKeyOutcome> | Refusal {
  const { hostPubkey, encPub, advertisedAtMs, sig, nowMs } = command;
  if (advertisedAtMs > nowMs + ISSUED_AHEAD_MAX_MS) return issuedAhead();
  const outcome: EncKeyOutcome = { type: 'EncKeyShown', atMs: advertisedAtMs };
  if (published && published.atMs >= advertisedAtMs) {
    return published.atMs === advertisedAtMs && published.encPub === encPub ? decided(outcome) : stale();
  }
  return decided(outcome, { type: 'EncKeyPublished', hostPubkey, encPub, advertisedAtMs, sig, atMs: nowMs });
}

function haveSameKeys(listed: readonly string[], asked: readonly string[]): boolean {
  const keys = new Set(listed);
  return keys.size === asked.length && asked.every((key) => keys.has(key));
}

function issuedAhead(): Refusal {
  return refusal('IAT_IN_FUTURE', 'issued more than 5 minutes ahead of the clock of this relay');
}

function stale(): Refusal {
  return refusal('STALE_LIST', 'a newer one is published, or another one of the same time');
}
