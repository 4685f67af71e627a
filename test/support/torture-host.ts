/** A host of a run of torture, with a clock that may be off. */
import { learnEncKey, learnRotation } from '../../src/host/office/peers.ts';
import { retryUnknownKeys } from '../../src/host/office/quarantine.ts';
import { encKeyDocument } from '../../src/host/transport/lan-routes.ts';
import type { ManualClock } from './manual-time.ts';
import { RelayOffice } from './relay-offices.ts';

export const AGENTS = ['one', 'two'] as const;

export interface Host {
  office: RelayOffice;
  clock: { skewMs: number };
  isUp: boolean;
}

/** For one test; call it inside. */
export async function newHost(name: string, time: ManualClock): Promise<Host> {
  const clock = { skewMs: 0 };
  const office = await RelayOffice.open(name, {
    nowMs: () => time.nowMs() + clock.skewMs,
    steadyMs: () => time.monotonicMs(),
  });
  for (const agent of AGENTS) await office.addAgent(agent);
  return { office, clock, isUp: true };
}

/** What `there` tells of its keys on the LAN, and what follows for mail that waits for them. */
export async function learnKeysOf(here: Host, there: Host): Promise<void> {
  const { office } = here.office;
  const peerId = await here.office.peerIdOf(there.office);
  const rotations = await there.office.store.read((reader) => reader.get('identity')?.rotations ?? []);
  await office.store.transact(async (tx) => {
    for (const rotation of rotations) await learnRotation(tx, office, rotation);
    learnEncKey(tx, office, peerId, encKeyDocument(there.office.office));
  });
  await retryUnknownKeys(office);
}
