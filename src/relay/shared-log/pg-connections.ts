/**
 * The two connections of a log in PostgreSQL: one for appends, because one that waits for the standby must not hold up reads;
 * the other for reads and renewals. Each is opened when it is wanted, and anew when it was lost.
 */
import { type Durability, refuseNames } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import { PgLink } from './pg-link.ts';
import { LogUnreachable, NotWritten } from './shared-log.ts';

interface ConnectionOptions {
  endpoints: readonly LogEndpoint[];
  durability: Durability;
  answerWithinMs: number;
}

export class PgConnections {
  readonly #options: ConnectionOptions;
  #appends: PgLink | undefined;
  #others: PgLink | undefined;
  /** The connection that is being opened in its place. */
  #opening: Promise<PgLink> | undefined;
  #isClosed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** That of reads and renewals; it is opened anew when it was lost. */
  async others(): Promise<PgLink> {
    if (this.#others?.isOpen) return this.#others;
    this.#opening ??= this.#newLink().finally(() => (this.#opening = undefined));
    this.#others = await this.#opening;
    return this.#others;
  }

  /** A connection that was lost while nothing was appended may be replaced: the fence is asked with each append. */
  async appends(): Promise<PgLink> {
    if (this.#appends?.isOpen) return this.#appends;
    try {
      this.#appends = await this.#newLink();
    } catch (error) {
      if (error instanceof LogUnreachable && !this.#isClosed) throw new NotWritten(error.message, { cause: error });
      throw error;
    }
    return this.#appends;
  }

  async #newLink(): Promise<PgLink> {
    if (this.#isClosed) throw new LogUnreachable('the log was closed');
    const link = await PgLink.open(this.#options.endpoints, this.#options.answerWithinMs);
    try {
      if (this.#isClosed) throw new LogUnreachable('the log was closed');
      refuseNames(this.#options.durability, link.standbyNames);
      return link;
    } catch (error) {
      link.close();
      throw error;
    }
  }

  /** At once, and for good. */
  close(): void {
    this.#isClosed = true;
    this.closeAppends();
    this.#others?.close();
  }

  closeAppends(): void {
    this.#appends?.close();
  }
}
