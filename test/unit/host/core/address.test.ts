import { describe, expect, test } from 'vitest';
import {
  isSameHost,
  isSameName,
  parseAddress,
  partsOfAddress,
  type AddressBook,
  agentById,
  byPeer,
  decidingPeers,
  expandRecipients,
} from '../../../../src/host/core/address.ts';
import { type AgentId, type DirectoryAgent, OWNER_ID, type PeerRow } from '../../../../src/host/core/rows.ts';

describe('the forms of an address', () => {
  test.each([
    ['reviewer', { type: 'agent', name: 'reviewer', host: null }],
    ['Re.View_er-2', { type: 'agent', name: 'Re.View_er-2', host: null }],
    ['owner', { type: 'agent', name: 'owner', host: null }],
    ['owner@laptop', { type: 'agent', name: 'owner', host: 'laptop' }],
    ['bob@lap.top-1', { type: 'agent', name: 'bob', host: 'lap.top-1' }],
    ['role:tester', { type: 'role', role: 'tester' }],
    ['*', { type: 'everyone' }],
  ])('%s is one', (text, form) => {
    expect(parseAddress(text)).toEqual({ ...form, text });
  });

  test.each([
    '',
    ' bob',
    'bob ',
    'bob smith',
    '.bob',
    'bob@',
    '@laptop',
    'bob@@laptop',
    'bob@lap@top',
    'bob@-laptop',
    'bob@laptop.',
    'role:',
    'role:a b',
    'role:tester@laptop',
    'Role:tester',
    '*@laptop',
    '**',
    'bób',
    'bob\n',
    'a'.repeat(65),
    `bob@${'h'.repeat(64)}`,
  ])('%j is none', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  test('a concrete address has a name and a host', () => {
    expect(partsOfAddress('bob@laptop')).toEqual({ name: 'bob', host: 'laptop' });
    expect(partsOfAddress('bob')).toBeUndefined();
    expect(partsOfAddress('*')).toBeUndefined();
    expect(partsOfAddress('not one')).toBeUndefined();
  });
});

test('names and hosts are the same without case', () => {
  expect([isSameName('Bob', 'bOB'), isSameName('bob', 'rob')]).toEqual([true, false]);
  expect([isSameHost('Lap.Top', 'lap.top'), isSameHost('laptop', 'desktop')]).toEqual([true, false]);
});

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
    book,
    /** The hosts whose lists of agents decide it. */
    decides: (...to: string[]) =>
      decidingPeers(
        to.map((text) => parseAddress(text)!),
        book,
      ).map(({ hostName }) => hostName),
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

  test('a name that nobody has here, an unpaired host and the host itself are refused, the owner is not', () => {
    const house = given([me], { laptop: null });
    expect(house.when('nobody', 'x@elsewhere', 'poste', 'Poste@laptop').refused).toEqual([
      ['nobody', 'unknown-agent'],
      ['x@elsewhere', 'unknown-host'],
      ['poste', 'nobody-reads'],
      ['Poste@laptop', 'nobody-reads'],
    ]);
    expect(house.when('Owner', 'owner@HERE').targets).toEqual([
      {
        type: 'local',
        agentId: OWNER_ID,
        address: 'owner@Here',
        addressedAs: ['Owner', 'owner@HERE'],
        forwardedFrom: null,
      },
    ]);
  });

  test('a name that is known of an agent that is not is unknown', () => {
    const house = given([me]);
    const names = new Map(house.book.names).set('lost', { agentId: 'l' as AgentId, name: 'lost', retiredAtMs: null });
    const { unresolved } = expandRecipients([parseAddress('lost')!], { ...house.book, names });
    expect(unresolved).toEqual([{ to: 'lost', reason: 'unknown-agent' }]);
  });

  test('an agent of this host may be named with its host, and is one recipient however it is named', () => {
    const house = given([me, { id: 'b', name: 'bob' }], { laptop: null });
    expect(house.when('bob@here', 'bob', 'BOB', 'bob').targets).toMatchObject([
      { type: 'local', addressedAs: ['bob@here', 'bob', 'BOB'] },
    ]);
  });

  test('a group holds who has its role among others, here and elsewhere, by host and name', () => {
    const agents = ['cy', 'Ann', 'bob'].map((name) => ({ id: name, name, roles: ['ops', 'QA'] }));
    const elsewhere = ['Zoe', 'abe'].map((name) => ({ name, roles: ['qa', 'ops'] }));
    const house = given([me, ...agents, { id: 'x', name: 'x', roles: ['ops'] }], {
      silent: null,
      laptop: [...elsewhere, { name: 'no', roles: [] }],
    });
    const { targets, meant } = house.when('role:qa');
    expect(meant.map(([address]) => address)).toEqual(['Ann@Here', 'bob@Here', 'cy@Here', 'abe@laptop', 'Zoe@laptop']);
    expect(targets.at(-1)).toMatchObject({ type: 'remote', isListed: true });
  });

  test('a present name outweighs a former one, in whatever order, and agents of other hosts have none', () => {
    const house = given([me, { id: 'b', name: 'rob', formerNames: ['bob'] }], { laptop: null });
    expect(house.when('rob', 'bob').targets).toMatchObject([{ forwardedFrom: null }]);
    for (const target of house.when('x@laptop', 'X@laptop').targets) expect(target).not.toHaveProperty('forwardedFrom');
    expect(house.when('x@laptop', 'bob').targets).toMatchObject([{}, { forwardedFrom: 'bob' }]);
  });

  test('lists of agents decide a group, a name that nobody has here, and one that its host does not list', () => {
    const house = given(
      [me, { id: 'b', name: 'bob', formerNames: ['rob'] }, { id: 'g', name: 'gone', isRemoved: true }],
      {
        laptop: [{ name: 'dave', roles: [] }],
        desktop: null,
      },
    );
    for (const group of ['*', 'role:qa']) expect(house.decides('bob', group)).toEqual(['laptop', 'desktop']);
    expect(house.decides('bob', 'nobody')).toEqual(['laptop', 'desktop']);
    expect(house.decides('bob', 'rob', 'gone', 'owner', 'x@elsewhere')).toEqual([]);
    expect(house.decides('dave@laptop', 'owner@desktop')).toEqual([]);
    expect(house.decides('new@laptop', 'other@laptop', 'bob')).toEqual(['laptop']);
    expect(house.decides()).toEqual([]);
  });

  test('a reply goes to the agent that wrote, whatever it is called now, while it is there', () => {
    const { book } = given([
      me,
      { id: 'b', name: 'rob', formerNames: ['bob'] },
      { id: 'g', name: 'gone', isRemoved: true },
    ]);
    expect(agentById('b' as AgentId, book)).toMatchObject({
      address: 'rob@Here',
      addressedAs: [],
      forwardedFrom: null,
    });
    expect(agentById(OWNER_ID, book)).toMatchObject({ agentId: OWNER_ID, address: 'owner@Here' });
    expect(agentById('g' as AgentId, book)).toBeUndefined();
    expect(agentById('nobody' as AgentId, book)).toBeUndefined();
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
