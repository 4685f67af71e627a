/**
 * The due indexes against the rows: what expires and what may be forgotten is named by an entry of its time, and of a
 * dedup row the entry names the right sender. Entries of rows that are gone are passed over by the sweep, and here.
 */
import { displayFingerprint, publicKeyFromBytes } from '../../protocol/public-key.ts';
import type { Pair } from '../store/backup.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import {
  DEDUP_OWNERS,
  DEDUP_RUNS,
  DEDUP_RUN_BYTES,
  EXPIRY_RUNS,
  EXPIRY_RUN_BYTES,
  KEY_BYTES,
  PREFIX,
  prefixRange,
  queueRowKey,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { joined, runsOf } from '../store/pairs.ts';
import type { ReplayedRows } from '../store/replay.ts';
import { decodeRow } from '../store/row-codec.ts';
import type { Findings, Progress } from './finding.ts';
import { lookedUp } from './looked-up.ts';

const KEY = 32;
const TIME = 8;
const PROGRESS_RUNS = 10_000;
const NOTHING = Buffer.alloc(0);

/** Answers how many bytes were read. Needs a replay that went through: `scratch` holds its rows. */
export async function* verifyDue(
  level: Level,
  scratch: BulkDatabase,
  replayed: ReplayedRows,
  findings: Findings,
): AsyncGenerator<Progress, number> {
  let bytes = 0;
  for (const index of [PREFIX.expiry, PREFIX.dedupUntil]) bytes += yield* spread(level, scratch, index, findings);
  const waiting = mapped(runsOf(scratch.level, prefixRange(PREFIX.queue)), (key, value) => {
    const { expiresAtMs } = decodeRow('queue', queueRowKey(key), value);
    return Buffer.concat([Buffer.of(EXPIRY_RUNS), key.subarray(1), time(expiresAtMs)]);
  });
  for await (const { key, left, right } of joined(waiting, runsOf(scratch.level, prefixRange(EXPIRY_RUNS)))) {
    if (left === undefined || right !== undefined) continue;
    const target = displayFingerprint(publicKeyFromBytes(key.subarray(1, 1 + KEY)));
    const place = `${target} at seq ${key.readBigUInt64BE(1 + KEY)}`;
    findings.add('DUE_MISSING', `nothing says when the item for ${place} expires, so it never would. ${ADVICE}`);
  }
  const purgedMs = replayed.get('relay', '')?.dedupPurgedMs ?? 0;
  const known = mapped(runsOf(scratch.level, prefixRange(DEDUP_OWNERS)), (key, owner) =>
    Number(owner.readBigUInt64BE(0)) <= purgedMs
      ? undefined
      : Buffer.concat([Buffer.of(DEDUP_RUNS), key.subarray(1), owner]),
  );
  const runs = runsOf(scratch.level, prefixRange(DEDUP_RUNS));
  let expected: Buffer | undefined;
  let stray: Buffer | undefined;
  for await (const { key, left, right } of joined(known, runs)) {
    const row = key.subarray(0, 1 + KEY + TIME);
    if (left === undefined) stray = row;
    else expected = row;
    const sender = displayFingerprint(publicKeyFromBytes(key.subarray(1 + KEY + TIME)));
    if (left !== undefined && right === undefined) {
      const name = key.subarray(1, 1 + KEY).toString('hex');
      const what = `nothing says when an item of ${sender} may be forgotten (dedup row ${name}), so it never would be`;
      findings.add('DUE_MISSING', `${what}. ${ADVICE}`);
    } else if (stray && expected?.equals(stray)) {
      // The purge would count the row against whom the run names.
      findings.add('DUE_DAMAGED', `a due entry names another sender than the dedup row of ${sender} has. ${ADVICE}`);
    }
  }
  return bytes;
}

const ADVICE = 'poste relay log rebuild makes the index anew';

/** Writes every run of the index into the scratch, in the order of the rows that it names. */
async function* spread(
  level: Level,
  scratch: BulkDatabase,
  index: typeof PREFIX.expiry | typeof PREFIX.dedupUntil,
  findings: Findings,
): AsyncGenerator<Progress, number> {
  const runBytes = index === PREFIX.expiry ? EXPIRY_RUN_BYTES : DEDUP_RUN_BYTES;
  let bytes = 0;
  let runs = 0;
  for await (const entries of lookedUp(level, prefixRange(index), findings)) {
    for (const [key, value] of entries) {
      bytes += key.length + value.length;
      if (key.length !== KEY_BYTES[index]) continue;
      if (value.length % runBytes !== 0) {
        findings.add('DUE_DAMAGED', `the due entry ${key.toString('hex')} has a length of none. ${ADVICE}`);
        continue;
      }
      const dueAt = key.subarray(1, 1 + TIME);
      for (let at = 0; at < value.length; at += runBytes) {
        const run = value.subarray(at, at + runBytes);
        scratch.put(index === PREFIX.expiry ? expiryRun(run, dueAt) : dedupRun(run, dueAt), NOTHING);
        if (scratch.isFull) await scratch.flush();
        if (++runs % PROGRESS_RUNS === 0) yield { stage: 'due', done: runs, of: undefined };
      }
    }
  }
  await scratch.flush();
  return bytes;
}

function expiryRun(run: Buffer, dueAt: Buffer): Buffer {
  return Buffer.concat([Buffer.of(EXPIRY_RUNS), run, dueAt]);
}

function dedupRun(run: Buffer, dueAt: Buffer): Buffer {
  return Buffer.concat([Buffer.of(DEDUP_RUNS), run.subarray(KEY), dueAt, run.subarray(0, KEY)]);
}

/** A walk under other keys, in the same order; pairs without a key are left out. */
async function* mapped(
  runs: AsyncIterable<readonly Pair[]>,
  keyOf: (key: Buffer, value: Buffer) => Buffer | undefined,
): AsyncGenerator<Pair[]> {
  for await (const run of runs) {
    yield run.flatMap(([key, value]): Pair[] => {
      const other = keyOf(key, value);
      return other ? [[other, NOTHING]] : [];
    });
  }
}

function time(timeMs: number): Buffer {
  const bytes = Buffer.alloc(TIME);
  bytes.writeBigUInt64BE(BigInt(timeMs));
  return bytes;
}
