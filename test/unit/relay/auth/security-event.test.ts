/**
 * Deny entries out of security event tokens, against a real issuer. What the route answers is in
 * test/http/deny.test.ts.
 */
import { describe, expect, onTestFinished, test } from 'vitest';
import { hostFingerprint } from '../../../../src/protocol/public-key.ts';
import { Issuer } from '../../../../src/relay/auth/issuer.ts';
import { Jwks } from '../../../../src/relay/auth/jwks.ts';
import { DENY_EVENT, readDenyEvent } from '../../../../src/relay/auth/issuer.ts';
import { alice } from '../../../support/hosts.ts';
import {
  type LocalIssuer,
  type TokenChanges,
  accountToken,
  denyToken,
  issuerForTest,
} from '../../../support/local-issuer.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const NOON_S = Math.floor(NOON_MS / 1000);
const DAY_S = 86_400;
const HOST_FP = hostFingerprint(alice.key);
const NOBODY = { hostFp: null, clientId: null, account: null, org: null };

interface Reader {
  server: LocalIssuer;
  /** Returns what a token says, or why it is refused: `fault: reason`. */
  read: (token: string) => Promise<unknown>;
  /** The same of a token with this event. */
  readEvent: (event: Readonly<Record<string, unknown>>, changes?: TokenChanges) => Promise<unknown>;
}

async function reader(): Promise<Reader> {
  const server = await issuerForTest();
  const { jwksUrl, ...names } = server.settings;
  const jwks = new Jwks({
    url: jwksUrl,
    fetch,
    monotonicMs: () => 0,
    timers: new ManualTimers(),
    failed: () => undefined,
  });
  onTestFinished(() => jwks.close());
  const issuer = new Issuer({ ...names, jwks, nowMs: () => NOON_MS });
  const read = async (token: string): Promise<unknown> => {
    const answer = await readDenyEvent(token, issuer, NOON_MS);
    if (answer.type === 'JwtRefused') return `${answer.fault}: ${answer.reason}`;
    const { type: _type, ...event } = answer;
    return event;
  };
  return { server, read, readEvent: async (event, changes) => read(await denyToken(server.url, event, changes)) };
}

test.each<[Record<string, unknown>, object]>([
  [{ host_fp: HOST_FP }, { hostFp: HOST_FP }],
  [{ client_id: 'c' }, { clientId: 'c' }],
  [{ account: 'acme' }, { account: 'acme' }],
  [{ org: 'org-1' }, { org: 'org-1' }],
  [
    { host_fp: HOST_FP, client_id: 'c', account: 'acme', org: 'org-1' },
    { hostFp: HOST_FP, clientId: 'c', account: 'acme', org: 'org-1' },
  ],
  [{ account: 'acme', more: 1 }, { account: 'acme' }],
])('%j selects', async (event, selectors) => {
  const { readEvent } = await reader();
  expect(await readEvent(event)).toEqual({ ...NOBODY, reason: 'credential revoked', ...selectors });
});

test.each<[string, Record<string, unknown>]>([
  ['no selector', {}],
  ['an empty selector', { account: '' }],
  ['a selector that is null', { account: 'acme', org: null }],
  ['a selector that is no text', { client_id: 7 }],
  ['a selector with a control character', { org: 'a\u0000b' }],
  ['half a pair', { account: '\ud800' }],
  ['a fingerprint in capitals', { host_fp: HOST_FP.toUpperCase() }],
  ['a fingerprint as people see it', { host_fp: 'SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y' }],
  ['the key itself', { host_fp: alice.key }],
  ['no reason', { account: 'acme', reason: undefined }],
  ['a reason that is no text', { account: 'acme', reason: ['revoked'] }],
])('an event with %s is malformed', async (_what, event) => {
  const { readEvent } = await reader();
  expect(await readEvent(event)).toMatch(/^form: /);
});

test('a reason is cut, and never a reason to refuse', async () => {
  const { readEvent } = await reader();
  expect(await readEvent({ account: 'acme', reason: '' })).toMatchObject({ reason: '' });
  expect(await readEvent({ account: 'acme', reason: 'x'.repeat(1000) })).toMatchObject({ reason: 'x'.repeat(256) });
  // A pair of surrogates where it is cut.
  const reason = `${'x'.repeat(255)}😀`;
  expect(await readEvent({ account: 'acme', reason })).toMatchObject({ reason: `${'x'.repeat(255)}\ufffd` });
});

test.each<[string, unknown]>([
  ['none', undefined],
  ['a list', [DENY_EVENT]],
  ['an empty object', {}],
  ['of another kind', { 'urn:mail-relay:allow': { account: 'acme', reason: '' } }],
  ['two', { [DENY_EVENT]: { account: 'acme', reason: '' }, 'urn:other': {} }],
  ['one that is a text', { [DENY_EVENT]: 'acme' }],
  ['one that is null', { [DENY_EVENT]: null }],
])('events that are %s are malformed', async (_what, events) => {
  const { readEvent } = await reader();
  expect(await readEvent({}, { claims: { events } })).toMatch(/^form: /);
});

describe('who may say it, to whom, and when', () => {
  test.each<[string, TokenChanges, RegExp | 'taken']>([
    ['of another issuer', { claims: { iss: 'https://accounts.example' } }, /^claims: .*another issuer/],
    ['issued almost a day ago', { claims: { iat: NOON_S - DAY_S + 1 } }, 'taken'],
    ['issued a day and a second ago', { claims: { iat: NOON_S - DAY_S - 1 } }, /^claims: .*issue it anew/],
    ['that has expired', { claims: { exp: NOON_S } }, /^claims: .*expired/],
    ['of no type', { header: { typ: undefined as never } }, /^claims: .*no security event token/],
    ['of another type', { header: { typ: 'JWT' } }, /^claims: .*no security event token/],
    ['of the full media type, in capitals', { header: { typ: 'application/SecEvent+JWT' } }, 'taken'],
    ['of an unknown key', { header: { kid: 'key-9' } }, /^signature: /],
  ])('a token %s', async (_what, changes, said) => {
    const { readEvent } = await reader();
    const answer = await readEvent({ account: 'acme' }, changes);
    expect(typeof answer === 'string' ? answer : 'taken').toMatch(said);
  });

  test('an account token is no security event token, whatever it holds', async () => {
    const { server, read } = await reader();
    const claims = { events: { [DENY_EVENT]: { account: 'acme', reason: '' } } };
    expect(await read(await accountToken(server.url, alice, { claims }))).toMatch(/no security event token/);
  });
});
