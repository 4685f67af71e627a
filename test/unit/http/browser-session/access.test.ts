import { expect, test } from 'vitest';
import { isForeignName, ownHosts } from '../../../../src/http/browser-session/access.ts';

test('a loopback listener is itself under every loopback name', () => {
  const names = new Set(['127.0.0.1:8788', 'localhost:8788', '[::1]:8788']);
  for (const host of ['127.0.0.1', '::1', 'localhost']) expect(ownHosts(host, 8788)).toEqual(names);
});

test('any other one is itself under its address alone', () => {
  expect(ownHosts('192.0.2.7', 8788)).toEqual(new Set(['192.0.2.7:8788']));
  expect(ownHosts('2001:DB8::7', 8788)).toEqual(new Set(['[2001:db8::7]:8788']));
});

test('on port 80 also without the port, which browsers leave out', () => {
  expect(ownHosts('192.0.2.7', 80)).toEqual(new Set(['192.0.2.7:80', '192.0.2.7']));
  expect(ownHosts('2001:db8::7', 80)).toEqual(new Set(['[2001:db8::7]:80', '[2001:db8::7]']));
});

test('one on every address is itself under those of this machine, and under no other', () => {
  const names = ownHosts('0.0.0.0', 80);
  expect(names.has('127.0.0.1:80')).toBe(true);
  expect(names.has('localhost:80')).toBe(true);
  for (const name of ['0.0.0.0:80', 'evil.example:80', '192.0.2.7:80']) expect(names.has(name)).toBe(false);
});

test('a name that is neither an address nor localhost is foreign to a loopback listener, and to no other', () => {
  const own = ['127.0.0.1:8788', '192.0.2.7', '[::1]:8788', '[2001:db8::7]', 'localhost', 'LocalHost:9'];
  const foreign = [
    'evil.example',
    'evil.example:8788',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'relay',
    '',
  ];
  for (const host of ['127.0.0.1', '::1', 'localhost']) {
    expect(own.filter((header) => isForeignName(header, host))).toEqual([]);
    expect(foreign.filter((header) => !isForeignName(header, host))).toEqual([]);
  }
  for (const header of [...own, ...foreign]) expect(isForeignName(header, '0.0.0.0')).toBe(false);
});
