/** What a relay showed, as items to receive: nothing of it is believed, and whatever it is can be kept. */
import { decodeBase64 } from '../../../protocol/base64.ts';
import { NotCanonicalisable, canonicalBytes } from '../../../protocol/canonical-json.ts';
import { type PublicKey, parsePublicKey } from '../../../protocol/public-key.ts';
import type { IncomingItem } from '../../office/incoming.ts';
import type { RelayScope } from '../../office/relay-rows.ts';
import type { PulledItem } from '../relay-client.ts';

/** Bytes that are no base64 are what the relay showed: they are kept as they came, and found malformed. */
export function itemOfV2(item: PulledItem, { relayPubkey, epoch }: RelayScope): IncomingItem {
  const { seq, kind, item_id: itemId, sender_pubkey: senderPubkey, wire_b64: text } = item;
  const wire = decodeBase64(text) ?? Buffer.from(text, 'utf8');
  return { via: 'relay', relay: { pubkey: relayPubkey, epoch, seq }, kind, itemId, senderPubkey, wire };
}

/** v1 tells neither a seq nor who pushed it: whoever the envelope says signed it stands for that. */
export function itemOfV1(envelope: object, { relayPubkey, epoch }: RelayScope): IncomingItem {
  const { id, from_host_pubkey: key } = envelope as { id?: unknown; from_host_pubkey?: unknown };
  return {
    via: 'relay',
    relay: { pubkey: relayPubkey, epoch, seq: null },
    kind: 'envelope',
    itemId: typeof id === 'string' ? id : '',
    senderPubkey: parsePublicKey(key) ?? ('' as PublicKey),
    wire: wireOf(envelope),
  };
}

function wireOf(envelope: object): Buffer {
  try {
    return canonicalBytes(envelope);
  } catch (error) {
    if (!(error instanceof NotCanonicalisable)) throw error;
    return Buffer.from(JSON.stringify(envelope), 'utf8');
  }
}
