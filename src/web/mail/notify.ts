/**
 * Notifications of the system about new mail, while the page is hidden, if the owner wants them and the browser may. They
 * say who wrote, and the subject only if the owner wants that; never the text: others may see the screen.
 */
import type { ConversationSummary, ConversationsResult } from '../../host/api/schemas/owner-page.ts';
import { printable } from '../../protocol/printable.ts';
import { act } from '../shared/api.ts';
import { failureText } from '../shared/session.ts';
import { settings } from './settings-store.ts';

/** The most conversations of which each is told by itself. */
const TOLD_MAX = 3;

export function wantsNotifications(): boolean {
  return settings.value.notify !== 'off' && canNotify() && Notification.permission === 'granted';
}

/** Whether this browser knows notifications at all. */
export function canNotify(): boolean {
  return 'Notification' in globalThis;
}

/** What was unread at the last look; `undefined` before the first. */
let known: ReadonlySet<string> | undefined;
let looks = 0;

/** Looks for mail that is new since the last look, and tells of it if the page is hidden. */
export async function notifyOfNewMail(): Promise<void> {
  if (!wantsNotifications()) {
    known = undefined;
    return;
  }
  const mine = ++looks;
  try {
    const { conversations } = await act<ConversationsResult>('mail-conversations', { state: 'unread', limit: 50 });
    if (mine !== looks) return;
    const before = known;
    known = new Set(conversations.flatMap(({ unread }) => unread));
    if (before === undefined || document.visibilityState === 'visible') return;
    tell(conversations.filter(({ newest }) => !before.has(newest.message_id)));
  } catch (error) {
    failureText(error);
  }
}

function tell(fresh: readonly ConversationSummary[]): void {
  for (const { newest } of fresh.slice(0, TOLD_MAX)) {
    const body = settings.value.notify === 'subject' ? printable(newest.subject) : '';
    show(`Mail from ${printable(newest.from)}`, body, newest.thread, `#/messages/${newest.message_id}`);
  }
  if (fresh.length > TOLD_MAX) show(`${fresh.length - TOLD_MAX} more conversations with new mail`, '', 'more', '#/');
}

function show(title: string, body: string, tag: string, hash: string): void {
  // A later notification of the same conversation takes the place of the one before.
  const notification = new Notification(title, { body, tag, icon: 'icon.svg' });
  notification.addEventListener('click', () => {
    notification.close();
    window.focus();
    location.hash = hash;
  });
}
