import { InvalidArgumentError } from 'commander';
import { describe, expect, test } from 'vitest';
import {
  inviteLabel,
  issuerUrl,
  limitsOverridden,
  listenAddress,
  listenAddressOrOff,
  moment,
  seconds,
  span,
  trustedUrl,
  webUrl,
} from '../../../../src/cli/relay/values.ts';
import { DEFAULT_LIMITS } from '../../../../src/protocol/limits.ts';

describe('listenAddress', () => {
  test.each([
    ['127.0.0.1:8787', { host: '127.0.0.1', port: 8787 }],
    ['localhost:0', { host: 'localhost', port: 0 }],
    ['[::1]:65535', { host: '::1', port: 65_535 }],
    ['[::ffff:127.0.0.1]:1', { host: '::ffff:127.0.0.1', port: 1 }],
  ])('%s', (text, address) => {
    expect(listenAddress(text)).toEqual(address);
    expect(listenAddressOrOff(text)).toEqual(address);
  });

  test.each([
    '',
    ':',
    ':80',
    '127.0.0.1',
    '127.0.0.1:',
    '127.0.0.1:65536',
    '127.0.0.1:-1',
    '127.0.0.1:8e3',
    '::1:80',
    '[::1]',
    '[x]:1',
    'a b:1',
    '127.0.0.1:80 ',
    'off',
  ])('%j is none', (text) => {
    expect(() => listenAddress(text)).toThrow(InvalidArgumentError);
  });

  test('off', () => {
    expect(listenAddressOrOff('off')).toBeUndefined();
    expect(() => listenAddressOrOff('OFF')).toThrow(InvalidArgumentError);
  });
});

describe('URLs are taken as they are written', () => {
  test.each(['https://a.example', 'https://A.example/', 'https://a.example:8443/b/', 'http://127.0.0.1:9000/c'])(
    '%s',
    (text) => {
      for (const parse of [webUrl, trustedUrl, issuerUrl]) expect(parse(text)).toBe(text);
    },
  );

  test.each(['', 'a.example', '//a.example', 'https:a.example', 'https://', 'ftp://a.example', 'https://a b.example'])(
    '%j is none',
    (text) => {
      for (const parse of [webUrl, trustedUrl, issuerUrl]) expect(() => parse(text)).toThrow(InvalidArgumentError);
    },
  );

  test.each(['https://u@a.example', 'https://u:p@a.org', 'https://a.example/#', 'https://ä.example', ' https://a'])(
    '%j is none either',
    (text) => {
      expect(() => webUrl(text)).toThrow(InvalidArgumentError);
    },
  );

  test('one that only names may be plain http; one that keys come from may not, unless it is of this machine', () => {
    expect(webUrl('http://a.example/?q')).toBe('http://a.example/?q');
    expect(() => trustedUrl('http://a.example')).toThrow(InvalidArgumentError);
    expect(trustedUrl('https://a.example/jwks?tenant=1')).toBe('https://a.example/jwks?tenant=1');
    expect(() => issuerUrl('https://a.example/?tenant=1')).toThrow(InvalidArgumentError);
  });

  test.each([
    'https://accounts.example/jwks',
    'http://127.0.0.1:9000/jwks',
    'http://127.9.9.9/',
    'http://[::1]:9000/',
    'http://localhost/',
  ])('%s may bring keys', (url) => {
    expect(trustedUrl(url)).toBe(url);
  });

  test.each([
    'http://accounts.example/',
    'http://127.0.0.1.example/',
    'http://localhost.example/',
    'http://192.168.0.1/',
    'ftp://127.0.0.1/',
    'file:///etc/passwd',
  ])('%s may not', (url) => {
    expect(() => trustedUrl(url)).toThrow(InvalidArgumentError);
  });
});

describe('limitsOverridden', () => {
  test('puts the given limits over the documented ones', () => {
    expect(limitsOverridden('{}')).toEqual(DEFAULT_LIMITS);
    const given = { retention_days: 0.001, max_batch: 1, max_queue_bytes: Number.MAX_SAFE_INTEGER };
    expect(limitsOverridden(JSON.stringify(given))).toEqual({ ...DEFAULT_LIMITS, ...given });
    expect(DEFAULT_LIMITS.max_batch).toBe(200);
  });

  test.each([
    ['', 'It must be a JSON object'],
    ['{', 'It must be a JSON object'],
    ['[]', 'It must be a JSON object'],
    ['null', 'It must be a JSON object'],
    ['5', 'It must be a JSON object'],
    ['{"max_everything":1}', 'There is no limit max_everything'],
    ['{"retension_days":1}', 'There is no limit retension_days (did you mean retention_days?).'],
    ['{"__proto__":1}', 'There is no limit __proto__'],
    ['{"toString":1}', 'There is no limit toString'],
    ['{"max_batch":0}', 'max_batch must be a number above 0'],
    ['{"max_batch":-1}', 'max_batch must be a number above 0'],
    ['{"max_batch":null}', 'max_batch must be a number above 0'],
    ['{"max_batch":"5"}', 'max_batch must be a number above 0'],
    ['{"max_batch":1e400}', 'max_batch must be a number above 0'],
    ['{"max_batch":1.5}', 'max_batch must be a whole number'],
    ['{"retention_days":0}', 'retention_days must be a number above 0 and at most 3650'],
    ['{"retention_days":3651}', 'retention_days must be a number above 0 and at most 3650'],
  ])('%j: %s', (text, said) => {
    expect(() => limitsOverridden(text)).toThrow(said);
  });
});

test('seconds takes fractions above 0, up to a day', () => {
  expect(['1', '0.5', '86400'].map(seconds)).toEqual([1, 0.5, 86_400]);
  for (const text of ['0', '0.0', '', '-1', '.5', '1.', '1e3', '86400.1', 'x']) {
    expect(() => seconds(text)).toThrow('It must be a number of seconds above 0');
  }
});

describe('spans and labels', () => {
  test.each([
    ['1m', 60_000],
    ['30m', 1_800_000],
    ['12h', 43_200_000],
    ['7d', 604_800_000],
    ['365d', 31_536_000_000],
    ['525600m', 31_536_000_000],
  ])('%s is a time', (text, ms) => {
    expect(span('7d')(text)).toBe(ms);
  });

  test.each([
    '',
    '7',
    'd',
    '0m',
    '0d',
    '-1d',
    '+1d',
    '1.5h',
    '366d',
    '525601m',
    '1w',
    '1s',
    '7D',
    ' 7d',
    '1e3m',
    '7d\n',
    'h',
    '9999999m',
  ])('%j is none', (text) => {
    expect(() => span('7d or 12h')(text)).toThrow('It must be a time from 1m to 365d, for example 7d or 12h.');
  });

  test('a label is up to 100 printable characters', () => {
    for (const text of ['', "Ada's laptop", 'Grüße', 'x'.repeat(100)]) expect(inviteLabel(text)).toBe(text);
    for (const text of ['x'.repeat(101), 'a\nb', '\u001b[2J', 'a\u202eb', '\ud800']) {
      expect(() => inviteLabel(text)).toThrow('It must be at most 100 printable characters.');
    }
  });
});

describe('moment', () => {
  test.each([
    ['2025-11-20', Date.UTC(2025, 10, 20)],
    ['2025-11-20T21:48', Date.UTC(2025, 10, 20, 21, 48)],
    ['2025-11-20 21:48:23', Date.UTC(2025, 10, 20, 21, 48, 23)],
    ['2025-11-20T21:48:23.5Z', Date.UTC(2025, 10, 20, 21, 48, 23, 500)],
    ['2025-11-20T21:48+02:00', Date.UTC(2025, 10, 20, 19, 48)],
    ['2025-11-20T21:48:23.000Z', 1_763_675_303_000],
  ])('%j is a time', (text, timeMs) => {
    expect(moment(text)).toBe(timeMs);
  });

  test.each([
    '1763675303000',
    '',
    'now',
    '2025',
    '2025-11',
    '2025-13-01',
    '2025-02-30',
    '2025-11-20T25:00Z',
    '0',
    '-1',
    '1.5',
    '1763675303000',
    '2025-11-20Z',
  ])('%j is none', (text) => {
    expect(() => moment(text)).toThrow('It must be a time, for example 2025-11-20');
  });
});
