/** Stores of hosts that are paired with each other and have lost each other on the LAN, as a pairing leaves them. */
import { join } from 'node:path';
import { RETRY_TIMING } from '../../src/host/core/outbox-event.ts';
import { LAN_ATTEMPTS_BEFORE_RELAY } from '../../src/host/core/outbox.ts';
import { initialiseHost } from '../../src/host/init.ts';
import { addAgent } from '../../src/host/agents/agents.ts';
import { loadIdentity, signedEncKey } from '../../src/host/peers/identity.ts';
import { ownPaths } from '../../src/host/base/paths.ts';
import { createHostContext, type HostContext } from '../../src/host/base/context.ts';
import { pinPeer } from '../../src/host/peers/peers.ts';
import { markUnreached } from '../../src/host/outbox/outbox.ts';
import { openHostStore } from '../../src/host/store/open.ts';
import type { HostName } from '../../src/protocol/names.ts';
import { accepted } from './mail-context.ts';
import { disposableFolder } from './temporary-folder.ts';

/** Nobody listens there. */
const NOWHERE = '127.0.0.1:1';

/** A folder with a home for each name, as POSTE_HOME means it, each with this agent. The caller removes it. */
export async function makePairedStores(
  names: readonly string[],
  agent: string,
): Promise<{ folder: string; remove: () => Promise<void> }> {
  const made = await disposableFolder();
  const contexts = await Promise.all(names.map((name) => newContext(join(made.folder, name), name as HostName)));
  for (const here of contexts) {
    accepted(await addAgent(here, { name: agent }));
    for (const there of contexts.filter((other) => other !== here)) await pin(here, there);
  }
  await Promise.all(contexts.map(({ store }) => store.close()));
  return made;
}

async function newContext(home: string, name: HostName): Promise<HostContext> {
  const paths = ownPaths({ env: { POSTE_HOME: home } });
  await initialiseHost(paths, name, Date.now());
  const store = await openHostStore(paths.store, () => undefined);
  return createHostContext(store, await loadIdentity(store), RETRY_TIMING, () => undefined);
}

async function pin(here: HostContext, there: HostContext): Promise<void> {
  const { hostName, signer } = there.identity();
  const host = { hostName, publicKey: signer.publicKey, encKey: signedEncKey(there.identity()), address: NOWHERE };
  await here.store.transact(async (tx) => {
    const { peerId } = accepted(await pinPeer(tx, here, host));
    // As the LAN has to fail before a relay is asked.
    for (let failures = 0; failures < LAN_ATTEMPTS_BEFORE_RELAY; failures++) markUnreached(tx, peerId);
  });
}
