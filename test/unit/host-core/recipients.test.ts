import { describe, expect, test } from 'vitest';
import { parseAddress } from '../../../src/host/core/address.ts';
import { type AddressBook, byPeer, expandRecipients } from '../../../src/host/core/recipients.ts';
import type { AgentId, DirectoryAgent, PeerRow } from '../../../src/host/core/rows.ts';

interface GivenAgent {
  id: string;
  name: string;
  roles?: string[];
  formerNames?: string[];
  isRemoved?: boolean;
}

/** `given(agents, peers).when(to)`: whom the addresses mean for the agent `me`. */
function given(agents: readonly GivenAgent[], peers: Readonly<Record<string, DirectoryAgent[] | null>> = {}) {
  const book: AddressBook = {
    hostName: 'Here' as never,
    senderId: 'me' as AgentId,
    names: new Map(
      agents.flatMap(({ id, name, formerNames = [] }) =>
        [name, ...formerNames].map((one, at) => {
          const row = { agentId: id as AgentId, name: one, retiredAtMs: at === 0 ? null : 1 };
          return [one.toLowerCase(), row] as const;
        }),
      ),
    ),
    agents: new Map(
      agents.map(({ id, name, roles = [], isRemoved = false }) => {
        const agentId = id as AgentId;
        return [agentId, { agentId, name, roles, createdAtMs: 0, removedAtMs: isRemoved ? 1 : null }];
      }),
    ),
    peers: Object.entries(peers).map(([hostName, listed]) => {
      const directory = listed && { agents: listed, fetchedAtMs: 0 };
      return { peerId: `peer-${hostName}`, hostName, directory } as unknown as PeerRow;
    }),
  };
  return {
    when: (...to: string[]) => {
      const expansion = expandRecipients(
        to.map((text) => parseAddress(text)!),
        book,
      );
      return {
        meant: expansion.targets.map(({ address, addressedAs }) => [address, ...addressedAs]),
        refused: expansion.unresolved.map(({ to, reason }) => [to, reason]),
        ...expansion,
      };
    },
  };
}

const me = { id: 'me', name: 'me', roles: ['qa'] };

describe('whom addresses mean', () => {
  test('a role and everyone leave out the sender, who may still be named', () => {
    const house = given([me, { id: 'b', name: 'bob', roles: ['QA'] }]);
    expect(house.when('role:qa').meant).toEqual([['bob@Here', 'role:qa']]);
    expect(house.when('*').meant).toEqual([['bob@Here', '*']]);
    expect(house.when('*', 'me').meant).toEqual([
      ['bob@Here', '*'],
      ['me@Here', 'me'],
    ]);
    expect(given([me]).when('role:qa', '*').refused).toEqual([
      ['role:qa', 'empty-role'],
      ['*', 'nobody-else'],
    ]);
  });

  test('everyone is neither the owner, nor the host, nor the owner of another host', () => {
    const house = given([me], {
      laptop: [
        { name: 'owner', roles: [] },
        { name: 'Poste', roles: [] },
        { name: 'dave', roles: [] },
      ],
    });
    expect(house.when('*').meant).toEqual([['dave@laptop', '*']]);
  });

  test('a former name means the agent that left it behind, and is told apart from its present one', () => {
    const house = given([me, { id: 'b', name: 'rob', formerNames: ['bob', 'robert'] }]);
    expect(house.when('bob').targets).toMatchObject([{ address: 'rob@Here', forwardedFrom: 'bob' }]);
    expect(house.when('bob', 'rob').targets).toMatchObject([{ addressedAs: ['bob', 'rob'], forwardedFrom: null }]);
    expect(house.when('robert', 'bob').targets).toMatchObject([{ forwardedFrom: 'robert' }]);
  });

  test('a removed agent is refused by all its names and belongs to no group', () => {
    const house = given([me, { id: 'b', name: 'rob', roles: ['dev'], formerNames: ['bob'], isRemoved: true }]);
    expect(house.when('rob', 'bob', 'role:dev').refused).toEqual([
      ['rob', 'removed-agent'],
      ['bob', 'removed-agent'],
      ['role:dev', 'empty-role'],
    ]);
  });

  test('a name at a paired host is taken as its directory writes it, and without one as it is written', () => {
    const house = given([me], { laptop: [{ name: 'Dave', roles: [] }], silent: null });
    expect(house.when('dave@LAPTOP', 'DAVE@laptop', 'new@laptop', 'x@silent', 'owner@silent').targets).toMatchObject([
      { address: 'Dave@laptop', addressedAs: ['dave@LAPTOP', 'DAVE@laptop'], isListed: true },
      { address: 'new@laptop', isListed: false },
      { address: 'x@silent', isListed: false },
      { address: 'owner@silent', isListed: true },
    ]);
  });

  test('recipients on one host are one target', () => {
    const house = given([me, { id: 'b', name: 'bob' }], { laptop: null, desktop: null });
    const { targets } = house.when('x@laptop', 'bob', 'y@desktop', 'z@laptop');
    expect(byPeer(targets).map(({ peer, recipients }) => [peer.hostName, recipients])).toEqual([
      ['laptop', ['x@laptop', 'z@laptop']],
      ['desktop', ['y@desktop']],
    ]);
  });
});
