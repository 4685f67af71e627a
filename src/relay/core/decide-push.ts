/**
 * Decides whether one pushed item is stored, a duplicate, or rejected.
 *
 * Invariants ("POST /v2/relay/items", rules 2 to 5 and 7):
 *   - every new target gets its seq in one event, or none does;
 *   - a known (sender, item, target) never gets a second sequence number;
 *   - a sequence number is max(the next of the target, now in milliseconds) and never one that was given before.
 */
import type { ItemRejection, PushedTarget } from '../../protocol/items.ts';
import type { PushItem } from './command.ts';
import { type Decided, type PushOutcome, type StoredTarget, decided } from './decision.ts';
import type { AcceptedTarget, ItemAccepted, RelayEvent } from './event.ts';
import { type MailFacts, REMEMBERED_BYTES } from './mail-use.ts';
import type { PushFacts, PushTargetFacts } from './push-facts.ts';
import type { DedupRow, UsageRow } from './rows.ts';

/** One target of the item: what was pushed, what is known of the target, and the item as known there. */
interface TargetState {
  pushed: PushedTarget;
  target: PushTargetFacts;
  /** Known with the same bytes, or by its id alone where that decides. */
  known: DedupRow | undefined;
  /** Known so and not lost. Without it the item is stored anew. */
  kept: DedupRow | undefined;
}

export function decidePush(command: PushItem, facts: PushFacts): Decided<PushOutcome> {
  if (facts.rejection) return rejected(facts.rejection);
  const states = targetStates(command, facts);
  const rejection = targetRejection(states) ?? contentRejection(command, states);
  if (rejection) return rejected(rejection);
  const { senderPubkey, item, nowMs } = command;
  const targets = states.map((state) => storedTarget(state, nowMs));
  const kept = states.flatMap((state) => state.kept ?? []);
  if (kept.length === states.length) return decided(storedBefore(targets, kept));
  const anew = states.filter((state) => !state.kept);
  const overQuota = quotaRejection(anew, facts);
  if (overQuota) return rejected(overQuota);

  const expiresAtMs = nowMs + facts.retentionMs;
  const accepted: ItemAccepted = {
    type: 'ItemAccepted',
    senderPubkey,
    itemId: item.itemId,
    kind: item.kind,
    targets: anew.map((state) => acceptedTarget(state, nowMs)),
    acceptedAtMs: nowMs,
    expiresAtMs,
    // With a clock that went back far, an item with this time would be forgotten at once.
    dedupUntilMs: Math.max(expiresAtMs + facts.dedupHorizonMs, facts.dedupPurgedMs + 1),
  };
  const outcome: PushOutcome = { type: 'ItemStored', status: 'accepted', targets, atMs: nowMs };
  return decided(outcome, ...repairs(anew, command), accepted);
}

function rejected(rejection: ItemRejection): Decided<PushOutcome> {
  return decided<PushOutcome>({ type: 'ItemRejected', rejection });
}

function targetStates({ item, isKnownById }: PushItem, facts: PushFacts): TargetState[] {
  return item.targets.map((pushed, position) => {
    const target = facts.targets[position];
    if (!target) throw new Error('invariant: there are facts for every target');
    const known = target.known.filter(({ row }) => isKnownById || row.wireHash === pushed.wireHash);
    // Known under several keys of a host: one that is not lost will do.
    return { pushed, target, known: known[0]?.row, kept: known.find(({ lost }) => !lost)?.row };
  });
}

/** Each check is over all targets before the next check begins. */
function targetRejection(states: readonly TargetState[]): ItemRejection | undefined {
  if (states.some(({ target }) => !target.enrolment)) return 'unknown target';
  if (states.some(({ target }) => target.enrolment?.revokedAtMs !== null)) return 'target revoked';
  if (states.some(({ target }) => !target.acceptsSender)) return 'sender not accepted by target';
  return undefined;
}

function contentRejection({ wireVerdict }: PushItem, states: readonly TargetState[]): ItemRejection | undefined {
  if (wireVerdict !== 'ok') return wireVerdict;
  return states.some(({ target, known }) => target.known.length > 0 && !known) ? 'conflict' : undefined;
}

/** All targets are known. */
function storedBefore(targets: StoredTarget[], kept: readonly DedupRow[]): PushOutcome {
  const atMs = Math.max(...kept.map(({ acceptedAtMs }) => acceptedAtMs));
  return { type: 'ItemStored', status: 'duplicate', targets, atMs };
}

/** The key of this request, with the original sequence number or the next one. */
function storedTarget({ pushed: { hostPubkey, wireHash }, target, kept }: TargetState, nowMs: number): StoredTarget {
  return { hostPubkey, seq: kept ? kept.seq : Math.max(target.queue.headSeq + 1, nowMs), wireHash };
}

function acceptedTarget(state: TargetState, nowMs: number): AcceptedTarget {
  const { hostPubkey, seq, wireHash } = storedTarget(state, nowMs);
  return { hostPubkey, seq, wireHash, bytes: state.pushed.bytes };
}

/**
 * Quotas of the item as a whole, each over all targets that add something. A lost item is still counted in the rows:
 * it takes its old seq, and no limit keeps a push from repairing it.
 */
function quotaRejection(anew: readonly TargetState[], facts: PushFacts): ItemRejection | undefined {
  const { limits } = facts;
  const added = anew.filter(({ known }) => known === undefined);
  const accounts = new Map<string, UsageRow>();
  for (const { pushed, target } of added) {
    const account = target.enrolment?.account;
    if (!account) continue;
    const used = accounts.get(account) ?? target.account;
    accounts.set(account, { items: used.items + 1, bytes: used.bytes + pushed.bytes });
  }
  const owners = [...accounts.values()];
  if (added.some(({ target }) => target.queue.queueItems + 1 > limits.max_queue_items)) return 'quota:queue_items';
  if (added.some(({ target, pushed }) => target.queue.queueBytes + pushed.bytes > limits.max_queue_bytes))
    return 'quota:queue_bytes';
  if (added.some(({ target }) => target.share.items + 1 > limits.max_sender_items)) return 'quota:sender_items';
  if (added.some(({ target, pushed }) => target.share.bytes + pushed.bytes > limits.max_sender_bytes))
    return 'quota:sender_bytes';
  if (owners.some(({ items }) => items > limits.max_owner_items)) return 'quota:owner_items';
  if (owners.some(({ bytes }) => bytes > limits.max_owner_bytes)) return 'quota:owner_bytes';
  if (added.length > 0 && facts.dedupRows + added.length > facts.dedupRowsMax) return 'quota:dedup_rows';
  return takesTooMuch(added, facts.mail) ? 'quota:relay_bytes' : undefined;
}

/** Whether a sender whom nobody vouched for would have more of the strangers' part than is left of it. */
function takesTooMuch(added: readonly TargetState[], { isVouchedFor, own, left }: MailFacts): boolean {
  const bytes = added.reduce((sum, { pushed }) => sum + pushed.bytes + REMEMBERED_BYTES, 0);
  return !isVouchedFor && bytes > 0 && own + bytes > left - bytes;
}

/** A loss is logged before it is repaired, and ends the epoch, so that other senders check their items too. */
function repairs(anew: readonly TargetState[], { item, freshEpoch, nowMs }: PushItem): RelayEvent[] {
  const events: RelayEvent[] = [];
  for (const { known: row, target } of anew) {
    if (!row) continue;
    events.push({
      type: 'ItemLost',
      targetPubkey: row.queuedTarget,
      seq: row.queuedSeq,
      kind: item.kind,
      senderPubkey: row.senderPubkey,
      itemId: row.itemId,
      pushedTo: row.targetPubkey,
      bytes: row.bytes,
      account: target.enrolment?.account ?? null,
      reason: 'missing',
      atMs: nowMs,
    });
  }
  if (events.length > 0) events.push({ type: 'EpochRotated', epoch: freshEpoch, reason: 'item-lost', atMs: nowMs });
  return events;
}
