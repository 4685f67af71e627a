/** Tests what a move of a log refuses, and what it gives up when a store or a part of the database is lost. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Fenced, LogRefused, type Tenure } from '../../../../src/relay/shared-log/shared-log.ts';
import { phaseOf } from '../../../../src/relay/shared-log/log-phase.ts';
import { abortPublish, publishStore } from '../../../../src/relay/shared-log/publish.ts';
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

/** A move that ended before this step. */
async function stopsAt(relay: MovedRelay, step: string): Promise<void> {
  const stop = async (next: string): Promise<void> => {
    if (next === step) throw new Stopped();
  };
  await expect(publishStore({ ...relay.move(), step: stop })).rejects.toThrow(Stopped);
}

test.each([['what the store holds is loaded'], ['the log takes its place']])(
  'no store takes the place of what another node moves (stopped before "%s")',
  async (step) => {
    const server = new MemoryLogServer();
    const one = await relayOn(server, 'one');
    await stopsAt(one, step);
    const other = await relayOn(server, 'other');
    await expect(publishStore(other.move())).rejects.toThrow(/^the log does not serve while the store of node /);
    // Nothing was changed for either: the first begins anew, and the other serves by itself.
    expect(await publishStore(one.move())).toMatchObject({ notices: [] });
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
  await expect(publishStore(other.move())).rejects.toThrow(/ has given a move up: run .+ --abort there again$/);
  expect(await abortPublish(one.move())).toBe(true);
  await one.seen('store');
});

test('giving up makes no log in a database that has none', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await expect(abortPublish(one.move())).rejects.toThrow('holds no log: see that --log names the right database');
  expect(server.row).toBeUndefined();
});

test('a database that holds a log, or what went to another node, takes no other store', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(one.move());
  const other = await relayOn(server, 'other');
  await expect(publishStore(other.move())).rejects.toThrow('holds a log already: name an empty database with --log');
  await withdrawLog(one.move());
  await expect(publishStore(other.move())).rejects.toThrow(/^the log went to the store of node /);
  await one.seen('store');
  await other.seen('store');
});

test('the move of a lost store is given up under the name of its node, and the log before serves again', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await stopsAt(one, 'the log takes its place');
  const other = new MovedRelay(await temporaryFolder(), server);
  await expect(other.seen('log')).rejects.toThrow('the log does not serve');
  await rm(join(one.folder, 'log'), { recursive: true });
  expect(await abortPublish(one.move())).toBe(false);
  await other.seen('log');
  // A folder that was never a node's is a mistake.
  const nowhere = new MovedRelay(await temporaryFolder(), server);
  await expect(abortPublish(nowhere.move())).rejects.toThrow('there is no store at');
});

test('what a database lost of a load is loaded anew', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  const before = await one.seen('store');
  await stopsAt(one, 'the log takes its place');
  const loaded = phaseOf(server.row?.state ?? '');
  if (loaded.type !== 'loading') throw new Error(loaded.type);
  // As it is restored to a moment between the snapshot and the batch.
  server.of(loaded.logId).batches.length = 0;
  expect(await publishStore(one.move())).toMatchObject({ loaded: { damaged: 0 } });
  expect(await one.seen('log')).toEqual(before);
  expect([...server.logs.values()].filter(({ batches }) => batches.length > 0)).toHaveLength(1);
});

test('a move back stops the node that leads, and with the key of another relay it stops nobody', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(one.move());
  one.where = 'log';
  await one.open();
  const before = server.row;
  const empty = new MovedRelay(await temporaryFolder(), server);
  const moving = withdrawLog({ ...empty.move(), signer: alice.signer });
  await expect(moving).rejects.toThrow(
    `the relay key is not the one of the log at memory: that one has the fingerprint ${displayFingerprint(relay.key)}`,
  );
  expect(server.row).toMatchObject({ holder: before?.holder, term: before?.term, tenure: before?.tenure });
  // With its own key it goes there, and the node that leads is stopped.
  expect(await withdrawLog(empty.move())).toMatchObject({ isDone: false });
  await expect(one.enrolAll(alice)).rejects.toThrow('the store failed');
  await one.close();
  await empty.seen('store');
});

test('a move back asks again when another node took the lead, which ended its wish', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(one.move());
  one.where = 'log';
  await one.open();
  const [log, third] = [server.client(), server.client()];
  const { want, open } = { want: log.want.bind(log), open: log.open.bind(log) };
  let tenure: Tenure | undefined;
  // The first node never learns of the wish: it renews no more, and a third one leads.
  log.want = async (...wish) => {
    await want(...wish);
    const { state } = await third.open();
    if (!state || tenure) return;
    const led = await third.lead(state, { holder: 'third', settings: state.settings, doubt: undefined });
    if (led !== 'held') tenure = led;
  };
  // The third one lives, and hands the lead over when it is asked.
  log.open = async () => {
    if (tenure && server.row?.tenure === tenure.tenure && !server.row.isFree) {
      const { wantedBy } = await third.renew(tenure, { no: 0, effects: Buffer.alloc(0) });
      if (wantedBy !== undefined) await third.resign(tenure, 0);
    }
    return open();
  };
  const stopped = new AbortController();
  onTestFinished(() => stopped.abort());
  const empty = new MovedRelay(await temporaryFolder(), server);
  expect(await withdrawLog({ ...empty.move(() => log), signal: stopped.signal })).toMatchObject({ isDone: false });
  expect(tenure).toBeDefined();
  await expect(one.enrolAll(alice)).rejects.toThrow('the store failed');
  await one.close();
  await empty.seen('store');
});

test('a move back that may not ask for the lead says why', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(one.move());
  one.where = 'log';
  await one.open();
  const log = server.client();
  log.want = async () => {
    throw new LogRefused('this role may not write');
  };
  const empty = new MovedRelay(await temporaryFolder(), server);
  await expect(withdrawLog(empty.move(() => log))).rejects.toThrow('this role may not write');
  await one.enrolAll(alice);
  await one.close();
});

test('of a move back and a move into the log at one time, the log or the store serves, and never both', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(one.move());
  const ownStore = 'the view becomes a store of its own';
  // The log is published again before the view becomes a store of its own: it stays a view.
  const republish = async (step: string): Promise<void> => {
    if (step === ownStore) await publishStore(one.move());
  };
  await expect(withdrawLog({ ...one.move(), step: republish })).rejects.toThrow(Fenced);
  await expect(one.seen('store')).rejects.toThrow('is a view of a log that is kept at memory');
  await one.seen('log');
  // The move back is given again while the other command is about to say that the log serves: the store is in use.
  const stop = async (step: string): Promise<void> => {
    if (step === ownStore) throw new Stopped();
  };
  await expect(withdrawLog({ ...one.move(), step: stop })).rejects.toThrow(Stopped);
  const log = server.client();
  const change = log.change.bind(log);
  const withdrawn: string[] = [];
  log.change = async (...given) => {
    if (withdrawn.length === 0)
      await withdrawLog(one.move()).then(
        () => withdrawn.push('moved'),
        (error: unknown) => withdrawn.push((error as Error).message),
      );
    return change(...given);
  };
  await publishStore(one.move(() => log));
  expect(withdrawn).toEqual([expect.stringContaining('another process is using the store')]);
  await expect(one.seen('store')).rejects.toThrow('is a view of a log that is kept at memory');
  await one.seen('log');
});

test('a view of another log is not put aside by a move back', async () => {
  const server = new MemoryLogServer();
  const one = await relayOn(server, 'one');
  await publishStore(one.move());
  // The owner of the database emptied it for another one.
  server.row = undefined;
  const other = await relayOn(server, 'other');
  await publishStore(other.move());
  const moving = withdrawLog(one.move());
  await expect(moving).rejects.toThrow(LogRefused);
  await expect(moving).rejects.toThrow(/is a view of the log .+, and memory holds /);
  await other.seen('log');
});
