/**
 * The rows of the relay that this host uses: the pinned relay, this host's registration there, and how far this host
 * has received its queue. Only this file writes them.
 *
 * Invariants: enrolments and positions are those of the relay's current epoch alone, so that a generation which comes
 * back begins at 0; a change of the epoch notifies every open row of the outbox in the same transaction.
 */
import type { Epoch } from '../../protocol/epoch.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEnrolmentRow, RelayRow } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { HostContext } from '../base/context.ts';
import { type PeerEvent, afterPeerChange } from '../outbox/outbox.ts';
import { leaveEpoch } from '../outbox/trust-rows.ts';
import { livePeers } from '../peers/peers.ts';

/** One generation of one relay's store, for one key of this host. */
export interface RelayScope {
  relayPubkey: PublicKey;
  epoch: Epoch;
  hostPubkey: PublicKey;
}

/** Pins a relay. A registration at the same relay stays. */
export function pinRelay(
  tx: Transaction,
  context: HostContext,
  pinned: Pick<RelayRow, 'url' | 'pubkey' | 'proof' | 'ca' | 'isV1' | 'witnesses'>,
): RelayRow {
  const before = tx.get('relay');
  const isSame = before?.pubkey === pinned.pubkey;
  const row: RelayRow = {
    ...pinned,
    pinnedAtMs: isSame ? before.pinnedAtMs : context.nowMs(),
    seenKey: null,
    epoch: isSame ? before.epoch : null,
    sendersIatMs: before?.sendersIatMs ?? 0,
  };
  tx.put('relay', [], row);
  tx.afterCommit(() => context.emit({ type: 'relay-changed' }));
  return row;
}

/**
 * A relay of v1 speaks v2 now, under the key that its challenges showed: it is pinned, and this host registers again,
 * with all that v1 has no routes for, such as its rotations.
 */
export async function noteSpeaksV2(tx: Transaction, pubkey: PublicKey): Promise<void> {
  const row = tx.get('relay');
  if (!row?.isV1 || row.pubkey !== pubkey) return;
  const { isV1: _isV1, ...pinned } = row;
  tx.put('relay', [], pinned);
  await dropRows(tx, 'relayEnrolment', (scope) => scope.relayPubkey === pubkey);
}

/** Uses no relay any more; answers the one that was used. */
export async function unpinRelay(tx: Transaction, context: HostContext): Promise<RelayRow | undefined> {
  const row = tx.get('relay');
  if (!row) return undefined;
  tx.delete('relay', []);
  await dropScopes(tx, () => true);
  tx.afterCommit(() => context.emit({ type: 'relay-changed' }));
  return row;
}

/**
 * Another key than the pinned one was shown where `asked` said: the relay is not used until the owner says so. One that
 * the owner set meanwhile showed nothing.
 */
export function noteSeenKey(
  tx: Transaction,
  context: HostContext,
  asked: Pick<RelayRow, 'url' | 'pubkey'>,
  pubkey: PublicKey,
): void {
  const row = tx.get('relay');
  if (row?.pubkey !== asked.pubkey || row.url !== asked.url || row.seenKey?.pubkey === pubkey) return;
  tx.put('relay', [], { ...row, seenKey: { pubkey, atMs: context.nowMs() } });
}

/**
 * The relay is in this epoch now. In another than before its queue is read from the start, this host registers
 * again, and what the relay took before is pushed again. Answers whether it was another.
 */
export async function enterEpoch(
  tx: Transaction,
  context: HostContext,
  { relayPubkey, epoch }: Pick<RelayScope, 'relayPubkey' | 'epoch'>,
): Promise<boolean> {
  const row = tx.get('relay');
  if (row?.pubkey !== relayPubkey || row.epoch === epoch) return false;
  tx.put('relay', [], { ...row, epoch });
  if (row.epoch !== null) leaveEpoch(tx, relayPubkey, row.epoch);
  await dropScopes(tx, (scope) => scope.relayPubkey !== relayPubkey || scope.epoch !== epoch);
  await notifyOutbox(tx, context, { type: 'new-epoch', relayPubkey, epoch });
  return true;
}

/** The relay's store went back in time in one epoch: what it knew of this host may be gone too, as in a new epoch. */
export async function rewindPosition(tx: Transaction, context: HostContext, scope: RelayScope): Promise<void> {
  putPosition(tx, context, scope, 0);
  dropEnrolment(tx, scope);
  await notifyOutbox(tx, context, { type: 'relay-rewound', relayPubkey: scope.relayPubkey });
}

/** Every open row of every paired host takes note. */
export async function notifyOutbox(tx: Transaction, context: HostContext, event: PeerEvent): Promise<void> {
  for (const { peerId } of await livePeers(tx)) await afterPeerChange(tx, context, peerId, event);
}

export function enrolmentIn(reader: Reader, scope: RelayScope): RelayEnrolmentRow | undefined {
  return reader.get('relayEnrolment', ...keyOf(scope));
}

export function putEnrolment(tx: Transaction, scope: RelayScope, row: RelayEnrolmentRow): void {
  if (isCurrent(tx, scope)) tx.put('relayEnrolment', keyOf(scope), row);
}

/** Adds what was published after an enrolment. One that was dropped meanwhile stays so, and steps are repeated. */
export function addToEnrolment(tx: Transaction, scope: RelayScope, row: RelayEnrolmentRow): void {
  if (enrolmentIn(tx, scope)) putEnrolment(tx, scope, row);
}

/** The relay does not know this key any more: this host registers again. */
export function dropEnrolment(tx: Transaction, scope: RelayScope): void {
  tx.delete('relayEnrolment', keyOf(scope));
}

/**
 * This host has another name: it enrols again, so that the relay knows it. Where the relay wants a proof, the name
 * waits for the next enrolment: an invite is good once, and a proof that is gone must not end an enrolment that still
 * holds.
 */
export function dropEnrolmentOfName(tx: Transaction, hostPubkey: PublicKey): void {
  const row = tx.get('relay');
  if (row?.epoch && row.proof === null) dropEnrolment(tx, { relayPubkey: row.pubkey, epoch: row.epoch, hostPubkey });
}

/** Notes the `iat` of a sender list before it is published. */
export function noteSendersIat(tx: Transaction, relayPubkey: PublicKey, iatMs: number): void {
  const row = tx.get('relay');
  if (row?.pubkey === relayPubkey && row.sendersIatMs < iatMs) tx.put('relay', [], { ...row, sendersIatMs: iatMs });
}

/** Received-through: 0 before anything. */
export function positionIn(reader: Reader, scope: RelayScope): number {
  return reader.get('relayPosition', ...keyOf(scope))?.receivedThrough ?? 0;
}

export function putPosition(tx: Transaction, context: HostContext, scope: RelayScope, receivedThrough: number): void {
  if (isCurrent(tx, scope)) tx.put('relayPosition', keyOf(scope), { receivedThrough, atMs: context.nowMs() });
}

/** The place where the next page of a relay of v1 begins; null at the start of the queue. */
export function cursorIn(reader: Reader, scope: RelayScope): string | null {
  return reader.get('relayPosition', ...keyOf(scope))?.cursor ?? null;
}

export function putCursor(tx: Transaction, context: HostContext, scope: RelayScope, cursor: string): void {
  const row = { receivedThrough: 0, cursor, atMs: context.nowMs() };
  if (isCurrent(tx, scope)) tx.put('relayPosition', keyOf(scope), row);
}

function isCurrent(reader: Reader, { relayPubkey, epoch }: RelayScope): boolean {
  const row = reader.get('relay');
  return row?.pubkey === relayPubkey && row.epoch === epoch;
}

function keyOf({ relayPubkey, epoch, hostPubkey }: RelayScope): [PublicKey, Epoch, PublicKey] {
  return [relayPubkey, epoch, hostPubkey];
}

async function dropScopes(tx: Transaction, isOver: (scope: RelayScope) => boolean): Promise<void> {
  for (const table of ['relayEnrolment', 'relayPosition'] as const) await dropRows(tx, table, isOver);
}

async function dropRows(
  tx: Transaction,
  table: 'relayEnrolment' | 'relayPosition',
  isOver: (scope: RelayScope) => boolean,
): Promise<void> {
  const over: [PublicKey, Epoch, PublicKey][] = [];
  for await (const { key } of tx.range(table, [])) {
    const [relayPubkey, epoch, hostPubkey] = key;
    if (isOver({ relayPubkey, epoch, hostPubkey })) over.push(key);
  }
  for (const key of over) tx.delete(table, key);
}
