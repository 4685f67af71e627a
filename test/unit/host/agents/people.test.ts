/** Tests whom the owner's page shows: agents with their presence, and hosts with the way there. */
import { expect, test } from 'vitest';
import { isoSecond } from '../../../../src/protocol/time.ts';
import { listPeople } from '../../../../src/host/agents/directory.ts';
import { accepted, addPeer, addSession, contextOf } from '../../../support/mail-context.ts';
import { RELAY_FACTS } from '../../../support/scripted-carriers.ts';

const directories = { freshenDirectories: () => Promise.resolve() };

test('agents are live, seen before, or of another host; hosts are on the LAN, else the relay, else away', async () => {
  const context = await contextOf(['alice:review', 'bob']);
  await addSession(context, 'alice');
  const seenAt = context.nowMs();
  await addPeer(context, 'near', [{ name: 'nora', roles: ['qa'] }], { address: '10.0.0.2:1', reachedAtMs: seenAt });
  await addPeer(context, 'far', null);
  await addPeer(context, 'lost', [], { address: '10.0.0.3:1', lanFailures: 2 });
  const mailFailed = { count: 2, isAnswered: true };
  await addPeer(context, 'deaf', [], { address: '10.0.0.4:1', reachedAtMs: seenAt, mailFailed });
  await addPeer(context, 'new', [], { address: '10.0.0.5:1' });
  const shown = { relay: { url: 'https://relay.example' }, state: 'two-histories' as const };
  const relay = { status: () => Promise.resolve(shown) };
  const reach = { factsFor: () => RELAY_FACTS };
  const people = accepted(await listPeople(context, { directories, relay, reach }));
  expect(people.you).toBe('owner@here');
  expect(people.relay).toEqual({ url: 'https://relay.example', state: 'two-histories' });
  expect(people.agents).toEqual([
    {
      address: 'alice@here',
      name: 'alice',
      host: 'here',
      roles: ['review'],
      presence: 'live',
      seen_at: isoSecond(seenAt),
    },
    { address: 'bob@here', name: 'bob', host: 'here', roles: [], presence: 'offline', seen_at: null },
    { address: 'nora@near', name: 'nora', host: 'near', roles: ['qa'], presence: 'remote', seen_at: null },
  ]);
  const ways = people.hosts.map(({ host, way, agents }) => [host, way, agents]);
  expect(ways[0]).toEqual(['here', 'here', 2]);
  expect(ways.slice(1)).toEqual(
    expect.arrayContaining([
      ['near', 'lan', 1],
      ['far', 'relay', null],
      ['lost', 'relay', 0],
      ['deaf', 'relay', 0],
      ['new', 'unknown', 0],
    ]),
  );

  context.clock.nowMs += 86_400_000;
  const later = accepted(await listPeople(context, { directories, relay, reach: { factsFor: () => null } }));
  expect(later.agents[0]).toMatchObject({ presence: 'offline', seen_at: isoSecond(seenAt) });
  expect(
    later.hosts
      .filter(({ way }) => way === 'none')
      .map(({ host }) => host)
      .toSorted(),
  ).toEqual(['deaf', 'far', 'lost']);
});
