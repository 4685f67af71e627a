/** A witness of this software in this process, on a free port of 127.0.0.1. */
import { randomBytes } from 'node:crypto';
import { listenNode } from '../../src/http/server-node.ts';
import type { WitnessSettings } from '../../src/relay/jobs/witnesses.ts';
import { Witness } from '../../src/relay/witness/witness.ts';
import { witnessPipeline } from '../../src/relay/witness/witness-server.ts';
import { WitnessStore } from '../../src/relay/witness/witness-store.ts';
import { relay as relayHost, type TestHost } from './hosts.ts';
import { ManualClock, ManualTimers } from './manual-time.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { atTestEnd } from './test-end.ts';

export interface RunningWitness {
  settings: WitnessSettings;
  witness: Witness;
  clock: ManualClock;
}

/** A witness of this software, with a clock that its test moves. */
export async function witnessOf(host: TestHost): Promise<RunningWitness> {
  const clock = new ManualClock();
  const store = await WitnessStore.open(await temporaryFolder());
  atTestEnd(() => store.close());
  const name = `${host.name}.example`;
  const witness = new Witness({
    store,
    name,
    signer: host.signer,
    relays: [relayHost.key],
    nowMs: () => clock.nowMs(),
    onContradiction: () => undefined,
  });
  const timers = new ManualTimers();
  const pipeline = witnessPipeline({ witness, clock, timers, randomBytes, log: { error: () => undefined } });
  const handler = pipeline.handle.bind(pipeline);
  const server = await listenNode({ host: '127.0.0.1', port: 0, handler });
  atTestEnd(() => server.close());
  const settings = { url: `http://127.0.0.1:${server.port}/`, key: { name, publicKey: host.key } };
  return { settings, witness, clock };
}
