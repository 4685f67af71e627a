/**
 * Interleavings of engine and commit: of all that waits (commands that are to begin, reads, writes and syncs of the
 * disk) fast-check chooses what goes on next. A run follows from its seed, since the disk is a table in memory.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { relay as relayHost } from '../support/hosts.ts';
import { inTime } from '../support/in-time.ts';
import { Crowd, HOSTS, action } from '../support/relay-crowd.ts';
import { expectReplayed } from '../support/replay.ts';
import { SimulatedLevel } from '../support/simulation/simulated-level.ts';
import { SortedTable } from '../support/simulation/sorted-table.ts';
import { DurableEvents } from '../support/slow-disk.ts';
import { TestRelay } from '../support/test-relay.ts';
import { share } from '../support/thorough.ts';
import type { LogEntry } from '../../src/relay/core/event.ts';
import { type OpenStoreOptions, storeOver } from '../../src/relay/store/open.ts';
import { PositionFile } from '../../src/relay/store/position.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';

/** Keeps what is in the log up to the position that was synced last. */
class NotedEvents extends DurableEvents {
  readonly wrong: string[] = [];
  readonly #entries: LogEntry[] = [];

  watch(store: RelayStore, file: PositionFile): void {
    const append = store.append.bind(store);
    store.append = (batch, ...rest) => {
      this.#entries.push(...batch.entries);
      return append(batch, ...rest);
    };
    const write = file.write.bind(file);
    file.write = async (position) => {
      if (!(await store.record(position.lsn))) this.wrong.push('a position is noted before its record is written');
      await write(position);
      while ((this.#entries[0]?.lsn ?? Infinity) <= position.lsn) this.durable.push(this.#entries.shift()!.event);
    };
  }
}

/** Over a disk of which every step waits for the scheduler, from `isScheduled` on. */
class ScheduledRelay extends TestRelay {
  isScheduled = false;
  readonly disk = new NotedEvents();
  readonly #scheduler: fc.Scheduler;
  /** As on Linux: a write of the position needs no sync behind it. */
  readonly #hasDurableWrites: boolean;

  constructor(scheduler: fc.Scheduler, hasDurableWrites: boolean) {
    super('scheduled', {});
    this.#scheduler = scheduler;
    this.#hasDurableWrites = hasDurableWrites;
  }

  protected override async openStore(
    newEpoch: OpenStoreOptions['newEpoch'],
  ): Promise<{ store: RelayStore; notices: string[] }> {
    const step = (what: string): Promise<void> =>
      this.isScheduled ? this.#scheduler.schedule(Promise.resolve(), what) : Promise.resolve();
    const table = new SortedTable();
    const level = new SimulatedLevel({
      table,
      read: () => step('a read ends'),
      write: async (changes) => {
        await step('a batch is written');
        table.apply(changes);
        await step('its writer knows');
      },
    });
    const { disk } = this;
    const { file } = await PositionFile.over({
      read: () => step('the position is read'),
      write: async (_from, _offset, bytesWritten) => {
        await step('the position is written');
        return { bytesWritten };
      },
      ...(!this.#hasDurableWrites && { datasync: () => step('the position is synced') }),
      close: () => step('the position is closed'),
    });
    const files = { level: level.asLevel(), schema: undefined, signer: relayHost.signer, file, position: undefined };
    const opened = await storeOver(files, { folder: 'scheduled', nowMs: this.clock.nowMs, newEpoch });
    disk.watch(opened.store, file);
    return opened;
  }
}

test('in whatever order commands, reads, writes and syncs go on, nothing is shown, answered or skipped', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(action, { minLength: 2, maxLength: 20, size: 'max' }),
      fc.boolean(),
      async (scheduler, actions, hasDurableWrites) => {
        const relay = new ScheduledRelay(scheduler, hasDurableWrites);
        await relay.open();
        await relay.enrolAll(...HOSTS);
        const crowd = new Crowd(relay, relay.disk);
        relay.isScheduled = true;
        const ended = actions.map(async (what) => {
          await scheduler.schedule(Promise.resolve(), `${what.type} begins`);
          await crowd.act(what);
        });
        await scheduler.waitFor(Promise.all(ended));
        await scheduler.waitFor(relay.engine.close());
        relay.isScheduled = false;
        expect([...crowd.wrong, ...relay.disk.wrong]).toEqual([]);
        await expectReplayed(relay.store);
        await relay.store.close();
      },
    ),
    { numRuns: share(200), ...inTime(120_000) },
  );
});
