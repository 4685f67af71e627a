/**
 * Decides whether one pushed item is stored, a duplicate, or rejected: by its sender, each of its targets, and what is
 * known of the item there under every key that sender and target ever had.
 *
 * Invariants ("POST /v2/relay/items", rules 2 to 5 and 7):
 *   - every new target gets its seq in one event, or none does;
 *   - a known (sender, item, target) never gets a second sequence number;
 *   - a sequence number is max(the next of the target, now in milliseconds) and never one that was given before.
 */
import type { ItemRejection, PushedItem, PushedTarget } from '../../protocol/items.ts';
import { type Limits, dedupHorizonMs, retentionMs } from '../../protocol/limits.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushItem } from './command.ts';
import {
  type Decided,
  type FactSource,
  type PushOutcome,
  type RelaySettings,
  type StoredTarget,
  decisionOf,
  lineageOf,
  relayRow,
  targetRow,
} from './decision.ts';
import type { Directory } from './directory.ts';
import type { AcceptedTarget, ItemAccepted, RelayEvent } from './event.ts';
import { type MailFacts, type MailUse, REMEMBERED_BYTES } from './mail-use.ts';
import {
  type DedupRow,
  type EnrolmentRow,
  NO_USAGE,
  type RowReader,
  type SendersRow,
  type TargetRow,
  type UsageRow,
  rowKey,
} from './rows.ts';

/** One target of the item: what was pushed, what is known of the target, and the item as known there. */
interface TargetState {
  pushed: PushedTarget;
  target: PushTargetFacts;
  /** Known with the same bytes, or by its id alone where that decides: under several keys of a host, several times. */
  known: DedupRow[];
  /** Known so and not lost. Without it the item is stored anew. */
  kept: DedupRow | undefined;
}

export function decidePush(
  command: PushItem,
  facts: PushFacts,
  { limits, dedupRowsMax }: RelaySettings,
): Decided<PushOutcome> {
  if (facts.rejection) return rejectItem(facts.rejection);
  const states = targetStates(command, facts);
  const rejection = targetRejection(states) ?? contentRejection(command, states);
  if (rejection) return rejectItem(rejection);
  const { senderPubkey, item, nowMs } = command;
  const targets = states.map((state) => storedTarget(state, nowMs));
  const anew = states.filter((state) => !state.kept);
  if (anew.length === 0) return decisionOf(storedBefore(targets, states));
  const overQuota = quotaRejection(anew, facts, limits, dedupRowsMax);
  if (overQuota) return rejectItem(overQuota);

  const expiresAtMs = nowMs + retentionMs(limits);
  const accepted: ItemAccepted = {
    type: 'ItemAccepted',
    senderPubkey,
    itemId: item.itemId,
    kind: item.kind,
    targets: anew.map((state) => acceptedTarget(state, nowMs)),
    acceptedAtMs: nowMs,
    expiresAtMs,
    // With a clock that went back far, an item with this time would be forgotten at once.
    dedupUntilMs: Math.max(expiresAtMs + dedupHorizonMs(limits), facts.dedupPurgedMs + 1),
  };
  const outcome: PushOutcome = { type: 'ItemStored', status: 'accepted', targets, atMs: nowMs };
  return decisionOf(outcome, ...repairs(anew, command), accepted);
}

function rejectItem(rejection: ItemRejection): Decided<PushOutcome> {
  return decisionOf<PushOutcome>({ type: 'ItemRejected', rejection });
}

function targetStates({ item, isKnownById }: PushItem, facts: PushFacts): TargetState[] {
  return item.targets.map((pushed, position) => {
    const target = facts.targets[position];
    if (!target) throw new Error('invariant: there are facts for every target');
    const known = target.known.filter(({ row }) => isKnownById || row.wireHash === pushed.wireHash);
    // One that is not lost will do.
    return { pushed, target, known: known.map(({ row }) => row), kept: known.find(({ lost }) => !lost)?.row };
  });
}

/** Each check is over all targets before the next check begins. */
function targetRejection(states: readonly TargetState[]): ItemRejection | undefined {
  if (states.some(({ target }) => !target.enrolment)) return 'unknown target';
  if (states.some(({ target }) => target.enrolment?.revokedAtMs !== null)) return 'target revoked';
  if (states.some(({ target }) => !target.acceptsSender)) return 'sender not accepted by target';
  return undefined;
}

function contentRejection(
  { wireVerdict, senderPubkey }: PushItem,
  states: readonly TargetState[],
): ItemRejection | undefined {
  if (wireVerdict !== 'ok') return wireVerdict;
  const isConflict = ({ pushed, target, known, kept }: TargetState): boolean => {
    if (target.known.length === 0 || kept) return false;
    // Where it would be stored anew, another content may be known: of the time before two keys were of one host.
    const isTaken = ({ row }: KnownItem): boolean =>
      row.senderPubkey === senderPubkey && row.targetPubkey === pushed.hostPubkey && !known.includes(row);
    return known.length === 0 || target.known.some(isTaken);
  };
  return states.some(isConflict) ? 'conflict' : undefined;
}

/** All targets are known. */
function storedBefore(targets: StoredTarget[], states: readonly TargetState[]): PushOutcome {
  const atMs = Math.max(...states.map(({ kept }) => kept?.acceptedAtMs ?? 0));
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
 * what is stored anew takes its share, and no limit keeps a push from repairing it.
 */
function quotaRejection(
  anew: readonly TargetState[],
  facts: PushFacts,
  limits: Limits,
  dedupRowsMax: number,
): ItemRejection | undefined {
  const added = anew.filter(({ known }) => known.length === 0);
  const owners = ownersCharged(added);
  if (added.some(({ target }) => target.queue.queueItems + 1 > limits.max_queue_items)) return 'quota:queue_items';
  if (added.some(({ target, pushed }) => target.queue.queueBytes + pushed.bytes > limits.max_queue_bytes))
    return 'quota:queue_bytes';
  if (added.some(({ target }) => target.share.items + 1 > limits.max_sender_items)) return 'quota:sender_items';
  if (added.some(({ target, pushed }) => target.share.bytes + pushed.bytes > limits.max_sender_bytes))
    return 'quota:sender_bytes';
  if (owners.some(({ items }) => items > limits.max_owner_items)) return 'quota:owner_items';
  if (owners.some(({ bytes }) => bytes > limits.max_owner_bytes)) return 'quota:owner_bytes';
  if (added.length > 0 && facts.dedupRows + added.length > dedupRowsMax) return 'quota:dedup_rows';
  return takesTooMuch(added, facts.mail) ? 'quota:relay_bytes' : undefined;
}

/** What each account of these targets would be charged for. */
function ownersCharged(added: readonly TargetState[]): UsageRow[] {
  if (!added.some(({ target }) => target.enrolment?.account)) return [];
  const accounts = new Map<string, UsageRow>();
  for (const { pushed, target } of added) {
    const account = target.enrolment?.account;
    if (!account) continue;
    const used = accounts.get(account) ?? target.account;
    accounts.set(account, { items: used.items + 1, bytes: used.bytes + pushed.bytes });
  }
  return [...accounts.values()];
}

/** True when a sender whom nobody vouched for would have more of the strangers' part than is left of it. */
function takesTooMuch(added: readonly TargetState[], { isVouchedFor, own, left }: MailFacts): boolean {
  const bytes = added.reduce((sum, { pushed }) => sum + pushed.bytes + REMEMBERED_BYTES, 0);
  return !isVouchedFor && bytes > 0 && own + bytes > left - bytes;
}

/** A loss is logged before it is repaired, and ends the epoch, so that other senders check their items too. */
function repairs(anew: readonly TargetState[], { item, freshEpoch, nowMs }: PushItem): RelayEvent[] {
  const events = anew.flatMap(({ known, target }) =>
    known.map(
      (row): RelayEvent => ({
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
      }),
    ),
  );
  if (events.length > 0) events.push({ type: 'EpochRotated', epoch: freshEpoch, reason: 'item-lost', atMs: nowMs });
  return events;
}

/** A key of the sender and a key of a target under which an item may be known. */
export type KnownKeyPair = readonly [sender: PublicKey, target: PublicKey];

/** Pairs of one key of the sender. A target has up to 4,096 of them, too many to be listed one by one for each item. */
export type KnownKeyPairs = readonly [sender: PublicKey, targets: readonly PublicKey[]];

/** Returns those pairs of these keys under which the item may be known. */
export type KnownPairs = (
  senders: readonly PublicKey[],
  targets: readonly PublicKey[],
  itemId: ItemId,
) => KnownKeyPairs[];

/** Every sender with all targets: where nobody knows which pairs can have rows. */
export function pairsBySender(senders: readonly PublicKey[], targets: readonly PublicKey[]): KnownKeyPairs[] {
  return senders.map((sender) => [sender, targets]);
}

/** The same pairs, one by one. */
export function* flatPairs(pairs: readonly KnownKeyPairs[]): Generator<KnownKeyPair> {
  for (const [sender, targets] of pairs) for (const target of targets) yield [sender, target];
}

/** A (sender, item, target) that is known, over every key of both lineages. */
interface KnownItem {
  row: DedupRow;
  /** Queued, but its row or payload is gone. */
  lost: boolean;
}

/**
 * Rows that one push asks for in one go at most, over the keys of its sender and of its targets. Hosts that never
 * changed their keys need one for each target. Where there are more, they are looked for before (engine/pushes.ts).
 */
export const KNOWN_ROWS_ASKED_MAX = 4096;
/** The same with a search before: the keys of a sender and of 64 targets, all of whom have as many as there may be. */
export const KNOWN_ROWS_SEARCHED_MAX = 262_144;

/** So many places of a target's item cost nothing: its sender and the target may have had four keys each. */
const FREE_PLACES = 16;
/** The items of one request are looked for in no more charged places together; one item alone may have more. */
export const CHARGED_PLACES_MAX = 2 * KNOWN_ROWS_ASKED_MAX;
/** So many keys of a host are looked for one by one. */
const FEW_KEYS = 16;

interface PushTargetFacts {
  enrolment: EnrolmentRow | undefined;
  /** False when the target published a list that does not hold the sender. */
  acceptsSender: boolean;
  known: KnownItem[];
  queue: TargetRow;
  /** The usage of the sender there, under all of its keys. */
  share: UsageRow;
  account: UsageRow;
}

interface PushFacts {
  /** Everything that was to be known until then is forgotten, also when the clock went back since. */
  dedupPurgedMs: number;
  /** Rows that the sender, under any of its keys, keeps in the dedup table. */
  dedupRows: number;
  mail: MailFacts;
  /** The rejection that the request alone shows, or for which more keys are behind it than may be asked for. */
  rejection: ItemRejection | undefined;
  /** One for each target of the command, in its order; none with a `rejection`. */
  targets: PushTargetFacts[];
}

/** Under which keys the item of a push may be known. */
export interface KnownKeys {
  /** Every key of the sender, and those of them under which anything may be known. */
  senders: readonly PublicKey[];
  known: readonly PublicKey[];
  /** The rejection that the request alone shows, before anything is looked for. */
  rejection: ItemRejection | undefined;
  /** The keys of each target, in the order of the command; none with a `rejection`. */
  lineages: readonly (readonly PublicKey[])[];
  /** The pairs of each target for which there are rows to ask. */
  pairs: readonly (readonly KnownKeyPairs[])[];
  /** The number of these pairs, and of those that are charged. */
  asked: number;
  charged: number;
}

export function knownKeys(
  { senderPubkey, item }: PushItem,
  rows: RowReader,
  { limits }: RelaySettings,
  knownPairs: KnownPairs = pairsBySender,
): KnownKeys {
  const senders = lineageOf(rows, senderPubkey);
  // The present key also without a sender's row: that may be gone from the disk, and items of the key be known.
  const known = senders.filter((sender) => sender === senderPubkey || rows.get('sender', sender));
  const rejection = requestRejection(item, limits);
  const lineages = (rejection ? [] : item.targets).map(({ hostPubkey }) => lineageOf(rows, hostPubkey));
  const pairs = lineages.map((members) => knownPairs(known, members, item.itemId));
  let asked = 0;
  for (const ofTarget of pairs) for (const [, { length }] of ofTarget) asked += length;
  const charged = Math.max(0, asked - FREE_PLACES * pairs.length);
  return { senders, known, rejection, lineages, pairs, asked, charged };
}

function requestRejection({ targets }: PushedItem, limits: Limits): ItemRejection | undefined {
  if (targets.length > limits.max_targets) return 'too many targets';
  if (targets.length > 1 && hasTwice(targets)) return 'duplicate target';
  if (targets.some(({ bytes }) => bytes > limits.max_item_bytes)) return 'too large';
  return undefined;
}

function hasTwice(targets: PushedItem['targets']): boolean {
  return new Set(targets.map(({ hostPubkey }) => hostPubkey)).size < targets.length;
}

/** `found`: where the item is known, for each target, when more were looked for than may be asked here. */
export function pushFacts(
  command: PushItem,
  { senders, known, rejection: unfit, pairs, asked }: KnownKeys,
  rows: FactSource,
  { directory, mail }: { directory: Directory; mail: MailUse },
  settings: RelaySettings,
  found?: readonly (readonly KnownKeyPairs[])[],
): PushFacts {
  const senderKeys = directory.keysOf(command.senderPubkey);
  const { dedupPurgedMs } = relayRow(rows);
  const { itemId, targets } = command.item;
  let dedupRows = 0;
  for (const sender of known) dedupRows += rows.get('sender', sender)?.dedupRows ?? 0;
  const rejection = unfit ?? (asked > KNOWN_ROWS_ASKED_MAX && !found ? 'too many targets' : undefined);
  return {
    dedupPurgedMs,
    dedupRows,
    mail: mail.factsOf(command.senderPubkey, senderKeys, settings),
    rejection,
    targets: (rejection ? [] : targets).map(({ hostPubkey: target }, at) => {
      const items: KnownItem[] = [];
      for (const [sender, members] of (found ?? pairs)[at] ?? []) {
        for (const member of members) {
          const row = rows.get('dedup', rowKey.dedup(sender, member, itemId));
          if (row && row.dedupUntilMs > dedupPurgedMs) items.push(knownItem(row, rows));
        }
      }
      const acceptsSender = isAcceptedSender(rows.get('senders', target), senderKeys);
      return pushTargetFacts(target, senders, acceptsSender, items, rows);
    }),
  };
}

function pushTargetFacts(
  target: PublicKey,
  senders: readonly PublicKey[],
  acceptsSender: boolean,
  known: KnownItem[],
  rows: RowReader,
): PushTargetFacts {
  const enrolment = rows.get('enrolment', target);
  const share: UsageRow = { ...NO_USAGE };
  for (const sender of senders) {
    const used = rows.get('share', rowKey.share(target, sender));
    share.items += used?.items ?? 0;
    share.bytes += used?.bytes ?? 0;
  }
  const account = enrolment?.account;
  return {
    enrolment,
    acceptsSender,
    known,
    queue: targetRow(rows, target),
    share,
    account: (account ? rows.get('account', account) : undefined) ?? NO_USAGE,
  };
}

/** A listed key admits the host that has it or had it, however often that changed its key since. */
function isAcceptedSender(list: SendersRow | undefined, keys: ReadonlySet<PublicKey>): boolean {
  if (!list) return true;
  // A host has one key as a rule, and a list up to 256.
  if (keys.size > FEW_KEYS) return list.senders.some((listed) => keys.has(listed));
  for (const key of keys) if (isListed(list.senders, key)) return true;
  return false;
}

function isListed(ascending: readonly PublicKey[], key: PublicKey): boolean {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return ascending[low] === key;
}

function knownItem(row: DedupRow, rows: FactSource): KnownItem {
  const { queuedTarget, queuedSeq, expired } = row;
  if (expired || queuedSeq <= targetRow(rows, queuedTarget).ackedThrough) return { row, lost: false };
  const queued = rows.get('queue', rowKey.queue(queuedTarget, queuedSeq));
  return { row, lost: !queued || !rows.hasPayload(queued) };
}
