/** Whom the owner's page shows: agents with their presence, and hosts with the way there. */
import { expect, test } from 'vitest';
import { listPeople } from '../../../../src/host/agents/people.ts';
import type { RelayStatusResult } from '../../../../src/host/api/schemas/peers.ts';
import { accepted, addPeer, addSession, contextOf } from '../../../support/mail-context.ts';

const directories = { freshenDirectories: () => Promise.resolve() };

function relayStatus(state: RelayStatusResult['state']): () => Promise<RelayStatusResult> {
  return () => Promise.resolve({ state } as RelayStatusResult);
}

test('agents are live, seen before, or of another host; hosts are reached over the LAN, else the relay, else not', async () => {
  const context = await contextOf(['alice:review', 'bob']);
  await addSession(context, 'alice');
  const seenAt = context.nowMs();
  await addPeer(context, 'near', [{ name: 'nora', roles: ['qa'] }], { address: '10.0.0.2:1', reachedAtMs: seenAt });
  await addPeer(context, 'far', null);
  await addPeer(context, 'lost', [], { address: '10.0.0.3:1', lanFailures: 2 });
  const people = accepted(await listPeople(context, { directories, relayStatus: relayStatus('ready') }));
  expect(people.you).toBe('owner@here');
  expect(people.agents).toEqual([
    { address: 'alice@here', name: 'alice', host: 'here', roles: ['review'], presence: 'live', seen_at: seenAt },
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
    ]),
  );

  context.clock.nowMs += 86_400_000;
  const later = accepted(await listPeople(context, { directories, relayStatus: relayStatus('failing') }));
  expect(later.agents[0]).toMatchObject({ presence: 'offline', seen_at: seenAt });
  expect(
    later.hosts
      .filter(({ way }) => way === 'none')
      .map(({ host }) => host)
      .toSorted(),
  ).toEqual(['far', 'lost']);
});
