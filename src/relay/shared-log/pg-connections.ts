/**
 * The two connections of a log in PostgreSQL: one for appends, because one that waits for the standby must not hold up
 * reads; the other for reads and renewals. Each is opened when it is wanted, and anew when it was lost.
 *
 * What a server must not be, or does not allow, ends a node that starts, with a sentence for its operator. Of a node
 * that runs it may be repaired meanwhile: it waits, as for a server that does not answer.
 */
import type { LogEndpoint } from './log-address.ts';
import { type PgLink, type ServerError, answerError, mayBeMended, poolerSentence, reasonOf } from './pg-link.ts';
import { openPrimary } from './pg-primary.ts';
import { LogRefused, LogUnreachable, NotWritten, ServerRefused } from './shared-log.ts';

export interface ConnectionOptions {
  /** Asked with each new connection: a password may have changed meanwhile. */
  endpoints: () => Promise<readonly LogEndpoint[]>;
  answerWithinMs: number;
}

export class PgConnections {
  readonly #options: ConnectionOptions;
  #appends: PgLink | undefined;
  #others: PgLink | undefined;
  /** The connection that is being opened in its place. */
  #opening: Promise<PgLink> | undefined;
  #isClosed = false;
  /** Whether everything that the log needs of its server was there once. */
  isProven = false;

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
    const { endpoints, answerWithinMs } = this.#options;
    const named = await endpoints().catch((error: unknown) => {
      throw new LogUnreachable(reasonOf(error), { cause: error });
    });
    const link = await openPrimary(named, answerWithinMs).catch((error: unknown) => {
      throw error instanceof LogRefused && this.isProven ? new LogUnreachable(error.message) : error;
    });
    if (this.#isClosed) {
      link.close();
      throw new LogUnreachable('the log was closed');
    }
    this.#refusePooler(link);
    return link;
  }

  /** Throws `ServerRefused` when one process of the server answers both connections. */
  #refusePooler(link: PgLink): void {
    const { backend, server } = link;
    const isShared = [this.#appends, this.#others].some(
      (other) =>
        other?.isOpen &&
        other.backend === backend &&
        other.server.systemId === server.systemId &&
        other.server.timeline === server.timeline,
    );
    if (!isShared) return;
    link.close();
    throw new ServerRefused(poolerSentence('one process answers two connections'));
  }

  /** What an error that the server answered with means. */
  meaning(link: PgLink, error: ServerError): Error {
    if (this.isProven && mayBeMended(error)) return new NotWritten(error.message, { cause: error });
    return answerError(link, error);
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
