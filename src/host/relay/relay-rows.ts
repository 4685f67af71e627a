/**
 * The rows of the relays that this host uses: each pinned relay, this host's registration there, and how far this host
 * has received its queue. This file decides what is in them, but for the wrong notices that outbox/outbox.ts notes;
 * outbox/homes.ts finds and puts them.
 *
 * Invariants: what one relay does changes the rows of no other; enrolments and positions are those of a relay's current
 * epoch alone, so that a generation which comes back begins at 0; a change of the epoch notifies every open row of the
 * outbox in the same transaction.
 */
import type { Epoch } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { RelayEnrolmentRow, RelayRow, WitnessOfRelay } from '../core/relay-rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { type OwnRelay, ownRelays, putRelayRow, relayRowOf, renewOwnHome } from '../outbox/homes.ts';
import type { HostContext } from '../base/context.ts';
import { type PeerEvent, afterPeerChange } from '../outbox/outbox.ts';
import { leaveEpoch } from '../outbox/trust-rows.ts';
import { livePeers, noteRelaysChanged } from '../peers/peers.ts';

/** One generation of one relay's store, for one key of this host. */
export interface RelayScope {
  relayPubkey: PublicKey;
  epoch: Epoch;
  hostPubkey: PublicKey;
}

/** What the owner says of a relay, and the key that it shows. */
export type PinnedAs = Pick<RelayRow, 'url' | 'pubkey' | 'proof' | 'ca' | 'isV1' | 'witnesses'>;

/** Pins the first relay. A registration at the same relay stays. */
export function pinRelay(tx: Transaction, context: HostContext, pinned: PinnedAs): RelayRow {
  const row = rowPinned(pinned, tx.get('relay'), context.nowMs());
  tx.put('relay', [], row);
  tx.afterCommit(() => context.emit({ type: 'relay-changed' }));
  return row;
}

/** The row of a relay that is pinned in the place of `before`. */
export function rowPinned(pinned: PinnedAs, before: RelayRow | undefined, nowMs: number): RelayRow {
  const isSame = before?.pubkey === pinned.pubkey;
  return {
    ...pinned,
    pinnedAtMs: isSame ? before.pinnedAtMs : nowMs,
    seenKey: null,
    epoch: isSame ? before.epoch : null,
    sendersIatMs: before?.sendersIatMs ?? 0,
  };
}

/**
 * Writes these as the relays of this host, in this order; homes come before guests. What of the outbox was at another
 * one is gone from there.
 */
export async function putOwnRelays(
  tx: Transaction,
  context: HostContext,
  relays: readonly Pick<OwnRelay, 'row' | 'role'>[],
): Promise<void> {
  const before = (await ownRelays(tx)).map(({ row }) => row.pubkey);
  const [first, ...homes] = relays.filter(({ role }) => role === 'home');
  const further = [...homes, ...relays.filter(({ role }) => role === 'guest')];
  if (first) tx.put('relay', [], first.row);
  else tx.delete('relay', []);
  for (const pubkey of before) tx.delete('relayMore', [pubkey]);
  for (const [at, { row, role }] of further.entries())
    tx.put('relayMore', [row.pubkey], { ...row, rank: at + 1, role });
  // Rows of a host with one relay keep nothing of it but what it took: that it is gone they learn from the next one.
  for (const relayPubkey of before.length > 1 ? before.filter((pubkey) => !relayRowOf(tx, pubkey)) : [])
    await notifyOutbox(tx, context, { type: 'relay-removed', relayPubkey });
  await dropScopesOver(tx);
  await noteRelaysChanged(tx);
  await renewOwnHome(tx, context);
  tx.afterCommit(() => context.emit({ type: 'relay-changed' }));
}

/**
 * A relay of v1 speaks v2 now, under the key that its challenges showed: it is pinned, and this host registers again,
 * with all that v1 has no routes for, such as its rotations.
 */
export async function noteSpeaksV2(tx: Transaction, pubkey: PublicKey): Promise<void> {
  const row = relayRowOf(tx, pubkey);
  if (!row?.isV1) return;
  const { isV1: _isV1, ...pinned } = row;
  putRelayRow(tx, pinned);
  await dropRows(tx, 'relayEnrolment', (scope) => scope.relayPubkey === pubkey);
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
  const row = relayRowOf(tx, asked.pubkey);
  if (row?.url !== asked.url || row.seenKey?.pubkey === pubkey) return;
  putRelayRow(tx, { ...row, seenKey: { pubkey, atMs: context.nowMs() } });
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
  const row = relayRowOf(tx, relayPubkey);
  if (!row || row.epoch === epoch) return false;
  putRelayRow(tx, { ...row, epoch });
  if (row.epoch !== null) leaveEpoch(tx, relayPubkey, row.epoch);
  await dropScopesOver(tx);
  await notifyOutbox(tx, context, { type: 'new-epoch', relayPubkey, epoch });
  return true;
}

/** The relay's store went back in time in one epoch: what it knew of this host may be gone too, as in a new epoch. */
export async function rewindPosition(tx: Transaction, context: HostContext, scope: RelayScope): Promise<void> {
  putPosition(tx, context, scope, 0);
  tx.delete('relayEnrolment', keyOf(scope));
  await notifyOutbox(tx, context, { type: 'relay-rewound', relayPubkey: scope.relayPubkey });
}

/** Every open row of every paired host takes note. */
export async function notifyOutbox(tx: Transaction, context: HostContext, event: PeerEvent): Promise<void> {
  for (const { peerId } of await livePeers(tx)) await afterPeerChange(tx, context, peerId, event);
}

/** Undefined where this host is to register. */
export function enrolmentIn(reader: Reader, scope: RelayScope): RelayEnrolmentRow | undefined {
  const row = reader.get('relayEnrolment', ...keyOf(scope));
  return row?.isOver ? undefined : row;
}

/** True when the relay knew this key in this epoch, though this host may be to register again. */
export function knewKey(reader: Reader, scope: RelayScope): boolean {
  return reader.get('relayEnrolment', ...keyOf(scope)) !== undefined;
}

export function putEnrolment(tx: Transaction, scope: RelayScope, row: RelayEnrolmentRow): void {
  if (isCurrent(tx, scope)) tx.put('relayEnrolment', keyOf(scope), row);
}

/** Adds what was published after an enrolment. One that ended meanwhile stays so, and steps are repeated. */
export function addToEnrolment(tx: Transaction, scope: RelayScope, row: RelayEnrolmentRow): void {
  if (enrolmentIn(tx, scope)) putEnrolment(tx, scope, row);
}

/** The owner named the relay once more: it is given the encryption key and the list of senders again. */
export function publishAnew(tx: Transaction, scope: RelayScope): void {
  const known = enrolmentIn(tx, scope);
  if (known) putEnrolment(tx, scope, { ...known, encKey: null, senders: null });
}

/** This host registers again. The row stays: that the relay learned of this key is true all the same. */
export function endEnrolment(tx: Transaction, scope: RelayScope): void {
  const known = enrolmentIn(tx, scope);
  if (known) putEnrolment(tx, scope, { ...known, isOver: true });
}

/**
 * This host has another name: it enrols again, so that its relays know it. Where a relay wants a proof, the name
 * waits for the next enrolment: an invite is good once, and a proof that is gone must not end an enrolment that still
 * holds.
 */
export async function endEnrolmentsOfName(tx: Transaction, hostPubkey: PublicKey): Promise<void> {
  for (const { row } of await ownRelays(tx)) {
    const { pubkey: relayPubkey, epoch, proof } = row;
    if (epoch && proof === null) endEnrolment(tx, { relayPubkey, epoch, hostPubkey });
  }
}

/** Notes the `iat` of a sender list before it is published. */
export function noteSendersIat(tx: Transaction, relayPubkey: PublicKey, iatMs: number): void {
  const row = relayRowOf(tx, relayPubkey);
  if (row && row.sendersIatMs < iatMs) putRelayRow(tx, { ...row, sendersIatMs: iatMs });
}

/** Notes the newest checkpoint that a witness of the relay was seen to cosign. */
export function noteWitness(
  tx: Transaction,
  { url, pubkey }: Pick<RelayRow, 'url' | 'pubkey'>,
  last: WitnessOfRelay,
): void {
  const row = relayRowOf(tx, pubkey);
  if (row?.url !== url || !row.witnesses) return;
  putRelayRow(tx, { ...row, witnesses: row.witnesses.map((one) => (one.vkey === last.vkey ? last : one)) });
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
  return relayRowOf(reader, relayPubkey)?.epoch === epoch;
}

function keyOf({ relayPubkey, epoch, hostPubkey }: RelayScope): [PublicKey, Epoch, PublicKey] {
  return [relayPubkey, epoch, hostPubkey];
}

/** Drops what is of an epoch that its relay left, or of a relay that is not used any more. */
async function dropScopesOver(tx: Transaction): Promise<void> {
  await dropRows(tx, 'relayEnrolment', (scope) => !isCurrent(tx, scope));
  await dropRows(tx, 'relayPosition', (scope) => !isCurrent(tx, scope));
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
