/**
 * Measures what a host takes for one message to an agent beside it, and for a list, while its mailbox holds much:
 * operations of the context on a store that syncs every batch.
 */
import type { HostName } from '../src/protocol/names.ts';
import { addressOf } from '../src/host/core/address.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { actingAgent, addAgent } from '../src/host/agents/agents.ts';
import type { HostContext } from '../src/host/base/context.ts';
import { useInbox } from '../src/host/mail/inbox.ts';
import { newMessage, storeMessage } from '../src/host/mailbox/mailbox.ts';
import { sendMail } from '../src/host/mail/send.ts';
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
    return [
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
  const given = {
    from: addressOf('sender', BENCH),
    fromAgent,
    to: [addressOf('receiver', BENCH)],
    subject: 'bench',
    kind: 'message' as const,
    needsReply: false,
    origin: 'agent' as const,
    refs: [],
    replyTo: null,
  };
  const recipients = [{ agentId, forwardedFrom: null }];
  for (let done = 0; done < MESSAGES; done += MESSAGES_PER_BATCH) {
    const ids: string[] = [];
    await context.store.transact((tx) => {
      for (let at = 0; at < MESSAGES_PER_BATCH; at++) {
        const message = newMessage(tx, context, given, BODY, null);
        storeMessage(tx, context, message, BODY, recipients);
        if (at % UNREAD_EVERY !== 0) ids.push(message.ref);
      }
    });
    granted(await useInbox(context, agentId, { action: 'mark_read', message_ids: ids }));
  }
}

async function measured(what: string, run: () => Promise<object>): Promise<Figure[]> {
  const tookMs: number[] = [];
  for (let at = 0; at < OPERATIONS; at++) {
    const before = performance.now();
    granted(await run());
    tookMs.push(performance.now() - before);
  }
  return [0.5, 0.99].map((q): Figure => {
    return { name: `${what}, p${q * 100}`, unit: 'ms', better: 'less', values: [quantile(tookMs, q)] };
  });
}
