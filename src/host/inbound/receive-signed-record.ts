/**
 * Judges and applies the delivery receipt of a peer, and a relay's notice that an item expired.
 *
 * A receipt counts when the recipient's host signed it, by a present or retired key, and it is for a message that this
 * host sent there, to that recipient, in these bytes ("Receiving host rules", 2). A retired key counts
 * under the rules of core/peer-keys.ts, and for no message that was sent after it was given up.
 */
import type { DeliveryReceipt, ExpiryNotice } from '../../protocol/documents.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { messageIdTimeMs } from '../core/message-id.ts';
import { isExpiryInTime } from '../core/outbox.ts';
import { retiredAt } from '../core/peer-keys.ts';
import type { Address, PeerRow } from '../core/rows.ts';
import { accept, duplicate, type Inspection, type Judgement, keep, signingPeer } from './verify.ts';
import { peerOfKey } from '../peers/peers.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import type { HostContext } from '../base/context.ts';
import { outboxRowOf } from '../outbox/outbox-rows.ts';
import { afterAttempt } from '../outbox/outbox.ts';
import { parseNotice, parseReceipt } from '../wire/parse.ts';
import { noteKnowsOurKey } from '../peers/peers.ts';
import { applyToSent } from '../mailbox/sent-recipients.ts';

export function judgeReceipt(reader: Reader, context: HostContext, inspection: Inspection): Judgement {
  const signed = signedReceipt(reader, context, inspection);
  if ('status' in signed) return signed;
  const { rec, peer } = signed;
  const { msg, recipient, seq, state, at: atMs } = rec;
  const address = recipient as Address;
  const row = outboxRowOf(reader, peer.peerId, msg);
  // It was applied before, or its message was deleted since: nothing to apply it to.
  if (!row && isForgotten(reader, msg)) return duplicate();
  if (!row) return keep('unknown-message', `no message of this id was sent to ${peer.hostName}`);
  const retiredAtMs = retiredAt(peer, rec.host_pubkey);
  if (retiredAtMs !== null && row.createdAtMs > retiredAtMs) {
    return keep('retired-key', `${peer.hostName} gave up the key that signed it before the message was sent`);
  }
  // By the name that its host had then: it may be paired under another since.
  if (!row.recipients.includes(address)) {
    return keep('wrong-recipient', `the message was not sent to ${recipient}`);
  }
  if (!isOwnKey(reader, context, rec.sender_host_pubkey))
    return keep('wrong-target', 'it is for a key that this host never had');
  if (rec.wire_hash !== row.wireHash) return keep('wrong-hash', 'it is for other bytes than were sent');
  const apply = (tx: Transaction): void => {
    if (!peer.hasConfirmed) tx.put('peer', [peer.peerId], { ...peer, hasConfirmed: true });
    if (rec.sender_host_pubkey === context.identity().signer.publicKey) noteKnowsOurKey(tx, context, peer.peerId);
    applyToSent(tx, context, row.ref, { peerId: peer.peerId, address }, { state, seq, atMs });
    afterAttempt(tx, context, row.rowId, { type: 'receipt', recipient: address, state });
  };
  const known = reader
    .get('sent', row.ref)
    ?.recipients.find((sent) => sent.peerId === peer.peerId && sent.address === address);
  const isKnown = known?.seq === seq && known.state === state && row.confirmed.includes(address);
  return isKnown ? duplicate() : accept(apply);
}

/** The receipt and the paired host that signed it; else the judgement that keeps it. */
export function signedReceipt(
  reader: Reader,
  context: HostContext,
  inspection: Inspection,
): { rec: DeliveryReceipt; peer: PeerRow } | Judgement {
  const { item } = inspection;
  const parsed = inspection.record(parseReceipt);
  if ('malformed' in parsed) return keep('malformed', parsed.malformed);
  const { rec, signedBytes, sig } = parsed;
  if (item.itemId !== `receipt:${rec.msg}:${rec.recipient}:${rec.seq}`) {
    return keep('id-mismatch', 'the receipt is not the one that the item names');
  }
  const peer = signingPeer(reader, context, item, { key: rec.host_pubkey, writtenAtMs: rec.at });
  if ('status' in peer) return peer;
  if (!inspection.isSigned(rec.host_pubkey, signedBytes, sig)) {
    return keep('bad-signature', `the signature is not that of ${peer.hostName}`);
  }
  return { rec, peer };
}

export function judgeNotice(reader: Reader, context: HostContext, inspection: Inspection): Judgement {
  const signed = signedNotice(inspection);
  if ('status' in signed) return signed;
  const { rec, relayPubkey } = signed;
  const peer = peerOfKey(reader, rec.target_pubkey);
  const row = peer && outboxRowOf(reader, peer.peerId, rec.item_id);
  if (!row && isForgotten(reader, rec.item_id)) return duplicate();
  if (!row) return keep('unknown-message', 'no message of this id was sent to that key');
  const clock = { nowMs: context.nowMs(), momentMs: (datedMs: number) => context.momentMs(datedMs) };
  if (row.state === 'relay-accepted' && row.acceptance?.relayPubkey === relayPubkey && !isExpiryInTime(row, clock))
    return keep('too-early', 'the relay said that it keeps items longer than it can have had this one');
  const notice = { type: 'expired', relayPubkey, expiredAtMs: rec.expired_at } as const;
  return accept((tx) => void afterAttempt(tx, context, row.rowId, notice));
}

/** The notice and the relay that signed it; else the judgement that keeps it. */
export function signedNotice(inspection: Inspection): { rec: ExpiryNotice; relayPubkey: PublicKey } | Judgement {
  const { item } = inspection;
  const parsed = inspection.record(parseNotice);
  if ('malformed' in parsed) return keep('malformed', parsed.malformed);
  const { rec, signedBytes, sig } = parsed;
  if (item.itemId !== `expired:${rec.item_id}:${rec.target_pubkey}`) {
    return keep('id-mismatch', 'the notice is not the one that the item names');
  }
  const relayPubkey = item.relay?.pubkey;
  if (relayPubkey === undefined) return keep('unknown-sender', 'a notice comes from a relay');
  if (!inspection.isSigned(relayPubkey, signedBytes, sig)) {
    return keep('bad-signature', 'the signature is not that of the relay');
  }
  return { rec, relayPubkey };
}

function isOwnKey(reader: Reader, context: HostContext, key: string): boolean {
  const { publicKey } = context.identity().signer;
  return key === publicKey || reader.get('identity')?.keys.some((known) => known.publicKey === key) === true;
}

/** Whether a message of this id may have been sent here and deleted by retention since. */
function isForgotten(reader: Reader, id: string): boolean {
  const sentAtMs = messageIdTimeMs(id);
  return sentAtMs !== undefined && sentAtMs <= (reader.get('identity')?.sentForgottenMs ?? 0);
}
