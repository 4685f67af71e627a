/**
 * Relays that share a log: one leads, the others follow whole batches, and the next leader goes on where the log ends.
 */
import { existsSync, readdirSync } from 'node:fs';
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { PulledItem } from '../../src/host/relay/relay-forms.ts';
import type { Epoch } from '../../src/protocol/names.ts';
import { HEARTBEAT_STALE_MS } from '../../src/protocol/limits.ts';
import { StoreFailed } from '../../src/relay/engine/committer.ts';
import { StoppedFollowing } from '../../src/relay/standby/shared-lead.ts';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import { joinLog } from '../../src/relay/shared-log/node.ts';
import type { SharedLogOptions } from '../../src/relay/shared-log/node-options.ts';
import {
  type EncodedBatch,
  Fenced,
  LogRefused,
  LogUnreachable,
  NotWritten,
  OutcomeUnknown,
  type Tenure,
} from '../../src/relay/shared-log/shared-log.ts';
import { LEVEL_FOLDER, levelAt } from '../../src/relay/store/level.ts';
import { StoreRefused } from '../../src/relay/store/refused.ts';
import { HttpRelay } from '../support/http-relay.ts';
import { freePort } from '../support/free-port.ts';
import { alice, bob, carol, relay as relayHost } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import type { MemoryLogServer } from '../support/memory-log.ts';
import { withRawLevel } from '../support/raw-level.ts';
import {
  enrolledAtNew,
  failingAtNew,
  faulty,
  follows,
  newServer,
  node,
  passUntil,
  rejecting,
  sharing,
  startFollowing,
  started,
  waiting,
} from '../support/shared-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { alterWire, loseWire } from '../support/stored-items.ts';
import { lookedAtLater } from '../support/deferred.ts';

const wiresOf = (items: readonly PulledItem[]): string[] => items.map(({ wire }) => wire.toString('base64'));

describe('a relay whose log is shared', () => {
  test('goes on in an empty folder with the epoch, the seqs, wire bytes and duplicates of the one before', async () => {
    const server = newServer();
    const first = await started(server);
    expect(first.relay.initialised).toBe(true);
    await first.enrol(alice, bob, carol);
    const items = Array.from({ length: 8 }, (_none, at) => itemTo([bob, carol], `item-${at}`));
    const accepted = await first.client(alice).push(items);
    const page = await first.client(carol).pull();
    await first.client(carol).ack(page.epoch, page.items[3]?.seq ?? 0);
    const waiting = await first.client(bob).pull();
    const { epoch } = first;
    await first.stop();

    const second = await started(server);
    expect(second.relay.initialised).toBe(false);
    expect(second.epoch).toBe(epoch);
    expect(second.errors).toEqual([]);
    const again = await second.client(bob).pull();
    expect(again.items.map(({ seq }) => seq)).toEqual(waiting.items.map(({ seq }) => seq));
    expect(wiresOf(again.items)).toEqual(wiresOf(waiting.items));
    expect((await second.client(carol).pull()).items).toHaveLength(4);
    const pushed = await second.client(alice).push(items);
    expect(pushed.results.map(({ status }) => status)).toEqual(items.map(() => 'duplicate'));
    expect(pushed.results.map(({ targets }) => targets)).toEqual(accepted.results.map(({ targets }) => targets));
  });

  test('goes on in its own folder without reading the log anew', async () => {
    const { relay, fail } = await failingAtNew(alice, bob);
    await relay.client(alice).push([itemTo([bob], 'one')]);
    const { epoch } = relay;
    await relay.stop();
    let read = 0;
    fail.batches = async () => void read++;
    await relay.start();
    expect(relay.epoch).toBe(epoch);
    // Once for those that were acknowledged and once more as the leader; each finds nothing.
    expect(read).toBe(2);
    expect((await relay.client(bob).pull()).items).toHaveLength(1);
  });

  test('follows warm, and takes the lead of a node that shows no life for a lease', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    const second = await node(server);
    const { leads, passLease } = await startFollowing(second, server);
    await first.client(alice).push([itemTo([bob], 'one')]);
    await passLease();
    await leads;
    expect(second.epoch).toBe(first.epoch);
    expect((await second.client(bob).pull()).items).toHaveLength(1);

    // What the node before answers now would be another history.
    await expect(first.client(alice).push([itemTo([bob], 'two')])).rejects.toThrow('503');
    expect((await first.relay.failed).cause).toBeInstanceOf(Fenced);
    expect((await second.client(bob).pull()).items).toHaveLength(1);
    expect((await second.client(alice).push([itemTo([bob], 'two')])).results[0]?.status).toBe('accepted');
  });

  test('tells hosts and load balancers that it does not lead while it follows', async () => {
    const server = newServer();
    const first = await started(server);
    const [port, adminPort] = [await freePort(), await freePort()];
    const host = '127.0.0.1';
    const second = await node(server, { listen: { host, port }, adminListen: { host, port: adminPort } });
    const { leads } = await startFollowing(second, server);
    const asked = async (at: number, path: string): Promise<[number, string | null]> => {
      const answer = await fetch(`http://${host}:${at}${path}`);
      return [answer.status, answer.headers.get('retry-after')];
    };
    expect(await asked(port, '/v2/relay/info')).toEqual([503, '1']);
    expect(await asked(adminPort, '/readyz')).toEqual([503, '1']);
    expect(await asked(adminPort, '/livez')).toEqual([200, null]);
    const metrics = async (): Promise<string> => (await fetch(`http://${host}:${adminPort}/metrics`)).text();
    expect(await metrics()).toContain('poste_relay_ready 0\n');
    expect(await metrics()).toContain('poste_relay_log_leading 0\n');
    expect(await metrics()).toMatch(/^poste_relay_log_behind_batches \d+$/m);
    await first.stop();
    await expect
      .poll(() => {
        second.timers.pass(100);
        return server.row?.term;
      })
      .toBe(2);
    await leads;
    expect(second.port).toBe(port);
    expect(await asked(port, '/v2/relay/info')).toEqual([200, null]);
    expect(await asked(adminPort, '/readyz')).toEqual([200, null]);
    expect(await metrics()).toContain('poste_relay_log_leading 1\n');
    expect(await metrics()).toContain('poste_relay_log_stalled 0\n');
  });

  test('does not take the lead while the node that has it renews', async () => {
    const server = newServer();
    const first = await started(server);
    const second = await node(server, { stopFollowing: AbortSignal.abort() });
    await expect(second.start()).rejects.toThrow(StoppedFollowing);
    const third = await node(server);
    const { leads } = await startFollowing(third, server);
    for (let round = 0; round < 10; round++) {
      first.timers.pass(LEASE_MS / 6);
      await expect.poll(() => server.row?.beat).toBeGreaterThan(round + 1);
      third.clock.move(LEASE_MS / 2);
      third.timers.pass(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(server.row?.term).toBe(1);
    await first.stop();
    third.timers.pass(100);
    await expect
      .poll(() => {
        third.timers.pass(100);
        return server.row?.term;
      })
      .toBe(2);
    await leads;
  });

  test('answers nobody when its renewals do not get through, and answers again when one does', async () => {
    const { server, relay, fail } = await failingAtNew(alice, bob);
    fail.renew = rejecting(new LogUnreachable('held'));
    // Another may lead after the whole of it.
    relay.clock.move(LEASE_MS * 0.8);
    relay.timers.pass(LEASE_MS);
    const refused = await relay.send(relay.hop(bob, 'GET', '/v2/relay/items'));
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('1');
    const stored = server.stored.length;
    await expect(relay.client(alice).push([itemTo([bob], 'refused')])).rejects.toThrow('503');
    expect(server.stored).toHaveLength(stored);
    await expect
      .poll(() => relay.errors.map(({ message }) => message))
      .toEqual(['the log cannot be reached; it is tried again']);
    delete fail.renew;
    relay.timers.pass(LEASE_MS / 6);
    await expect
      .poll(() => relay.send(relay.hop(bob, 'GET', '/v2/relay/items')).then(({ status }) => status))
      .toBe(200);
    relay.logged.length = 0;
  });

  test('an answer that is ready after the lease is over is not sent', async () => {
    const { relay, fail } = await failingAtNew(alice, bob);
    fail.renew = rejecting(new LogUnreachable('held'));
    fail.append = async () => relay.clock.move(LEASE_MS);
    const push = { items: [itemTo([bob], 'late')] };
    await expect(relay.client(alice).push(push.items)).rejects.toThrow('503');
    // It is stored, and its sender pushes it again.
    delete fail.renew;
    delete fail.append;
    relay.timers.pass(LEASE_MS / 6);
    await expect
      .poll(() =>
        relay
          .client(alice)
          .push(push.items)
          .then(
            ({ results }) => results[0]?.status,
            () => 'refused',
          ),
      )
      .toBe('duplicate');
  });

  test.each(['stored', 'absent'])(
    'a batch whose answer was lost is asked for, and is there once: it was %s; who waited is told at once',
    async (outcome) => {
      const { server, relay, fail } = await failingAtNew(alice, bob);
      const { epoch } = relay;
      const before = server.stored.length;
      fail.append = async (tenure, batch, ackedNo) => {
        if (outcome === 'stored')
          await server.client().append(tenure as Tenure, batch as EncodedBatch, ackedNo as number);
        throw new OutcomeUnknown('the connection was lost');
      };
      fail.settle = rejecting(new LogUnreachable('held'));
      await expect(relay.client(alice).push([itemTo([bob], 'unknown')])).rejects.toThrow('503');
      await relay.timers.begun(500);
      relay.timers.pass(500);
      expect(server.stored).toHaveLength(before + (outcome === 'stored' ? 1 : 0));
      delete fail.append;
      delete fail.settle;
      await passUntil(relay, () => relay.logged.some(({ message }) => message === 'the log takes batches again'), 500);
      const again = await relay.client(alice).push([itemTo([bob], 'unknown')]);
      expect([again.results[0]?.status, again.epoch]).toEqual(['duplicate', epoch]);
      expect((await relay.client(bob).pull()).items).toHaveLength(1);
      relay.logged.length = 0;
    },
  );

  test('a batch whose answer was lost ends the relay when another leads meanwhile', async () => {
    const { server, relay: first, fail } = await failingAtNew(alice, bob);
    fail.append = rejecting(new OutcomeUnknown('the connection was lost'));
    fail.settle = rejecting(new Fenced());
    await expect(first.client(alice).push([itemTo([bob], 'unknown')])).rejects.toThrow('503');
    await first.timers.begun(500);
    first.timers.pass(500);
    const failure = await first.relay.failed;
    expect(failure).toBeInstanceOf(StoreFailed);
    expect(failure.cause).toBeInstanceOf(Fenced);
    await first.stop();
    const second = await started(server);
    expect((await second.client(alice).push([itemTo([bob], 'unknown')])).results[0]?.status).toBe('accepted');
    expect((await second.client(bob).pull()).items).toHaveLength(1);
    first.logged.length = 0;
  });

  test('who waits for a log that does not answer is told when the lease is over, and not later', async () => {
    const { relay, fail } = await failingAtNew(alice, bob);
    let release: (() => void) | undefined;
    fail.append = () => new Promise((resolve) => (release = resolve));
    fail.renew = rejecting(new LogUnreachable('held'));
    const push = lookedAtLater(relay.client(alice).push([itemTo([bob], 'held')]));
    await expect.poll(() => release).toBeDefined();
    relay.clock.move(LEASE_MS);
    relay.timers.pass(LEASE_MS);
    await expect(push).rejects.toThrow('503');
    delete fail.append;
    delete fail.renew;
    release?.();
    relay.timers.pass(LEASE_MS / 6);
    await expect
      .poll(() =>
        relay
          .client(bob)
          .pull()
          .then(
            ({ items }) => items.length,
            () => 0,
          ),
      )
      .toBe(1);
    relay.logged.length = 0;
  });

  test('gives a batch that the log did not take to it again, and refuses pushes meanwhile', async () => {
    const { relay, fail } = await failingAtNew(alice, bob);
    fail.append = rejecting(new NotWritten('no space left'));
    const held = relay.client(alice).push([itemTo([bob], 'held')]);
    await expect
      .poll(() => relay.errors.map(({ message }) => message))
      .toEqual(['the log takes nothing: pushes are refused until it does']);
    const refused = await relay.send(relay.hop(alice, 'POST', '/v2/relay/items', JSON.stringify({ items: [] })));
    expect(refused.status).toBe(503);
    delete fail.append;
    relay.timers.pass(500);
    expect((await held).results[0]?.status).toBe('accepted');
    expect((await relay.client(alice).push([itemTo([bob], 'next')])).results[0]?.status).toBe('accepted');
    relay.logged.length = 0;
  });

  test('takes wire bytes that its disk lost or altered from the log, in the same epoch', async () => {
    const { server, relay, fail } = await failingAtNew(alice, bob);
    await relay.client(alice).push([itemTo([bob], 'gone'), itemTo([bob], 'altered'), itemTo([bob], 'whole')]);
    const { epoch, items } = await relay.client(bob).pull();
    await relay.stop();
    await withRawLevel(relay.folder, async (level) => {
      await loseWire(level, bob.key, items[0]?.seq ?? 0);
      await alterWire(level, bob.key, items[1]?.seq ?? 0, Buffer.from('other bytes'));
    });
    await relay.start();
    // What cannot be asked is not called lost.
    fail.payloads = rejecting(new LogUnreachable('held'));
    expect((await relay.client(bob).pull()).items).toEqual([]);
    delete fail.payloads;
    // A page ends before an item that has to be fetched.
    await expect.poll(async () => (await relay.client(bob).pull()).items).toHaveLength(3);
    const again = await relay.client(bob).pull();
    expect(wiresOf(again.items)).toEqual(wiresOf(items));
    expect(again.epoch).toBe(epoch);
    expect(new Set(relay.errors.map(({ message }) => message))).toEqual(
      new Set(['items were missing or altered on the disk, and are whole again from the log']),
    );
    await relay.stop();
    expect(server.wire.size).toBe(3);
    relay.logged.length = 0;
  });

  test('reports as lost what the log does not have either', async () => {
    const { server, relay } = await enrolledAtNew(alice, bob);
    await relay.client(alice).push([itemTo([bob], 'lost')]);
    const { epoch, items } = await relay.client(bob).pull();
    await relay.stop();
    await withRawLevel(relay.folder, (level) => loseWire(level, bob.key, items[0]?.seq ?? 0));
    server.wire.clear();
    await relay.start();
    expect((await relay.client(bob).pull()).items).toEqual([]);
    expect(relay.epoch).not.toBe(epoch);
    expect((await relay.client(alice).push([itemTo([bob], 'lost')])).results[0]?.status).toBe('accepted');
    relay.logged.length = 0;
  });

  test('a log in doubt gets a new epoch, once', async () => {
    const { server, relay } = await enrolledAtNew(alice, bob);
    const { epoch } = relay;
    await server.client().doubt(server.row?.logId ?? '', 'a batch is missing');
    relay.timers.pass(LEASE_MS / 6);
    await expect.poll(() => relay.epoch).not.toBe(epoch);
    await expect.poll(() => server.row?.doubt).toBeUndefined();
    const begun = relay.epoch;
    relay.timers.pass(LEASE_MS / 6);
    await relay.client(alice).push([itemTo([bob], 'after')]);
    expect(relay.epoch).toBe(begun);
    relay.logged.length = 0;
  });
});

/** The epoch before and after a stop, a change of the server, and a start of the same or another node. */
async function epochsAround(
  change: (server: MemoryLogServer, relay: HttpRelay) => Promise<void> | void,
  options: Partial<SharedLogOptions> & { isOtherNode?: boolean } = {},
): Promise<{ before: string; after: string; notices: readonly string[] }> {
  const { isOtherNode = false, ...shared } = options;
  const server = newServer();
  const first = await started(server, sharing(server.client(), shared));
  await first.enrol(alice, bob);
  await first.client(alice).push([itemTo([bob], 'one')]);
  const { epoch } = first;
  await first.stop();
  await change(server, first);
  const next = isOtherNode ? await node(server, sharing(server.client(), shared)) : first;
  await next.start();
  return { before: epoch, after: next.epoch, notices: next.relay.notices };
}
function promoted(server: MemoryLogServer): void {
  server.server = { systemId: '1', timeline: 2 };
}

describe('the epoch of the next leader', () => {
  const OTHER_NODE = { isOtherNode: true };
  test.each([
    ['stays when the server is the one before', () => undefined, OTHER_NODE, true, ''],
    ['stays on another server for the node that led last and finds its last batch', promoted, {}, true, ''],
    ['is new on another server for any other node', promoted, OTHER_NODE, false, 'another server'],
    [
      'stays on another server when every batch was on replicated storage',
      promoted,
      { ...OTHER_NODE, durability: 'storage' },
      true,
      '',
    ],
    [
      'is new on another server when there is one copy, whichever node leads',
      promoted,
      { durability: 'single' },
      false,
      'another server',
    ],
  ] as const)('%s', async (_which, change, options, stays, notice) => {
    const { before, after, notices } = await epochsAround(change, options);
    expect(after === before).toBe(stays);
    expect(stays ? notices : []).toEqual([]);
    expect(notices.join()).toContain(notice);
  });

  test('is new when the log lost what a node had seen, which puts its view aside', async () => {
    const epochs = await epochsAround((server) => {
      server.stored.pop();
      promoted(server);
    });
    expect(epochs.after).not.toBe(epochs.before);
    expect(epochs.notices.join()).toContain('put aside as');
    expect(epochs.notices.join()).toContain('in doubt');
  });
});

describe('Versioning 5: an older copy of a log', () => {
  test.each([
    ['older than ten minutes', -HEARTBEAT_STALE_MS - 1, 'minutes old: it may be an older copy'],
    ['of a time to come', 60_001, 'lies in the future'],
  ])('whose heartbeat is %s begins a new epoch, also where nobody saw more', async (_which, awayMs, sentence) => {
    const aged = (server: MemoryLogServer): void => {
      if (server.row) server.row.beatMs += awayMs;
    };
    const epochs = await epochsAround(aged, { isOtherNode: true });
    expect(epochs.after).not.toBe(epochs.before);
    expect(epochs.notices.join()).toContain(sentence);
  });

  test('that is put back with the view is found by what was noted outside both, once for all nodes', async () => {
    const server = newServer();
    const notes = await temporaryFolder();
    const first = await started(server);
    await first.enrol(alice, bob);
    first.timers.pass(LEASE_MS / 6);
    const others = await Promise.all([1, 2].map((at) => node(server, { positionFile: join(notes, `position-${at}`) })));
    const back = structuredClone(server.stored);
    // Each follows to the end of the log and is stopped; then all that the notes are not in goes back.
    const run = async (relay: HttpRelay, noted: number): Promise<void> => {
      const stopped = new AbortController();
      const starting = lookedAtLater(relay.start({ stopFollowing: stopped.signal }));
      relay.logged.length = 0;
      await follows(relay);
      await passUntil(relay, () => server.nodes.size === noted);
      stopped.abort();
      await expect(starting).rejects.toThrow(StoppedFollowing);
    };
    for (const [at, relay] of others.entries()) {
      await run(relay, at + 2);
      await cp(relay.folder, `${relay.folder}-copy`, { recursive: true });
      onTestFinished(() => rm(`${relay.folder}-copy`, { recursive: true, force: true }));
    }
    await first.client(alice).push([itemTo([bob], 'one')]);
    first.timers.pass(LEASE_MS / 6);
    await expect.poll(() => server.row?.ackedNo).toBe(server.stored.length);
    for (const relay of others) {
      await run(relay, 3);
      await rm(relay.folder, { recursive: true });
      await rename(`${relay.folder}-copy`, relay.folder);
    }
    const { epoch } = first;
    await first.stop();
    server.stored.splice(
      0,
      Infinity,
      ...back.map((batch) => ({ ...batch, effects: Buffer.from(batch.effects), body: Buffer.from(batch.body) })),
    );
    server.wire.clear();
    if (server.row) server.row.ackedNo = back.length;

    const [one, other] = others as [HttpRelay, HttpRelay];
    await one.start();
    expect(one.epoch).not.toBe(epoch);
    expect(one.relay.notices.join()).toContain('The log lacks batch');
    expect(one.relay.notices.join()).not.toContain('put aside');
    const begun = one.epoch;
    expect((await one.client(alice).push([itemTo([bob], 'one')])).results[0]?.status).toBe('accepted');
    other.logged.length = 0;
    const { leads } = await startFollowing(other, server);
    expect(server.row?.doubt).toContain('a node had seen batch');
    one.timers.pass(LEASE_MS / 6);
    await expect.poll(() => server.row?.doubt).toBeUndefined();
    expect(one.epoch).toBe(begun);
    expect(one.logged.map(({ message }) => message)).toContain('the epoch of the log answers its doubt: none begins');
    await one.stop();
    await passUntil(other, () => server.row?.holder !== undefined && server.row.term === 3);
    await leads;
    expect(other.epoch).toBe(begun);
  });

  test('is found by a leader that appends nothing, with its next sign of life, and put in doubt', async () => {
    const { server, relay } = await enrolledAtNew(alice, bob);
    server.stored.pop();
    relay.timers.pass(LEASE_MS / 6);
    expect((await relay.relay.failed).cause).toBeInstanceOf(Fenced);
    expect(server.row?.doubt).toContain('a node had seen batch');
  });

  test('is put in doubt by a leader whose batch it refuses: a node that knew nothing begins a new epoch', async () => {
    const { server, relay } = await enrolledAtNew(alice, bob);
    const { epoch } = relay;
    const seen = server.stored.length;
    server.stored.pop();
    await expect(relay.client(alice).push([itemTo([bob], 'one')])).rejects.toBeDefined();
    expect((await relay.relay.failed).cause).toBeInstanceOf(Fenced);
    await relay.stop();
    expect(server.row?.doubt).toContain(`a node had seen batch ${seen}`);
    const other = await started(server);
    expect(other.epoch).not.toBe(epoch);
  });

  test('whose leader cannot tell what it lacks is not given back before the lease is over', async () => {
    const { server, relay, fail } = await failingAtNew(alice, bob);
    server.stored.pop();
    fail.doubt = rejecting(new LogUnreachable('held'));
    await expect(relay.client(alice).push([itemTo([bob], 'one')])).rejects.toBeDefined();
    await relay.relay.failed;
    await relay.stop();
    expect(server.row).toMatchObject({ isFree: false, doubt: undefined });
    relay.errors.length = 0;
  });
});

describe('a leader whose clock jumps', () => {
  test.each([3_600_000, -3_600_000])('by %i ms gives the lead back, and another takes it', async (jumpMs) => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    const second = await node(server);
    const { leads } = await startFollowing(second, server);
    first.clock.wallMs += 60_000;
    first.timers.pass(LEASE_MS / 6);
    await expect.poll(() => server.row?.beat).toBeGreaterThan(1);
    expect(await Promise.race([first.relay.handedOver, Promise.resolve('leads on')])).toBe('leads on');
    first.clock.wallMs += jumpMs;
    first.timers.pass(LEASE_MS / 6);
    expect(await first.relay.handedOver).toMatchObject({
      type: 'clock',
      why: expect.stringContaining('its clock differs'),
    });
    await first.stop();
    void lookedAtLater(first.start());
    await expect.poll(() => first.errors.map(({ message }) => message).join()).toContain('does not take the lead');
    await passUntil(second, () => server.row?.term === 2);
    await leads;
    expect((await second.client(alice).push([itemTo([bob], 'one')])).results[0]?.status).toBe('accepted');
    first.logged.length = 0;
  });
});

/**
 * A leader that lives through a promotion takes its lead anew; how that ends with a change of the server and of the
 * log.
 */
async function leadsThrough(
  change: (server: MemoryLogServer) => void,
  options: Partial<SharedLogOptions> & { waitsForLease?: boolean } = {},
): Promise<{ server: MemoryLogServer; first: HttpRelay; before: string }> {
  const { waitsForLease = false, ...shared } = options;
  const server = newServer();
  const first = await started(server, sharing(server.client(), shared));
  await first.enrol(alice, bob);
  await first.client(alice).push([itemTo([bob], 'one')]);
  const before = first.epoch;
  const { tenure } = server.row ?? {};
  change(server);
  first.timers.pass(LEASE_MS / 6);
  expect(await first.relay.handedOver).toEqual({ type: 'other-server' });
  await first.stop();
  // Until it has its lead again nobody else may take it at once: it alone can prove that this server has everything.
  expect(server.row).toMatchObject({ tenure, isFree: false });
  if (waitsForLease) await (await startFollowing(first, server)).passLease();
  else await first.start();
  expect(server.row?.ledOn).toEqual(server.server);
  return { server, first, before };
}

describe('a relay that leads while a standby takes the place of its server', () => {
  test('takes its lead anew: the epoch stays, also when another node leads next', async () => {
    const { server, first, before } = await leadsThrough(promoted);
    expect(first.epoch).toBe(before);
    expect((await first.client(bob).pull()).items).toHaveLength(1);
    expect((await first.client(alice).push([itemTo([bob], 'two')])).results[0]?.status).toBe('accepted');
    await first.stop();
    const next = await started(server);
    expect(next.epoch).toBe(before);
    expect(next.relay.notices).toEqual([]);
    expect((await next.client(bob).pull()).items).toHaveLength(2);
  });

  test('begins a new epoch when that server lacks what it had appended, or when one copy was all', async () => {
    // Its view was put aside, so nothing shows any more that the lead was its own.
    const lacking = await leadsThrough(wentBack, { waitsForLease: true });
    expect(lacking.first.epoch).not.toBe(lacking.before);
    expect(lacking.first.relay.notices.join()).toContain('put aside as');
    expect((await lacking.first.client(alice).push([itemTo([bob], 'one')])).results[0]?.status).toBe('accepted');
    const single = await leadsThrough(promoted, { durability: 'single' });
    expect(single.first.epoch).not.toBe(single.before);
    const stored = await leadsThrough(promoted, { durability: 'storage' });
    expect(stored.first.epoch).toBe(stored.before);
  });

  test('does not give its lead back there when it stops before it has looked', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    const { epoch } = first;
    promoted(server);
    await first.stop();
    expect(server.row).toMatchObject({ isFree: false, ledOn: { timeline: 1 } });
    await first.start();
    expect(first.epoch).toBe(epoch);
  });

  test('leads on while its server is the one before', async () => {
    const server = newServer();
    const first = await started(server);
    const before = server.row?.beat ?? 0;
    server.server = { ...server.server };
    first.timers.pass(LEASE_MS / 6);
    await expect.poll(() => server.row?.beat).toBeGreaterThan(before);
    expect(await Promise.race([first.relay.handedOver, Promise.resolve('leads on')])).toBe('leads on');
  });
});

/** The log without its last batch, on a standby that was promoted. */
function wentBack(server: MemoryLogServer): void {
  server.stored.pop();
  promoted(server);
}

describe('a log that went back', () => {
  test('is found by a node that only followed, which begins a new epoch and puts its view aside', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    await first.client(alice).push([itemTo([bob], 'one')]);
    first.timers.pass(LEASE_MS / 6);
    const { epoch } = first;
    const { log, fail } = faulty(server.client());
    let readAfter: unknown = 0;
    fail.batches = async (_logId, afterNo) => void (readAfter = afterNo);
    const second = await node(server, sharing(log));
    const { leads } = await startFollowing(second, server);
    await passUntil(second, () => readAfter === server.stored.length);
    await first.stop();
    wentBack(server);
    await passUntil(second, () => server.row?.term === 2 && server.row.doubt === undefined);
    await leads;
    expect(second.epoch).not.toBe(epoch);
    expect(second.relay.notices.join()).toContain('put aside as');
    expect((await second.client(alice).push([itemTo([bob], 'one')])).results[0]?.status).toBe('accepted');
    second.logged.length = 0;
  });

  test('is told of it once by a node that finds it at its start, however often that starts', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    await first.client(alice).push([itemTo([bob], 'one')]);
    await first.stop();
    // On the same server, as after a restore.
    server.stored.pop();
    const second = await started(server);
    await second.client(alice).push([itemTo([bob], 'two')]);
    for (const isTold of [true, false]) {
      const stopped = new AbortController();
      const starting = lookedAtLater(first.start({ stopFollowing: stopped.signal }));
      first.logged.length = 0;
      await follows(first);
      expect(server.row?.doubt?.startsWith('a node had seen batch') ?? false).toBe(isTold);
      second.timers.pass(LEASE_MS / 6);
      await expect.poll(() => server.row?.doubt).toBeUndefined();
      stopped.abort();
      await expect(starting).rejects.toThrow(StoppedFollowing);
    }
    second.logged.length = 0;
  });

  test('is found by a node whose view is gone too', async () => {
    const epochs = await epochsAround(async (server, { folder }) => {
      wentBack(server);
      await rm(join(folder, LEVEL_FOLDER), { recursive: true });
    });
    expect(epochs.after).not.toBe(epochs.before);
    expect(epochs.notices.join()).toContain('The log lacks batch');
    expect(epochs.notices.join()).not.toContain('put aside');
  });

  test('is found although its last batch has the number and the last record of the one that was seen', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    await first.client(alice).push([itemTo([bob], 'one')]);
    await first.stop();
    // Another history, that ends alike.
    const last = server.stored.at(-1);
    if (last) last.effects = Buffer.alloc(32, 1);
    const { epoch } = first;
    server.stored.pop();
    const second = await started(server);
    await second.client(alice).push([itemTo([bob], 'two')]);
    await second.stop();
    await first.start();
    expect(first.epoch).not.toBe(epoch);
    expect(first.relay.notices.join()).toContain('put aside as');
  });
});

describe('a node that takes the lead', () => {
  test('and ends before its new epoch is durable leaves it to the next', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    await first.client(alice).push([itemTo([bob], 'one')]);
    const { epoch } = first;
    await first.stop();
    promoted(server);
    const { log, fail } = faulty(server.client());
    fail.append = rejecting(new LogRefused('the process ends'));
    const second = await node(server, sharing(log));
    const failing = lookedAtLater(second.start());
    await expect(failing).rejects.toThrow('the process ends');
    expect(server.row?.ledOn).toBe(server.server);
    const third = await node(server);
    const { passLease } = await startFollowing(third, server);
    await passLease();
    expect(third.epoch).not.toBe(epoch);
    expect(server.row?.doubt).toBeUndefined();
  });

  test('and loses it before its first batch is taken follows again', async () => {
    const server = newServer();
    await (await started(server)).stop();
    promoted(server);
    const { log, fail } = faulty(server.client());
    fail.append = async () => {
      delete fail.append;
      throw new Fenced();
    };
    const second = await started(server, sharing(log));
    expect(server.row?.term).toBe(3);
    expect((await second.send(second.hop(bob, 'GET', '/v2/relay/info'))).status).toBe(200);
    second.logged.length = 0;
  });

  test('and loses it while it catches up follows again, and serves when it leads', async () => {
    const server = newServer();
    await (await started(server)).stop();
    const { log, fail } = faulty(server.client());
    const relay = await node(server, sharing(log));
    let isRenewed = false;
    fail.renew = async () => {
      isRenewed = true;
      delete fail.renew;
      throw new Fenced();
    };
    fail.batches = async (_logId, _afterNo, tenure) => {
      if (tenure === undefined || isRenewed) return;
      await passUntil(relay, () => isRenewed, LEASE_MS / 6);
    };
    await relay.start();
    expect(server.row?.term).toBe(3);
    expect((await relay.send(relay.hop(bob, 'GET', '/v2/relay/info'))).status).toBe(200);
    const ended = await Promise.race([relay.relay.failed, Promise.resolve('serves')]);
    expect(ended).toBe('serves');
    relay.logged.length = 0;
  });

  test('after a process that ended before it had marked its view', async () => {
    const server = newServer();
    await (await started(server)).stop();
    const relay = await node(server);
    const level = levelAt(join(relay.folder, LEVEL_FOLDER));
    await level.open();
    await level.close();
    await relay.start();
    expect(server.row?.term).toBe(2);
  });
});

function nothing(): void {
  // What a node says is not looked at.
}

describe('a stop', () => {
  test('in the middle of a catch-up is not told as the end of it', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    await first.stop();
    const { log, fail } = faulty(server.client());
    const stopped = new AbortController();
    fail.batches = async () => stopped.abort();
    let followed = 0;
    const led = await joinLog({
      log,
      durability: 'standby',
      leaseMs: LEASE_MS,
      acceptsSettings: true,
      folder: await temporaryFolder(),
      version: '0.0.0-test',
      signer: relayHost.signer,
      settings: undefined,
      clock: first.clock,
      timers: first.timers,
      newEpoch: () => first.epoch as Epoch,
      logger: { info: nothing, warn: nothing, error: nothing },
      signal: stopped.signal,
      onFollowed: () => void followed++,
    });
    expect([led, followed]).toEqual([undefined, 0]);
  });

  test('waits for a batch that the log neither takes nor refuses, but not for ever', async () => {
    const { relay, fail } = await failingAtNew(alice, bob);
    fail.append = waiting(fail, new OutcomeUnknown('the log was closed'));
    void lookedAtLater(relay.client(alice).push([itemTo([bob], 'waits')]));
    await expect.poll(() => fail.close).toBeDefined();
    let isStopped = false;
    void relay.relay.stop().then(() => (isStopped = true));
    await passUntil(relay, () => isStopped, 1000);
    relay.logged.length = 0;
  });

  test.each(['open', 'batches', 'lead', 'append'] as const)(
    'ends a node that does not lead yet and waits for %s',
    async (call) => {
      const server = newServer();
      const { log, fail } = faulty(server.client());
      fail[call] = waiting(fail, new LogUnreachable('the log was closed'));
      const stopped = new AbortController();
      const relay = await node(server, { ...sharing(log), stopFollowing: stopped.signal });
      const starting = lookedAtLater(relay.start());
      await expect.poll(() => fail.close).toBeDefined();
      stopped.abort();
      await expect(starting).rejects.toThrow(StoppedFollowing);
      relay.logged.length = 0;
    },
  );
});

describe('a node that must not lead or serve', () => {
  test('finds a server that is older than the one it has seen', async () => {
    const server = newServer();
    promoted(server);
    const first = await started(server);
    await first.enrol(alice, bob);
    first.timers.pass(LEASE_MS / 6);
    const second = await node(server);
    const { leads } = await startFollowing(second, server);
    await expect.poll(() => existsSync(join(second.folder, 'witness.json'))).toBe(true);
    await first.stop();
    server.server = { systemId: '1', timeline: 1 };
    await expect(first.start()).rejects.toThrow('older than what this node has seen');
    second.timers.pass(100);
    await expect(leads).rejects.toThrow('older than what this node has seen');
    expect(server.row?.doubt).toBeUndefined();
  });

  test('has no key from outside', async () => {
    const relay = await node(newServer());
    await expect(relay.start({ signer: undefined as never })).rejects.toThrow(LogRefused);
  });

  test('has a store of its own in its folder', async () => {
    const server = newServer();
    const folder = await temporaryFolder();
    const own = new HttpRelay(folder, 'node', {});
    await own.start();
    await own.stop();
    const relay = new HttpRelay(folder, 'node', sharing(server.client()));
    await expect(relay.start()).rejects.toThrow('the database of the log is empty');
    expect(server.row).toBeUndefined();
    await (await started(server)).stop();
    await expect(relay.start()).rejects.toThrow('a relay with a log of its own');
  });

  test('has a view in its folder and is told of no log', async () => {
    const relay = await started(newServer());
    await relay.stop();
    const alone = new HttpRelay(relay.folder, 'node', {});
    await expect(alone.start()).rejects.toThrow(StoreRefused);
    await expect(alone.start()).rejects.toThrow('is a view of a log that is kept at memory');
  });

  test('has a view of another log', async () => {
    const relay = await started(newServer());
    await relay.stop();
    const other = newServer();
    other.place = 'another place';
    await (await started(other)).stop();
    await expect(relay.start(sharing(other.client()))).rejects.toThrow('is a view of another log, which is at memory');
  });

  test('puts its view aside when another log took the place of the one that it is of', async () => {
    const { relay } = await enrolledAtNew(alice);
    await relay.stop();
    const fresh = newServer();
    const other = await started(fresh);
    const { epoch } = other;
    await other.stop();
    await relay.start(sharing(fresh.client()));
    expect(relay.relay.notices.join()).toContain(
      'Another log took the place of the one that this was a view of: it was put',
    );
    expect(relay.epoch).toBe(epoch);
    expect(readdirSync(relay.folder).filter((name) => name.startsWith('log.aside-'))).toHaveLength(1);
  });

  test('makes something else of a batch than its leader', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    await first.stop();
    const [batch] = server.stored;
    if (batch) batch.effects = Buffer.alloc(32, 1);
    const second = await node(server);
    await expect(second.start()).rejects.toThrow('makes something else of batch 1 of the log');
  });

  test('has another clock than the server, or other settings than the node before', async () => {
    const server = newServer();
    const first = await started(server);
    await first.stop();
    const late = await node(server);
    late.clock.wallMs += 61_000;
    const starting = lookedAtLater(late.start());
    await expect.poll(() => late.errors.map(({ message }) => message).join()).toContain('its clock differs by 61 s');
    const other = await node(server, { limits: { max_queue_items: 5 } });
    void lookedAtLater(other.start());
    await expect.poll(() => other.errors.map(({ message }) => message).join()).toContain('other settings than');
    expect(other.errors.map(({ message }) => message).join()).toContain('(limits)');
    expect(server.row?.term).toBe(1);
    late.clock.wallMs -= 61_000;
    late.timers.pass(100);
    await starting;
    await late.stop();
    late.logged.length = 0;
    const accepting = await started(server, {
      ...sharing(server.client(), { acceptsSettings: true }),
      limits: { max_queue_items: 5 },
    });
    expect(accepting.relay.initialised).toBe(false);
    await accepting.stop();
  });
});
