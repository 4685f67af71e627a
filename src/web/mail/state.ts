/** The state of the page: its route, the unread count, and counters of changes. Views read these signals. */
import { signal } from '@preact/signals';
import type { AgentsResult, InboxResult } from '../../host/api/schemas/mail.ts';
import { act } from '../shared/api.ts';
import { follow } from '../shared/live.ts';
import { currentRoute } from '../shared/route.ts';
import { failureText, notice } from '../shared/session.ts';

/** Finds what a lost stream did not bring. */
const REFRESH_EVERY_MS = 60_000;

/** How many messages one request of a list loads. */
export const PAGE_MESSAGES = 50;
const RELOADED_MAX = 100;

export const unread = signal(0);
/** Counts changes of the mailbox, from this page or elsewhere. */
export const mailChanges = signal(0);
/** Counts changes of sent mail. */
export const sentChanges = signal(0);
/** The agents that can be written to; `undefined` until loaded. */
export const agents = signal<AgentsResult | undefined>(undefined);

export interface Route {
  view: 'inbox' | 'conversation' | 'compose' | 'sent' | 'delivery';
  /** The id of a message. */
  subject: string;
}

export const route = currentRoute<Route>(({ view, subject }) => {
  if (view === 'messages' && subject !== '') return { view: 'conversation', subject };
  if (view === 'sent') return { view: subject === '' ? 'sent' : 'delivery', subject };
  if (view === 'compose') return { view, subject: '' };
  return { view: 'inbox', subject: '' };
});

export function messageHref(messageId: string): string {
  return `#/messages/${encodeURIComponent(messageId)}`;
}

export function deliveryHref(messageId: string): string {
  return `#/sent/${encodeURIComponent(messageId)}`;
}

/** How many messages to load again when a list of `shown` messages changed. */
export function reloadLimit(shown: number): number {
  return Math.min(RELOADED_MAX, Math.max(PAGE_MESSAGES, shown));
}

/** Calls `mail-inbox`, and stores the counts of its answer. Throws `Problem`. */
export async function askInbox(input: object): Promise<InboxResult> {
  const result = await act<InboxResult>('mail-inbox', input);
  unread.value = result.unread;
  return result;
}

/** Marks messages of the mailbox; shows a failure as a notice. */
export async function mark(action: 'mark_read' | 'ack', messageIds: readonly string[]): Promise<void> {
  try {
    await askInbox({ action, message_ids: messageIds });
  } catch (error) {
    notice.value = failureText(error);
  }
}

/** Starts to follow the mailbox. Call it once. */
export function followMail(): void {
  const events = {
    mail: () => void mailChanges.value++,
    sent: () => void sentChanges.value++,
  };
  follow({ events, refresh, refreshEveryMs: REFRESH_EVERY_MS });
  void refresh();
}

async function refresh(): Promise<void> {
  mailChanges.value++;
  sentChanges.value++;
  try {
    agents.value = await act<AgentsResult>('mail-agents', {});
  } catch (error) {
    failureText(error);
  }
}
