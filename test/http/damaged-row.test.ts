/** A damaged row in a whole relay: what its host and the operator are told, and that nobody else notices. */
import { expect, test } from 'vitest';
import type { ItemId } from '../../src/protocol/names.ts';
import { rowKey } from '../../src/relay/core/rows.ts';
import { queueKey, rowKeyBytes } from '../../src/relay/store/keys.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { adminPort, enterConsole } from '../support/console-session.ts';
import { flipValue } from '../support/flipped-rows.ts';
import { enrolledRelay } from '../support/http-relay.ts';
import { alice, bob, carol } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { rowName } from '../../src/relay/store/checksum.ts';

test('what needs it is refused, and the log, /healthz, metrics and console tell, the log of nobody', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob, carol], {
    adminListen: { host: '127.0.0.1', port: 0 },
  });
  await relay.client(alice).push([itemTo([bob], 'm1'), itemTo([carol], 'm2')]);
  const [row] = await relay.queue(bob);
  await relay.stop();
  const damaged = [
    rowKeyBytes('dedup', rowKey.dedup(alice.key, carol.key, 'm2' as ItemId)),
    queueKey(bob.key, row?.seq ?? 0),
  ];
  for (const key of damaged) await flipValue(relay.folder, key, 90);
  await relay.start();
  const answer = async (path: string) => rawRequest(adminPort(relay), requestBytes('GET', path, { host: 'localhost' }));
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
  expect(jsonOf(await answer('/healthz'))['damaged_rows']).toBe(2);
  expect((await answer('/metrics')).body.toString()).toContain('\nposte_relay_damaged_rows 2\n');
  const overview = jsonOf(await (await enterConsole(relay)).get('/overview'));
  expect(overview).toMatchObject({
    damaged_rows: expect.arrayContaining(damaged.map(rowName)),
    damaged_rows_found: 2,
  });
});
