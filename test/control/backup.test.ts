/** `/v1/backup` and `/v1/epoch` of a whole relay: what is streamed, how it ends, and who is told of an epoch. */
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { once } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { controlSocketPath } from '../../src/relay/operator/socket.ts';
import { checkImage } from '../../src/lib/image.ts';
import { BACKUP_KIND } from '../../src/relay/image/backup.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { alice, bob } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { alterWire } from '../support/stored-items.ts';

/** Enough that no buffer between a relay and its peer holds all of it. */
const MUCH_BYTES = 8 << 20;
const ITEM_BYTES = 400_000;

async function started(bytes = 0): Promise<HttpRelay> {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob]);
  for (let at = 0; at * ITEM_BYTES < bytes; at++) {
    const id = `m${at}`;
    const sealed = { alg: 'test', ct: randomBytes((ITEM_BYTES * 3) / 4).toString('base64'), enc: 'e' };
    await relay.client(alice).push([itemTo([bob], id, Buffer.from(JSON.stringify({ id, sealed, v: 1 })))]);
  }
  return relay;
}

function streamed(relay: HttpRelay, signal = new AbortController().signal) {
  return new ControlClient(relay.folder).stream('/v1/backup', signal);
}

/** A peer that asks for a backup and takes nothing of it. */
async function idlePeer(relay: HttpRelay) {
  const socket = connect(controlSocketPath(relay.folder));
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  socket.write('GET /v1/backup HTTP/1.1\r\nhost: relay\r\n\r\n');
  await once(socket, 'readable');
  return socket;
}

describe('GET /v1/backup', () => {
  test('is everything that was accepted, whole, and says about how much comes', async () => {
    const relay = await started();
    await relay.client(alice).push([itemTo([bob], 'm1', envelopeWire('m1')), itemTo([bob], 'm2')]);
    const { headers, chunks } = await streamed(relay);
    expect(headers['content-type']).toBe('application/octet-stream');
    expect(headers['x-backup-bytes-about']).toMatch(/^[0-9]+$/);
    const written = await checkImage(chunks, BACKUP_KIND);
    expect(written).toMatchObject({ items: 2, header: { epoch: relay.epoch, lsn: await relay.lastLsn() } });
  });

  test('says what is damaged in it, and the relay is done with that by then', async () => {
    const relay = await started();
    await relay.client(alice).push(['m1', 'm2', 'm3'].map((id) => itemTo([bob], id)));
    const [, row] = await relay.queue(bob);
    await relay.stop();
    await withRawLevel(relay.folder, (level) => alterWire(level, bob.key, row?.seq ?? 0, Buffer.from('other')));
    await relay.start();
    const { epoch } = relay;
    const { chunks } = await streamed(relay);
    expect(await checkImage(chunks, BACKUP_KIND)).toMatchObject({ items: 3, damagedItems: 1, header: { epoch } });
    expect(relay.epoch).not.toBe(epoch);
    expect((await relay.client(bob).pull()).items.map(({ item_id }) => item_id)).toEqual(['m1', 'm3']);
    expect(relay.errors).toMatchObject([{ fields: { items: 1, foundBy: 'backup' } }]);
    const again = await streamed(relay);
    expect(await checkImage(again.chunks, BACKUP_KIND)).toMatchObject({ items: 2, damagedItems: 0 });
  });

  test('goes to two at once and no more, and a peer that leaves makes room', async () => {
    const relay = await started(MUCH_BYTES);
    const peers = [await idlePeer(relay), await idlePeer(relay)];
    await expect(streamed(relay)).rejects.toMatchObject({ exit: 'conflict', code: 'BACKUPS_UNDER_WAY' });
    peers[0]?.destroy();
    const freed = async (): Promise<number> => {
      const { chunks } = await streamed(relay);
      return (await checkImage(chunks, BACKUP_KIND)).items;
    };
    await expect.poll(() => freed().catch(() => 0), { interval: 20 }).toBe(Math.ceil(MUCH_BYTES / ITEM_BYTES));
    expect(relay.errors).toEqual([]);
  });

  test('mail goes on beside a peer that takes nothing', async () => {
    const relay = await started(MUCH_BYTES);
    await idlePeer(relay);
    const { results } = await relay.client(alice).push([itemTo([bob], 'beside')]);
    expect(results).toMatchObject([{ status: 'accepted' }]);
  });

  test('a stop ends it, and its peer knows that it is not whole', async () => {
    const relay = await started(MUCH_BYTES);
    const { chunks } = await streamed(relay);
    await chunks.next();
    const stopped = relay.stop();
    const taken = (async () => {
      for await (const chunk of chunks) expect(chunk.length).toBeGreaterThan(0);
    })();
    await expect(taken).rejects.toMatchObject({ exit: 'temporary', code: 'RELAY_GONE' });
    await stopped;
    expect(relay.errors).toEqual([]);
  });

  test('an abort of the peer ends it', async () => {
    const relay = await started(MUCH_BYTES);
    const controller = new AbortController();
    const { chunks } = await streamed(relay, controller.signal);
    await chunks.next();
    controller.abort();
    await expect(
      (async () => {
        for await (const chunk of chunks) expect(chunk.length).toBeGreaterThan(0);
      })(),
    ).rejects.toBeDefined();
    await relay.stop();
    expect(relay.errors).toEqual([]);
  });
});

describe('POST /v1/epoch', () => {
  test('begins a new epoch, of which everybody who waits is told', async () => {
    const relay = await started();
    const before = relay.epoch;
    const waiting = relay
      .client(bob)
      .pull({ epoch: before, wait: 30 })
      .catch((error: unknown) => error);
    await expect.poll(() => relay.timers.underWay(30_000), { interval: 2 }).toBe(2);
    const { epoch } = await new ControlClient(relay.folder).post('/v1/epoch', {});
    expect(await waiting).toMatchObject({ status: 409, code: 'EPOCH_CHANGED' });
    expect(relay.epoch).toBe(epoch);
    expect(epoch).not.toBe(before);
    expect((await relay.client(bob).pull()).epoch).toBe(epoch);
    await relay.stop();
    const { events } = await relay.stored();
    expect(events.at(-1)).toMatchObject({ type: 'EpochRotated', epoch, reason: 'reset' });
  });
});
