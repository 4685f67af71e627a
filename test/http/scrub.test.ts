/** The daily scrub of a whole relay: by its timer, and what the operator is told. */
import { expect, test } from 'vitest';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { enrolledRelay } from '../support/http-relay.ts';
import { alice, bob } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { alterWire } from '../support/stored-items.ts';

const TEN_MINUTES_MS = 600_000;

test('ten minutes after the start it finds what the disk altered, says so, and a push repairs it', async () => {
  const relay = await enrolledRelay(FIRST_ADAPTER, [alice, bob], { adminListen: { host: '127.0.0.1', port: 0 } });
  await relay.client(alice).push(['m1', 'm2', 'm3'].map((id) => itemTo([bob], id)));
  const [, row] = await relay.queue(bob);
  await relay.stop();
  await withRawLevel(relay.folder, (level) => alterWire(level, bob.key, row?.seq ?? 0, envelopeWire('other')));
  await relay.start();
  const answer = async (path: string) =>
    rawRequest(relay.relay.adminPort ?? 0, requestBytes('GET', path, { host: 'localhost' }));
  expect(jsonOf(await answer('/healthz'))['last_scrub']).toBeUndefined();
  const { epoch } = relay;

  relay.timers.pass(TEN_MINUTES_MS);
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
  expect(jsonOf(await answer('/healthz'))['last_scrub']).toEqual({
    at: relay.clock.nowMs(),
    items: 3,
    lost: 1,
    unreadable: 0,
  });
  const metrics = (await answer('/metrics')).body.toString();
  expect(metrics).toContain('\nposte_relay_scrubbed_items_total 3\n');
  expect(metrics).toContain('\nposte_relay_items_lost_total 1\n');
  expect(relay.epoch).not.toBe(epoch);
  const { results } = await relay.client(alice).push([itemTo([bob], 'm2')]);
  expect(results[0]?.status).toBe('accepted');
  expect((await relay.client(bob).pull()).items.map(({ item_id }) => item_id)).toEqual(['m1', 'm3', 'm2']);
});
