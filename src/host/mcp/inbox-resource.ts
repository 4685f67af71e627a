/**
 * The resource `poste://inbox`: the agent's unread mail, for clients that show it or subscribe to it. Reading it
 * marks nothing: it informs the client, and not the agent.
 *
 * A client of the 2025 revision subscribes by `resources/subscribe`, one of the 2026 revision by
 * `subscriptions/listen`, which the connection answers (serve.ts).
 */
import { setTimeout as elapsed } from 'node:timers/promises';
import { type McpServer, ProtocolError, ProtocolErrorCode, ResourceNotFoundError } from '@modelcontextprotocol/server';
import { CallFailed } from '../api/client.ts';
import { INBOX_WAIT_MS_MAX } from '../contract/limits.ts';
import { type DaemonLink, RETRY_MS } from './daemon-link.ts';

export const INBOX_URI = 'poste://inbox';
const MIME_TYPE = 'application/json';

export function addInboxResource(server: McpServer, link: DaemonLink, watch: InboxWatch): void {
  const content = `How many messages wait for ${link.agent}, and the newest of them`;
  const shown = {
    title: 'Unread mail',
    description: `${content}. Read them with the tool mail_inbox.`,
    mimeType: MIME_TYPE,
  };
  server.registerResource('inbox', INBOX_URI, shown, async (_uri, { mcpReq }) => {
    const { mark, ...unread } = await summary(link, mcpReq.signal);
    watch.noteShown(mark);
    return { contents: [{ uri: INBOX_URI, mimeType: MIME_TYPE, text: JSON.stringify(unread) }] };
  });
  server.server.setRequestHandler('resources/subscribe', ({ params }) => {
    refuseOther(params.uri);
    watch.begin();
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', async ({ params }) => {
    refuseOther(params.uri);
    await watch.end();
    return {};
  });
}

async function summary(link: DaemonLink, signal: AbortSignal): ReturnType<typeof link.call<'watch-inbox'>> {
  try {
    return await link.call('watch-inbox', {}, { signal });
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    const { code, message, details } = error;
    throw new ProtocolError(ProtocolErrorCode.InternalError, message, { code, details });
  }
}

function refuseOther(uri: string): void {
  if (uri !== INBOX_URI) throw new ResourceNotFoundError(uri);
}

/**
 * Notifies a client when its agent's unread mail changes: makes one long wait at the daemon after another, from the
 * first subscription on, until the client ends it or disconnects.
 *
 * It notifies only changes that the client has not seen, and also changes that came while no daemon ran, once one
 * runs again.
 */

/** The most by which an answer may exceed the wait that was asked for. */
const WAIT_SLACK_MS = 15_000;

interface Watching {
  ending: AbortController;
  done: Promise<void>;
}

export class InboxWatch {
  readonly #link: Pick<DaemonLink, 'callRunning'>;
  readonly #changed: () => void;
  readonly #retryMs: number;
  /** The mark that the client saw last; absent before any, which equals a mailbox without unread mail. */
  #mark: string | undefined;
  #watching: Watching | undefined;

  /** `changed` must not throw, and is not awaited. */
  constructor(link: Pick<DaemonLink, 'callRunning'>, changed: () => void, retryMs = RETRY_MS) {
    this.#link = link;
    this.#changed = changed;
    this.#retryMs = retryMs;
  }

  /** The client read the resource with this mark. */
  noteShown(mark: string): void {
    this.#mark = mark;
  }

  /** Begins to watch, unless a watch is under way. */
  begin(): void {
    if (this.#watching) return;
    const ending = new AbortController();
    this.#watching = { ending, done: this.#watch(ending.signal) };
  }

  /** Ends the watch. Never throws. */
  async end(): Promise<void> {
    const watching = this.#watching;
    this.#watching = undefined;
    watching?.ending.abort();
    await watching?.done;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#waitOnce(signal);
      } catch {
        // No daemon, or no such agent yet: `AgentSession` logs it.
        await elapsed(this.#retryMs, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  async #waitOnce(signal: AbortSignal): Promise<void> {
    const asked = { wait_ms: INBOX_WAIT_MS_MAX, ...(this.#mark !== undefined && { mark: this.#mark }) };
    const options = { signal, silenceMs: INBOX_WAIT_MS_MAX + WAIT_SLACK_MS };
    const { mark, unread } = await this.#link.callRunning('watch-inbox', asked, options);
    const isKnown = this.#mark === undefined ? unread === 0 : mark === this.#mark;
    this.#mark = mark;
    if (!isKnown && !signal.aborted) this.#changed();
  }
}
