/** Tests what the uWebSockets.js adapter writes to a peer that takes it slowly. */
import { expect, test } from 'vitest';
import { type ExchangeConnection, UwsExchange } from '../../../../src/relay/http/uws-exchange.ts';
import type { HttpResponse } from '../../../../src/relay/http/uws-binding.ts';
import { settled } from '../../../support/settled.ts';

/** A `res` whose socket takes so many bytes each time, and buffers the rest. */
class SlowSocket {
  buffered = 0;
  mostBuffered = 0;
  written = Buffer.alloc(0);
  #room = 0;
  #writable: () => void = () => undefined;

  readonly res = {
    cork: (run: () => void) => {
      run();
      return this.res;
    },
    writeStatus: () => this.res,
    writeHeader: () => this.res,
    onWritable: (run: (offset: number) => boolean) => {
      this.#writable = () => void run(0);
      return this.res;
    },
    write: (chunk: Buffer) => this.#write(chunk),
  } as unknown as HttpResponse;

  /** The peer takes so many bytes. */
  take(bytes: number): void {
    this.#room += bytes;
    this.#writable();
  }

  /** As uWebSockets.js: a write first sends what is buffered, and buffers what does not go out, however much it is. */
  #write(chunk: Buffer): boolean {
    this.written = Buffer.concat([this.written, chunk]);
    this.buffered += chunk.length;
    const sent = Math.min(this.#room, this.buffered);
    this.#room -= sent;
    this.buffered -= sent;
    this.mostBuffered = Math.max(this.mostBuffered, this.buffered);
    return this.buffered === 0;
  }
}

const CONNECTION: ExchangeConnection = { counted: undefined, endReply: (end) => end(), close: () => undefined };
const HEAD = { method: 'GET', target: '/', headers: [], peerAddress: '10.0.0.1' };

function begun(socket: SlowSocket): { exchange: UwsExchange; taken: number[] } {
  const taken: number[] = [];
  const exchange = new UwsExchange(socket.res, HEAD, CONNECTION);
  exchange.startReply(200, {}, (bytes) => void taken.push(bytes));
  return { exchange, taken };
}

test('a piece is taken when nothing of it is buffered any more, not when the socket takes a little', async () => {
  const socket = new SlowSocket();
  const { exchange, taken } = begun(socket);
  const piece = Buffer.from(Array.from({ length: 500_000 }, (_, at) => at % 251));
  const written = exchange.write(piece);
  for (let step = 0; step < 11; step++) {
    expect(await settled({ written })).toEqual([]);
    socket.take(45_000);
  }
  expect(socket.buffered).toBeGreaterThan(0);
  expect(taken.length).toBeGreaterThan(9);
  socket.take(100_000);
  await written;
  expect(socket.buffered).toBe(0);
  expect(socket.written.equals(piece)).toBe(true);
});

test('pieces do not pile up behind a peer that takes a little at a time', async () => {
  const socket = new SlowSocket();
  const { exchange } = begun(socket);
  const piece = Buffer.alloc(100_000, 'x');
  const all = (async () => {
    for (let n = 0; n < 20; n++) await exchange.write(piece);
  })();
  while ((await settled({ all })).length === 0) socket.take(20_000);
  expect(socket.written.length).toBe(2_000_000);
  expect(socket.mostBuffered).toBeLessThanOrEqual(piece.length);
});

test('what goes out at once waits for nothing, and a peer that is gone holds nothing up', async () => {
  const socket = new SlowSocket();
  const { exchange, taken } = begun(socket);
  socket.take(1_000_000);
  await exchange.write(Buffer.alloc(300_000));
  expect(taken).toEqual([300_000]);
  socket.take(0);
  const stuck = exchange.write(Buffer.alloc(900_000));
  expect(await settled({ stuck })).toEqual([]);
  exchange.peerGone();
  await stuck;
  await exchange.write(Buffer.alloc(10));
  expect(exchange.isAborted).toBe(true);
});
