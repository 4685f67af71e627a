/**
 * What holds the store together besides log and rows: every key under a known prefix, one identity everywhere, the
 * marks that are written without an event, and what lies outside the database (position, relay key, backup header).
 */
import { hash } from 'node:crypto';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import type { RelayRow, QueueRow } from '../core/rows.ts';
import {
  KEY_BYTES,
  PREFIX,
  collectedKey,
  firstKeyOf,
  prefixRange,
  rowKeyBytes,
  PAYLOAD_NAMES,
  payloadKey,
  seqOf,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import type { OfflineStore } from './offline.ts';
import { readableRelayRow, declaredSchema } from '../store/migrate.ts';
import { SCHEMA_VERSION, unusablePosition } from '../store/open.ts';
import { positionPathOf } from '../store/position-place.ts';
import { ackedThroughs, readableRow, runsOf } from '../store/scan.ts';
import { positionFault, readPosition } from '../store/position.ts';
import { readViewMark } from '../store/view-mark.ts';
import { StoreRefused } from '../store/refused.ts';
import { readRelayKey } from '../store/relay-key.ts';
import { verifiedBytes, rowName } from '../store/checksum.ts';
import type { Findings, Progress } from './finding.ts';
import { isOfStore, joined } from './walks.ts';
import type { ScratchPairs } from '../store/scratch.ts';
import { namesAnother } from '../store/row-codec.ts';
import { isMoved } from '../store/wire-check.ts';
import type { Pair } from '../../lib/pair-block.ts';
import { fileFault } from '../../lib/file-fault.ts';

/** Where a store folder keeps what is not in its database. */
export interface StorePlaces {
  folder: string;
  /** The one that a flag or the config names. */
  positionFile: string | undefined;
}

/** `relay` is the row that the replay gave; `places` is absent for a backup. */
export async function verifyStore(
  offline: OfflineStore,
  relay: RelayRow | undefined,
  places: StorePlaces | undefined,
  findings: Findings,
): Promise<void> {
  const { level } = offline;
  await verifyKeys(level, findings);
  await verifyMarks(level, findings);
  const stored = await readableRelayRow(level, SCHEMA_VERSION);
  const identity = relay ?? stored;
  if ((await declaredSchema(level)) !== identity?.schemaVersion) {
    findings.add('IDENTITY_DIFFERS', 'the schema that the store declares is not the one of its log');
  }
  if (!identity) return;
  if (offline.header) verifyHeader(offline, identity, findings);
  if (!places) return;
  await verifyPosition(offline, identity, places, findings);
  await verifyRelayKey(identity, places.folder, findings);
}

/** Keys under prefixes that no store has; those under known ones are judged where they are walked. */
async function verifyKeys(level: Level, findings: Findings): Promise<void> {
  const known = Object.values(PREFIX).toSorted((a, b) => a - b);
  for (const [at, prefix] of [...known, undefined].entries()) {
    const before = known[at - 1];
    const range = {
      gte: before === undefined ? Buffer.alloc(0) : Buffer.of(before + 1),
      ...(prefix !== undefined && { lt: Buffer.of(prefix) }),
    };
    for await (const run of runsOf(level, range)) for (const [key] of run) isOfStore(key, findings);
  }
  for (const prefix of [PREFIX.schema, PREFIX.heartbeat, PREFIX.collected]) {
    for await (const run of runsOf(level, prefixRange(prefix))) for (const [key] of run) isOfStore(key, findings);
  }
}

/** The heartbeat, and how far each queue is collected: no event says them, but they keep bounds. */
async function verifyMarks(level: Level, findings: Findings): Promise<void> {
  const heartbeatKey = rowKeyBytes('heartbeat', '');
  const heartbeat = await level.get(heartbeatKey);
  const beat = heartbeat && readableRow('heartbeat', heartbeatKey, heartbeat);
  // A shared log has its own: the lease of who leads.
  if (!(await readViewMark(level)) && (!beat || !Number.isSafeInteger(beat.atMs))) {
    const message = 'the heartbeat is missing or cannot be read: the relay cannot tell whether this is an older copy';
    findings.add('MARK_DIFFERS', message);
  }
  const through = await ackedThroughs(level);
  for await (const run of runsOf(level, prefixRange(PREFIX.collected))) {
    for (const [key, value] of run) {
      if (key.length !== KEY_BYTES[PREFIX.collected]) continue;
      const target = firstKeyOf(key);
      const bytes = verifiedBytes(key, value);
      if (!bytes) {
        const message = `${rowName(key)} does not match its checksum: the relay writes it anew when it collects that queue`;
        findings.add('MARK_DIFFERS', message, { host_pubkey: target, key: key.toString('hex') });
        continue;
      }
      if (Number(bytes.readBigUInt64BE(0)) > (through.get(target) ?? 0)) {
        const message = `the queue of ${displayFingerprint(target)} is marked as collected further than it was acked: what it acks would stay on disk; poste relay log rebuild drops the mark`;
        findings.add('MARK_DIFFERS', message, { host_pubkey: target, key: collectedKey(target).toString('hex') });
      }
    }
  }
}

function verifyHeader({ header, store }: OfflineStore, relay: RelayRow, findings: Findings): void {
  if (!header) return;
  const differences = [
    [header.relay_pubkey, relay.relayPubkey, 'relay key'],
    [header.epoch, relay.epoch, 'epoch'],
    [header.schema_version, relay.schemaVersion, 'schema'],
    [header.lsn, store.lastLsn, 'last log record'],
  ].filter(([said, is]) => said !== is);
  for (const [said, is, what] of differences) {
    const message = `the backup says ${String(said)} as its ${String(what)} and holds ${String(is)}`;
    findings.add('IDENTITY_DIFFERS', message);
  }
}

async function verifyPosition(
  { level, store }: OfflineStore,
  relay: RelayRow,
  { folder, positionFile }: StorePlaces,
  findings: Findings,
): Promise<void> {
  const mark = await readViewMark(level);
  if (mark) {
    if (mark.lastLsn === store.lastLsn) return;
    const ends = `this view of a shared log is marked to end at record ${mark.lastLsn}, and ends at ${store.lastLsn}`;
    findings.add('POSITION_DIFFERS', `${ends}; at its next start the node puts it aside`);
    return;
  }
  const path = positionPathOf(folder, positionFile);
  const position = await readPosition(path).catch((error: unknown) => {
    throw unusablePosition(path, fileFault(error));
  });
  const fault = await positionFault(level, position, store.pruned);
  const isOfOtherEpoch = position?.lsn === store.lastLsn && position.epoch !== relay.epoch;
  const what =
    fault?.clause ??
    (isOfOtherEpoch && `the position file names the epoch ${position.epoch}, and the log ends in ${relay.epoch}`);
  if (what) findings.add('POSITION_DIFFERS', `${what}; at its next start the relay begins a new epoch`);
}

async function verifyRelayKey(relay: RelayRow, folder: string, findings: Findings): Promise<void> {
  let own: PublicKey | undefined;
  try {
    own = (await readRelayKey(folder))?.publicKey;
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    findings.add('IDENTITY_DIFFERS', error.message);
    return;
  }
  // Without the file the key comes from the deploy secret.
  if (own === undefined || own === relay.relayPubkey) return;
  const message = `relay.key is the key of ${displayFingerprint(own)}, and the store is of ${displayFingerprint(relay.relayPubkey)}: give the store its own key back`;
  findings.add('IDENTITY_DIFFERS', message);
}

interface PayloadsAudit {
  payloads: number;
  bytes: number;
}

const HASH_BYTES = 32;

/**
 * Verifies the wire bytes against the queue rows that name them: each waiting item has its own, with the hash that was
 * accepted, and nothing else is kept. Rows that were acked keep theirs until they are collected.
 */
export async function* verifyPayloads(
  level: Level,
  scratch: ScratchPairs,
  findings: Findings,
): AsyncGenerator<Progress, PayloadsAudit> {
  const audit: PayloadsAudit = { payloads: 0, bytes: 0 };
  const acked = await ackedThroughs(level);
  const moved = yield* movedNames(level, acked, scratch);
  const unmoved = unmovedNames(level, acked);
  const payloads = runsOf(level, prefixRange(PREFIX.payload));
  for await (const run of joined(moved ? withMoved(unmoved, moved) : unmoved, payloads)) {
    for (const { key, left: name, right: wire } of run) {
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

type Acked = Awaited<ReturnType<typeof ackedThroughs>>;

/**
 * Under the key of a payload: whether the row that names it waits u8, wire hash, key of the row without its prefix. Of
 * rows in their own order, which is that of the payloads but for what a rotation moved.
 */
async function* unmovedNames(level: Level, acked: Acked): AsyncGenerator<Pair[]> {
  for await (const run of runsOf(level, prefixRange(PREFIX.queue))) {
    yield run.flatMap(([key, value]) => {
      const row = queueRow(key, value);
      return row && !isMoved(row) ? [nameOf(key, row, acked)] : [];
    });
  }
}

/** Those of moved rows, in a scratch, which sorts them; `undefined` where no row was moved. */
async function* movedNames(
  level: Level,
  acked: Acked,
  scratch: ScratchPairs,
): AsyncGenerator<Progress, AsyncGenerator<Pair[]> | undefined> {
  let isAnyMoved = false;
  for await (const run of runsOf(level, prefixRange(PREFIX.queue))) {
    for (const [key, value] of run) {
      const row = namesAnother(value) ? queueRow(key, value) : undefined;
      if (!row || !isMoved(row)) continue;
      const [payload, name] = nameOf(key, row, acked);
      scratch.put(prefixed(PAYLOAD_NAMES, payload), name);
      isAnyMoved = true;
      if (scratch.isFull) await scratch.spill();
    }
    yield { stage: 'payloads', done: 0, of: undefined };
  }
  return isAnyMoved ? renamed(scratch.runs(prefixRange(PAYLOAD_NAMES))) : undefined;
}

async function* renamed(runs: AsyncIterable<readonly Pair[]>): AsyncGenerator<Pair[]> {
  for await (const run of runs) yield run.map(([key, value]): Pair => [prefixed(PREFIX.payload, key), value]);
}

/** A payload that rows of both kinds name belongs to the moved one, which came later. */
async function* withMoved(
  unmoved: AsyncIterable<readonly Pair[]>,
  moved: AsyncIterable<readonly Pair[]>,
): AsyncGenerator<Pair[]> {
  for await (const run of joined(unmoved, moved))
    yield run.map(({ key, left, right }): Pair => [key, (right ?? left) as Buffer]);
}

/** A row that cannot be read differs from the replay. */
function queueRow(key: Buffer, value: Buffer): QueueRow | undefined {
  return key.length === KEY_BYTES[PREFIX.queue] ? readableRow('queue', key, value) : undefined;
}

function nameOf(key: Buffer, row: QueueRow, acked: Acked): Pair {
  const name = Buffer.allocUnsafe(HASH_BYTES + key.length);
  name[0] = row.seq > (acked.get(row.targetPubkey) ?? 0) ? 1 : 0;
  name.write(row.wireHash, 1, 'hex');
  name.set(key.subarray(1), 1 + HASH_BYTES);
  return [payloadKey(row.payloadTarget, row.payloadSeq), name];
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
    const message = `wire bytes lie for ${place} and no queued item names them: mail that should be deleted is still on disk`;
    findings.add('PAYLOAD_UNEXPECTED', message, details);
  } else if (!wire) {
    const message = `the wire bytes of ${nameItem(level, name)} are gone: when it is pulled, the relay reports it lost and begins a new epoch, and its sender pushes it again`;
    findings.add('PAYLOAD_MISSING', message, details);
  } else {
    const message = `the wire bytes of ${nameItem(level, name)} are not the ones that were accepted: they are not served; when it is pulled, the relay reports it lost and begins a new epoch, and its sender pushes it again`;
    findings.add('PAYLOAD_DIFFERS', message, details);
  }
}

function hasNamedHash(wire: Buffer, name: Buffer): boolean {
  return hash('sha256', wire, 'binary') === name.toString('latin1', 1, 1 + HASH_BYTES);
}

/** The item whose queue row names the payload. */
function nameItem(level: Level, name: Buffer): string {
  const key = prefixed(PREFIX.queue, Buffer.concat([Buffer.of(0), name.subarray(1 + HASH_BYTES)]));
  const row: QueueRow | undefined = readableRow('queue', key, level.getSync(key) as Buffer);
  const place = `${displayFingerprint(firstKeyOf(key))} at seq ${seqOf(key)}`;
  return row ? `${row.kind} ${row.itemId} of ${displayFingerprint(row.senderPubkey)} for ${place}` : place;
}

function prefixed(prefix: number, key: Buffer): Buffer {
  return Buffer.concat([Buffer.of(prefix), key.subarray(1)]);
}
