import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { join } from 'node:path';
import { type Mock, describe, expect, onTestFinished, test, vi } from 'vitest';
import { DaemonClient } from '../../../../src/host/api/client.ts';
import { type Caller, type Handlers, handlersOf } from '../../../../src/host/api/handlers.ts';
import { OPERATIONS, type OperationName } from '../../../../src/host/api/operations.ts';
import { BACKUP_TARGET } from '../../../../src/host/contract/socket-protocol.ts';
import { LocalServer } from '../../../../src/host/api/server.ts';
import { systemTimers } from '../../../../src/lib/clock.ts';
import { parseInput } from '../../../../src/host/contract/parse-input.ts';
import { isListening } from '../../../../src/lib/unix-socket.ts';
import { isRefusal } from '../../../../src/host/core/refusal.ts';
import { hostStatus } from '../../../../src/host/doctor/health.ts';
import { RelayService } from '../../../../src/host/relay/relay-service.ts';
import type { PeerId } from '../../../../src/host/core/rows.ts';
import { deferred } from '../../../support/deferred.ts';
import { addPeer } from '../../../support/mail-context.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { reachOver, UNOPENED, unaskedParts } from '../../../support/unasked-parts.ts';

const LISTEN = { host: '127.0.0.1', port: 8789 };
const facts = { version: '1', pid: 1, startedAtMs: 1, store: '/s', config: '/c', socket: '/d', linesLost: () => 0 };

interface Started {
  client: DaemonClient;
  server: LocalServer;
  path: string;
  logged: Mock;
  context: TestContext;
  /** The paired hosts that were asked for their agents, each time. */
  asked: PeerId[][];
}

async function* small(): AsyncGenerator<Buffer> {
  yield await Promise.resolve(Buffer.from('all'));
}

const broken = (): Promise<never> => Promise.reject(new Error('a secret'));

/** A server over a host without agents; `changes` take the place of its handlers. */
async function started(changes: Partial<Handlers> = {}, backup = small): Promise<Started> {
  const path = join(await temporaryFolder(), 'daemon.sock');
  const logged = vi.fn<() => void>();
  const context = { ...(await testContext()), log: logged };
  const asked: PeerId[][] = [];
  const freshenDirectories = async (peerIds: ReadonlySet<PeerId>): Promise<void> => void asked.push([...peerIds]);
  const unasked = unaskedParts(broken);
  const pairing = { ...unasked.pairing, freshenDirectories };
  const own = new RelayService({ context });
  const lan = { port: undefined };
  const reach = reachOver(own);
  const status = () => hostStatus({ context, facts, lan, lanListen: LISTEN, web: UNOPENED, relay: own, reach });
  const health = { ...unasked.health, status };
  const parts = { ...unasked, context, timers: systemTimers, health, pairing, wakeAgent: broken };
  const handlers = { ...handlersOf(parts), ...changes };
  const server = await LocalServer.listen({ socketPath: path, context, handlers, version: facts.version, backup });
  onTestFinished(() => server.close());
  return { client: new DaemonClient(path, '/store'), server, path, logged, context, asked };
}

/** Returns what a raw request is answered. */
async function raw(path: string, request: string): Promise<string> {
  const socket = connect(path);
  // Not ended: half a connection is a peer that has gone.
  socket.write(request);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  await once(socket, 'close');
  return text;
}

function post(name: string, body: string, headers = ''): string {
  return (
    `POST /v1/${name} HTTP/1.1\r\nhost: poste\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n` +
    `connection: close\r\n\r\n${body}`
  );
}

/** Asks over a connection that may stay open. */
async function answered(socket: Socket): Promise<string> {
  socket.write(post('status', '{}').replace('connection: close\r\n', ''));
  return String((await once(socket, 'data'))[0]);
}

describe('the socket', () => {
  test('paired hosts are asked for their agents before a group is addressed and before agents are listed', async () => {
    const { client, context, asked } = await started();
    await client.call('add-agent', { name: 'eve' });
    const { peerId } = await addPeer(context, 'laptop', []);
    await client.call('mail-agents', {});
    expect(asked).toEqual([[peerId]]);
    await client.call('mail-send', { to: ['eve'], subject: 's', body: 'b' }, { as: 'owner' });
    expect(asked).toHaveLength(1);
    await client.call('mail-send', { to: ['*'], subject: 's', body: 'b' }, { as: 'owner' });
    expect(asked).toEqual([[peerId], [peerId]]);
  });

  test('answers are what the table says they are', async () => {
    const { client } = await started();
    const asked: [OperationName, object, string?][] = [
      ['status', {}],
      ['add-agent', { name: 'eve', roles: ['review'] }],
      ['list-agents', {}],
      ['mail-agents', {}],
      ['mail-send', { to: ['eve'], subject: 's', body: 'b' }, 'eve'],
      ['mail-inbox', {}, 'eve'],
      ['mail-sent', {}, 'eve'],
      ['remove-agent', { name: 'eve' }],
    ];
    for (const [name, input, as] of asked) {
      const output = await client.call(name, input, { as });
      expect(isRefusal(parseInput(OPERATIONS[name].output, output))).toBe(false);
    }
  });

  test('an agent that sends, replies or lists agents learns how many messages it has not read', async () => {
    const { client } = await started();
    for (const name of ['eve', 'bob']) await client.call('add-agent', { name });
    const mail = { to: ['bob'], subject: 's', body: 'b' };
    expect(await client.call('mail-send', mail, { as: 'eve' })).not.toHaveProperty('unread');
    const { message_id } = await client.call('mail-send', mail, { as: 'eve' });
    expect(await client.call('mail-agents', {}, { as: 'bob' })).toMatchObject({ unread: 2 });
    expect(await client.call('mail-agents', {})).not.toHaveProperty('unread');
    expect(await client.call('mail-reply', { message_id, body: 'b' }, { as: 'bob' })).toMatchObject({ unread: 2 });
    expect(await client.call('mail-send', mail, { as: 'eve' })).toMatchObject({ unread: 1 });
  });

  test.each([
    ['no such operation', post('nothing', '{}'), 404, 'UNKNOWN_OPERATION'],
    ['another method', post('status', '{}').replace('POST', 'GET'), 404, 'UNKNOWN_OPERATION'],
    ['a name of every object', post('__proto__', '{}'), 404, 'UNKNOWN_OPERATION'],
    ['no JSON', post('status', '{'), 400, 'BAD_INPUT'],
    ['no object', post('status', '[]'), 400, 'BAD_INPUT'],
    ['a deep one', post('status', `{"x":${'['.repeat(40)}${']'.repeat(40)}}`), 400, 'BAD_INPUT'],
    ['a missing member', post('add-agent', '{}'), 400, 'BAD_INPUT'],
    ['nobody who acts', post('mail-inbox', '{}'), 400, 'BAD_INPUT'],
    ['an agent that is none', post('mail-inbox', '{}', 'x-poste-agent: nobody\r\n'), 404, 'NO_SUCH_AGENT'],
    [
      'a body without its length',
      'POST /v1/status HTTP/1.1\r\nhost: poste\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
      411,
      'LENGTH_REQUIRED',
    ],
    ['too much', post('status', `{"x":"${'x'.repeat(4 << 20)}"}`), 413, 'TOO_LARGE'],
    ['far too much', 'POST /v1/status HTTP/1.1\r\nhost: poste\r\ncontent-length: 99999999\r\n\r\n', 413, 'TOO_LARGE'],
  ])('%s is refused with its code', async (_, request, status, code) => {
    const { path } = await started();
    const text = await raw(path, request);
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(JSON.parse(text.slice(text.indexOf('\r\n\r\n')))).toMatchObject({ code, message: expect.any(String) });
  });

  test('a refusal of an input names the field', async () => {
    const { client } = await started();
    await expect(client.call('add-agent', {} as never)).rejects.toMatchObject({
      code: 'BAD_INPUT',
      status: 400,
      details: { field: 'name' },
    });
  });

  test('what breaks inside is logged and not told', async () => {
    const { client, logged } = await started({ status: broken });
    await expect(client.call('status', {})).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.not.stringContaining('secret'),
    });
    const err = expect.objectContaining({ message: 'a secret' });
    expect(logged.mock.calls).toEqual([['error', 'an operation failed', { operation: '/v1/status', err }]]);
  });

  test('a handler that waits is told when the caller has gone', async () => {
    let aborted!: () => void;
    const ended = new Promise<void>((resolve) => {
      aborted = resolve;
    });
    let waits!: () => void;
    const waiting = new Promise<void>((resolve) => {
      waits = resolve;
    });
    const status = ({ signal }: Caller): Promise<never> => {
      signal.addEventListener('abort', () => aborted());
      waits();
      return new Promise(() => undefined);
    };
    const { path } = await started({ status });
    const socket = connect(path);
    socket.write(post('status', '{}'));
    await waiting;
    socket.destroy();
    await expect(ended).resolves.toBeUndefined();
  });

  test('a stop ends what waits, answers it, and removes the socket', async () => {
    let waits!: () => void;
    const waiting = new Promise<void>((resolve) => {
      waits = resolve;
    });
    const sent = ({ signal }: Caller): Promise<{ messages: []; next_cursor: null }> =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve({ messages: [], next_cursor: null }));
        waits();
      });
    const { client, server, path } = await started({ 'mail-sent': sent });
    const asked = client.call('mail-sent', {}, { as: 'owner' });
    await waiting;
    await server.drain();
    expect(await asked).toEqual({ messages: [], next_cursor: null });
    expect(await isListening(path)).toBe(false);
    await expect(client.call('status', {})).rejects.toMatchObject({ code: 'DAEMON_NOT_RUNNING' });
  });

  test('a stop ends a backup that its caller does not read', async () => {
    let ended = false;
    const { server, path, logged } = await started({}, async function* () {
      try {
        for (;;) yield await Promise.resolve(Buffer.alloc(8 << 20));
      } finally {
        ended = true;
      }
    });
    const socket = connect(path);
    onTestFinished(() => void socket.destroy());
    socket.write(`GET ${BACKUP_TARGET} HTTP/1.1\r\nhost: poste\r\n\r\n`);
    await once(socket, 'readable');
    await server.drain();
    expect(ended).toBe(true);
    expect(logged).not.toHaveBeenCalled();
    socket.resume();
    await once(socket, 'close');
  });

  test('a daemon that says nothing is given up, and one that ends is told', async () => {
    let asked = deferred();
    const never = (): Promise<never> => {
      asked.resolve();
      return new Promise(() => undefined);
    };
    const { client, server } = await started({ status: never });
    await expect(client.call('status', {}, { silenceMs: 50 })).rejects.toMatchObject({ code: 'DAEMON_SILENT' });
    asked = deferred();
    const failing = client.call('status', {});
    // Now it is with the handler: one that does not reach the daemon is told that none is running.
    await asked.promise;
    server.close();
    await expect(failing).rejects.toMatchObject({ code: 'DAEMON_GONE' });
  });

  test('a connection stays open after its answer, but for those beyond 500, and none keeps a stop', async () => {
    const { server, path } = await started();
    const opened: Socket[] = [];
    for (let count = 0; count < 500; count++) opened.push(connect(path));
    await Promise.all(opened.map((socket) => once(socket, 'connect')));
    const [kept] = opened as [Socket];
    // No time after which it would end.
    expect(await answered(kept)).not.toMatch(/connection: close|timeout/i);
    expect(await answered(kept)).toContain('"host"');
    const oneMore = connect(path);
    expect(await answered(oneMore)).toContain('connection: close');
    await once(oneMore, 'close');
    expect(await answered(kept)).not.toContain('connection: close');
    const ended = once(kept, 'close');
    await server.drain();
    await ended;
    for (const socket of opened) socket.destroy();
  });
});
