/**
 * What a host takes for one message to an agent beside it, and for a list, while its mailbox holds much: operations of
 * the context on a store that syncs every batch.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { signerFromSeed } from '../src/protocol/ed25519.ts';
import type { HostName } from '../src/protocol/names.ts';
import { RETRY_TIMING } from '../src/host/core/outbox-event.ts';
import { addressOf } from '../src/host/core/address.ts';
import { type Refusal, isRefusal } from '../src/host/core/refusal.ts';
import type { AgentId } from '../src/host/core/rows.ts';
import { actingAgent, addAgent } from '../src/host/agents/agents.ts';
import type { HostContext } from '../src/host/base/context.ts';
import { EventBus } from '../src/host/base/events.ts';
import { useInbox } from '../src/host/mail/inbox.ts';
import { newMessage, storeMessage } from '../src/host/mailbox/mailbox.ts';
import { sendMail } from '../src/host/mail/send.ts';
import { createHostStore } from '../src/host/store/open.ts';
import { quantile } from './figures.ts';

const BENCH = 'bench' as HostName;
const MESSAGES = 100_000;
const MESSAGES_PER_BATCH = 500;
const BODY = 'x'.repeat(1000);
/** Every so many of the mailbox is left unread. */
const UNREAD_EVERY = 4;
const OPERATIONS = 200;
const LIST_LIMIT = 20;

export interface MailboxFigures {
  what: string;
  medianMs: number;
  p99Ms: number;
}

export async function mailbox(): Promise<MailboxFigures[]> {
  const folder = await mkdtemp(join(tmpdir(), 'poste-bench-'));
  const store = await createHostStore(join(folder, 'store'), (error) => {
    throw error;
  });
  try {
    const context = officeOver(store);
    granted(await addAgent(context, { name: 'sender' }));
    granted(await addAgent(context, { name: 'receiver' }));
    const sender = granted(await actingAgent(context, 'sender'));
    const receiver = granted(await actingAgent(context, 'receiver'));
    await fill(context, sender, receiver);
    const send = () => sendMail(context, sender, { to: ['receiver'], subject: 'bench', body: BODY });
    const newest = () => useInbox(context, receiver, { limit: LIST_LIMIT });
    const all = () => useInbox(context, receiver, { state: 'all', limit: LIST_LIMIT });
    return [
      await measured('mail_send to an agent beside it', send),
      await measured(`mail_inbox, ${LIST_LIMIT} unread`, newest),
      await measured(`mail_inbox, ${LIST_LIMIT} of all`, all),
    ];
  } finally {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function officeOver(store: HostContext['store']): HostContext {
  const bell = new EventBus();
  const signer = signerFromSeed(randomBytes(32));
  const sealKey = { encPub: '', secret: '', sinceMs: 0, retiredAtMs: null };
  return {
    store,
    identity: () => ({ hostName: BENCH, signer, sealKey }),
    momentMs: (atMs) => atMs,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    randomBytes,
    retry: RETRY_TIMING,
    emit: (happening) => bell.emit(happening),
    subscribe: (listener, handlers) => bell.subscribe(listener, handlers),
    log: () => {},
  };
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

async function measured(what: string, run: () => Promise<object>): Promise<MailboxFigures> {
  const tookMs: number[] = [];
  for (let at = 0; at < OPERATIONS; at++) {
    const before = performance.now();
    granted(await run());
    tookMs.push(performance.now() - before);
  }
  return { what, medianMs: quantile(tookMs, 0.5), p99Ms: quantile(tookMs, 0.99) };
}

function granted<T>(value: T | Refusal): T {
  if (isRefusal(value)) throw new Error(value.message);
  return value;
}
