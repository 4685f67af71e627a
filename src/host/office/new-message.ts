/** A message that is made on this host: its id, its reference and what both ends will know of it. */
import type { MessageRef, MessageRow } from '../core/rows.ts';
import { MESSAGE_ID_RANDOM_BYTES, messageIdFrom } from '../core/message-id.ts';
import type { Reader } from '../store/host-store.ts';
import type { Office } from './office.ts';

type Given = Omit<MessageRow, 'ref' | 'id' | 'thread' | 'fromPeer' | 'createdAtMs' | 'storedAtMs' | 'bodyBytes'>;

/** `thread` is null for a message that begins one. */
export function newMessage(
  reader: Reader,
  office: Office,
  given: Given,
  body: string,
  thread: MessageRef | null,
): MessageRow {
  const nowMs = office.nowMs();
  let id = messageIdFrom(nowMs, office.randomBytes(MESSAGE_ID_RANDOM_BYTES));
  // A peer may have sent one of this name, by accident or not.
  while (reader.get('held', id as string as MessageRef) !== undefined) {
    id = messageIdFrom(nowMs, office.randomBytes(MESSAGE_ID_RANDOM_BYTES));
  }
  const ref = id as string as MessageRef;
  return {
    ...given,
    id,
    ref,
    thread: thread ?? ref,
    fromPeer: null,
    createdAtMs: nowMs,
    storedAtMs: nowMs,
    bodyBytes: Buffer.byteLength(body, 'utf8'),
  };
}
