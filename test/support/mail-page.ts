/** The owner's page over a host of this process: agents that write, a listener on loopback, and links to it. */
import { onTestFinished } from 'vitest';
import type { RelayStatusResult } from '../../src/host/contract/relays.ts';
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
import { PageWindow } from './page-browser.ts';
import { accepted, contextOf, send } from './mail-context.ts';
import type { TestContext } from './test-context.ts';
import { unaskedParts } from './unasked-parts.ts';

const unasked = (): Promise<never> => Promise.reject(new Error('no test of the page asks for this'));
const { health, pairing, relay: unset, relayMove, reach, sessions } = unaskedParts(unasked);
/** Nobody has a session that could be woken. */
const wakeAgent: WakeAgent = () => Promise.resolve({ isWoken: false, detail: 'No session of it is live.' });

export interface MailPage {
  context: TestContext;
  web: WebService;
  handlers: Handlers;
  /** The state of its relay, which a test may change. */
  relay: Pick<RelayStatusResult, 'relay' | 'state'>;
  /** A one-time link. */
  link: () => Promise<string>;
}

export interface MailPageOptions {
  pageFolder?: string;
  agents?: readonly string[];
  /** As in the config; `undefined`: it names none, and `usualPorts` are tried. */
  listen?: { host: string; port: number } | undefined;
  usualPorts?: readonly number[];
  /** Another daemon on the store of an earlier one. */
  context?: TestContext;
}

export async function mailPage(options: MailPageOptions = {}): Promise<MailPage> {
  const { agents = ['alice', 'bob:review'], context = await contextOf(agents) } = options;
  const listen = options.usualPorts ? undefined : (options.listen ?? { host: '127.0.0.1', port: 0 });
  const web: WebService = new WebService({ ...options, context, handlers: () => handlers, listen });
  const shown: MailPage['relay'] = { relay: null, state: 'unset' };
  const relay = { ...unset, status: () => Promise.resolve(shown as RelayStatusResult) };
  const handlers = handlersOf({
    context,
    timers: systemTimers,
    health,
    pairing,
    relay,
    relayMove,
    reach,
    web,
    sessions,
    wakeAgent,
  });
  onTestFinished(() => web.stop());
  return { context, web, handlers, relay: shown, link: async () => accepted(await web.link()).url };
}

export class MailWindow extends PageWindow<MailPage> {
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
