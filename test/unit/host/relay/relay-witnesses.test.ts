/** What a host finds of the witnesses that its owner named, at a real relay with a real witness. */
import { describe, expect, test, vi } from 'vitest';
import { witnessKeyText } from '../../../../src/protocol/cosignature.ts';
import type { Sha256Hex } from '../../../../src/protocol/encodings.ts';
import { NEW_TRUST } from '../../../../src/host/core/relay-trust.ts';
import type { RelayRow } from '../../../../src/host/core/relay-rows.ts';
import { witnessesAt } from '../../../../src/host/relay/relay-witnesses.ts';
import { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { alice as witnessHost, bob as otherHost, relay as relayHost } from '../../../support/hosts.ts';
import { relayForTest } from '../../../support/http-relay.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { RelayContext } from '../../../support/relay-contexts.ts';
import { witnessOf } from '../../../support/running-witness.ts';

const HOUR_MS = 3_600_000;

async function witnessed() {
  const witness = await witnessOf(witnessHost);
  const relay = await relayForTest('node', { witnesses: [witness.settings] });
  const host = await RelayContext.open('host', relay.clock);
  await host.use(relay.url);
  await vi.waitFor(async () => expect((await host.status()).state).toBe('ready'), PATIENCE_MS);
  const vkey = witnessKeyText(witness.settings.key);
  const name = async (...vkeys: string[]): Promise<void> => {
    await host.context.store.transact((tx) => {
      const row = tx.get('relay') as RelayRow;
      tx.put('relay', [], { ...row, witnesses: vkeys.map((one) => ({ vkey: one, atMs: 0, epoch: null, size: 0 })) });
    });
  };
  await name(vkey);
  const row = async (): Promise<RelayRow> =>
    (await host.context.store.read((reader) => reader.get('relay'))) as RelayRow;
  const probe = async () => {
    const { hostName, signer } = host.context.identity();
    const nowMs = (): number => relay.clock.nowMs();
    const client = new RelayClient({ url: relay.url, signer, hostName, nowMs }, relayHost.key);
    return witnessesAt(client, host.context, await row());
  };
  return { relay, host, vkey, name, row, probe, witness };
}

describe('a witness that the owner named', () => {
  test('counts when it cosigned within the hour, and that is noted', async () => {
    const { relay, row, probe, witness } = await witnessed();
    const [fact] = await probe();
    expect(fact).toMatchObject({ name: witness.settings.key.name, fault: null, lastMs: relay.clock.nowMs() });
    expect((await row()).witnesses?.[0]).toMatchObject({ atMs: relay.clock.nowMs(), epoch: relay.epoch });
  });

  test('does not count with a time of more than an hour ago, nor one that cosigned nothing', async () => {
    const { relay, name, probe, vkey } = await witnessed();
    await name(vkey, witnessKeyText({ name: 'other.example', publicKey: otherHost.key }));
    relay.clock.move(HOUR_MS);
    expect((await probe()).map(({ fault }) => fault)).toEqual([
      'its cosignature is old',
      'it did not cosign the newest one',
    ]);
  });

  test('does not count in another epoch than the one that this host is shown', async () => {
    const { host, probe } = await witnessed();
    await host.context.store.transact((tx) => {
      tx.put('relayTrust', [relayHost.key], { ...NEW_TRUST, current: epochNumbered(77) });
    });
    expect((await probe())[0]?.fault).toBe('the cosigned checkpoint is of another epoch than this host is shown');
  });

  test('does not count over a log that is not the one that this host kept', async () => {
    const { relay, host, probe } = await witnessed();
    await host.context.store.transact((tx) => {
      const kept = { epoch: relay.relay.engine.epoch, size: 1, root: 'ab'.repeat(32) as Sha256Hex };
      tx.put('checkpoint', [relayHost.key, kept.epoch], { ...kept, note: '', knew: null, atMs: 0 });
    });
    expect((await probe())[0]?.fault).toBe('the cosigned checkpoint does not belong to the log that this host knows');
  });
});
