/** What is open for a host closes when its enrolment ends: "Enrolment record", rule 8. */
import { describe, expect, test } from 'vitest';
import { type HttpRelay, ADAPTERS, enrolledRelay } from '../support/http-relay.ts';
import { revokeOf, rotateOf } from '../support/commands.ts';
import { deferred } from '../support/deferred.ts';
import { hopBytes } from '../support/hops.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection } from '../support/raw-http.ts';

const ITEMS = '/v2/relay/items';
const PAGE_DEADLINE_MS = 60_000;
const BODY_DEADLINE_MS = 60_000;
const WAIT_S = 25;
/** Each is a slice of its own. */
const ITEM_BYTES = 512 << 10;

describe.each(ADAPTERS)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => enrolledRelay(adapter, [alice, bob]);

  describe.each<[string, (relay: HttpRelay) => Promise<unknown>]>([
    ['revoked', (relay) => relay.relay.engine.admissions.revokeHost(revokeOf(bob))],
    ['rotated', (relay) => relay.relay.engine.admissions.rotateKey(rotateOf(bob, carol))],
  ])('a host that is %s while', (_, ends) => {
    test('a page is under way gets no more of it', async () => {
      const relay = await started();
      const ids = ['m1', 'm2', 'm3'];
      await relay.client(alice).push(ids.map((id) => itemTo([bob], id, envelopeWire(id, ITEM_BYTES))));
      const { engine } = relay.relay;
      const encodedPayloads = engine.encodedPayloads.bind(engine);
      const [begun, gate] = [deferred(), deferred()];
      let reads = 0;
      engine.encodedPayloads = async (...asked) => {
        if (++reads === 2) {
          begun.resolve();
          await gate.promise;
        }
        return encodedPayloads(...asked);
      };
      const connection = await RawConnection.open(relay.port);
      connection.send(hopBytes(relay.hop(bob, 'GET', ITEMS)));
      await begun.promise;
      await ends(relay);
      expect(await connection.response()).toBeUndefined();
      expect(connection.receivedBytes).toBeLessThan(ITEM_BYTES * 1.5);
      gate.resolve();
      await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 2 }).toBe(0);
      expect(relay.errors).toEqual([]);
    });

    test('a page is read is told so', async () => {
      const relay = await started();
      // So large that it is not kept in memory: a page that is made there waits for nothing.
      await relay.client(alice).push([itemTo([bob], 'm1', envelopeWire('m1', ITEM_BYTES))]);
      const { engine } = relay.relay;
      const encodedPayloads = engine.encodedPayloads.bind(engine);
      engine.encodedPayloads = async (...asked) => {
        await ends(relay);
        return encodedPayloads(...asked);
      };
      expect(await relay.send(relay.hop(bob, 'GET', ITEMS))).toBeProblem('NOT_ENROLLED');
    });

    test('a body is under way is told so at once, and the connection ends', async () => {
      const relay = await started();
      const connection = await RawConnection.open(relay.port);
      const bytes = hopBytes(relay.hop(bob, 'POST', ITEMS, JSON.stringify({ items: [itemTo([alice], 'm1')] })));
      connection.send(bytes.subarray(0, bytes.length - 10));
      await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
      await ends(relay);
      const [response, ...more] = await connection.untilClosed();
      expect(response).toBeProblem('NOT_ENROLLED');
      expect(more).toEqual([]);
      expect(relay.timers.underWay(BODY_DEADLINE_MS)).toBe(0);
    });

    test('a pull is held is told so at once', async () => {
      const relay = await started();
      const connection = await RawConnection.open(relay.port);
      connection.send(hopBytes(relay.hop(bob, 'GET', `${ITEMS}?wait=${WAIT_S}`)));
      await expect.poll(() => relay.timers.underWay(WAIT_S * 1000), { interval: 2 }).toBe(1);
      await ends(relay);
      expect(await connection.response()).toBeProblem('NOT_ENROLLED');
      expect(relay.timers.underWay(WAIT_S * 1000)).toBe(0);
      connection.close();
    });
  });

  test('what is open for others goes on', async () => {
    const relay = await started();
    await relay.enrol(carol);
    const held = await RawConnection.open(relay.port);
    held.send(hopBytes(relay.hop(carol, 'GET', `${ITEMS}?wait=${WAIT_S}`)));
    const uploading = await RawConnection.open(relay.port);
    const bytes = hopBytes(relay.hop(alice, 'POST', ITEMS, JSON.stringify({ items: [itemTo([carol], 'm1')] })));
    uploading.send(bytes.subarray(0, bytes.length - 10));
    await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
    await expect.poll(() => relay.timers.underWay(WAIT_S * 1000), { interval: 2 }).toBe(1);
    await relay.relay.engine.admissions.revokeHost(revokeOf(bob));
    expect(relay.timers.underWay(BODY_DEADLINE_MS)).toBe(1);
    uploading.send(bytes.subarray(bytes.length - 10));
    expect((await uploading.response())?.status).toBe(200);
    expect((await held.response())?.status).toBe(200);
    uploading.close();
    held.close();
  });
});
