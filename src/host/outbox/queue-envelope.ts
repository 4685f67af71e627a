/**
 * Queues a message for a paired host: sealed once, with what this host says of relays, what it has seen of those that
 * both use and the other one has not heard, and what it has heard of the other one.
 */
import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import type { HostContext } from '../base/context.ts';
import type { Address, MessageRef, MessageRow, PeerRow } from '../core/rows.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { type EnvelopeHead, type SealedContent, sealedWire } from '../wire/sealing.ts';
import { addOutboxRow } from './outbox.ts';
import { homeFor, noteTold } from './homes.ts';
import { marksToSay, nextSeen } from './seen.ts';

/** Seals a message of this host for a paired one and queues it there. `recipients` live on that host, none twice. */
export async function queueEnvelope(
  tx: Transaction,
  context: HostContext,
  peer: PeerRow,
  message: MessageRow,
  body: string,
  recipients: readonly Address[],
): Promise<void> {
  const { signer } = context.identity();
  const head: EnvelopeHead = {
    created_at: message.createdAtMs,
    from: message.from,
    from_host_pubkey: signer.publicKey,
    id: message.id,
    subject: message.subject,
    to: [...recipients],
    to_host: peer.hostName,
    type: 'envelope',
    v: 1,
  };
  const seen = await nextSeen(tx, context, peer, { isUnheard: true });
  const heard = marksToSay(context, peer.peerId);
  const home = homeFor(tx, context, peer.peerId);
  // The members stand in the order of their names, which is how they are sealed.
  const content: SealedContent = {
    body,
    ...(heard && { heard }),
    ...(home && { home }),
    kind: message.kind,
    needs_reply: message.needsReply,
    origin: message.origin,
    refs: message.refs,
    reply_to: message.replyTo === null ? null : wireIdOf(tx, message.replyTo),
    ...(seen.length > 0 && { seen }),
    thread: message.thread === message.ref ? message.id : wireIdOf(tx, message.thread),
  };
  const seal = (sealed: SealedContent): Promise<Buffer> => sealedWire(head, sealed, peer.encKey.encPub, signer);
  let wire = await seal(content);
  if ((seen.length > 0 || heard || home) && wire.length > DEFAULT_LIMITS.max_item_bytes) {
    // A relay must take every message that it would take without.
    delete content.seen;
    delete content.heard;
    delete content.home;
    wire = await seal(content);
  } else if (home) noteTold(tx, context, peer.peerId, home);
  const { ref, id: itemId } = message;
  const { peerId } = peer;
  addOutboxRow(tx, context, { kind: 'envelope', itemId, ref, peerId, recipients: [...recipients], wire });
}

/** The name outside of a message of this host, or of one that came: not every reference is an id. */
function wireIdOf(reader: Reader, ref: MessageRef): string {
  return reader.get('message', ref)?.id ?? ref;
}
