/** mail_agents, and the agents of a host as its owner manages them. */
import { describe, expect, test } from 'vitest';
import { isoSecond } from '../../../src/protocol/time.ts';
import {
  actingAgent,
  addAgent,
  listOwnAgents,
  ownDirectory,
  removeAgent,
  renameAgent,
  setAgentRoles,
} from '../../../src/host/agents/agents.ts';
import { AgentAddInput } from '../../../src/host/contract/agents.ts';
import { parseInput } from '../../../src/host/contract/parse-input.ts';
import { listAgents } from '../../../src/host/agents/directory.ts';
import {
  accepted,
  addAgents,
  addPeer,
  addSession,
  idOf,
  contextOf,
  refused,
  send,
} from '../../support/mail-context.ts';

describe('mail_agents', () => {
  test('shows who can be written to, here and at paired hosts, with roles, presence and age', async () => {
    const context = await contextOf(['zoe:qa', 'alice']);
    await addSession(context, 'alice');
    await addPeer(context, 'laptop', [{ name: 'dave', roles: ['QA'] }]);
    await addPeer(context, 'silent', null);
    await addPeer(context, 'gone', [{ name: 'x', roles: [] }], { unpairedAtMs: 1 });
    context.clock.nowMs += 90_000;
    const all = accepted(await listAgents(context, await idOf(context, 'alice'), {}));
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
      accepted(await listAgents(context, null, input)).agents.map((one) => one.address);
    expect(await named({ host: 'LAPTOP' })).toEqual(['dave@laptop']);
    expect(await named({ host: 'silent' })).toEqual([]);
    expect(await named({ role: 'qa' })).toEqual(['zoe@here', 'dave@laptop']);
    expect(refused(await listAgents(context, null, { host: 'latpop' }))).toMatchObject({
      code: 'NO_SUCH_PEER',
      details: { field: 'host', suggestions: ['laptop'] },
    });
  });

  test('tells a peer names and roles only, and nothing of agents that were removed', async () => {
    const context = await contextOf(['alice:qa', 'bob']);
    accepted(await removeAgent(context, { name: 'bob' }));
    expect(await ownDirectory(context)).toEqual([{ name: 'alice', roles: ['qa'] }]);
  });
});

describe('agents', () => {
  test('are added with distinct roles, and listed with what their mailboxes hold', async () => {
    const context = await contextOf([]);
    const added = accepted(await addAgent(context, { name: 'bob', roles: ['qa', 'QA', 'dev'] }));
    const expected = { name: 'bob', address: 'bob@here', roles: ['QA', 'dev'], former_names: [], presence: 'offline' };
    expect(added).toEqual({ ...expected, unread: 0, total: 0, created_at: isoSecond(context.nowMs()) });
    accepted(await send(context, 'owner', { to: ['bob'] }));
    expect((await listOwnAgents(context)).agents).toMatchObject([{ ...expected, unread: 1, total: 1 }]);
  });

  test.each(['', 'a b', '-x', 'a'.repeat(65), 'role:x', '*', 'bób'])('cannot be called %j', (name) => {
    expect(refused(parseInput(AgentAddInput, { name }))).toMatchObject({
      code: 'BAD_INPUT',
      details: { field: 'name' },
    });
  });

  test.each(['owner', 'Poste', 'BOB'])('cannot take the name %s', async (name) => {
    const context = await contextOf(['bob', 'alice']);
    expect(refused(await addAgent(context, { name })).code).toBe('NAME_TAKEN');
    expect(refused(await renameAgent(context, { name: 'alice', new_name: name }))).toMatchObject({
      code: 'NAME_TAKEN',
      details: { field: 'new_name' },
    });
  });

  test('keep their mailbox and former names when they are renamed, to and fro', async () => {
    const context = await contextOf(['bob']);
    const bob = await idOf(context, 'bob');
    accepted(await send(context, 'owner', { to: ['bob'] }));
    expect(accepted(await renameAgent(context, { name: 'bob', new_name: 'rob' })).former_names).toEqual(['bob']);
    expect(accepted(await renameAgent(context, { name: 'rob', new_name: 'Bob' }))).toMatchObject({
      name: 'Bob',
      former_names: ['rob'],
      total: 1,
    });
    expect([await actingAgent(context, 'rob'), await actingAgent(context, 'BOB')]).toEqual([bob, bob]);
    accepted(await renameAgent(context, { name: 'bob', new_name: 'bob' }));
    expect((await listOwnAgents(context)).agents).toMatchObject([{ name: 'bob', former_names: ['rob'] }]);
  });

  test('are not managed by a name that they had before, nor when they are gone', async () => {
    const context = await contextOf(['bob']);
    accepted(await renameAgent(context, { name: 'bob', new_name: 'rob' }));
    expect(refused(await removeAgent(context, { name: 'bob' })).details).toMatchObject({ suggestions: ['rob'] });
    accepted(await removeAgent(context, { name: 'rob' }));
    for (const refusal of [
      await removeAgent(context, { name: 'rob' }),
      await renameAgent(context, { name: 'rob', new_name: 'x' }),
      await setAgentRoles(context, { name: 'rob', roles: [] }),
      await actingAgent(context, 'rob'),
    ]) {
      expect(refused(refusal)).toMatchObject({ code: 'NO_SUCH_AGENT', message: expect.stringContaining('removed') });
    }
    expect(refused(await actingAgent(context, 'nobody')).message).toContain('poste agent add');
  });

  test('that were removed leave their name to another agent with a mailbox of its own', async () => {
    const context = await contextOf(['bob']);
    await addSession(context, 'bob');
    const before = await idOf(context, 'bob');
    accepted(await send(context, 'owner', { to: ['bob'] }));
    accepted(await removeAgent(context, { name: 'bob' }));
    expect(context.told).toContainEqual({ type: 'session-ended', agentId: before, sessionId: 's1' });
    await addAgents(context, ['bob']);
    expect(await idOf(context, 'bob')).not.toBe(before);
    expect((await listOwnAgents(context)).agents).toMatchObject([{ name: 'bob', total: 0 }]);
  });

  test('have other roles from when they are given', async () => {
    const context = await contextOf(['bob:qa']);
    expect(accepted(await setAgentRoles(context, { name: 'bob', roles: ['dev'] })).roles).toEqual(['dev']);
    accepted(await send(context, 'owner', { to: ['role:dev'] }));
    expect(refused(await send(context, 'owner', { to: ['role:qa'] })).code).toBe('UNKNOWN_RECIPIENT');
  });
});
