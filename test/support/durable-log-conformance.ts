/**
 * Tests what every log that makes batches durable keeps, as the engine above it sees it: the embedded one, and every
 * shared one.
 */
import { expect, onTestFinished, test } from 'vitest';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import type { LogEntry } from '../../src/relay/core/event.ts';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import type { SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import type { LogBatch } from '../../src/relay/store/durable-log.ts';
import { collected } from './collected.ts';
import { pushOf, rotateEpochOf, sendersOf } from './commands.ts';
import { epochNumbered } from './epochs.ts';
import { alice, bob, carol } from './hosts.ts';
import { storedAndReplayed } from './replay.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { SharedTestRelay } from './shared-test-relay.ts';
import { TestRelay } from './test-relay.ts';

/** A relay on an empty log of one kind. */
export interface DurableForm {
  relay: TestRelay;
  /** The next batch does not become durable. */
  breaks: () => Promise<void>;
}

/** The embedded log. */
export async function embeddedForm(): Promise<DurableForm> {
  const relay = new TestRelay(await temporaryFolder(), {});
  const breaks = async (): Promise<void> => {
    const level = relay.store['level'];
    const batch = level.batch.bind(level);
    level.batch = (() => {
      const writes = batch();
      writes.write = () => Promise.reject(new Error('the disk is full'));
      return writes;
    }) as typeof level.batch;
  };
  return { relay, breaks };
}

/** A shared log; `client` gives another client of it. Another node takes the lead of it, and gives it back. */
export async function sharedForm(client: () => SharedLog): Promise<DurableForm> {
  const relay = new SharedTestRelay(await temporaryFolder(), 1, {}, client);
  const breaks = async (): Promise<void> => {
    const log = client();
    const { state } = await log.open();
    const tenure = state ? await log.lead(state, { holder: 'another', settings: state.settings }) : 'held';
    if (tenure === 'held') throw new Error('the lead is held');
    await log.resign(tenure, state?.lastNo ?? 0);
    await log.close();
  };
  return { relay, breaks };
}

const NOTHING: LogBatch = { entries: [], changes: [], payloads: [] };

async function opened(form: Promise<DurableForm>): Promise<DurableForm> {
  const given = await form;
  await given.relay.open();
  onTestFinished(() => given.relay.close());
  return given;
}

/** Mail for bob and carol; bob acks the first half of his, and a sweep collects it. */
async function story(relay: TestRelay): Promise<void> {
  await relay.enrolAll(alice, bob, carol);
  for (const host of [bob, carol]) await relay.publishSenders(sendersOf(host, [alice]));
  for (let at = 0; at < 6; at++)
    await relay.push(
      pushOf(alice, `item-${at}`, [
        [bob, `to bob ${at}`],
        [carol, `to carol ${at}`],
      ]),
    );
  const [, , last] = await relay.queue(bob);
  await relay.ack(bob, last?.seq ?? 0);
  await relay.sweep();
}

async function stateOf(relay: TestRelay): Promise<object> {
  const { store, engine } = relay;
  const [rows, replayed] = await storedAndReplayed(store);
  expect(rows).toEqual(replayed);
  const { lastLsn, firstLsn } = store;
  const wires = [await relay.wires(bob), await relay.wires(carol)];
  return { rows, lastLsn, firstLsn, wires, root: engine.log.checkpoint(), entries: await read(store) };
}

async function read(log: RelayStore): Promise<LogEntry[]> {
  return collected(log.read(log.firstLsn));
}

/** A record `ahead` of the last one. */
function entryAhead(store: RelayStore, ahead: number): LogEntry {
  const event = { type: 'EpochRotated', epoch: epochNumbered(50), reason: 'reset', atMs: 1 } as const;
  return { lsn: store.lastLsn + ahead, event };
}

/** `open` gives a form on a new log, whose relay is not open yet. */
export function keepsWhatADurableLogPromises(open: () => Promise<DurableForm>): void {
  test('what was answered is there in the next life: records, rows, wire bytes, hash tree', async () => {
    const { relay } = await opened(open());
    await story(relay);
    const before = await stateOf(relay);
    await relay.reopen();
    expect(await stateOf(relay)).toEqual(before);
    expect(
      (
        await relay.pushOne(
          pushOf(alice, 'item-5', [
            [bob, 'to bob 5'],
            [carol, 'to carol 5'],
          ]),
        )
      ).verdict,
    ).toBe('duplicate');
  });

  test('it holds what the embedded log holds after the same commands, to the byte', async () => {
    const { relay } = await opened(open());
    const embedded = new TestRelay(await temporaryFolder(), {});
    await embedded.open();
    onTestFinished(() => embedded.close());
    for (const one of [relay, embedded]) await story(one);
    expect(await stateOf(relay)).toEqual(await stateOf(embedded));
  });

  test('a batch counts once durable, not before; one without a record, or of this node, has no number', async () => {
    const { relay } = await opened(open());
    await story(relay);
    const { store } = relay;
    const { lastLsn } = store;
    let isDurable = false;
    const appended = relay.engine.rotateEpoch(rotateEpochOf(epochNumbered(50), { nowMs: relay.clock.nowMs }));
    void appended.then(() => (isDurable = true));
    expect([isDurable, store.lastLsn]).toEqual([false, lastLsn]);
    await appended;
    expect(store.lastLsn).toBe(lastLsn + 1);
    await store.append(NOTHING);
    await store.append({ ...NOTHING, node: { heartbeatMs: relay.clock.nowMs } });
    expect(store.lastLsn).toBe(lastLsn + 1);
    await relay.reopen();
    expect(relay.store.lastLsn).toBe(lastLsn + 1);
  });

  test('a record that does not follow the last is refused, and nothing is lost by it', async () => {
    const { relay } = await opened(open());
    await story(relay);
    const { store } = relay;
    await expect(store.append({ ...NOTHING, entries: [entryAhead(store, 2)] })).rejects.toThrow('have no gap');
    expect(store.isFailed).toBe(false);
    expect((await relay.pushOne(pushOf(alice, 'after', [[bob, 'x']]))).verdict).toBe('accepted');
  });

  test('nothing is appended after a batch that did not become durable; what was answered before is there', async () => {
    const { relay, breaks } = await opened(open());
    await story(relay);
    const { lastLsn } = relay.store;
    await breaks();
    await expect(relay.push(pushOf(alice, 'lost', [[bob, 'x']]))).rejects.toThrow(StoreFailed);
    expect(relay.failures).toHaveLength(1);
    expect(relay.store).toMatchObject({ isFailed: true, lastLsn });
    await expect(relay.store.append(NOTHING)).rejects.toThrow('nothing is appended after a failed write');
    await relay.reopen();
    expect(relay.store.lastLsn).toBe(lastLsn);
    expect((await relay.pushOne(pushOf(alice, 'lost', [[bob, 'x']]))).verdict).toBe('accepted');
  });
}
