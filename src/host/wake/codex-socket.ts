/**
 * Wakes a Codex thread over the control socket of its app server: WebSocket over a Unix socket, with JSON-RPC messages.
 *
 * The server says what the thread does, also after a ring. Only an idle one gets a turn: a turn that begins while
 * another one runs cuts that one's answer short. What comes for an active thread is queued by the session's own
 * command, `codex queue`.
 */
import { connect } from 'node:net';
import { WebSocket } from 'ws';
import { limitedSignal } from '../../lib/http-request.ts';
import { socketFault } from '../../lib/socket-request.ts';
import { isObject } from '../../protocol/json.ts';
import type { SessionRow } from '../core/session-rows.ts';
import type { TryWake, TryWakeOutcome } from './wake-methods.ts';

/** The whole exchange may take so long; it took 10 ms. */
const EXCHANGE_MS = 3000;
/** An answer may be so long: a thread comes without its turns. */
const ANSWER_BYTES_MAX = 4 << 20;
/** The JSON-RPC code with which Codex refuses any request, and its words for a thread that it does not have. */
const INVALID_REQUEST = -32_600;
const NO_THREAD = /^(?:thread not (?:found|loaded)|no rollout found)/;

export function codexSocketMethod(queue: TryWake<'command'>): TryWake<'codex-socket'> {
  return (session, { socket }, text, signal) =>
    atThread<TryWakeOutcome>(session, socket, signal, (link, thread) => {
      switch (thread) {
        case 'idle':
        case 'failed':
          return link.startTurn(session.sessionId, text);
        case 'active':
          return queueTurn(queue, session, text, signal, 'queued');
        case 'waits for approval':
          return queueTurn(queue, session, text, signal, 'waits for approval');
        case 'gone':
          return 'gone';
        case 'unknown':
          return 'unheard';
      }
    });
}

/** Asks how a turn that a ring began stands; `unknown` where nobody can be asked. */
export type TurnOf = (session: SessionRow, signal: AbortSignal) => Promise<'runs' | 'over' | 'failed' | 'unknown'>;

export const codexTurn: TurnOf = async (session, signal) => {
  const method = session.wake.find(({ type }) => type === 'codex-socket');
  if (method?.type !== 'codex-socket') return 'unknown';
  const thread = await atThread(session, method.socket, signal, (_link, state) => state);
  if (thread === 'active' || thread === 'waits for approval') return 'runs';
  if (thread === 'idle') return 'over';
  return thread === 'failed' ? 'failed' : 'unknown';
};

/** Asks the app server there for the state of the session's thread, and does something about it. Never rejects. */
async function atThread<T>(
  { sessionId }: SessionRow,
  socket: string,
  signal: AbortSignal,
  act: (link: AppServer, state: ThreadState) => T | Promise<T>,
): Promise<T | 'unavailable' | 'unheard'> {
  // The request begins a turn in the name of this user, so it never goes to a socket that another one made.
  if (socketFault(socket) !== undefined) return 'unavailable';
  const exchange = limitedSignal(EXCHANGE_MS, signal);
  const link = await AppServer.connect(socket, exchange.signal);
  try {
    return link ? await act(link, await link.stateOf(sessionId)) : 'unavailable';
  } catch {
    return 'unheard';
  } finally {
    link?.close();
    exchange.over();
  }
}

async function queueTurn(
  queue: TryWake<'command'>,
  session: SessionRow,
  text: string,
  signal: AbortSignal,
  outcome: TryWakeOutcome,
): Promise<TryWakeOutcome> {
  const method = session.wake.find((known) => known.type === 'command');
  if (!method) return 'unavailable';
  return (await queue(session, method, text, signal)) === 'given' ? outcome : 'unheard';
}

/** `failed`: idle, and its last turn was ended by an error. */
type ThreadState = 'idle' | 'failed' | 'active' | 'waits for approval' | 'gone' | 'unknown';

interface Answer {
  result?: unknown;
  error?: { code?: unknown; message?: unknown };
}

function saysNoThread({ code, message }: NonNullable<Answer['error']>): boolean {
  return code === INVALID_REQUEST && typeof message === 'string' && NO_THREAD.test(message);
}

/** A connection to the app server of Codex. */
class AppServer {
  readonly #socket: WebSocket;
  readonly #signal: AbortSignal;
  readonly #asked = new Map<number, (answer: Answer) => void>();
  #lastId = 0;

  private constructor(socket: WebSocket, signal: AbortSignal) {
    this.#socket = socket;
    this.#signal = signal;
    socket.on('message', (data: Buffer) => this.#onMessage(data.toString('utf8')));
  }

  /** `undefined` when no app server listens there. */
  static async connect(path: string, signal: AbortSignal): Promise<AppServer | undefined> {
    if (signal.aborted) return undefined;
    const socket = new WebSocket('ws://localhost/', {
      createConnection: () => connect(path),
      perMessageDeflate: false,
      maxPayload: ANSWER_BYTES_MAX,
    });
    const server = new AppServer(socket, signal);
    // Every later fault is a close as well.
    socket.on('error', () => undefined);
    try {
      await server.#open();
      const clientInfo = { name: 'poste', title: 'Poste', version: '1' };
      await server.#ask('initialize', { clientInfo, capabilities: { experimentalApi: true } });
      server.#send({ method: 'initialized' });
      return server;
    } catch {
      server.close();
      return undefined;
    }
  }

  async stateOf(threadId: string): Promise<ThreadState> {
    const { result, error } = await this.#ask('thread/read', { threadId });
    if (error) return saysNoThread(error) ? 'gone' : 'unknown';
    const thread = isObject(result) && isObject(result['thread']) ? result['thread'] : {};
    const status = isObject(thread['status']) ? thread['status'] : { type: thread['status'] };
    switch (status['type']) {
      case 'idle':
        return 'idle';
      case 'systemError':
        return 'failed';
      case 'active': {
        const flags: unknown = status['activeFlags'];
        return Array.isArray(flags) && flags.includes('waitingOnApproval') ? 'waits for approval' : 'active';
      }
      case 'notLoaded':
        return 'gone';
      default:
        return 'unknown';
    }
  }

  /** A lost answer leaves open whether the turn began: then it counts as given, or the line would be queued as well. */
  async startTurn(threadId: string, text: string): Promise<'given' | 'unheard' | 'gone'> {
    try {
      const { error } = await this.#ask('turn/start', { threadId, input: [{ type: 'text', text }] });
      // It may have ended since its state was asked for.
      if (error) return saysNoThread(error) ? 'gone' : 'unheard';
      return 'given';
    } catch {
      return 'given';
    }
  }

  close(): void {
    this.#socket.terminate();
  }

  /** Rejects when the connection ends first. */
  async #ask(method: string, params: object): Promise<Answer> {
    const id = ++this.#lastId;
    const answered = new Promise<Answer>((resolve) => {
      this.#asked.set(id, resolve);
    });
    this.#send({ id, method, params });
    return this.#unlessOver(answered);
  }

  #send(message: object): void {
    this.#socket.send(JSON.stringify(message));
  }

  #onMessage(text: string): void {
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    if (!isObject(message) || typeof message['id'] !== 'number') return;
    // A request of the server has an id of its own, and a method.
    if (message['method'] !== undefined) return;
    this.#asked.get(message['id'])?.(message);
    this.#asked.delete(message['id']);
  }

  #open(): Promise<void> {
    const opened = new Promise<void>((resolve) => {
      this.#socket.once('open', resolve);
    });
    return this.#unlessOver(opened);
  }

  #unlessOver<T>(wanted: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const over = (): void => {
        this.#socket.off('close', over);
        this.#signal.removeEventListener('abort', over);
        reject(new Error('the app server did not answer'));
      };
      this.#socket.once('close', over);
      this.#signal.addEventListener('abort', over);
      void wanted.then((value) => {
        this.#socket.off('close', over);
        this.#signal.removeEventListener('abort', over);
        resolve(value);
      });
    });
  }
}
