/** A graceful stop, an exclusive listen, and what a relay says whose store has failed. */
import { setImmediate as immediate } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { ListenFailed } from '../../src/http/listen-failed.ts';
import { STOP_WITHIN_MS } from '../../src/relay/relay.ts';
import { StoreRefused } from '../../src/relay/store/refused.ts';
import { deferred } from '../support/deferred.ts';
import { freePort } from '../support/free-port.ts';
import { ADAPTERS, enrolledRelay, HttpRelay, relayForTest } from '../support/http-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { alice, bob } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, rawRequest, requestBytes } from '../support/raw-http.ts';
import { settled } from '../support/settled.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const INFO = requestBytes('GET', '/v2/relay/info');
const BODY_DEADLINE_MS = 60_000;

describe.each(ADAPTERS)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => enrolledRelay(adapter, [alice, bob]);

  test('a push that is being committed is answered, and only then the stop ends', async () => {
    const relay = await started();
    const { pushes } = relay.relay.engine;
    const gate = deferred();
    const arrived = deferred();
    const push = pushes.push.bind(pushes);
    pushes.push = async (commands, prepare) => {
      arrived.resolve();
      await gate.promise;
      return push(commands, prepare);
    };
    const pushed = relay.client(alice).push([itemTo([bob], 'm1')]);
    await arrived.promise;
    const stopped = relay.stop();
    expect(await settled({ stopped, pushed })).toEqual([]);
    gate.resolve();
    expect((await pushed).results[0]?.status).toBe('accepted');
    await stopped;
    const { events } = await relay.stored();
    expect(events.filter(({ type }) => type === 'ItemAccepted')).toHaveLength(1);
  });

  test('an upload that has begun may end, and is answered and closed', async () => {
    const relay = await started();
    const bytes = hopBytes(
      relay.hop(alice, 'POST', '/v2/relay/items', JSON.stringify({ items: [itemTo([bob], 'm1')] })),
    );
    const connection = await RawConnection.open(relay.port);
    connection.send(bytes.subarray(0, bytes.length - 10));
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
    const stopped = relay.stop();
    expect(await settled({ stopped })).toEqual([]);
    const [response, ...more] = await connection.send(bytes.subarray(bytes.length - 10)).untilClosed();
    expect(jsonOf(response)).toMatchObject({ results: [{ status: 'accepted' }] });
    expect(response?.headers.get('connection')).toBe('close');
    expect(more).toEqual([]);
    await stopped;
  });

  test('a page under way reaches a slow reader whole', async () => {
    const relay = await started();
    const ids = Array.from({ length: 16 }, (_, at) => `m${at + 1}`);
    for (const half of [ids.slice(0, 8), ids.slice(8)]) {
      await relay.client(alice).push(half.map((id) => itemTo([bob], id, envelopeWire(id, 512 << 10))));
    }
    const connection = await RawConnection.open(relay.port);
    connection.pause().send(hopBytes(relay.hop(bob, 'GET', '/v2/relay/items')));
    await expect.poll(() => relay.timers.underWay(60_000), { interval: 2 }).toBe(1);
    const stopped = relay.stop();
    expect(await settled({ stopped })).toEqual([]);
    const response = await connection.resume().response();
    const { items } = jsonOf(response) as { items: { item_id: string }[] };
    expect(items.map(({ item_id }) => item_id)).toEqual(ids);
    await stopped;
  });

  test('new requests on an open connection get 503 and the connection ends; new connections are refused', async () => {
    const relay = await started();
    const { port } = relay;
    const open = await RawConnection.open(port);
    expect((await open.send(INFO).response())?.status).toBe(200);
    const uploading = await RawConnection.open(port);
    uploading.send(hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', '{"items":[]}')).subarray(0, -5));
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);

    const stopped = relay.stop();
    // node:http ends connections that wait for a request; uWebSockets.js answers one more.
    const responses = await open.send(INFO).untilClosed();
    expect(responses.map((response) => [response.status, response.headers.get('connection')])).toEqual(
      adapter === 'node' ? [] : [[503, 'close']],
    );
    for (const response of responses) expect(response).toBeProblem('UNAVAILABLE');
    await expect(RawConnection.open(port)).rejects.toThrow('ECONNREFUSED');
    expect(await settled({ stopped })).toEqual([]);
    uploading.close();
    await stopped;
    await expect(RawConnection.open(port)).rejects.toThrow('ECONNREFUSED');
  });

  test('then the port is free, also while old connections fade, and the store can be opened again', async () => {
    const listen = { host: '127.0.0.1', port: await freePort() };
    const relay = await enrolledRelay(adapter, [alice, bob], { listen });
    for (let round = 1; round <= 3; round++) {
      const idle = await RawConnection.open(listen.port);
      await relay.client(alice).push([itemTo([bob], `m${round}`)]);
      await relay.restart();
      expect(await idle.untilClosed()).toEqual([]);
      expect((await relay.client(bob).pull()).items).toHaveLength(round);
    }
  });

  test('stopping twice is stopping once', async () => {
    const relay = await started();
    await Promise.all([relay.stop(), relay.stop()]);
    await relay.stop();
    expect((await relay.stored()).events.length).toBeGreaterThan(0);
  });

  test('a stop does not wait for ever: what is under way is cut when its time is up', async () => {
    const relay = await started();
    const connection = await RawConnection.open(relay.port);
    connection.send(hopBytes(relay.hop(alice, 'POST', '/v2/relay/items', '{"items":[]}')).subarray(0, -5));
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
    const stopped = relay.stop();
    relay.timers.pass(STOP_WITHIN_MS - 1);
    expect(await settled({ stopped })).toEqual([]);
    relay.timers.pass(1);
    await stopped;
    expect(await connection.untilClosed()).toEqual([]);
    await relay.start();
    expect((await relay.client(alice).ownInfo()).you).toMatchObject({ host: 'alice' });
  });

  test('a heartbeat is written while the relay runs, and none after a stop', async () => {
    const relay = await started();
    const { epoch } = relay;
    // Without heartbeats, 11 minutes would begin a new epoch at the next start.
    for (let passedMs = 0; passedMs < 660_000; passedMs += 30_000) {
      relay.clock.move(30_000);
      relay.timers.pass(30_000);
      await relay.client(alice).ownInfo();
    }
    await relay.restart();
    expect(relay.epoch).toBe(epoch);
    await relay.stop();
    relay.timers.pass(120_000);
    relay.clock.move(660_000);
    await relay.start();
    expect(relay.epoch).not.toBe(epoch);
    expect(relay.relay.notices.join(' ')).toContain('heartbeat');
  });

  test('a second relay on the same port is refused, whichever server it has, and leaves nothing open', async () => {
    const relay = await enrolledRelay(adapter, [alice], { listen: { host: '127.0.0.1', port: await freePort() } });
    for (const other of ADAPTERS) {
      const second = new HttpRelay(await temporaryFolder(), other, { listen: { host: '127.0.0.1', port: relay.port } });
      await expect(second.start()).rejects.toThrow(ListenFailed);
      // Its store is closed again.
      expect((await second.stored()).events).toHaveLength(1);
    }
    expect((await relay.client(alice).ownInfo()).you).toMatchObject({ host: 'alice' });
  });

  test('a second relay on the same store is refused, and the first serves on', async () => {
    const relay = await started();
    const second = new HttpRelay(relay.folder, adapter, {});
    await expect(second.start()).rejects.toThrow(StoreRefused);
    await expect(second.start()).rejects.toMatchObject({ reason: 'locked' });
    await relay.client(alice).push([itemTo([bob], 'm1')]);
    expect((await relay.client(bob).pull()).items).toHaveLength(1);
  });

  test('an operator listener that cannot be had frees the port and the store', async () => {
    const taken = await started();
    const relay = new HttpRelay(await temporaryFolder(), adapter, {});
    onTestFinished(() => relay.stopAtOnce());
    const adminListen = { host: '127.0.0.1', port: taken.port };
    await expect(relay.start({ adminListen })).rejects.toThrow(ListenFailed);
    await relay.start();
    expect((await rawRequest(relay.port, INFO)).status).toBe(200);
  });

  test('a relay listens on ::1 as well', async () => {
    const relay = await relayForTest(adapter, { listen: { host: '::1', port: 0 }, enrolRate: 1 });
    const connection = await RawConnection.open(relay.port, '::1');
    const bytes = requestBytes('POST', '/v1/relay/challenge', {}, JSON.stringify({ pubkey: bob.key }));
    expect((await connection.send(bytes).response())?.status).toBe(200);
    expect((await connection.send(bytes).response())?.status).toBe(429);
    connection.close();
  });

  test('a store that failed is 503 for everybody who waits, with retry-after', async () => {
    const relay = await started();
    const { engine } = relay.relay;
    const failure = new StoreFailed(new Error('no space'));
    engine.pushes.push = () => Promise.reject(failure);
    engine.acks.ack = () => Promise.reject(failure);
    engine.admissions.enrol = () => Promise.reject(failure);
    const push = relay.hop(alice, 'POST', '/v2/relay/items', '{"items":[]}');
    expect(await relay.send(push)).toBeProblem('UNAVAILABLE');
    const ack = relay.hop(alice, 'POST', '/v2/relay/ack', JSON.stringify({ epoch: relay.epoch, through: 0 }));
    expect(await relay.send(ack)).toBeProblem('UNAVAILABLE');
    await expect(relay.client(bob).enrol()).rejects.toMatchObject({ status: 503, code: 'UNAVAILABLE' });
    await immediate();
    expect(relay.errors).toEqual([]);
  });

  test('an error that nobody expected is 503, is logged with the id of its request, and ends nothing', async () => {
    const relay = await started();
    const { engine } = relay.relay;
    engine.acks.ack = () => Promise.reject(new Error('a broken invariant, with a secret'));
    const ack = relay.hop(alice, 'POST', '/v2/relay/ack', JSON.stringify({ epoch: relay.epoch, through: 0 }));
    const response = await relay.send(ack);
    expect(response).toBeProblem('UNAVAILABLE');
    expect(response.body.toString()).not.toContain('secret');
    expect(relay.errors).toHaveLength(1);
    expect(relay.errors[0]?.fields).toMatchObject({ requestId: response.headers.get('x-request-id') });
    expect((await relay.client(alice).pull()).items).toEqual([]);
  });
});
