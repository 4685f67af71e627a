/** A client that keeps its connection: one for calls that follow each other, and never an operation done twice. */
import { once } from 'node:events';
import { lchown, rename } from 'node:fs/promises';
import { type Server, type Socket, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { DaemonClient } from '../../../../src/host/api/client.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';

/** A program that answers each request in one piece with `said`, and the requests that came to it. */
interface Program {
  server: Server;
  connections: Socket[];
  heard: string[];
}

async function program(path: string, said: (socket: Socket) => void = (socket) => void socket.write(ANSWER)) {
  const connections: Socket[] = [];
  const heard: string[] = [];
  const server = createServer((socket) => {
    connections.push(socket);
    socket
      .on('error', () => undefined)
      .on('data', (request: Buffer) => {
        heard.push(request.toString());
        said(socket);
      });
  }).listen(path);
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of connections) socket.destroy();
    server.close();
  });
  return { server, connections, heard } satisfies Program;
}

async function pathAndClient(): Promise<{ path: string; client: DaemonClient }> {
  const path = join(await temporaryFolder(), 'daemon.sock');
  return { path, client: new DaemonClient(path, '/store', { keepsConnection: true }) };
}

test('calls that follow each other come over one connection, and each of those at once over its own', async () => {
  const { path, client } = await pathAndClient();
  const { connections, heard } = await program(path);
  for (let call = 0; call < 3; call++) expect(await client.call('status', {})).toEqual({});
  expect(connections).toHaveLength(1);
  await Promise.all([client.call('status', {}), client.call('status', {})]);
  await client.call('status', {});
  expect(connections).toHaveLength(2);
  expect(heard).toHaveLength(6);
});

test('a client without that ends its connection with the answer', async () => {
  const { path } = await pathAndClient();
  const { connections, heard } = await program(path);
  const client = new DaemonClient(path, '/store');
  for (let call = 0; call < 2; call++) await client.call('status', {});
  expect(connections).toHaveLength(2);
  expect(heard[0]).toContain('connection: close');
});

test('a connection that the daemon ends with its answer is not used again', async () => {
  const { path, client } = await pathAndClient();
  const { connections } = await program(path, (socket) =>
    socket.write(ANSWER.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n')),
  );
  for (let call = 0; call < 2; call++) await client.call('status', {});
  expect(connections).toHaveLength(2);
});

test('a connection that ended between two calls is opened anew, also where nothing told the client yet', async () => {
  const { path, client } = await pathAndClient();
  const { connections, heard } = await program(path);
  await client.call('status', {});
  // Its end is closed now, and the client hears of it in a later turn.
  connections[0]?.destroy();
  expect(await client.call('status', {})).toEqual({});
  expect(connections).toHaveLength(2);
  expect(heard).toHaveLength(2);
  connections[1]?.end();
  await once(connections[1] as Socket, 'close');
  expect(await client.call('status', {})).toEqual({});
  expect(heard).toHaveLength(3);
});

test('a request that was taken whole is not sent again, as it may have been done', async () => {
  const { path, client } = await pathAndClient();
  let isDone = false;
  const { heard } = await program(path, (socket) => void (isDone ? socket.destroy() : socket.write(ANSWER)));
  await client.call('status', {});
  isDone = true;
  await expect(client.call('add-agent', { name: 'eve' })).rejects.toMatchObject({ code: 'DAEMON_GONE' });
  expect(heard).toHaveLength(2);
});

test('a daemon that falls silent on a kept connection is given up once', async () => {
  const { path, client } = await pathAndClient();
  let isSilent = false;
  const { heard } = await program(path, (socket) => void (isSilent || socket.write(ANSWER)));
  await client.call('status', {});
  isSilent = true;
  await expect(client.call('status', {}, { silenceMs: 50 })).rejects.toMatchObject({ code: 'DAEMON_SILENT' });
  expect(heard).toHaveLength(2);
});

test('a call that is aborted ends its connection, so that the daemon learns of it', async () => {
  const { path, client } = await pathAndClient();
  let isSilent = false;
  const { connections } = await program(path, (socket) => void (isSilent || socket.write(ANSWER)));
  await client.call('status', {});
  isSilent = true;
  const leaving = new AbortController();
  const called = client.call('status', {}, { signal: leaving.signal });
  leaving.abort();
  await expect(called).rejects.toMatchObject({ name: 'AbortError' });
  const [kept] = connections;
  if (kept && !kept.destroyed) await once(kept, 'close');
  isSilent = false;
  expect(await client.call('status', {}, { signal: new AbortController().signal })).toEqual({});
  expect(connections).toHaveLength(2);
});

test('what comes without a request is no answer to the next one', async () => {
  const { path, client } = await pathAndClient();
  const { connections } = await program(path);
  await client.call('status', {});
  const [kept] = connections as [Socket];
  kept.write(ANSWER.replace('{}', '[]'));
  await once(kept, 'close');
  expect(await client.call('status', {})).toEqual({});
  expect(connections).toHaveLength(2);
});

test('a call goes to the socket that stands at the path now, though the one before still answers', async () => {
  const { path, client } = await pathAndClient();
  const before = await program(path);
  await client.call('status', {});
  await rename(path, `${path}.before`);
  await expect(client.call('status', {})).rejects.toMatchObject({ code: 'DAEMON_NOT_RUNNING' });
  const now = await program(path);
  for (let call = 0; call < 2; call++) await client.call('status', {});
  expect(before.heard).toHaveLength(1);
  expect(now.connections).toHaveLength(1);
  expect(now.heard).toHaveLength(2);
});

test.runIf(process.getuid?.() === 0)('a socket that became that of another user is sent nothing', async () => {
  const { path, client } = await pathAndClient();
  const { heard } = await program(path);
  await client.call('status', {});
  await lchown(path, 12_345, 12_345);
  await expect(client.call('status', {})).rejects.toMatchObject({ code: 'SOCKET_NOT_TRUSTED' });
  expect(heard).toHaveLength(1);
});
