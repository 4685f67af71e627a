/**
 * The wire bytes against the queue rows that name them: each waiting item has its own, with the hash that was accepted,
 * and nothing else is kept. Rows that were acked keep theirs until they are collected.
 */
import { hash } from 'node:crypto';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { QueueRow } from '../core/rows.ts';
import type { BulkDatabase } from '../store/bulk.ts';
import { KEY_BYTES, PAYLOAD_NAMES, PREFIX, firstKeyOf, payloadKey, prefixRange, seqOf } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { hashBytes } from '../store/packing.ts';
import { runsOf } from '../store/scan.ts';
import { joined, isOfStore } from './walks.ts';
import { decodeRow } from '../store/row-codec.ts';
import type { Findings, Progress } from './finding.ts';
import { attempt } from './verify-log.ts';
import type { Pair } from '../../lib/pair-block.ts';

export interface PayloadsAudit {
  payloads: number;
  bytes: number;
}

const PROGRESS_PAYLOADS = 1_000;
const HASH_BYTES = 32;

export async function* verifyPayloads(
  level: Level,
  scratch: BulkDatabase,
  findings: Findings,
): AsyncGenerator<Progress, PayloadsAudit> {
  const named = await nameAll(level, scratch);
  const audit: PayloadsAudit = { payloads: 0, bytes: 0 };
  const names = unprefixed(runsOf(scratch.level, prefixRange(PAYLOAD_NAMES)));
  const payloads = unprefixed(runsOf(level, prefixRange(PREFIX.payload)));
  for await (const { key, left: name, right: wire } of joined(names, payloads)) {
    if (wire) {
      audit.bytes += 1 + key.length + wire.length;
      if (++audit.payloads % PROGRESS_PAYLOADS === 0) yield { stage: 'payloads', done: audit.payloads, of: named };
    }
    if (!isOfStore(key, findings)) continue;
    judge(key, name, wire, level, findings);
  }
  return audit;
}

/** Notes which payload every queue row names. */
async function nameAll(level: Level, scratch: BulkDatabase): Promise<number> {
  const ackedThrough = await ackedThroughs(level);
  let named = 0;
  for await (const run of runsOf(level, prefixRange(PREFIX.queue))) {
    for (const [key, value] of run) {
      if (key.length !== KEY_BYTES[PREFIX.queue]) continue;
      const row = attempt(() => decodeRow('queue', key, value));
      // A row that cannot be read differs from the replay.
      if (!row) continue;
      const waits = row.seq > (ackedThrough.get(row.targetPubkey) ?? 0);
      const name = Buffer.concat([Buffer.of(waits ? 1 : 0), hashBytes(row.wireHash), key.subarray(1)]);
      scratch.put(prefixed(PAYLOAD_NAMES, payloadKey(row.payloadTarget, row.payloadSeq)), name);
      if (scratch.isFull) await scratch.flush();
      named++;
    }
  }
  await scratch.flush();
  return named;
}

export async function ackedThroughs(level: Level): Promise<Map<PublicKey, number>> {
  const through = new Map<PublicKey, number>();
  for await (const run of runsOf(level, prefixRange(PREFIX.target))) {
    for (const [key, value] of run) {
      const row = attempt(() => decodeRow('target', key, value));
      if (row && key.length === KEY_BYTES[PREFIX.target]) through.set(firstKeyOf(key), row.ackedThrough);
    }
  }
  return through;
}

function judge(
  key: Buffer,
  name: Buffer | undefined,
  wire: Buffer | undefined,
  level: Level,
  findings: Findings,
): void {
  const place = `${displayFingerprint(firstKeyOf(key))} at seq ${seqOf(key)}`;
  const details = { host_pubkey: firstKeyOf(key), seq: seqOf(key) };
  if (!name) {
    const message = `wire bytes lie for ${place} and no queued item names them: mail that should be deleted is still on disk`;
    findings.add('PAYLOAD_UNEXPECTED', message, details);
    return;
  }
  if (name[0] === 0) return;
  if (!wire) {
    const message = `the wire bytes of ${itemWords(level, name)} are gone: when it is pulled, the relay reports it lost and begins a new epoch, and its sender pushes it again`;
    findings.add('PAYLOAD_MISSING', message, details);
  } else if (!hash('sha256', wire, 'buffer').equals(name.subarray(1, 1 + HASH_BYTES))) {
    const message = `the wire bytes of ${itemWords(level, name)} are not the ones that were accepted: they are not served; when it is pulled, the relay reports it lost and begins a new epoch, and its sender pushes it again`;
    findings.add('PAYLOAD_DIFFERS', message, details);
  }
}

/** The item whose queue row names the payload. */
function itemWords(level: Level, name: Buffer): string {
  const key = prefixed(PREFIX.queue, Buffer.concat([Buffer.of(0), name.subarray(1 + HASH_BYTES)]));
  const row: QueueRow | undefined = attempt(() => decodeRow('queue', key, level.getSync(key) as Buffer));
  const place = `${displayFingerprint(firstKeyOf(key))} at seq ${seqOf(key)}`;
  return row ? `${row.kind} ${row.itemId} of ${displayFingerprint(row.senderPubkey)} for ${place}` : place;
}

function prefixed(prefix: number, key: Buffer): Buffer {
  return Buffer.concat([Buffer.of(prefix), key.subarray(1)]);
}

/** With the same first byte everywhere, so that two walks are in step. */
async function* unprefixed(runs: AsyncIterable<readonly Pair[]>): AsyncGenerator<Pair[]> {
  for await (const run of runs) yield run.map(([key, value]): Pair => [prefixed(PREFIX.payload, key), value]);
}
