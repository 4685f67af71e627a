/** What the disk damaged, as a row, a queue or wire bytes, in a whole relay: what hosts and the operator are told. */
import { expect, test } from 'vitest';
import type { ItemId } from '../../src/protocol/names.ts';
import { rowKey } from '../../src/relay/core/rows.ts';
import { rowName } from '../../src/relay/store/checksum.ts';
import { PREFIX, prefixRange, queueKey, rowKeyBytes } from '../../src/relay/store/keys.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { adminPort, enterConsole } from '../support/console-session.ts';
import { flipValue } from '../support/flipped-rows.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { alterWire, loseRow } from '../support/stored-items.ts';

const WITH_OPERATOR = { adminListen: { host: '127.0.0.1', port: 0 } };

function answer(relay: HttpRelay, path: string): Promise<RawResponse> {
  return rawRequest(adminPort(relay), requestBytes('GET', path, { host: 'localhost' }));
}

test('what needs a damaged row is refused; log, /healthz, metrics and console tell, the log of nobody', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob, carol], WITH_OPERATOR);
  await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([carol], 'm2')]);
  const [row] = await relay.queue(bob);
  await relay.stop();
  const damaged = [
    rowKeyBytes('dedup', rowKey.dedup(alice.key, carol.key, 'm2' as ItemId)),
    queueKey(bob.key, row?.seq ?? 0),
  ];
  for (const key of damaged) await flipValue(relay.folder, key, 90);
  await relay.start();
  for (let tries = 0; tries < 2; tries++) {
    const pushed = await relay.client(alice).push([itemTo([carol], 'm2'), itemTo([carol], 'm3')]);
    expect(pushed.results.map(({ status }) => status)).toEqual([
      'rejected:target unavailable',
      tries === 0 ? 'accepted' : 'duplicate',
    ]);
    const refused = await relay.send(relay.hop(bob, 'GET', '/v2/relay/items'));
    expect([refused.status, jsonOf(refused)]).toMatchObject([
      503,
      { code: 'UNAVAILABLE', detail: expect.stringContaining('is damaged') },
    ]);
  }
  expect((await relay.client(carol).pull()).items).toHaveLength(2);
  const message =
    'a row of the store is damaged: stop the relay, run poste relay log verify, and then poste relay log rebuild';
  // The start itself comes across them too: it counts the dedup rows, and looks for the oldest item.
  expect(relay.errors).toHaveLength(2);
  for (const kind of ['dedup', 'queue'])
    expect(relay.errors).toContainEqual({ level: 'error', fields: { kind }, message });
  expect(jsonOf(await answer(relay, '/healthz'))['damaged_rows']).toBe(2);
  expect((await answer(relay, '/metrics')).body.toString()).toContain('\nposte_relay_damaged_rows 2\n');
  const overview = jsonOf(await (await enterConsole(relay)).get('/overview'));
  expect(overview).toMatchObject({
    damaged_rows: expect.arrayContaining(damaged.map(rowName)),
    damaged_rows_found: 2,
  });
});

test('the ack of a queue at fault is refused, its mail is not; log, /healthz, metrics and console tell', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob, carol], WITH_OPERATOR);
  await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([carol], 'm2')]);
  const [row] = await relay.queue(bob);
  await relay.stop();
  // Nothing is charged for what waits: an ack would release more than that.
  await withRawLevel(relay.folder, (level) => level.clear(prefixRange(PREFIX.share)));
  await relay.start();
  expect(jsonOf(await answer(relay, '/healthz'))['broken_queues']).toBeUndefined();
  const body = JSON.stringify({ epoch: relay.epoch, through: row?.seq });
  for (let tries = 0; tries < 2; tries++) {
    const refused = await relay.send(relay.hop(bob, 'POST', '/v2/relay/ack', body));
    expect([refused.status, jsonOf(refused)]).toMatchObject([
      503,
      { code: 'UNAVAILABLE', detail: expect.stringContaining('a fault') },
    ]);
  }
  expect((await relay.client(bob).pull()).items).toHaveLength(1);
  expect((await relay.client(alice).push([itemTo([bob], 'm3')])).results[0]?.status).toBe('accepted');
  const message =
    'the rows of a queue are at fault, and it is left as it is: stop the relay, and run poste relay log verify';
  expect(relay.errors).toEqual([{ level: 'error', fields: { reason: 'usage never falls below zero' }, message }]);
  expect(jsonOf(await answer(relay, '/healthz'))['broken_queues']).toBe(1);
  expect((await answer(relay, '/metrics')).body.toString()).toContain('\nposte_relay_broken_queues 1\n');
  const overview = jsonOf(await (await enterConsole(relay)).get('/overview'));
  expect(overview['broken_queues']).toEqual([
    { host_pubkey: bob.key, host: bob.name, reason: 'usage never falls below zero' },
  ]);
});

test('the ack of a queue that lost a row gets 503 until its sender pushed again; the operator is told', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], WITH_OPERATOR);
  await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
  const [lost] = await relay.queue(bob);
  await relay.stop();
  await withRawLevel(relay.folder, (level) => loseRow(level, bob.key, lost!.seq));
  await relay.start();
  const faults = async () => jsonOf(await answer(relay, '/healthz'))['broken_queues'];
  const ack = async () => {
    const body = JSON.stringify({ epoch: relay.epoch, through: (await relay.queue(bob)).at(-1)?.seq });
    return relay.send(relay.hop(bob, 'POST', '/v2/relay/ack', body));
  };
  const { epoch } = relay;
  expect(jsonOf(await ack())).toMatchObject({ code: 'EPOCH_CHANGED' });
  expect(relay.epoch).not.toBe(epoch);
  for (let tries = 0; tries < 2; tries++) {
    const refused = await ack();
    expect([refused.status, refused.headers.get('retry-after'), jsonOf(refused)]).toMatchObject([
      503,
      expect.stringMatching(/^[0-9]+$/),
      { code: 'UNAVAILABLE', detail: expect.stringContaining('a fault') },
    ]);
  }
  expect(await faults()).toBe(1);
  const message = 'rows of a queue are gone from the disk: senders push again, and its acks wait for that';
  const fields = { reason: '1 item of it is gone from the store' };
  expect(relay.errors).toEqual([{ level: 'error', fields, message }]);
  const { results } = await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
  expect(results.map(({ status }) => status)).toEqual(['accepted', 'duplicate']);
  expect((await relay.client(bob).pull()).items.map(({ item_id: id }) => id)).toEqual(['m2', 'm1']);
  const acked = await ack();
  expect([acked.status, jsonOf(acked)]).toMatchObject([200, { deleted: 2 }]);
  expect(await faults()).toBeUndefined();
});

test('ten minutes after the start the scrub finds what the disk altered, says so, and a push repairs it', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], WITH_OPERATOR);
  await relay.client(alice).push(['m1', 'm2', 'm3'].map((id) => itemTo([bob], id)));
  const [, row] = await relay.queue(bob);
  await relay.stop();
  await withRawLevel(relay.folder, (level) => alterWire(level, bob.key, row?.seq ?? 0, envelopeWire('other')));
  await relay.start();
  expect(jsonOf(await answer(relay, '/healthz'))['last_scrub']).toBeUndefined();
  const { epoch } = relay;

  relay.timers.pass(600_000);
  const ended = (): boolean => {
    relay.timers.pass(50);
    return relay.logged.some(({ message }) => message === 'everything that waits was compared with its hash');
  };
  await expect.poll(ended, { interval: 2 }).toBe(true);
  expect(relay.errors).toEqual([
    {
      level: 'error',
      fields: { items: 1, foundBy: 'scrub' },
      message: 'items were missing or altered on the disk: their senders push them again',
    },
  ]);
  expect(jsonOf(await answer(relay, '/healthz'))['last_scrub']).toEqual({
    at: relay.clock.nowMs(),
    items: 3,
    lost: 1,
    unreadable: 0,
  });
  const metrics = (await answer(relay, '/metrics')).body.toString();
  expect(metrics).toContain('\nposte_relay_scrubbed_items_total 3\n');
  expect(metrics).toContain('\nposte_relay_items_lost_total 1\n');
  expect(relay.epoch).not.toBe(epoch);
  const { results } = await relay.client(alice).push([itemTo([bob], 'm2')]);
  expect(results[0]?.status).toBe('accepted');
  expect((await relay.client(bob).pull()).items.map(({ item_id }) => item_id)).toEqual(['m1', 'm3', 'm2']);
});
