/**
 * Verifies what holds the store together besides log and rows: every key under a known prefix, one identity everywhere,
 * the marks that are written without an event, and what lies outside the database (position, relay key, backup header).
 */
import { onlyOf } from '../../lib/caught.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { RelayRow } from '../core/rows.ts';
import { seqsIn } from '../store/item-run.ts';
import {
  collectedKey,
  firstKeyOf,
  KEY_BYTES,
  numberAt,
  PREFIX,
  prefixRange,
  queueKey,
  rowKeyBytes,
} from '../store/keys.ts';
import type { Level } from '../store/level.ts';
import type { OfflineStore } from './offline.ts';
import { readableRelayRow } from '../store/migrate.ts';
import { unusablePosition, positionPathOf, positionFault, readPosition } from '../store/position.ts';
import { declaredSchema, readViewMark, SCHEMA_VERSION } from '../store/marks.ts';
import { ackedThroughs, type KeyRange, readableRow, runsOf } from '../store/scan.ts';
import { StoreRefused } from '../store/refused.ts';
import { readRelayKey } from '../store/relay-key.ts';
import { verifiedBytes, rowName } from '../store/checksum.ts';
import type { Findings, Progress } from './finding.ts';
import { type StorePlaces, type Verification, isOfStore } from './verification.ts';
import { fileFault } from '../../lib/file-fault.ts';

export async function* verifyStore({
  offline,
  rows,
  isReplayed,
  places,
  findings,
}: Verification): AsyncGenerator<Progress, void> {
  yield { stage: 'store', done: 0, of: undefined };
  const { level } = offline;
  await verifyKeys(level, findings);
  await verifyMarks(level, findings);
  const stored = await readableRelayRow(level, SCHEMA_VERSION);
  const identity = (isReplayed ? rows.get('relay', '') : undefined) ?? stored;
  // A view may hold values of a newer schema than the one of its log.
  const declared = await declaredSchema(level);
  if (identity ? (declared ?? 0) < identity.schemaVersion : declared !== undefined)
    findings.add('IDENTITY_DIFFERS', 'the schema that the store declares is not the one of its log');
  if (!identity) return;
  if (offline.header) verifyHeader(offline, identity, findings);
  if (!places) return;
  await verifyPosition(offline, identity, places, findings);
  await verifyRelayKey(identity, places.folder, findings);
}

/** Keys under prefixes that no store has, and under those that no other check walks. */
async function verifyKeys(level: Level, findings: Findings): Promise<void> {
  const known = Object.values(PREFIX).toSorted((a, b) => a - b);
  const ends = [...known.map((prefix) => Buffer.of(prefix)), undefined];
  const between = ends.map((lt, at): KeyRange => {
    const before = known[at - 1];
    const gte = before === undefined ? Buffer.alloc(0) : Buffer.of(before + 1);
    return lt ? { gte, lt } : { gte };
  });
  for (const range of [...between, ...[PREFIX.schema, PREFIX.heartbeat, PREFIX.collected].map(prefixRange)])
    for await (const run of runsOf(level, range)) for (const [key] of run) isOfStore(key, findings);
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
        findings.add(
          'MARK_DIFFERS',
          `${rowName(key)} does not match its checksum: the relay writes it anew when it collects that queue`,
          { host_pubkey: target, key: key.toString('hex') },
        );
        continue;
      }
      const collected = numberAt(bytes, 0);
      const isBeyond = collected > (through.get(target) ?? 0);
      if (isBeyond || (await firstSeq(level, target)) <= collected) {
        const message =
          `the queue of ${displayFingerprint(target)} is marked as collected further than it ` +
          `${isBeyond ? 'was acked: what it acks would stay' : 'is: what it acked stays'} on disk; poste relay log ` +
          'rebuild drops the mark';
        findings.add('MARK_DIFFERS', message, { host_pubkey: target, key: collectedKey(target).toString('hex') });
      }
    }
  }
}

/** The seq of the first row that is stored of a queue. */
async function firstSeq(level: Level, target: PublicKey): Promise<number> {
  const range = { gte: queueKey(target, 0), lte: queueKey(target, Number.MAX_SAFE_INTEGER), limit: 1 };
  const [first] = await level.iterator({ ...range, fillCache: false }).all();
  return (first && seqsIn(first)[0]) ?? Infinity;
}

function verifyHeader({ header, store }: OfflineStore, relay: RelayRow, findings: Findings): void {
  if (!header) return;
  const differences = [
    [header.relay_pubkey, relay.relayPubkey, 'relay key'],
    [header.epoch, relay.epoch, 'epoch'],
    [header.schema_version, Math.max(header.schema_version, relay.schemaVersion), 'schema'],
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
  const differs = ({ message }: StoreRefused): void => findings.add('IDENTITY_DIFFERS', message);
  const own = (await readRelayKey(folder).catch(onlyOf(StoreRefused, differs)))?.publicKey;
  // Without the file the key comes from the deploy secret.
  if (own === undefined || own === relay.relayPubkey) return;
  const message =
    `relay.key is the key of ${displayFingerprint(own)}, and the store is of ` +
    `${displayFingerprint(relay.relayPubkey)}: give the store its own key back`;
  findings.add('IDENTITY_DIFFERS', message);
}
