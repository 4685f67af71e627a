/** What is asked of peers, with a client whose answers the test gives. */
import { expect, test } from 'vitest';
import type { DirectoryAgent, PeerRow } from '../../../src/host/core/rows.ts';
import { unpair } from '../../../src/host/office/peers.ts';
import type { LanClient } from '../../../src/host/transport/lan-client.ts';
import { PeerLook } from '../../../src/host/transport/peer-look.ts';
import { accepted, addPeer } from '../../support/mail-office.ts';
import { type TestOffice, testOffice } from '../../support/test-office.ts';

const FIVE_MINUTES_MS = 300_000;
const BOB = [{ name: 'bob', roles: [] }];
const CAROL = [{ name: 'carol', roles: [] }];

interface Looked {
  office: TestOffice;
  look: PeerLook;
  peer: PeerRow;
  /** The questions for agents, as they come: each is answered by the test. */
  asked: ((agents: DirectoryAgent[]) => void)[];
  directory: () => Promise<PeerRow['directory']>;
}

async function looked(): Promise<Looked> {
  const office = await testOffice();
  const peer = await addPeer(office, 'there', null, { address: '127.0.0.1:1' });
  await office.store.transact((tx) => tx.put('peerName', ['there'], peer.peerId));
  const asked: Looked['asked'] = [];
  const agents = (): Promise<DirectoryAgent[]> => new Promise((resolve) => asked.push(resolve));
  const client = { agents } as unknown as LanClient;
  const look = new PeerLook({ office, client, told: () => undefined });
  const directory = async (): Promise<PeerRow['directory']> =>
    (await office.store.read((reader) => reader.get('peer', peer.peerId)))?.directory ?? null;
  return { office, look, peer, asked, directory };
}

test('names are as old as the question: a look that was under way for long does not hold up the next one', async () => {
  const { office, look, peer, asked, directory } = await looked();
  look.begin(peer.peerId, 'needed');
  await expect.poll(() => asked.length).toBe(1);
  const askedAtMs = office.nowMs();
  office.clock.nowMs += FIVE_MINUTES_MS;
  look.begin(peer.peerId, 'needed');
  asked[0]?.(BOB);
  await expect.poll(() => asked.length).toBe(2);
  expect(await directory()).toEqual({ agents: BOB, fetchedAtMs: askedAtMs });
  asked[1]?.(CAROL);
  await look.stop();
  expect(await directory()).toEqual({ agents: CAROL, fetchedAtMs: office.nowMs() });
});

test('what a host answered that was let go meanwhile is not kept', async () => {
  const { office, look, peer, asked, directory } = await looked();
  look.begin(peer.peerId, 'needed');
  await expect.poll(() => asked.length).toBe(1);
  accepted(await unpair(office, 'there'));
  asked[0]?.(BOB);
  await look.stop();
  expect(await directory()).toBeNull();
});
