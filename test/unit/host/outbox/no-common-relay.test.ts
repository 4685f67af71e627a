/** Mail for a host with which no relay is shared: what its sender and the owner are told, and when. */
import { expect, test } from 'vitest';
import { sendMail } from '../../../../src/host/mail/send.ts';
import type { OutboxEvent } from '../../../../src/host/core/outbox-event.ts';
import { UNDELIVERED_ALERT_MS } from '../../../../src/host/core/outbox.ts';
import type { AgentId, PeerRow } from '../../../../src/host/core/rows.ts';
import { OWNER_ID } from '../../../../src/host/core/rows.ts';
import { takeHome } from '../../../../src/host/outbox/homes.ts';
import { homesOf, type takesMailAt } from '../../../../src/host/outbox/homes.ts';
import { afterAttempt, dueRows } from '../../../../src/host/outbox/outbox.ts';
import { listPeers } from '../../../../src/host/peers/peers.ts';
import type { HomeRelay } from '../../../../src/protocol/documents.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { found } from '../../../support/found.ts';
import { HOME_RELAYS, useRelays } from '../../../support/home-relays.ts';
import { addAgent, type PairedContext, pairedContexts, peerIdOf, sendTo } from '../../../support/paired-contexts.ts';

const [R1, R2, R3] = HOME_RELAYS;
const TEN_MINUTES_MS = 600_000;
const HOUR_MS = 3_600_000;
const PASSED: OutboxEvent = { type: 'time-passed' };
const shown = ({ relay_pubkey: key, url }: HomeRelay, is_shared = false) => {
  return { url, fingerprint: displayFingerprint(key), is_shared };
};

/** Alice holds what bob says of his relays, uses `own` herself, and the LAN does not reach him. */
async function world(own: readonly HomeRelay[], bobs: readonly HomeRelay[]) {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  await useRelays(alice.context, own);
  await change(alice, bob, { address: null });
  await show(alice, bob, bobs);
  return { alice, bob };
}

function change(alice: PairedContext, bob: PairedContext, changes: Partial<PeerRow>): Promise<void> {
  return alice.store().transact((tx) => {
    const peer = found(tx.get('peer', peerIdOf(bob.host)), 'they are paired');
    tx.put('peer', [peer.peerId], { ...peer, ...changes });
  });
}

async function show(alice: PairedContext, bob: PairedContext, relays: readonly HomeRelay[]): Promise<void> {
  bob.clock.nowMs++;
  // One relay alone makes no document, unless there was one.
  await useRelays(bob.context, HOME_RELAYS);
  bob.clock.nowMs++;
  const { doc, sig } = found(await useRelays(bob.context, relays), 'bob has a document');
  const said = { home: { doc, sig }, via: 'lan', by: { type: 'lan' } } as const;
  await alice.store().transact((tx) => takeHome(tx, alice.context, peerIdOf(bob.host), said));
}

/** What was written to the owner, or to anna. */
function reportsTo(alice: PairedContext, agentId: AgentId = OWNER_ID) {
  return alice.store().read(async (reader) => {
    const reports = [];
    for await (const { row } of reader.range('entry', [agentId])) {
      const { subject = '', from, kind } = reader.get('message', row.ref) ?? {};
      reports.push({ subject, from, kind, body: reader.get('body', row.ref) ?? '' });
    }
    return reports;
  });
}

/** The clock goes on, and every open row of bob's meets the event. */
async function pass(alice: PairedContext, bob: PairedContext, ms: number, event = PASSED): Promise<void> {
  alice.clock.nowMs += ms;
  const rows = await dueRows(alice.context, peerIdOf(bob.host), 100);
  await alice.store().transact((tx) => {
    for (const { rowId } of rows) afterAttempt(tx, alice.context, rowId, event);
  });
}

test('after ten minutes the owner gets one message for each document, with a command for each relay', async () => {
  const { alice, bob } = await world([R3], [R1, R2]);
  await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  await pass(alice, bob, TEN_MINUTES_MS - 1);
  expect(await reportsTo(alice)).toEqual([]);
  await pass(alice, bob, 1);
  await pass(alice, bob, HOUR_MS);
  const [report, ...more] = await reportsTo(alice);
  expect(more).toEqual([]);
  expect(report).toMatchObject({ subject: 'No common relay with bob', from: 'poste@alice', kind: 'status' });
  expect(report?.body).toContain(
    `    poste relay add ${R1.url} --key ${shown(R1).fingerprint} --guest\n` +
      `    poste relay add ${R2.url} --key ${shown(R2).fingerprint} --guest\n`,
  );
  expect(report?.body).toContain('These are its words: this host checked nothing of them');
  expect(report?.body).toMatch(/^[\n\x20-\x7e]*$/);
  expect(await reportsTo(alice, 'agent-anna' as AgentId)).toEqual([]);

  await show(alice, bob, [R2]);
  await pass(alice, bob, HOUR_MS);
  await pass(alice, bob, HOUR_MS);
  expect((await reportsTo(alice)).map(({ body }) => body.includes(R1.url))).toEqual([true, false]);
});

test.each<[when: string, own: HomeRelay[], bobs: HomeRelay[], changes: Partial<PeerRow>]>([
  ['a relay is shared', [R2], [R1, R2], {}],
  ['he takes mail over the LAN alone', [R3], [], {}],
  ['a relay that he left still has him', [R3], [R1], { atRelay: R3.relay_pubkey }],
])('nothing is reported when %s', async (_when, own, bobs, changes) => {
  const { alice, bob } = await world(own, bobs);
  await change(alice, bob, changes);
  await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  await pass(alice, bob, 2 * TEN_MINUTES_MS);
  expect(await reportsTo(alice)).toEqual([]);
});

test('an address that a shell would read is quoted in the command', async () => {
  const url = "https://r.example/$(x);'y'";
  const { alice, bob } = await world([R3], [{ ...R1, url }]);
  await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  await pass(alice, bob, 2 * TEN_MINUTES_MS);
  const [report] = await reportsTo(alice);
  expect(report?.body).toContain(`poste relay add 'https://r.example/$(x);'\\''y'\\''' --key SHA256:`);
});

test('the alert of mail that nobody took for 72 hours says where the host takes it', async () => {
  const { alice, bob } = await world([R3], [R1]);
  await sendTo(alice, bob, { from: 'anna', to: ['bert'] });
  await pass(alice, bob, UNDELIVERED_ALERT_MS + 1);
  const [alert] = await reportsTo(alice, 'agent-anna' as AgentId);
  expect(alert?.subject).toBe('Undelivered to bob');
  const { url, fingerprint } = shown(R1);
  expect(alert?.body).toContain(
    `for 72 hours. There is no common relay; bob takes mail at ${url} (${fingerprint}). It is still tried: `,
  );
});

test('a sender learns at once that there is no way', async () => {
  const { alice, bob } = await world([R3], [R1]);
  const send = async () => {
    const sent = await sendMail(alice.context, 'agent-anna' as AgentId, {
      to: ['bert@bob'],
      subject: 'Hello',
      body: 'words',
    });
    return 'recipients' in sent ? sent.recipients[0] : sent;
  };
  expect(await send()).toMatchObject({
    status: 'remote',
    way: 'none',
    detail: expect.stringContaining('The LAN does not reach it, and no relay is common: it waits'),
  });
  await useRelays(alice.context, [R1]);
  expect(await send()).not.toHaveProperty('way');
  await useRelays(alice.context, [R3]);
  await change(alice, bob, { address: '127.0.0.1:1', reachedAtMs: alice.clock.nowMs, lanFailures: 0 });
  expect(await send()).not.toHaveProperty('way');
});

test('the list of hosts says where one that is out of reach takes mail', async () => {
  const { alice, bob } = await world([R3], [R1]);
  const atOf = async (facts: Parameters<typeof takesMailAt>[2]) =>
    (await listPeers(alice.context, () => facts)).peers[0]?.takes_mail_at;
  expect(await atOf('unknown')).toEqual([shown(R1)]);
  await useRelays(alice.context, [R2]);
  await show(alice, bob, [R1, R2]);
  expect(await atOf('unknown')).toBeUndefined();
  expect(await atOf(null)).toEqual([shown(R1), shown(R2, true)]);
  await change(alice, bob, { address: '127.0.0.1:1', reachedAtMs: alice.clock.nowMs });
  expect(await atOf(null)).toBeUndefined();
  expect(await alice.store().read((reader) => homesOf(reader, { peerId: 'nobody' } as unknown as PeerRow))).toEqual({
    relays: undefined,
    isNoneShared: false,
  });
});
