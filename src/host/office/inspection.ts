/**
 * What is costly to learn of one item: its form, whether a key signed it, what was sealed. Each is looked at once and
 * rests on the bytes and the keys alone, so it holds whenever it was learned, and may be learned before a transaction.
 */
import { type Sha256Hex, sha256Hex } from '../../protocol/digest.ts';
import { verifySignature } from '../../protocol/ed25519.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { SealKey } from '../core/rows.ts';
import type { IncomingItem } from './incoming.ts';
import { Malformed, parseContent, parseEnvelope, signedBytesOf } from './parse-envelope.ts';
import { type Envelope, NotOpened, type SealedContent, openSeal } from './sealing.ts';

export interface ParsedEnvelope {
  envelope: Envelope;
  signedBytes: Buffer;
  /** Of the signed bytes. */
  contentHash: Sha256Hex;
}

export interface NotReadable {
  reason: 'not-opened' | 'bad-content';
  detail: string;
}

export class Inspection {
  readonly item: IncomingItem;
  #envelope: ParsedEnvelope | { malformed: string } | undefined;
  #signed: { by: string; isSigned: boolean } | undefined;
  #content: { encPub: string; content: Promise<SealedContent | NotReadable> } | undefined;

  constructor(item: IncomingItem) {
    this.item = item;
  }

  /** The item's wire bytes as an envelope, or what is wrong with them. */
  envelope(): ParsedEnvelope | { malformed: string } {
    return (this.#envelope ??= parsed(this.item.wire));
  }

  /** Whether `key` signed the item with `sig` over `signedBytes`: an item has one signature. */
  isSigned(key: PublicKey, signedBytes: Buffer, sig: string): boolean {
    if (this.#signed?.by !== key) this.#signed = { by: key, isSigned: verifySignature(key, signedBytes, sig) };
    return this.#signed.isSigned;
  }

  /** What was sealed, opened with this key of the host. */
  content(envelope: Envelope, key: SealKey): Promise<SealedContent | NotReadable> {
    const { encPub } = key;
    if (this.#content?.encPub !== encPub) this.#content = { encPub, content: opened(envelope, key) };
    return this.#content.content;
  }
}

function parsed(wire: Buffer): ParsedEnvelope | { malformed: string } {
  try {
    const envelope = parseEnvelope(wire);
    const signedBytes = signedBytesOf(envelope);
    return { envelope, signedBytes, contentHash: sha256Hex(signedBytes) };
  } catch (error) {
    if (error instanceof Malformed) return { malformed: error.message };
    throw error;
  }
}

async function opened(envelope: Envelope, key: SealKey): Promise<SealedContent | NotReadable> {
  try {
    return parseContent(await openSeal(envelope, key));
  } catch (error) {
    if (error instanceof NotOpened) return { reason: 'not-opened', detail: 'the seal does not open' };
    if (error instanceof Malformed) return { reason: 'bad-content', detail: error.message };
    throw error;
  }
}
