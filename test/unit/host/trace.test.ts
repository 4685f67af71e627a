import { expect, test, vi } from 'vitest';
import { checkRow } from '../../../src/cli/trace-proof.ts';
import { traceText } from '../../../src/cli/trace-text.ts';
import { isRefusal } from '../../../src/host/core/refusal.ts';
import type { MessageRow } from '../../../src/host/core/rows.ts';
import { diagnosisOf } from '../../../src/host/diagnosis.ts';
import type { TraceResult } from '../../../src/host/documents/trace.ts';
import type { Office } from '../../../src/host/office/office.ts';
import { canonicalBytes } from '../../../src/protocol/canonical-json.ts';
import { sha256Hex } from '../../../src/protocol/digest.ts';
import { acceptReceipt } from '../../../src/protocol/documents.ts';
import type { Epoch } from '../../../src/protocol/epoch.ts';
import { relay as relayHost } from '../../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../../support/http-relay.ts';
import { RelayOffice, pinEachOther } from '../../support/relay-offices.ts';

const WITHIN = { timeout: 10_000, interval: 10 };
const FACTS = { version: '1', pid: 7, startedAtMs: 0, store: '/s', config: '/c', socket: '/d' };
const relayUnasked = { status: () => Promise.reject(new Error('a trace asks for no status')) };

async function traceOf(office: Office, messageId: string): Promise<TraceResult> {
  const parts = { office, facts: FACTS, lan: { port: undefined }, lanListen: { host: '127.0.0.1', port: 1 } };
  const diagnosis = diagnosisOf({ ...parts, relay: relayUnasked });
  const traced = await diagnosis.trace({ message_id: messageId }, new AbortController().signal);
  if (isRefusal(traced)) throw new Error(`${traced.code}: ${traced.message}`);
  return traced;
}

/** A message that a relay carried from alice to bob, with its receipt. */
async function carried(): Promise<{ relay: HttpRelay; alice: RelayOffice; bob: RelayOffice; sent: MessageRow }> {
  const relay = await relayForTest('node');
  const alice = await RelayOffice.open('alice', relay.clock);
  const bob = await RelayOffice.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  for (const host of [alice, bob]) await host.use(relay.url);
  const sent = await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect(await alice.rowOf(sent)).toMatchObject({ state: 'done' }), WITHIN);
  return { relay, alice, bob, sent };
}

test('a message that a relay carried is followed from the outbox over the proof of its log to its receipt', async () => {
  const { relay, alice, bob, sent } = await carried();
  const trace = await traceOf(alice.office, sent.ref);
  expect(trace).toMatchObject({
    direction: 'sent',
    from: 'anna@alice',
    to: ['bert@bob'],
    arrival: null,
    mailboxes: [],
  });
  expect(trace.recipients).toMatchObject([{ recipient: 'bert@bob', state: 'delivered' }]);
  expect(trace.recipients[0]?.steps.map(({ state }) => state)).toEqual(['pending', 'delivered']);
  const [row] = trace.rows;
  expect(row).toMatchObject({
    state: 'done',
    host: 'bob',
    acceptance: { relay_pubkey: relayHost.key, epoch: relay.epoch, fault: null, must_know: true },
    proof: { state: 'served' },
  });
  const checked = trace.rows.map(checkRow);
  expect(checked).toMatchObject([{ state: 'verified' }]);
  const text = traceText(trace, checked);
  for (const words of ['its receipt verifies', 'The record is leaf', 'confirmed   by bert@bob']) {
    expect(text).toContain(words);
  }

  const there = await traceOf(bob.office, sent.id);
  expect(there).toMatchObject({ direction: 'received', from: 'anna@alice', recipients: [], rows: [] });
  expect(there.arrival).toMatchObject({
    host: 'alice',
    item_id: sent.id,
    sender_pubkey: alice.key,
    via: 'relay',
    relay: { pubkey: relayHost.key, epoch: relay.epoch, seq: row?.acceptance?.seq },
    wire_hash: row?.wire_hash,
    receipts: [{ recipient: 'bert@bob', state: 'delivered' }],
  });
  expect(there.mailboxes).toMatchObject([{ agent: 'bert', state: 'unread', read_at: null }]);
  expect(traceText(there, [])).toContain('over the relay SHA256:');
}, 30_000);

test('a relay that cannot be reached proves nothing and hides nothing', async () => {
  const { relay, alice, sent } = await carried();
  await relay.stopAtOnce();
  const trace = await traceOf(alice.office, sent.ref);
  expect(trace.rows).toMatchObject([{ state: 'done', acceptance: { fault: null } }]);
  expect(trace.rows.map(checkRow)).toMatchObject([
    { state: 'none', reason: expect.stringContaining('did not answer') },
  ]);
}, 30_000);

test('a relay that signed for an item and does not know it has failed', async () => {
  const { relay, alice, bob } = await carried();
  await alice.stop();
  const lost = await alice.sendTo(bob, 'anna', ['bert']);
  const row = await alice.rowOf(lost);
  const at = relay.clock.nowMs();
  const epoch = relay.epoch as Epoch;
  const targets = [{ host_pubkey: bob.key, seq: 1, wire_hash: row.wireHash }];
  const fields = { relay_pubkey: relayHost.key, epoch, sender_pubkey: alice.key, item_id: row.itemId, targets, at };
  const accept = acceptReceipt(fields);
  const sig = relayHost.signer.sign(canonicalBytes(accept));
  const acceptance = { relayPubkey: relayHost.key, epoch, seq: 1, accept, sig, acceptedAtMs: at, retentionMs: 1000 };
  await alice.store.transact((tx) => tx.put('outbox', [row.rowId], { ...row, acceptance }));
  const trace = await traceOf(alice.office, lost.ref);
  const checked = trace.rows.map(checkRow);
  expect(checked).toMatchObject([{ state: 'failed', reason: expect.stringContaining('denies it now') }]);
  expect(traceText(trace, checked)).toContain('NOT PROVEN');
}, 30_000);

test('a relay that is not the one that took it, or shows another key, is not asked', async () => {
  const { alice, bob, sent } = await carried();
  await alice.stop();
  const change = (changes: object) =>
    alice.store.transact((tx) => tx.put('relay', [], { ...tx.get('relay')!, ...changes }));
  await change({ seenKey: { pubkey: bob.key, atMs: 1 } });
  expect((await traceOf(alice.office, sent.ref)).rows[0]?.proof).toMatchObject({
    state: 'none',
    reason: expect.stringContaining('shows another key'),
  });
  await change({ pubkey: bob.key, seenKey: null });
  expect((await traceOf(alice.office, sent.ref)).rows[0]?.proof).toMatchObject({
    state: 'none',
    reason: expect.stringContaining('another relay took it'),
  });
  await alice.store.transact((tx) => tx.delete('relay', []));
  expect((await traceOf(alice.office, sent.ref)).rows[0]?.proof).toMatchObject({
    state: 'none',
    reason: expect.stringContaining('no relay is set'),
  });
}, 30_000);

test('what is not known here is refused; what is in quarantine says where', async () => {
  const alice = await RelayOffice.open('alice');
  await expect(traceOf(alice.office, 'm1')).rejects.toThrow('NO_SUCH_MESSAGE: This host knows no message m1');
  await alice.store.transact((tx) =>
    tx.put('quarantine', [4], {
      number: 4,
      via: 'lan',
      relay: null,
      kind: 'envelope',
      itemId: 'm1',
      senderPubkey: alice.key,
      peerId: null,
      recipients: null,
      reason: 'malformed',
      detail: '',
      wireHash: sha256Hex('x'),
      wireBytes: 1,
      atMs: 1,
    }),
  );
  await expect(traceOf(alice.office, 'm1')).rejects.toThrow('poste quarantine show 4');
});

test("a peer's words obey no terminal", async () => {
  const { bob, sent } = await carried();
  await bob.store.transact((tx) =>
    tx.put('message', [sent.ref], { ...tx.get('message', sent.ref)!, subject: '\u001b[2J\nOutbox row 9' }),
  );
  const text = traceText(await traceOf(bob.office, sent.ref), []);
  expect(text).toContain('\\u{1b}[2J\\u{a}Outbox row 9');
}, 30_000);
