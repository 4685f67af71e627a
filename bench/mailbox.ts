/**
 * Measures what a host takes for one message to an agent beside it, for a list and for searches, while its mailbox
 * holds much: operations of the context on a store that syncs every batch. The index of words is measured apart.
 */
import type { HostName } from '../src/protocol/names.ts';
import { addressOf } from '../src/host/core/address.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { actingAgent, addAgent } from '../src/host/agents/agents.ts';
import type { HostContext } from '../src/host/base/context.ts';
import { useInbox } from '../src/host/mail/inbox.ts';
import { searchMail } from '../src/host/mail/search.ts';
import { indexWords } from '../src/host/mail/word-index.ts';
import { newMessage, storeMessage } from '../src/host/mailbox/mailbox.ts';
import { sendMail } from '../src/host/mail/send.ts';
import { LoopWatch } from '../test/support/loop-watch.ts';
import { SeededRandom } from '../test/support/seeded-random.ts';
import { quantile } from './figures.ts';
import { granted, newHost } from './mail-host.ts';
import type { Figure } from './report.ts';

const BENCH = 'bench' as HostName;
const MESSAGES = 100_000;
const MESSAGES_PER_BATCH = 500;
const BODY = 'x'.repeat(1000);
/** Every so many of the mailbox is left unread. */
const UNREAD_EVERY = 4;
const OPERATIONS = 200;
const WATCHED = 50;
/** Every so many needs a reply, is of another sender, or has a rare word. */
const NEEDS_REPLY_EVERY = 365;
const OTHER_SENDER_EVERY = 700;
const RARE_WORD_EVERY = 20_000;
const VOCABULARY = 50_000;
const SEARCHES: readonly (readonly [what: string, text: string])[] = [
  ['a rare word', 'needle'],
  ['a common word', 'w1x'],
  ['two words', 'w3x w400x'],
  ['a sender and unread', 'from:other is:unread'],
  ['what needs a reply', 'is:needs-reply'],
  ['a rare phrase of common words', '"w2x w3x w5x"'],
];
const LIST_LIMIT = 20;

export async function fullMailbox(): Promise<Figure[]> {
  const { context, remove } = await newHost(BENCH);
  try {
    granted(await addAgent(context, { name: 'sender' }));
    granted(await addAgent(context, { name: 'receiver' }));
    const sender = granted(await actingAgent(context, 'sender'));
    const receiver = granted(await actingAgent(context, 'receiver'));
    await fill(context, sender, receiver);
    const send = () => sendMail(context, sender, { to: ['receiver'], subject: 'bench', body: BODY });
    const newest = () => useInbox(context, receiver, { limit: LIST_LIMIT });
    const all = () => useInbox(context, receiver, { state: 'all', limit: LIST_LIMIT });
    const index = await indexed(context);
    const found: Figure[] = [];
    for (const [what, text] of SEARCHES) {
      const search = () => searchMail(context, receiver, { text });
      found.push(...(await measured(`search, ${what}`, search)), ...(await held(`search, ${what}`, search)));
    }
    return [
      index,
      ...found,
      ...(await measured('mail_send to an agent beside it', send)),
      ...(await measured(`mail_inbox, ${LIST_LIMIT} unread`, newest)),
      ...(await measured(`mail_inbox, ${LIST_LIMIT} of all`, all)),
    ];
  } finally {
    await remove();
  }
}

/** A mailbox as years of mail leave it. */
async function fill(context: HostContext, fromAgent: AgentId, agentId: AgentId): Promise<void> {
  const random = new SeededRandom(1);
  const given = {
    fromAgent,
    to: [addressOf('receiver', BENCH)],
    subject: 'bench',
    kind: 'message' as const,
    origin: 'agent' as const,
    refs: [],
    replyTo: null,
  };
  const recipients = [{ agentId, forwardedFrom: null }];
  for (let done = 0; done < MESSAGES; done += MESSAGES_PER_BATCH) {
    const ids: string[] = [];
    await context.store.transact((tx) => {
      for (let at = 0; at < MESSAGES_PER_BATCH; at++) {
        const number = done + at + 1;
        const from = addressOf(number % OTHER_SENDER_EVERY === 0 ? 'other' : 'sender', BENCH);
        const body = `${textOf(random)}${number % RARE_WORD_EVERY === 0 ? 'needle' : ''}`;
        const needsReply = number % NEEDS_REPLY_EVERY === 0;
        const message = newMessage(tx, context, { ...given, from, needsReply }, body, null);
        storeMessage(tx, context, message, body, recipients);
        if (at % UNREAD_EVERY !== 0) ids.push(message.ref);
      }
    });
    granted(await useInbox(context, agentId, { action: 'mark_read', message_ids: ids }));
  }
}

/** A text of as many characters as `BODY`, whose words are as frequent as those of a language. */
function textOf(random: SeededRandom): string {
  let text = '';
  while (text.length < BODY.length) text += `w${Math.floor(VOCABULARY ** random.unit())}x `;
  return text;
}

async function indexed(context: HostContext): Promise<Figure> {
  const before = performance.now();
  for await (const _ of indexWords(context));
  const tookMs = (performance.now() - before) / MESSAGES;
  return { name: 'the index of words, a message', unit: 'ms', better: 'less', values: [tookMs] };
}

async function measured(what: string, run: () => Promise<object>): Promise<Figure[]> {
  const tookMs: number[] = [];
  for (let at = 0; at < OPERATIONS; at++) {
    const before = performance.now();
    granted(await run());
    tookMs.push(performance.now() - before);
  }
  return quantiles(what, tookMs);
}

/** How long each one holds the loop at most: so long everybody else of the daemon waits. */
async function held(what: string, run: () => Promise<object>): Promise<Figure[]> {
  const heldMs: number[] = [];
  for (let at = 0; at < WATCHED; at++) {
    const watch = new LoopWatch();
    granted(await run());
    heldMs.push(watch.stop());
  }
  return quantiles(`${what}: loop held`, heldMs);
}

function quantiles(what: string, tookMs: readonly number[]): Figure[] {
  return [0.5, 0.99].map((q): Figure => {
    return { name: `${what}, p${q * 100}`, unit: 'ms', better: 'less', values: [quantile(tookMs, q)] };
  });
}
