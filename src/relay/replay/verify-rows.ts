/**
 * The rows against the replay: byte for byte, both in the order of their keys.
 *
 * Left out on both sides are queue rows that were acked and wait for the collector; of the replay, dedup rows whose
 * time was purged. Each stored row is also asked for by its key, as the relay does: a damaged table can answer a walk
 * rightly and a look-up wrongly.
 */
import { countText } from '../core/count-text.ts';
import { hash } from 'node:crypto';
import { displayFingerprint, type PublicKey, publicKeyFromBytes } from '../../protocol/public-key.ts';
import { rowKey, type TableName, type Tables, NO_USAGE, type UsageRow } from '../core/rows.ts';
import { MARK_PREFIXES, ROW_PREFIXES, verifiedBytes, rowName, rowOwner } from '../store/checksum.ts';
import {
  firstKeyOf,
  numberAt,
  PREFIX,
  prefixRange,
  REPLAYED_TABLES,
  DEDUP_OWNERS,
  SHARE_SENDER_AT,
  queueKey,
  sharesOf,
} from '../store/keys.ts';
import { keyTextAt } from '../store/plain-forms.ts';
import { decodeRow } from '../store/row-codec.ts';
import { readableRow } from '../store/scan.ts';
import { type StoredWalk, joined, isOfStore } from './walks.ts';
import { type Findings, FINDINGS_LISTED_MAX, type Progress } from './finding.ts';
import type { OfflineStore } from './offline.ts';
import { auditedRecords } from './records.ts';
import type { ReplayedRows } from './replay.ts';
import { presentKey, targetRow } from '../core/facts.ts';

interface RowsAudit {
  rows: number;
  bytes: number;
}

const ADVICE = 'poste relay log rebuild makes it anew from the log';

export async function* verifyRows(
  offline: OfflineStore,
  walk: StoredWalk,
  replayed: ReplayedRows,
  findings: Findings,
): AsyncGenerator<Progress, RowsAudit> {
  const differences: Difference[] = [];
  const audit: RowsAudit = { rows: 0, bytes: 0 };
  let untold = 0;
  for (const table of REPLAYED_TABLES) {
    const isOut = leftOut(table, replayed);
    const range = prefixRange(PREFIX[table]);
    for await (const run of joined(walk(range), replayed.runs(range))) {
      for (const { key, left, right } of run) {
        audit.bytes += key.length + (left?.length ?? 0);
        if (!isOfStore(key, findings)) continue;
        if ((left && right?.equals(left)) || isOut(key, left, right)) continue;
        if (differences.length < FINDINGS_LISTED_MAX) differences.push({ table, key, stored: left, byLog: right });
        else untold++;
      }
      audit.rows += run.length;
      yield { stage: 'rows', done: audit.rows, of: undefined };
    }
  }
  await tell(offline, differences, untold, findings);
  return audit;
}

/** Verifies the checksums of rows and due entries, where there is no replay to compare them with. */
export async function* verifyChecksums(walk: StoredWalk, findings: Findings): AsyncGenerator<Progress, RowsAudit> {
  const audit: RowsAudit = { rows: 0, bytes: 0 };
  for (const prefix of ROW_PREFIXES) {
    // Those are judged with the store as a whole, whatever its log says.
    if (MARK_PREFIXES.has(prefix)) continue;
    for await (const run of walk(prefixRange(prefix))) {
      for (const [key, value] of run) {
        audit.rows++;
        audit.bytes += key.length + value.length;
        if (!isOfStore(key, findings) || verifiedBytes(key, value)) continue;
        findings.add('ROW_DAMAGED', `${rowName(key)} does not match its checksum`, { key: key.toString('hex') });
      }
      yield { stage: 'rows', done: audit.rows, of: undefined };
    }
  }
  return audit;
}

interface Difference {
  table: TableName;
  key: Buffer;
  stored: Buffer | undefined;
  byLog: Buffer | undefined;
}

type LeftOut = (key: Buffer, stored: Buffer | undefined, byLog: Buffer | undefined) => boolean;

function leftOut(table: TableName, replayed: ReplayedRows): LeftOut {
  if (table === 'queue') return replayed.ackedKeys();
  if (table !== 'dedup') return () => false;
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  // A checkpoint left out what was purged, and a replay from the first record still has it.
  return (key, stored, byLog) => {
    const alone = stored && byLog ? undefined : readableRow('dedup', key, (stored ?? byLog) as Buffer);
    return alone !== undefined && alone.dedupUntilMs <= purgedMs;
  };
}

async function tell(
  offline: OfflineStore,
  differences: readonly Difference[],
  untold: number,
  findings: Findings,
): Promise<void> {
  const hashed = differences.filter(({ table }) => isHashed(table)).map(({ key }) => key.subarray(1).toString('hex'));
  const name = await rowNames(offline, new Set(hashed));
  for (const { table, key, stored, byLog } of differences) {
    const details = { table, key: key.toString('hex') };
    const row = `the ${table} row of ${name(table, key)}`;
    if (stored && !verifiedBytes(key, stored))
      findings.add('ROW_DAMAGED', `${row} does not match its checksum${item(table, key, byLog)}. ${ADVICE}`, details);
    else if (!stored)
      findings.add(
        'ROW_MISSING',
        `${row} is not in the store, and by the log it is${item(table, key, byLog)}`,
        details,
      );
    else if (!byLog) findings.add('ROW_UNEXPECTED', `${row} is in the store, and by the log it is not`, details);
    else findings.add('ROW_DIFFERS', `${row} differs: ${changed(table, key, stored, byLog)}`, details);
  }
  findings.addUnlisted('ROW_DIFFERS', untold);
}

function item(table: TableName, key: Buffer, value: Buffer | undefined): string {
  const row = table === 'queue' && value ? decodeRow('queue', key, value) : undefined;
  return row ? ` (${row.kind} ${row.itemId})` : '';
}

function changed(table: TableName, key: Buffer, stored: Buffer, byLog: Buffer): string {
  const expected = decodeRow(table, key, byLog);
  const found = readableRow(table, key, stored);
  if (!found) return 'what is stored cannot be read';
  const words = Object.keys(expected).flatMap((name) => {
    const member = name as keyof Tables[TableName];
    const [is, should] = [JSON.stringify(found[member]), JSON.stringify(expected[member])];
    return is === should ? [] : `${name} is ${is} and by the log ${should}`;
  });
  return words.length === 0 ? 'it is stored in other bytes' : words.join(', ');
}

type RowNames = (table: TableName, key: Buffer) => string;

/**
 * The names of rows. Accounts, deny entries and dedup rows are stored under hashes: the log is searched for the texts of
 * those that are in `hashed`, in hexadecimal.
 */
async function rowNames(offline: OfflineStore, hashed: ReadonlySet<string>): Promise<RowNames> {
  const said = new Map<string, string>();
  const note = (table: TableName, text: string, words: string): void => {
    const mark = hash('sha256', text, 'hex');
    if (hashed.has(mark)) said.set(`${table} ${mark}`, words);
  };
  if (hashed.size > 0) {
    for await (const run of auditedRecords(offline)) {
      for (const { event } of run) {
        if (event.type === 'ItemAccepted') {
          for (const { hostPubkey } of event.targets) {
            const words = `item ${event.itemId} of ${displayFingerprint(event.senderPubkey)} for ${displayFingerprint(hostPubkey)}`;
            note('dedup', rowKey.dedup(event.senderPubkey, hostPubkey, event.itemId), words);
          }
        } else if (event.type === 'HostEnrolled' || event.type === 'KeyRotated') {
          if (event.account !== null) note('account', event.account, event.account);
        } else if (event.type === 'DenyEntryAdded') {
          note('deny', rowKey.deny(event), rowKey.deny(event));
        }
      }
    }
  }
  return (table, key) => said.get(`${table} ${key.subarray(1).toString('hex')}`) ?? rowOwner(key);
}

/** Whether the key is a hash of what it means. */
function isHashed(table: TableName): boolean {
  return table === 'account' || table === 'deny' || table === 'dedup';
}

const TIME = 8;
const CHARGE_ADVICE =
  'What would be released beyond that cannot be acked and cannot expire, and poste relay log rebuild counts the same: restore the newest backup that verifies';

/**
 * Verifies that quotas are charged for what there is: the waiting items of every queue counted anew, for their target,
 * their senders and their accounts, and the dedup rows of every sender key.
 *
 * Counts the rows of a complete replay: what differs here was wrong when the log was written, and a
 * rebuild gives the same again. The relay refuses to release more than is charged.
 */
export async function* verifyCharges(replayed: ReplayedRows, findings: Findings): AsyncGenerator<Progress, void> {
  const audit = new ChargesAudit(replayed, findings);
  let done = 0;
  for await (const run of replayed.runs(prefixRange(PREFIX.target))) {
    for (const [key] of run) {
      await audit.countQueue(firstKeyOf(key));
      yield { stage: 'charges', done: ++done, of: undefined };
    }
  }
  audit.verifyTargets();
  await audit.verifyAccounts();
  await audit.verifySenders();
}

class ChargesAudit {
  readonly #rows: ReplayedRows;
  readonly #findings: Findings;
  /** What every queue is to be charged for, items that are on their way to it included. */
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
        const { kind, senderPubkey, bytes } = decodeRow('queue', key, value);
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
        const { account } = decodeRow('enrolment', key, value);
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
          this.#compare(`an account without hosts (key ${mark})`, decodeRow('account', key, value), NO_USAGE);
      }
    }
  }

  /** What each sender key keeps in the dedup table, but for what was purged. */
  async verifySenders(): Promise<void> {
    const purgedMs = this.#rows.get('relay', rowKey.relay)?.dedupPurgedMs ?? 0;
    const kept = new Map<PublicKey, number>();
    for await (const run of this.#rows.runs(prefixRange(DEDUP_OWNERS))) {
      for (const [, owner] of run) {
        if (numberAt(owner, 0) <= purgedMs) continue;
        const sender = keyTextAt(owner, TIME);
        kept.set(sender, (kept.get(sender) ?? 0) + 1);
      }
    }
    for await (const run of this.#rows.runs(prefixRange(PREFIX.sender)))
      for (const [key] of run) if (!kept.has(firstKeyOf(key))) kept.set(firstKeyOf(key), 0);
    for (const [sender, rows] of kept) {
      const counted = this.#rows.get('sender', sender)?.dedupRows ?? 0;
      if (counted === rows) continue;
      const who = displayFingerprint(sender);
      const message = `${who} is charged for ${countText(counted, 'dedup row')}, and ${rows} ${rows === 1 ? 'is' : 'are'} kept of it: its quota of them is held against the wrong number`;
      this.#findings.add('CHARGE_DIFFERS', message, { host_pubkey: sender });
    }
  }

  #compare(who: string, row: UsageRow | undefined, waits: UsageRow): void {
    const charged = row ?? NO_USAGE;
    if (charged.items === waits.items && charged.bytes === waits.bytes) return;
    const message = `${who} is charged for ${words(charged)}, and ${words(waits)} ${waits.items === 1 ? 'waits' : 'wait'}. ${CHARGE_ADVICE}`;
    this.#findings.add('CHARGE_DIFFERS', message);
  }
}

function sum(to: UsageRow = NO_USAGE, { items, bytes }: UsageRow): UsageRow {
  return { items: to.items + items, bytes: to.bytes + bytes };
}

function words({ items, bytes }: UsageRow): string {
  return `${countText(items, 'item')} of ${countText(bytes, 'byte')}`;
}
