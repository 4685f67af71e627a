/**
 * Many at once: commands that nobody waits for, pages in between, a disk that confirms late or fails.
 *
 * What must hold at every moment: nobody is shown or told what is not durable; nothing durable is skipped; a known
 * item has one seq; and when all is over the log, the rows and the pages tell one story.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { pushOf } from '../support/commands.ts';
import type { TestHost } from '../support/hosts.ts';
import { inTime } from '../support/in-time.ts';
import { anyPassingMs, lookedAtClock } from '../support/machine-speed.ts';
import { Crowd, HOSTS, action } from '../support/relay-crowd.ts';
import { expectReplayed } from '../support/replay.ts';
import { type Delay, SlowDisk } from '../support/slow-disk.ts';
import { healthy, play, storyOf } from '../support/story.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';

const story = storyOf(action);

interface World {
  relay: TestRelay;
  disk: SlowDisk;
  crowd: Crowd;
}

async function inWorld(
  delays: readonly Delay[],
  passingMs: number,
  work: (world: World) => Promise<void>,
): Promise<void> {
  const { folder, remove } = await disposableFolder();
  const relay = new TestRelay(folder, { monotonicMs: lookedAtClock(passingMs) });
  await relay.open();
  try {
    await relay.enrolAll(...HOSTS);
    // Some items are there already and no index is in memory.
    const early = HOSTS.map((host): [TestHost, string] => [host, 'early']);
    await relay.push(pushOf(HOSTS[0]!, 'early', early));
    await relay.reopen();
    const disk = new SlowDisk(relay.store, delays);
    for await (const { event } of relay.store.read(1)) disk.durable.push(event);
    await work({ relay, disk, crowd: new Crowd(relay, disk) });
  } finally {
    await relay.close();
    await remove();
  }
}

test('nothing is shown, answered or skipped at any moment, and in the end all agrees', async () => {
  await fc.assert(
    fc.asyncProperty(story, healthy, anyPassingMs, async (started, delays, passingMs) => {
      await inWorld(delays, passingMs, async ({ relay, disk, crowd }) => {
        const results = await play(started, (what) => crowd.act(what));
        expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
        expect(crowd.wrong).toEqual([]);
        for (const { key, name } of HOSTS) {
          const waiting = disk.seqsOf(key).filter((seq) => seq > disk.ackedThrough(key));
          const queue = await relay.queue({ key, name } as TestHost);
          expect(queue.map(({ seq }) => seq)).toEqual(waiting);
          const queueBytes = queue.reduce((sum, { bytes }) => sum + bytes, 0);
          expect(relay.engine.head(key)).toMatchObject({ queueItems: queue.length, queueBytes });
        }
        await expectReplayed(relay.store);
      });
    }),
    { numRuns: share(100), ...inTime(120_000) },
  );
});

test('a disk that fails loses nothing that was answered, and doubles nothing that is sent again', async () => {
  const failing = fc.tuple(healthy, fc.constantFrom('unwritten' as const, 'written' as const), fc.nat(4));
  await fc.assert(
    fc.asyncProperty(story, failing, anyPassingMs, async (started, [delays, fails, after], passingMs) => {
      const sequence = Array.from({ length: after }, (_none, at) => delays[at % delays.length]!);
      await inWorld([...sequence, { turnsBefore: 1, turnsAfter: 1, fails }], passingMs, async ({ relay, crowd }) => {
        const results = await play(started, (what) => crowd.act(what));
        const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
        expect(errors.filter((error) => !(error instanceof StoreFailed))).toEqual([]);
        expect(crowd.wrong).toEqual([]);
        expect(relay.failures.length).toBeLessThanOrEqual(1);
        await relay.reopen();
        expect(relay.notices).toEqual([]);
        await expectReplayed(relay.store);
        // Everything is sent once more: what was answered before has the seq it was answered with.
        for (const [mark, seq] of crowd.answered) {
          const [sender = '', itemId = '', name = ''] = mark.split(' ');
          const target = HOSTS.find((host) => host.name === name)!;
          const answers = await Promise.all(
            [itemId, 'other'].map((wire) => relay.pushOne(pushOf(HOSTS[Number(sender)]!, itemId, [[target, wire]]))),
          );
          expect(answers.filter(({ verdict }) => verdict === 'duplicate')).toEqual([
            { verdict: 'duplicate', seqs: [seq] },
          ]);
        }
      });
    }),
    { numRuns: share(60), ...inTime(120_000) },
  );
});
