/**
 * Makes what `mail_inbox` shows: summaries and whole messages from the rows of one mailbox, in pages with opaque
 * cursors.
 *
 * A page of bodies holds whole messages, as many as fit. A first message that does not fit is cut between two code
 * points, and its `next_body_offset` says where the rest begins.
 */
import { isoSecond } from '../../protocol/time.ts';
import { codeUnitAfter, fittingRun } from '../core/code-points.ts';
import type { Refusal } from '../core/refusal.ts';
import type { AgentId, EntryRow, MessageRef, MessageRow } from '../core/rows.ts';
import type { MessageSummary, WholeMessage } from '../contract/mail.ts';
import { SHOWN_TO_MAX } from '../contract/limits.ts';
import { badInput } from '../contract/parse-input.ts';
import { withoutUsual } from '../contract/usual-mail.ts';
import type { Reader } from '../store/host-store.ts';

/** A cursor holds its action, and a number with a meaning for that action. */
export function cursorOf(action: string, at: number): string {
  return Buffer.from(`${action}:${at}`).toString('base64url');
}

export function parseCursor(action: string, cursor: string): number | Refusal {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const at = text.startsWith(`${action}:`) ? Number(text.slice(action.length + 1)) : Number.NaN;
  const isOne = Number.isSafeInteger(at) && at >= 0 && cursorOf(action, at) === cursor;
  return isOne ? at : badInput('cursor', 'is of another list, or cut: give the cursor that the page before ended with');
}

/** Returns what every list shows of a message; `entry` is its entry in the reader's mailbox, if it has one. */
export function messageSummary(message: MessageRow, entry: EntryRow | undefined): MessageSummary {
  const { ref, to } = message;
  return withoutUsual({
    message_id: ref,
    thread: message.thread,
    reply_to: message.replyTo,
    from: message.from,
    to: to.slice(0, SHOWN_TO_MAX),
    to_count: to.length,
    subject: message.subject,
    kind: message.kind,
    needs_reply: message.needsReply,
    origin: message.origin,
    created_at: isoSecond(message.createdAtMs),
    stored_at: isoSecond(message.storedAtMs),
    state: entry?.state ?? 'sent',
    forwarded_from: entry?.forwardedFrom ?? null,
    body_bytes: message.bodyBytes,
  });
}

/** Returns what a list shows of the entry at a position. */
export function summaryAt(
  reader: Reader,
  agentId: AgentId,
  position: number,
): { summary: MessageSummary; entry: EntryRow } {
  const entry = reader.get('entry', agentId, position);
  const message = entry && reader.get('message', entry.ref);
  if (!message) throw new Error('invariant: what is in a mailbox is kept');
  return { summary: messageSummary(message, entry), entry };
}

/** The entry of a message in a mailbox; `undefined` for one that the agent sent. */
export function entryOf(reader: Reader, agentId: AgentId, ref: MessageRef): EntryRow | undefined {
  const position = reader.get('place', agentId, ref);
  return position === undefined ? undefined : reader.get('entry', agentId, position);
}

/** Fills one answer with bodies until its bytes are used up. */
export class BodyBudget {
  readonly #bytesMax: number;
  #left: number;
  #isEmpty = true;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#left = bytesMax;
  }

  /** The message with its body from a code point on, or `undefined` when it belongs to the next page. */
  show(reader: Reader, message: MessageRow, entry: EntryRow | undefined, fromCodePoint = 0): WholeMessage | undefined {
    const refsBytes = message.refs.reduce((bytes, ref) => bytes + Buffer.byteLength(ref), 0);
    const remaining = this.#left - refsBytes;
    if (!this.#isEmpty && (remaining <= 0 || (fromCodePoint === 0 && message.bodyBytes > remaining))) return undefined;
    const body = reader.get('body', message.ref) ?? '';
    const from = codeUnitAfter(body, fromCodePoint);
    // The first message always has room for its refs and some of its body.
    const { end, codePoints } = fittingRun(body, from, this.#isEmpty ? this.#bytesMax : remaining);
    const shown = body.slice(from, end);
    const next = end < body.length ? fromCodePoint + codePoints : null;
    this.#isEmpty = false;
    this.#left = next === null ? remaining - Buffer.byteLength(shown) : 0;
    const { body_bytes, ...summary } = messageSummary(message, entry);
    const { refs } = message;
    const rest =
      next === null ? undefined : { next_body_offset: next, ...(body_bytes !== undefined && { body_bytes }) };
    return { ...summary, ...(refs.length > 0 && { refs }), body: shown, ...rest };
  }
}
