/** The limits of time that the adapter of node:http sets; test/http tries what it does with requests. */
import { expect, test } from 'vitest';
import { IDLE_TIMEOUT_MS, type RequestHead } from '../../../src/http/exchange.ts';
import { type ServerLimits, exchangeServer } from '../../../src/http/server-node.ts';
import { RawConnection } from '../../support/raw-http.ts';
import { listeningPort } from '../../support/listening-port.ts';

/** A server that answers every request, and tells their heads. */
async function serving(limits: ServerLimits): Promise<{ heads: RequestHead[]; open: () => Promise<RawConnection> }> {
  const heads: RequestHead[] = [];
  const server = exchangeServer((exchange) => {
    heads.push(exchange.head);
    exchange.reply({ status: 200, headers: {}, body: 'served' });
  }, limits);
  const port = await listeningPort(server);
  return { heads, open: () => RawConnection.openUndocumented({ host: '127.0.0.1', port }) };
}

test('a head that does not come to its end in time ends the connection, however often a byte of it comes', async () => {
  const { heads, open } = await serving({ headTimeoutMs: 20 });
  const connection = await open();
  connection.send('GET / HTTP/1.1\r\nhost: x\r\na: ');
  const dripping = setInterval(() => connection.send('b'), 1);
  const answers = await connection.untilClosed();
  clearInterval(dripping);
  expect(answers.map(({ status }) => status)).toEqual([408]);
  expect(heads).toEqual([]);
});

test('no header is left out, however many there are: framing.ts has to see them all', async () => {
  const { heads, open } = await serving({});
  const connection = await open();
  connection.send(`GET / HTTP/1.1\r\nhost: x\r\n${'a:\r\n'.repeat(1_100)}host: y\r\n\r\n`);
  expect((await connection.response())?.status).toBe(200);
  expect(heads[0]?.headers.filter(([name]) => name === 'host')).toEqual([
    ['host', 'x'],
    ['host', 'y'],
  ]);
  connection.close();
});

test('an idle connection is kept as long as every server keeps one', () => {
  expect(exchangeServer(() => undefined).keepAliveTimeout).toBe(IDLE_TIMEOUT_MS);
});
