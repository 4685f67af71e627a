/**
 * Notifications of the system about new mail, while the page is hidden, if the owner wants them and the browser may.
 * They say who wrote, and the subject only if the owner wants that; never the text: others may see the screen.
 */
import type { FullSummary } from '../../host/contract/usual-mail.ts';
import { printable } from '../../protocol/printable.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { settings } from './settings-store.ts';
import { countText } from '../shared/format.ts';

/** The most conversations of which each is told by itself. */
const TOLD_MAX = 3;

export function wantsNotifications(): boolean {
  return settings.value.notify !== 'off' && canNotify() && Notification.permission === 'granted';
}

/** Says whether this browser knows notifications at all. */
export function canNotify(): boolean {
  return 'Notification' in globalThis;
}

/** The unread messages of the last look, and when the newest of them came; `undefined` before the first look. */
let known: { ids: ReadonlySet<string>; newestAt: number } | undefined;

/** The part of a listed conversation that a notification is about. */
interface UnreadConversation {
  newest: FullSummary;
  unread: readonly string[];
}

/** Tells of mail that came since the last look, if the page is hidden. `conversations`: the newest that are unread. */
export function noteUnread(conversations: readonly UnreadConversation[]): void {
  const before = known;
  known = {
    ids: new Set(conversations.flatMap(({ unread }) => unread)),
    newestAt: Math.max(before?.newestAt ?? 0, ...conversations.map(({ newest }) => timeMsOf(newest.stored_at))),
  };
  if (!before || document.visibilityState === 'visible' || !wantsNotifications()) return;
  // An older one is among the newest ones when another was read.
  const isFresh = ({ message_id, stored_at }: FullSummary): boolean =>
    timeMsOf(stored_at) >= before.newestAt && !before.ids.has(message_id);
  tell(conversations.filter(({ newest }) => isFresh(newest)));
}

function tell(fresh: readonly UnreadConversation[]): void {
  for (const { newest } of fresh.slice(0, TOLD_MAX)) {
    const body = settings.value.notify === 'subject' ? printable(newest.subject) : '';
    show(`Mail from ${printable(newest.from)}`, body, newest.thread, `#/messages/${newest.message_id}`);
  }
  if (fresh.length > TOLD_MAX)
    show(`${countText(fresh.length - TOLD_MAX, 'more conversation')} with new mail`, '', 'more', '#/');
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
