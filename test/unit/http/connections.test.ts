/** Tests which connection goes when there are too many. */
import { expect, test } from 'vitest';
import {
  type Connection,
  Connections,
  type ConnectionsOptions,
  type Displacement,
} from '../../../src/http/connections.ts';

/** A table whose connections are named by the order in which they came, from 1. */
function tableOf(options: Partial<ConnectionsOptions>) {
  const closed: number[] = [];
  const why: Displacement[] = [];
  const connections = new Connections({
    max: 1000,
    perAddressMax: 1000,
    arePeersProxies: false,
    displaced: (what) => void why.push(what),
    ...options,
  });
  let count = 0;
  const open = (address: string): Connection => {
    const number = ++count;
    return connections.opened(address, () => void closed.push(number));
  };
  return { connections, open, closed, why };
}

test('the idlest of the address with most goes when all are taken', () => {
  const { connections, open, closed, why } = tableOf({ max: 5 });
  for (const address of ['10.0.0.1', '10.0.0.2', '10.0.0.2', '10.0.0.2', '10.0.0.3']) open(address);
  open('10.0.0.4');
  expect(closed).toEqual([2]);
  open('10.0.0.5');
  expect(closed).toEqual([2, 3]);
  expect(why).toEqual(['all', 'all']);
  expect(connections.open).toBe(5);
});

test('one that moved is not the idlest, and one that is closed is not there', () => {
  const { connections, open, closed } = tableOf({ max: 4 });
  const [first, second] = ['10.0.0.1', '10.0.0.1', '10.0.0.1', '10.0.0.1'].map(open);
  first?.moved();
  second?.closed();
  second?.closed();
  second?.moved();
  expect(connections.open).toBe(3);
  open('10.0.0.1');
  expect(closed).toEqual([]);
  open('10.0.0.1');
  expect(closed).toEqual([3]);
  open('10.0.0.1');
  expect(closed).toEqual([3, 4]);
  open('10.0.0.1');
  expect(closed).toEqual([3, 4, 1]);
});

test('an address that has too many loses its own, never that of another and never the newest', () => {
  const { open, closed, why } = tableOf({ perAddressMax: 2 });
  open('10.0.0.1');
  for (const address of ['10.0.0.2', '10.0.0.2', '10.0.0.2', '10.0.0.2']) open(address);
  expect(closed).toEqual([2, 3]);
  expect(why).toEqual(['address', 'address']);
});

test('an IPv6 client is its /64 network, and an IPv4 one the same in both forms', () => {
  const { open, closed } = tableOf({ perAddressMax: 2 });
  for (const end of ['1', '2', 'ffff:1:2:3']) open(`2001:db8:0:1:${end.includes(':') ? end : `:${end}`}`);
  expect(closed).toEqual([1]);
  open('2001:db8:0:2::1');
  expect(closed).toEqual([1]);
  for (const address of ['10.0.0.1', '0000:0000:0000:0000:0000:ffff:0a00:0001', '::ffff:10.0.0.1']) open(address);
  expect(closed).toEqual([1, 5]);
});

test('strangers, however many, close no connection of a proven host; hosts leave an eighth to strangers', () => {
  const { connections, open, closed } = tableOf({ max: 16 });
  const hosts = ['10.0.0.1', '10.0.0.1', '10.0.0.1', '10.0.0.1'].map(open);
  for (const host of hosts) host.proven();
  for (let n = 0; n < 100; n++) open(`10.0.${n}.1`);
  expect(closed.filter((number) => number <= 4)).toEqual([]);
  expect(connections.open).toBe(16);
  // Hosts fill all; two strangers at a time find room beside them, time enough to prove who they are.
  for (let n = 0; n < 20; n++) open(`10.1.${n}.1`).proven();
  closed.length = 0;
  open('10.2.0.1');
  open('10.2.0.2');
  expect(connections.open).toBe(16);
  expect(closed.filter((number) => number > 124)).toEqual([]);
});

test('a connection is a stranger again when its request is over', () => {
  const { open, closed } = tableOf({ max: 2 });
  const host = open('10.0.0.1');
  host.proven();
  open('10.0.0.2');
  open('10.0.0.3');
  expect(closed).toEqual([2]);
  host.settled();
  open('10.0.0.4');
  open('10.0.0.5');
  expect(closed).toContain(1);
});

test('behind a proxy the peers are not limited, and clients are as long as their request lasts', () => {
  const { open, closed } = tableOf({ perAddressMax: 2, arePeersProxies: true });
  const [a, b, c, d] = ['127.0.0.1', '127.0.0.1', '127.0.0.1', '127.0.0.1'].map(open);
  expect(closed).toEqual([]);
  for (const one of [a, b, d]) one?.named('10.0.0.1');
  expect(closed).toEqual([1]);
  c?.named('10.0.0.2');
  d?.settled();
  open('127.0.0.1').named('10.0.0.1');
  expect(closed).toEqual([1]);
  // A request that names no client is of the proxy itself.
  for (let n = 0; n < 5; n++) open('127.0.0.1').named('127.0.0.1');
  expect(closed).toEqual([1]);
});

test('whatever comes and goes, the count is that of what is open and never more than allowed', () => {
  const { connections, open, closed } = tableOf({ max: 10, perAddressMax: 4 });
  const all: Connection[] = [];
  let random = 1;
  const next = (below: number): number => {
    random = (random * 48_271) % 2_147_483_647;
    return random % below;
  };
  let gone = 0;
  for (let step = 0; step < 1_500; step++) {
    const one = all[next(all.length || 1)];
    const what = next(6);
    if (what === 0 || !one) all.push(open(`10.0.0.${next(8)}`));
    else if (what === 1) one.proven();
    else if (what === 2) one.settled();
    else if (what === 3) one.moved();
    else if (what === 4) one.named(`10.0.1.${next(3)}`);
    else {
      const before = connections.open;
      one.closed();
      gone += before - connections.open;
    }
    expect(connections.open).toBe(all.length - closed.length - gone);
    expect(connections.open).toBeLessThanOrEqual(10);
  }
  expect(new Set(closed).size).toBe(closed.length);
  expect(closed.length).toBeGreaterThan(50);
});
