/** What a move of a log refuses, and what it gives up when a store or a part of the database is lost. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LogRefused } from '../../../../src/relay/shared-log/shared-log.ts';
import { phaseOf } from '../../../../src/relay/shared-log/log-phase.ts';
import { type PublishOptions, abortPublish, publishStore } from '../../../../src/relay/shared-log/publish.ts';
import { withdrawLog } from '../../../../src/relay/shared-log/withdraw.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { alice, relay } from '../../../support/hosts.ts';
import { MemoryLogServer } from '../../../support/memory-log.ts';
import { MovedRelay } from '../../../support/moved-relay.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

class Stopped extends Error {}

async function relayOn(server: MemoryLogServer, name: string): Promise<MovedRelay> {
  const relay = new MovedRelay(join(await temporaryFolder(), name), server);
  await relay.open();
  await relay.enrolAll();
  await relay.close();
  return relay;
}

function publishing(relay: MovedRelay, changes: Partial<PublishOptions> = {}): PublishOptions {
  return { ...relay.move(), replaces: false, ...changes };
}

/** A move that ended before this step. */
async function stopsAt(relay: MovedRelay, step: string): Promise<void> {
  const stop = async (next: string): Promise<void> => {
    if (next === step) throw new Stopped();
  };
  await expect(publishStore(publishing(relay, { step: stop }))).rejects.toThrow(Stopped);
}

test.each([['what the store holds is loaded'], ['the log takes its place']])(
  'no store takes the place of what another node moves (stopped before "%s")',
  async (step) => {
    const server = new MemoryLogServer();
    const one = await relayOn(server, 'one');
    await stopsAt(one, step);
    const other = await relayOn(server, 'other');
    const replacing = publishing(other, { replaces: true });
    await expect(publishStore(replacing)).rejects.toThrow(/^--replace cannot take the place of what node .+ is moving/);
    // Nothing was changed for either: the first goes on where it was, and the other serves by itself.
    expect(await publishStore(publishing(one))).toMatchObject({ notices: [] });
    expect(await one.seen('log')).toMatchObject({ epoch: expect.any(String) as string });
    await other.seen('store');
  },
);

test('no store takes the place of a move that another node gives up', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await stopsAt(one, 'the log takes its place');
  const step = async (): Promise<void> => {
    throw new Stopped();
  };
  await expect(abortPublish({ ...one.move(), step })).rejects.toThrow(Stopped);
  const other = await relayOn(server, 'other');
  await expect(publishStore(publishing(other, { replaces: true }))).rejects.toThrow('give it up there with --abort');
  expect(await abortPublish(one.move())).toBe(true);
  await one.seen('store');
});

test('giving up makes no log in a database that has none', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await expect(abortPublish(one.move())).rejects.toThrow('holds no log: see that --log names the right database');
  expect(server.row).toBeUndefined();
});

test('the move of a store that is lost is given up under the name of its node, and the log before serves again', async () => {
  const server = new MemoryLogServer();
  const before = await relayOn(server, 'before');
  await publishStore(publishing(before));
  const one = await relayOn(server, 'one');
  const stop = async (step: string): Promise<void> => {
    if (step === 'the log takes its place') throw new Stopped();
  };
  await expect(publishStore(publishing(one, { replaces: true, step: stop }))).rejects.toThrow(Stopped);
  await expect(before.seen('log')).rejects.toThrow('the log does not serve');
  await rm(join(one.folder, 'log'), { recursive: true });
  expect(await abortPublish(one.move())).toBe(false);
  await before.seen('log');
  // A folder that was never a node's is a mistake.
  const nowhere = new MovedRelay(await temporaryFolder(), server);
  await expect(abortPublish(nowhere.move())).rejects.toThrow('there is no store at');
});

test('what a database lost of a load does not take its place', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await stopsAt(one, 'the log takes its place');
  const loaded = phaseOf(server.row?.state ?? '');
  if (loaded.type !== 'loading') throw new Error(loaded.type);
  // As it is restored to a moment between the snapshot and the batch.
  server.of(loaded.logId).batches.length = 0;
  await expect(publishStore(publishing(one))).rejects.toThrow('is not whole there (its batch is missing)');
  expect(await abortPublish(one.move())).toBe(true);
  await publishStore(publishing(one));
  await one.seen('log');
});

test('a move back with the key of another relay takes the lead from nobody', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(publishing(one));
  one.where = 'log';
  await one.open();
  const before = server.row;
  const empty = new MovedRelay(await temporaryFolder(), server);
  const moving = withdrawLog({ ...empty.move(), signer: alice.signer });
  await expect(moving).rejects.toThrow(
    `the relay key is not the one of the log at memory: that one has the fingerprint ${displayFingerprint(relay.key)}`,
  );
  expect(server.row).toMatchObject({ holder: before?.holder, term: before?.term, tenure: before?.tenure });
  await one.close();
  // With its own key it goes there.
  expect(await withdrawLog(empty.move())).toMatchObject({ isDone: false });
  await empty.seen('store');
});

test('a view of another log is not put aside by a move back', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(publishing(one));
  const other = await relayOn(server, 'other');
  await publishStore(publishing(other, { replaces: true }));
  const moving = withdrawLog(one.move());
  await expect(moving).rejects.toThrow(LogRefused);
  await expect(moving).rejects.toThrow(/is a view of the log .+, and memory holds /);
  await other.seen('log');
});
