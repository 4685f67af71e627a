/**
 * POST /v2/relay/log/checkpoint: a relay whose store was put back to a copy of its whole folder cannot know that by
 * itself. A host shows it what it signed before, and it begins a new epoch.
 */
import { randomBytes } from 'node:crypto';
import { cp, rm } from 'node:fs/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openCheckpoint, signCheckpoint } from '../../src/protocol/checkpoint.ts';
import { afterOf, makeKnew, noteHash } from '../../src/protocol/seen.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { alice, bob, relay as relayHost } from '../support/hosts.ts';
import { hopBytes } from '../support/hops.ts';
import { type HttpRelay, enrolledRelay } from '../support/http-relay.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { RawConnection, type RawResponse } from '../support/raw-http.ts';
import { enrolledAtNew, failingAtNew, rejecting } from '../support/shared-nodes.ts';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import { LogUnreachable } from '../../src/relay/shared-log/shared-log.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { found } from '../support/found.ts';

type Shown = Parameters<ReturnType<HttpRelay['client']>['showCheckpoint']>[0];

const show = (relay: HttpRelay, shown: unknown): Promise<RawResponse> =>
  relay.send(relay.hop(bob, 'POST', '/v2/relay/log/checkpoint', JSON.stringify(shown)));

/** Copies the folder of the relay; `putBack` puts the copy in its place, as an operator does by mistake. */
async function copied(relay: HttpRelay): Promise<{ putBack: () => Promise<void> }> {
  const copy = await temporaryFolder();
  await relay.stop();
  await cp(relay.folder, copy, { recursive: true });
  await relay.start();
  const putBack = async (): Promise<void> => {
    await relay.stop();
    await rm(relay.folder, { recursive: true });
    await cp(copy, relay.folder, { recursive: true });
    await relay.start();
  };
  return { putBack };
}

const pushed = async (relay: HttpRelay, itemId: string): Promise<string | undefined> =>
  (await relay.client(alice).push([itemTo([bob], itemId)])).results[0]?.status;

const received = async (relay: HttpRelay): Promise<string[]> => (await relay.queue(bob)).map(({ itemId }) => itemId);

/** Each reason for which an epoch began, in order. */
async function reasonsOf(relay: HttpRelay): Promise<string[]> {
  await relay.stop();
  const { events } = await relay.stored();
  await relay.start();
  return events.flatMap((event) => (event.type === 'EpochRotated' ? [event.reason] : []));
}

/** A note of one leaf more than the log has. */
async function noteBeyond(relay: HttpRelay): Promise<string> {
  const newest = found(
    openCheckpoint(await relay.client(bob).logCheckpoint(), relayHost.key),
    'the checkpoint does not verify',
  );
  return signCheckpoint({ ...newest, size: newest.size + 1 }, relayHost.signer);
}

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  test('a store that was put back learns it from its own note, and what it lost arrives after all, once', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const { epoch } = relay;
    expect(await pushed(relay, 'm1')).toBe('accepted');
    const { putBack } = await copied(relay);
    expect(await pushed(relay, 'm2')).toBe('accepted');
    const note = await relay.client(alice).logCheckpoint();
    expect(await relay.client(bob).showCheckpoint({ note })).toEqual({ known: true });
    await putBack();
    expect([relay.epoch, await received(relay)]).toEqual([epoch, ['m1']]);

    const answer = await show(relay, { note });
    expect(relay.epoch).not.toBe(epoch);
    expect(answer).toBeProblem('EPOCH_CHANGED', { epoch: relay.epoch });
    expect(relay.errors.map(({ fields }) => fields)).toEqual([{ ended: epoch }]);
    expect([await pushed(relay, 'm1'), await pushed(relay, 'm2')]).toEqual(['duplicate', 'accepted']);
    expect(await received(relay)).toEqual(['m1', 'm2']);

    // The relay begins one epoch: it tells the next host that shows the note only that it does not know it.
    expect(jsonOf(await show(relay, { note }))).toEqual({ known: false });
    expect(await reasonsOf(relay)).toEqual(['log-contradicted']);
    relay.logged.length = 0;
  });

  test('a store that was put back and has grown since is found by the root', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const { putBack } = await copied(relay);
    await pushed(relay, 'm1');
    const note = await relay.client(alice).logCheckpoint();
    await putBack();
    for (const id of ['m2', 'm3', 'm4']) await pushed(relay, id);
    const refused = { status: 409, code: 'EPOCH_CHANGED' };
    await expect(relay.client(bob).showCheckpoint({ note })).rejects.toMatchObject(refused);
    relay.logged.length = 0;
  });

  test('hosts that show it at once all hear of one new epoch', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const { putBack } = await copied(relay);
    await pushed(relay, 'm1');
    const note = await relay.client(alice).logCheckpoint();
    await putBack();
    const answers = await Promise.all([1, 2, 3, 4].map(() => show(relay, { note })));
    expect(epochsHeard(answers)).toEqual([relay.epoch]);
    expect(await reasonsOf(relay)).toEqual(['log-contradicted']);
    relay.logged.length = 0;
  });

  test('a store that lost an epoch learns it from a note that was signed after one it knows', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const older = await relay.client(alice).logCheckpoint();
    const { epoch } = relay;
    const { putBack } = await copied(relay);
    const nowMs = relay.clock.nowMs();
    await relay.relay.engine.rotateEpoch({ type: 'RotateEpoch', epoch: 'LATER' as never, reason: 'reset', nowMs });
    const bytes = makeKnew([noteHash(older)], randomBytes);
    const note = await relay.client(alice).logCheckpoint({ after: afterOf(bytes) });
    const knew = bytes.toString('base64');
    const shown: Shown = { note, knew, older };
    expect(await relay.client(bob).showCheckpoint(shown)).toEqual({ known: true });
    await putBack();
    expect(relay.epoch).toBe(epoch);
    expect(await relay.client(bob).showCheckpoint({ note })).toEqual({ known: false });
    expect(await show(relay, shown)).toBeProblem('EPOCH_CHANGED');
    expect(await relay.client(bob).showCheckpoint(shown)).toEqual({ known: false });
    expect(await reasonsOf(relay)).toEqual(['log-contradicted']);
    relay.logged.length = 0;
  });

  test('what is no note of this relay is a bad request, and changes nothing', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const lsn = await relay.lastLsn();
    const forged = signCheckpoint({ epoch: 'X' as never, size: 9, rootHash: Buffer.alloc(32) }, bob.signer);
    for (const shown of [{}, { note: 7 }, { note: forged }, []])
      expect(await show(relay, shown)).toBeProblem('BAD_REQUEST');
    expect(await relay.lastLsn()).toBe(lsn);
  });
});

/** The epochs that the answers say were begun. One that comes when that is durable says that it knows no such note. */
function epochsHeard(answers: readonly Parameters<typeof jsonOf>[0][]): unknown[] {
  const heard = new Set(answers.map((answer) => jsonOf(answer)['epoch'] ?? jsonOf(answer)['known']));
  heard.delete(false);
  return [...heard];
}

describe('a log that nodes share', () => {
  test('is put in doubt by such a note, and the leader begins one new epoch for all who show it', async () => {
    const { server, relay } = await enrolledAtNew(alice, bob);
    const { epoch } = relay;
    const note = await noteBeyond(relay);
    const answers = await Promise.all([show(relay, { note }), show(relay, { note })]);
    const begun = relay.epoch;
    expect(begun).not.toBe(epoch);
    expect(epochsHeard(answers)).toEqual([begun]);
    expect(jsonOf(await show(relay, { note }))).toEqual({ known: false });
    await expect.poll(() => server.row?.doubt).toBeUndefined();
    expect(await pushed(relay, 'm1')).toBe('accepted');
    expect(relay.epoch).toBe(begun);
    relay.logged.length = 0;
  });

  test('is put in doubt by no node whose lease ran out while the request came in', async () => {
    const { server, relay } = await enrolledAtNew(alice, bob);
    const { epoch } = relay;
    const note = await noteBeyond(relay);
    const bytes = hopBytes(relay.hop(bob, 'POST', '/v2/relay/log/checkpoint', JSON.stringify({ note })));
    const connection = await RawConnection.open(relay.port);
    onTestFinished(() => connection.close());
    connection.send(bytes.subarray(0, -10));
    // What came before this question was read before it is answered.
    await relay.client(alice).info();
    relay.clock.move(LEASE_MS);
    const answer = await connection.send(bytes.subarray(-10)).response('POST');
    expect(answer).toBeProblem('UNAVAILABLE');
    expect([relay.epoch, server.row?.doubt]).toEqual([epoch, undefined]);
  });

  test('stays as it is while the doubt cannot be written, and the host may show it again', async () => {
    const { server, relay, fail } = await failingAtNew(alice, bob);
    const { epoch } = relay;
    const note = await noteBeyond(relay);
    fail.doubt = rejecting(new LogUnreachable('held'));
    expect(await show(relay, { note })).toBeProblem('UNAVAILABLE');
    expect([relay.epoch, server.row?.doubt]).toEqual([epoch, undefined]);
    delete fail.doubt;
    expect(await show(relay, { note })).toBeProblem('EPOCH_CHANGED');
    relay.logged.length = 0;
  });
});
