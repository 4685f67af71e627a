/** The ends of a command when the relay is not there, is another's, ends in the middle, or is none. */
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { type Socket, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ControlClient } from '../../../../src/cli/relay/control-client.ts';
import { controlSocketPath } from '../../../../src/relay/operator/socket.ts';
import { SOCKET_PATH_BYTES_MAX } from '../../../../src/lib/unix-socket.ts';
import { leaveSocket } from '../../../support/stale-socket.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

describe('a relay that is not there', () => {
  test('is not running when it left its socket behind', async () => {
    const folder = await temporaryFolder();
    const path = controlSocketPath(folder);
    await leaveSocket(path);
    await expect(new ControlClient(folder).list('/v1/hosts')).rejects.toMatchObject({ code: 'RELAY_NOT_RUNNING' });
  });

  test('cannot be where the socket is a file, or the folder one', async () => {
    const folder = await temporaryFolder();
    await writeFile(controlSocketPath(folder), '');
    await expect(new ControlClient(folder).list('/v1/hosts')).rejects.toMatchObject({ code: 'RELAY_NOT_RUNNING' });
    const file = controlSocketPath(folder);
    await expect(new ControlClient(file).list('/v1/hosts')).rejects.toMatchObject({
      code: 'STORE_UNUSABLE',
      message: expect.stringContaining('is a file, and no store folder') as string,
    });
  });

  test('cannot be reached where the path is too long for a socket, and a byte less is not too long', async () => {
    const parent = await temporaryFolder();
    const padding = SOCKET_PATH_BYTES_MAX - Buffer.byteLength(controlSocketPath(join(parent, 'x'))) + 1;
    const folder = join(parent, 'x'.repeat(padding));
    await expect(new ControlClient(`${folder}x`).list('/v1/hosts')).rejects.toMatchObject({
      exit: 'failure',
      code: 'SOCKET_PATH_TOO_LONG',
      message: expect.stringContaining(`has ${SOCKET_PATH_BYTES_MAX + 1} bytes`) as string,
    });
    await mkdir(folder);
    await expect(new ControlClient(folder).list('/v1/hosts')).rejects.toMatchObject({ code: 'RELAY_NOT_RUNNING' });
  });

  // Nothing is closed to the superuser.
  test.skipIf(process.getuid?.() === 0)('is of another user when its socket may not be opened', async () => {
    const { folder } = await relayThatSays('');
    const locked = join(folder, 'locked');
    await mkdir(locked, { mode: 0o000 });
    onTestFinished(() => rm(locked, { recursive: true, force: true }));
    await expect(new ControlClient(locked).list('/v1/hosts')).rejects.toMatchObject({
      exit: 'refused',
      code: 'NOT_THE_OWNER',
    });
  });
});

describe('a relay that answers otherwise', () => {
  const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
  const LINE = '{"host":"a"}\n';

  test('a list comes whole, wherever its pieces are cut', async () => {
    const text = `${LINE}{"host":"ü"}\n`;
    const bytes = Buffer.from(text);
    for (let cut = 1; cut < bytes.length; cut++) {
      const [first, second] = [bytes.subarray(0, cut), bytes.subarray(cut)];
      const { client } = await relayThatSays(
        Buffer.concat([Buffer.from(CHUNKED), chunkOf(first), chunkOf(second), chunkOf(Buffer.alloc(0))]),
      );
      expect(await client.list('/v1/hosts')).toEqual([{ host: 'a' }, { host: 'ü' }]);
    }
  });

  test.each<[string, string | Buffer]>([
    ['before it answers', ''],
    ['in the head', 'HTTP/1.1 200 OK\r\ncontent-le'],
    ['in a document', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"host":'],
    ['in a list, between two lines', Buffer.concat([Buffer.from(CHUNKED), chunkOf(Buffer.from(LINE))])],
    ['in a list, inside a line', Buffer.concat([Buffer.from(CHUNKED), chunkOf(Buffer.from(`${LINE}{"ho`))])],
    [
      'inside the last line of a list that is whole',
      Buffer.concat([Buffer.from(CHUNKED), chunkOf(Buffer.from(`${LINE}{"ho`)), chunkOf(Buffer.alloc(0))]),
    ],
  ])('one that ends %s is gone, and half an answer is none', async (_where, bytes) => {
    for (const method of ['get', 'list'] as const) {
      if (method === 'get' && bytes.toString().includes('chunked')) continue;
      const { client } = await relayThatSays(bytes);
      await expect(client[method]('/v1/hosts')).rejects.toMatchObject({ exit: 'temporary', code: 'RELAY_GONE' });
    }
  });

  test.each<[string, string]>([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['no JSON', answerOf(200, '<html>')],
    ['no object', answerOf(200, '[1]')],
    ['a failure that is no problem', answerOf(500, 'oops')],
    ['a document without end', answerOf(200, `{"x":"${'x'.repeat(1 << 20)}"}`)],
  ])('one that says %s is not understood', async (_what, text) => {
    const { client } = await relayThatSays(text);
    await expect(client.get('/v1/hosts')).rejects.toMatchObject({ exit: 'failure', code: 'NOT_UNDERSTOOD' });
  });

  test('a line without end is not understood either', async () => {
    const { client } = await relayThatSays(answerOf(200, 'x'.repeat((1 << 20) + 1)));
    await expect(client.list('/v1/hosts')).rejects.toMatchObject({ code: 'NOT_UNDERSTOOD' });
  });

  test.each<[string, string]>([
    ['nothing', ''],
    ['half a document', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"host":'],
  ])('one that says %s and then no more is given up', async (_what, text) => {
    const { client } = await relayThatSays(text, { hangs: true, silenceMs: 20 });
    await expect(client.get('/v1/hosts')).rejects.toMatchObject({ exit: 'temporary', code: 'RELAY_SILENT' });
  });

  test.each([
    [400, 'BAD_REQUEST', 'usage'],
    [404, 'UNKNOWN_HOST', 'notFound'],
    [409, 'AMBIGUOUS_HOST', 'conflict'],
    [503, 'UNAVAILABLE', 'temporary'],
    [413, 'BODY_TOO_LARGE', 'failure'],
  ])('a problem %i %s ends the command as %s', async (status, code, exit) => {
    const problem = { type: 'about:blank', title: 'T', status, detail: 'what is wrong', code, more: ['a'] };
    const { client } = await relayThatSays(answerOf(status, JSON.stringify(problem)));
    await expect(client.get('/v1/hosts')).rejects.toMatchObject({
      exit,
      code,
      message: 'what is wrong',
      details: { more: ['a'] },
    });
  });

  test('a relay of another version, without the route, is no host that is unknown', async () => {
    const problem = { status: 404, code: 'NOT_FOUND', detail: 'no such route' };
    const { client } = await relayThatSays(answerOf(404, JSON.stringify(problem)));
    await expect(client.get('/v1/hosts')).rejects.toMatchObject({ exit: 'failure', code: 'UNKNOWN_TO_RELAY' });
  });
});

function answerOf(status: number, body: string): string {
  return `HTTP/1.1 ${status} X\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function chunkOf(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

/** A program at a control socket that answers every request with `bytes`, and then ends or hangs. */
async function relayThatSays(
  bytes: string | Buffer,
  { hangs = false, silenceMs = 10_000 } = {},
): Promise<{ folder: string; client: ControlClient }> {
  const folder = await temporaryFolder();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(bytes);
      if (!hangs) socket.end();
    });
  }).listen(controlSocketPath(folder));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  await once(server, 'listening');
  return { folder, client: new ControlClient(folder, silenceMs) };
}
