/** Tests what a call with mail does when a paired host is gone without a word: real sockets, the timers of the test. */
import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { ItemId } from '../../../../src/protocol/names.ts';
import { type CalledHost, LanClient } from '../../../../src/host/lan/lan-client.ts';
import { testContext } from '../../../support/test-context.ts';

const ITEM = { kind: 'envelope', item_id: 'item-1' as ItemId, wire_b64: 'eHg=' } as const;
/** With the time that the bytes of a short message may need. */
const SILENT_MS = 750;
const STILL_THERE_WITHIN_MS = 1_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

/** A listener that answers nothing by itself, and the requests that come, each with its socket. */
async function listening(): Promise<{ host: CalledHost; next: () => Promise<{ line: string; socket: Socket }> }> {
  const server: Server = createServer();
  const sockets = new Set<Socket>();
  const came: { line: string; socket: Socket }[] = [];
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', (bytes: Buffer) => {
      came.push({ line: bytes.toString('latin1').split('\r\n')[0] ?? '', socket });
      server.emit('asked');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const { publicKey } = (await testContext({ hostName: 'there', seed: 2 })).identity().signer;
  const next = async (): Promise<{ line: string; socket: Socket }> => {
    while (came.length === 0) await once(server, 'asked');
    return came.shift() as { line: string; socket: Socket };
  };
  return { host: { address: `127.0.0.1:${port}`, publicKey }, next };
}

function answer(socket: Socket, body: object): void {
  const text = JSON.stringify(body);
  const head = [
    'HTTP/1.1 200 OK',
    'content-type: application/json',
    `content-length: ${text.length}`,
    'connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
}

test('mail to a host that connects and says nothing: it is asked on another connection, then given up', async () => {
  const { host, next } = await listening();
  const client = new LanClient(await testContext(), new AbortController().signal);
  const failed = client.items(host, [ITEM]).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect((await next()).line).toMatch(/^POST /);
  vi.advanceTimersByTime(SILENT_MS);
  expect((await next()).line).toMatch(/^GET .*hello/);
  vi.advanceTimersByTime(STILL_THERE_WITHIN_MS);
  expect(await failed).toMatchObject({ isAnswered: false, message: expect.stringContaining('it is gone') as string });
});

test('mail to a host that is slow, and there, is waited for', async () => {
  const { host, next } = await listening();
  const client = new LanClient(await testContext(), new AbortController().signal);
  const answered = client.items(host, [ITEM]);
  const mail = await next();
  vi.advanceTimersByTime(SILENT_MS);
  const asked = await next();
  // Any answer shows that something is there.
  answer(asked.socket, {});
  await once(asked.socket, 'close');
  vi.advanceTimersByTime(STILL_THERE_WITHIN_MS);
  answer(mail.socket, { results: [{ item_id: ITEM.item_id, status: 'accepted' }] });
  expect(await answered).toEqual([{ item_id: ITEM.item_id, status: 'accepted' }]);
});
