import { expect, test } from 'vitest';
import { type RelayCheckFacts, noRelayCheck, relayChecks } from '../../../../src/host/doctor/relay-checks.ts';
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
const SKIPPED = { type: 'skipped' } as const;
const UNASKED = { signedLog: SKIPPED, you: SKIPPED, encKey: SKIPPED, senders: SKIPPED, queue: SKIPPED };
const shown = (changes: object) => ({ info: { type: 'seen', value: { ...infoOf(), ...changes } } as const });
const known = (changes: Partial<RelayCheckFacts['known']>) => ({ known: { ...GOOD.known, ...changes } });
const seen = <T>(value: T) => ({ type: 'seen', value }) as const;

function infoOf(): { fingerprint: string; epoch: string; aheadMs: number } {
  return { fingerprint: 'SHA256:pinned', epoch: 'E1', aheadMs: 12 };
}

const STATUS = 'poste relay status';
const TOKEN = `poste relay set ${URL} --token-file <file>`;
const ANEW = `poste relay unset && poste relay set ${URL} --key SHA256:pinned`;
/** What is shown is never what is to be typed. */
const CONFIRM = `poste relay set ${URL} --key SHA256:<the fingerprint that the relay's operator gives you>`;
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
  ['no log at all', { signedLog: SKIPPED }, []],
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
  ['a daemon whose token was refused', problem('ENROL_REFUSED'), [['broken', 'relay-link', TOKEN]]],
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

const IN_A_DAY = { validUntilMs: NOON_MS + 172_800_000 };

test.each<[given: string, id: string, when: Partial<RelayCheckFacts>, then: string]>([
  ['it answers', 'relay-reach', {}, `ok: ${URL} answers`],
  ['it does not', 'relay-reach', { info: FAILED, ...UNASKED }, `broken: ${URL} cannot be used: no answer in time`],
  ['its log is signed', 'relay-key', {}, 'ok: it is the pinned SHA256:pinned, and its log is signed by it'],
  ['its log is not shown', 'relay-key', { signedLog: SKIPPED }, 'ok: it is the pinned SHA256:pinned'],
  ['nothing was seen of its key', 'relay-key', { info: FAILED, ...UNASKED }, 'ok: SHA256:pinned is pinned'],
  ['its epoch is the known one', 'relay-epoch', {}, 'ok: E1'],
  [
    'the daemon knows no epoch',
    'relay-epoch',
    known({ epoch: null }),
    'note: E1, which the daemon has not entered yet',
  ],
  [
    'the clocks agree as they have to',
    'relay-clock',
    shown({ aheadMs: -30_000 }),
    "ok: this clock and the relay's agree within 30 seconds",
  ],
  [
    'this clock is ahead',
    'relay-clock',
    shown({ aheadMs: 30_001 }),
    "note: this clock is 30 seconds ahead of the relay's",
  ],
  [
    'this clock is behind, as far as hops are taken',
    'relay-clock',
    shown({ aheadMs: -300_000 }),
    "note: this clock is 5 minutes behind the relay's",
  ],
  [
    'this clock is farther behind',
    'relay-clock',
    shown({ aheadMs: -300_001 }),
    "broken: this clock is 5 minutes behind the relay's: it refuses whatever is off by more than 5 minutes",
  ],
  ['it knows this host', 'relay-enrolment', {}, 'ok: it knows this host'],
  ['it knows this host for a while', 'relay-enrolment', known(IN_A_DAY), 'ok: it knows this host, for 2 days more'],
  [
    'the enrolment runs out now',
    'relay-enrolment',
    known({ validUntilMs: NOON_MS }),
    'broken: the enrolment ran out a moment ago and was not renewed',
  ],
  [
    'the enrolment ran out',
    'relay-enrolment',
    known({ validUntilMs: NOON_MS - 7_200_000 }),
    'broken: the enrolment ran out 2 hours ago and was not renewed',
  ],
  ['it hands out the key', 'relay-enc-key', {}, "ok: it hands out this host's own key to seal to"],
  [
    'it hands out none',
    'relay-enc-key',
    { encKey: seen('none') },
    'broken: it hands out no key to seal to for this host: nobody can send here',
  ],
  [
    'it hands out another',
    'relay-enc-key',
    { encKey: seen('another') },
    'broken: it hands out another key to seal to than the one this host has now',
  ],
  ['it has the list', 'relay-senders', {}, 'ok: it takes mail for this host from the paired hosts and nobody else'],
  ['nothing waits', 'relay-queue', {}, 'ok: nothing waits there for this host'],
  [
    'it refused the host a minute ago and takes it now',
    'relay-link',
    problem('ENROL_REFUSED'),
    'broken: the daemon could not use it 60 seconds ago: it is so',
  ],
])('in words, of the relay: %s', (_given, id, when, then) => {
  const checks = relayChecks({ ...GOOD, ...when }, NOON_MS);
  expect(checks.flatMap((check) => (check.id === id ? [`${check.state}: ${check.sentence}`] : []))).toEqual([then]);
});

function ids(when: Partial<RelayCheckFacts>): string[] {
  return relayChecks({ ...GOOD, ...when }, NOON_MS).map(({ id }) => id);
}

test('a relay of version 1 tells no epoch and no clock, and nothing is said of them', () => {
  expect(ids({ isV1: true, ...UNASKED, ...shown({ epoch: null, aheadMs: null }) })).toEqual([
    'relay-reach',
    'relay-key',
  ]);
});

test('what the daemon ran into is not said again beside what explains it', () => {
  const { known: ran } = problem('UNREACHABLE');
  expect(ids({ known: ran })).toContain('relay-link');
  expect(ids({ known: ran, you: FAILED })).toContain('relay-link');
  expect(ids({ known: ran, info: FAILED, ...UNASKED })).not.toContain('relay-link');
  expect(ids({ known: ran, you: seen(null) })).not.toContain('relay-link');
  expect(ids({ known: ran, seen: { fingerprint: 'SHA256:new', atMs: 1 }, ...UNASKED })).not.toContain('relay-link');
});

test('a queue is only said to have gone back where the relay says how far it goes', () => {
  const checks = relayChecks({ ...GOOD, you: FAILED, ...known({ receivedThrough: 9 }) }, NOON_MS);
  expect(checks.find(({ id }) => id === 'relay-queue')?.state).toBe('ok');
});

test.each<[code: string, command: string]>([
  ['CERTIFICATE_NOT_TRUSTED', `poste relay set ${URL} --ca <file with the certificate of its authority>`],
  ['UNREACHABLE', `curl -i ${URL}/v2/relay/info`],
])('a relay that cannot be used for %s is looked at with what shows that', (code, command) => {
  const [reach] = relayChecks({ ...GOOD, info: { ...FAILED, code }, ...UNASKED }, NOON_MS);
  expect(reach?.command).toBe(command);
});

test.each<[given: string, proof: RelayCheckFacts['proof'], then: string]>([
  ['no token', null, ANEW],
  ['a token in a file', { type: 'file', path: '/a token' }, `${ANEW} --token-file '/a token'`],
  ['a token of a command', { type: 'command', command: 'tell' }, `${ANEW} --token-command tell`],
])('a host is enrolled anew with what enrolled it: %s', (_given, proof, then) => {
  const check = relayChecks({ ...GOOD, proof, encKey: seen('none') }, NOON_MS).find(({ id }) => id === 'relay-enc-key');
  expect(check?.command).toBe(then);
});

function queueSentence(items: number, more: boolean): string | undefined {
  const checks = relayChecks({ ...GOOD, queue: seen({ items, more }) }, NOON_MS);
  return checks.find(({ id }) => id === 'relay-queue')?.sentence;
}

test('what waits is counted as people count', () => {
  expect(queueSentence(1, false)).toBe('1 item waits there and was not taken yet');
  expect(queueSentence(2, false)).toBe('2 items wait there and were not taken yet');
  expect(queueSentence(1, true)).toBe('more than 1 item waits there and was not taken yet');
  expect(queueSentence(20, true)).toBe('more than 20 items wait there and were not taken yet');
});

test('without a relay it depends on whether the LAN reaches everybody', () => {
  expect(noRelayCheck(false)).toMatchObject({ state: 'ok', command: null });
  expect(noRelayCheck(true)).toMatchObject({ state: 'note', command: 'poste relay set <url>' });
});
