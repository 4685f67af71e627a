/**
 * The life of one item, from the log: accepted, moved by rotations, acked, expired, lost, forgotten.
 *
 * What the log cannot know: a repeated push that was answered `duplicate` changed nothing and left no record, and so
 * did every pull. That an item was handed over is known by the ack that covers its seq, and by nothing before it.
 */
import type { Sha256Hex } from '../../protocol/digest.ts';
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type ItemAccepted, type LogEntry, eventTimeMs } from '../core/event.ts';
import type { OfflineStore } from '../store/offline.ts';
import type { Progress } from './finding.ts';
import { auditedRecords } from './records.ts';

export type ItemState = 'waiting' | 'acked' | 'expired' | 'lost';

export type TraceStep = { lsn: number; timeMs: number } & (
  | { type: 'accepted'; targetPubkey: PublicKey; seq: number }
  /** The target goes on under another key; its queue follows. */
  | { type: 'rotated'; targetPubkey: PublicKey }
  | { type: 'moved'; targetPubkey: PublicKey; fromSeq: number; seq: number }
  | { type: 'acked'; through: number }
  | { type: 'expired' }
  /** The sender was told, with a notice in its own queue. */
  | { type: 'noticed'; targetPubkey: PublicKey; seq: number; itemId: ItemId }
  | { type: 'lost'; reason: 'missing' | 'corrupt' }
  /** Nobody can pull the item any more; it expires in time. */
  | { type: 'target revoked' }
  /** From here on the same push would be accepted as a new item. */
  | { type: 'forgotten' }
);

/** One item for one target, from one acceptance on. */
export interface ItemLife {
  itemId: ItemId;
  kind: ItemAccepted['kind'];
  senderPubkey: PublicKey;
  /** The key it was pushed to. */
  targetPubkey: PublicKey;
  wireHash: Sha256Hex;
  bytes: number;
  expiresAtMs: number;
  state: ItemState;
  steps: TraceStep[];
}

export interface TraceChoice {
  itemId: string;
  /** Only of these senders. */
  senders?: ReadonlySet<PublicKey>;
  /** Only pushed to these keys. */
  targets?: ReadonlySet<PublicKey>;
}

/** Throws `DamagedRecord`. */
export async function* trace(offline: OfflineStore, choice: TraceChoice): AsyncGenerator<Progress, ItemLife[]> {
  const traced: Traced[] = [];
  for await (const run of auditedRecords(offline)) {
    for (const entry of run) {
      if (traced.length > 0) follow(entry, traced);
      if (entry.event.type === 'ItemAccepted') traced.push(...begun(entry.event, entry.lsn, choice));
    }
    yield { stage: 'trace', done: run.at(-1)?.lsn ?? 0, of: offline.store.lastLsn };
  }
  return traced.map(({ life }) => life);
}

/** A life, and where its queue row is. */
interface Traced {
  life: ItemLife;
  target: PublicKey;
  seq: number;
  dedupUntilMs: number;
  isKnown: boolean;
}

function begun(event: ItemAccepted, lsn: number, { itemId, senders, targets }: TraceChoice): Traced[] {
  if (event.itemId !== itemId || (senders && !senders.has(event.senderPubkey))) return [];
  const { kind, senderPubkey, acceptedAtMs, expiresAtMs, dedupUntilMs } = event;
  return event.targets.flatMap(({ hostPubkey, seq, wireHash, bytes }): Traced[] => {
    if (targets && !targets.has(hostPubkey)) return [];
    const step: TraceStep = { lsn, timeMs: acceptedAtMs, type: 'accepted', targetPubkey: hostPubkey, seq };
    const item = { itemId: event.itemId, kind, senderPubkey, targetPubkey: hostPubkey, wireHash, bytes, expiresAtMs };
    const life: ItemLife = { ...item, state: 'waiting', steps: [step] };
    return [{ life, target: hostPubkey, seq, dedupUntilMs, isKnown: true }];
  });
}

function follow(entry: LogEntry, traced: readonly Traced[]): void {
  for (const one of traced) {
    if (one.life.state === 'waiting') followWaiting(entry, one);
    if (one.isKnown) followKnown(entry, one);
  }
}

function followWaiting({ lsn, event }: LogEntry, one: Traced): void {
  const { life, target, seq } = one;
  const at = { lsn, timeMs: eventTimeMs(event) };
  switch (event.type) {
    case 'KeyRotated':
      if (event.oldPubkey === target) life.steps.push({ ...at, type: 'rotated', targetPubkey: event.newPubkey });
      return;
    case 'ItemsMoved': {
      const position = event.oldPubkey === target ? event.fromSeqs.indexOf(seq) : -1;
      if (position < 0) return;
      one.target = event.newPubkey;
      one.seq = event.firstSeq + position;
      life.steps.push({ ...at, type: 'moved', targetPubkey: one.target, fromSeq: seq, seq: one.seq });
      return;
    }
    case 'ItemsAcked':
      if (event.targetPubkey !== target || event.through < seq) return;
      life.state = 'acked';
      life.steps.push({ ...at, type: 'acked', through: event.through });
      return;
    case 'ItemsExpired': {
      if (event.targetPubkey !== target || !event.items.some((item) => item.seq === seq)) return;
      life.state = 'expired';
      life.steps.push({ ...at, type: 'expired' });
      one.dedupUntilMs = Math.max(one.dedupUntilMs, event.dedupUntilMs);
      const noticeId = `expired:${life.itemId}:${life.targetPubkey}`;
      for (const notice of event.notices) {
        if (notice.itemId !== noticeId) continue;
        const { targetPubkey, itemId } = notice;
        life.steps.push({ ...at, type: 'noticed', targetPubkey, seq: notice.seq, itemId });
      }
      return;
    }
    case 'ItemLost':
      if (event.targetPubkey !== target || event.seq !== seq) return;
      life.state = 'lost';
      one.isKnown = false;
      life.steps.push({ ...at, type: 'lost', reason: event.reason });
      return;
    case 'HostRevoked':
      if (event.hostPubkey === target) life.steps.push({ ...at, type: 'target revoked' });
      return;
    default:
  }
}

function followKnown({ lsn, event }: LogEntry, one: Traced): void {
  if (event.type !== 'DedupPurged' || event.beforeMs < one.dedupUntilMs) return;
  one.isKnown = false;
  one.life.steps.push({ lsn, timeMs: event.atMs, type: 'forgotten' });
}
