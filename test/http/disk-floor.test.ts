/** A disk that is almost full: mail is refused before it fails, and everything that makes room goes on. */
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { relayForTest } from '../support/http-relay.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import '../support/problems.ts';
import { settled } from '../support/settled.ts';

const FLOOR = 1_000_000;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test('below the floor pushes answer 503, acks and pulls go on, and above it pushes are taken again', async () => {
    const free = { bytes: FLOOR };
    const relay = await relayForTest(adapter, { diskFloorBytes: FLOOR, freeBytes: () => Promise.resolve(free.bytes) });
    await relay.enrol(alice, bob);
    const push = async (id: string) => {
      const body = JSON.stringify({ items: [itemTo([bob], id)] });
      return relay.send(relay.hop(alice, 'POST', '/v2/relay/items', body));
    };
    expect((await push('m1')).status).toBe(200);

    free.bytes = FLOOR - 1;
    relay.timers.pass(5_000);
    await settled({});
    const refused = await push('m2');
    expect(refused).toBeProblem('UNAVAILABLE');
    expect(refused.headers.get('retry-after')).toBe('60');
    const v1 = JSON.stringify({ envelopes: [] });
    expect(await relay.send(relay.hop(alice, 'POST', '/v1/relay/messages', v1))).toBeProblem('UNAVAILABLE');
    // What hosts publish is kept in the log for good, so it waits as mail does.
    for (const path of ['/v2/relay/senders', '/v1/relay/enc-key']) {
      expect(await relay.send(relay.hop(alice, 'POST', path, '{}'))).toBeProblem('UNAVAILABLE');
    }
    const page = await relay.client(bob).pull();
    const seqs = page.items.map(({ seq }) => seq);
    expect(seqs).toHaveLength(1);
    expect((await relay.client(bob).ack(relay.epoch, seqs[0] ?? 0)).deleted).toBe(1);

    free.bytes = FLOOR;
    relay.timers.pass(5_000);
    await settled({});
    expect((await push('m2')).status).toBe(200);
    expect(relay.logged.map(({ message }) => message)).toContainEqual(expect.stringContaining('almost full'));
  });
});
