/** "Which limit applies to which operation", rules 1 to 3, 5 and 6. Rule 4 is counted at the door (src/relay/http). */
import { describe, expect, test } from 'vitest';
import { type To, accountEnrolOf, enrolOf, pushOf } from '../support/commands.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, type TestRelayOptions, openTestRelay } from '../support/test-relay.ts';

async function relayWith(options: TestRelayOptions, ...hosts: readonly TestHost[]): Promise<TestRelay> {
  const relay = await openTestRelay({ ...options, hosts });
  return relay;
}

/** The verdict of one item of `size` bytes. */
async function push(relay: TestRelay, from: TestHost, id: string, size: number, ...to: TestHost[]): Promise<string> {
  const targets = to.map((host): To => [host, Buffer.alloc(size)]);
  return (await relay.pushOne(pushOf(from, id, targets))).verdict;
}

describe('limits rule 1: per target', () => {
  test('limits rule 1: max_queue_items over all senders of one target', async () => {
    const relay = await relayWith({ limits: { max_queue_items: 2 } }, bob, carol);
    expect(await push(relay, alice, 'm1', 1, bob)).toBe('accepted');
    expect(await push(relay, dave, 'm1', 1, bob)).toBe('accepted');
    expect(await push(relay, carol, 'm1', 1, bob)).toBe('rejected:quota:queue_items');
    expect(await push(relay, carol, 'm1', 1, carol)).toBe('accepted');
  });

  test('limits rule 1: max_queue_bytes over all senders of one target, to the byte', async () => {
    const relay = await relayWith({ limits: { max_queue_bytes: 10 } }, bob);
    expect(await push(relay, alice, 'm1', 6, bob)).toBe('accepted');
    expect(await push(relay, dave, 'm1', 5, bob)).toBe('rejected:quota:queue_bytes');
    expect(await push(relay, dave, 'm1', 4, bob)).toBe('accepted');
    expect(await push(relay, dave, 'm2', 0, bob)).toBe('accepted');
  });
});

describe('limits rule 2: per sender per target', () => {
  test('limits rule 2: max_sender_items of one sender at one target', async () => {
    const relay = await relayWith({ limits: { max_sender_items: 1 } }, bob, carol);
    expect(await push(relay, alice, 'm1', 1, bob)).toBe('accepted');
    expect(await push(relay, alice, 'm2', 1, bob)).toBe('rejected:quota:sender_items');
    expect(await push(relay, alice, 'm2', 1, carol)).toBe('accepted');
    expect(await push(relay, dave, 'm2', 1, bob)).toBe('accepted');
    await relay.ack(bob, NOON_MS);
    expect(await push(relay, alice, 'm3', 1, bob)).toBe('accepted');
  });

  test('limits rule 2: max_sender_bytes of one sender at one target, to the byte', async () => {
    const relay = await relayWith({ limits: { max_sender_bytes: 10 } }, bob, carol);
    expect(await push(relay, alice, 'm1', 10, bob)).toBe('accepted');
    expect(await push(relay, alice, 'm2', 1, bob)).toBe('rejected:quota:sender_bytes');
    expect(await push(relay, alice, 'm2', 10, carol)).toBe('accepted');
    expect(await push(relay, dave, 'm2', 10, bob)).toBe('accepted');
  });
});

describe('limits rule 3: per proven account', () => {
  const limits = { max_owner_items: 2, max_owner_bytes: 10 };

  test('limits rule 3: max_owner_items and max_owner_bytes across the hosts of one account', async () => {
    const relay = await relayWith({ limits }, dave);
    for (const host of [bob, carol]) await relay.enrol(accountEnrolOf(host, 'acme'));
    await relay.enrol(accountEnrolOf(alice, 'umbrella'));
    expect(await push(relay, dave, 'm1', 6, bob)).toBe('accepted');
    expect(await push(relay, dave, 'm1', 5, carol)).toBe('rejected:quota:owner_bytes');
    expect(await push(relay, dave, 'm1', 4, carol)).toBe('accepted');
    expect(await push(relay, dave, 'm2', 0, bob)).toBe('rejected:quota:owner_items');
    expect(await push(relay, dave, 'm2', 6, alice)).toBe('accepted');
    await relay.ack(bob, NOON_MS);
    expect(await push(relay, dave, 'm2', 0, bob)).toBe('accepted');
  });

  test('limits rule 3: a self-asserted owner_fp is never charged, nor a host without an account', async () => {
    const relay = await relayWith({ limits });
    for (const host of [bob, carol]) await relay.enrol(enrolOf(host, { ownerFp: 'the same owner' }));
    for (let number = 0; number < 6; number++) {
      expect(await push(relay, dave, `m${number}`, 9, bob, carol)).toBe('accepted');
    }
  });

  test('limits rule 3: the account of the target is charged, not that of the sender', async () => {
    const relay = await relayWith({ limits }, carol);
    await relay.enrol(accountEnrolOf(alice, 'acme'));
    for (let number = 0; number < 4; number++) {
      expect(await push(relay, alice, `m${number}`, 9, carol)).toBe('accepted');
    }
  });
});

describe('limits rule 5: per item', () => {
  test('limits rule 5: max_item_bytes for the wire bytes of each target', async () => {
    const relay = await relayWith({ limits: { max_item_bytes: 8 } }, bob, carol);
    expect(await push(relay, alice, 'm1', 8, bob, carol)).toBe('accepted');
    expect(await push(relay, alice, 'm2', 9, bob)).toBe('rejected:too large');
  });

  test('limits rule 5: max_targets', async () => {
    const hosts = Array.from({ length: 4 }, (_none, number) => hostNamed(`target ${number}`));
    const relay = await relayWith({ limits: { max_targets: 3 } }, ...hosts);
    expect(await push(relay, alice, 'm1', 1, ...hosts.slice(1))).toBe('accepted');
    expect(await push(relay, alice, 'm2', 1, ...hosts)).toBe('rejected:too many targets');
  });

  test('limits rule 5: the documented defaults are 512 KiB and 64 targets', async () => {
    const hosts = Array.from({ length: 65 }, (_none, number) => hostNamed(`target ${number}`));
    const relay = await relayWith({}, ...hosts);
    expect(await push(relay, alice, 'm1', 524_288, bob)).toBe('rejected:unknown target');
    expect(await push(relay, alice, 'm1', 524_289, bob)).toBe('rejected:too large');
    expect(await push(relay, alice, 'm1', 1, ...hosts.slice(1))).toBe('accepted');
    expect(await push(relay, alice, 'm2', 1, ...hosts)).toBe('rejected:too many targets');
  });
});

test('limits rule 6: per pull, max_pull items and max_pull_bytes bytes', async () => {
  const relay = await relayWith({ limits: { max_pull: 2, max_pull_bytes: 20 } }, bob);
  for (const [at, size] of [5, 5, 5, 18, 5].entries()) await push(relay, alice, `m${at}`, size, bob);
  const pages: number[][] = [];
  for (let after = 0, more = true; more; ) {
    const page = await relay.engine.page(bob.key, after, relay.settings.limits.max_pull);
    pages.push(page.rows.map(({ bytes }) => bytes));
    after = page.rows.at(-1)?.seq ?? after;
    more = page.more;
  }
  expect(pages).toEqual([[5, 5], [5], [18], [5]]);
});
