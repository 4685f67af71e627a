/**
 * Decides whether one pushed item is stored, a duplicate, or rejected.
 *
 * Invariants ("POST /v2/relay/items", rules 2 to 5 and 7):
 *   - every new target gets its place in one event, or none does;
 *   - a known (sender, item, target) never gets a second sequence number;
 *   - a sequence number is max(the next of the target, now in milliseconds) and never one that was given before.
 */
import type { ItemRejection, PushedTarget } from '../../protocol/items.ts';
import type { PushItem } from './command.ts';
import { type Decided, type PushOutcome, decided } from './decision.ts';
import type { AcceptedTarget, ItemAccepted, RelayEvent } from './event.ts';
import type { KnownItem, PushFacts, PushTargetFacts } from './facts.ts';
import type { UsageRow } from './rows.ts';

/** One target of the item: what was pushed, what is known of the target, and the item as known there. */
interface Place {
  pushed: PushedTarget;
  target: PushTargetFacts;
  /** Known with the same bytes, or by its id alone where that decides; when `lost`, it is stored anew. */
  known: KnownItem | undefined;
}

export function decidePush(command: PushItem, facts: PushFacts): Decided<PushOutcome> {
  const unfit = requestRejection(command, facts);
  if (unfit) return rejected(unfit);
  const places = placesOf(command, facts);
  const rejection = targetRejection(places) ?? contentRejection(command, places);
  if (rejection) return rejected(rejection);
  const anew = places.filter(({ known }) => known === undefined || known.lost);
  if (anew.length === 0) return decided(storedBefore(places));
  const overQuota = quotaRejection(anew, facts);
  if (overQuota) return rejected(overQuota);

  const { senderPubkey, item, nowMs } = command;
  const expiresAtMs = nowMs + facts.retentionMs;
  const accepted: ItemAccepted = {
    type: 'ItemAccepted',
    senderPubkey,
    itemId: item.itemId,
    kind: item.kind,
    targets: anew.map((place) => acceptedTarget(place, nowMs)),
    acceptedAtMs: nowMs,
    expiresAtMs,
    // A clock that went back far: what nobody knows any more would not be known of this item either.
    dedupUntilMs: Math.max(expiresAtMs + facts.dedupHorizonMs, facts.dedupPurgedMs + 1),
  };
  const newSeqs = new Map(accepted.targets.map(({ hostPubkey, seq }) => [hostPubkey, seq]));
  const targets = places.map(({ pushed: { hostPubkey, wireHash }, known }) => {
    const seq = newSeqs.get(hostPubkey) ?? known?.row.seq;
    if (seq === undefined) throw new Error('invariant: every target is new or known');
    return { hostPubkey, seq, wireHash };
  });
  const outcome: PushOutcome = { type: 'ItemStored', status: 'accepted', targets, atMs: nowMs };
  return decided(outcome, ...repairs(anew, command), accepted);
}

function rejected(rejection: ItemRejection): Decided<PushOutcome> {
  return decided<PushOutcome>({ type: 'ItemRejected', rejection });
}

function placesOf({ item, isKnownById }: PushItem, facts: PushFacts): Place[] {
  return item.targets.map((pushed, position) => {
    const target = facts.targets[position];
    if (!target) throw new Error('invariant: there are facts for every target');
    const known = target.known.filter(({ row }) => isKnownById || row.wireHash === pushed.wireHash);
    // Known under several keys of a host: one that is not lost will do.
    return { pushed, target, known: known.find(({ lost }) => !lost) ?? known[0] };
  });
}

/** What the request alone shows. */
function requestRejection(command: PushItem, { limits, targets: facts }: PushFacts): ItemRejection | undefined {
  const { targets } = command.item;
  if (targets.length > limits.max_targets) return 'too many targets';
  if (new Set(targets.map(({ hostPubkey }) => hostPubkey)).size < targets.length) return 'duplicate target';
  if (targets.some(({ bytes }) => bytes > limits.max_item_bytes)) return 'too large';
  // Behind them are more keys than may be asked for.
  if (facts.length < targets.length) return 'too many targets';
  return undefined;
}

/** Each check is over all targets before the next check begins. */
function targetRejection(places: readonly Place[]): ItemRejection | undefined {
  if (places.some(({ target }) => !target.enrolment)) return 'unknown target';
  if (places.some(({ target }) => target.enrolment?.revokedAtMs !== null)) return 'target revoked';
  if (places.some(({ target }) => !target.acceptsSender)) return 'sender not accepted by target';
  return undefined;
}

function contentRejection({ wireVerdict }: PushItem, places: readonly Place[]): ItemRejection | undefined {
  if (wireVerdict !== 'ok') return wireVerdict;
  return places.some(({ target, known }) => target.known.length > 0 && !known) ? 'conflict' : undefined;
}

/** All targets are known: the original sequence numbers, under the keys of this request. */
function storedBefore(places: readonly Place[]): PushOutcome {
  let atMs = 0;
  const targets = places.map(({ pushed: { hostPubkey, wireHash }, known }) => {
    if (!known) throw new Error('invariant: every target of a duplicate is known');
    atMs = Math.max(atMs, known.row.acceptedAtMs);
    return { hostPubkey, seq: known.row.seq, wireHash };
  });
  return { type: 'ItemStored', status: 'duplicate', targets, atMs };
}

function acceptedTarget({ pushed, target }: Place, nowMs: number): AcceptedTarget {
  return {
    hostPubkey: pushed.hostPubkey,
    seq: Math.max(target.queue.headSeq + 1, nowMs),
    wireHash: pushed.wireHash,
    bytes: pushed.bytes,
  };
}

/**
 * Quotas of the item as a whole, each over all targets that add something. A lost item is still counted in the rows:
 * it takes its old place, and no limit keeps a push from repairing it.
 */
function quotaRejection(anew: readonly Place[], facts: PushFacts): ItemRejection | undefined {
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
  return undefined;
}

/** A loss is said in the log before it is repaired, and ends the epoch so that other senders look too. */
function repairs(anew: readonly Place[], { item, freshEpoch, nowMs }: PushItem): RelayEvent[] {
  const events: RelayEvent[] = [];
  for (const { known, target } of anew) {
    if (!known) continue;
    const { row } = known;
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
