/** A queue whose rows are at fault, in a whole relay: what its host and the operator are told. */
import { expect, test } from 'vitest';
import { PREFIX, prefixRange } from '../../src/relay/store/keys.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { adminPort, enterConsole } from '../support/console-session.ts';
import { enrolledRelay } from '../support/http-relay.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { loseRow } from '../support/stored-items.ts';

test('its ack is refused, its mail is handed over; the log, /healthz, metrics and console tell', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob, carol], {
    adminListen: { host: '127.0.0.1', port: 0 },
  });
  await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([carol], 'm2')]);
  const [row] = await relay.queue(bob);
  await relay.stop();
  // Nothing is charged for what waits: an ack would release more than that.
  await withRawLevel(relay.folder, (level) => level.clear(prefixRange(PREFIX.share)));
  await relay.start();
  const answer = async (path: string) => rawRequest(adminPort(relay), requestBytes('GET', path, { host: 'localhost' }));
  expect(jsonOf(await answer('/healthz'))['broken_queues']).toBeUndefined();
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
  expect(jsonOf(await answer('/healthz'))['broken_queues']).toBe(1);
  expect((await answer('/metrics')).body.toString()).toContain('\nposte_relay_broken_queues 1\n');
  const overview = jsonOf(await (await enterConsole(relay)).get('/overview'));
  expect(overview['broken_queues']).toEqual([
    { host_pubkey: bob.key, host: bob.name, reason: 'usage never falls below zero' },
  ]);
});

test('the ack of a queue that lost a row gets 503 until its sender pushed again; the operator is told', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], { adminListen: { host: '127.0.0.1', port: 0 } });
  await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
  const [lost] = await relay.queue(bob);
  await relay.stop();
  await withRawLevel(relay.folder, (level) => loseRow(level, bob.key, lost!.seq));
  await relay.start();
  const health = requestBytes('GET', '/healthz', { host: 'localhost' });
  const faults = async () => jsonOf(await rawRequest(adminPort(relay), health))['broken_queues'];
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
