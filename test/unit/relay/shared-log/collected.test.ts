/** What a relay of a shared log collected goes from the views of all others, also what it could not read itself. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { PREFIX, queueKey } from '../../../../src/relay/store/keys.ts';
import type { Level } from '../../../../src/relay/store/level.ts';
import { verified } from '../../../support/audits.ts';
import { pushOf } from '../../../support/commands.ts';
import { found } from '../../../support/found.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { writeQueues } from '../../../support/queue-forms.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { SharedTestRelay } from '../../../support/shared-test-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const IDS = ['m1', 'm2', 'm3', 'm4'];

/** The key and the value of the first row or run of bob's queue. */
async function firstOf(level: Level): Promise<[Buffer, Buffer]> {
  const [pair] = await level.iterator({ gte: queueKey(bob.key, 0), limit: 1 }).all();
  return found(pair, 'the queue is empty');
}

function prefixesOf(pairs: ReadonlyMap<string, string>): number[] {
  return Array.from(pairs.keys(), (key) => Number.parseInt(key.slice(0, 2), 16));
}

const FAULTS = {
  gone: async (level: Level): Promise<void> => level.del((await firstOf(level))[0]),
  unreadable: async (level: Level): Promise<void> => {
    const [key, value] = await firstOf(level);
    value[value.length - 1]! ^= 1;
    await level.put(key, value);
  },
};

describe.each(Object.keys(FAULTS) as (keyof typeof FAULTS)[])('rows that are %s where one leads', (fault) => {
  test.each(['alone', 'in runs'] as const)('go where others follow and have them %s', async (form) => {
    const relay = new SharedTestRelay(await temporaryFolder(), 2, {});
    await relay.open();
    onTestFinished(() => relay.close());
    await relay.enrolAll(alice, bob);
    await relay.push(...IDS.map((id) => pushOf(alice, id, [[bob, `wire of ${id}`]])));
    // It is not acked, and lies in the run that the ack cuts where others follow.
    await relay.push(pushOf(alice, 'waits', [[bob, 'wire that waits']]));
    const following = relay.folders[1] as string;
    // A batch is followed when the next one shows that it was acknowledged.
    await relay.push(pushOf(bob, 'other', [[alice, 'wire of other']]));
    await relay.ack(alice, relay.engine.head(alice.key).headSeq);
    expect(prefixesOf(await relay.followed(following))).toContain(PREFIX.queue);
    await withRawLevel(following, (level) => writeQueues(level, form));
    // The index of the queue is in memory, so the ack goes by what was there.
    expect(await relay.ack(bob, NOON_MS - 1)).toMatchObject({ deleted: 0 });
    await FAULTS[fault](relay.store.level);
    expect(await relay.ack(bob, relay.engine.head(bob.key).headSeq - 1)).toMatchObject({ deleted: IDS.length });
    await relay.close();
    const left = prefixesOf(await relay.followed(following));
    const ofItems: number[] = [PREFIX.queue, PREFIX.payload];
    expect(left.filter((prefix) => ofItems.includes(prefix)).toSorted((a, b) => a - b)).toEqual(
      ofItems.toSorted((a, b) => a - b),
    );
    expect((await verified(following)).findings).toEqual([]);
  });
});
