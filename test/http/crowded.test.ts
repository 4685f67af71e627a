/**
 * Peers that send or take nothing while there is no room left: they give way, and small requests never wait for them.
 */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Claim, SLOW_AFTER_MS } from '../../src/http/budget.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type Adapter, type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { enrolAll, hostedRelayForTest } from '../support/hosted-relay.ts';
import { hopBytes } from '../support/hops.ts';
import { type TestHost, alice, bob, carol, dave } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { RawConnection, type RawResponse } from '../support/raw-http.ts';
import { HELD_BYTES } from '../../src/relay/http/page-writer.ts';

const ITEMS = '/v2/relay/items';
const MIB = 1 << 20;
const DEADLINE_MS = 60_000;
const HOSTS = [alice, bob, carol, dave];
/** Room for two large pages. */
const PAGES_CROWDED = { trustProxy: 'xff', heldBytes: { ...HELD_BYTES, pages: 4 * MIB } } as const;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  describe('pages', () => {
    test('of readers that take nothing give way after some seconds, one for each that needs the room', async () => {
      const relay = await crowdedByReaders(adapter, bob, carol);
      const readers = [await stalledReader(relay, bob), await stalledReader(relay, carol)];
      await underWay(relay).toBe(2);
      expect(await pull(relay, dave)).toBeProblem('UNAVAILABLE');
      expect(relay.timers.underWay(DEADLINE_MS)).toBe(2);
      // Until the sockets are full, the readers do take something.
      const later = async (): Promise<number> => {
        relay.clock.move(SLOW_AFTER_MS);
        return (await pull(relay, dave)).status;
      };
      await expect.poll(later, { interval: 10 }).toBe(200);
      await underWay(relay).toBe(1);
      const answers = await Promise.all(readers.map((reader) => reader.resume().response()));
      expect(answers.filter((answer) => answer?.status === 200)).toHaveLength(1);
      for (const reader of readers) reader.close();
    });

    test('of one host with many readers give way at once', async () => {
      const relay = await crowdedByReaders(adapter, bob);
      const readers = [await stalledReader(relay, bob), await stalledReader(relay, bob)];
      await underWay(relay).toBe(2);
      expect((await pull(relay, dave)).status).toBe(200);
      await underWay(relay).toBe(1);
      for (const reader of readers) reader.close();
    });

    test('of many hosts at one address give way at once to a host at another', async () => {
      const relay = await crowdedByReaders(adapter, bob, carol);
      const readers = [await stalledReader(relay, bob, OFFICE), await stalledReader(relay, carol, OFFICE)];
      await underWay(relay).toBe(2);
      expect((await pull(relay, dave, OFFICE)).status).toBe(503);
      expect((await pull(relay, dave)).status).toBe(200);
      await underWay(relay).toBe(1);
      for (const reader of readers) reader.close();
    });

    test('of many hosts of one account give way at once to a host of another', async () => {
      const hosted = await hostedRelayForTest(adapter, PAGES_CROWDED);
      const { relay } = hosted;
      await enrolAll(hosted, [alice, bob, carol]);
      await enrolAll(hosted, [dave], { account: 'umbrella' });
      await fillQueues(relay, bob, carol);
      const readers = [await stalledReader(relay, bob), await stalledReader(relay, carol)];
      await underWay(relay).toBe(2);
      expect((await pull(relay, dave)).status).toBe(200);
      await underWay(relay).toBe(1);
      for (const reader of readers) reader.close();
    });

    test('that are small are sent while the room for large ones is taken', async () => {
      const relay = await crowdedByReaders(adapter, bob, carol);
      await relay.client(dave).push([itemTo([alice], 'small')]);
      const readers = [await stalledReader(relay, bob), await stalledReader(relay, carol)];
      await underWay(relay).toBe(2);
      expect((await pull(relay, alice)).status).toBe(200);
      expect(relay.timers.underWay(DEADLINE_MS)).toBe(2);
      for (const reader of readers) reader.close();
    });
  });

  describe('bodies', () => {
    test('that stall give way after some seconds, and small ones have room of their own', async () => {
      const relay = await crowdedByUploads(adapter);
      const growing = vi.spyOn(Claim.prototype, 'grow');
      onTestFinished(() => growing.mockRestore());
      const stuck = [await stalledUpload(relay, bob), await stalledUpload(relay, carol)];
      await underWay(relay).toBe(2);
      // Room is taken by the bytes that the relay has read.
      const readBytes = (): number => growing.mock.calls.reduce((sum, [bytes]) => sum + bytes, 0);
      await expect.poll(readBytes, { interval: 2 }).toBe(bodyBytes(relay, bob) + bodyBytes(relay, carol) - 2);
      const small = JSON.stringify({ items: [itemTo([bob], 'small')] });
      expect((await relay.send(relay.hop(alice, 'POST', ITEMS, small), {}, from(alice))).status).toBe(200);
      // A peer that was still sending may see the end of the connection before it sees the answer.
      expect([undefined, 503]).toContain((await upload(relay, dave))?.status);
      expect(relay.timers.underWay(DEADLINE_MS)).toBe(2);
      relay.clock.move(SLOW_AFTER_MS);
      expect((await upload(relay, dave))?.status).toBe(200);
      await underWay(relay).toBe(1);
      for (const connection of stuck) connection.send('}');
      const answers = await Promise.all(stuck.map((connection) => connection.response()));
      expect(answers.filter((answer) => answer?.status === 200)).toHaveLength(1);
      for (const connection of stuck) connection.close();
    });

    test('of many hosts at one address give way at once to a host at another', async () => {
      const relay = await crowdedByUploads(adapter);
      const stuck = [await stalledUpload(relay, bob, OFFICE), await stalledUpload(relay, carol, OFFICE)];
      await underWay(relay).toBe(2);
      expect((await upload(relay, dave))?.status).toBe(200);
      await underWay(relay).toBe(1);
      for (const connection of stuck) connection.close();
    });
  });
});

/** The address that several hosts share. */
const OFFICE = { 'x-forwarded-for': '203.0.113.200' };

/** Each host is at an address of its own. */
function from(host: TestHost): Record<string, string> {
  return { 'x-forwarded-for': `203.0.113.${HOSTS.indexOf(host) + 1}` };
}

function underWay(relay: HttpRelay) {
  return expect.poll(() => relay.timers.underWay(DEADLINE_MS), { interval: 2 });
}

/** Room for two large pages; each of `readers` has one of 4 MiB, more than sockets swallow, and dave a shorter one. */
async function crowdedByReaders(adapter: Adapter, ...readers: TestHost[]): Promise<HttpRelay> {
  const relay = await enrolledRelay(adapter, [alice, dave, ...readers], PAGES_CROWDED);
  await fillQueues(relay, ...readers);
  return relay;
}

async function fillQueues(relay: HttpRelay, ...readers: TestHost[]): Promise<void> {
  for (const host of readers) {
    const ids = Array.from({ length: 8 }, (_, n) => `${host.name}-${n}`);
    await relay.client(alice).push(ids.map((id) => itemTo([host], id, envelopeWire(id, MIB / 2))));
  }
  await relay.client(alice).push([itemTo([dave], 'large', envelopeWire('large', MIB / 2))]);
}

async function stalledReader(relay: HttpRelay, host: TestHost, address = from(host)): Promise<RawConnection> {
  const connection = await RawConnection.open(relay.port);
  return connection.pause().send(hopBytes(relay.hop(host, 'GET', ITEMS), {}, address));
}

function pull(relay: HttpRelay, host: TestHost, address = from(host)): Promise<RawResponse> {
  return relay.send(relay.hop(host, 'GET', ITEMS), {}, address);
}

/** Room for two large bodies. */
function crowdedByUploads(adapter: Adapter): Promise<HttpRelay> {
  return enrolledRelay(adapter, [alice, bob, carol, dave], {
    trustProxy: 'xff',
    heldBytes: { ...HELD_BYTES, bodies: 2 * MIB },
  });
}

/** A push of about a MiB. */
function largePush(relay: HttpRelay, host: TestHost, address: Record<string, string>): Buffer {
  const ids = [1, 2].map((n) => `${host.name}-${n}`);
  const items = ids.map((id) => itemTo([dave], id, envelopeWire(id, 360 << 10)));
  return hopBytes(relay.hop(host, 'POST', ITEMS, JSON.stringify({ items })), {}, address);
}

function bodyBytes(relay: HttpRelay, host: TestHost): number {
  const request = largePush(relay, host, from(host));
  return request.length - request.indexOf('\r\n\r\n') - 4;
}

/** All but the last byte of it. */
async function stalledUpload(relay: HttpRelay, host: TestHost, address = from(host)): Promise<RawConnection> {
  const connection = await RawConnection.open(relay.port);
  await connection.send(largePush(relay, host, address).subarray(0, -1)).flushed();
  return connection;
}

async function upload(relay: HttpRelay, host: TestHost): Promise<RawResponse | undefined> {
  const connection = await RawConnection.open(relay.port);
  const response = await connection.send(largePush(relay, host, from(host))).response();
  connection.close();
  return response;
}
