/** Large pages and large uploads: slow peers, peers that go away, and payloads that are not what was stored. */
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { PulledItem } from '../../src/host/relay/relay-forms.ts';
import { LEVEL_FOLDER } from '../../src/relay/store/level.ts';
import { WireThread } from '../../src/relay/store/wire-thread.ts';
import { BINARY_TYPE } from '../../src/protocol/message-pack.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { FORMS, type Form } from '../support/binary-form.ts';
import { type Adapter, type HttpRelay, ADAPTERS, enrolledRelay } from '../support/http-relay.ts';
import { hopBytes, sha256 } from '../support/hops.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { alterWire, loseWire } from '../support/stored-items.ts';
import { found } from '../support/found.ts';

/** The file of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../dist/program/wire-worker.js', import.meta.url);
const ITEMS = '/v2/relay/items';
const KIB = 1024;
const PAGE_DEADLINE_MS = 60_000;
const BODY_DEADLINE_MS = 60_000;

describe.each(ADAPTERS)('%s', (adapter) => {
  test('a streamed page has a request id and a type like every other answer', async () => {
    const { relay } = await queued(adapter, 3, 300 * KIB);
    const response = await rawRequest(relay.port, pullBytes(relay));
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f]{16}$/);
  });

  test.each(FORMS)('a page from memory is the same bytes as after a restart, from the store: %s', async (form) => {
    const { relay, wires } = await queued([adapter, form], 300, 4 * KIB);
    const recent = await rawRequest(relay.port, pullIn(relay, form));
    expectBytes(itemsOf(recent), wires);
    await relay.restart();
    const stored = await rawRequest(relay.port, pullIn(relay, form));
    expect(stored.body.equals(recent.body)).toBe(true);
  });

  test('a reader that takes nothing does not hold up others, and gets its whole page when it goes on', async () => {
    const { relay, wires } = await queued(adapter, 16, 512 * KIB);
    const slow = await RawConnection.open(relay.port);
    slow.pause().send(pullBytes(relay));
    await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 2 }).toBe(1);
    await relay.client(alice).push([itemTo([carol], 'for-carol')]);
    expect((await relay.client(carol).pull()).items).toHaveLength(1);
    expect((await relay.client(bob).pull()).items).toHaveLength(16);
    expect(relay.timers.underWay(PAGE_DEADLINE_MS)).toBe(1);
    const response = await slow.resume().response();
    expectBytes(itemsOf(response), wires);
    await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 2 }).toBe(0);
    slow.close();
  });

  test('a reader that takes nothing for a minute is cut', async () => {
    const { relay } = await queued(adapter, 16, 512 * KIB);
    const slow = await RawConnection.open(relay.port);
    slow.pause().send(pullBytes(relay));
    await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 2 }).toBe(1);
    relay.timers.pass(PAGE_DEADLINE_MS);
    expect(await slow.resume().response()).toBeUndefined();
    expect(slow.isOver).toBe(true);
    expect(relay.timers.underWay(PAGE_DEADLINE_MS)).toBe(0);
    expect((await relay.client(bob).pull()).items).toHaveLength(16);
  });

  test('readers that go away in the middle of a page give back what they held', async () => {
    const { relay } = await queued(adapter, 16, 512 * KIB);
    const connections: RawConnection[] = [];
    // Four large pages are all that one host may have under way.
    for (let count = 0; count < 4; count++) {
      const connection = await RawConnection.open(relay.port);
      connections.push(connection.pause().send(pullBytes(relay)));
    }
    await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 5 }).toBe(4);
    expect(await rawRequest(relay.port, pullBytes(relay))).toBeProblem('UNAVAILABLE');
    // Another host is served meanwhile.
    expect((await relay.client(alice).pull()).items).toEqual([]);
    for (const connection of connections) connection.cut();
    await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 5 }).toBe(0);
    expect((await relay.client(bob).pull()).items).toHaveLength(16);
    expect(relay.errors).toEqual([]);
  });

  test('a page that fails after it has begun is cut, not ended as if it were whole', async () => {
    const { relay } = await queued(adapter, 6, 300 * KIB);
    const { engine } = relay.relay;
    const payloads = engine.payloads.bind(engine);
    // As if nothing of it were in memory.
    engine.encodedPayloads = () => Promise.resolve(undefined);
    let reads = 0;
    engine.payloads = (rows) => (++reads === 3 ? Promise.reject(new Error('a read failed')) : payloads(rows));
    const connection = await RawConnection.open(relay.port);
    expect(await connection.send(pullBytes(relay)).response()).toBeUndefined();
    expect(connection.receivedBytes).toBeGreaterThan(0);
    expect(relay.errors).toHaveLength(1);
    engine.payloads = () => Promise.reject(new Error('a read failed'));
    expect(await rawRequest(relay.port, pullBytes(relay))).toBeProblem('UNAVAILABLE');
    engine.payloads = payloads;
    expect((await relay.client(bob).pull()).items).toHaveLength(6);
  });

  describe.each(FORMS)('encoded by a thread, %s', (form) => {
    const pullBytes = (relay: HttpRelay): Buffer => pullIn(relay, form);

    test('pages of several readers are the same bytes as without it, also for one that takes its time', async () => {
      const { relay, wires } = await queued([adapter, form], 96, 64 * KIB);
      const alone = await rawRequest(relay.port, pullBytes(relay));
      const slices = await withThread(relay);
      const slow = await RawConnection.open(relay.port);
      slow.pause().send(pullBytes(relay));
      await expect.poll(() => relay.timers.underWay(PAGE_DEADLINE_MS), { interval: 2 }).toBe(1);
      const pages = await Promise.all([1, 2].map(() => rawRequest(relay.port, pullBytes(relay))));
      for (const page of pages) expect(page.body.equals(alone.body)).toBe(true);
      const page = await slow.resume().response();
      expect(page?.body.equals(alone.body)).toBe(true);
      expectBytes(itemsOf(alone), wires);
      // Each page has twelve slices.
      expect(slices.encoded).toBe(3 * 12);
      expect(slices.left).toBe(0);
      slow.close();
    });

    test('a page ends before a payload that is not what was stored', async () => {
      const { relay } = await damaged([adapter, form], 4, envelopeWire('m5', 300), 200 * KIB);
      const { epoch } = relay;
      const slices = await withThread(relay);
      const page = await relay.client(bob).pull({ epoch });
      expect(page.items.map(({ item_id }) => item_id)).toEqual(ids(1, 4));
      expect(page.more).toBe(true);
      expect(slices).toEqual({ encoded: 2, left: 1 });
      expect(relay.epoch).not.toBe(epoch);
      const rest = await relay.client(bob).pull({ epoch: relay.epoch });
      expect(rest.items.map(({ item_id }) => item_id)).toEqual([...ids(1, 4), 'm6']);
    });
  });

  describe('uploads', () => {
    test('a client that goes away in the middle of an upload stores nothing and gives back what it held', async () => {
      const relay = await enrolledRelay(adapter, [alice, bob]);
      const bytes = bigPush(relay, 'cut');
      const lsn = await relay.lastLsn();
      // 64 MiB are all that may be held at once: without giving back, the 10th would be refused.
      for (let count = 0; count < 12; count++) {
        const connection = await RawConnection.open(relay.port);
        await connection.send(bytes.subarray(0, bytes.length - 1)).flushed();
        await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
        // The relay reads all of it before it sees the end.
        connection.close();
        await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(0);
      }
      expect(await relay.lastLsn()).toBe(lsn);
      expect((await rawRequest(relay.port, bytes)).status).toBe(200);
      expect(await relay.queue(bob)).toHaveLength(10);
      expect(relay.errors).toEqual([]);
    });

    test('an upload that does not arrive in a minute is refused, and the connection is closed', async () => {
      const relay = await enrolledRelay(adapter, [alice, bob]);
      const connection = await RawConnection.open(relay.port);
      const bytes = bigPush(relay, 'late');
      connection.send(bytes.subarray(0, 100_000));
      await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(1);
      relay.timers.pass(BODY_DEADLINE_MS);
      const [response, ...more] = await connection.untilClosed();
      expect(response).toBeProblem('BAD_REQUEST');
      expect(more).toEqual([]);
      expect(await relay.queue(bob)).toEqual([]);
    });

    test('more bodies than the share of one host are not held: 503; others go on; room comes back', async () => {
      const relay = await enrolledRelay(adapter, [alice, bob]);
      const bytes = bigPush(relay, 'full');
      const connections: RawConnection[] = [];
      // Two of them fit, three do not.
      for (let count = 0; count < 3; count++) {
        const connection = await RawConnection.open(relay.port);
        connections.push(connection.send(bytes.subarray(0, bytes.length - 1)));
      }
      await expect.poll(() => connections.filter(isRefused).length, { interval: 2 }).toBe(1);
      await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(2);
      await relay.client(bob).ack(relay.relay.engine.epoch, 0);
      // A peer that was still sending may see the end of the connection before it sees the answer.
      const refusal = await connections.find(isRefused)?.response();
      expect([undefined, 'UNAVAILABLE']).toContain(refusal && jsonOf(refusal)['code']);
      for (const connection of connections) connection.cut();
      await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(0);
      expect(await relay.queue(bob)).toEqual([]);
      expect((await rawRequest(relay.port, bytes)).status).toBe(200);
    });

    test('bodies that nobody asked for, on info, are not held at all', async () => {
      const relay = await enrolledRelay(adapter, [alice, bob]);
      const body = Buffer.alloc(8_388_608, 'x');
      const head = requestBytes('GET', '/v2/relay/info', {}, body);
      const connections: RawConnection[] = [];
      for (let count = 0; count < 9; count++) {
        const connection = await RawConnection.open(relay.port);
        connections.push(connection.send(head.subarray(0, head.length - 1)));
      }
      await expect.poll(() => relay.timers.underWay(BODY_DEADLINE_MS), { interval: 2 }).toBe(9);
      expect((await rawRequest(relay.port, bigPush(relay, 'beside'))).status).toBe(200);
      for (const connection of connections) {
        expect((await connection.send('x').response())?.status).toBe(200);
        connection.close();
      }
      const covered = { ...relay.hop(bob, 'GET', '/v2/relay/info', body) };
      expect(jsonOf(await relay.send(covered))['you']).toMatchObject({ host: 'bob' });
      expect(jsonOf(await relay.send(covered, { bodyHash: sha256('') }))['you']).toBeUndefined();
    });
  });
});

const EACH = ANY_ADAPTER.flatMap((adapter) => FORMS.map((form) => [adapter, form] as const));

describe.each(EACH)('%s, %s', (...adapter) => {
  test('500 items come in one page, each with its bytes', async () => {
    const { relay, wires } = await queued(adapter, 501, 700);
    const page = await relay.client(bob).pull();
    expect(page.items.map(({ item_id }) => item_id)).toEqual([...wires.keys()].slice(0, 500));
    expectBytes(page.items, wires);
    expect(page.more).toBe(true);
    const rest = await relay.client(bob).pull({ after: page.last_seq });
    expect(rest.items.map(({ item_id }) => item_id)).toEqual(['m501']);
    expect(rest.more).toBe(false);
  });

  test('items of 512 KiB come back whole, and a page of them stops at 8 MiB', async () => {
    const { relay, wires } = await queued(adapter, 18, 512 * KIB);
    const first = await relay.client(bob).pull();
    expect(first.items).toHaveLength(16);
    expect(first.more).toBe(true);
    const second = await relay.client(bob).pull({ after: first.last_seq });
    expect(second.items).toHaveLength(2);
    expect(second.more).toBe(false);
    expectBytes([...first.items, ...second.items], wires);
  });

  test('a push finds by itself that a known item lost its bytes, and stores it anew', async () => {
    const { relay } = await queued(adapter, 2, 100);
    const { epoch } = relay;
    const [row] = await relay.queue(bob);
    await relay.stop();
    await withRawLevel(relay.folder, (level) => loseWire(level, bob.key, row?.seq ?? 0));
    await relay.start();
    const { results } = await relay.client(alice).push([itemTo([bob], 'm1', envelopeWire('m1', 100))]);
    expect(results[0]?.status).toBe('accepted');
    expect(results[0]?.targets?.[0]?.seq).toBeGreaterThan(row?.seq ?? 0);
    expect(relay.epoch).not.toBe(epoch);
    expect((await relay.client(bob).pull()).items.map(({ item_id }) => item_id)).toEqual(['m2', 'm1']);
  });

  describe.each([
    ['a payload of a run of its own', 200 * KIB],
    ['one of several of a run', KIB],
  ])('%s that was altered behind the back of the engine', (_run, bytes) => {
    const flipped = (id: string): Buffer => {
      const wire = Buffer.from(envelopeWire(id, bytes));
      wire.writeUInt8(wire.readUInt8(bytes - 9) ^ 1, bytes - 9);
      return wire;
    };
    const cases: [string, number, (id: string) => Buffer | undefined][] = [
      ['in the middle, one bit of it', 3, flipped],
      ['in the middle, cut short', 2, () => Buffer.from('{')],
      ['in the middle, missing', 3, () => undefined],
      ['the first', 0, (id) => envelopeWire(id, 300)],
      ['the last', 5, (id) => envelopeWire(id, 300)],
    ];
    test.each(cases)(
      '%s: is not served, ends the page and the epoch, and is repaired by a push',
      async (_, at, valueOf) => {
        const { relay, id } = await damaged(adapter, at, valueOf(`m${at + 1}`), bytes);
        const { epoch } = relay;
        const page = await relay.client(bob).pull({ epoch });
        expect(page.items.map(({ item_id }) => item_id)).toEqual(ids(1, at));
        expect(page.more).toBe(true);
        expect(page.last_seq).toBe(page.items.at(-1)?.seq ?? 0);

        expect(relay.epoch).not.toBe(epoch);
        const old = await relay.send(relay.hop(bob, 'GET', `${ITEMS}?epoch=${epoch}`));
        expect(old).toBeProblem('EPOCH_CHANGED', { epoch: relay.epoch });
        const rest = await relay.client(bob).pull({ epoch: relay.epoch });
        expect(rest.items.map(({ item_id }) => item_id)).toEqual([...ids(1, at), ...ids(at + 2, 6)]);

        const again = await relay.client(alice).push([itemTo([bob], id, envelopeWire(id, bytes))]);
        expect(again.results[0]?.status).toBe('accepted');
        expect(again.epoch).toBe(relay.epoch);
        const whole = await relay.client(bob).pull({ epoch: relay.epoch });
        expect(whole.items.map(({ item_id }) => item_id)).toEqual([...ids(1, at), ...ids(at + 2, 6), id]);
        expect(whole.items.at(-1)?.wire).toEqual(envelopeWire(id, bytes));

        await relay.stop();
        const { events } = await relay.stored();
        expect(events.filter(({ type }) => type === 'ItemLost')).toEqual([
          expect.objectContaining({ type: 'ItemLost', itemId: id, targetPubkey: bob.key, senderPubkey: alice.key }),
        ]);
        expect(events.filter(({ type }) => type === 'EpochRotated')).toEqual([
          expect.objectContaining({ reason: 'item-lost', epoch: relay.epoch }),
        ]);
        await relay.start();
      },
    );
  });
});

/** Alice has pushed m1 to m<count> to bob, of `bytes` bytes each. */
async function queued(
  at: Adapter | readonly [Adapter, Form],
  count: number,
  bytes: number,
): Promise<{ relay: HttpRelay; wires: Map<string, Buffer> }> {
  const [adapter, form] = typeof at === 'string' ? ([at, 'json'] as const) : at;
  const relay = await enrolledRelay(adapter, [alice, bob, carol], { form });
  const wires = new Map(ids(1, count).map((id) => [id, envelopeWire(id, bytes)]));
  const batch = Math.min(200, Math.floor(5_000_000 / bytes));
  const items = [...wires].map(([id, wire]) => itemTo([bob], id, wire));
  for (let at = 0; at < items.length; at += batch) {
    const { results } = await relay.client(alice).push(items.slice(at, at + batch));
    for (const { status } of results) expect(status).toBe('accepted');
  }
  return { relay, wires };
}

/**
 * From now on a thread encodes large slices. Returns how many it has encoded, and how many it left to the event loop.
 */
async function withThread({ relay: { engine }, folder }: HttpRelay): Promise<{ encoded: number; left: number }> {
  const thread = new WireThread(join(folder, LEVEL_FOLDER), BUNDLED);
  onTestFinished(() => thread.close());
  const slices = { encoded: 0, left: 0 };
  const rows = (await engine.page(bob.key, 0, 1)).rows;
  const texts = { before: [''], after: '', isBase64: true };
  await expect.poll(() => thread.encode(rows, texts), { interval: 1 }).toBeDefined();
  engine.encodedPayloads = async (...asked) => {
    const encoded = await thread.encode(...asked);
    slices[encoded ? 'encoded' : 'left']++;
    return encoded;
  };
  return slices;
}

function pullBytes(relay: HttpRelay): Buffer {
  return hopBytes(relay.hop(bob, 'GET', ITEMS));
}

function pullIn(relay: HttpRelay, form: Form): Buffer {
  return hopBytes(relay.hop(bob, 'GET', ITEMS), {}, form === 'binary' ? { accept: BINARY_TYPE } : {});
}

/** Six items, of 200 KiB or less; the one at `position` is not what was stored when the relay starts again. */
async function damaged(
  at: Adapter | readonly [Adapter, Form],
  position: number,
  value: Buffer | undefined,
  bytes: number,
): Promise<{ relay: HttpRelay; id: string }> {
  const { relay } = await queued(at, 6, bytes);
  const row = found((await relay.queue(bob))[position], 'nothing is queued there');
  await relay.stop();
  await withRawLevel(relay.folder, async (level) => {
    if (value) await alterWire(level, bob.key, row.seq, value);
    else await loseWire(level, bob.key, row.seq);
  });
  await relay.start();
  return { relay, id: row.itemId };
}

/** A push of about 7 MiB, in bytes. */
function bigPush(relay: HttpRelay, id: string): Buffer {
  const items = Array.from({ length: 10 }, (_, at) =>
    itemTo([bob], `${id}-${at}`, envelopeWire(`${id}-${at}`, 512 * KIB)),
  );
  return hopBytes(relay.hop(alice, 'POST', ITEMS, JSON.stringify({ items })));
}

/** Says whether the relay has answered, or cut, what was still being sent. */
function isRefused(connection: RawConnection): boolean {
  return connection.receivedBytes > 0 || connection.isOver;
}

function ids(from: number, to: number): string[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => `m${from + at}`);
}

function expectBytes(items: readonly PulledItem[], wires: ReadonlyMap<string, Buffer>): void {
  for (const { item_id, wire } of items) expect([item_id, wires.get(item_id)?.equals(wire)]).toEqual([item_id, true]);
}

/** The items of a page as a client reads them. */
function itemsOf(response: RawResponse | undefined): PulledItem[] {
  const items = jsonOf(response)['items'] as (PulledItem & { wire_b64: string })[];
  for (const item of items) item.wire = Buffer.from(item.wire_b64, 'base64');
  return items;
}
