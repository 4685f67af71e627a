import { describe, expect, test } from 'vitest';
import { isSameHost, isSameName, parseAddress, partsOfAddress } from '../../../../src/host/core/address.ts';

describe('the forms of an address', () => {
  test.each([
    ['reviewer', { type: 'agent', name: 'reviewer', host: null }],
    ['Re.View_er-2', { type: 'agent', name: 'Re.View_er-2', host: null }],
    ['owner', { type: 'agent', name: 'owner', host: null }],
    ['owner@laptop', { type: 'agent', name: 'owner', host: 'laptop' }],
    ['bob@lap.top-1', { type: 'agent', name: 'bob', host: 'lap.top-1' }],
    ['role:tester', { type: 'role', role: 'tester' }],
    ['*', { type: 'everyone' }],
  ])('%s is one', (text, form) => {
    expect(parseAddress(text)).toEqual({ ...form, text });
  });

  test.each([
    '',
    ' bob',
    'bob ',
    'bob smith',
    '.bob',
    'bob@',
    '@laptop',
    'bob@@laptop',
    'bob@lap@top',
    'bob@-laptop',
    'bob@laptop.',
    'role:',
    'role:a b',
    'role:tester@laptop',
    'Role:tester',
    '*@laptop',
    '**',
    'bób',
    'bob\n',
    'a'.repeat(65),
    `bob@${'h'.repeat(64)}`,
  ])('%j is none', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  test('a concrete address has a name and a host', () => {
    expect(partsOfAddress('bob@laptop')).toEqual({ name: 'bob', host: 'laptop' });
    expect(partsOfAddress('bob')).toBeUndefined();
    expect(partsOfAddress('*')).toBeUndefined();
    expect(partsOfAddress('not one')).toBeUndefined();
  });
});

test('names and hosts are the same without case', () => {
  expect([isSameName('Bob', 'bOB'), isSameName('bob', 'rob')]).toEqual([true, false]);
  expect([isSameHost('Lap.Top', 'lap.top'), isSameHost('laptop', 'desktop')]).toEqual([true, false]);
});
