/** What the relay's result for one pushed row makes happen to it. Pure. */
import type { AcceptReceipt } from '../../protocol/documents.ts';
import { type PushedRow, checkAcceptReceipt } from './accept-receipt.ts';
import type { OutboxHappening } from './outbox.ts';

export interface RelayResult {
  status: string;
  accept?: AcceptReceipt;
  sig?: string;
}

/** Of the relay, as it said of itself. */
export interface RelayPromise {
  retentionMs: number;
  /** This host's clock: an acceptance in the future would never run out. */
  nowMs: number;
}

export function happeningOfResult(
  { status, accept, sig }: RelayResult,
  pushed: PushedRow,
  { retentionMs, nowMs }: RelayPromise,
): OutboxHappening {
  const code = /^rejected:(.*)$/s.exec(status)?.[1];
  if (code !== undefined) return { type: 'relay-refused', code: code.slice(0, 100) };
  if (!accept || sig === undefined) return { type: 'relay-failed', reason: 'the relay gave no result for it' };
  const checked = checkAcceptReceipt(accept, sig, pushed);
  if ('fault' in checked) {
    return { type: 'relay-failed', reason: `the accept receipt does not verify (${checked.fault})` };
  }
  const { relayPubkey, epoch } = pushed;
  const acceptedAtMs = Math.min(accept.at, nowMs);
  const acceptance = { relayPubkey, epoch, seq: checked.seq, accept, sig, acceptedAtMs, retentionMs };
  return { type: 'relay-accepted', acceptance, isVerified: true };
}
