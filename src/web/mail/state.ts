/** The state of the page: its route, the unread count, people, and counters of changes. Views read these signals. */
import { signal } from '@preact/signals';
import type { InboxResult } from '../../host/contract/mail.ts';
import type {
  ConversationSummary,
  ConversationsInput,
  ConversationsResult,
  PeopleResult,
} from '../../host/contract/owner-page.ts';
import { type FullMessage, type FullSummary, fullMessage, fullSummary } from '../../host/contract/usual-mail.ts';
import { act } from '../shared/api.ts';
import { coalesce } from '../shared/coalesce.ts';
import { follow } from '../shared/live.ts';
import { currentRoute } from '../shared/route.ts';
import { failureText } from '../shared/session.ts';
import { noteUnread, wantsNotifications } from './notify.ts';

/** Finds what a lost stream did not bring. */
const REFRESH_EVERY_MS = 60_000;
/** Events lead to requests this often: the first does at once. */
const EVENTS_EVERY_MS = 300;

/** One request of a list loads this number of messages. */
export const PAGE_MESSAGES = 50;
const RELOADED_MAX = 100;

export const unread = signal(0);
/** Counts changes of the mailbox, from this page or elsewhere. */
export const mailChanges = signal(0);
/** Counts changes of sent mail. */
export const sentChanges = signal(0);
/** Counts changes of who waits for whom. */
export const waitingChanges = signal(0);
/** Agents and hosts; `undefined` until loaded. */
export const people = signal<PeopleResult | undefined>(undefined);

export interface Route {
  view: 'inbox' | 'conversation' | 'compose' | 'sent' | 'delivery' | 'waiting' | 'people' | 'settings';
  /** The id of a message; of `compose` the first recipient; of `inbox` `SEARCH` if its search gets the focus. */
  subject: string;
}

export const SEARCH = 'search';

export const route = currentRoute<Route>(({ view, subject, query }) => {
  if (view === 'messages' && subject !== '') return { view: 'conversation', subject };
  if (view === 'sent') return { view: subject === '' ? 'sent' : 'delivery', subject };
  if (view === 'compose') return { view, subject: query.get('to') ?? '' };
  if (view === 'waiting' || view === 'people' || view === 'settings') return { view, subject: '' };
  return { view: 'inbox', subject: query.has('search') ? SEARCH : '' };
});

export function messageHref(messageId: string): string {
  return `#/messages/${encodeURIComponent(messageId)}`;
}

export function deliveryHref(messageId: string): string {
  return `#/sent/${encodeURIComponent(messageId)}`;
}

export function composeHref(to: string): string {
  return `#/compose?to=${encodeURIComponent(to)}`;
}

/** Returns how many messages to load again when a list of `shown` messages changed. */
export function reloadLimit(shown: number): number {
  return Math.min(RELOADED_MAX, Math.max(PAGE_MESSAGES, shown));
}

/** Returns what was loaded before behind the last row of `newest`, the newest rows as they are now. */
export function behind<Row>(
  newest: readonly Row[],
  before: readonly Row[],
  idOf: (row: Row) => string,
): readonly Row[] {
  const last = newest.at(-1);
  const at = before.findIndex((one) => last && idOf(one) === idOf(last));
  return before.slice(at === -1 ? newest.length : at + 1);
}

/** The address without the host if it is this one; `you` for the owner of this host, and for no agent of that name. */
export function shortAddress(address: string): string {
  const you = people.value?.you;
  if (you === undefined) return address;
  if (address === you) return 'you';
  const here = you.slice(you.indexOf('@'));
  const name = address.endsWith(here) ? address.slice(0, -here.length) : address;
  return name === 'you' ? address : name;
}

/** Returns how messages to the owner alone are addressed. */
function ownAddress(): string {
  return people.value?.you ?? 'owner';
}

/** The answer of `mail-inbox`, with every member. */
interface ShownMail {
  messages: FullMessage[];
  cursor: string | null;
}

/** Calls `mail-inbox`, and stores the counts of its answer. Throws `Problem`. */
export async function askInbox(input: object): Promise<ShownMail> {
  const { messages = [], next_cursor: cursor = null, ...counts } = await act<InboxResult>('mail-inbox', input);
  unread.value = counts.unread;
  return { messages: messages.map((message) => fullMessage(message, ownAddress())), cursor };
}

/** A conversation whose newest message has every member. */
export interface ListedConversation extends Omit<ConversationSummary, 'newest'> {
  newest: FullSummary;
}

export interface ConversationsPage extends Omit<ConversationsResult, 'conversations'> {
  conversations: ListedConversation[];
}

/** Calls `mail-conversations`. Throws `Problem`. */
export async function askConversations(input: ConversationsInput): Promise<ConversationsPage> {
  const found = await act<ConversationsResult>('mail-conversations', input);
  const conversations = found.conversations.map((conversation) => ({
    ...conversation,
    newest: fullSummary(conversation.newest, ownAddress()),
  }));
  return { ...found, conversations };
}

/** Starts to follow the mailbox. Call it once. */
export function followMail(): void {
  const events = {
    mail: coalesce(mailChanged, EVENTS_EVERY_MS),
    sent: coalesce(() => void sentChanges.value++, EVENTS_EVERY_MS),
    waiting: coalesce(() => void waitingChanges.value++, EVENTS_EVERY_MS),
    people: coalesce(peopleChanged, EVENTS_EVERY_MS),
  };
  follow({ events, refresh, refreshEveryMs: REFRESH_EVERY_MS, staysWhenHidden: wantsNotifications });
  void refresh();
}

function mailChanged(): void {
  mailChanges.value++;
  void lookForMail();
}

function peopleChanged(): void {
  waitingChanges.value++;
  void loadPeople();
}

async function refresh(): Promise<void> {
  mailChanges.value++;
  sentChanges.value++;
  waitingChanges.value++;
  await Promise.all([lookForMail(), loadPeople()]);
}

let looks = 0;

/** Keeps the unread count where no list does, and tells of new mail. */
async function lookForMail(): Promise<void> {
  if (route.value.view === 'inbox' && !wantsNotifications()) return;
  const mine = ++looks;
  try {
    const found = await askConversations({ state: 'unread', limit: PAGE_MESSAGES });
    if (mine !== looks) return;
    unread.value = found.unread;
    noteUnread(found.conversations);
  } catch (error) {
    failureText(error);
  }
}

let peopleLoads = 0;

async function loadPeople(): Promise<void> {
  const mine = ++peopleLoads;
  try {
    const loaded = await act<PeopleResult>('people', {});
    // An older answer may come last.
    if (mine === peopleLoads) people.value = loaded;
  } catch (error) {
    failureText(error);
  }
}
