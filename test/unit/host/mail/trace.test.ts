import { expect, test, vi } from 'vitest';
import { isoSecond, isoTime } from '../../../../src/protocol/time.ts';
import { checkRow, traceText } from '../../../../src/cli/mail/trace.ts';
import type { TraceResult } from '../../../../src/host/contract/outbox.ts';
import type { HostContext } from '../../../../src/host/base/context.ts';
import { isRefusal } from '../../../../src/host/core/refusal.ts';
import { type OutboxEvent, RETRY_TIMING } from '../../../../src/host/core/outbox-event.ts';
import { stepOutbox } from '../../../../src/host/core/outbox.ts';
import type { RelayAcceptance } from '../../../../src/host/core/relay-acceptance.ts';
import type { MessageRow, OutboxRow } from '../../../../src/host/core/rows.ts';
import { traceWithProofs } from '../../../../src/host/doctor/diagnosis.ts';
import { keptAcceptanceFault, mustKnowItem } from '../../../../src/host/mail/trace.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { canonicalBytes, acceptReceipt } from '../../../../src/protocol/documents.ts';
import type { Epoch, ItemId } from '../../../../src/protocol/names.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { found } from '../../../support/found.ts';
import { alice, bob, carol, relay as relayHost, relay } from '../../../support/hosts.ts';
import { type HttpRelay, relayForTest } from '../../../support/http-relay.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { pinEachOther, RelayContext } from '../../../support/relay-contexts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const DAY_MS = 86_400_000;
const ROW = { itemId: 'm1' as ItemId, wireHash: sha256Hex('wire') };
const accept = acceptReceipt({
  relay_pubkey: relay.key,
  epoch: epochNumbered(1),
  sender_pubkey: alice.key,
  item_id: ROW.itemId,
  targets: [{ host_pubkey: bob.key, seq: 7, wire_hash: ROW.wireHash }],
  at: NOON_MS,
});
const KEPT: RelayAcceptance = {
  relayPubkey: relay.key,
  epoch: epochNumbered(1),
  seq: 7,
  accept,
  sig: relay.signer.sign(canonicalBytes(accept)),
  acceptedAtMs: NOON_MS,
  retentionMs: 14 * DAY_MS,
};
const KEYS = { own: [carol.key, alice.key], peer: [bob.key] };

test('a kept receipt is good under whatever key either host had', () => {
  expect(keptAcceptanceFault(ROW, KEPT, KEYS)).toBeNull();
});

test('a kept receipt is good when it names other hosts too, and for a key of the host that is not its first', () => {
  const both = { ...accept, targets: [{ ...accept.targets[0]!, host_pubkey: carol.key }, ...accept.targets] };
  const kept = { ...KEPT, accept: both, sig: relay.signer.sign(canonicalBytes(both)) };
  expect(keptAcceptanceFault(ROW, kept, KEYS)).toBeNull();
  expect(keptAcceptanceFault(ROW, KEPT, { ...KEYS, peer: [carol.key, bob.key] })).toBeNull();
});

test('of several faults those of the keys are named', () => {
  const elsewhere = { ...KEPT, relayPubkey: carol.key };
  expect(keptAcceptanceFault(ROW, elsewhere, { ...KEYS, own: [] })).toBe('sender');
  expect(keptAcceptanceFault(ROW, elsewhere, { ...KEYS, peer: [] })).toBe('target');
  expect(keptAcceptanceFault(ROW, elsewhere, KEYS)).toBe('relay key');
});

test.each([
  ['sender', ROW, KEPT, { ...KEYS, own: [carol.key] }],
  ['target', ROW, KEPT, { ...KEYS, peer: [carol.key] }],
  ['hash', { ...ROW, wireHash: sha256Hex('other') }, KEPT, KEYS],
  ['item', { ...ROW, itemId: 'm2' as ItemId }, KEPT, KEYS],
  ['signature', ROW, { ...KEPT, sig: alice.signer.sign(canonicalBytes(accept)) }, KEYS],
] as const)('of a kept receipt the %s may be wrong', (fault, row, kept, keys) => {
  expect(keptAcceptanceFault(row, kept, keys)).toBe(fault);
});

test('a relay has to know what it took for the retention twice and 7 days, in its epoch', () => {
  const last = NOON_MS + 35 * DAY_MS;
  expect(mustKnowItem(KEPT, epochNumbered(1), last - 1)).toBe(true);
  expect(mustKnowItem(KEPT, epochNumbered(1), last)).toBe(false);
  expect(mustKnowItem(KEPT, epochNumbered(2), NOON_MS)).toBe(false);
  expect(mustKnowItem(KEPT, null, NOON_MS)).toBe(false);
  expect(mustKnowItem({ ...KEPT, mayBeLost: true }, epochNumbered(1), NOON_MS)).toBe(false);
});

const WITHIN = { timeout: PATIENCE_MS, interval: 10 };

async function traceOf(context: HostContext, messageId: string): Promise<TraceResult> {
  const traced = await traceWithProofs(context, { message_id: messageId }, new AbortController().signal);
  if (isRefusal(traced)) throw new Error(`${traced.code}: ${traced.message}`);
  return traced;
}

/** A message that a relay carried from alice to bob, with its receipt. */
async function carried(): Promise<{ relay: HttpRelay; alice: RelayContext; bob: RelayContext; sent: MessageRow }> {
  const relay = await relayForTest('node');
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  for (const host of [alice, bob]) await host.use(relay.url);
  const sent = await alice.sendTo(bob, 'anna', ['bert']);
  await vi.waitFor(async () => expect(await alice.rowOf(sent)).toMatchObject({ state: 'done' }), WITHIN);
  return { relay, alice, bob, sent };
}

test('a message that a relay carried is followed from the outbox by the proof of its log to its receipt', async () => {
  const { relay, alice, bob, sent } = await carried();
  const trace = await traceOf(alice.context, sent.ref);
  expect(trace).toMatchObject({
    direction: 'sent',
    from: 'anna@alice',
    to: ['bert@bob'],
    arrival: null,
    mailboxes: [],
  });
  expect(trace.recipients).toMatchObject([{ recipient: 'bert@bob', state: 'delivered' }]);
  expect(trace.recipients[0]?.steps.map(({ state }) => state)).toEqual(['stored', 'relay', 'delivered']);
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
  // What others say of the time changes nothing of the order.
  const early = structuredClone(trace);
  early.recipients[0]?.steps.forEach((step, nth) => (step.at = isoSecond(-1000 * nth)));
  early.rows[0]!.acceptance!.accepted_at = isoTime(1);
  const lines = traceText(early, checked).split('\n');
  const at = (words: string): number => lines.findIndex((line) => line.includes(words));
  expect(at('queued:')).toBeLessThan(at('first pushed to a relay'));
  expect(at('first pushed to a relay')).toBeLessThan(at('accepted it as seq'));
  expect(at('Z  stored')).toBeGreaterThan(0);
  expect(at('Z  stored')).toBeLessThan(at('Z  delivered'));

  const there = await traceOf(bob.context, sent.id);
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
});

test('a relay that cannot be reached proves nothing and hides nothing', async () => {
  const { relay, alice, sent } = await carried();
  await relay.stopAtOnce();
  const trace = await traceOf(alice.context, sent.ref);
  expect(trace.rows).toMatchObject([{ state: 'done', acceptance: { fault: null } }]);
  expect(trace.rows.map(checkRow)).toMatchObject([
    { state: 'none', reason: expect.stringContaining('did not answer') },
  ]);
});

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
  const trace = await traceOf(alice.context, lost.ref);
  const checked = trace.rows.map(checkRow);
  expect(checked).toMatchObject([{ state: 'failed', reason: expect.stringContaining('now denies it') }]);
  expect(traceText(trace, checked)).toContain('NOT PROVEN');
});

test('a relay that is not the one that took it, or shows another key, is not asked', async () => {
  const { alice, bob, sent } = await carried();
  await alice.stop();
  const change = (changes: object) =>
    alice.store.transact((tx) => tx.put('relay', [], { ...tx.get('relay')!, ...changes }));
  await change({ seenKey: { pubkey: bob.key, atMs: 1 } });
  expect((await traceOf(alice.context, sent.ref)).rows[0]?.proof).toMatchObject({
    state: 'none',
    reason: expect.stringContaining('shows another key'),
  });
  await change({ pubkey: bob.key, seenKey: null });
  expect((await traceOf(alice.context, sent.ref)).rows[0]?.proof).toMatchObject({
    state: 'none',
    reason: expect.stringContaining('another relay took it'),
  });
  await alice.store.transact((tx) => tx.delete('relay', []));
  expect((await traceOf(alice.context, sent.ref)).rows[0]?.proof).toMatchObject({
    state: 'none',
    reason: expect.stringContaining('no relay is set'),
  });
});

test('what is not known here is refused; what is in quarantine says where', async () => {
  const alice = await RelayContext.open('alice');
  await expect(traceOf(alice.context, 'm1')).rejects.toThrow('NO_SUCH_MESSAGE: This host knows no message m1');
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
  await expect(traceOf(alice.context, 'm1')).rejects.toThrow('poste quarantine show 4');
});

test("a peer's words obey no terminal", async () => {
  const { bob, sent } = await carried();
  await bob.store.transact((tx) =>
    tx.put('message', [sent.ref], { ...tx.get('message', sent.ref)!, subject: '\u001b[2J\nOutbox row 9' }),
  );
  const text = traceText(await traceOf(bob.context, sent.ref), []);
  expect(text).toContain('\\u{1b}[2J\\u{a}Outbox row 9');
});

test('of a message that several relays took, one line says which, when, and what they said of it since', async () => {
  const { alice, sent } = await carried();
  const { acceptance, ...row } = await alice.rowOf(sent);
  if (!acceptance) throw new Error('the relay took it');
  const elsewhere = { ...acceptance, relayPubkey: carol.key, acceptedAtMs: acceptance.acceptedAtMs + DAY_MS };
  const copies = [
    { acceptance, state: 'expired', atMs: 0, why: 'first', expiredAtMs: acceptance.acceptedAtMs + 14 * DAY_MS },
    { acceptance: elsewhere, state: 'live', atMs: 0, why: 'unheard' },
  ] as const;
  await alice.store.transact((tx) => tx.put('outbox', [row.rowId], { ...row, acceptance: elsewhere, copies }));
  const trace = await traceOf(alice.context, sent.ref);
  expect(trace.rows[0]?.relays).toMatchObject([
    { relay_pubkey: relay.key, url: expect.stringMatching(/^http:/), reason: 'first', state: 'expired' },
    { url: null, accepted_at: isoTime(elsewhere.acceptedAtMs), reason: 'unheard', state: 'live', expired_at: null },
  ]);
  const name = new URL(trace.rows[0]?.relays?.[0]?.url ?? '').host.replaceAll(/\d/g, '0');
  const [line = ''] = /relays .*/.exec(traceText(trace, [])) ?? [];
  expect(line.replace(/SHA256:\S+/, 'KEY').replaceAll(/\d/g, '0')).toBe(
    `relays      accepted by ${name} 00:00:00, by KEY on 0000-00-00 00:00:00 (${name} not heard), ` +
      `confirmed 00:00:00; ${name} said expired on 0000-00-00 00:00:00: settled before`,
  );
  // A notice of before the confirmation says so, and one of which the time is not known says nothing more.
  const [one, two] = found(found(trace.rows[0], 'it has a row').relays, 'it has several');
  const said = (changes: object): string => {
    const relays = [found({ ...one!, ...changes }, 'it took it'), two!];
    return /; .*/.exec(traceText({ ...trace, rows: [{ ...trace.rows[0]!, relays }] }, []))?.[0] ?? '';
  };
  expect(said({ expired_at: trace.rows[0]!.created_at })).toMatch(/said expired \d\d:\d\d:\d\d$/);
  expect(said({ expired_at: null })).toMatch(/said expired$/);
  expect(said({ state: 'live' })).toBe('');
});

test('the relays of a row stand as they took it, whatever one of them says later', async () => {
  const { alice, sent } = await carried();
  const { acceptance, ...fresh } = await alice.rowOf(sent);
  const trace = await traceOf(alice.context, sent.ref);
  const taken = found(acceptance ?? undefined, 'the relay took it');
  const queued: OutboxRow = { ...fresh, state: 'pending', acceptance: null, firstPushAtMs: null, confirmed: [] };
  const at = (minutes: number): number => taken.acceptedAtMs + minutes * 60_000;
  const took = (relayPubkey: PublicKey, minutes: number, why: 'first' | 'unheard'): [number, OutboxEvent][] => [
    [minutes, { type: 'relay-pushing', relayPubkey, isOneOfMany: true }],
    [
      minutes,
      {
        type: 'relay-accepted',
        acceptance: { ...taken, relayPubkey, acceptedAtMs: at(minutes) },
        isVerified: true,
        why,
      },
    ],
  ];
  const story: [number, OutboxEvent][] = [
    ...took(relay.key, 0, 'first'),
    ...took(carol.key, 6, 'unheard'),
    ...fresh.recipients.map((recipient): [number, OutboxEvent] => [
      7,
      { type: 'receipt', recipient, state: 'delivered' },
    ]),
    [8, { type: 'expired', relayPubkey: relay.key, expiredAtMs: at(8) }],
  ];
  const row = story.reduce<OutboxRow>((before, [minutes, event]) => {
    const facts = { nowMs: at(minutes), momentMs: (ms: number) => ms, jitter: 1, retry: RETRY_TIMING };
    return found(stepOutbox(before, event, { ...facts, hasPeerConfirmed: true }).row ?? undefined, 'it is kept');
  }, queued);
  expect(row.state).toBe('done');
  await alice.store.transact((tx) => tx.put('outbox', [row.rowId], row));
  const { rows } = await traceOf(alice.context, sent.ref);
  const name = new URL(found(rows[0]?.relays?.[0]?.url ?? undefined, 'it is used')).host;
  const times = /\d\d:\d\d:\d\d/g;
  const [line = ''] =
    /relays .*/.exec(
      traceText({ ...trace, rows }, [])
        .replaceAll(times, '0')
        .replace(/SHA256:\S+ 0/, 'KEY 0'),
    ) ?? [];
  expect(line).toContain(`accepted by ${name} 0, by KEY 0 (${name} not heard), confirmed`);
});

test.each([
  ['first', 'accepted by r1 00:00:00, by r2 00:00:00 (no other had it)'],
  ['second', 'accepted by r1 00:00:00, by r2 00:00:00 (second copy)'],
  ['again', 'accepted by r1 00:00:00, by r2 00:00:00 (pushed again)'],
  ['ahead', 'accepted by r1 00:00:00, by r2 00:00:00 (ahead of a later message)'],
  [null, 'accepted by r1 00:00:00, by r2 00:00:00'],
] as const)('of a copy the trace says why it went there: %s', async (reason, line) => {
  const { alice, sent } = await carried();
  const trace = await traceOf(alice.context, sent.ref);
  const row = found(trace.rows[0], 'it has a row');
  const took = { relay_pubkey: relay.key, fingerprint: '', accepted_at: row.created_at, state: 'live' } as const;
  const relays = [
    { ...took, url: 'http://r1', reason: 'first' as const, expired_at: null },
    { ...took, url: 'http://r2', reason, expired_at: null },
  ];
  const text = traceText({ ...trace, rows: [{ ...row, relays }] }, []).replaceAll(/\d\d:\d\d:\d\d/g, '00:00:00');
  expect(text).toContain(`${line}, confirmed`);
});

test('of a copy that went elsewhere for silence, though no other stands before it, the trace says so', async () => {
  const { alice, sent } = await carried();
  const trace = await traceOf(alice.context, sent.ref);
  const row = found(trace.rows[0], 'it has a row');
  const took = { relay_pubkey: relay.key, fingerprint: '', accepted_at: row.created_at, state: 'live' } as const;
  const relays = [{ ...took, url: 'http://r1', reason: 'unheard' as const, expired_at: null }];
  const text = traceText({ ...trace, rows: [{ ...row, relays }] }, []).replaceAll(/\d\d:\d\d:\d\d/g, '00:00:00');
  expect(text).toContain('accepted by r1 00:00:00 (no other was heard), confirmed');
});
