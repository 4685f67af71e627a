import { expect, test, vi } from 'vitest';
import { witnessKeyText } from '../../../../src/protocol/cosignature.ts';
import { bob as witnessHost } from '../../../support/hosts.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { RelayContext } from '../../../support/relay-contexts.ts';
import type { EvidenceRow } from '../../../../src/host/core/relay-trust.ts';
import { dismissEvidence } from '../../../../src/host/outbox/relay-evidence.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { findEvidence, forkRow } from '../../../support/evidence-rows.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 10 };

test('witnesses are named by their verifier keys; those of before stay until others, or none, are named', async () => {
  const relay = await relayForTest('node');
  const alice = await RelayContext.open('alice', relay.clock);
  await alice.use(relay.url);
  const [first, second] = ['one.example', 'two.example'].map((name) =>
    witnessKeyText({ name, publicKey: witnessHost.key }),
  );
  const named = async (witnesses?: string[]): Promise<readonly string[] | undefined> => {
    const set = await alice.side!.set({ url: relay.url, ...(witnesses && { witnesses }) });
    if ('code' in set) throw new Error(set.message);
    const row = await alice.context.store.read((reader) => reader.get('relay'));
    return row?.witnesses?.map(({ vkey }) => vkey);
  };
  expect(await named([first!, second!, first!])).toEqual([first, second]);
  expect(await named()).toEqual([first, second]);
  expect(await named([second!])).toEqual([second]);
  await expect(named([first!.slice(0, -4)])).rejects.toThrow(/verifier key/);
  expect(await named()).toEqual([second]);
  expect(await named([])).toBeUndefined();
});

test('while there is signed evidence of two histories, the state says so and the LAN is preferred', async () => {
  const relay = await relayForTest('node');
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  const peer = await alice.pin(bob);
  await bob.pin(alice);
  for (const host of [alice, bob]) await host.use(relay.url);
  const isDoubted = (): unknown => alice.side?.all[0]?.factsFor(peer);
  await vi.waitFor(async () => {
    await alice.side?.all[0]?.ask(peer);
    expect(isDoubted()).toMatchObject({ isTargetEnrolled: true, hasTwoHistories: false });
  }, WITHIN);
  const relayPubkey = (await alice.status()).relay!.relay_pubkey as PublicKey;
  const found = (nth: number, changes: Partial<EvidenceRow>): Promise<void> =>
    findEvidence(alice.context, [forkRow(nth, { relayPubkey, ...changes })], {}, { key: relayPubkey });
  await found(1, { kind: 'unproven', isSigned: false });
  await found(2, { kind: 'withheld', isSigned: false });
  expect(await alice.status()).toMatchObject({ state: 'ready', evidence: 2 });
  await found(3, { kind: 'fork' });
  expect(await alice.status()).toMatchObject({ state: 'two-histories', evidence: 3 });
  await vi.waitFor(() => expect(isDoubted()).toMatchObject({ hasTwoHistories: true }), WITHIN);
  await dismissEvidence(alice.context, { number: 3 });
  expect(await alice.status()).toMatchObject({ state: 'ready', evidence: 2 });
  await vi.waitFor(() => expect(isDoubted()).toMatchObject({ hasTwoHistories: false }), WITHIN);
});
