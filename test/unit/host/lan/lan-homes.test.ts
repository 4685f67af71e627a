/** The documents of home relays between paired hosts on a LAN: in a pairing, after a change, and behind a new key. */
import { expect, test } from 'vitest';
import type { PeerHomeRow } from '../../../../src/host/core/home-documents.ts';
import { addAgent } from '../../../../src/host/agents/agents.ts';
import { ownHome, peerHomes } from '../../../../src/host/outbox/homes.ts';
import { rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { acceptorMessage, pairingWords } from '../../../../src/host/peers/pairing-invite.ts';
import { accepted } from '../../../support/mail-context.ts';
import { HOME_RELAYS, useRelays } from '../../../support/home-relays.ts';
import {
  type LanHost,
  openLanHost,
  outboxRowsOf,
  pair,
  pairedLanHosts,
  peerOf,
  until,
} from '../../../support/lan-hosts.ts';

const TWO = HOME_RELAYS.slice(0, 2);

async function knownAt(host: LanHost): Promise<PeerHomeRow | undefined> {
  return (await host.context.store.read(peerHomes))[0]?.row;
}

function ownSeq({ context }: LanHost): Promise<number | undefined> {
  return context.store.read((reader) => ownHome(reader)?.doc.seq);
}

/** Resolves when `there` holds the present document of `here`. */
async function untilHeld(here: LanHost, there: LanHost): Promise<PeerHomeRow['held']> {
  const seq = await ownSeq(here);
  return until(there, async () => {
    const row = await knownAt(there);
    return row?.held?.seq === seq ? row?.held : undefined;
  });
}

/** The same, and `here` knows that. */
async function untilTold(here: LanHost, there: LanHost): Promise<PeerHomeRow['held']> {
  const [seq, held] = [await ownSeq(here), await untilHeld(here, there)];
  await until(here, async () => ((await knownAt(here))?.knownOurs === seq ? true : undefined));
  return held;
}

test('a pairing shows both hosts the relays of the other', async () => {
  const [here, there] = [await openLanHost('here'), await openLanHost('there')];
  await useRelays(here.context, TWO);
  await useRelays(there.context, HOME_RELAYS);
  await pair(here, there);
  expect((await knownAt(here))?.held).toMatchObject({ relays: HOME_RELAYS, via: 'lan' });
  expect((await knownAt(there))?.held).toMatchObject({ relays: TWO, via: 'lan' });
});

test('a host with one relay says nothing new in a pairing, and stores nothing', async () => {
  const [here, there] = await pairedLanHosts();
  await useRelays(here.context, HOME_RELAYS.slice(0, 1));
  const { publicKey } = there.context.identity().signer;
  const words = await pairingWords(here.context, { port: 1, address: undefined }, publicKey);
  const parties = { inviter_pubkey: publicKey, acceptor_pubkey: here.context.identity().signer.publicKey };
  const said = acceptorMessage(here.context, Buffer.alloc(16), parties, words);
  expect(Object.keys(said)).toEqual(['host', 'pubkey', 'enc_key', 'port', 'mac']);
  expect([await knownAt(here), await knownAt(there)]).toEqual([undefined, undefined]);
});

test('a change is told at once, known to be there, and no mail goes for it', async () => {
  const [here, there] = await pairedLanHosts();
  await useRelays(here.context, TWO);
  expect(await untilTold(here, there)).toMatchObject({ relays: TWO });
  await useRelays(here.context, HOME_RELAYS);
  expect(await untilTold(here, there)).toMatchObject({ relays: HOME_RELAYS });
  await useRelays(here.context, []);
  expect(await untilTold(here, there)).toMatchObject({ relays: [] });
  expect([await outboxRowsOf(here), await outboxRowsOf(there)]).toEqual([[], []]);
  // The other host has one relay, so it said nothing of its own.
  expect((await knownAt(here))?.held).toBeUndefined();
});

test('a document that does not count costs itself: the agents beside it are learned', async () => {
  const [here, there] = await pairedLanHosts();
  const own = await useRelays(here.context, TWO);
  await untilTold(here, there);
  const forged = { ...own!, doc: { ...own!.doc, seq: own!.doc.seq + 1 } };
  await here.context.store.transact((tx) => tx.put('homeDocument', [], forged));
  accepted(await addAgent(here.context, { name: 'eve' }));
  await until(there, async () => ((await peerOf(there, 'here'))?.directory?.agents.length === 1 ? true : undefined));
  expect((await knownAt(there))?.held?.seq).toBe(own?.doc.seq);
});

test('a new key signs the document anew, and that goes out behind it', async () => {
  const [here, there] = await pairedLanHosts();
  await useRelays(here.context, TWO);
  const before = await untilTold(here, there);
  const { host_pubkey: hostPubkey } = await rotateOwnKey(here.context);
  expect(await ownSeq(here)).toBeGreaterThan(before?.seq ?? 0);
  expect(await untilTold(here, there)).toMatchObject({ hostPubkey, relays: TWO });
});

test('a host that was away for the change is told when it is back', async () => {
  const [here, there] = await pairedLanHosts();
  await useRelays(here.context, TWO);
  await untilTold(here, there);
  await there.down();
  await useRelays(here.context, HOME_RELAYS);
  await there.up();
  expect(await untilHeld(here, there)).toMatchObject({ relays: HOME_RELAYS });
});
