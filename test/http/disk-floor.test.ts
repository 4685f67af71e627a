/** A disk that is almost full: mail is refused before it fails, and everything that makes room goes on. */
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { enrolledRelay, relayForTest } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol, dave } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { enrolHost } from '../support/enrolments.ts';
import '../support/problems.ts';
import { settled } from '../support/settled.ts';

const FLOOR = 1_000_000;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test('below the floor pushes answer 503, acks and pulls go on, and above it pushes are taken again', async () => {
    const free = { bytes: FLOOR };
    const freeBytes = () => Promise.resolve(free.bytes);
    // Without a budget nothing of the disk would be left to strangers.
    const relay = await enrolledRelay(adapter, [alice, bob], {
      diskFloorBytes: FLOOR,
      freeBytes,
      mailBudgetBytes: FLOOR,
    });
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

  test('strangers fill their part of it alone: a light one finds room, one with an invite is served', async () => {
    const free = { bytes: FLOOR + 80_000 };
    const relay = await relayForTest(adapter, { diskFloorBytes: FLOOR, freeBytes: () => Promise.resolve(free.bytes) });
    const token = 'poste-invite-of-the-operator';
    const nowMs = relay.clock.nowMs();
    const invite = { label: '', inviteHash: sha256Hex(token), expiresAtMs: nowMs + 1_000, nowMs };
    await relay.relay.engine.admissions.issueInvite({ type: 'IssueInvite', ...invite });
    await relay.enrol(alice, bob, carol);
    expect((await enrolHost(relay, dave, { sent: { proof: token } })).status).toBe(200);
    let made = 0;
    const push = async (from: TestHost): Promise<string> => {
      const id = `m${made++}`;
      const { results } = await relay.client(from).push([itemTo([bob], id, envelopeWire(id, 488))]);
      return results[0]?.status ?? '';
    };
    // Each item is charged 1,000 bytes: of 80,000 strangers may have a quarter, and each as much as is left.
    let taken = 0;
    while ((await push(alice)) === 'accepted') taken++;
    expect(taken).toBe(11);
    expect(await push(carol)).toBe('accepted');
    expect(await push(alice)).toBe('rejected:quota:relay_bytes');
    await relay.stop();
    await relay.start();
    expect(await push(alice)).toBe('rejected:quota:relay_bytes');
    expect(await push(carol)).toBe('accepted');
    for (let count = 0; count < 50; count++) expect(await push(dave)).toBe('accepted');
    // What the hosts of the operator take is taken from the strangers.
    free.bytes -= 53_000;
    relay.timers.pass(5_000);
    await settled({});
    expect(await push(carol)).toBe('rejected:quota:relay_bytes');
    expect(await push(dave)).toBe('accepted');
  });
});
