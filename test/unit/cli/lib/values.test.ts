import { expect, test } from 'vitest';
import { lanAddress, wholeNumber } from '../../../../src/cli/lib/values.ts';

test('wholeNumber takes decimal digits from its least on', () => {
  expect([wholeNumber(1)('1'), wholeNumber(0)('0'), wholeNumber(1)('9007199254740991')]).toEqual([1, 0, 2 ** 53 - 1]);
  for (const text of ['0', '', '-1', '+1', '1.0', '1e3', '0x1', ' 1', '9007199254740992', 'Infinity']) {
    expect(() => wholeNumber(1)(text)).toThrow('It must be a whole number, at least 1.');
  }
});

test('lanAddress takes an address with a port, as it is written', () => {
  for (const text of ['192.168.1.7:8789', '[fd00::7]:1', 'desk.local:65535']) expect(lanAddress(text)).toBe(text);
  for (const text of ['', '192.168.1.7', '192.168.1.7:', '192.168.1.7:0', 'fd00::7:8789', '[fd00::7]', 'a b:1']) {
    expect(() => lanAddress(text)).toThrow('It must be host:port, as in 192.168.1.7:8789 or [fd00::7]:8789.');
  }
});
