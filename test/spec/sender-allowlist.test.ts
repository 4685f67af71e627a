/** "Sender allowlist", rules 1 to 4. */
import { expect, test } from 'vitest';
import { pushOf, rotateOf, sendersOf } from '../support/commands.ts';
import { enrolled } from '../support/events.ts';
import { given } from '../support/given.ts';
import { type TestHost, alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../support/test-relay.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const AHEAD_MAX_MS = 300_000;
const NOT_ACCEPTED = 'rejected:sender not accepted by target';

const open = (): Promise<TestRelay> => enrolledTestRelay(alice, bob, carol);

test('sender allowlist rule 1: a list holds 256 senders and not one more', () => {
  const hosts = Array.from({ length: 257 }, (_none, at) => hostNamed(`sender ${at}`));
  const world = given(enrolled(bob));
  const full = world.when(sendersOf(bob, hosts.slice(0, 256)));
  expect(full.outcome).toEqual({ type: 'SendersListed', senders: 256, iatMs: NOON_MS });
  expect(world.when(sendersOf(bob, hosts)).verdict).toBe('BAD_REQUEST');
});

test('sender allowlist rule 1: duplicates collapse', () => {
  const listed = given(enrolled(bob)).when(sendersOf(bob, [alice, carol, alice]));
  expect(listed.outcome).toMatchObject({ senders: 2 });
  expect(listed.after().get('senders', bob.key)).toEqual({ senders: [alice.key, carol.key], iatMs: NOON_MS });
});

test('sender allowlist rule 2: a newer iat replaces the list, an older one is STALE_LIST', async () => {
  const relay = await open();
  await relay.publishSenders(sendersOf(bob, [alice]));
  for (const senders of [[carol], [alice]]) {
    const older = sendersOf(bob, senders, { iatMs: NOON_MS - 1 });
    expect(await relay.publishSenders(older)).toMatchObject({ code: 'STALE_LIST' });
  }
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
  await relay.publishSenders(sendersOf(bob, [carol], { iatMs: NOON_MS + 1 }));
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe('accepted');
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
});

test('sender allowlist rule 2: the same list again changes nothing, another of its iat is STALE_LIST', async () => {
  const relay = await open();
  await relay.publishSenders(sendersOf(bob, [alice, carol]));
  const logEnd = relay.store.lastLsn;
  const again = await relay.publishSenders(sendersOf(bob, [carol, alice, carol]));
  expect(again).toEqual({ type: 'SendersListed', senders: 2, iatMs: NOON_MS });
  expect(await relay.publishSenders(sendersOf(bob, [alice]))).toMatchObject({ code: 'STALE_LIST' });
  expect(relay.store.lastLsn).toBe(logEnd);
});

test('sender allowlist rule 2: the same senders at a newer iat are no new list, but make older stale', async () => {
  const relay = await open();
  await relay.publishSenders(sendersOf(bob, [alice, carol]));
  const renewed = sendersOf(bob, [carol, alice], { iatMs: NOON_MS + 2 });
  const logEnd = relay.store.lastLsn;
  expect(await relay.publishSenders(renewed)).toEqual({ type: 'SendersListed', senders: 2, iatMs: NOON_MS + 2 });
  expect((await relay.store.entry(logEnd + 1))?.event).toEqual({
    type: 'SendersDated',
    hostPubkey: bob.key,
    iatMs: NOON_MS + 2,
    atMs: NOON_MS,
  });
  expect((await relay.store.record(logEnd + 1))?.length).toBeLessThan(100);
  // The list is not written anew: 256 keys are 8 KiB.
  expect(relay.store.get('senders', bob.key)?.iatMs).toBe(NOON_MS);
  expect(relay.store.get('enrolment', bob.key)?.sendersDatedMs).toBe(NOON_MS + 2);
  // One that the host signed before, and that comes late.
  expect(await relay.publishSenders(sendersOf(bob, [alice], { iatMs: NOON_MS + 1 }))).toMatchObject({
    code: 'STALE_LIST',
  });
  await relay.reopen();
  expect(await relay.publishSenders(renewed)).toMatchObject({ type: 'SendersListed' });
  expect(relay.store.lastLsn).toBe(logEnd + 1);
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe('accepted');
});

test('sender allowlist rule 3: an iat more than 5 minutes ahead is refused', () => {
  const world = given(enrolled(bob));
  expect(world.when(sendersOf(bob, [], { iatMs: NOON_MS + AHEAD_MAX_MS })).verdict).toBe('SendersListed');
  expect(world.when(sendersOf(bob, [], { iatMs: NOON_MS + AHEAD_MAX_MS + 1 })).verdict).toBe('IAT_IN_FUTURE');
});

test('sender allowlist rule 4: without a list everybody is accepted, with one only who is listed', async () => {
  const relay = await open();
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe('accepted');
  await relay.publishSenders(sendersOf(bob, [alice]));
  for (const isKnownById of [false, true]) {
    const refused = await relay.pushOne(pushOf(carol, 'm2', [[bob, 'x']], { isKnownById }));
    expect(refused.verdict).toBe(NOT_ACCEPTED);
  }
  expect((await relay.pushOne(pushOf(alice, 'm2', [[bob, 'x']]))).verdict).toBe('accepted');
  // Known mail is judged like new mail, and one target that refuses refuses the whole item.
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
  const both = [
    [alice, 'x'],
    [bob, 'x'],
  ] as const;
  expect((await relay.pushOne(pushOf(carol, 'm3', both))).verdict).toBe(NOT_ACCEPTED);
  expect(await relay.queue(alice)).toEqual([]);
});

test('sender allowlist rule 4: an empty list refuses every sender, oneself too', async () => {
  const relay = await open();
  await relay.publishSenders(sendersOf(bob, []));
  for (const from of [alice, bob, carol]) {
    expect((await relay.pushOne(pushOf(from, 'm1', [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
  }
});

test('sender allowlist rule 4: a list outlives a restart and an epoch', async () => {
  const relay = await open();
  await relay.publishSenders(sendersOf(bob, [alice]));
  relay.clock.move(86_400_000);
  await relay.reopen();
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
  expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).verdict).toBe('accepted');
});

test('sender allowlist: a list that names another host than its caller is KEY_MISMATCH', () => {
  const mismatch = given(enrolled(bob)).when(sendersOf(bob, [alice], { callerPubkey: carol.key }));
  expect(mismatch.verdict).toBe('KEY_MISMATCH');
});

const keyOf = (host: number, turn: number): TestHost => hostNamed(`listed ${host} key ${turn}`);

test('sender allowlist rule 1: 256 listed hosts that rotate stay 256 senders, each under its present key alone', () => {
  const numbers = Array.from({ length: 256 }, (_none, at) => at);
  const TURNS = IS_THOROUGH ? 5 : 2;
  const firstKeys = numbers.map((number) => keyOf(number, 0));
  const world = given(enrolled(bob), ...firstKeys.map((host) => enrolled(host)));
  for (const event of world.when(sendersOf(bob, firstKeys)).events) world.rows.apply(event);
  for (const number of numbers) {
    for (let turn = 0; turn < TURNS; turn++) {
      for (const event of world.when(rotateOf(keyOf(number, turn), keyOf(number, turn + 1))).events)
        world.rows.apply(event);
    }
  }
  // The hop lets nobody in but live keys; of those the list takes one for each host that it names.
  const live = [...world.rows.directory.all()].filter(({ revokedAtMs }) => revokedAtMs === null);
  const takes = (host: TestHost): boolean => world.when(pushOf(host, 'm1', [[bob, 'x']])).verdict === 'accepted';
  const taken = numbers.map((number) => keyOf(number, TURNS)).filter(takes);
  expect(taken).toHaveLength(256);
  expect(live).toHaveLength(257);
  expect(world.rows.get('senders', bob.key)?.senders).toHaveLength(256);
  expect(takes(hostNamed('unlisted'))).toBe(false);
});

test('sender allowlist rule 4: a retired key that is listed lets in its host and no other', async () => {
  const relay = await open();
  await relay.publishSenders(sendersOf(bob, [alice]));
  const anew = hostNamed('alice anew');
  await relay.rotate(rotateOf(alice, anew));
  expect((await relay.pushOne(pushOf(anew, 'm1', [[bob, 'x']]))).verdict).toBe('accepted');
  expect((await relay.pushOne(pushOf(carol, 'm1', [[bob, 'x']]))).verdict).toBe(NOT_ACCEPTED);
  expect(relay.engine.directory.get(alice.key)?.revokedAtMs).toBe(NOON_MS);
});
