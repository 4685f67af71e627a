/**
 * A delivery receipt of a peer, and a relay's notice that an item expired: judged and applied.
 *
 * A receipt counts when the recipient's host signed it, by a pinned or retired key, and it is for a message that this
 * host sent there, to that recipient, in these bytes (specification, "Receiving host rules", 2).
 */
import { isSameHost, partsOfAddress } from '../core/address.ts';
import type { Address, PeerRow } from '../core/rows.ts';
import { type Judgement, accept, duplicate, keep } from './verdict.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { isBroughtBy, peerOfKey, signingPeer } from './incoming.ts';
import type { Inspection } from './inspection.ts';
import type { Office } from './office.ts';
import { outboxRowOf } from './outbox-rows.ts';
import { afterAttempt } from './outbox.ts';
import { Malformed } from './parse-envelope.ts';
import { type SignedRecord, parseNotice, parseReceipt } from './parse-signed-record.ts';
import { applyToSent } from './sent.ts';

export function judgeReceipt(reader: Reader, office: Office, inspection: Inspection): Judgement {
  const { item } = inspection;
  const parsed = parsedOr(item.wire, parseReceipt);
  if ('status' in parsed) return parsed;
  const { rec, signedBytes, sig } = parsed;
  const { msg, recipient, seq, state, at: atMs } = rec;
  if (item.itemId !== `receipt:${msg}:${recipient}:${seq}`) {
    return keep('id-mismatch', 'the receipt is not the one that the item names');
  }
  const peer = signingPeer(reader, rec.host_pubkey);
  if ('status' in peer) return peer;
  if (!isBroughtBy(reader, peer, rec.host_pubkey, item.senderPubkey)) {
    return keep('sender-mismatch', `${peer.hostName} signed it, another host brought it`);
  }
  if (!inspection.isSigned(rec.host_pubkey, signedBytes, sig)) {
    return keep('bad-signature', `the signature is not that of ${peer.hostName}`);
  }
  const address = recipient as Address;
  const row = outboxRowOf(reader, peer.peerId, msg);
  if (!row) return keep('unknown-message', `no message of this id was sent to ${peer.hostName}`);
  if (!isOn(address, peer) || !row.recipients.includes(address)) {
    return keep('wrong-recipient', `the message was not sent to ${recipient}`);
  }
  if (!isOwnKey(reader, office, rec.sender_host_pubkey))
    return keep('wrong-target', 'it is for a key that this host never had');
  if (rec.wire_hash !== row.wireHash) return keep('wrong-hash', 'it is for other bytes than were sent');
  const apply = (tx: Transaction): void => {
    if (!peer.hasConfirmed) tx.put('peer', [peer.peerId], { ...peer, hasConfirmed: true });
    applyToSent(tx, office, row.ref, { peerId: peer.peerId, address }, { state, seq, atMs });
    afterAttempt(tx, office, row.rowId, { type: 'receipt', recipient: address, state });
  };
  const known = reader
    .get('sent', row.ref)
    ?.recipients.find((sent) => sent.peerId === peer.peerId && sent.address === address);
  const isKnown = known?.seq === seq && known.state === state && row.confirmed.includes(address);
  return isKnown ? duplicate() : accept(apply);
}

export function judgeNotice(reader: Reader, office: Office, inspection: Inspection): Judgement {
  const { item } = inspection;
  const parsed = parsedOr(item.wire, parseNotice);
  if ('status' in parsed) return parsed;
  const { rec, signedBytes, sig } = parsed;
  if (item.itemId !== `expired:${rec.item_id}:${rec.target_pubkey}`) {
    return keep('id-mismatch', 'the notice is not the one that the item names');
  }
  const relayPubkey = item.relay?.pubkey;
  if (relayPubkey === undefined) return keep('unknown-sender', 'a notice comes from a relay');
  if (!inspection.isSigned(relayPubkey, signedBytes, sig)) {
    return keep('bad-signature', 'the signature is not that of the relay');
  }
  const peer = peerOfKey(reader, rec.target_pubkey);
  const row = peer && outboxRowOf(reader, peer.peerId, rec.item_id);
  if (!row) return keep('unknown-message', 'no message of this id was sent to that key');
  const notice = { type: 'expired', relayPubkey, expiredAtMs: rec.expired_at } as const;
  return accept((tx) => void afterAttempt(tx, office, row.rowId, notice));
}

function parsedOr<Rec>(wire: Buffer, parse: (wire: Buffer) => SignedRecord<Rec>): SignedRecord<Rec> | Judgement {
  try {
    return parse(wire);
  } catch (error) {
    if (error instanceof Malformed) return keep('malformed', error.message);
    throw error;
  }
}

function isOn(address: Address, { hostName }: PeerRow): boolean {
  const parts = partsOfAddress(address);
  return parts !== undefined && isSameHost(parts.host, hostName);
}

function isOwnKey(reader: Reader, office: Office, key: string): boolean {
  const { publicKey } = office.identity().signer;
  return key === publicKey || reader.get('identity')?.keys.some((known) => known.publicKey === key) === true;
}
