/**
 * The life of one item at one target, followed through the log: accepted, moved by rotations, acked, expired, lost,
 * forgotten. `poste relay log trace` and the trace of the console are made of it.
 *
 * What the log does not hold: a repeated push that was answered `duplicate` changed nothing and left no record, and
 * neither did any pull. That an item was delivered is known by the ack that covers its seq, and by nothing before it.
 */
import type { ItemId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { type AcceptedTarget, type DedupExtended, type ItemAccepted, type LogEntry, eventTimeMs } from './event.ts';

export type ItemState = 'waiting' | 'acked' | 'expired' | 'lost';

export type LifeStep = { lsn: number; timeMs: number } & (
  | { type: 'accepted'; targetPubkey: PublicKey; seq: number }
  /** The target changed its key; its queue follows. */
  | { type: 'rotated'; targetPubkey: PublicKey }
  | { type: 'moved'; targetPubkey: PublicKey; fromSeq: number; seq: number }
  | { type: 'acked'; through: number }
  | { type: 'expired' }
  /** A notice for the sender was put into its own queue. */
  | { type: 'noticed'; targetPubkey: PublicKey; seq: number; itemId: ItemId }
  | { type: 'lost'; reason: 'missing' | 'corrupt' }
  /** No host can pull the item any more; it expires in time. */
  | { type: 'target revoked' }
  /** From here on the same push would be accepted as a new item. */
  | { type: 'forgotten' }
);

export class ItemLife {
  readonly accepted: ItemAccepted;
  readonly target: AcceptedTarget;
  readonly steps: LifeStep[];
  state: ItemState = 'waiting';
  /** The key and the seq under which the item is queued now. */
  queuedKey: PublicKey;
  queuedSeq: number;
  #dedupUntilMs: number;
  #isKnown = true;

  /** `target` is one of the targets for which `accepted`, the event of record `lsn`, accepted the item. */
  constructor(lsn: number, accepted: ItemAccepted, target: AcceptedTarget) {
    const { hostPubkey: targetPubkey, seq } = target;
    this.accepted = accepted;
    this.target = target;
    this.steps = [{ lsn, timeMs: accepted.acceptedAtMs, type: 'accepted', targetPubkey, seq }];
    this.queuedKey = targetPubkey;
    this.queuedSeq = seq;
    this.#dedupUntilMs = accepted.dedupUntilMs;
  }

  get isWaiting(): boolean {
    return this.state === 'waiting';
  }

  /** Takes the records after the acceptance, in order. Records that concern other items may be left out. */
  follow(entry: LogEntry): void {
    if (this.isWaiting) this.#followWaiting(entry);
    if (this.#isKnown) this.#followKnown(entry);
  }

  #followWaiting({ lsn, event }: LogEntry): void {
    const { queuedKey, queuedSeq, steps } = this;
    const at = { lsn, timeMs: eventTimeMs(event) };
    switch (event.type) {
      case 'KeyRotated':
        if (event.oldPubkey === queuedKey) steps.push({ ...at, type: 'rotated', targetPubkey: event.newPubkey });
        return;
      case 'ItemsMoved': {
        const position = event.oldPubkey === queuedKey ? event.fromSeqs.indexOf(queuedSeq) : -1;
        if (position === -1) return;
        this.queuedKey = event.newPubkey;
        this.queuedSeq = event.firstSeq + position;
        const { queuedKey: targetPubkey, queuedSeq: seq } = this;
        steps.push({ ...at, type: 'moved', targetPubkey, fromSeq: queuedSeq, seq });
        return;
      }
      case 'ItemsAcked':
        if (event.targetPubkey !== queuedKey || event.through < queuedSeq) return;
        this.state = 'acked';
        steps.push({ ...at, type: 'acked', through: event.through });
        return;
      case 'ItemsExpired': {
        if (event.targetPubkey !== queuedKey || !event.items.some(({ seq }) => seq === queuedSeq)) return;
        this.state = 'expired';
        steps.push({ ...at, type: 'expired' });
        this.#dedupUntilMs = Math.max(this.#dedupUntilMs, event.dedupUntilMs);
        const noticeId = `expired:${this.accepted.itemId}:${this.target.hostPubkey}`;
        for (const { targetPubkey, seq, itemId } of event.notices) {
          if (itemId === noticeId) steps.push({ ...at, type: 'noticed', targetPubkey, seq, itemId });
        }
        return;
      }
      case 'DedupExtended':
        if (event.items.some((item) => this.#isThis(item)))
          this.#dedupUntilMs = Math.max(this.#dedupUntilMs, event.dedupUntilMs);
        return;
      case 'ItemLost':
        if (event.targetPubkey !== queuedKey || event.seq !== queuedSeq) return;
        this.state = 'lost';
        this.#isKnown = false;
        steps.push({ ...at, type: 'lost', reason: event.reason });
        return;
      case 'HostRevoked':
        if (event.hostPubkey === queuedKey) steps.push({ ...at, type: 'target revoked' });
        return;
      default:
    }
  }

  #followKnown({ lsn, event }: LogEntry): void {
    if (event.type !== 'DedupPurged' || event.beforeMs < this.#dedupUntilMs) return;
    this.#isKnown = false;
    this.steps.push({ lsn, timeMs: event.atMs, type: 'forgotten' });
  }

  #isThis({ itemId, senderPubkey, pushedTo }: DedupExtended['items'][number]): boolean {
    const { accepted, target } = this;
    return itemId === accepted.itemId && senderPubkey === accepted.senderPubkey && pushedTo === target.hostPubkey;
  }
}
