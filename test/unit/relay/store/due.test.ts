import { expect, test } from 'vitest';
import { DEFAULT_LIMITS, dedupHorizonMs, retentionMs } from '../../../../src/protocol/limits.ts';
import { publicKeyBytes } from '../../../../src/protocol/public-key.ts';
import { PREFIX, dueKey, prefixRange, queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { withoutChecksum } from '../../../../src/relay/store/checksum.ts';
import { pushOf } from '../../../support/commands.ts';
import { type TestHost, alice, bob, carol } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { type TestRelay, enrolledTestRelay } from '../../../support/test-relay.ts';

const EXPIRES_AFTER_MS = retentionMs(DEFAULT_LIMITS);
const FORGOTTEN_AFTER_MS = EXPIRES_AFTER_MS + dedupHorizonMs(DEFAULT_LIMITS);

/** Every entry under `prefix`: its key, and its value cut into runs of `width` bytes; all in hexadecimal. */
async function dueEntries(relay: TestRelay, prefix: number, width: number): Promise<[string, string[]][]> {
  const entries = await relay.atRest((level) => level.iterator(prefixRange(prefix)).all());
  await relay.open();
  return entries.map(([key, stored]) => {
    const value = withoutChecksum(key, stored);
    const runs: string[] = [];
    for (let at = 0; at < value.length; at += width) runs.push(value.toString('hex', at, at + width));
    return [key.toString('hex'), runs];
  });
}

/** Two items in one batch, then one in another, then one later. */
async function relayWithItems(): Promise<TestRelay> {
  const relay = await enrolledTestRelay(bob, carol);
  await relay.push(
    pushOf(alice, 'm1', [
      [bob, 'x'],
      [carol, 'x'],
    ]),
    pushOf(alice, 'm2', [[bob, 'x']]),
  );
  await relay.pushOne(pushOf(alice, 'm3', [[bob, 'x']]));
  relay.clock.move(1000);
  await relay.pushOne(pushOf(alice, 'm4', [[bob, 'x']]));
  return relay;
}

/** The first records of the three batches: RelayInitialised and two enrolments come before them. */
const BATCHES = [
  [NOON_MS, 4],
  [NOON_MS, 6],
  [NOON_MS + 1000, 7],
] as const;

function queueRun(target: TestHost, seq: number): string {
  return queueKey(target.key, seq).toString('hex', 1);
}

function dedupRun(target: TestHost, id: string): string {
  const key = rowKeyBytes('dedup', alice.key + target.key + id);
  return Buffer.concat([publicKeyBytes(alice.key), key.subarray(1)]).toString('hex');
}

test('every queue row is in the one expiry entry of its batch and time', async () => {
  const relay = await relayWithItems();
  const runs = [
    [queueRun(bob, NOON_MS), queueRun(carol, NOON_MS), queueRun(bob, NOON_MS + 1)],
    [queueRun(bob, NOON_MS + 2)],
    [queueRun(bob, NOON_MS + 1000)],
  ];
  const keys = BATCHES.map(([ms, lsn]) => dueKey(PREFIX.expiry, ms + EXPIRES_AFTER_MS, lsn).toString('hex'));
  expect(await dueEntries(relay, PREFIX.expiry, 40)).toEqual(keys.map((key, at) => [key, runs[at]]));
});

test('every dedup row is in the one purge entry of its batch and time', async () => {
  const relay = await relayWithItems();
  const runs = [
    [dedupRun(bob, 'm1'), dedupRun(carol, 'm1'), dedupRun(bob, 'm2')],
    [dedupRun(bob, 'm3')],
    [dedupRun(bob, 'm4')],
  ];
  const keys = BATCHES.map(([ms, lsn]) => dueKey(PREFIX.dedupUntil, ms + FORGOTTEN_AFTER_MS, lsn).toString('hex'));
  expect(await dueEntries(relay, PREFIX.dedupUntil, 64)).toEqual(keys.map((key, at) => [key, runs[at]]));
});
