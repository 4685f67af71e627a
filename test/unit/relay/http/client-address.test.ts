import { isIPv6 } from 'node:net';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clientAddress } from '../../../../src/relay/http/handler.ts';
import { addressGroup, isSameAddress } from '../../../../src/http/connections.ts';

describe('addressGroup', () => {
  test.each([
    ['1.2.3.4', '1.2.3.4'],
    ['255.255.255.255', '255.255.255.255'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::FFFF:1.2.3.4', '1.2.3.4'],
    ['::ffff:102:304', '1.2.3.4'],
    ['0:0:0:0:0:ffff:0102:0304', '1.2.3.4'],
    ['0000:0000:0000:0000:0000:ffff:7f00:0001', '127.0.0.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:1::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['::1.2.3.4', '0:0:0:0::/64'],
    ['64:ff9b::1.2.3.4', '64:ff9b:0:0::/64'],
    ['::ffff:0:1.2.3.4', '0:0:0:0::/64'],
  ])('%s is counted as %s', (address, group) => {
    expect(addressGroup(address)).toBe(group);
  });

  test.each([
    '',
    ' ',
    'localhost',
    '1.2.3',
    '1.2.3.4.5',
    '256.1.1.1',
    '01.2.3.4',
    '1.2.3.4:80',
    '[::1]',
    '::1%eth0',
    'fe80::1%1',
    ':::',
    '1::2::3',
    '12345::',
    '1.2.3.4 ',
  ])('%j is no address', (text) => {
    expect(addressGroup(text)).toBeUndefined();
  });

  test('two addresses are counted together exactly when their first 64 bits are the same', () => {
    fc.assert(
      fc.property(fc.ipV6(), fc.ipV6(), (a, b) => {
        fc.pre(isIPv6(a) && isIPv6(b) && !isMapped(a) && !isMapped(b));
        expect(addressGroup(a) === addressGroup(b)).toBe(network(a) === network(b));
        expect(addressGroup(a)).toBe(addressGroup(a.toUpperCase()));
      }),
    );
  });
});

describe('clientAddress', () => {
  const PEER = '10.0.0.1';

  test('nobody is trusted unless it is said', () => {
    const headers = [
      ['x-forwarded-for', '1.1.1.1'],
      ['cf-connecting-ip', '2.2.2.2'],
    ] as const;
    expect(clientAddress(PEER, headers, 'none')).toBe(PEER);
    expect(clientAddress(PEER, headers, 'xff')).toBe('1.1.1.1');
    expect(clientAddress(PEER, headers, 'cloudflare')).toBe('2.2.2.2');
  });

  test.each<[readonly string[], string]>([
    [['1.1.1.1'], '1.1.1.1'],
    [['9.9.9.9, 1.1.1.1'], '1.1.1.1'],
    [['9.9.9.9,1.1.1.1'], '1.1.1.1'],
    [['9.9.9.9 ,\t1.1.1.1 '], '1.1.1.1'],
    [['9.9.9.9', '1.1.1.1'], '1.1.1.1'],
    [['1.1.1.1, 2.2.2.2', '3.3.3.3, 4.4.4.4'], '4.4.4.4'],
    [['1.1.1.1, 2001:db8:a:b:c::1'], '2001:db8:a:b::/64'],
    [['1.1.1.1, ::ffff:5.5.5.5'], '5.5.5.5'],
    [['1.1.1.1, unknown'], PEER],
    [['1.1.1.1,'], PEER],
    [['1.1.1.1', ''], PEER],
    [[''], PEER],
    [[], PEER],
  ])('the lines %j of x-forwarded-for name %s', (lines, client) => {
    const headers = lines.map((line) => ['x-forwarded-for', line] as const);
    expect(clientAddress(PEER, headers, 'xff')).toBe(client);
    expect(clientAddress(PEER, [['a', 'b'], ...headers, ['forwarded', 'for=7.7.7.7']], 'xff')).toBe(client);
  });

  test('nothing a client writes to the left changes who it is', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), fc.boolean(), (lies, isOneLine) => {
        const lines = isOneLine ? [[...lies, '1.1.1.1'].join(',')] : [...lies, '1.1.1.1'];
        const headers = lines.map((line) => ['x-forwarded-for', line] as const);
        expect(clientAddress(PEER, headers, 'xff')).toBe('1.1.1.1');
      }),
    );
  });

  test('the peer is grouped like every address, and taken as it is when it is none', () => {
    expect(clientAddress('::ffff:10.0.0.2', [], 'none')).toBe('10.0.0.2');
    expect(clientAddress('2001:db8::5', [], 'none')).toBe('2001:db8:0:0::/64');
    expect(clientAddress('', [], 'none')).toBe('');
    expect(clientAddress('fe80::1%eth0', [], 'xff')).toBe('fe80::1%eth0');
  });
});

/** The first 64 bits, by another way: node's own reading of the address as a URL host. */
function network(address: string): string {
  return expanded(address).slice(0, 4).join(':');
}

function isMapped(address: string): boolean {
  return expanded(address).slice(0, 6).join(':') === '0:0:0:0:0:ffff';
}

function expanded(address: string): string[] {
  const { hostname } = new URL(`http://[${address}]/`);
  const [left = '', right] = hostname.slice(1, -1).split('::');
  const before = left === '' ? [] : left.split(':');
  const after = right === undefined || right === '' ? [] : right.split(':');
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after];
}

test('one IP address is the same however it is written; a name is none', () => {
  const same = [
    ['192.168.1.7', '192.168.1.7'],
    ['192.168.1.7', '::ffff:192.168.1.7'],
    ['192.168.1.7', '::ffff:c0a8:107'],
    ['2001:DB8::7', '2001:db8:0:0:0:0:0:7'],
    ['::1', '0:0:0:0:0:0:0:1'],
  ] as const;
  for (const [one, other] of same) expect(isSameAddress(one, other)).toBe(true);
  const others = [
    ['192.168.1.7', '192.168.1.70'],
    ['2001:db8::7', '2001:db8::8'],
    ['::1', '127.0.0.1'],
    ['host.local', 'host.local'],
    ['', ''],
    ['fe80::1%eth0', 'fe80::1%eth0'],
  ] as const;
  for (const [one, other] of others) expect(isSameAddress(one, other)).toBe(false);
});
