/**
 * Verifies that quotas are charged for what there is: the waiting items of every queue counted anew, for their target,
 * their senders and their accounts, and the dedup rows of every sender key.
 *
 * Counts the rows of a complete replay: what differs here was wrong when the log was written, and a rebuild gives the
 * same again. The relay refuses to release more than is charged.
 */
import { countText } from '../core/count-text.ts';
import { hash } from 'node:crypto';
import { displayFingerprint, type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { presentKey, targetRow } from '../core/decision.ts';
import { NO_USAGE, type UsageRow, rowKey } from '../core/rows.ts';
import { PREFIX, SHARE_SENDER_AT, firstKeyOf, prefixRange, queueKey, sharesOf } from '../store/keys.ts';
import { rowOf } from '../store/row-codec.ts';
import { DedupCharges } from './dedup-charges.ts';
import type { Findings, Progress } from './finding.ts';
import { type ReplayedRows, knownUntilMs } from './replay.ts';
import type { Verification } from './verification.ts';

const CHARGE_ADVICE =
  'What would be released beyond that cannot be acked and cannot expire, and poste relay log rebuild counts the ' +
  'same: restore the newest backup that verifies';

export async function* verifyCharges({ rows, findings }: Verification): AsyncGenerator<Progress, void> {
  const audit = new ChargesAudit(rows, findings);
  let done = 0;
  for await (const run of rows.runs(prefixRange(PREFIX.target))) {
    for (const [key] of run) {
      await audit.countQueue(firstKeyOf(key));
      yield { stage: 'charges', done: ++done, of: undefined };
    }
  }
  audit.verifyTargets();
  await audit.verifyAccounts();
  if (rows.half !== 'others') await audit.verifySenders();
}

class ChargesAudit {
  readonly #rows: ReplayedRows;
  readonly #findings: Findings;
  /** The usage that every queue is to be charged for, items that are on their way to it included. */
  readonly #waiting = new Map<PublicKey, UsageRow>();

  constructor(rows: ReplayedRows, findings: Findings) {
    this.#rows = rows;
    this.#findings = findings;
  }

  /** Counts one queue, and holds the shares of its senders against it. */
  async countQueue(target: PublicKey): Promise<void> {
    const { ackedThrough, headSeq } = targetRow(this.#rows, target);
    const shares = new Map<PublicKey, UsageRow>();
    let waiting = NO_USAGE;
    const range = {
      gte: queueKey(target, ackedThrough + 1),
      lte: queueKey(target, Math.max(headSeq, ackedThrough + 1)),
    };
    for await (const run of this.#rows.runs(range)) {
      for (const [key, value] of run) {
        const { kind, senderPubkey, bytes } = rowOf('queue', key, value);
        // Nobody is charged for a notice.
        if (kind === 'expired') continue;
        waiting = sum(waiting, { items: 1, bytes });
        shares.set(senderPubkey, sum(shares.get(senderPubkey), { items: 1, bytes }));
      }
    }
    // A rotation charges the new key for all of it at once; the items follow.
    const charged = this.#rows.get('move', target)?.newPubkey ?? target;
    this.#waiting.set(charged, sum(this.#waiting.get(charged), waiting));
    for await (const run of this.#rows.runs(sharesOf(target))) {
      for (const [key] of run) {
        const sender = publicKeyFromBytes(key.subarray(SHARE_SENDER_AT));
        if (!shares.has(sender)) shares.set(sender, NO_USAGE);
      }
    }
    for (const [sender, waits] of shares) {
      const row = this.#rows.get('share', rowKey.share(target, sender));
      this.#compare(`${displayFingerprint(sender)} as a sender to ${displayFingerprint(target)}`, row, waits);
    }
  }

  verifyTargets(): void {
    for (const [target, waits] of this.#waiting) {
      const { queueItems: items, queueBytes: bytes } = targetRow(this.#rows, target);
      this.#compare(`the queue of ${displayFingerprint(target)}`, { items, bytes }, waits);
    }
  }

  /** An account is charged for the queues of its hosts, whatever their keys were. */
  async verifyAccounts(): Promise<void> {
    const accounts = new Map<string, UsageRow>();
    for await (const run of this.#rows.runs(prefixRange(PREFIX.enrolment))) {
      for (const [key, value] of run) {
        const { account } = rowOf('enrolment', key, value);
        if (account !== null) accounts.set(account, NO_USAGE);
      }
    }
    for (const [target, waits] of this.#waiting) {
      const account = this.#rows.get('enrolment', presentKey(this.#rows, target))?.account ?? null;
      if (account !== null) accounts.set(account, sum(accounts.get(account), waits));
    }
    const hashes = new Set(Array.from(accounts.keys(), (account) => hash('sha256', account, 'hex')));
    for (const [account, waits] of accounts)
      this.#compare(`the account ${account}`, this.#rows.get('account', account), waits);
    for await (const run of this.#rows.runs(prefixRange(PREFIX.account))) {
      for (const [key, value] of run) {
        const mark = key.subarray(1).toString('hex');
        // The row says no name: it is stored under the hash of it.
        if (!hashes.has(mark))
          this.#compare(`an account without hosts (key ${mark})`, rowOf('account', key, value), NO_USAGE);
      }
    }
  }

  /** Compares what each sender key keeps in the dedup table, but for what was purged. */
  async verifySenders(): Promise<void> {
    const purgedMs = this.#rows.get('relay', rowKey.relay)?.dedupPurgedMs ?? 0;
    const charges = new DedupCharges();
    for (const prefix of [PREFIX.sender, PREFIX.dedup])
      for await (const run of this.#rows.runs(prefixRange(prefix)))
        for (const [key, value] of run)
          if (prefix === PREFIX.sender || knownUntilMs(value) > purgedMs) charges.add(key, value);
    for (const { sender, charged, kept } of charges.differences) {
      const who = displayFingerprint(sender);
      const message =
        `${who} is charged for ${countText(charged, 'dedup row')}, and ${kept} ${kept === 1 ? 'is' : 'are'} kept ` +
        'of it: its quota of them is held against the wrong number. poste relay log rebuild ends the charge for what ' +
        'was forgotten';
      this.#findings.add('CHARGE_DIFFERS', message, { host_pubkey: sender });
    }
  }

  #compare(who: string, row: UsageRow | undefined, waits: UsageRow): void {
    const charged = row ?? NO_USAGE;
    if (charged.items === waits.items && charged.bytes === waits.bytes) return;
    const message =
      `${who} is charged for ${usageText(charged)}, and ${usageText(waits)} ` +
      `${waits.items === 1 ? 'waits' : 'wait'}. ${CHARGE_ADVICE}`;
    this.#findings.add('CHARGE_DIFFERS', message);
  }
}

function sum(to: UsageRow = NO_USAGE, { items, bytes }: UsageRow): UsageRow {
  return { items: to.items + items, bytes: to.bytes + bytes };
}

function usageText({ items, bytes }: UsageRow): string {
  return `${countText(items, 'item')} of ${countText(bytes, 'byte')}`;
}
