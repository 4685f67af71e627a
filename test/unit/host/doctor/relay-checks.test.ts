import { describe, expect, test } from 'vitest';
import {
  doubtCheck,
  type RelayCheckFacts,
  noRelayCheck,
  ownKeyChecks,
  relayChecks,
} from '../../../../src/host/doctor/relay-checks.ts';
import type { HostKey } from '../../../../src/host/core/rows.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const URL = 'https://relay.example';
const GOOD: RelayCheckFacts = {
  url: URL,
  isV1: false,
  proof: null,
  pinned: 'SHA256:pinned',
  seen: null,
  known: {
    epoch: 'E1',
    problem: null,
    validUntilMs: null,
    isCrowded: false,
    receivedThrough: 5,
    retentionDays: 14,
    avoidedUntilMs: 0,
  },
  info: { type: 'seen', value: { fingerprint: 'SHA256:pinned', epoch: 'E1', aheadMs: 12 } },
  signedLog: { type: 'seen', value: 'proven' },
  you: { type: 'seen', value: { headSeq: 5, ackedThrough: 5 } },
  encKey: { type: 'seen', value: 'own' },
  senders: { type: 'seen', value: 'as-paired' },
  queue: { type: 'seen', value: { items: 0, more: false } },
  evidence: [],
  witnesses: { type: 'skipped' },
};
const FAILED = { type: 'failed', reason: 'no answer in time' } as const;
const SKIPPED = { type: 'skipped' } as const;
const UNASKED = { signedLog: SKIPPED, you: SKIPPED, encKey: SKIPPED, senders: SKIPPED, queue: SKIPPED };
const seen = <T>(value: T) => ({ type: 'seen', value }) as const;
const shown = (changes: object) => ({
  info: seen({ fingerprint: 'SHA256:pinned', epoch: 'E1', aheadMs: 12, ...changes }),
});
const known = (changes: Partial<RelayCheckFacts['known']>) => ({ known: { ...GOOD.known, ...changes } });
const aheadMs = (ms: number) => shown({ aheadMs: ms });
const hasSeen = (fingerprint: string) => ({ seen: { fingerprint, atMs: 1 }, ...UNASKED });

const STATUS = 'poste relay status';
const CURL = `curl -i ${URL}/v2/relay/info`;
const NTP = 'timedatectl set-ntp true';
const TOKEN = `poste relay set ${URL} --token-file <file>`;
const ANEW = `poste relay set ${URL} --key SHA256:pinned`;
/** The key that is shown is never the one to be typed. */
const CONFIRM = `poste relay set ${URL} --key SHA256:<the fingerprint that the relay's operator gives you>`;
const problem = (code: string) => known({ problem: { code, message: 'it is so', atMs: NOON_MS - 60_000 } });
const LOG = `curl -i ${URL}/v2/relay/log/checkpoint`;
const V1 = { isV1: true, ...UNASKED, ...shown({ epoch: null, aheadMs: null }) };
const UNSEEN_ENROLMENT = 'note relay-enrolment > poste doctor';
const BEHIND = "this clock is 5 minutes behind the relay's";
const RAN_OUT = 'the enrolment ran out';
const TWO_HOURS_AGO = { validUntilMs: NOON_MS - 7_200_000 };
const NO_KEY = 'it hands out no key to seal to for this host';
const ANOTHER_KEY = 'it hands out another key to seal to';
const proof = (number: number) => ({ number, clause: `did so ${number}`, isTwoHistories: true });
const word = (number: number) => ({ number, clause: `did so ${number}`, isTwoHistories: false });
const EVIDENCE = 'poste relay evidence show';
const BOTH = 'either its operator lies, or somebody put a copy of its store back without poste relay rotate-epoch';
const queue = (items: number, more = false) => ({ queue: seen({ items, more }) });

const DAY = 86_400_000;
const witness = (fault: string | null, agoMs: number, hasGrown = true) => ({
  witnesses: seen([{ name: 'w.example', fault, lastMs: NOON_MS - agoMs, hasGrown }]),
});
const WITNESS = 'relay-witness > poste doctor';

/** Each check that is not well, as `state id > command`. */
test.each<[given: string, when: Partial<RelayCheckFacts>, ...wrong: string[]]>([
  ['a log that the pinned key did not sign', { signedLog: seen('not-signed') }, `broken relay-key > ${LOG}`],
  ['a log of another epoch', { signedLog: seen('another-epoch') }, 'note relay-epoch > poste doctor'],
  ['a witness that cosigned', witness(null, 60_000)],
  ['a witness that did not within the hour', witness('its cosignature is old', 7_200_000), `note ${WITNESS}`],
  ['no cosignature for a day of an idle log', witness('it is old', DAY, false), `note ${WITNESS}`],
  ['no cosignature for a day in which the log grew', witness('it is old', DAY), `broken ${WITNESS}`],
  ['a relay that shows none', { witnesses: FAILED }, `note ${WITNESS}`],
  ['another key', { ...shown({ fingerprint: 'SHA256:new' }), ...UNASKED }, `broken relay-key > ${CONFIRM}`],
  ['another key once, and the pinned one again', hasSeen('SHA256:new'), `broken relay-key > ${CONFIRM}`],
  [
    'another key before, and no answer now',
    { ...hasSeen('SHA256:new'), info: FAILED },
    `broken relay-reach > ${CURL}`,
    `broken relay-key > ${CONFIRM}`,
  ],
  [
    'another key, in another epoch, with another clock, before the daemon saw it',
    { ...shown({ fingerprint: 'SHA256:new', epoch: 'E2', aheadMs: 1e9 }), ...UNASKED, ...problem('NOT_ENROLLED') },
    `broken relay-key > ${CONFIRM}`,
  ],
  ['a relay of version 1', V1, 'note relay-key > null'],
  ['a new epoch', shown({ epoch: 'E2' }), `note relay-epoch > ${STATUS}`],
  ['a clock that is a minute off', aheadMs(60_000), 'note relay-clock > timedatectl'],
  ['a host that it does not know', { you: seen(null) }, `broken relay-enrolment > ${STATUS}`],
  ['a host that it refused', { you: seen(null), ...problem('ENROL_REFUSED') }, `broken relay-enrolment > ${TOKEN}`],
  [
    'an enrolment that ran out, whose token is fetched',
    { ...known({ validUntilMs: NOON_MS - 1 }), proof: { type: 'file', path: '/t' } },
    `broken relay-enrolment > ${STATUS}`,
  ],
  ['an enrolment that runs out in a millisecond', known({ validUntilMs: NOON_MS + 1 })],
  ['a crowded name', known({ isCrowded: true }), 'note relay-enrolment > null'],
  [
    'a key to seal to that is not signed, of a host with a token',
    { encKey: seen('not-signed'), proof: { type: 'command', command: "tell 'me'" } },
    `broken relay-enc-key > ${ANEW} --token-command 'tell '\\''me'\\'''`,
  ],
  ['another list of senders', { senders: seen('another') }, `broken relay-senders > ${ANEW}`],
  ['no list of senders yet', { senders: seen('not-published') }, `note relay-senders > ${STATUS}`],
  ['a queue that went back in time', known({ receivedThrough: 9 }), `note relay-queue > ${STATUS}`],
  // That is only seen where the relay says how far its queue goes.
  ['a queue of which it says nothing', { you: FAILED, ...known({ receivedThrough: 9 }) }, UNSEEN_ENROLMENT],
  ['two histories', { evidence: [proof(2)] }, `broken relay-evidence > ${EVIDENCE} 2`],
  ['words without proof', { evidence: [word(3)] }, `note relay-evidence > ${EVIDENCE} 3`],
  [
    'both, the oldest of each',
    { evidence: [word(1), proof(2), word(3), proof(4)] },
    `broken relay-evidence > ${EVIDENCE} 2`,
    `note relay-evidence > ${EVIDENCE} 1`,
  ],
  ['a daemon that could not use it', problem('RATE_LIMITED'), `note relay-link > ${STATUS}`],
  ['a daemon that something else kept from it', problem('HTTP_200'), `broken relay-link > ${STATUS}`],
  ['a daemon without a token', problem('NO_TOKEN'), `broken relay-link > ${TOKEN}`],
  [
    'looks that failed, which hide no other',
    { you: FAILED, encKey: FAILED, senders: FAILED, queue: FAILED },
    ...['enrolment', 'enc-key', 'senders', 'queue'].map((name) => `note relay-${name} > poste doctor`),
  ],
])('of the relay: %s', (_given, when, ...then) => {
  const checks = relayChecks({ ...GOOD, ...when }, NOON_MS);
  const wrong = checks.filter(({ state }) => state !== 'ok');
  expect(wrong.map(({ state, id, command }) => `${state} ${id} > ${command}`)).toEqual(then);
});

const ANOTHER = { isOtherWell: true, silentMs: 0 };
const LIST = 'poste relay list';
const AWAY = { info: FAILED, ...UNASKED };

test.each<[given: string, when: Partial<RelayCheckFacts>, ...wrong: string[]]>([
  ['away, while another one answers', { ...AWAY, among: ANOTHER }, `note relay-reach > ${LIST}`],
  ['away for almost a day', { ...AWAY, among: { ...ANOTHER, silentMs: DAY - 1 } }, `note relay-reach > ${LIST}`],
  ['away for a day', { ...AWAY, among: { ...ANOTHER, silentMs: DAY } }, `broken relay-reach > ${CURL}`],
  ['away, as all are', { ...AWAY, among: { ...ANOTHER, isOtherWell: false } }, `broken relay-reach > ${CURL}`],
  ['under another key', { ...hasSeen('SHA256:new'), among: ANOTHER }, `broken relay-key > ${CONFIRM}`],
  // It keeps its place and its role.
  ['with another list of senders', { senders: seen('another'), among: ANOTHER }, `broken relay-senders > ${ANEW}`],
  [
    'that said too early that a time was up',
    { ...known({ avoidedUntilMs: NOON_MS + 1 }), among: ANOTHER },
    `note relay-doubt > ${LIST}`,
  ],
  ['that said so a day ago', { ...known({ avoidedUntilMs: NOON_MS }), among: ANOTHER }],
  ['that said so, and is the only one', known({ avoidedUntilMs: NOON_MS + 1 })],
  ['keeping mail for 61 days', known({ retentionDays: 61 }), 'note relay-retention > null'],
  ['keeping mail for 60 days', known({ retentionDays: 60 })],
])('of several relays, one %s', (_given, when, ...then) => {
  const wrong = relayChecks({ ...GOOD, ...when }, NOON_MS).filter(({ state }) => state !== 'ok');
  expect(wrong.map(({ state, id, command }) => `${state} ${id} > ${command}`)).toEqual(then);
});

test('a relay on which everything is as it should be', () => {
  const checks = relayChecks(GOOD, NOON_MS);
  expect(checks.map(({ id, state, sentence }) => `${id} ${state}: ${sentence}`)).toEqual([
    `relay-reach ok: ${URL} answers`,
    'relay-key ok: it is the pinned SHA256:pinned, and its log is signed by it',
    'relay-epoch ok: E1',
    'relay-evidence ok: nothing that it signed contradicts what it signed before',
    "relay-clock ok: this clock and the relay's agree within 30 seconds",
    'relay-enrolment ok: it knows this host',
    "relay-enc-key ok: it hands out this host's own key to seal to",
    'relay-senders ok: it takes mail for this host from the paired hosts and nobody else',
    'relay-queue ok: nothing waits there for this host',
  ]);
});

/** The one check that a change is about, in words and with its command; no other is broken or noted. */
test.each<[says: string, command: string | null, when: Partial<RelayCheckFacts>]>([
  [`relay-reach broken: ${URL} cannot be used: no answer in time`, CURL, { info: FAILED, ...UNASKED }],
  ['relay-key ok: it is the pinned SHA256:pinned', null, { signedLog: SKIPPED }],
  ['relay-epoch note: E1, which the daemon has not entered yet', STATUS, known({ epoch: null })],
  ["relay-clock ok: this clock and the relay's agree within 30 seconds", null, aheadMs(-30_000)],
  ["relay-clock note: this clock is 30 seconds ahead of the relay's", 'timedatectl', aheadMs(30_001)],
  [`relay-clock note: ${BEHIND}`, 'timedatectl', aheadMs(-300_000)],
  [`relay-clock broken: ${BEHIND}: it refuses whatever is off by more than 5 minutes`, NTP, aheadMs(-300_001)],
  ['relay-enrolment ok: it knows this host, for 2 days more', null, known({ validUntilMs: NOON_MS + 172_800_000 })],
  [`relay-enrolment broken: ${RAN_OUT} a moment ago and was not renewed`, TOKEN, known({ validUntilMs: NOON_MS })],
  [`relay-enrolment broken: ${RAN_OUT} 2 hours ago and was not renewed`, TOKEN, known(TWO_HOURS_AGO)],
  [`relay-enc-key broken: ${NO_KEY}: nobody can send here`, ANEW, { encKey: seen('none') }],
  [`relay-enc-key broken: ${ANOTHER_KEY} than the one this host has now`, ANEW, { encKey: seen('another') }],
  [`relay-evidence broken: it did so 1: ${BOTH}`, `${EVIDENCE} 1`, { evidence: [proof(1)] }],
  [
    `relay-evidence broken: it did so 1: ${BOTH}; 1 more like this`,
    `${EVIDENCE} 1`,
    { evidence: [proof(1), proof(2)] },
  ],
  ['relay-evidence note: it did so 1; 2 more like this', `${EVIDENCE} 1`, { evidence: [1, 2, 3].map(word) }],
  ['relay-queue note: 1 item waits there and was not taken yet', null, queue(1)],
  ['relay-queue note: 2 items wait there and were not taken yet', null, queue(2)],
  ['relay-queue note: more than 1 item waits there and was not taken yet', null, queue(1, true)],
  ['relay-queue note: more than 20 items wait there and were not taken yet', null, queue(20, true)],
  ['relay-link broken: the daemon could not use it 60 seconds ago: it is so', TOKEN, problem('ENROL_REFUSED')],
])('%s', (says, command, when) => {
  const checks = relayChecks({ ...GOOD, ...when }, NOON_MS);
  const about = checks.find(({ id }) => says.startsWith(`${id} `));
  expect([`${about?.id} ${about?.state}: ${about?.sentence}`, about?.command]).toEqual([says, command]);
  expect(checks.filter((check) => check !== about && check.state !== 'ok')).toEqual([]);
});

function ids(when: Partial<RelayCheckFacts>): string[] {
  return relayChecks({ ...GOOD, ...when }, NOON_MS).map(({ id }) => id);
}

test('a relay of version 1 tells no epoch and no clock, and nothing is said of them', () => {
  expect(ids(V1)).toEqual(['relay-reach', 'relay-key']);
});

test('what the daemon ran into is not said again beside what explains it', () => {
  const { known: ran } = problem('UNREACHABLE');
  expect(ids({ known: ran })).toContain('relay-link');
  expect(ids({ known: ran, you: FAILED })).toContain('relay-link');
  expect(ids({ known: ran, info: FAILED, ...UNASKED })).not.toContain('relay-link');
  expect(ids({ known: ran, you: seen(null) })).not.toContain('relay-link');
  expect(ids({ known: ran, ...hasSeen('SHA256:new') })).not.toContain('relay-link');
});

test.each<[code: string, command: string]>([
  ['CERTIFICATE_NOT_TRUSTED', `poste relay set ${URL} --ca <file with the certificate of its authority>`],
  ['UNREACHABLE', `curl -i ${URL}/v2/relay/info`],
])('a relay that cannot be used for %s is looked at with what shows that', (code, command) => {
  const [reach, key] = relayChecks({ ...GOOD, info: { ...FAILED, code }, ...UNASKED }, NOON_MS);
  expect(reach?.command).toBe(command);
  expect(`${key?.state}: ${key?.sentence}`).toBe('ok: SHA256:pinned is pinned');
});

test.each<[given: string, proof: RelayCheckFacts['proof'], then: string]>([
  ['no token', null, ANEW],
  ['a token in a file', { type: 'file', path: '/a token' }, `${ANEW} --token-file '/a token'`],
  ['a token of a command', { type: 'command', command: 'tell' }, `${ANEW} --token-command tell`],
])('a host is enrolled anew with what enrolled it: %s', (_given, proof, then) => {
  const check = relayChecks({ ...GOOD, proof, encKey: seen('none') }, NOON_MS).find(({ id }) => id === 'relay-enc-key');
  expect(check?.command).toBe(then);
});

test('without a relay it depends on whether the LAN reaches everybody', () => {
  expect(noRelayCheck(false)).toMatchObject({ state: 'ok', command: null });
  expect(noRelayCheck(true)).toMatchObject({ state: 'note', command: 'poste relay set <url>' });
});

test('a relay that accepted what a host got over another one alone is noted', () => {
  const doubt = { relay: 'r1', over: 'r2', host: 'bob', messages: 4 };
  expect(doubtCheck(doubt)).toMatchObject({
    id: 'relay-doubt',
    about: 'bob',
    state: 'note',
    sentence: 'r1 accepted 4 messages for bob that it got over r2 alone: mail for it takes r1 last for a day',
  });
});

const key = (sinceMs: number, isStolen?: true): HostKey =>
  ({ publicKey: 'k', seed: '', sinceMs, retiredAtMs: null, ...(isStolen && { isStolen }) }) as HostKey;
const said = (...relays: HostKey[][]): string[] =>
  ownKeyChecks(
    relays.map((keys) => ({ url: URL, keys })),
    NOON_MS,
  ).map(({ id, state, relay, sentence }) => `${id} ${state} ${relay}: ${sentence}`);

describe('of relays that have not learned the key that this host has now', () => {
  const first = key(0);
  const stolen = key(NOON_MS - 9 * DAY, true);
  const present = key(NOON_MS - 3 * DAY);

  test('one goes on with the key of before', () => {
    expect(said([first, present])).toEqual([
      'relay-own-key note undefined: relay.example does not know the key that this host took 3 days ago: ' +
        'it learns it when it can be used',
    ]);
  });

  test('one goes on with a key that was given up as stolen, or with one of before that', () => {
    const broken =
      'relay-own-key broken undefined: relay.example does not know the key that this host took 3 days ago: ' +
      'until it learns it, the thief of a former one can take the mail that waits there';
    expect(said([stolen, present])).toEqual([broken]);
    expect(said([stolen, key(NOON_MS - 5 * DAY), present])).toEqual([broken]);
    expect(said([first, stolen, present])).toEqual([broken]);
  });

  test('one knows the present key, or is not known to know any', () => {
    expect(said([present])).toEqual([]);
    expect(said([])).toEqual([]);
    // Of several the check names it.
    expect(said([present], [stolen, present])).toEqual([expect.stringContaining(`broken ${URL}:`)]);
  });
});
