/**
 * Tests what the nodes of one log know of each other: their versions and the format of the log, who is to lead, and
 * their names.
 */
import { cp } from 'node:fs/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import { LOG_FORMAT } from '../../src/relay/core/log-format.ts';
import { LogRefused, NODE_COUNTS_MS, type SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import { decodeRecord } from '../../src/relay/store/record.ts';
import { HttpRelay } from '../support/http-relay.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import type { MemoryLogServer } from '../support/memory-log.ts';
import {
  enrolledAtNew,
  faulty,
  follows,
  newServer,
  node,
  passUntil,
  rejecting,
  sharing,
  startFollowing,
  started,
} from '../support/shared-nodes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { lookedAtLater } from '../support/deferred.ts';

const NEW = LOG_FORMAT;
const OLD = NEW - 1;
const NOTE_EVERY_MS = 5_000;

/** The kinds of events that the log holds. */
async function kindsIn(server: MemoryLogServer): Promise<Set<string>> {
  const batches = await server.client().batches(server.row?.logId ?? '', 0);
  const entries = batches.flatMap(({ firstLsn, records }) =>
    records.map((record, at) => decodeRecord(firstLsn + at, record)),
  );
  return new Set(entries.map(({ event }) => event.type));
}

function names(server: MemoryLogServer): string[] {
  return [...server.nodes.values()].map(({ name }) => name);
}

describe('a relay of a newer version', () => {
  test('leads in the old format while an older node follows, and raises it a day after it last saw that', async () => {
    const server = newServer();
    let nowMs = server.nowMs();
    server.nowMs = () => nowMs;
    const older = await started(server, sharing(server.client(OLD)));
    await older.enrol(alice, bob);
    await older.stop();
    const newer = await started(server, sharing(server.client(NEW)));
    await newer.client(alice).push([itemTo([bob], 'one')]);
    newer.timers.pass(LEASE_MS / 6);
    await expect.poll(() => newer.logged.map(({ message }) => message).join()).toContain('the log keeps its format');
    expect(server.row?.format).toBe(OLD);
    expect(names(server)).toHaveLength(2);
    // The older version would stop at a record that it does not know.
    expect(await kindsIn(server)).toContain('HostSeen');
    expect(await kindsIn(server)).not.toContain('V2HopMade');

    // A downgrade works until then.
    await newer.stop();
    await older.start();
    expect((await older.client(bob).pull()).items).toHaveLength(1);
    await older.stop();

    await newer.start();
    newer.timers.pass(NOTE_EVERY_MS);
    expect(server.row?.format).toBe(OLD);
    nowMs += NODE_COUNTS_MS;
    await passUntil(newer, () => server.row?.format === NEW, NOTE_EVERY_MS);
    await newer.client(alice).push([itemTo([bob], 'two')]);
    await expect(older.start()).rejects.toThrow('start the newer software');
    expect((await newer.client(bob).pull()).items).toHaveLength(2);
    expect(await kindsIn(server)).toContain('V2HopMade');
    newer.logged.length = 0;
  });

  test('raises the format at once when every node reads it, and the older one that follows stops', async () => {
    const server = newServer();
    const newer = await started(server, sharing(server.client(NEW)));
    if (server.row) server.row.format = OLD;
    const older = await node(server, sharing(server.client(OLD)));
    const { leads } = await startFollowing(older, server);
    expect(server.nodes.size).toBe(2);
    server.nodes.clear();
    await newer.stop();
    await newer.start();
    await passUntil(newer, () => server.row?.format === NEW, NOTE_EVERY_MS);
    older.timers.pass(100);
    await expect(leads).rejects.toThrow(`the log has the format ${NEW}, and this software reads formats up to ${OLD}`);
    newer.logged.length = 0;
  });

  test('notes itself while it follows too, and goes on when it cannot', async () => {
    const server = newServer();
    await started(server);
    const { log, fail } = faulty(server.client());
    fail.noteNode = rejecting(new LogRefused('permission denied'));
    const second = await node(server, sharing(log));
    const { passLease } = await startFollowing(second, server);
    const third = await node(server);
    await startFollowing(third, server);
    await expect.poll(() => server.nodes.size).toBe(2);
    for (const seen of server.nodes.values()) expect(seen).toMatchObject({ format: NEW, version: '0.0.0-test' });
    await passLease();
    const warned = second.logged.filter(({ message }) => message === 'this node cannot note itself in the log');
    expect(warned).toHaveLength(1);
    second.logged.length = 0;
  });
});

async function wantsLead(server: MemoryLogServer, log: SharedLog, name: string): Promise<void> {
  await log.want(server.row?.logId ?? '', name);
}

describe('a lead that another node is to have', () => {
  test('is given to it, and to no third one', async () => {
    const { server, relay: first } = await enrolledAtNew(alice, bob);
    const { epoch } = first;
    const third = await node(server);
    const { leads: thirdLeads } = await startFollowing(third, server);
    const second = await node(server);
    const { leads } = await startFollowing(second, server);
    await expect.poll(() => server.nodes.size).toBe(3);
    const wanting = names(server)[2] ?? '';
    await wantsLead(server, server.client(), wanting);
    first.timers.pass(LEASE_MS / 6);
    expect(await first.relay.handedOver).toEqual({ type: 'other-node', by: wanting });
    await first.stop();
    third.timers.pass(100);
    void lookedAtLater(first.start());
    await follows(first);
    await passUntil(second, () => server.row?.term === 2);
    await leads;
    expect(server.row).toMatchObject({ holder: wanting, wantedBy: undefined });
    expect(second.epoch).toBe(epoch);
    expect((await second.client(alice).push([itemTo([bob], 'one')])).results[0]?.status).toBe('accepted');
    void thirdLeads;
  });

  test('is taken by any after a lease when the one that asked is gone', async () => {
    const server = newServer();
    const first = await started(server);
    const second = await node(server);
    const { passLease } = await startFollowing(second, server);
    await wantsLead(server, server.client(), 'gone');
    first.timers.pass(LEASE_MS / 6);
    expect(await first.relay.handedOver).toEqual({ type: 'other-node', by: 'gone' });
    await first.stop();
    await passLease();
    expect(server.row?.wantedBy).toBeUndefined();
  });

  test('stays with the one that has it', async () => {
    const server = newServer();
    const first = await started(server);
    await wantsLead(server, server.client(), server.row?.holder ?? '');
    const before = server.row?.beat ?? 0;
    first.timers.pass(LEASE_MS / 6);
    await expect.poll(() => server.row?.beat).toBeGreaterThan(before);
    expect(await Promise.race([first.relay.handedOver, Promise.resolve('stays')])).toBe('stays');
  });
});

test('a node whose store folder was copied refuses to follow under the name of the one that leads', async () => {
  const { server, relay: first } = await enrolledAtNew(alice, bob);
  await first.stop();
  const copy = await temporaryFolder();
  await cp(first.folder, copy, { recursive: true });
  await first.start();
  const twin = new HttpRelay(copy, 'node', sharing(server.client()));
  onTestFinished(() => twin.relay?.stop());
  let why = '';
  twin.start().catch((error: Error) => (why = error.message));
  await follows(twin);
  await passUntil(
    first,
    () => {
      twin.timers.pass(100);
      return why !== '';
    },
    LEASE_MS / 6,
  );
  expect(why).toContain('its store folder was copied');
  expect(server.row?.term).toBe(2);
});
