/** A client of `poste mcp` may write these on a line, and every line is answered. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JSONRPCMessage } from '@modelcontextprotocol/server';
import { type CallTool, ClientTransport } from '../../../../src/host/mcp/client-transport.ts';
import { serveMcp } from '../../../../src/host/mcp/serve.ts';
import { deferred } from '../../../support/deferred.ts';
import { mcpDaemon } from '../../../support/mcp-in-process.ts';

type Answer = { id?: unknown; result?: object; error?: { code: number; message: string } };

const CLIENT = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'test', version: '0' } };
const BOM = '\uFEFF';
const READY = { jsonrpc: '2.0', method: 'notifications/initialized' };

function request(id: number | string, method: string, params: object = {}): object {
  return { jsonrpc: '2.0', id, method, params };
}

/** `poste mcp` of an agent, whose client has said nothing yet. */
async function client() {
  const daemon = await mcpDaemon(['bob']);
  const stdin = new PassThrough();
  const stdout = new PassThrough();
  const served = serveMcp({
    client: daemon.client,
    agent: 'bob',
    version: '1',
    log: () => {},
    start: undefined,
    streams: { stdin, stdout },
    inbox: undefined,
    parentPid: () => process.ppid,
  });
  onTestFinished(() => served.close());
  let text = '';
  stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const say = (line: string | Buffer | object): void => {
    const isWritten = typeof line === 'string' || Buffer.isBuffer(line);
    stdin.write(Buffer.concat([isWritten ? Buffer.from(line) : Buffer.from(JSON.stringify(line)), Buffer.from('\n')]));
  };
  /** The next line that the server writes. */
  const heard = async <T = Answer>(): Promise<T> => {
    while (!text.includes('\n')) await once(stdout, 'data');
    const [line = '', ...rest] = text.split('\n');
    text = rest.join('\n');
    return JSON.parse(line) as T;
  };
  return { say, heard, stdin, served };
}

async function initialised() {
  const here = await client();
  here.say(request(0, 'initialize', CLIENT));
  expect(await here.heard()).toMatchObject({ id: 0, result: { protocolVersion: '2025-03-26' } });
  here.say(READY);
  return here;
}

function openTransport(): { transport: ClientTransport; stdin: PassThrough; stdout: PassThrough } {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const transport = new ClientTransport({ stdin, stdout }, () => undefined);
  void transport.start();
  return { transport, stdin, stdout };
}

function answerTo(id: number): JSONRPCMessage {
  return { jsonrpc: '2.0', id, result: {} };
}

describe('whether an answer was written', () => {
  test('is told when the client has it', async () => {
    const { transport } = openTransport();
    const isWritten = transport.whenWritten(1);
    await transport.send(answerTo(2));
    await transport.send(answerTo(1));
    expect(await isWritten).toBe(true);
  });

  test.each<[why: string, end: (stdin: PassThrough, stdout: PassThrough) => void]>([
    ['cancels the request', (stdin) => stdin.write(cancelled(1))],
    ['disconnects', (stdin) => stdin.end()],
    ['takes nothing more', (_stdin, stdout) => stdout.destroy(new Error('EPIPE'))],
  ])('is not told of one whose client %s', async (_why, end) => {
    const { transport, stdin, stdout } = openTransport();
    const isWritten = transport.whenWritten(1);
    end(stdin, stdout);
    expect(await isWritten).toBe(false);
  });

  test('nor of one in a batch, whose answers wait for each other', async () => {
    const { transport, stdin } = openTransport();
    const taken = once(stdin, 'data');
    stdin.write(`${JSON.stringify([request(1, 'ping'), request(2, 'ping')])}\n`);
    await taken;
    expect(await transport.whenWritten(1)).toBe(false);
  });
});

function cancelled(requestId: number): string {
  return `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } })}\n`;
}

describe('a line of the client', () => {
  test('may begin with a byte order mark, end in CR and LF, and come in pieces', async () => {
    const { say, heard, stdin } = await client();
    say(`${BOM}${JSON.stringify(request(1, 'initialize', CLIENT))}`);
    expect(await heard()).toMatchObject({ id: 1, result: { protocolVersion: '2025-03-26' } });
    say(`${BOM}${JSON.stringify(READY)}\r`);
    for (const byte of Buffer.from(`${BOM}${JSON.stringify(request('ü', 'ping'))}\r\n`)) stdin.write(Buffer.of(byte));
    expect(await heard()).toEqual({ jsonrpc: '2.0', id: 'ü', result: {} });
  });

  test('may hold a batch, whose answers are one line too', async () => {
    const { say, heard } = await initialised();
    say([request(1, 'ping'), READY, request(2, 'tools/list'), request(3, 'no/such')]);
    const answers = await heard<Answer[]>();
    expect(answers.toSorted((a, b) => Number(a.id) - Number(b.id))).toMatchObject([
      { id: 1, result: {} },
      { id: 2, result: { tools: expect.any(Array) as unknown } },
      { id: 3, error: { code: -32_601 } },
    ]);
    say([READY]);
    say([{ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }, request(4, 'ping')]);
    expect(await heard()).toMatchObject([{ id: 4, result: {} }]);
    say(request(5, 'ping'));
    expect(await heard()).toMatchObject({ id: 5, result: {} });
  });

  test('that is no message gets the error that says so, and the next one its answer', async () => {
    const { say, heard } = await initialised();
    const latin1 = Buffer.from(JSON.stringify(request(7, 'tools/call', { name: 'J\xfcrgen' })), 'latin1');
    const refused: [line: string | Buffer | object, id: unknown, code: number][] = [
      [latin1, 7, -32_700],
      [{ id: 9 }, 9, -32_600],
    ];
    for (const [line, id, code] of refused) {
      say(line);
      expect(await heard()).toMatchObject({ jsonrpc: '2.0', id, error: { code } });
    }
    say([1, { id: 'x' }]);
    const invalid = { code: -32_600, message: 'this is no JSON-RPC message' };
    expect(await heard()).toMatchObject([{ id: 'x', error: invalid }]);
    // Clients take no answer whose id is null, so what shows no id gets none.
    for (const nameless of ['{"jsonrpc":"2.0","id":8,', Buffer.from([0xff, 0xfe]), '7', []]) say(nameless);
    for (const empty of ['', '  ', '\r', BOM]) say(empty);
    say(request(10, 'ping'));
    expect(await heard()).toMatchObject({ id: 10, result: {} });
  });

  test('that is too long ends the connection', async () => {
    const { stdin, served } = await initialised();
    stdin.write(Buffer.alloc((10 << 20) + 1, 'a'));
    await expect(served.ended).resolves.toBeUndefined();
  });
});

const INITIALIZE = request(0, 'initialize', CLIENT);
function call(id: number, params: object = {}): object {
  return request(id, 'tools/call', { name: 'tool', arguments: { a: 1 }, ...params });
}

function line(document: object): string {
  return `${JSON.stringify(document)}\n`;
}

/** A transport that has the tool `tool`, and what its server is given. */
function withTool(callTool: CallTool) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const known: CallTool = (plain, ...rest) => (plain.name === 'tool' ? callTool(plain, ...rest) : undefined);
  const transport = new ClientTransport({ stdin, stdout }, () => undefined, new Set(), known);
  const served: unknown[] = [];
  Object.assign(transport, { onmessage: (message: unknown) => void served.push(message) });
  void transport.start();
  const written = async (): Promise<unknown> => JSON.parse(String((await once(stdout, 'data'))[0]));
  return { transport, stdin, stdout, served, written };
}

describe('a plain call of a tool', () => {
  test('is answered without the server of the protocol, once the client has begun with initialize', async () => {
    const asked: unknown[] = [];
    const { transport, stdin, served, written } = withTool(({ name, given, meta }) => {
      asked.push([name, given, meta]);
      return Promise.resolve({ content: [] });
    });
    stdin.write(line(INITIALIZE));
    const isWritten = transport.whenWritten(2);
    stdin.write(line(call(2, { _meta: { progressToken: 'p' } })));
    expect(await written()).toEqual({ jsonrpc: '2.0', id: 2, result: { content: [] } });
    expect(await isWritten).toBe(true);
    expect(asked).toEqual([['tool', { a: 1 }, { progressToken: 'p' }]]);
    expect(served).toEqual([INITIALIZE]);
  });

  test.each([
    ['of no such tool', call(2, { name: 'other' })],
    ['with more than a name and arguments', call(2, { task: {} })],
    ['without arguments', request(2, 'tools/call', { name: 'tool' })],
    ['by a client that names its revision', call(2, { _meta: { 'io.modelcontextprotocol/protocolVersion': '2' } })],
    ['without an id', { jsonrpc: '2.0', method: 'tools/call', params: { name: 'tool', arguments: {} } }],
    ['in a batch', [call(2)]],
  ])('is for the server where it is one %s', async (_, message) => {
    const { stdin, served } = withTool(() => Promise.reject(new Error('not asked')));
    stdin.write(line(INITIALIZE));
    stdin.write(line(message));
    await expect.poll(() => served).toEqual([INITIALIZE, ...[message].flat()]);
  });

  test('is for the server before initialize, and with the id of one under way', async () => {
    const { stdin, served } = withTool(() => new Promise(() => undefined));
    for (const message of [call(1), INITIALIZE, call(2), call(2)]) stdin.write(line(message));
    await expect.poll(() => served).toEqual([call(1), INITIALIZE, call(2)]);
  });

  test.each([
    ['cancelled', (stdin: PassThrough) => stdin.write(cancelled(2))],
    ['left by its client', (stdin: PassThrough) => stdin.end()],
  ])('ends without an answer when it is %s', async (_, end) => {
    const signals: AbortSignal[] = [];
    const ending = deferred();
    const { transport, stdin, stdout } = withTool(async (_call, signal) => {
      signals.push(signal);
      await ending.promise;
      return { content: [] };
    });
    stdin.write(line(INITIALIZE));
    const isWritten = transport.whenWritten(2);
    stdin.write(line(call(2)));
    await expect.poll(() => signals).toHaveLength(1);
    end(stdin);
    expect(await isWritten).toBe(false);
    expect(signals[0]?.aborted).toBe(true);
    ending.resolve();
    await new Promise(setImmediate);
    expect(stdout.read()).toBeNull();
  });

  test.each([
    ['that succeeds', 'mail_agents', { role: 'none' }],
    ['that is refused', 'mail_send', { to: ['nobody'], subject: 's', body: 'b' }],
    ['of a wrong form', 'mail_send', { to: 7 }],
  ])('has the answer that the server gives: one %s', async (_, name, given) => {
    const { say, heard } = await initialised();
    say(request(1, 'tools/call', { name, arguments: given }));
    const plain = await heard<{ result: object }>();
    say(request(1, 'tools/call', { name, arguments: given, other: true }));
    expect(JSON.stringify(plain)).toBe(JSON.stringify(await heard()));
    expect(Object.keys(plain.result)).toContain('content');
  });
});
