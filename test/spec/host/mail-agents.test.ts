/** mail_agents, and the agents of a host as its owner manages them. */
import { describe, expect, test } from 'vitest';
import { addAgent, listOwnAgents, removeAgent, renameAgent, setAgentRoles } from '../../../src/host/office/agents.ts';
import { AgentAddInput } from '../../../src/host/documents/agents.ts';
import { parseInput } from '../../../src/host/documents/parse-input.ts';
import { actingAgent } from '../../../src/host/office/acting-agent.ts';
import { listAgents } from '../../../src/host/office/directory.ts';
import { ownDirectory } from '../../../src/host/office/own-directory.ts';
import { accepted, addAgents, addPeer, addSession, idOf, officeOf, refused, send } from '../../support/mail-office.ts';

describe('mail_agents', () => {
  test('shows who can be written to, here and at paired hosts, with roles, presence and age', async () => {
    const office = await officeOf(['zoe:qa', 'alice']);
    await addSession(office, 'alice');
    await addPeer(office, 'laptop', [{ name: 'dave', roles: ['QA'] }]);
    await addPeer(office, 'silent', null);
    await addPeer(office, 'gone', [{ name: 'x', roles: [] }], { unpairedAtMs: 1 });
    office.clock.nowMs += 90_000;
    const all = accepted(await listAgents(office, await idOf(office, 'alice'), {}));
    expect(all).toEqual({
      you: 'alice@here',
      agents: [
        {
          address: 'alice@here',
          name: 'alice',
          host: 'here',
          roles: [],
          presence: 'live',
          directory_age_seconds: null,
        },
        {
          address: 'zoe@here',
          name: 'zoe',
          host: 'here',
          roles: ['qa'],
          presence: 'offline',
          directory_age_seconds: null,
        },
        {
          address: 'dave@laptop',
          name: 'dave',
          host: 'laptop',
          roles: ['QA'],
          presence: 'remote',
          directory_age_seconds: 90,
        },
      ],
    });
    const named = async (input: object) =>
      accepted(await listAgents(office, null, input)).agents.map((one) => one.address);
    expect(await named({ host: 'LAPTOP' })).toEqual(['dave@laptop']);
    expect(await named({ host: 'silent' })).toEqual([]);
    expect(await named({ role: 'qa' })).toEqual(['zoe@here', 'dave@laptop']);
    expect(refused(await listAgents(office, null, { host: 'latpop' }))).toMatchObject({
      code: 'NO_SUCH_PEER',
      details: { field: 'host', suggestions: ['laptop'] },
    });
  });

  test('tells a peer names and roles only, and nothing of agents that were removed', async () => {
    const office = await officeOf(['alice:qa', 'bob']);
    accepted(await removeAgent(office, { name: 'bob' }));
    expect(await ownDirectory(office)).toEqual([{ name: 'alice', roles: ['qa'] }]);
  });
});

describe('agents', () => {
  test('are added with distinct roles, and listed with what their mailboxes hold', async () => {
    const office = await officeOf([]);
    const added = accepted(await addAgent(office, { name: 'bob', roles: ['qa', 'QA', 'dev'] }));
    const expected = { name: 'bob', address: 'bob@here', roles: ['QA', 'dev'], former_names: [], presence: 'offline' };
    expect(added).toEqual({ ...expected, unread: 0, total: 0, created_at: office.nowMs() });
    accepted(await send(office, 'owner', { to: ['bob'] }));
    expect((await listOwnAgents(office)).agents).toMatchObject([{ ...expected, unread: 1, total: 1 }]);
  });

  test.each(['', 'a b', '-x', 'a'.repeat(65), 'role:x', '*', 'bób'])('cannot be called %j', (name) => {
    expect(refused(parseInput(AgentAddInput, { name }))).toMatchObject({
      code: 'BAD_INPUT',
      details: { field: 'name' },
    });
  });

  test.each(['owner', 'Poste', 'BOB'])('cannot take the name %s', async (name) => {
    const office = await officeOf(['bob', 'alice']);
    expect(refused(await addAgent(office, { name })).code).toBe('NAME_TAKEN');
    expect(refused(await renameAgent(office, { name: 'alice', new_name: name }))).toMatchObject({
      code: 'NAME_TAKEN',
      details: { field: 'new_name' },
    });
  });

  test('keep their mailbox and former names when they are renamed, to and fro', async () => {
    const office = await officeOf(['bob']);
    const bob = await idOf(office, 'bob');
    accepted(await send(office, 'owner', { to: ['bob'] }));
    expect(accepted(await renameAgent(office, { name: 'bob', new_name: 'rob' })).former_names).toEqual(['bob']);
    expect(accepted(await renameAgent(office, { name: 'rob', new_name: 'Bob' }))).toMatchObject({
      name: 'Bob',
      former_names: ['rob'],
      total: 1,
    });
    expect([await actingAgent(office, 'rob'), await actingAgent(office, 'BOB')]).toEqual([bob, bob]);
    accepted(await renameAgent(office, { name: 'bob', new_name: 'bob' }));
    expect((await listOwnAgents(office)).agents).toMatchObject([{ name: 'bob', former_names: ['rob'] }]);
  });

  test('are not managed by a name that they had before, nor when they are gone', async () => {
    const office = await officeOf(['bob']);
    accepted(await renameAgent(office, { name: 'bob', new_name: 'rob' }));
    expect(refused(await removeAgent(office, { name: 'bob' })).details).toMatchObject({ suggestions: ['rob'] });
    accepted(await removeAgent(office, { name: 'rob' }));
    for (const refusal of [
      await removeAgent(office, { name: 'rob' }),
      await renameAgent(office, { name: 'rob', new_name: 'x' }),
      await setAgentRoles(office, { name: 'rob', roles: [] }),
      await actingAgent(office, 'rob'),
    ]) {
      expect(refused(refusal)).toMatchObject({ code: 'NO_SUCH_AGENT', message: expect.stringContaining('removed') });
    }
    expect(refused(await actingAgent(office, 'nobody')).message).toContain('poste agent add');
  });

  test('that were removed leave their name to another agent with a mailbox of its own', async () => {
    const office = await officeOf(['bob']);
    await addSession(office, 'bob');
    const before = await idOf(office, 'bob');
    accepted(await send(office, 'owner', { to: ['bob'] }));
    accepted(await removeAgent(office, { name: 'bob' }));
    expect(office.told.at(-1)).toEqual({ type: 'session-ended', agentId: before, sessionId: 's1' });
    await addAgents(office, ['bob']);
    expect(await idOf(office, 'bob')).not.toBe(before);
    expect((await listOwnAgents(office)).agents).toMatchObject([{ name: 'bob', total: 0 }]);
  });

  test('have other roles from when they are given', async () => {
    const office = await officeOf(['bob:qa']);
    expect(accepted(await setAgentRoles(office, { name: 'bob', roles: ['dev'] })).roles).toEqual(['dev']);
    accepted(await send(office, 'owner', { to: ['role:dev'] }));
    expect(refused(await send(office, 'owner', { to: ['role:qa'] })).code).toBe('UNKNOWN_RECIPIENT');
  });
});
