/** Mail between two hosts over real listeners: once each, receipts back, whatever of the two is down in between. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { OutboxState } from '../../../../src/host/core/rows.ts';
import type { InboxResult } from '../../../../src/host/contract/mail.ts';
import { addAgent, removeAgent } from '../../../../src/host/agents/agents.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { hearOfWait } from '../../../../src/host/mail/inbox-waits.ts';
import { putOutboxRow } from '../../../../src/host/outbox/outbox.ts';
import { rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { setAddress, unpair } from '../../../../src/host/peers/peers.ts';
import { listSent } from '../../../../src/host/mail/sent.ts';
import { LanCallFailed, LanClient } from '../../../../src/host/lan/lan-client.ts';
import { PeerAddressCheck } from '../../../../src/host/lan/peer-address.ts';
import {
  type LanHost,
  openLanHost,
  outboxRowsOf,
  pair,
  pairedLanHosts,
  peerOf,
  quarantineOf,
  until,
} from '../../../support/lan-hosts.ts';
import { accepted, addAgents, idOf, send } from '../../../support/mail-context.ts';
import { ManualTimers } from '../../../support/manual-time.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';

async function pairedWithAgents(): Promise<[here: LanHost, there: LanHost]> {
  const [here, there] = await pairedLanHosts();
  await addAgents(here.context, ['eve']);
  await addAgents(there.context, ['bob']);
  return [here, there];
}

async function sendTo(
  { context }: LanHost,
  from: string,
  to: string,
  subject: string,
  body = `Body of ${subject}.`,
): Promise<string> {
  return accepted(await send(context, from, { to: [to], subject, body })).message_id;
}

async function inboxOf({ context }: LanHost, agent: string): Promise<InboxResult> {
  return accepted(await useInbox(context, await idOf(context, agent), { action: 'list', state: 'all' }));
}

/** Resolves when the agent has mail of these subjects, oldest first, and nothing else. */
function untilInbox(host: LanHost, agent: string, subjects: string[]): Promise<true> {
  return until(host, async () => {
    const { summaries = [] } = await inboxOf(host, agent);
    const found = summaries.map(({ subject }) => subject).toReversed();
    return found.join() === subjects.join() ? true : undefined;
  });
}

function untilState(host: LanHost, state: OutboxState): Promise<true> {
  return until(host, async () => {
    const envelopes = (await outboxRowsOf(host)).filter(({ kind }) => kind === 'envelope');
    return envelopes.every((row) => row.state === state) ? true : undefined;
  });
}

/** Only an event can bring the rows of a host on their way now. */
function putOff({ context }: LanHost): Promise<void> {
  return context.store.transact(async (tx) => {
    for await (const { row } of tx.range('outbox', [])) {
      if (row.nextAtMs !== null) putOutboxRow(tx, row, { ...row, nextAtMs: row.nextAtMs + 3_600_000 });
    }
  });
}

const failedOnce = (host: LanHost) => async (): Promise<true | undefined> =>
  (await outboxRowsOf(host)).every(({ lanAttempts }) => lanAttempts > 0) ? true : undefined;

const keysOf = async (host: LanHost, name: string): Promise<string[]> =>
  ((await peerOf(host, name))?.keys ?? []).map(({ publicKey }) => publicKey);

const untilKnown = (host: LanHost, rotated: LanHost): Promise<true> =>
  until(host, async () => {
    const peer = await peerOf(host, rotated.context.identity().hostName);
    const { signer, sealKey } = rotated.context.identity();
    const isKnown = peer?.keys.at(-1)?.publicKey === signer.publicKey && peer.encKey.encPub === sealKey.encPub;
    return isKnown ? true : undefined;
  });

const agentsOf = async (host: LanHost, name: string): Promise<string[] | undefined> =>
  (await peerOf(host, name))?.directory?.agents.map((agent) => agent.name);

describe('mail between paired hosts', () => {
  test('the longest body there is arrives, though no relay would take it', async () => {
    const [here, there] = await pairedWithAgents();
    const body = '\u0001'.repeat(262_144);
    accepted(await send(here.context, 'eve', { to: ['bob@there'], subject: 'long', body }));
    expect(await untilInbox(there, 'bob', ['long'])).toBe(true);
    expect((await inboxOf(there, 'bob')).summaries?.[0]?.body_bytes).toBe(262_144);
  });

  test('arrives, and its sender sees it delivered and read', async () => {
    const [here, there] = await pairedWithAgents();
    const id = await sendTo(here, 'eve', 'bob@there', 'first');
    await untilInbox(there, 'bob', ['first']);
    await untilState(here, 'done');
    accepted(await useInbox(there.context, await idOf(there.context, 'bob'), { action: 'read', message_ids: [id] }));
    const eve = await idOf(here.context, 'eve');
    await until(here, async () => {
      const [sent] = accepted(await listSent(here.context, eve, {})).messages;
      return sent?.recipients[0]?.state === 'read' ? true : undefined;
    });
    // Receipts that were taken are gone; the row of the envelope stays, without its bytes.
    await until(there, async () => ((await outboxRowsOf(there)).length === 0 ? true : undefined));
    const rows = await outboxRowsOf(here);
    expect(rows).toMatchObject([{ state: 'done', confirmed: ['bob@there'], nextAtMs: null }]);
    expect(await here.context.store.read((reader) => reader.get('outboxWire', rows[0]?.rowId ?? 0))).toBeUndefined();
  });

  test('answers a call in which its recipient waits, and its sender learns that it was notified', async () => {
    const [here, there] = await pairedWithAgents();
    const bob = await idOf(there.context, 'bob');
    const waiter = { timers: new ManualTimers(), signal: new AbortController().signal, callId: 'c' };
    const waits = useInbox(there.context, bob, { wait_seconds: 50 }, waiter);
    const message_id = await sendTo(here, 'eve', 'bob@there', 'one');
    expect(accepted(await waits).summaries).toMatchObject([{ subject: 'one' }]);
    expect(await hearOfWait(there.context, bob, { call: 'c' })).toEqual({ counted: true });
    await until(here, async () => {
      const [sent] = accepted(await listSent(here.context, await idOf(here.context, 'eve'), { message_id })).messages;
      return sent?.recipients[0]?.state === 'notified' ? true : undefined;
    });
  });

  test('in both ways at once, many times, is in its mailbox once each', async () => {
    const [here, there] = await pairedWithAgents();
    const subjects = Array.from({ length: IS_THOROUGH ? 100 : 25 }, (_, at) => `m${at}`);
    await Promise.all(
      subjects.flatMap((subject) => [
        sendTo(here, 'eve', 'bob@there', subject),
        sendTo(there, 'bob', 'eve@here', subject),
      ]),
    );
    await Promise.all([untilState(here, 'done'), untilState(there, 'done')]);
    for (const [host, agent] of [
      [here, 'eve'],
      [there, 'bob'],
    ] as const) {
      const { summaries = [] } = accepted(
        await useInbox(host.context, await idOf(host.context, agent), { action: 'list', state: 'all', limit: 100 }),
      );
      expect(summaries.map(({ subject }) => subject).toSorted()).toEqual(subjects.toSorted());
    }
  });

  test('waits while the other host is down, and goes when that says that it is up', async () => {
    const [here, there] = await pairedWithAgents();
    await there.down();
    await sendTo(here, 'eve', 'bob@there', 'first');
    await until(here, failedOnce(here));
    expect(await peerOf(here, 'there')).toMatchObject({ lanFailures: 1 });
    await putOff(here);
    await there.up();
    await untilState(here, 'done');
    await untilInbox(there, 'bob', ['first']);
    expect(await peerOf(here, 'there')).toMatchObject({ lanFailures: 0 });
  });

  test('that waited when the daemon ended goes when it is started again', async () => {
    const [here, there] = await pairedWithAgents();
    await there.down();
    await sendTo(here, 'eve', 'bob@there', 'first');
    await until(here, failedOnce(here));
    await here.down();
    await there.up();
    await here.up();
    expect(await untilInbox(there, 'bob', ['first'])).toBe(true);
    expect(await untilState(here, 'done')).toBe(true);
  });

  test('goes to the address that the owner says', async () => {
    const [here, there] = await pairedWithAgents();
    const address = `127.0.0.1:${there.lan.port}`;
    expect(await setAddress(here.context, 'there', '127.0.0.1:1')).toMatchObject({ address: '127.0.0.1:1' });
    await sendTo(here, 'eve', 'bob@there', 'first');
    await until(here, failedOnce(here));
    await putOff(here);
    expect(await setAddress(here.context, 'THERE', address)).toMatchObject({ address, lan_failures: 0 });
    await untilState(here, 'done');
  });

  test('goes in smaller requests to a listener that has room for no others', async () => {
    const [here, there] = await pairedWithAgents();
    const sizes: number[] = [];
    // oxlint-disable-next-line typescript/unbound-method -- It is called with the client that was asked.
    const { items: send } = LanClient.prototype;
    const crowded = vi.spyOn(LanClient.prototype, 'items').mockImplementation(function (this: LanClient, host, items) {
      const bytes = JSON.stringify({ items }).length;
      sizes.push(items.length);
      if (bytes > 64 << 10) throw new LanCallFailed('too many requests from this address', 429, 'RATE_LIMITED');
      return send.call(this, host, items);
    });
    onTestFinished(() => crowded.mockRestore());
    await there.down();
    for (const subject of ['one', 'two', 'three']) await sendTo(here, 'eve', 'bob@there', subject, 'x'.repeat(30_000));
    await there.up();
    await untilInbox(there, 'bob', ['one', 'two', 'three']);
    expect(sizes.some((size) => size > 1)).toBe(true);
  });

  test('to a host that is let go is not sent any more, and its sender is told', async () => {
    const [here, there] = await pairedWithAgents();
    await there.down();
    await sendTo(here, 'eve', 'bob@there', 'first');
    await until(here, failedOnce(here));
    await unpair(here.context, 'there');
    await untilInbox(here, 'eve', ['Undelivered to there']);
    expect(await outboxRowsOf(here)).toMatchObject([{ state: 'undelivered', nextAtMs: null }]);
  });

  test('from a host that let this one go and did not say so goes into quarantine there', async () => {
    const [here, there] = await pairedWithAgents();
    const other = await openLanHost('other');
    await pair(there, other);
    await unpair(there.context, 'here');
    await sendTo(here, 'eve', 'bob@there', 'first');
    await untilState(here, 'quarantined');
    expect(await quarantineOf(there)).toMatchObject([{ reason: 'unpaired', kind: 'envelope' }]);
    // A code brings both together again, and what waited in.
    await pair(there, here);
    await untilInbox(there, 'bob', ['first']);
    await untilState(here, 'done');
    expect(await quarantineOf(there)).toEqual([]);
  });
});

describe('a new key', () => {
  test('is told to paired hosts, and mail goes on both ways', async () => {
    const [here, there] = await pairedWithAgents();
    const old = here.context.identity().signer.publicKey;
    const rotated = await rotateOwnKey(here.context);
    expect(rotated).toMatchObject({ old_pubkey: old, peers: 1 });
    await untilKnown(there, here);
    expect(await keysOf(there, 'here')).toEqual([old, rotated.host_pubkey]);
    await sendTo(here, 'eve', 'bob@there', 'under the new key');
    await sendTo(there, 'bob', 'eve@here', 'to the new key');
    await Promise.all([untilState(here, 'done'), untilState(there, 'done')]);
    expect(await peerOf(here, 'there')).toMatchObject({ pinnedOurKey: rotated.host_pubkey });
  });

  test('and the next are told to a host that was down, in their order, and before mail', async () => {
    const [here, there] = await pairedWithAgents();
    await there.down();
    const first = await rotateOwnKey(here.context);
    const second = await rotateOwnKey(here.context);
    await sendTo(here, 'eve', 'bob@there', 'under the second');
    await until(here, failedOnce(here));
    await putOff(here);
    await there.up();
    await untilState(here, 'done');
    await untilKnown(there, here);
    expect(await keysOf(there, 'here')).toEqual([first.old_pubkey, first.host_pubkey, second.host_pubkey]);
    expect(await quarantineOf(there)).toEqual([]);
  });

  test('of both at once is learned by both', async () => {
    const [here, there] = await pairedWithAgents();
    await Promise.all([rotateOwnKey(here.context), rotateOwnKey(there.context)]);
    await Promise.all([untilKnown(there, here), untilKnown(here, there)]);
    await sendTo(here, 'eve', 'bob@there', 'first');
    expect(await untilState(here, 'done')).toBe(true);
  });

  test('that a restored host forgot is told again, and what it took for a stranger’s is run again', async () => {
    const [here, there] = await pairedWithAgents();
    const before = await peerOf(there, 'here');
    if (!before) throw new Error('they are paired');
    await rotateOwnKey(here.context);
    const newKey = here.context.identity().signer.publicKey;
    await untilKnown(there, here);
    await until(here, async () => ((await peerOf(here, 'there'))?.pinnedOurKey === newKey ? true : undefined));
    await there.context.store.transact((tx) => {
      tx.put('peer', [before.peerId], before);
      tx.delete('peerKey', [newKey]);
    });
    await sendTo(here, 'eve', 'bob@there', 'first');
    await untilInbox(there, 'bob', ['first']);
    await untilState(here, 'done');
    expect(await quarantineOf(there)).toEqual([]);
    expect(await keysOf(there, 'here')).toContain(newKey);
  });
});

describe('what paired hosts know of each other', () => {
  test('are the names of agents, asked for again after five minutes', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    await addAgents(there.context, ['bob:review']);
    await pair(here, there);
    await until(here, async () => ((await agentsOf(here, 'there'))?.join() === 'bob' ? true : undefined));
    expect((await peerOf(here, 'there'))?.directory?.agents).toEqual([{ name: 'bob', roles: ['review'] }]);
    accepted(await addAgent(there.context, { name: 'carol' }));
    accepted(await removeAgent(there.context, { name: 'bob' }));
    for (const host of [here, there]) host.clock.aheadMs = 300_001;
    const askedAgain = async (): Promise<string | undefined> => {
      // A look that fails, as one that was signed before the clocks moved does, leaves it to the next.
      here.context.emit({ type: 'peers-changed' });
      return (await agentsOf(here, 'there'))?.join();
    };
    await expect.poll(askedAgain).toBe('carol');
  });

  test('are known to the inviting host although it asked before the other had stored the pairing', async () => {
    const [here, there] = [await openLanHost('here'), await openLanHost('there')];
    await addAgents(there.context, ['bob']);
    const asked = vi.spyOn(LanClient.prototype, 'agents');
    onTestFinished(() => asked.mockRestore());
    const { store } = there.context;
    const transact = store.transact.bind(store);
    store.transact = async (work) => {
      await vi.waitFor(() => expect(asked.mock.settledResults[0]?.type).toBe('rejected'), { timeout: PATIENCE_MS });
      return transact(work);
    };
    await pair(here, there);
    await until(here, async () => ((await agentsOf(here, 'there'))?.join() === 'bob' ? true : undefined));
  });

  test('is where each listens: one that calls from elsewhere is believed when it answers there alone', async () => {
    const [here, there] = await pairedWithAgents();
    const address = `127.0.0.1:${there.lan.port}`;
    // Nothing listens at this address of the machine.
    await setAddress(here.context, 'there', `127.0.0.9:${there.lan.port}`);
    await sendTo(there, 'bob', 'eve@here', 'from somewhere else');
    await until(here, async () => ((await peerOf(here, 'there'))?.address === address ? true : undefined));

    const peer = await peerOf(here, 'there');
    if (!peer) throw new Error('they are paired');
    const moves = new PeerAddressCheck(here.context, new LanClient(here.context, new AbortController().signal));
    expect(await moves.addressAfterCall(peer, '127.0.0.9')).toBeUndefined();
    expect(await moves.addressAfterCall(peer, 'fe80::1%eth0')).toBeUndefined();
    const named = { ...peer, address: 'there.local:8789' };
    expect(await moves.addressAfterCall(named, '127.0.0.1')).toBeUndefined();
    const lost = { ...peer, address: `127.0.0.9:${there.lan.port}` };
    expect(await moves.addressAfterCall(lost, '127.0.0.8')).toBeUndefined();
    expect(await moves.addressAfterCall(lost, '127.0.0.1')).toBe(address);
    // Another host answers there.
    const foreign = { ...lost, address: `127.0.0.9:${here.lan.port}` };
    here.clock.aheadMs = 60_001;
    expect(await moves.addressAfterCall(foreign, '127.0.0.1')).toBeUndefined();
  });
});
