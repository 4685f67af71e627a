// A property of the reducers: whatever hosts ask of the relay, sequence numbers of one queue only rise.
import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { DEFAULT_LIMITS, MemoryRelay, signerFromSeed } from 'poste/core';
import { anyHistory } from 'poste/core/testing';

const signerNamed = (number) => signerFromSeed(Buffer.alloc(32, number));
const hosts = [1, 2, 3, 4, 5].map(signerNamed);
/** @type {import('poste/core').RelaySettings} */
const settings = { limits: DEFAULT_LIMITS, admission: 'open', enrolmentsMax: 100, dedupRowsMax: 1000 };
const nowMs = 1_763_675_303_000;
let accepted = 0;

fc.assert(
  fc.property(anyHistory({ hosts, fromMs: nowMs }), (commands) => {
    const relay = new MemoryRelay({ signer: signerNamed(9), settings, nowMs });
    for (const command of commands) {
      const before = new Map(hosts.map(({ publicKey: key }) => [key, relay.rows.get('target', key)?.headSeq ?? 0]));
      const decision = relay.handle(command);
      for (const event of decision.type === 'Decided' ? decision.events : []) {
        if (event.type !== 'ItemAccepted') continue;
        accepted += 1;
        for (const { hostPubkey, seq } of event.targets) assert(seq > before.get(hostPubkey));
      }
    }
  }),
  { numRuns: 50 },
);
assert(accepted > 0);
console.log(`${accepted} items were accepted, each above the head of its queue.`);
