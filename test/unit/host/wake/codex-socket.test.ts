/** The app server of Codex by script: WebSocket over a Unix socket, with the answers that Codex 0.169.0 gives. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import type { SessionRow, WakeMethod } from '../../../../src/host/core/session-rows.ts';
import { codexSocketMethod, codexTurn } from '../../../../src/host/wake/codex-socket.ts';
import type { TryWakeOutcome } from '../../../../src/host/wake/wake-methods.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const TEXT = 'You have 1 unread message in Poste. Read it with mail_inbox.';
const QUEUE: WakeMethod = { type: 'command', argv: ['/bin/codex', 'queue'] };

type Message = Readonly<Record<string, unknown>>;

interface AppServer {
  socket: string;
  /** The messages that came, in order. */
  heard: Message[];
}

/** Answers `thread/read` and `turn/start` with these, or ends the connection for null; the others as Codex does. */
async function appServer(read: Message | null, started: Message | null = { result: { turn: {} } }): Promise<AppServer> {
  const socket = join(await temporaryFolder(), 'codex.sock');
  const heard: Message[] = [];
  const http = createServer();
  const server = new WebSocketServer({ server: http });
  server.on('connection', (client) => {
    client.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Message;
      heard.push(message);
      const { id, method } = message;
      if (method === 'initialize') client.send(JSON.stringify({ id, result: {} }));
      // A notification, and a request of the server's own with an id of ours: neither is the answer.
      client.send(JSON.stringify({ method: 'thread/status/changed', params: {} }));
      client.send(JSON.stringify({ id, method: 'item/requestApproval', params: {} }));
      if (method === 'thread/read') {
        if (read) client.send(JSON.stringify({ id, ...read }));
        else client.terminate();
      }
      if (method === 'turn/start') {
        if (started) client.send(JSON.stringify({ id, ...started }));
        else client.terminate();
      }
    });
  });
  http.listen(socket);
  await once(http, 'listening');
  onTestFinished(() => {
    for (const client of server.clients) client.terminate();
    http.close();
  });
  return { socket, heard };
}

const thread = (status: object): Message => ({ result: { thread: { id: 't-1', status } } });

interface Rung {
  outcome: TryWakeOutcome;
  queued: string[];
}

function sessionAt(socket: string, wake: readonly WakeMethod[] = []): SessionRow {
  return {
    agentId: 'a'.repeat(32) as AgentId,
    sessionId: 't-1',
    registeredAtMs: 0,
    seenAtMs: 0,
    endedAtMs: null,
    wake: [{ type: 'codex-socket', socket }, ...wake],
    process: null,
    woken: null,
  };
}

async function ring(
  socket: string,
  wake: readonly WakeMethod[] = [QUEUE],
  queue: TryWakeOutcome = 'given',
): Promise<Rung> {
  const method = { type: 'codex-socket', socket } as const;
  const session = sessionAt(socket, wake);
  const queued: string[] = [];
  const tryWake = codexSocketMethod((_session, { argv }, text) => {
    queued.push([...argv, text].join(' '));
    return Promise.resolve(queue);
  });
  return { outcome: await tryWake(session, method, TEXT, new AbortController().signal), queued };
}

describe('the app server of Codex', () => {
  test('begins a turn of an idle thread with the line', async () => {
    const { socket, heard } = await appServer(thread({ type: 'idle' }));
    expect(await ring(socket)).toEqual({ outcome: 'given', queued: [] });
    expect(heard.map(({ method }) => method)).toEqual(['initialize', 'initialized', 'thread/read', 'turn/start']);
    expect(heard.at(-1)).toMatchObject({ params: { threadId: 't-1', input: [{ type: 'text', text: TEXT }] } });
    expect(heard.every((message) => !('jsonrpc' in message))).toBe(true);
  });

  test('begins a turn of a thread whose last turn was ended by an error', async () => {
    const { socket } = await appServer(thread({ type: 'systemError' }));
    expect(await ring(socket)).toEqual({ outcome: 'given', queued: [] });
  });

  test.each([
    [thread({ type: 'idle' }), 'over'],
    [thread({ type: 'systemError' }), 'failed'],
    [thread({ type: 'active', activeFlags: [] }), 'runs'],
    [thread({ type: 'active', activeFlags: ['waitingOnApproval'] }), 'runs'],
    [thread({ type: 'notLoaded' }), 'unknown'],
    [null, 'unknown'],
  ])('says how the turn of a ring stands: %j is %s', async (answer, turn) => {
    const { socket, heard } = await appServer(answer);
    expect(await codexTurn(sessionAt(socket), new AbortController().signal)).toBe(turn);
    expect(heard.some(({ method }) => method === 'turn/start')).toBe(false);
  });

  test.each([
    [{ type: 'active', activeFlags: [] }, 'queued'],
    [{ type: 'active', activeFlags: ['waitingOnApproval'] }, 'waits for approval'],
  ])('never begins a turn of a thread at work: its line is queued (%j)', async (status, outcome) => {
    const { socket, heard } = await appServer(thread(status));
    expect(await ring(socket)).toEqual({ outcome, queued: [`/bin/codex queue ${TEXT}`] });
    expect(heard.at(-1)).toMatchObject({ method: 'thread/read' });
    expect(await ring(socket, [])).toEqual({ outcome: 'unavailable', queued: [] });
    expect(await ring(socket, [QUEUE], 'unheard')).toMatchObject({ outcome: 'unheard' });
  });

  test.each([
    ['is not loaded', thread({ type: 'notLoaded' })],
    ['is not found', { error: { code: -32_600, message: 'thread not found: t-1' } }],
    ['is known, but not loaded', { error: { code: -32_600, message: 'thread not loaded: t-1' } }],
  ])('says that a thread is over: it %s', async (_what, answer) => {
    const { socket } = await appServer(answer);
    expect(await ring(socket)).toEqual({ outcome: 'gone', queued: [] });
  });

  test.each([
    ['an error of another kind', { error: { code: -32_603, message: 'no' } }],
    ['a request that it does not take', { error: { code: -32_600, message: 'Invalid request: unknown field' } }],
    ['a state that is not known', thread({ type: 'asleep' })],
    ['a result of another shape', { result: 7 }],
    ['the end of the connection', null],
  ])('is not believed beyond what it says: %s', async (_what, answer) => {
    const { socket } = await appServer(answer);
    expect(await ring(socket)).toEqual({ outcome: 'unheard', queued: [] });
  });

  test('that begins no turn did not take the line', async () => {
    const { socket } = await appServer(thread({ type: 'idle' }), { error: { code: 1 } });
    expect(await ring(socket)).toEqual({ outcome: 'unheard', queued: [] });
  });

  test('whose thread ended before its turn began says that it is over', async () => {
    const error = { code: -32_600, message: 'thread not found: t-1' };
    const { socket } = await appServer(thread({ type: 'idle' }), { error });
    expect(await ring(socket)).toEqual({ outcome: 'gone', queued: [] });
  });

  test('whose answer to the turn is lost may have begun it: the line is not queued as well', async () => {
    const { socket } = await appServer(thread({ type: 'idle' }), null);
    expect(await ring(socket)).toEqual({ outcome: 'given', queued: [] });
  });

  test('is not there when nothing listens, or what listens speaks otherwise', async () => {
    const folder = await temporaryFolder();
    expect(await ring(join(folder, 'none.sock'))).toEqual({ outcome: 'unavailable', queued: [] });
    const http = createServer((_request, response) => void response.end('hello'));
    http.listen(join(folder, 'other.sock'));
    await once(http, 'listening');
    onTestFinished(() => void http.close());
    expect(await ring(join(folder, 'other.sock'))).toEqual({ outcome: 'unavailable', queued: [] });
  });
});
