/**
 * The facts of a push: its sender, each of its targets, and what is known of the item there under every key that sender
 * and target ever had.
 */
import { type Limits, dedupHorizonMs, retentionMs } from '../../protocol/limits.ts';
import type { ItemRejection, PushedItem } from '../../protocol/items.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { PushItem } from './command.ts';
import type { Directory } from './directory.ts';
import type { MailFacts, MailUse } from './mail-use.ts';
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
import {
  type FactSource,
  type KnownKeyPair,
  type KnownKeyPairs,
  type KnownPairs,
  type RelaySettings,
  eachPair,
  everyPair,
  lineageOf,
  relayRow,
  targetRow,
} from './facts.ts';

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

export interface PushTargetFacts {
  enrolment: EnrolmentRow | undefined;
  /** False when the target published a list that does not hold the sender. */
  acceptsSender: boolean;
  known: KnownItem[];
  queue: TargetRow;
  /** What the sender, under any of its keys, has queued there. */
  share: UsageRow;
  account: UsageRow;
}

export interface PushFacts {
  limits: Limits;
  retentionMs: number;
  dedupHorizonMs: number;
  /** What was to be forgotten by then is forgotten, also when the clock went back since. */
  dedupPurgedMs: number;
  /** Rows that the sender, under any of its keys, keeps in the dedup table. */
  dedupRows: number;
  dedupRowsMax: number;
  mail: MailFacts;
  /** What the request alone shows, or that more keys are behind it than may be asked for. */
  rejection: ItemRejection | undefined;
  /** One for each target of the command, in its order; none with a `rejection`. */
  targets: PushTargetFacts[];
}

/** Under which keys the item of a push may be known. */
export interface KnownKeys {
  /** Every key of the sender, and those of them under which anything is known. */
  senders: readonly PublicKey[];
  known: readonly PublicKey[];
  /** What the request alone shows, before anything is looked for. */
  rejection: ItemRejection | undefined;
  /** The keys of each target, in the order of the command; none with a `rejection`. */
  lineages: readonly (readonly PublicKey[])[];
  /** Of each target, the pairs for which there are rows to ask. */
  pairs: readonly (readonly KnownKeyPairs[])[];
  /** How many they are, and how many of them are charged. */
  asked: number;
  charged: number;
}

export function knownKeys(
  { senderPubkey, item }: PushItem,
  rows: RowReader,
  { limits }: RelaySettings,
  knownPairs: KnownPairs = everyPair,
): KnownKeys {
  const senders = lineageOf(rows, senderPubkey);
  const known = senders.filter((sender) => rows.get('sender', sender));
  const rejection = requestRejection(item, limits);
  const lineages = (rejection ? [] : item.targets).map(({ hostPubkey }) => lineageOf(rows, hostPubkey));
  const pairs = lineages.map((members) => knownPairs(known, members, item.itemId));
  const asked = pairs.flat().reduce((sum, [, { length }]) => sum + length, 0);
  const charged = Math.max(0, asked - FREE_PLACES * pairs.length);
  return { senders, known, rejection, lineages, pairs, asked, charged };
}

function requestRejection({ targets }: PushedItem, limits: Limits): ItemRejection | undefined {
  if (targets.length > limits.max_targets) return 'too many targets';
  if (new Set(targets.map(({ hostPubkey }) => hostPubkey)).size < targets.length) return 'duplicate target';
  if (targets.some(({ bytes }) => bytes > limits.max_item_bytes)) return 'too large';
  return undefined;
}

/** `found`: where the item is known, for each target, when more were looked for than may be asked here. */
export function pushFacts(
  command: PushItem,
  { senders, known, rejection: unfit, pairs, asked }: KnownKeys,
  rows: FactSource,
  { directory, mail }: { directory: Directory; mail: MailUse },
  settings: RelaySettings,
  found?: readonly (readonly KnownKeyPair[])[],
): PushFacts {
  const senderKeys = directory.keysOf(command.senderPubkey);
  const { dedupPurgedMs } = relayRow(rows);
  const { limits } = settings;
  const { itemId, targets } = command.item;
  let dedupRows = 0;
  for (const sender of known) dedupRows += rows.get('sender', sender)?.dedupRows ?? 0;
  const rejection = unfit ?? (asked > KNOWN_ROWS_ASKED_MAX && !found ? 'too many targets' : undefined);
  return {
    limits,
    retentionMs: retentionMs(limits),
    dedupHorizonMs: dedupHorizonMs(limits),
    dedupPurgedMs,
    dedupRows,
    dedupRowsMax: settings.dedupRowsMax,
    mail: mail.factsOf(command.senderPubkey, senderKeys, settings),
    rejection,
    targets: (rejection ? [] : targets).map(({ hostPubkey: target }, at) => {
      const items: KnownItem[] = [];
      for (const [sender, member] of found?.[at] ?? eachPair(pairs[at] ?? [])) {
        const row = rows.get('dedup', rowKey.dedup(sender, member, itemId));
        if (row && row.dedupUntilMs > dedupPurgedMs) items.push(knownItem(row, rows));
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
