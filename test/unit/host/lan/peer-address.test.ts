import { expect, test } from 'vitest';
import { callableAddress, isDialledAt, ownAddresses } from '../../../../src/host/lan/peer-address.ts';

const address = (family: 'IPv4' | 'IPv6', text: string, internal = false) =>
  ({ address: text, family, internal, netmask: '', mac: '', cidr: null, scopeid: 0 }) as never;

const INTERFACES = {
  lo: [address('IPv4', '127.0.0.1', true), address('IPv6', '::1', true)],
  eth0: [address('IPv6', 'fe80::7'), address('IPv6', 'fd00::7'), address('IPv4', '192.168.1.7')],
};

test('what a URL can carry is callable', () => {
  expect(callableAddress({ host: '192.168.1.7', port: 8789 })).toBe('192.168.1.7:8789');
  expect(callableAddress({ host: 'fd00::7', port: 1 })).toBe('[fd00::7]:1');
  expect(callableAddress({ host: 'a-host.local', port: 65_535 })).toBe('a-host.local:65535');
});

test.each([
  { host: 'fe80::1%eth0', port: 8789 },
  { host: '10.0.0.1', port: 0 },
  { host: '10.0.0.1', port: 65_536 },
  { host: 'a/b', port: 80 },
  { host: 'user@b', port: 80 },
  { host: 'b?', port: 80 },
  { host: '', port: 80 },
])('$host and $port are not', (where) => {
  expect(callableAddress(where)).toBeNull();
});

test('an inviter says where it can be called from outside', () => {
  expect(ownAddresses({ host: '0.0.0.0', port: 8789 }, INTERFACES)).toEqual(['192.168.1.7:8789']);
  expect(ownAddresses({ host: '::', port: 8789 }, INTERFACES)).toEqual(['192.168.1.7:8789', '[fd00::7]:8789']);
  expect(ownAddresses({ host: '127.0.0.1', port: 8789 }, INTERFACES)).toEqual(['127.0.0.1:8789']);
  expect(ownAddresses({ host: '0.0.0.0', port: 8789 }, {})).toEqual(['0.0.0.0:8789']);
});

test('an address was dialled when the connection ended there, or when it is the one that is advertised', () => {
  const calledAt = { host: '192.168.1.7', port: 8789 };
  expect(isDialledAt('192.168.1.7:8789', calledAt, undefined)).toBe(true);
  expect(isDialledAt('[2001:DB8::7]:8789', { host: '2001:db8::7', port: 8789 }, undefined)).toBe(true);
  expect(isDialledAt('mail.example:80', calledAt, 'Mail.Example:80')).toBe(true);
  for (const address of [
    '192.168.1.7:8790',
    '192.168.1.8:8789',
    '127.0.0.1:8789',
    'mail.example:80',
    'mail.example:8789',
  ]) {
    expect(isDialledAt(address, calledAt, 'mail.example:8788')).toBe(false);
  }
});
