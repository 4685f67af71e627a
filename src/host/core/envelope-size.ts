/** How long an envelope becomes, before it is sealed: what no transport carries is refused when it is sent. */
import { canonicalBytes } from '../../protocol/canonical-json.ts';
import type { MessageRow } from './rows.ts';

/** The tag of ChaCha20-Poly1305. */
const TAG_BYTES = 16;
/** Names, keys, hashes and the signature of an envelope, with room. */
const FRAME_BYTES = 1024;

/** At least the bytes of the sealed envelope that carries this message to any host. */
export function envelopeBytesMax(message: MessageRow, body: string): number {
  const { id, from, to, subject, kind, needsReply, origin, refs, replyTo, thread } = message;
  const head = canonicalBytes({ id, from, to, subject });
  const content = canonicalBytes({ kind, needs_reply: needsReply, origin, refs, reply_to: replyTo, thread, body });
  return FRAME_BYTES + head.length + Math.ceil((content.length + TAG_BYTES) / 3) * 4;
}
