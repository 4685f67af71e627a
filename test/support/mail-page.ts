/** The owner's page over a host of this process: agents that write, a listener on loopback, and links to it. */
import { onTestFinished } from 'vitest';
import type { BrowserContextOptions } from 'playwright-core';
import type { RelayStatusResult } from '../../src/host/contract/peers.ts';
import { type Handlers, handlersOf } from '../../src/host/api/handlers.ts';
import { systemTimers } from '../../src/lib/clock.ts';
import type { WakeAgent } from '../../src/host/agents/sessions.ts';
import {
  type Address,
  type MessageKind,
  type MessageRef,
  type MessageRow,
  OWNER_ID,
} from '../../src/host/core/rows.ts';
import { newMessage, storeMessage } from '../../src/host/mailbox/mailbox.ts';
import type { Transaction } from '../../src/host/store/host-store.ts';
import { WebService } from '../../src/host/web/web-service.ts';
import { type BrowserSuite, PageWindow } from './page-browser.ts';
import { accepted, contextOf, send } from './mail-context.ts';
import type { TestContext } from './test-context.ts';

const unasked = (): Promise<never> => Promise.reject(new Error('no test of the page asks for this'));
/** No relay is set. */
const carrier = { factsFor: () => null };
const status = () => Promise.resolve({ state: 'unset' } as RelayStatusResult);
const relay = { set: unasked, unset: unasked, status, carrier };
const health = { status: unasked, doctor: unasked, trace: unasked };
const pairing = {
  invitation: { acceptor: unasked, confirm: unasked, decline: unasked },
  invite: unasked,
  accept: unasked,
  freshenDirectories: () => Promise.resolve(),
};
const sessions = {
  register: unasked,
  heartbeat: unasked,
  end: unasked,
  wait: unasked,
  heard: unasked,
  usedTool: unasked,
  endGone: () => Promise.resolve(),
  list: unasked,
};
/** Nobody has a session that could be woken. */
const wakeAgent: WakeAgent = () => Promise.resolve({ isWoken: false, detail: 'No session of it is live.' });

export interface MailPage {
  context: TestContext;
  web: WebService;
  handlers: Handlers;
  /** A one-time link. */
  link: () => Promise<string>;
}

export interface MailPageOptions {
  pageFolder?: string;
  agents?: readonly string[];
  listen?: { host: string; port: number };
}

export async function mailPage({
  pageFolder,
  agents = ['alice', 'bob:review'],
  listen = { host: '127.0.0.1', port: 0 },
}: MailPageOptions = {}): Promise<MailPage> {
  const context = await contextOf(agents);
  const web: WebService = new WebService({ context, handlers: () => handlers, listen, pageFolder });
  const handlers = handlersOf({
    context,
    timers: systemTimers,
    health,
    pairing,
    relay,
    web,
    sessions,
    wakeAgent,
  });
  onTestFinished(() => web.stop());
  return { context, web, handlers, link: async () => accepted(await web.link()).url };
}

export class MailWindow extends PageWindow {
  static async open(suite: BrowserSuite, options: BrowserContextOptions = {}): Promise<MailWindow> {
    const opened = new MailWindow(...(await PageWindow.newPage(suite, options)));
    await opened.watch();
    return opened;
  }

  /** A window in which the page is live. */
  static async entered(suite: BrowserSuite, mail: MailPage, options?: BrowserContextOptions): Promise<MailWindow> {
    const opened = await MailWindow.open(suite, options);
    await opened.enter(mail);
    return opened;
  }

  /** Opens the page with a fresh link; it is live when this resolves. */
  async enter({ link }: MailPage): Promise<void> {
    await this.page.goto(await link());
    await this.heading('Inbox');
    await this.page.getByText('live', { exact: true }).waitFor();
  }
}

/** An agent of this host writes to the owner; returns the id of the message. */
export async function writeToOwner(context: TestContext, from: string, given: object): Promise<string> {
  return accepted(await send(context, from, { to: ['owner'], ...given })).message_id;
}

export interface GivenMail {
  subject: string;
  from?: string;
  body?: string;
  refs?: string[];
  kind?: MessageKind;
  needsReply?: boolean;
  origin?: MessageRow['origin'];
  forwardedFrom?: string;
}

/** A message of somebody who may be called anything, straight into the owner's mailbox. */
export function putMail(tx: Transaction, context: TestContext, given: GivenMail): MessageRef {
  const { subject, from = 'hay@there', body = '', refs = [], kind = 'message' } = given;
  const { needsReply = false, origin = 'agent', forwardedFrom = null } = given;
  const address = from as Address;
  const row = { from: address, fromAgent: null, to: [address], subject, kind, needsReply, origin, refs, replyTo: null };
  const message = newMessage(tx, context, row, body, null);
  storeMessage(tx, context, message, body, [{ agentId: OWNER_ID, forwardedFrom }]);
  return message.ref;
}
