/**
 * What time does to a queue and to what is known of it: items expire, their senders are told, dedup forgets.
 *
 * Entry by entry of what is due, in portions that hold the loop for a few milliseconds. A crash in between leaves the
 * entry, and the next sweep finds of it what is still there.
 */
import { canonicalBytes, canonicalJson } from '../../protocol/canonical-json.ts';
import { sha256Hex } from '../../protocol/digest.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ExpireItems } from '../core/command.ts';
import {
  type DecidedExpiry,
  EXPIRED_AT_ONCE,
  type UnsignedNotice,
  decideExpire,
  decidePurge,
} from '../core/decide-expiry.ts';
import type { QueuedNotice } from '../core/event.ts';
import { type RelaySettings, expireFacts } from '../core/facts.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Committer } from './committer.ts';
import { Portion, Stretch } from './stretch.ts';

export interface ExpiryOptions {
  store: RelayStore;
  committer: Committer;
  settings: RelaySettings;
  /** The relay's own key: it signs the notices. */
  signer: Signer;
  monotonicMs: () => number;
  /** What a command for these queues waits for. */
  waitFor: (targets: readonly PublicKey[]) => Promise<void> | undefined;
}

export class Expiry {
  readonly #options: ExpiryOptions;

  constructor(options: ExpiryOptions) {
    this.#options = options;
  }

  /**
   * Expires everything whose time came. `nowMs` is asked once for each entry: a clock set back in the middle would pass
   * items over and forget them all the same. The sweep ends when `goesOn` says no.
   */
  async expire(nowMs: () => number, goesOn: () => boolean): Promise<void> {
    const { store, committer, monotonicMs } = this.#options;
    const stretch = new Stretch(monotonicMs);
    const portion = new Portion(EXPIRED_AT_ONCE, monotonicMs);
    while (goesOn()) {
      const atMs = nowMs();
      const due = await store.dueItems(atMs);
      if (!due) return;
      for (const [targetPubkey, seqs] of due.targets) {
        while (seqs.length > 0) {
          if (stretch.isOver) await stretch.pause();
          const slice = seqs.splice(0, portion.size);
          await this.#expireSlice({ type: 'ExpireItems', targetPubkey, seqs: slice, nowMs: atMs }, portion);
        }
      }
      committer.forget([due.key]);
      await committer.durable();
    }
  }

  /** Forgets the dedup rows whose horizon passed. As `expire`. */
  async purgeDedup(nowMs: () => number, goesOn: () => boolean): Promise<void> {
    const { store, committer } = this.#options;
    while (goesOn()) {
      const atMs = nowMs();
      const due = await store.dueDedup(atMs);
      if (!due) return;
      const senders = Array.from(due.senders, ([senderPubkey, rows]) => ({ senderPubkey, rows }));
      const decision = decidePurge({ type: 'PurgeDedup', beforeMs: due.dueMs, senders, nowMs: atMs });
      committer.admit(decision.events);
      committer.forget(due.keys);
      await committer.durable();
    }
  }

  async #expireSlice(command: ExpireItems, portion: Portion): Promise<void> {
    const { committer, settings, waitFor } = this.#options;
    for (;;) {
      const facts = expireFacts(command, committer, settings);
      const keys = [command.targetPubkey, ...Array.from(facts.tellAt.values(), ({ key }) => key)];
      const wait = committer.isFull ? committer.room() : waitFor(keys);
      if (wait) {
        await wait;
        continue;
      }
      portion.run(() => this.#admit(decideExpire(command, facts)));
      return;
    }
  }

  #admit(decision: DecidedExpiry | undefined): void {
    if (!decision) return;
    const notices = decision.notices.map((notice) => this.#signed(notice));
    const payloads = notices.map(({ targetPubkey, seq, wire }) => ({ targetPubkey, seq, wire: Buffer.from(wire) }));
    this.#options.committer.admit([{ ...decision, notices }], payloads);
  }

  #signed({ rec, ...notice }: UnsignedNotice): QueuedNotice {
    const wire = canonicalJson({ rec, sig: this.#options.signer.sign(canonicalBytes(rec)) });
    return { ...notice, wire, wireHash: sha256Hex(wire) };
  }
}
