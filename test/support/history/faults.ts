/**
 * Finds what of a history contradicts what a relay promises, whatever happened to its machines. Pure.
 *
 *   - no item is lost that was accepted: unless a new epoch begins, its target gets it; and after one, its sender
 *     pushes it again, so at the end of a history its target has it;
 *   - none is doubled: within an epoch an item has one seq, and what was acked does not come again;
 *   - no seq of a target is used twice, in no epoch;
 *   - heads, checkpoints and epochs do not go back: what is asked for after an answer came is no older than it;
 *   - accept receipts are signed and say what was pushed;
 *   - no two checkpoints of an epoch contradict each other.
 */
import { openCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { isReceiptSigned } from '../../../src/protocol/receipt-tree.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { NotVerified, checkProofs } from '../../../src/relay/replay/proof-check.ts';
import { type PullSeen, type PushSeen, type Seen, itemKey, seenOf } from './history.ts';

export interface Fault {
  kind:
    | 'lost'
    | 'doubled'
    | 'acked item came again'
    | 'seq used twice'
    | 'other bytes'
    | 'head went back'
    | 'epoch went back'
    | 'checkpoint went back'
    | 'checkpoints contradict each other'
    | 'bad receipt';
  sentence: string;
}

export interface HistoryEnd {
  relayKey: PublicKey;
  /** Says whether every sender knew the last epoch and every target has pulled all that waited. */
  isDrained: boolean;
}

export function faultsOf(history: readonly Seen[], { relayKey, isDrained }: HistoryEnd): Fault[] {
  return [
    ...receiptFaults(history, relayKey),
    ...seqFaults(history),
    ...lossFaults(history),
    ...(isDrained ? endFaults(history) : []),
    ...ackFaults(history),
    ...headFaults(history),
    ...epochFaults(history),
    ...checkpointFaults(history, relayKey),
  ];
}

function receiptFaults(history: readonly Seen[], relayKey: PublicKey): Fault[] {
  return seenOf(history, 'push').flatMap((push) => {
    const why = receiptFault(push, relayKey);
    return why === undefined ? [] : [{ kind: 'bad receipt', sentence: `The receipt of ${push.itemId} ${why}.` }];
  });
}

/** As the end of a sentence. */
function receiptFault({ result, sender, itemId, epoch, targets }: PushSeen, relayKey: PublicKey): string | undefined {
  const { accept } = result;
  if (!accept || !isReceiptSigned(relayKey, result)) return 'is not signed by the relay';
  if (accept.relay_pubkey !== relayKey || accept.sender_pubkey !== sender || accept.item_id !== itemId)
    return 'is of another item';
  if (accept.epoch !== epoch) return `names the epoch ${accept.epoch}, and the answer ${epoch}`;
  const told = new Map(result.targets?.map(({ host_pubkey: host, seq }) => [host, seq]));
  const isRight = targets.every(({ target, wireHash }) =>
    accept.targets.some(
      (one) => one.host_pubkey === target && one.wire_hash === wireHash && one.seq === told.get(target),
    ),
  );
  return isRight ? undefined : 'has other targets, seqs or wire bytes than were pushed and answered';
}

/** A place that somebody was told of: by a receipt, or by a page. */
interface Placed {
  epoch: string;
  target: PublicKey;
  seq: number;
  item: string;
  itemId: string;
  wireHash: string;
}

function placesOf(history: readonly Seen[]): Placed[] {
  return history.flatMap((seen): Placed[] => {
    if (seen.type === 'push') return pushedPlaces(seen);
    if (seen.type !== 'pull') return [];
    const { target, epoch } = seen;
    return seen.items.map(({ seq, sender, itemId, wireHash }) => {
      return { epoch, target, seq, item: itemKey(sender, itemId, target), itemId, wireHash };
    });
  });
}

function pushedPlaces({ epoch, sender, itemId, targets, result }: PushSeen): Placed[] {
  const seqs = new Map(result.targets?.map(({ host_pubkey: host, seq }) => [host, seq]));
  return targets.map(({ target, wireHash }) => {
    return { epoch, target, seq: seqs.get(target) ?? 0, item: itemKey(sender, itemId, target), itemId, wireHash };
  });
}

function seqFaults(history: readonly Seen[]): Fault[] {
  const faults: Fault[] = [];
  const itemAt = new Map<string, string>();
  const seqIn = new Map<string, number>();
  const bytes = new Map<string, string>();
  for (const { epoch, target, seq, item, itemId, wireHash } of placesOf(history)) {
    const other = known(itemAt, `${target} ${seq}`, item);
    if (other !== item)
      faults.push({ kind: 'seq used twice', sentence: `${itemId} has the seq ${seq} of another item.` });
    const first = known(seqIn, `${epoch} ${item}`, seq);
    if (first !== seq)
      faults.push({ kind: 'doubled', sentence: `${itemId} is at ${first} and at ${seq} in ${epoch}.` });
    if (known(bytes, item, wireHash) !== wireHash)
      faults.push({ kind: 'other bytes', sentence: `${itemId} does not have the bytes that it had before.` });
  }
  return faults;
}

/** Returns what is noted under the key; `value` when nothing is. */
function known<T>(notes: Map<string, T>, key: string, value: T): T {
  const before = notes.get(key);
  if (before !== undefined) return before;
  notes.set(key, value);
  return value;
}

/** A page shows everything that was accepted before it was asked for, in its epoch and up to its end. */
function lossFaults(history: readonly Seen[]): Fault[] {
  const faults: Fault[] = [];
  const pulls = seenOf(history, 'pull');
  const pushes = seenOf(history, 'push').toSorted((one, other) => one.endedMs - other.endedMs);
  for (const target of new Set(pulls.map((pull) => pull.target))) {
    const has = new Set<string>();
    let waiting: Placed[] = [];
    let pushed = 0;
    for (const pull of pulls.filter((one) => one.target === target).toSorted(byStart)) {
      for (const { itemId, sender } of pull.items) has.add(itemKey(sender, itemId, target));
      for (let push = pushes[pushed]; push && push.endedMs < pull.startedMs; push = pushes[++pushed])
        waiting.push(...pushedPlaces(push).filter((place) => place.target === target));
      waiting = waiting.filter(({ item }) => !has.has(item));
      const lost = waiting.filter((place) => place.epoch === pull.epoch && place.seq <= endOf(pull));
      waiting = waiting.filter((place) => !lost.includes(place));
      faults.push(
        ...lost.map(({ itemId, seq, epoch }) => lostFault(itemId, `at ${seq} in ${epoch}; a page beyond it lacks it`)),
      );
    }
  }
  return faults;
}

function lostFault(itemId: string, where: string): Fault {
  return { kind: 'lost', sentence: `${itemId} was accepted ${where}.` };
}

function endOf({ more, lastSeq, head }: PullSeen): number {
  return more ? lastSeq : Math.max(lastSeq, head);
}

function endFaults(history: readonly Seen[]): Fault[] {
  const came = new Set(
    seenOf(history, 'pull').flatMap(({ target, items }) =>
      items.map(({ sender, itemId }) => itemKey(sender, itemId, target)),
    ),
  );
  const accepted = new Map(
    seenOf(history, 'push')
      .flatMap(pushedPlaces)
      .map(({ item, itemId }) => [item, itemId]),
  );
  return [...accepted].flatMap(([item, itemId]) => (came.has(item) ? [] : [lostFault(itemId, 'and never came')]));
}

function ackFaults(history: readonly Seen[]): Fault[] {
  const acks = seenOf(history, 'ack').toSorted((one, other) => one.endedMs - other.endedMs);
  const faults: Fault[] = [];
  const through = new Map<string, number>();
  let done = 0;
  for (const { target, epoch, startedMs, items } of seenOf(history, 'pull').toSorted(byStart)) {
    for (let ack = acks[done]; ack && ack.endedMs < startedMs; ack = acks[++done]) {
      const queue = `${ack.target} ${ack.epoch}`;
      through.set(queue, Math.max(ack.through, through.get(queue) ?? 0));
    }
    const acked = through.get(`${target} ${epoch}`) ?? 0;
    for (const { itemId, seq } of items.filter(({ seq }) => seq <= acked))
      faults.push({
        kind: 'acked item came again',
        sentence: `${itemId} came at ${seq}, after an ack through ${acked}.`,
      });
  }
  return faults;
}

/** A number of one series that was told; a later one may not be smaller. */
interface Told {
  series: string;
  value: number;
  startedMs: number;
  endedMs: number;
}

/** The numbers that are smaller than one of their series that was told before they were asked for. */
function wentBack(told: readonly Told[]): { later: Told; earlier: number }[] {
  const byEnd = told.toSorted((one, other) => one.endedMs - other.endedMs);
  const highest = new Map<string, number>();
  let ended = 0;
  return told.toSorted(byStart).flatMap((later) => {
    for (let one = byEnd[ended]; one && one.endedMs < later.startedMs; one = byEnd[++ended])
      highest.set(one.series, Math.max(one.value, highest.get(one.series) ?? 0));
    const earlier = highest.get(later.series) ?? 0;
    return later.value < earlier ? [{ later, earlier }] : [];
  });
}

function headFaults(history: readonly Seen[]): Fault[] {
  const heads = history.flatMap((seen): Told[] => {
    const { startedMs, endedMs, epoch } = seen;
    const told = (target: PublicKey, value: number, fromMs = startedMs): Told => {
      return { series: `${target} ${epoch}`, value, startedMs: fromMs, endedMs };
    };
    if (seen.type === 'pull') return [told(seen.target, Math.max(seen.head, seen.lastSeq))];
    if (seen.type === 'ack') return [told(seen.target, seen.through, Infinity)];
    // A duplicate names the first seq: it is a head for others, and none that was told too late.
    return seen.type === 'push' ? pushedPlaces(seen).map(({ target, seq }) => told(target, seq, Infinity)) : [];
  });
  // What starts at no time is compared with nothing.
  return wentBack(heads).flatMap(({ later, earlier }) =>
    later.startedMs === Infinity
      ? []
      : [
          {
            kind: 'head went back',
            sentence: `The head was ${later.value} after it was ${earlier} (${later.series}).`,
          },
        ],
  );
}

/** An epoch that was seen before another one began, and again after that, came back. */
function epochFaults(history: readonly Seen[]): Fault[] {
  const first = new Map<string, number>();
  const last = new Map<string, number>();
  for (const { epoch, startedMs, endedMs } of history) {
    first.set(epoch, Math.min(endedMs, first.get(epoch) ?? Infinity));
    last.set(epoch, Math.max(startedMs, last.get(epoch) ?? 0));
  }
  const between = history.flatMap(({ epoch, startedMs, endedMs }) =>
    [...first]
      .filter(([other, endMs]) => other !== epoch && endMs < startedMs && endedMs < (last.get(other) ?? 0))
      .map(([other]) => `The epoch was ${other}, then ${epoch}, and then ${other} again.`),
  );
  return [...new Set(between)].map((sentence) => ({ kind: 'epoch went back', sentence }));
}

function checkpointFaults(history: readonly Seen[], relayKey: PublicKey): Fault[] {
  const faults: Fault[] = [];
  const roots = new Map<string, string>();
  const sizes: Told[] = [];
  const contradict = (sentence: string): void => {
    faults.push({ kind: 'checkpoints contradict each other', sentence });
  };
  for (const { note, epoch, startedMs, endedMs } of seenOf(history, 'checkpoint')) {
    const checkpoint = openCheckpoint(note, relayKey);
    if (checkpoint?.epoch !== epoch) {
      contradict('A checkpoint is not signed by the relay.');
      continue;
    }
    const { size } = checkpoint;
    const root = checkpoint.rootHash.toString('hex');
    const other = known(roots, `${epoch} ${size}`, root);
    if (other !== root) contradict(`The log of ${epoch} has two roots with ${size} leaves.`);
    sizes.push({ series: epoch, value: size, startedMs, endedMs });
  }
  for (const { proof, older, newer } of seenOf(history, 'growth')) {
    try {
      checkProofs({ proofs: [proof], old: older, new: newer, relayKey });
    } catch (error) {
      if (!(error instanceof NotVerified)) throw error;
      contradict(`A proof is wrong: ${error.message}.`);
    }
  }
  const smaller = wentBack(sizes).map(({ later, earlier }): Fault => {
    const sentence = `The log of ${later.series} had ${later.value} leaves after it had ${earlier}.`;
    return { kind: 'checkpoint went back', sentence };
  });
  return [...faults, ...smaller];
}

function byStart(one: { startedMs: number }, other: { startedMs: number }): number {
  return one.startedMs - other.startedMs;
}
