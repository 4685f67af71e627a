/**
 * An agent that sends, reads, replies and acks through a daemon that is killed again and again, and asks again, under
 * the same idempotency key, whenever an answer was lost. Some answers it loses itself.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { InboxInput, InboxResult, MessageSummary, ReplyInput, SendInput } from '../../src/host/contract/mail.ts';
import type { SentMessage } from '../../src/host/contract/sent-mail.ts';
import type { InputOf, OperationName, OutputOf } from '../../src/host/api/operations.ts';
import type { KilledDaemon } from '../support/killed-daemon.ts';
import type { MailOracle } from '../support/mail-oracle.ts';
import type { SeededRandom } from '../support/seeded-random.ts';
import { wholeMailbox } from '../support/whole-mailbox.ts';

const LONG_BODY_CHARACTERS = 60_000;
/** The number of unread messages that are answered in one turn. */
const ANSWERED_AT_ONCE = 5;

export interface CorrespondentParts {
  name: string;
  daemon: KilledDaemon;
  oracle: MailOracle;
  random: SeededRandom;
}

export class Correspondent {
  readonly name: string;
  readonly daemon: KilledDaemon;
  readonly address: string;
  readonly #oracle: MailOracle;
  readonly #random: SeededRandom;
  #count = 0;

  constructor({ name, daemon, oracle, random }: CorrespondentParts) {
    this.name = name;
    this.daemon = daemon;
    this.address = `${name}@${daemon.name}`;
    this.#oracle = oracle;
    this.#random = random;
  }

  /** Until `load` is over. */
  async run(load: { isOver: boolean }, others: readonly Correspondent[]): Promise<void> {
    while (!load.isOver) {
      await this.#send(others.filter((other) => other !== this));
      await this.#answerMail();
    }
  }

  /** One message by the command. */
  async sendByCommand(to: Correspondent): Promise<void> {
    const { subject, body } = this.#words('command');
    const args = ['send', '--as', this.name, '--to', to.address, '--subject', subject, '--body', body];
    const send = () => this.daemon.commandAnswered<OutputOf<'mail-send'>>(...args, '--idempotency-key', subject);
    this.#oracle.accept(subject, { from: this.address, body }, await send());
  }

  /** Every message of the mailbox, newest first. */
  mailbox(): Promise<MessageSummary[]> {
    return wholeMailbox((input) => this.inbox(input));
  }

  /** Everything that it sent. */
  async sent(): Promise<SentMessage[]> {
    const all: SentMessage[] = [];
    let cursor: string | null = null;
    do {
      const page: OutputOf<'mail-sent'> = await this.#ask('mail-sent', {
        limit: 100,
        ...(cursor !== null && { cursor }),
      });
      all.push(...page.messages);
      cursor = page.next_cursor;
    } while (cursor !== null);
    return all;
  }

  inbox(input: InboxInput): Promise<InboxResult> {
    return this.#ask('mail-inbox', input);
  }

  async #send(others: readonly Correspondent[]): Promise<void> {
    const to = [this.#random.pick(others), ...others.filter(() => this.#random.chance(0.2))];
    const { subject, body } = this.#words('message');
    const addresses = [...new Set(to.map(({ address }) => address))];
    const kind = this.#random.pick(['request', 'message', 'task'] as const);
    const input: SendInput = { to: addresses, subject, body, kind, needs_reply: true, idempotency_key: subject };
    await this.#accepted(subject, body, 'mail-send', input);
  }

  /** Replies to what is no reply, and acks all: the reply first, so that one that was lost is seen again as unread. */
  async #answerMail(): Promise<void> {
    const { summaries = [] } = await this.inbox({ limit: ANSWERED_AT_ONCE });
    if (summaries.length === 0) return;
    for (const { message_id, kind } of summaries) {
      if (kind === 'reply' || this.#random.chance(0.3)) continue;
      const { subject, body } = this.#words('reply', `to ${message_id}`);
      const input: ReplyInput = { message_id, subject, body, idempotency_key: subject };
      await this.#accepted(subject, body, 'mail-reply', input);
    }
    const message_ids = summaries.map(({ message_id }) => message_id);
    await this.inbox({ action: this.#random.pick(['ack', 'read', 'mark_read'] as const), message_ids });
  }

  async #accepted<N extends 'mail-send' | 'mail-reply'>(
    subject: string,
    body: string,
    name: N,
    input: InputOf<N>,
  ): Promise<void> {
    if (this.#random.chance(0.05)) await this.#abandon(name, input);
    const times = this.#random.chance(0.1) ? 2 : 1;
    for (let time = 0; time < times; time++) {
      const result = (await this.#ask(name, input)) as OutputOf<'mail-send'>;
      this.#oracle.accept(subject, { from: this.address, body }, result);
    }
  }

  /** Asks and leaves, as a program does that is killed: nobody knows what became of it. */
  async #abandon<N extends OperationName>(name: N, input: InputOf<N>): Promise<void> {
    const leaving = new AbortController();
    const asked = this.daemon.client
      .call(name, input, { as: this.name, signal: leaving.signal })
      .catch(() => undefined);
    for (let turns = this.#random.below(20); turns > 0; turns--) await turn();
    leaving.abort();
    await asked;
  }

  #ask<N extends OperationName>(name: N, input: InputOf<N>): Promise<OutputOf<N>> {
    return this.daemon.answered((client) => client.call(name, input, { as: this.name }));
  }

  /** A subject that no other message has, and a body that follows from it. */
  #words(what: string, which = String(this.#count++)): { subject: string; body: string } {
    const subject = `${this.address} ${what} ${which}`;
    const isLong = what === 'message' && this.#random.chance(0.03);
    return { subject, body: isLong ? subject.padEnd(LONG_BODY_CHARACTERS, '.') : `${subject}: some words.` };
  }
}
