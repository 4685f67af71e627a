/** The address of a log: several servers, TLS beyond this machine, and no way around it. */
import { describe, expect, test } from 'vitest';
import { logEndpoints } from '../../../../src/relay/shared-log/log-address.ts';
import { LogRefused } from '../../../../src/relay/shared-log/shared-log.ts';

const modes = (address: string): (string | null)[] =>
  logEndpoints(address).map(({ url }) => new URL(url).searchParams.get('sslmode'));

describe('the address of a log', () => {
  test('names several servers, each with the user, the password and the parameters', () => {
    const endpoints = logEndpoints('postgres://relay@one:5433,[2001:db8::1]/mail?sslrootcert=ca.pem', 'p@ss/word');
    expect(endpoints.map(({ host, port, name }) => [host, port, name])).toEqual([
      ['one', 5433, 'one:5433/mail'],
      ['2001:db8::1', 5432, '[2001:db8::1]:5432/mail'],
    ]);
    for (const { url } of endpoints) {
      const { username, password, searchParams } = new URL(url);
      expect([username, decodeURIComponent(password)]).toEqual(['relay', 'p@ss/word']);
      expect(searchParams.get('sslrootcert')).toBe('ca.pem');
    }
  });

  test('is checked beyond this machine, and only there left alone', () => {
    expect(modes('postgres://u@db.example,127.0.0.1,localhost,[::1],127.0.0.1.example,127.example/mail')).toEqual([
      'verify-full',
      null,
      null,
      null,
      'verify-full',
      'verify-full',
    ]);
    for (const mode of ['disable', 'prefer', 'require', 'no-verify'])
      expect(() => logEndpoints(`postgres://u@db.example/mail?sslmode=${mode}`)).toThrow(LogRefused);
  });

  test.each([
    'postgres://u@127.0.0.1/mail?host=db.example',
    'postgres://u@db.example/mail?ssl=0',
    'postgres://u@db.example/mail?sslmode=verify-full&sslmode=disable',
    'postgres://u@db.example/mail?password=secret',
    'postgres://u:secret@db.example/',
    'postgres://u:secret@db.example:port/mail',
    'mysql://u:secret@db.example/mail',
  ])('%s is refused, and the message shows no password', (address) => {
    expect(() => logEndpoints(address)).toThrow(LogRefused);
    expect(() => logEndpoints(address)).not.toThrow('secret');
  });

  test('does not hold a password when a file does', () => {
    expect(() => logEndpoints('postgres://u:secret@db.example/mail', 'other')).toThrow('there is a password file');
  });
});
