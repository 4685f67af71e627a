/** Tests what a caller learns of a daemon that is not there, ends in the middle, is silent, or is another program. */
import { getEventListeners, once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type Socket, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { DaemonClient } from '../../../../src/host/api/client.ts';
import { leaveSocket } from '../../../support/stale-socket.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

/** A client of what answers `said` to every request, and then ends the connection unless it stays. */
async function clientOf(said: string, { stays = false } = {}): Promise<DaemonClient> {
  const path = join(await temporaryFolder(), 'daemon.sock');
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(said);
      if (!stays) socket.end();
    });
  }).listen(path);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await once(server, 'listening');
  return new DaemonClient(path, '/the/store');
}

function answer(body: string, status = 200, bytes = Buffer.byteLength(body)): string {
  return `HTTP/1.1 ${status} X\r\ncontent-length: ${bytes}\r\n\r\n${body}`;
}

describe('a daemon that is not there', () => {
  test.each(['nothing', 'a file', 'what a killed one left'])('is not running: %s', async (what) => {
    const path = join(await temporaryFolder(), 'daemon.sock');
    if (what === 'a file') await writeFile(path, '');
    if (what === 'what a killed one left') await leaveSocket(path);
    await expect(new DaemonClient(path, '/').call('status', {})).rejects.toMatchObject({
      code: 'DAEMON_NOT_RUNNING',
      status: 0,
      message: 'no daemon is running on the store at /: start it with poste daemon',
    });
    await expect(new DaemonClient(path, '/the/store').call('status', {})).rejects.toMatchObject({
      code: 'DAEMON_NOT_RUNNING',
      message: 'no daemon is running, and there is no store at /the/store: make one with poste init',
    });
  });
});

describe('what listens and is no daemon of this version', () => {
  test.each([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['a body without a length', 'HTTP/1.1 200 X\r\n\r\n{}'],
    ['an answer with more behind it', `${answer('{}')}{}`],
    ['a page', answer('<html>')],
    ['no object', answer('[]')],
    ['nothing at all', answer('')],
    ['a problem without a code', answer('{"message":"x"}', 500)],
    ['a problem without a message', answer('{"code":"x"}', 500)],
    ['a page with an error', answer('<html>', 502)],
    ['another version', answer('{"code":"UNKNOWN_OPERATION","message":"x"}', 404)],
  ])('is not understood: %s', async (_, said) => {
    const client = await clientOf(said);
    const called = client.call('status', {});
    await expect(called).rejects.toMatchObject({ code: 'NOT_UNDERSTOOD', message: expect.stringContaining('version') });
  });

  test('is not waited for, where it says no HTTP and stays', async () => {
    const client = await clientOf('220 ready', { stays: true });
    await expect(client.call('status', {})).rejects.toMatchObject({ code: 'NOT_UNDERSTOOD' });
  });

  test('its problem keeps its code, and details that are none are left out', async () => {
    const client = await clientOf(answer('{"code":"ODD","message":"said","details":7}', 418));
    await expect(client.call('status', {})).rejects.toMatchObject({ code: 'ODD', status: 418, message: 'said' });
    await expect(client.call('status', {})).rejects.toMatchObject({ details: {} });
  });
});

describe('a daemon that ends or falls silent', () => {
  test.each([
    ['before its answer', ''],
    ['in the middle of the head', 'HTTP/1.1 200 X\r\ncont'],
    ['in the middle of the answer', answer('{"host":', 200, 900)],
  ])('has gone %s: what became of it is not known', async (_, said) => {
    const client = await clientOf(said);
    await expect(client.call('status', {})).rejects.toMatchObject({
      code: 'DAEMON_GONE',
      message: expect.stringContaining('not known whether the operation was done'),
    });
  });

  test.each([
    ['before its answer', ''],
    ['in the middle of the answer', answer('{"host":', 200, 900)],
  ])('is silent %s, and is given up', async (_, said) => {
    const client = await clientOf(said, { stays: true });
    await expect(client.call('status', {}, { silenceMs: 50 })).rejects.toMatchObject({
      code: 'DAEMON_SILENT',
      message: expect.stringContaining('not known whether the operation was done'),
    });
  });

  test.each([
    ['with its length', answer('poste-host-backup 1\n', 200, 9000)],
    ['in chunks', 'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n14\r\nposte-host-backup 1\n\r\n'],
  ])('half a backup is none: %s', async (_, said) => {
    const client = await clientOf(said);
    const chunks: Buffer[] = [];
    const taken = (async () => {
      for await (const chunk of client.backup(new AbortController().signal)) chunks.push(chunk);
    })();
    await expect(taken).rejects.toMatchObject({ code: 'DAEMON_GONE' });
    expect(Buffer.concat(chunks).toString()).toBe('poste-host-backup 1\n');
  });

  test('the caller may leave in the middle of a backup, and nothing is kept of it', async () => {
    const client = await clientOf(answer('poste-host-backup 1\n', 200, 9000), { stays: true });
    const leaving = new AbortController();
    const chunks = client.backup(leaving.signal);
    await chunks.next();
    const next = chunks.next();
    leaving.abort();
    await expect(next).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => getEventListeners(leaving.signal, 'abort').length).toBe(0);
  });

  test.each([
    ['before the answer', ''],
    ['in the middle of the answer', answer('{"host":', 200, 900)],
  ])('the caller may leave %s', async (_, said) => {
    const client = await clientOf(said, { stays: true });
    const leaving = new AbortController();
    const called = client.call('status', {}, { signal: leaving.signal });
    leaving.abort();
    await expect(called).rejects.toMatchObject({ name: 'AbortError' });
    const again = client.call('status', {}, { signal: leaving.signal });
    await expect(again).rejects.toMatchObject({ name: 'AbortError' });
  });

  test('a signal that outlives many calls keeps nothing of them', async () => {
    const client = await clientOf(answer('{"host":"x"}'));
    const { signal } = new AbortController();
    for (let call = 0; call < 3; call++) await client.call('status', {}, { signal });
    await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0);
  });
});
