/** Tests what is asked of peers, with a client whose answers the test gives. */
import { expect, test } from 'vitest';
import type { DirectoryAgent, PeerRow } from '../../../../src/host/core/rows.ts';
import type { LanAgents } from '../../../../src/protocol/lan.ts';
import { learnDirectory, unpair } from '../../../../src/host/peers/peers.ts';
import { type LanClient, LanCallFailed } from '../../../../src/host/lan/lan-client.ts';
import { PeerSync } from '../../../../src/host/lan/peer-sync.ts';
import { accepted, addPeer } from '../../../support/mail-context.ts';
import { type TestContext, testContext } from '../../../support/test-context.ts';

const FIVE_MINUTES_MS = 300_000;
const BOB = [{ name: 'bob', roles: [] }];
const CAROL = [{ name: 'carol', roles: [] }];

interface Looked {
  context: TestContext;
  look: PeerSync;
  peer: PeerRow;
  /** The questions for agents, as they come: each is answered by the test. */
  asked: ((agents: DirectoryAgent[]) => void)[];
  directory: () => Promise<PeerRow['directory']>;
}

async function looked(): Promise<Looked> {
  const context = await testContext();
  const peer = await addPeer(context, 'there', null, { address: '127.0.0.1:1' });
  await context.store.transact((tx) => tx.put('peerName', ['there'], peer.peerId));
  const asked: Looked['asked'] = [];
  const agents = (): Promise<LanAgents> => new Promise((resolve) => asked.push((named) => resolve({ agents: named })));
  const client = { agents } as unknown as LanClient;
  const look = new PeerSync({ context, client, look: async () => undefined });
  const directory = async (): Promise<PeerRow['directory']> =>
    (await context.store.read((reader) => reader.get('peer', peer.peerId)))?.directory ?? null;
  return { context, look, peer, asked, directory };
}

test('names are as old as the question: a look that was under way for long does not hold up the next one', async () => {
  const { context, look, peer, asked, directory } = await looked();
  void look.begin(peer.peerId, 'needed');
  await expect.poll(() => asked.length).toBe(1);
  const askedAtMs = context.nowMs();
  context.clock.nowMs += FIVE_MINUTES_MS;
  void look.begin(peer.peerId, 'needed');
  asked[0]?.(BOB);
  await expect.poll(() => asked.length).toBe(2);
  expect(await directory()).toEqual({ agents: BOB, fetchedAtMs: askedAtMs });
  asked[1]?.(CAROL);
  await look.stop();
  expect(await directory()).toEqual({ agents: CAROL, fetchedAtMs: context.nowMs() });
});

test('what a host answered that was let go meanwhile is not kept', async () => {
  const { context, look, peer, asked, directory } = await looked();
  void look.begin(peer.peerId, 'needed');
  await expect.poll(() => asked.length).toBe(1);
  accepted(await unpair(context, 'there'));
  asked[0]?.(BOB);
  await look.stop();
  expect(await directory()).toBeNull();
});

test('an answer that comes after newer word changes nothing', async () => {
  const { context, peer, directory } = await looked();
  const nowMs = context.nowMs();
  const learn = (agents: DirectoryAgent[], fetchedAtMs: number): Promise<void> =>
    context.store.transact((tx) => learnDirectory(tx, peer.peerId, { agents, fetchedAtMs }, nowMs));
  await learn(BOB, nowMs - 1);
  await learn(CAROL, nowMs - 2);
  expect((await directory())?.agents).toEqual(BOB);
  // Word of the future is of a clock that was ahead.
  await learn(BOB, nowMs + 1);
  await learn(CAROL, nowMs);
  expect((await directory())?.agents).toEqual(CAROL);
});

test('a host that did not answer the last look is known for it, and asked again by the next round', async () => {
  const context = await testContext();
  const { peerId } = await addPeer(context, 'there', BOB, { address: '127.0.0.1:1' });
  let answer: DirectoryAgent[] | LanCallFailed = new LanCallFailed('no answer in time');
  const agents = async (): Promise<LanAgents> => {
    if (answer instanceof LanCallFailed) throw answer;
    return { agents: answer };
  };
  const client = { agents } as unknown as LanClient;
  const look = new PeerSync({ context, client, look: async () => undefined });
  await look.begin(peerId, 'doubt');
  expect(look.wasUnanswered(peerId)).toBe(true);
  // Its list is fresh: without that it would not be asked.
  answer = CAROL;
  context.clock.nowMs += 1;
  await look.begin(peerId, 'needed');
  expect(look.wasUnanswered(peerId)).toBe(false);
  const { directory: learned } = (await context.store.read((reader) => reader.get('peer', peerId))) ?? {};
  expect(learned?.agents).toEqual(CAROL);
  answer = new LanCallFailed('it answered 503', 503);
  await look.begin(peerId, 'doubt');
  expect(look.wasUnanswered(peerId)).toBe(false);
});
