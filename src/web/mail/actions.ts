/**
 * Does what the owner does with mail: marks it read or done. The host tells the senders at once, and nobody can take
 * that back: so an action waits here, shown as done, as long as it can be undone.
 */
import { computed, signal } from '@preact/signals';
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect } from 'preact/hooks';
import type { ReadAllInput, ReadAllResult } from '../../host/contract/owner-page.ts';
import type { InboxResult } from '../../host/contract/mail.ts';
import type { FullSummary } from '../../host/contract/usual-mail.ts';
import { act } from '../shared/api.ts';
import { failureText, notice } from '../shared/session.ts';
import { type ListedConversation, mailChanges, unread } from './state.ts';

/** An action can be undone for this time, unless another one comes or the page is left. */
const UNDO_MS = 6000;
/** The most messages that one request marks. */
const MARK_MAX = 20;

export interface Action {
  type: 'mark_read' | 'ack' | 'read_all';
  /** The text tells the owner what happened. */
  text: string;
  messageIds: readonly string[];
  /** The number of them that were unread. */
  unread: number;
  /** The further meaning of `read_all`. */
  all?: ReadAllInput;
}

const held = signal<Action | undefined>(undefined);
/** The messages that this page marked. A message never becomes unread again, so this stays true. */
const marked = signal<ReadonlyMap<string, 'read' | 'acked'>>(new Map());
let timer: ReturnType<typeof setTimeout> | undefined;

type Holder = 'pointer' | 'focus';
/** The pointer and the focus, while they are on the toast: no time ends meanwhile, of whichever action. */
const holders = new Set<Holder>();

/** The count of unread messages, without those that an action is about. */
export const shownUnread = computed(() => Math.max(0, unread.value - (held.value?.unread ?? 0)));

const overlay = computed(() => withAction(marked.value, held.value));

function withAction(before: ReadonlyMap<string, 'read' | 'acked'>, action: Action | undefined): typeof before {
  if (!action) return before;
  const after = new Map(before);
  for (const id of action.messageIds) if (action.type === 'ack' || !after.has(id)) after.set(id, stateAfter(action));
  return after;
}

function stateAfter({ type }: Action): 'read' | 'acked' {
  return type === 'ack' ? 'acked' : 'read';
}

/** The state of a message, after what this page did. */
export function stateOf({ message_id, state }: Pick<FullSummary, 'message_id' | 'state'>): FullSummary['state'] {
  const after = overlay.value.get(message_id);
  return after === undefined || state === 'acked' || state === 'sent' ? state : after;
}

/** The conversation, after what this page did: the same object if that was nothing. */
export function shownConversation(conversation: ListedConversation): ListedConversation {
  if (!conversation.not_done.some((id) => overlay.value.has(id))) return conversation;
  const notDone = conversation.not_done.filter((id) => overlay.value.get(id) !== 'acked');
  return {
    ...conversation,
    newest: { ...conversation.newest, state: stateOf(conversation.newest) },
    unread: conversation.unread.filter((id) => !overlay.value.has(id)),
    not_done: notDone,
    needs_reply: conversation.needs_reply && notDone.length > 0,
  };
}

/** Does the action before, if it still waits, and lets this one wait. */
export function perform(action: Action): void {
  void settle();
  held.value = action;
  wait();
}

/** Starts the time anew, unless the pointer or the focus is on the toast. */
function wait(): void {
  clearTimeout(timer);
  if (holders.size === 0) timer = setTimeout(() => void settle(), UNDO_MS);
}

function hold(by: Holder): void {
  holders.add(by);
  clearTimeout(timer);
}

function letGo(by: Holder): void {
  holders.delete(by);
  wait();
}

function undo(): void {
  clearTimeout(timer);
  held.value = undefined;
  notice.value = 'Undone.';
}

/** Does what waits. The requests go out even when the page is being left. */
async function settle(): Promise<void> {
  clearTimeout(timer);
  const action = held.value;
  if (!action) return;
  marked.value = withAction(marked.value, action);
  unread.value = shownUnread.value;
  held.value = undefined;
  try {
    await send(action);
  } catch (error) {
    notice.value = failureText(error);
    marked.value = new Map([...marked.value].filter(([id]) => !action.messageIds.includes(id)));
    mailChanges.value++;
  }
}

async function send({ type, messageIds, all }: Action): Promise<void> {
  if (type === 'read_all') {
    await act<ReadAllResult>('mail-read-all', all ?? {}, { keepalive: true });
    mailChanges.value++;
    return;
  }
  const requests: Promise<InboxResult>[] = [];
  for (let at = 0; at < messageIds.length; at += MARK_MAX) {
    const input = { action: type, message_ids: messageIds.slice(at, at + MARK_MAX) };
    requests.push(act<InboxResult>('mail-inbox', input, { keepalive: true }));
  }
  await Promise.all(requests);
}

/** Does what waits when the page is left. Call it once. */
export function settleOnLeaving(): void {
  addEventListener('pagehide', () => void settle());
}

/** Says what was done, with the way back. It stays while the pointer or the focus is on it. */
export function UndoToast(): VNode {
  const action = held.value;
  return html`<div class="toast-place" role="status">${action && html`<${Toast} text=${action.text} />`}</div>`;
}

function Toast({ text }: { text: string }): VNode {
  // A toast that goes from the page fires no event that lets go of it.
  useEffect(() => () => holders.clear(), []);
  return html`<div
    class="toast"
    onMouseEnter=${() => hold('pointer')}
    onMouseLeave=${() => letGo('pointer')}
    onFocusIn=${() => hold('focus')}
    onFocusOut=${() => letGo('focus')}
  >
    <span>${text}</span>
    <button type="button" aria-keyshortcuts="z" onClick=${undo}>Undo</button>
  </div>`;
}
