/**
 * Knows what daemons have promised of mail: everything that was answered as accepted, by its subject, which is its own.
 */
import type { SendResult } from '../../src/host/contract/mail.ts';

export interface AcceptedMessage {
  messageId: string;
  /** Its sender's address. */
  from: string;
  body: string;
  recipients: readonly string[];
}

export class MailOracle {
  readonly accepted = new Map<string, AcceptedMessage>();
  /** Answers that said `duplicate`: the message was stored, and the answer before had not been heard. */
  repeated = 0;
  #waiting: { at: number; resolve: () => void }[] = [];

  /** Throws when a message was sent anew that was accepted before. */
  accept(subject: string, said: Pick<AcceptedMessage, 'from' | 'body'>, result: SendResult): void {
    const { message_id: messageId, duplicate } = result;
    const known = this.accepted.get(subject);
    if (known && (known.messageId !== messageId || !duplicate)) throw new Error(`${subject} was sent twice`);
    if (duplicate) this.repeated++;
    if (known) return;
    const recipients = result.recipients.map(({ recipient }) => recipient);
    this.accepted.set(subject, { ...said, messageId, recipients });
    for (const { resolve } of this.#waiting.filter(({ at }) => at <= this.accepted.size)) resolve();
    this.#waiting = this.#waiting.filter(({ at }) => at > this.accepted.size);
  }

  /** Resolves, on the spot, when `count` more messages have been accepted. */
  more(count: number): Promise<void> {
    const at = this.accepted.size + count;
    return new Promise((resolve) => {
      this.#waiting.push({ at, resolve });
    });
  }

  /** Returns what must be in the mailbox of this address. */
  to(address: string): string[] {
    return this.#subjects(({ recipients }) => recipients.includes(address));
  }

  from(address: string): string[] {
    return this.#subjects((message) => message.from === address);
  }

  #subjects(isWanted: (message: AcceptedMessage) => boolean): string[] {
    return [...this.accepted].filter(([, message]) => isWanted(message)).map(([subject]) => subject);
  }
}
