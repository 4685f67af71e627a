/** Verifies the wire bytes of everything that waits. */
import { hash } from 'node:crypto';
import type { Pair } from '../../lib/pair-block.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { type QueueRow, isMoved } from '../core/rows.ts';
import {
  BOUND_BYTES,
  decodeRowRun,
  isRun,
  keyAt,
  placedWires,
  readableRowsOf,
  wirePlaceOf,
} from '../store/item-run.ts';
import { KEY_BYTES, PAYLOAD_NAMES, PREFIX, firstKeyOf, prefixRange, seqOf } from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import { namesAnother } from '../store/row-codec.ts';
import { ackedThroughs, runsOf } from '../store/scan.ts';
import type { ScratchPairs } from '../store/scratch.ts';
import type { Findings, Progress } from './finding.ts';
import { type Verification, isOfStore } from './verification.ts';
import { joinWalks } from './walks.ts';

const HASH_BYTES = 32;

export async function* verifyWires(verification: Verification): AsyncGenerator<Progress, void> {
  const { offline, scratch, findings, counted } = verification;
  const { payloads, bytes } = yield* verifyPayloads(offline.level, scratch, findings);
  counted.payloads = payloads;
  counted.bytes += bytes;
}

/**
 * Verifies the wire bytes against the queue rows that name them: each waiting item has its own, with the hash that was
 * accepted, and nothing else is kept. Rows that were acked keep theirs until they are collected.
 */
async function* verifyPayloads(
  level: Level,
  scratch: ScratchPairs,
  findings: Findings,
): AsyncGenerator<Progress, { payloads: number; bytes: number }> {
  const audit = { payloads: 0, bytes: 0 };
  const acked = await ackedThroughs(level);
  const moved = yield* movedNames(level, acked, scratch);
  const unmoved = unmovedNames(level, acked);
  const wires = mapRuns(runsOf(level, prefixRange(PREFIX.payload)), placedWires);
  for await (const run of joinWalks(moved ? mergeMoved(unmoved, moved) : unmoved, wires)) {
    for (const { key: place, left: name, right: wire } of run) {
      const key = place.subarray(0, -BOUND_BYTES);
      if (wire) {
        audit.bytes += 1 + key.length + wire.length;
        audit.payloads++;
      }
      if (isOfStore(key, findings)) judge(key, name, wire, level, findings);
    }
    yield { stage: 'payloads', done: audit.payloads, of: undefined };
  }
  return audit;
}

type AckedQueues = Awaited<ReturnType<typeof ackedThroughs>>;

/**
 * Gives, under the key of a payload and the bound of its run: whether the row that names it waits u8, wire hash, key of
 * the row without its prefix, bound of the run of the row. The rows come in their own order, which is that of the
 * payloads but for what a rotation moved.
 */
function unmovedNames(level: Level, acked: AckedQueues): AsyncGenerator<Pair[]> {
  const rows = runsOf(level, prefixRange(PREFIX.queue));
  return mapRuns(rows, (pair) => namesIn(pair, acked, (row) => !isMoved(row)));
}

async function* mapRuns(runs: AsyncIterable<Pair[]>, pairsOf: (pair: Pair) => Pair[]): AsyncGenerator<Pair[]> {
  for await (const run of runs) yield run.flatMap(pairsOf);
}

/** Names those of moved rows, in a scratch, which sorts them; `undefined` where no row was moved. */
async function* movedNames(
  level: Level,
  acked: AckedQueues,
  scratch: ScratchPairs,
): AsyncGenerator<Progress, AsyncGenerator<Pair[]> | undefined> {
  let isAnyMoved = false;
  for await (const run of runsOf(level, prefixRange(PREFIX.queue))) {
    for (const pair of run) {
      if (!mayBeMoved(pair)) continue;
      for (const [payload, name] of namesIn(pair, acked, isMoved)) {
        scratch.put(withPrefix(PAYLOAD_NAMES, payload), name);
        isAnyMoved = true;
      }
      if (scratch.isFull) await scratch.spill();
    }
    yield { stage: 'payloads', done: 0, of: undefined };
  }
  const names = (): AsyncGenerator<Pair[]> => scratch.runs(prefixRange(PAYLOAD_NAMES));
  return isAnyMoved ? mapRuns(names(), ([key, name]) => [[withPrefix(PREFIX.payload, key), name]]) : undefined;
}

/** A payload that rows of both kinds name belongs to the moved one, which came later. */
async function* mergeMoved(
  unmoved: AsyncIterable<readonly Pair[]>,
  moved: AsyncIterable<readonly Pair[]>,
): AsyncGenerator<Pair[]> {
  for await (const run of joinWalks(unmoved, moved))
    yield run.map(({ key, left, right }): Pair => [key, (right ?? left) as Buffer]);
}

function mayBeMoved([key, value]: Pair): boolean {
  return isRun(value) ? decodeRowRun(key, value)?.isMoved === true : namesAnother(value);
}

/** Rows that cannot be read differ from the replay. */
function namesIn(pair: Pair, acked: AckedQueues, isWanted: (row: QueueRow) => boolean): Pair[] {
  if (pair[0].length !== KEY_BYTES[PREFIX.queue]) return [];
  const rows = readableRowsOf(pair) ?? [];
  return rows.filter(isWanted).map((row) => nameOf(pair[0], row, acked));
}

function nameOf(key: Buffer, row: QueueRow, acked: AckedQueues): Pair {
  const name = Buffer.allocUnsafe(HASH_BYTES + key.length + BOUND_BYTES);
  name[0] = row.seq > (acked.get(row.targetPubkey) ?? 0) ? 1 : 0;
  name.write(row.wireHash, 1, 'hex');
  name.set(keyAt(key, row.seq).subarray(1), 1 + HASH_BYTES);
  name.set(key.subarray(-BOUND_BYTES), HASH_BYTES + key.length);
  return [wirePlaceOf(row), name];
}

function judge(
  key: Buffer,
  name: Buffer | undefined,
  wire: Buffer | undefined,
  level: Level,
  findings: Findings,
): void {
  if (name && (name[0] === 0 || (wire && hasNamedHash(wire, name)))) return;
  const place = `${displayFingerprint(firstKeyOf(key))} at seq ${seqOf(key)}`;
  const details = { host_pubkey: firstKeyOf(key), seq: seqOf(key) };
  if (!name) {
    findings.add(
      'PAYLOAD_UNEXPECTED',
      `wire bytes lie for ${place} and no queued item names them: mail that should be deleted is still on disk`,
      details,
    );
  } else if (!wire) {
    const message =
      `the wire bytes of ${nameItem(level, name)} are gone: when it is pulled, the relay reports it lost and ` +
      'begins a new epoch, and its sender pushes it again';
    findings.add('PAYLOAD_MISSING', message, details);
  } else {
    const message =
      `the wire bytes of ${nameItem(level, name)} are not the ones that were accepted: they are not served; when ` +
      'it is pulled, the relay reports it lost and begins a new epoch, and its sender pushes it again';
    findings.add('PAYLOAD_DIFFERS', message, details);
  }
}

function hasNamedHash(wire: Buffer, name: Buffer): boolean {
  return hash('sha256', wire, 'binary') === name.toString('latin1', 1, 1 + HASH_BYTES);
}

/** The item whose queue row names the payload. */
function nameItem(level: Level, name: Buffer): string {
  const key = withPrefix(PREFIX.queue, Buffer.concat([Buffer.of(0), name.subarray(1 + HASH_BYTES, -BOUND_BYTES)]));
  const run = Buffer.concat([key.subarray(0, -BOUND_BYTES), name.subarray(-BOUND_BYTES)]);
  const rows = readableRowsOf([run, level.getSync(run) as Buffer]);
  const row = rows?.find(({ seq }) => seq === seqOf(key));
  const place = `${displayFingerprint(firstKeyOf(key))} at seq ${seqOf(key)}`;
  return row ? `${row.kind} ${row.itemId} of ${displayFingerprint(row.senderPubkey)} for ${place}` : place;
}

function withPrefix(prefix: number, key: Buffer): Buffer {
  return Buffer.concat([Buffer.of(prefix), key.subarray(1)]);
}
