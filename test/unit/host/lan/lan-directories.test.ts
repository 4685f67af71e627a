/** The lists of agents that paired hosts have of each other, over real listeners: told, asked for again, and dated. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sendMail } from '../../../../src/host/mail/send.ts';
import { addAgent, removeAgent, renameAgent, setAgentRoles } from '../../../../src/host/agents/agents.ts';
import { listAgents } from '../../../../src/host/agents/directory.ts';
import { trustIn } from '../../../../src/host/outbox/trust-rows.ts';
import { pinRelay } from '../../../../src/host/relay/relay-rows.ts';
import { relay } from '../../../support/hosts.ts';
import { type LanHost, pairedLanHosts, peerOf, until } from '../../../support/lan-hosts.ts';
import { accepted, addAgents, idOf } from '../../../support/mail-context.ts';
import { looked, seenEntry } from '../../../support/relay-notes.ts';

/** Answers true when `host` lists exactly these agents of `name`, each with its roles as in `bob:qa`. */
function untilListed(host: LanHost, name: string, agents: string[]): Promise<true> {
  return until(host, async () => {
    const listed = (await peerOf(host, name))?.directory?.agents.map((agent) => [agent.name, ...agent.roles].join(':'));
    return listed?.toSorted().join() === agents.join() ? true : undefined;
  });
}

/** As when the other host told nothing for so long. */
async function forgetSince(host: LanHost, name: string, agents: string[], ageMs: number): Promise<void> {
  const peer = await peerOf(host, name);
  const directory = {
    agents: agents.map((one) => ({ name: one, roles: [] })),
    fetchedAtMs: host.context.nowMs() - ageMs,
  };
  await host.context.store.transact((tx) => tx.put('peer', [peer!.peerId], { ...peer!, directory }));
}

/** The first note that `host` has heard and not joined yet, and of whom. */
async function heardAt(host: LanHost): Promise<[string, string] | undefined> {
  const { pending } = await host.context.store.read((reader) => trustIn(reader, relay.key));
  return pending[0] && [pending[0].peerId, pending[0].note];
}

const input = { subject: 'All', body: 'x', kind: 'request' } as const;

describe('the agents of a paired host', () => {
  test('added, renamed, with other roles and removed: the other host is told each time', async () => {
    const [here, there] = await pairedLanHosts();
    const name = there.context.identity().hostName;
    accepted(await addAgent(there.context, { name: 'bob' }));
    expect(await untilListed(here, name, ['bob'])).toBe(true);
    accepted(await setAgentRoles(there.context, { name: 'bob', roles: ['qa'] }));
    expect(await untilListed(here, name, ['bob:qa'])).toBe(true);
    accepted(await renameAgent(there.context, { name: 'bob', new_name: 'bert' }));
    expect(await untilListed(here, name, ['bert:qa'])).toBe(true);
    accepted(await removeAgent(there.context, { name: 'bert' }));
    expect(await untilListed(here, name, [])).toBe(true);
  });

  test('are asked for again before a group, an unknown name or the list is used', async () => {
    const [here, there] = await pairedLanHosts();
    const name = there.context.identity().hostName;
    await addAgents(here.context, ['eve']);
    accepted(await addAgent(there.context, { name: 'bob' }));
    await untilListed(here, name, ['bob']);
    const eve = await idOf(here.context, 'eve');
    const directories = here.lan;
    const send = async (to: string): Promise<string[]> => {
      await forgetSince(here, name, [], 10_000);
      const sent = accepted(await sendMail(here.context, eve, { ...input, to: [to] }, { directories }));
      return sent.recipients.map(({ recipient, detail }) => `${recipient} ${detail}`);
    };
    expect(await send('*')).toEqual([`bob@${name} Queued for ${name}; not delivered yet.`]);
    expect(await send(`bob@${name}`)).toEqual([`bob@${name} Queued for ${name}; not delivered yet.`]);
    await forgetSince(here, name, [], 10_000);
    const unknown = await sendMail(here.context, eve, { ...input, to: ['bob'] }, { directories });
    expect(unknown).toMatchObject({ details: { recipients: [{ to: 'bob', suggestions: [`bob@${name}`] }] } });
    await forgetSince(here, name, [], 10_000);
    const { agents } = accepted(await listAgents(here.context, eve, {}, directories));
    expect(agents.map(({ address }) => address)).toContain(`bob@${name}`);
  });

  test('come with what each host has seen of the relay that both use, after a look at it', async () => {
    const [here, there] = await pairedLanHosts();
    const [name, ofHere] = [there.context.identity().hostName, here.context.identity().hostName];
    for (const [host, other, size] of [
      [here, name, 17],
      [there, ofHere, 18],
    ] as const) {
      const peer = (await peerOf(host, other))!;
      await host.context.store.transact((tx) => {
        void pinRelay(tx, host.context, { url: 'http://127.0.0.1:1', pubkey: relay.key, proof: null });
        tx.put('peer', [peer.peerId], { ...peer, atRelay: relay.key });
      });
      await looked(host.context, size);
    }
    // There the list is posted.
    accepted(await addAgent(here.context, { name: 'eve' }));
    expect(await until(there, () => heardAt(there))).toEqual([
      (await peerOf(there, ofHere))!.peerId,
      seenEntry(17).checkpoint,
    ]);
    // Here it is asked for.
    await forgetSince(here, name, [], 10_000);
    accepted(await listAgents(here.context, await idOf(here.context, 'eve'), {}, here.lan));
    expect([here.looks.count, there.looks.count]).toEqual([1, 1]);
    expect(await heardAt(here)).toEqual([(await peerOf(here, name))!.peerId, seenEntry(18).checkpoint]);
  });

  test('a host that is away is not waited for, and the send says how old its list is', async () => {
    const [here, there] = await pairedLanHosts();
    const name = there.context.identity().hostName;
    await addAgents(here.context, ['eve']);
    // The question that the pairing began is answered, so that nothing comes after what is written here.
    await untilListed(here, name, []);
    await there.down();
    await forgetSince(here, name, ['bob'], 90_000);
    const eve = await idOf(here.context, 'eve');
    const sent = accepted(await sendMail(here.context, eve, { ...input, to: ['*'] }, { directories: here.lan }));
    expect(sent.directories).toEqual([{ host: name, age_seconds: expect.any(Number) }]);
    expect(sent.directories?.[0]?.age_seconds).toBeGreaterThanOrEqual(90);
  });

  test('a host that did not answer is not asked again by each that wants a list', async () => {
    const [here, there] = await pairedLanHosts();
    const name = there.context.identity().hostName;
    await addAgents(here.context, ['eve']);
    const eve = await idOf(here.context, 'eve');
    // The question that the pairing began is answered, so that nothing comes after what is written here.
    await untilListed(here, name, []);
    await forgetSince(here, name, ['bob'], 90_000);
    let calls = 0;
    const mute = createServer((socket) => {
      calls++;
      socket.destroy();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void mute.close());
    await once(mute, 'listening');
    const address = `127.0.0.1:${(mute.address() as AddressInfo).port}`;
    const peer = await peerOf(here, name);
    await here.context.store.transact((tx) => tx.put('peer', [peer!.peerId], { ...peer!, address }));
    for (let asked = 0; asked < 3; asked++) accepted(await listAgents(here.context, eve, {}, here.lan));
    expect(calls).toBe(1);
  });
});
