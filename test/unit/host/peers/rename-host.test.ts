/** Another name for this host: what changes at once, what stays, and when it is refused. */
import { expect, test, vi } from 'vitest';
import type { HostName } from '../../../../src/protocol/names.ts';
import { createHostContext } from '../../../../src/host/base/context.ts';
import { RETRY_TIMING } from '../../../../src/host/core/outbox-event.ts';
import { identityOf, loadIdentity, newIdentityRow, renameHost } from '../../../../src/host/peers/identity.ts';
import { listPeers, unpair } from '../../../../src/host/peers/peers.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { addPeer } from '../../../support/mail-context.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { inviteAt, openLanHost, pair } from '../../../support/lan-hosts.ts';
import { RelayContext } from '../../../support/relay-contexts.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';
import { onEvent } from '../../../support/on-event.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 10 };

async function namedHere(): Promise<TestContext> {
  const context = await testContext();
  const sealKey = { encPub: context.randomBytes(32).toString('base64'), secret: '' };
  const parts = { hostName: 'here' as HostName, seed: context.randomBytes(32), sealKey, nowMs: context.nowMs() };
  await context.store.transact((tx) => tx.put('identity', [], newIdentityRow(parts)));
  return context;
}

test('the new name is durable, and the context of the daemon has it at once; keys stay', async () => {
  const { store } = await namedHere();
  const before = await loadIdentity(store);
  const context = createHostContext(store, before, RETRY_TIMING, () => undefined);
  const names: string[] = [];
  onEvent(context, ({ type }) => names.push(`${type} ${context.identity().hostName}`));
  expect(await renameHost(context, { name: 'server' })).toEqual({
    host: 'server',
    former_host: 'here',
    renamed: true,
  });
  expect(names).toEqual(['identity-changed server', 'host-renamed server']);
  const after = await loadIdentity(store);
  expect(after).toMatchObject({ hostName: 'server', sealKey: before.sealKey });
  expect(after.signer.publicKey).toBe(before.signer.publicKey);
});

test('the same name changes nothing, and nobody is told', async () => {
  const context = await namedHere();
  const row = await context.store.read((reader) => reader.get('identity'));
  expect(await renameHost(context, { name: 'here' })).toEqual({ host: 'here', former_host: 'here', renamed: false });
  expect(await context.store.read((reader) => reader.get('identity'))).toEqual(row);
  expect(context.told).toEqual([]);
});

test('a paired host keeps its name, but for the case of its letters, and the refusal says what to do', async () => {
  const context = await namedHere();
  await addPeer(context, 'there');
  expect(await renameHost(context, { name: 'server' })).toMatchObject({
    code: 'ALREADY_PAIRED',
    details: { hosts: ['there'] },
    message:
      'This host is paired with there, which knows it as here and would not accept its mail under another name: ' +
      'unpair on both sides (poste peer remove), rename this host, and pair again.',
  });
  await addPeer(context, 'laptop');
  expect(await renameHost(context, { name: 'server' })).toMatchObject({
    details: { hosts: ['laptop', 'there'] },
    message: expect.stringContaining('paired with 2 hosts, which know it as here'),
  });
  expect(context.told).toEqual([]);
  expect(await renameHost(context, { name: 'Here' })).toMatchObject({ host: 'Here', renamed: true });
  const row = await context.store.read((reader) => reader.get('identity'));
  expect(row && identityOf(row).hostName).toBe('Here');
});

test('hosts that are unpaired and paired again know the new name', async () => {
  const [here, there] = [await openLanHost('here'), await openLanHost('there')];
  await pair(here, there);
  expect(await renameHost(there.context, { name: 'server' })).toMatchObject({ code: 'ALREADY_PAIRED' });
  await unpair(here.context, 'there');
  await unpair(there.context, 'here');
  expect(await renameHost(there.context, { name: 'server' })).toMatchObject({ renamed: true });
  await pair(here, there);
  expect((await listPeers(here.context)).peers).toMatchObject([{ host: 'server' }]);
});

test('a host that is renamed while it is being paired pins nobody: the other host knows its former name', async () => {
  const [here, there] = [await openLanHost('here'), await openLanHost('there')];
  const invitation = await inviteAt(here, there);
  // The inviter has pinned the acceptor, and its answer is on its way.
  onEvent(here.context, ({ type }) => {
    if (type === 'peers-changed') void renameHost(there.context, { name: 'server' });
  });
  expect(await there.lan.accept(invitation)).toMatchObject({
    code: 'PAIRING_REFUSED',
    message: expect.stringContaining('ask for a new code'),
  });
  expect((await listPeers(there.context)).peers).toEqual([]);
  await there.lan.accept(await inviteAt(here, there));
  expect((await listPeers(here.context)).peers).toMatchObject([{ host: 'server' }]);
});

test('a relay learns the new name at once, unless it asks for a proof', async () => {
  const relay = await relayForTest('node');
  const nameOf = ({ key }: RelayContext): string | undefined => relay.relay.engine.directory.get(key)?.hostName;
  const [open, invited] = [
    await RelayContext.open('open', relay.clock),
    await RelayContext.open('invited', relay.clock),
  ];
  await open.use(relay.url);
  await invited.use(relay.url, { token_command: 'echo once' });
  for (const host of [open, invited]) {
    await vi.waitFor(async () => expect((await host.status()).state).toBe('ready'), WITHIN);
    expect(nameOf(host)).toBe(host.name);
    await renameHost(host.context, { name: 'server' });
  }
  await vi.waitFor(() => expect(nameOf(open)).toBe('server'), WITHIN);
  await vi.waitFor(async () => expect((await open.status()).state).toBe('ready'), WITHIN);
  await vi.waitFor(async () => expect((await invited.status()).state).toBe('ready'), WITHIN);
  expect(nameOf(invited)).toBe('invited');
});
