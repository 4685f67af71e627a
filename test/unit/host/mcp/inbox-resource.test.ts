/** `poste://inbox` as the official client reads and watches it, over both revisions of the protocol. */
import type { Client } from '@modelcontextprotocol/client';
import { describe, expect, test } from 'vitest';
import type { WatchInboxResult } from '../../../../src/host/contract/mail.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import type { DaemonLink } from '../../../../src/host/mcp/daemon-link.ts';
import { InboxWatch } from '../../../../src/host/mcp/inbox-resource.ts';
import { deferred } from '../../../support/deferred.ts';
import { accepted, idOf, send } from '../../../support/mail-context.ts';
import { type Revision, REVISIONS } from '../../../support/mcp-client.ts';
import { connectHere, mcpDaemon } from '../../../support/mcp-in-process.ts';

/** A link whose answers the test gives, in their order; the last one never comes. */
function linkOf(answers: readonly (() => Promise<unknown>)[]): Pick<DaemonLink, 'callRunning'> & { asked: unknown[] } {
  const asked: unknown[] = [];
  const callRunning = (_name: string, input: unknown, { signal }: { signal?: AbortSignal } = {}): Promise<unknown> => {
    const answer = answers[asked.push(input) - 1];
    return (
      answer?.() ?? new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)))
    );
  };
  return { asked, callRunning: callRunning as DaemonLink['callRunning'] };
}

const unread = (mark: string, count: number) => () => Promise.resolve({ mark, unread: count });
const away = (): Promise<never> => Promise.reject(new Error('no daemon'));

test('a daemon that is away is asked again, and what changed meanwhile is told when it is back', async () => {
  const told = deferred();
  const link = linkOf([unread('0-0', 0), away, away, unread('4-1', 1)]);
  const watch = new InboxWatch(link, told.resolve, 1);
  watch.begin();
  watch.begin();
  await told.promise;
  await expect.poll(() => link.asked.length).toBe(5);
  await watch.end();
  const marks = link.asked.map((input) => (input as { mark?: string }).mark);
  expect(marks).toEqual([undefined, '0-0', '0-0', '0-0', '4-1']);
});

test('ends while it pauses, and begins again where it was', async () => {
  const link = linkOf([unread('2-2', 2), away]);
  let told = 0;
  const watch = new InboxWatch(link, () => told++, 600_000);
  watch.begin();
  await expect.poll(() => link.asked.length).toBe(2);
  await watch.end();
  watch.begin();
  await expect.poll(() => link.asked.length).toBe(3);
  await watch.end();
  expect(link.asked.at(-1)).toMatchObject({ mark: '2-2' });
  expect(told).toBe(1);
});

const INBOX = { uri: 'poste://inbox' };

async function read(client: Client): Promise<Omit<WatchInboxResult, 'mark'>> {
  const { contents } = await client.readResource(INBOX);
  const [content] = contents;
  if (!content || !('text' in content)) throw new Error('the resource is text');
  expect(content).toMatchObject({ ...INBOX, mimeType: 'application/json' });
  return JSON.parse(content.text) as Omit<WatchInboxResult, 'mark'>;
}

/** The notices on the inbox that the client gets. */
class Updates {
  count = 0;
  #told = deferred();

  constructor(client: Client) {
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      if (params.uri !== INBOX.uri) return;
      this.count++;
      const told = this.#told;
      this.#told = deferred();
      told.resolve();
    });
  }

  async reach(count: number): Promise<void> {
    while (this.count < count) await this.#told.promise;
  }
}

/** Answers what ends the subscription. */
async function subscribe(client: Client, revision: Revision): Promise<() => Promise<unknown>> {
  if (revision === '2026-07-28') {
    const listening = await client.listen({ resourceSubscriptions: [INBOX.uri] });
    return () => listening.close();
  }
  await client.subscribeResource(INBOX);
  return () => client.unsubscribeResource(INBOX);
}

describe.each(REVISIONS)('poste://inbox over MCP %s', (revision) => {
  test('is listed, says what is unread and marks nothing', async () => {
    const { context, ...daemon } = await mcpDaemon(['eve', 'bob']);
    const { client } = await connectHere(daemon, 'bob', revision);
    expect(client.getServerCapabilities()?.resources).toEqual({ subscribe: true, listChanged: false });
    expect((await client.listResources()).resources).toMatchObject([{ ...INBOX, title: 'Unread mail' }]);
    expect(await read(client)).toMatchObject({ unread: 0, total: 0, summaries: [] });
    const { message_id } = accepted(await send(context, 'eve', { to: ['bob'], subject: 'look' }));
    const shown = await read(client);
    expect(shown).toMatchObject({ unread: 1, summaries: [{ message_id, subject: 'look' }] });
    expect(shown.notice).toContain('written by other agents');
    const bob = await idOf(context, 'bob');
    const entry = await context.store.read((reader) => reader.get('entry', bob, 1));
    expect(entry).toMatchObject({ state: 'unread', notifiedAtMs: null });
    await expect(client.readResource({ uri: 'poste://other' })).rejects.toThrow('poste://other');
  });

  test('a client that subscribed is told when mail comes and when it is acked, until it ends that', async () => {
    const { context, watches, ...daemon } = await mcpDaemon(['eve', 'bob']);
    const { client } = await connectHere(daemon, 'bob', revision);
    const updates = new Updates(client);
    const end = await subscribe(client, revision);
    await watches.reachBegun(2);
    const { message_id } = accepted(await send(context, 'eve', { to: ['bob'] }));
    await updates.reach(1);
    await watches.reachBegun(3);
    const bob = await idOf(context, 'bob');
    accepted(await useInbox(context, bob, { action: 'ack', message_ids: [message_id] }));
    await updates.reach(2);
    await watches.reachBegun(4);
    await end();
    accepted(await send(context, 'eve', { to: ['bob'] }));
    // One that listens no more is told nothing, whether or not its mailbox is watched.
    if (revision === '2026-07-28') await watches.reachBegun(5);
    else await watches.reachUnderWay(0);
    expect(await read(client)).toMatchObject({ unread: 1 });
    expect(updates.count).toBe(2);
  });

  test('what the client has seen is not told, and what it has not seen is told as it subscribes', async () => {
    const { context, watches, ...daemon } = await mcpDaemon(['eve', 'bob']);
    const { client } = await connectHere(daemon, 'bob', revision);
    const updates = new Updates(client);
    accepted(await send(context, 'eve', { to: ['bob'] }));
    expect(await read(client)).toMatchObject({ unread: 1 });
    await subscribe(client, revision);
    await watches.reachBegun(2);
    const answers = watches.hold();
    accepted(await send(context, 'eve', { to: ['bob'] }));
    expect(await read(client)).toMatchObject({ unread: 2 });
    answers.resolve();
    await watches.reachBegun(4);
    expect(await read(client)).toMatchObject({ unread: 2 });
    expect(updates.count).toBe(0);
    const other = await connectHere(daemon, 'bob', revision);
    const otherUpdates = new Updates(other.client);
    await subscribe(other.client, revision);
    await otherUpdates.reach(1);
  });

  test('the waits end when the client leaves, and when the daemon stops', async () => {
    const { watches, server, ...daemon } = await mcpDaemon(['eve', 'bob']);
    const leaving = await connectHere(daemon, 'bob', revision);
    const staying = await connectHere(daemon, 'eve', revision);
    for (const { client } of [leaving, staying]) await subscribe(client, revision);
    await watches.reachBegun(4);
    expect(watches.underWay).toBe(2);
    await leaving.client.close();
    await leaving.served.ended;
    await leaving.served.close();
    await watches.reachUnderWay(1);
    await server.drain();
    expect(watches.underWay).toBe(0);
  });
});
