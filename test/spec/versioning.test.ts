/** "Versioning", rules 4 and 5, as far as the store decides them. */
import { describe, expect, test } from 'vitest';
import { SCHEMA_KEY } from '../../src/relay/store/keys.ts';
import { SCHEMA_VERSION } from '../../src/relay/store/marks.ts';
import { pushOf, rotateEpochOf } from '../support/commands.ts';
import { epochNumbered } from '../support/epochs.ts';
import { alice, bob } from '../support/hosts.ts';
import { withRawLevel } from '../support/raw-level.ts';
import { NOON_MS } from '../support/test-clock.ts';
import { enrolledTestRelay, openTestRelay } from '../support/test-relay.ts';

const MINUTE_MS = 60_000;

test('versioning rule 4: the store records its schema_version and refuses to open when it is newer', async () => {
  const relay = await openTestRelay();
  expect(relay.store.get('relay', '')).toMatchObject({ schemaVersion: SCHEMA_VERSION });
  await relay.close();
  const newer = Buffer.alloc(4);
  newer.writeUInt32BE(SCHEMA_VERSION + 1);
  await withRawLevel(relay.folder, async (level) => {
    expect((await level.get(SCHEMA_KEY))?.readUInt32BE()).toBe(SCHEMA_VERSION);
    await level.put(SCHEMA_KEY, newer);
  });
  await expect(relay.open()).rejects.toMatchObject({ reason: 'newer-schema' });
});

describe('versioning rule 5: the epoch', () => {
  test('versioning rule 5: a restart within 10 minutes of the last heartbeat keeps it', async () => {
    const relay = await openTestRelay();
    const { epoch } = relay.engine;
    for (let restart = 0; restart < 3; restart++) {
      relay.clock.move(9 * MINUTE_MS);
      await relay.reopen();
      await relay.engine.heartbeat(relay.clock.nowMs);
      expect(relay.engine.epoch).toBe(epoch);
      expect(relay.notices).toEqual([]);
    }
  });

  test('versioning rule 5: a stored heartbeat more than 10 minutes old rotates it at startup', async () => {
    const relay = await enrolledTestRelay(bob);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    const { epoch } = relay.engine;
    relay.clock.move(10 * MINUTE_MS);
    await relay.reopen();
    expect(relay.engine.epoch).toBe(epoch);
    relay.clock.move(1);
    await relay.reopen();
    expect(relay.engine.epoch).not.toBe(epoch);
    expect(relay.notices).toHaveLength(1);
    // The queue is kept, and dedup absorbs what senders push again.
    expect(await relay.wires(bob)).toEqual(['x']);
    expect(await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]))).toEqual({ verdict: 'duplicate', seqs: [NOON_MS] });
  });

  test('versioning rule 5: nothing but a reset, a restore or doubt changes it', async () => {
    const relay = await openTestRelay();
    const { epoch } = relay.engine;
    await relay.enrolAll(bob, alice);
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'x']]));
    await relay.ack(bob, NOON_MS);
    await relay.engine.heartbeat(NOON_MS);
    await relay.reopen();
    expect(relay.engine.epoch).toBe(epoch);
  });

  test('versioning rule 5: an explicit reset changes it, and a restart keeps the new one', async () => {
    const relay = await openTestRelay();
    expect(await relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(50)))).toMatchObject({
      epoch: epochNumbered(50),
    });
    await relay.reopen();
    expect(relay.engine.epoch).toBe(epochNumbered(50));
  });
});
