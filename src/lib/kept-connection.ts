/**
 * The connection that a caller keeps open to a Unix domain socket between its requests.
 *
 * A kept connection ends with the program at its other end, and is left as soon as another socket stands at the path: a
 * request then opens a new one, whose socket is looked at as any. It carries one request at a time; a second one beside
 * it has its own connection. While it is idle it holds no process up.
 */
import { statSync } from 'node:fs';
import type { Socket } from 'node:net';

/** Tells one socket at a path from another that was made there later. */
function socketAt(path: string): string | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found && `${found.dev} ${found.ino} ${found.ctimeMs}`;
  } catch {
    return undefined;
  }
}

export class KeptConnection {
  readonly #path: string;
  #idle: { socket: Socket; at: string } | undefined;
  /** The socket that stood at the path before each connection was opened. */
  readonly #openedAt = new WeakMap<Socket, string>();

  constructor(path: string) {
    this.#path = path;
  }

  /** The idle connection, which is the caller's until it is kept again; undefined when a new one is needed. */
  take(): Socket | undefined {
    const idle = this.#idle;
    this.#idle = undefined;
    if (!idle) return undefined;
    const { socket, at } = idle;
    socket.off('data', end).off('end', end).off('close', this.#forget);
    if (socket.destroyed || at !== socketAt(this.#path)) {
      socket.destroy();
      return undefined;
    }
    return socket.ref();
  }

  open(connect: (path: string) => Socket): Socket {
    // Looked at first: if another socket takes its place meanwhile, `take` leaves the connection.
    const at = socketAt(this.#path);
    const socket = connect(this.#path);
    if (at !== undefined) this.#openedAt.set(socket, at);
    return socket;
  }

  /** Keeps a connection whose answer is whole, or ends it: one is enough for calls that follow each other. */
  keep(socket: Socket): void {
    const at = this.#openedAt.get(socket);
    if (this.#idle || at === undefined || socket.destroyed) {
      socket.destroy();
      return;
    }
    this.#idle = { socket, at };
    // Nothing was asked: whatever comes is no answer.
    socket.on('data', end).on('end', end).on('close', this.#forget).setTimeout(0).unref();
  }

  readonly #forget = (): void => {
    this.#idle = undefined;
  };
}

function end(this: Socket): void {
  this.destroy();
}
