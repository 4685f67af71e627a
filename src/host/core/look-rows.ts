/**
 * Own rows that the relay accepted and nobody confirmed: each is to be in the log that this host is shown.
 *
 * Without this a relay that shows one log to all could leave mail out of it, and what was accepted and set back between
 * two looks would be lost. A row that is denied is pushed again, which harms nothing.
 */
import { DAY_MS } from '../../protocol/limits.ts';
import { ACCEPTED_TAG, RECORD_HEAD_BYTES, RECORD_VERSION } from '../../protocol/log-leaf.ts';
import { readMessagePack } from '../../protocol/message-pack.ts';
import { type LookDraft, NEXT_LOOK_MS } from './look-draft.ts';
import type { LogLinks } from './look-links.ts';
import { type Asking, type ProvenLeaf, isPartOf, provenLeaf } from './look-questions.ts';
import type { Answer, LogPlace, RowToProve } from './relay-trust.ts';

/** After so many denials of a row the host says that the relay left it out, and asks about it once a day. */
const DENIALS_MAX = 3;
/** A relay that prunes its log keeps each record for at least a day. */
const PRUNED_MS = DAY_MS;

export function* proveRows(draft: LookDraft, links: LogLinks, rows: readonly RowToProve[]): Asking<void> {
  for (const row of rows) {
    if (row.proven || !isDue(row, draft.nowMs)) continue;
    const place = yield* placeOf(draft, links, row);
    if (place === 'denied') deny(draft, links, row);
    else draft.rows.push({ rowId: row.rowId, ...(place !== 'unknown' && { proven: place }) });
  }
}

/** A row that was denied is asked about again ten minutes later, in the end once a day. */
export function isDue({ denied }: RowToProve, nowMs: number): boolean {
  return !denied || Math.abs(nowMs - denied.atMs) >= (denied.times < DENIALS_MAX ? NEXT_LOOK_MS : DAY_MS);
}

function deny(draft: LookDraft, { head }: LogLinks, { rowId, itemId, denied }: RowToProve): void {
  const times = (denied?.times ?? 0) + 1;
  draft.rows.push({ rowId, denied: { times, atMs: draft.nowMs } });
  if (times < DENIALS_MAX) draft.owe();
  if (times === DENIALS_MAX) draft.sayLeftOut(head, { itemId, rowId });
}

/** The log that is shown to hold the row; `unknown`: no denial either. */
function* placeOf(draft: LookDraft, links: LogLinks, row: RowToProve): Asking<LogPlace | 'denied' | 'unknown'> {
  const { itemId, target, epoch } = row;
  const { size } = links.head;
  const sized = epoch === links.head.epoch ? yield { ask: 'proof', itemId, target, size } as const : undefined;
  const place = sized && (yield* placeIn(draft, links, row, sized));
  if (place) return place;
  // The record may be in an earlier epoch, of another size, when the relay had the item already.
  const answer = yield { ask: 'proof', itemId, target };
  if (answer.type === 'refused' && answer.code === 'RECORD_PRUNED')
    return draft.nowMs - row.acceptedAtMs < PRUNED_MS ? 'denied' : 'unknown';
  return (yield* placeIn(draft, links, row, answer)) ?? 'denied';
}

/** The place that an answer proves, in a tree that the newest head commits to. */
function* placeIn(
  draft: LookDraft,
  links: LogLinks,
  row: RowToProve,
  answer: Answer,
): Asking<LogPlace | 'unknown' | undefined> {
  const shown = answer.type === 'answer' ? provenLeaf(answer.document, draft.relayPubkey) : undefined;
  if (!shown || !isRecordOf(shown, row)) return undefined;
  const { epoch, size } = shown.head;
  if (epoch === links.head.epoch) {
    // It was accepted before the newest head was signed, so it is to be in that one already.
    if (shown.index >= links.head.size) return undefined;
    const [small, large] = size < links.head.size ? [shown.head, links.head] : [links.head, shown.head];
    return (yield* isPartOf(small, large)) ? { epoch, size } : undefined;
  }
  const ending = yield* links.endOf((one) => one === epoch);
  if (ending === 'further') return 'unknown';
  return typeof ending === 'object' && (yield* isPartOf(shown.head, ending.end)) ? { epoch, size } : undefined;
}

const RECORD_BOUNDS = { depthMax: 8, valuesMax: 100_000, membersMax: 0, hasDoubles: true } as const;

/** Says whether the leaf is a record that accepts these bytes of the item, under this number of the target's queue. */
function isRecordOf({ leaf }: ProvenLeaf, { itemId, seq, wireHash }: RowToProve): boolean {
  const fields = readMessagePack(leaf.subarray(RECORD_HEAD_BYTES), RECORD_BOUNDS);
  const [tag, version, , item, , targets] = Array.isArray(fields) ? (fields as unknown[]) : [];
  if (tag !== ACCEPTED_TAG || version !== RECORD_VERSION || item !== itemId || !Array.isArray(targets)) return false;
  return (targets as unknown[]).some((target) => {
    const [, number, hash] = Array.isArray(target) ? (target as unknown[]) : [];
    return number === seq && Buffer.isBuffer(hash) && hash.toString('hex') === wireHash;
  });
}
