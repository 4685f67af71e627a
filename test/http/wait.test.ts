/** `wait`: an empty pull is held until an item arrives, the time is up, the relay drains, or the caller is gone. */
import { describe, expect, test } from 'vitest';
import { deferred } from '../support/deferred.ts';
import { type HttpRelay, ADAPTERS, enrolledRelay } from '../support/http-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { type TestHost, alice, bob, carol } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection } from '../support/raw-http.ts';

const WAIT_S = 25;
const WAIT_MS = WAIT_S * 1000;

describe.each(ADAPTERS)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => enrolledRelay(adapter, [alice, bob, carol]);

  test('a held pull is answered when an item arrives, and with it', async () => {
    const relay = await started();
    const connection = await heldPull(relay, bob);
    expect(connection.receivedBytes).toBe(0);
    await push(relay, 'm1');
    const response = await connection.response();
    expect(response?.status).toBe(200);
    expect(jsonOf(response)).toMatchObject({ items: [{ item_id: 'm1' }], more: false });
    expect(relay.timers.underWay(WAIT_MS)).toBe(0);
    connection.close();
  });

  test('an item for somebody else leaves it held', async () => {
    const relay = await started();
    const connection = await heldPull(relay, bob);
    await push(relay, 'c1', carol);
    expect((await relay.client(carol).pull()).items).toHaveLength(1);
    expect(connection.receivedBytes).toBe(0);
    expect(relay.timers.underWay(WAIT_MS)).toBe(1);
    connection.close();
  });

  test('a queue that is empty because all of it is acked is waited for like one that never had anything', async () => {
    const relay = await started();
    await push(relay, 'm1');
    const head = (await relay.client(bob).ownInfo()).you?.head_seq ?? 0;
    await relay.client(bob).ack(relay.epoch, head);
    // From the beginning, and from the head.
    const fromZero = await heldPull(relay, bob);
    const fromHead = await heldPull(relay, bob, `&after=${head}`);
    await push(relay, 'm2');
    for (const connection of [fromZero, fromHead]) {
      expect(jsonOf(await connection.response())).toMatchObject({ items: [{ item_id: 'm2' }] });
      connection.close();
    }
  });

  test('a pull that finds something is not held', async () => {
    const relay = await started();
    await push(relay, 'm1');
    expect((await relay.client(bob).pull({ wait: WAIT_S })).items).toHaveLength(1);
    expect(relay.timers.underWay(WAIT_MS)).toBe(0);
  });

  test('the wait ends with an empty page when the time is up, and not before', async () => {
    const relay = await started();
    const connection = await heldPull(relay, bob, '&after=5');
    relay.timers.pass(WAIT_MS - 1);
    await relay.client(bob).ownInfo();
    expect(connection.receivedBytes).toBe(0);
    relay.timers.pass(1);
    const response = await connection.response();
    expect(jsonOf(response)).toEqual({ epoch: relay.epoch, head_seq: 0, items: [], last_seq: 5, more: false });
    connection.close();
  });

  test('wait=0 and no wait answer at once', async () => {
    const relay = await started();
    expect((await relay.client(bob).pull({ wait: 0 })).items).toEqual([]);
    expect((await relay.client(bob).pull()).items).toEqual([]);
  });

  test('many pulls of one host are all answered by one item', async () => {
    const relay = await started();
    const connections: RawConnection[] = [];
    for (let count = 0; count < 5; count++) connections.push(await heldPull(relay, bob));
    await push(relay, 'm1');
    for (const connection of connections) {
      expect(jsonOf(await connection.response())).toMatchObject({ items: [{ item_id: 'm1' }] });
      connection.close();
    }
  });

  test('an epoch that ends while a pull is held is told at its end', async () => {
    const relay = await started();
    const connection = await heldPull(relay, bob, `&epoch=${relay.epoch}`);
    const { engine } = relay.relay;
    await engine.rotateEpoch({ type: 'RotateEpoch', epoch: 'NEXT' as never, reason: 'reset', nowMs: 0 });
    await push(relay, 'm1');
    expect(await connection.response()).toBeProblem('EPOCH_CHANGED', { epoch: 'NEXT' });
    connection.close();
  });

  test('a relay that drains answers held pulls with an empty page', async () => {
    const relay = await started();
    const connections = [await heldPull(relay, bob), await heldPull(relay, carol)];
    const stopped = relay.stop();
    for (const connection of connections) {
      const response = await connection.response();
      expect(response?.status).toBe(200);
      expect(response?.headers.get('connection')).toBe('close');
      expect(jsonOf(response)).toMatchObject({ items: [], more: false });
    }
    await stopped;
    expect(relay.timers.underWay(WAIT_MS)).toBe(0);
  });

  test('a client that goes away leaves nothing behind', async () => {
    const relay = await started();
    const connections: RawConnection[] = [];
    for (let count = 0; count < 5; count++) connections.push(await heldPull(relay, bob));
    for (const connection of connections) connection.cut();
    await expect.poll(() => relay.timers.underWay(WAIT_MS), { interval: 2 }).toBe(0);
    await push(relay, 'm1');
    expect((await relay.client(bob).pull()).items).toHaveLength(1);
    expect(relay.errors).toEqual([]);
  });

  test('a client that goes away before its pull is held leaves nothing behind either', async () => {
    const relay = await started();
    const { engine } = relay.relay;
    const [asked, gate] = [deferred(), deferred()];
    const page = engine.page.bind(engine);
    engine.page = async (...query) => {
      asked.resolve();
      await gate.promise;
      return page(...query);
    };
    const connection = await RawConnection.open(relay.port);
    connection.send(hopBytes(relay.hop(bob, 'GET', `/v2/relay/items?wait=${WAIT_S}`)));
    await asked.promise;
    connection.cut();
    // What happened on an earlier connection is known before later ones are answered.
    for (let count = 0; count < 2; count++) await relay.client(bob).ownInfo();
    gate.resolve();
    // Answered after the page that nobody waits for any more.
    await relay.client(bob).pull();
    expect(relay.timers.underWay(WAIT_MS)).toBe(0);
    expect(relay.errors).toEqual([]);
  });
});

/** A pull of `host` that is now held. */
async function heldPull(relay: HttpRelay, host: TestHost, query = ''): Promise<RawConnection> {
  const held = relay.timers.underWay(WAIT_MS);
  const connection = await RawConnection.open(relay.port);
  connection.send(hopBytes(relay.hop(host, 'GET', `/v2/relay/items?wait=${WAIT_S}${query}`)));
  await expect.poll(() => relay.timers.underWay(WAIT_MS), { interval: 2 }).toBe(held + 1);
  return connection;
}

function push(relay: HttpRelay, id: string, to: TestHost = bob): Promise<unknown> {
  return relay.client(alice).push([itemTo([to], id)]);
}
