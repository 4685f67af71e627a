/**
 * Makes what hosts of a simulation ask of the relay, as its routes would have parsed it, and what they are answered.
 */
import type { AcceptReceipt } from '../../../src/protocol/documents.ts';
import type { Epoch } from '../../../src/protocol/names.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import type { TestHost } from '../hosts.ts';

export interface SentItem {
  kind: 'envelope' | 'receipt';
  itemId: string;
  targets: readonly { key: PublicKey; wire: string }[];
}

export type Request = { caller: TestHost } & (
  | { type: 'challenge' }
  | { type: 'enrol'; challenge: string }
  | { type: 'push'; items: readonly SentItem[] }
  | { type: 'pull'; after: number; limit: number; epoch: Epoch | undefined; waitS: number }
  | { type: 'ack'; epoch: Epoch; through: number }
  | { type: 'rotate'; to: TestHost }
  | { type: 'checkpoint'; known: { epoch: string; size: number } | undefined }
);

export interface PushResult {
  itemId: string;
  /** `accepted`, `duplicate` or `rejected:…`. */
  status: string;
  accept: AcceptReceipt | undefined;
  sig: string | undefined;
}

export interface PulledItem {
  seq: number;
  kind: string;
  itemId: string;
  senderPubkey: PublicKey;
  wire: string;
}

export type Answer =
  | { type: 'refused'; code: string; epoch: Epoch | undefined }
  | { type: 'challenge'; text: string }
  | { type: 'done' }
  | { type: 'pushed'; epoch: Epoch; results: readonly PushResult[] }
  | { type: 'page'; epoch: Epoch; headSeq: number; items: readonly PulledItem[]; lastSeq: number; more: boolean }
  | { type: 'acked'; ackedThrough: number; headSeq: number }
  | { type: 'checkpoint'; note: string; growth: readonly Buffer[] | undefined };
