import { expect, test } from 'vitest';
import { type RelayCheckFacts, noRelayCheck, relayChecks } from '../../../../src/host/core/doctor/relay-checks.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const URL = 'https://relay.example';
const GOOD: RelayCheckFacts = {
  url: URL,
  isV1: false,
  proof: null,
  pinned: 'SHA256:pinned',
  seen: null,
  known: { epoch: 'E1', problem: null, validUntilMs: null, isCrowded: false, receivedThrough: 5 },
  info: { type: 'seen', value: { fingerprint: 'SHA256:pinned', epoch: 'E1', aheadMs: 12 } },
  signedLog: { type: 'seen', value: 'proven' },
  you: { type: 'seen', value: { headSeq: 5, ackedThrough: 5 } },
  encKey: { type: 'seen', value: 'own' },
  senders: { type: 'seen', value: 'as-paired' },
  queue: { type: 'seen', value: { items: 0, more: false } },
};
const FAILED = { type: 'failed', reason: 'no answer in time' } as const;
const NOT_LOOKED = { type: 'not-looked' } as const;
const UNASKED = { signedLog: NOT_LOOKED, you: NOT_LOOKED, encKey: NOT_LOOKED, senders: NOT_LOOKED, queue: NOT_LOOKED };
const shown = (changes: object) => ({ info: { type: 'seen', value: { ...infoOf(), ...changes } } as const });
const known = (changes: Partial<RelayCheckFacts['known']>) => ({ known: { ...GOOD.known, ...changes } });
const seen = <T>(value: T) => ({ type: 'seen', value }) as const;

function infoOf(): { fingerprint: string; epoch: string; aheadMs: number } {
  return { fingerprint: 'SHA256:pinned', epoch: 'E1', aheadMs: 12 };
}

const STATUS = 'poste relay status';
const TOKEN = `poste relay set ${URL} --token-file <file>`;
const ANEW = `poste relay unset && poste relay set ${URL} --key SHA256:pinned`;
const CONFIRM = `poste relay set ${URL} --key SHA256:new`;
const problem = (code: string) => known({ problem: { code, message: 'it is so', atMs: NOON_MS - 60_000 } });

test.each<[given: string, when: Partial<RelayCheckFacts>, then: unknown[]]>([
  ['the pinned relay, and everything as it should be', {}, []],
  ['no answer', { info: FAILED, ...UNASKED }, [['broken', 'relay-reach', `curl -i ${URL}/v2/relay/info`]]],
  ['another key', { ...shown({ fingerprint: 'SHA256:new' }), ...UNASKED }, [['broken', 'relay-key', CONFIRM]]],
  [
    'another key once, and the pinned one again',
    { seen: { fingerprint: 'SHA256:new', atMs: 1 }, ...UNASKED },
    [['broken', 'relay-key', CONFIRM]],
  ],
  [
    'another key before, and no answer now',
    { seen: { fingerprint: 'SHA256:new', atMs: 1 }, info: FAILED, ...UNASKED },
    [
      ['broken', 'relay-reach', `curl -i ${URL}/v2/relay/info`],
      ['broken', 'relay-key', CONFIRM],
    ],
  ],
  [
    'a log that the pinned key did not sign',
    { signedLog: seen('not-signed') },
    [['broken', 'relay-key', `curl -i ${URL}/v2/relay/log/checkpoint`]],
  ],
  ['a log of another epoch', { signedLog: seen('another-epoch') }, [['note', 'relay-epoch', 'poste doctor']]],
  ['no log at all', { signedLog: NOT_LOOKED }, []],
  [
    'a relay of version 1',
    { isV1: true, ...UNASKED, ...shown({ epoch: null, aheadMs: null }) },
    [['note', 'relay-key', null]],
  ],
  ['a new epoch', shown({ epoch: 'E2' }), [['note', 'relay-epoch', STATUS]]],
  ['an epoch that the daemon has not entered', known({ epoch: null }), [['note', 'relay-epoch', STATUS]]],
  ['a clock that is a minute off', shown({ aheadMs: 60_000 }), [['note', 'relay-clock', 'timedatectl']]],
  [
    'a clock that hops are refused for',
    shown({ aheadMs: -301_000 }),
    [['broken', 'relay-clock', 'timedatectl set-ntp true']],
  ],
  ['a host that it does not know', { you: seen(null) }, [['broken', 'relay-enrolment', STATUS]]],
  ['a host that it refused', { you: seen(null), ...problem('ENROL_REFUSED') }, [['broken', 'relay-enrolment', TOKEN]]],
  ['an enrolment that ran out', known({ validUntilMs: NOON_MS - 1 }), [['broken', 'relay-enrolment', TOKEN]]],
  [
    'an enrolment that ran out, whose token is fetched',
    { ...known({ validUntilMs: NOON_MS - 1 }), proof: { type: 'file', path: '/t' } },
    [['broken', 'relay-enrolment', STATUS]],
  ],
  ['an enrolment for a while', known({ validUntilMs: NOON_MS + 1 }), []],
  ['a crowded name', known({ isCrowded: true }), [['note', 'relay-enrolment', null]]],
  ['no key to seal to', { encKey: seen('none') }, [['broken', 'relay-enc-key', ANEW]]],
  ['another key to seal to', { encKey: seen('another') }, [['broken', 'relay-enc-key', ANEW]]],
  [
    'a key to seal to that is not signed, of a host with a token',
    { encKey: seen('not-signed'), proof: { type: 'command', command: "tell 'me'" } },
    [['broken', 'relay-enc-key', `${ANEW} --token-command 'tell '\\''me'\\'''`]],
  ],
  ['another list of senders', { senders: seen('another') }, [['broken', 'relay-senders', ANEW]]],
  ['no list of senders yet', { senders: seen('not-published') }, [['note', 'relay-senders', STATUS]]],
  ['what waits', { queue: seen({ items: 1, more: false }) }, [['note', 'relay-queue', null]]],
  ['a queue that went back in time', known({ receivedThrough: 9 }), [['note', 'relay-queue', STATUS]]],
  ['a daemon that could not use it', problem('RATE_LIMITED'), [['note', 'relay-link', STATUS]]],
  ['a daemon that something else kept from it', problem('HTTP_200'), [['broken', 'relay-link', STATUS]]],
  [
    'another key, in another epoch, with another clock, before the daemon saw it',
    { ...shown({ fingerprint: 'SHA256:new', epoch: 'E2', aheadMs: 1e9 }), ...UNASKED, ...problem('NOT_ENROLLED') },
    [['broken', 'relay-key', CONFIRM]],
  ],
  ['a daemon without a token', problem('NO_TOKEN'), [['broken', 'relay-link', TOKEN]]],
])('of the relay: %s', (_given, when, then) => {
  const checks = relayChecks({ ...GOOD, ...when }, NOON_MS);
  const wrong = checks.flatMap(({ id, state, command }) => (state === 'ok' ? [] : [[state, id, command]]));
  expect(wrong).toEqual(then);
});

test('a look that failed hides no other, and is itself said', () => {
  const checks = relayChecks({ ...GOOD, you: FAILED, encKey: FAILED, senders: FAILED, queue: FAILED }, NOON_MS);
  expect(checks.filter(({ state }) => state === 'note').map(({ id }) => id)).toEqual([
    'relay-enrolment',
    'relay-enc-key',
    'relay-senders',
    'relay-queue',
  ]);
  expect(checks.map(({ id, state }) => `${id} ${state}`)).toContain('relay-clock ok');
});

function queueSentence(items: number, more: boolean): string | undefined {
  const checks = relayChecks({ ...GOOD, queue: seen({ items, more }) }, NOON_MS);
  return checks.find(({ id }) => id === 'relay-queue')?.sentence;
}

test('what waits is counted as people count', () => {
  expect(queueSentence(1, false)).toBe('1 item waits there and was not taken yet');
  expect(queueSentence(20, true)).toBe('more than 20 items wait there and were not taken yet');
});

test('without a relay it depends on whether the LAN reaches everybody', () => {
  expect(noRelayCheck(false)).toMatchObject({ state: 'ok', command: null });
  expect(noRelayCheck(true)).toMatchObject({ state: 'note', command: 'poste relay set <url>' });
});
