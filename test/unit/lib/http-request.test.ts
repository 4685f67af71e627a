/** One HTTP request to another machine, over real sockets: what it brings back, and what ends it. */
import { getEventListeners, once } from 'node:events';
import { Agent, type RequestListener, createServer } from 'node:http';
import { Socket, createServer as createTcpServer } from 'node:net';
import { createServer as createTlsServer } from 'node:https';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { HttpCaller, type HttpCallerOptions, type HttpRequest } from '../../../src/lib/http-request.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { ANOTHER_AUTHORITY, AUTHORITY, SERVER } from '../../support/test-authority.ts';
import { listeningPort } from '../../support/listening-port.ts';

const SOON_MS = 20;
/** For a connection on this machine, however busy that is. */
const CONNECTED_MS = 400;

async function serving(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  return `http://127.0.0.1:${await listeningPort(server)}`;
}

function asked(changes: Partial<HttpRequest> = {}): HttpRequest {
  return { method: 'GET', headers: {}, signal: new AbortController().signal, answerBytesMax: 100, ...changes };
}

function callerWith(options: HttpCallerOptions = {}): HttpCaller {
  return new HttpCaller(options);
}

test('the answer is whole: status, headers and body; the next request goes over the same connection', async () => {
  const ports = new Set<number | undefined>();
  const url = await serving((incoming, outgoing) => {
    ports.add(incoming.socket.remotePort);
    const { method, url: target, headers } = incoming;
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => void chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      outgoing.writeHead(418, { 'retry-after': '3' });
      outgoing.end(JSON.stringify([method, target, headers['content-length'], headers['x-a'], body]));
    });
  });
  const caller = callerWith();
  const { signal } = new AbortController();
  for (let count = 0; count < 2; count++) {
    const posted = await caller.request(
      `${url}/a?b`,
      asked({ method: 'POST', headers: { 'x-a': 'b' }, body: 'wörd', signal }),
    );
    expect([posted.status, posted.headers['retry-after']]).toEqual([418, '3']);
    expect(JSON.parse(posted.body.toString())).toEqual(['POST', '/a?b', '5', 'b', 'wörd']);
  }
  expect(ports.size).toBe(1);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

test('a connection that nobody answers is given up soon, and what takes long to answer is not', async () => {
  // As where packets vanish: it neither connects nor fails.
  const agent = new Agent();
  agent.createConnection = () => Object.assign(new Socket(), { connecting: true });
  const vanishing = callerWith({ connectTimeoutMs: SOON_MS, agent });
  await expect(vanishing.request('http://127.0.0.1:9', asked())).rejects.toMatchObject({
    code: 'CONNECT_TIMEOUT',
    message: 'no connection within 0.02 seconds',
    status: 0,
  });
  const url = await serving((_incoming, outgoing) => void setTimeout(() => outgoing.end('late'), 2 * CONNECTED_MS));
  const { body } = await callerWith({ connectTimeoutMs: CONNECTED_MS }).request(url, asked());
  expect(body.toString()).toBe('late');
});

test('a TLS handshake that never ends is no connection', async () => {
  const silent = createTcpServer((socket) => void socket.on('error', () => undefined));
  const port = await listeningPort(silent);
  const caller = callerWith({ connectTimeoutMs: SOON_MS });
  await expect(caller.request(`https://127.0.0.1:${port}`, asked())).rejects.toMatchObject({ code: 'CONNECT_TIMEOUT' });
});

test('the signal ends it, before it began, while it waits, and while the answer comes', async () => {
  const caller = callerWith();
  const late = new DOMException('too long', 'TimeoutError');
  const url = await serving((incoming, outgoing) => {
    if (incoming.url === '/begun') outgoing.write('a');
  });
  await expect(caller.request(url, asked({ signal: AbortSignal.abort(late) }))).rejects.toThrow('no answer in time');
  for (const target of ['/silent', '/begun']) {
    const ending = new AbortController();
    const { signal } = ending;
    const failing = caller.request(url + target, asked({ signal }));
    setTimeout(() => ending.abort(late), SOON_MS);
    await expect(failing).rejects.toMatchObject({ message: 'no answer in time', status: 0 });
    await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0);
  }
});

test.each<[string, RequestListener, object]>([
  ['too long', (_i, o) => void o.end('x'.repeat(101)), { message: 'the answer is too long', status: 200 }],
  [
    'sent elsewhere',
    (_i, o) => void o.writeHead(301, { location: '/b' }).end(),
    { message: expect.stringContaining('followed'), status: 0 },
  ],
  [
    'cut',
    (_i, o) => void o.writeHead(200, { 'content-length': 50 }).write('x', () => o.destroy()),
    { code: 'ECONNRESET' },
  ],
  ['none', (i) => void i.socket.destroy(), { code: 'ECONNRESET', status: 0 }],
])('an answer that is %s is none', async (_what, answer, failure) => {
  await expect(callerWith().request(await serving(answer), asked())).rejects.toMatchObject(failure);
});

test('nobody listens, or nothing can be asked there: the reason says so', async () => {
  const server = createTcpServer();
  const port = await listeningPort(server);
  server.close();
  await once(server, 'close');
  const caller = callerWith();
  await expect(caller.request(`http://127.0.0.1:${port}`, asked())).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  await expect(caller.request('http://[', asked())).rejects.toMatchObject({ code: 'ERR_INVALID_URL' });
});

test('an authority that is named is trusted beside those of NODE_EXTRA_CA_CERTS', async () => {
  const server = createTlsServer(SERVER, (_incoming, outgoing) => void outgoing.end('there'));
  const url = `https://127.0.0.1:${await listeningPort(server)}`;
  const ask = async (ca: string): Promise<string> => {
    const caller = callerWith({ ca });
    return (await caller.request(url, asked())).body.toString();
  };
  onTestFinished(() => void vi.unstubAllEnvs());
  const file = join(await temporaryFolder(), 'extra.pem');
  vi.stubEnv('NODE_EXTRA_CA_CERTS', '');
  await expect(ask(ANOTHER_AUTHORITY)).rejects.toThrow('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
  await writeFile(file, `# those of this company\n${AUTHORITY}`);
  vi.stubEnv('NODE_EXTRA_CA_CERTS', file);
  expect(await ask(ANOTHER_AUTHORITY)).toBe('there');
  // As Node does with a file that it cannot use.
  for (const useless of [`${file}.gone`, file]) {
    await writeFile(file, AUTHORITY.replace('MIIB', 'AAAA'));
    vi.stubEnv('NODE_EXTRA_CA_CERTS', useless);
    expect(await ask(AUTHORITY)).toBe('there');
    await expect(ask(ANOTHER_AUTHORITY)).rejects.toThrow('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
  }
});
