/**
 * Posts doorbells into the inbox socket of the Claude Code session whose child this process is, as Claude Code
 * documents it for its own children (https://code.claude.com/docs, "The session's inbox socket").
 *
 * The socket never answers, and it drops without a word what names another session, and the same text from the same
 * process within 30 s. So nothing but the line is sent, and no text twice within that time.
 */
import { connect, type Socket } from 'node:net';
import { socketFault } from '../../lib/socket-owner.ts';

/** Claude Code drops a repeated text for 30 s. */
export const REPEAT_MS = 31_000;
const CONNECT_MS = 500;
/** Claude Code closes its end within 0.3 s. */
const CLOSE_MS = 2000;

export interface ClaudeInbox {
  socket: string;
  token: string;
}

/**
 * The inbox that Claude Code names in the environment of its children. `undefined` without one, and for a session that
 * nobody attends, such as `claude -p`: there a message changes what its caller gets as the answer. Its owner may know
 * better (`wakesUnattended`): a worker that is fed over stdin looks the same.
 */
export function claudeInboxOf(
  environment: Readonly<Record<string, string | undefined>>,
  wakesUnattended: boolean,
): ClaudeInbox | undefined {
  const {
    CLAUDE_CODE_MESSAGING_SOCKET: socket,
    CLAUDE_CODE_MESSAGING_TOKEN: token,
    CLAUDE_CODE_ENTRYPOINT: entry,
  } = environment;
  if (!socket || !token) return undefined;
  if (entry?.startsWith('sdk-') && !wakesUnattended) return undefined;
  return { socket, token };
}

export class InboxPoster {
  readonly #inbox: ClaudeInbox;
  readonly #monotonicMs: () => number;
  #last: { text: string; atMs: number } | undefined;

  constructor(inbox: ClaudeInbox, monotonicMs: () => number = () => performance.now()) {
    this.#inbox = inbox;
    this.#monotonicMs = monotonicMs;
  }

  /** Posts the text once `agrees` says so. Resolves with whether it was written. Never rejects. */
  async post(text: string, agrees: () => Promise<boolean>): Promise<'posted' | 'failed' | 'not wanted'> {
    const nowMs = this.#monotonicMs();
    if (this.#last?.text === text && nowMs - this.#last.atMs < REPEAT_MS) return 'failed';
    if (socketFault(this.#inbox.socket) !== undefined) return 'failed';
    const connection = await opened(this.#inbox.socket);
    if (!connection) return 'failed';
    try {
      if (!(await agrees())) return 'not wanted';
      this.#last = { text, atMs: nowMs };
      return (await written(connection, this.#lines(text))) ? 'posted' : 'failed';
    } finally {
      connection.destroy();
    }
  }

  #lines(text: string): string {
    const auth = { type: 'auth', token: this.#inbox.token };
    const message = { type: 'user', message: { role: 'user', content: text } };
    return `${JSON.stringify(auth)}\n${JSON.stringify(message)}\n`;
  }
}

function opened(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const connection = connect(path);
    connection.setTimeout(CONNECT_MS, () => connection.destroy());
    connection.on('error', () => undefined);
    connection.once('close', () => resolve(undefined));
    connection.once('connect', () => {
      connection.setTimeout(CLOSE_MS);
      resolve(connection);
    });
  });
}

/** Resolves when the other end has closed as well, or after a while: it reads what came before that. */
function written(connection: Socket, lines: string): Promise<boolean> {
  return new Promise((resolve) => {
    let isWritten = false;
    connection.once('close', () => resolve(isWritten));
    connection.resume();
    connection.end(lines, () => {
      isWritten = true;
    });
    if (connection.destroyed) resolve(false);
  });
}
