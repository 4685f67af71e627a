/**
 * `givenRow(changes).when(event, facts)`: what the state machine of the outbox makes of a row.
 *
 *     const step = givenRow({ state: 'pending' }).when({ type: 'lan-accepted' });
 *     expect(step.row).toMatchObject({ state: 'lan-accepted' });
 */
import { RETRY_TIMING, type OutboxFacts, type OutboxEvent, type OutboxStep } from '../../src/host/core/outbox-event.ts';
import type { Reader } from '../../src/host/store/host-store.ts';
import { stepOutbox } from '../../src/host/core/outbox.ts';
import type { RelayAcceptance } from '../../src/host/core/relay-acceptance.ts';
import type { Address, MessageRef, OutboxRow, PeerId } from '../../src/host/core/rows.ts';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { canonicalBytes, acceptReceipt, receiptTree, signDocument } from '../../src/protocol/documents.ts';
import { DAY_MS } from '../../src/protocol/limits.ts';
import { leafHash } from '../../src/protocol/merkle.ts';
import type { ItemId } from '../../src/protocol/names.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { epochNumbered } from './epochs.ts';
import { alice, bob, relay } from './hosts.ts';
import { NOON_MS } from './test-clock.ts';

export const RETENTION_MS = 14 * DAY_MS;
export const ANNA = 'anna@bob' as Address;
export const BERT = 'bert@bob' as Address;
const WIRE_HASH = sha256Hex('the wire bytes');

/** Returns what a relay said when it took the row at `acceptedAtMs`. */
export function acceptance(
  acceptedAtMs: number,
  epoch = epochNumbered(1),
  relayPubkey: PublicKey = relay.key,
): RelayAcceptance {
  const accept = acceptReceipt({
    relay_pubkey: relayPubkey,
    epoch,
    sender_pubkey: alice.key,
    item_id: 'm1' as ItemId,
    targets: [{ host_pubkey: bob.key, seq: 7, wire_hash: WIRE_HASH }],
    at: acceptedAtMs,
  });
  return { relayPubkey, epoch, seq: 7, accept, sig: '', acceptedAtMs, retentionMs: RETENTION_MS };
}

/** The same where the relay signed the receipt together with another one. */
export function acceptedInTree(acceptedAtMs = NOON_MS): RelayAcceptance {
  const { sig: _sig, ...kept } = acceptance(acceptedAtMs) as RelayAcceptance & { sig: string };
  const leaves = [kept.accept, { ...kept.accept, item_id: 'm2' }].map((accept) => leafHash(canonicalBytes(accept)));
  const { tree, pathOf } = receiptTree(relay.key, leaves);
  const proof = { index: 0, path: pathOf(0).toString('base64') };
  return { proof, tree, tree_sig: signDocument(relay.signer, tree), ...kept };
}

/** A fresh envelope for anna at bob, made at noon, with `changes`. */
export function outboxRow(changes: Partial<OutboxRow> = {}): OutboxRow {
  return {
    rowId: 1,
    kind: 'envelope',
    itemId: 'm1' as ItemId,
    ref: 'm1' as MessageRef,
    peerId: 'bob' as PeerId,
    recipients: [ANNA],
    wireHash: WIRE_HASH,
    wireBytes: 14,
    state: 'pending',
    createdAtMs: NOON_MS,
    nextAtMs: NOON_MS,
    lanAttempts: 0,
    relayAttempts: 0,
    firstPushAtMs: null,
    lanAcceptedAtMs: null,
    acceptance: null,
    alertedAtMs: null,
    lastError: null,
    confirmed: [],
    ...changes,
  };
}

/** A row that the relay accepted at noon. */
export function relayAccepted(changes: Partial<OutboxRow> = {}): Partial<OutboxRow> {
  const taken = acceptance(NOON_MS);
  return {
    state: 'relay-accepted',
    acceptance: taken,
    firstPushAtMs: NOON_MS,
    nextAtMs: NOON_MS + RETENTION_MS + DAY_MS,
    ...changes,
  };
}

export function givenRow(changes: Partial<OutboxRow> = {}): {
  when(event: OutboxEvent, facts?: Partial<OutboxFacts>): OutboxStep;
} {
  const row = outboxRow(changes);
  return {
    when: (event, facts = {}) =>
      stepOutbox(row, event, {
        nowMs: NOON_MS,
        momentMs: (atMs) => atMs,
        jitter: 0.5,
        retry: RETRY_TIMING,
        hasPeerConfirmed: true,
        ...facts,
      }),
  };
}

/** When the next row of a peer is due; null when none will be. */
export async function nextDueMs(reader: Reader, peerId: PeerId): Promise<number | null> {
  for await (const { key } of reader.range('outboxDue', [peerId], { limit: 1 })) return key[1];
  return null;
}
