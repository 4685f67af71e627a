/**
 * Notifications of the system about new mail, while the page is hidden, if the owner wants them and the browser may. They
 * say who wrote, and the subject only if the owner wants that; never the text: others may see the screen.
 */
import type { ConversationSummary } from '../../host/api/schemas/owner-page.ts';
import { printable } from '../../protocol/printable.ts';
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

/** Tells of what is unread now and was not at the last look, if the page is hidden. */
export function noteUnread(conversations: readonly ConversationSummary[]): void {
  const before = known;
  known = new Set(conversations.flatMap(({ unread }) => unread));
  if (before === undefined || document.visibilityState === 'visible' || !wantsNotifications()) return;
  tell(conversations.filter(({ newest }) => !before.has(newest.message_id)));
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
