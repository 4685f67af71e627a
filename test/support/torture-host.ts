/** A host of a run of torture, with a clock that may be off. */
import { encKeyDocument } from '../../src/host/peers/identity.ts';
import { learnEncKey, learnRotation } from '../../src/host/peers/peers.ts';
import { retryUnknownKeys } from '../../src/host/inbound/quarantine.ts';
import type { ManualClock } from './manual-time.ts';
import { RelayContext } from './relay-contexts.ts';

export const AGENTS = ['one', 'two'] as const;

export interface Host {
  context: RelayContext;
  clock: { skewMs: number };
  isUp: boolean;
}

/** For one test; call it inside. */
export async function newHost(name: string, time: ManualClock): Promise<Host> {
  const clock = { skewMs: 0 };
  const context = await RelayContext.open(name, {
    nowMs: () => time.nowMs() + clock.skewMs,
    steadyMs: () => time.monotonicMs(),
  });
  for (const agent of AGENTS) await context.addAgent(agent);
  return { context, clock, isUp: true };
}

/** Learns what `there` tells of its keys on the LAN, and what follows for mail that waits for them. */
export async function learnKeysOf(here: Host, there: Host): Promise<void> {
  const { context } = here.context;
  const peerId = await here.context.peerIdOf(there.context);
  const rotations = await there.context.store.read((reader) => reader.get('identity')?.rotations ?? []);
  await context.store.transact(async (tx) => {
    for (const rotation of rotations) await learnRotation(tx, context, rotation);
    learnEncKey(tx, context, peerId, encKeyDocument(there.context.context.identity()));
  });
  await retryUnknownKeys(context);
}
