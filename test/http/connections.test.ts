/** Connections have a limit, in all and for each address, and those that do nothing give way. */
import { describe, expect, test } from 'vitest';
import { type HttpRelay, ADAPTERS, enrolledRelay, relayForTest } from '../support/http-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { type TestHost, alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection, rawRequest, requestBytes } from '../support/raw-http.ts';

const INFO = requestBytes('GET', '/v2/relay/info');
const WAIT_S = 25;
const toOperator = (path: string): Buffer => requestBytes('GET', path, { host: '127.0.0.1' });

describe.each(ADAPTERS)('%s', (adapter) => {
  test.each([
    ['in all', { max: 4, perAddressMax: 4 }],
    ['of one address', { max: 100, perAddressMax: 4 }],
  ])('one more than there may be %s closes the idlest', async (_, limits) => {
    const relay = await relayForTest(adapter, { connections: limits });
    const connections = await openMany(relay, 4);
    const [first, second] = connections;
    expect(await answered(first)).toBe(200);
    const fifth = await RawConnection.open(relay.port);
    expect(await second?.untilClosed()).toEqual([]);
    for (const one of [first, ...connections.slice(2), fifth]) expect(await answered(one)).toBe(200);
    expect(relay.logged.filter(({ message }) => message.includes('idle connections'))).toHaveLength(1);
    closeAll([...connections, fifth]);
  });

  test('a flood of connections closes no held pull of a host, and the relay answers every caller', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob], { connections: { max: 8, perAddressMax: 8 } });
    const pull = await held(relay, bob);
    const flood = await openMany(relay, 40);
    expect((await rawRequest(relay.port, INFO)).status).toBe(200);
    await relay.client(alice).push([itemTo([bob], 'm1')]);
    expect((await pull.response())?.status).toBe(200);
    closeAll([pull, ...flood]);
  });

  test('requests one after another on a connection, and many connections, are counted right', async () => {
    const adminListen = { host: '127.0.0.1', port: 0 };
    const relay = await relayForTest(adapter, { connections: { max: 4, perAddressMax: 4 }, adminListen });
    const shown = async (name: string): Promise<string | undefined> => {
      const { body } = await rawRequest(relay.relay.adminPort ?? 0, toOperator('/metrics'));
      return new RegExp(`^poste_relay_${name} (.*)$`, 'm').exec(body.toString())?.[1];
    };
    for (let round = 0; round < 3; round++) {
      const connections = await openMany(relay, 6);
      for (const connection of connections.slice(2)) {
        expect(await answered(connection)).toBe(200);
        // Two in one piece: the second one comes before anything is known of the first.
        await connection.send(Buffer.concat([INFO, INFO])).response();
        connection.close();
      }
      const open = await openMany(relay, 2);
      await expect.poll(() => shown('open_connections'), { interval: 2 }).toBe('2');
      // A refusal that closes, one of doubtful framing, and one that the server itself refuses.
      await rawRequest(relay.port, requestBytes('POST', '/v2/relay/items', { 'transfer-encoding': 'chunked' }));
      await rawRequest(relay.port, Buffer.from('GET / HTTP/1.1\r\n\r\n'));
      closeAll([...connections, ...open]);
      await expect.poll(() => shown('open_connections'), { interval: 2 }).toBe('0');
    }
    expect(Number(await shown('connections_displaced_total{full="all"}'))).toBeGreaterThanOrEqual(6);
    expect(relay.errors).toEqual([]);
  });

  describe('behind a proxy', () => {
    test('the proxy may have as many as it likes, and each client of it only so many at a time', async () => {
      const connections = { max: 100, perAddressMax: 2 };
      const relay = await enrolledRelay(adapter, [alice, bob], { connections, trustProxy: 'xff' });
      const idle = await openMany(relay, 6);
      for (const connection of idle) expect(await answered(connection)).toBe(200);
      const client = { 'x-forwarded-for': '203.0.113.1' };
      const first = await held(relay, bob, client);
      const others = [
        await held(relay, bob, client),
        await held(relay, alice, { 'x-forwarded-for': '203.0.113.2' }),
        await RawConnection.open(relay.port),
      ];
      const bytes = hopBytes(relay.hop(bob, 'GET', '/v2/relay/info'), {}, client);
      expect((await others.at(-1)?.send(bytes).response())?.status).toBe(200);
      expect(await first.untilClosed()).toEqual([]);
      expect(relay.timers.underWay(WAIT_S * 1000)).toBe(2);
      for (const connection of idle) expect(await answered(connection)).toBe(200);
      closeAll([...idle, ...others]);
    });
  });

  test("the operator's listener has a limit of its own", async () => {
    const relay = await relayForTest(adapter, { adminListen: { host: '127.0.0.1', port: 0 } });
    const port = relay.relay.adminPort ?? 0;
    const first = await RawConnection.open(port);
    const more: RawConnection[] = [];
    for (let n = 0; n < 64; n++) more.push(await RawConnection.open(port));
    expect(await first.untilClosed()).toEqual([]);
    expect((await rawRequest(port, toOperator('/livez'))).status).toBe(200);
    closeAll(more);
  });

  test('too few files, or more connections than files, are refused before the store is touched', async () => {
    const relay = await relayForTest(adapter);
    await relay.stop();
    await expect(relay.start({ openFilesMax: 300 })).rejects.toThrow('may open 300 files');
    await expect(relay.start({ openFilesMax: 1_000, connections: { max: 900 } })).rejects.toThrow('--max-connections');
    await relay.start({ openFilesMax: 1_000 });
    expect(relay.relay.notices.join()).toContain('At most 408 connections');
  });
});

async function openMany(relay: HttpRelay, count: number): Promise<RawConnection[]> {
  const connections: RawConnection[] = [];
  for (let n = 0; n < count; n++) connections.push(await RawConnection.open(relay.port));
  return connections;
}

async function answered(connection: RawConnection | undefined): Promise<number | undefined> {
  return (await connection?.send(INFO).response())?.status;
}

/** A pull of `host` that waits. */
async function held(relay: HttpRelay, host: TestHost, headers: Record<string, string> = {}): Promise<RawConnection> {
  const connection = await RawConnection.open(relay.port);
  const before = relay.timers.underWay(WAIT_S * 1000);
  connection.send(hopBytes(relay.hop(host, 'GET', `/v2/relay/items?wait=${WAIT_S}`), {}, headers));
  await expect.poll(() => relay.timers.underWay(WAIT_S * 1000), { interval: 2 }).toBe(before + 1);
  return connection;
}

function closeAll(connections: RawConnection[]): void {
  for (const connection of connections) connection.close();
}
