/**
 * `GET /v2/relay/log/...`: what the relay proves of its log. Checkpoints, links and consistency are public: they
 * show sizes and hashes. That an item is in the log is proven to its sender alone.
 */
import type { Static } from 'typebox';
import { type HopRelayRequest, type HostOperation, type RelayParts, type RelayRequest, ok } from './operation.ts';
import { CheckpointResponse, LogConsistencyResponse, LogProofResponse } from '../../protocol/responses.ts';
import { LogConsistencyQuery, LogEpochQuery, LogProofQuery } from '../../protocol/parameters.ts';
import { encodeBase64 } from '../../protocol/encodings.ts';
import { parseMessageId, parseReceiptId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ProvenLeaf } from '../engine/log-proofs.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';

const PUBLIC = {
  method: 'GET',
  access: 'open',
  problems: ['NOT_FOUND', 'RATE_LIMITED'],
  counted: 'log',
  hasSmallBody: true,
} as const;

export const LOG_CHECKPOINT = {
  id: 'logCheckpoint',
  ...PUBLIC,
  path: '/v2/relay/log/checkpoint',
  summary:
    'Shows the newest signed checkpoint of the log, or the last one of an earlier epoch. Public, as ' +
    'links and consistency proofs are.',
  query: LogEpochQuery,
  successes: [{ ...ok(CheckpointResponse, 'a signed note'), contentType: 'text/plain' }],
  handle: checkpoint,
} as const satisfies HostOperation<typeof LogEpochQuery>;

export const LOG_LINK = {
  id: 'logLink',
  ...PUBLIC,
  path: '/v2/relay/log/link',
  summary: 'Proves the first leaf of an epoch: what it commits of the epoch before.',
  query: LogEpochQuery,
  successes: [ok(LogProofResponse, 'an inclusion proof of leaf 0')],
  handle: link,
} as const satisfies HostOperation<typeof LogEpochQuery>;

export const LOG_CONSISTENCY = {
  id: 'logConsistency',
  ...PUBLIC,
  path: '/v2/relay/log/consistency',
  summary: 'Proves that one size of the log of an epoch continues another.',
  query: LogConsistencyQuery,
  successes: [ok(LogConsistencyResponse, 'a consistency proof')],
  handle: consistency,
} as const satisfies HostOperation<typeof LogConsistencyQuery>;

export const LOG_PROOF = {
  id: 'logProof',
  method: 'GET',
  path: '/v2/relay/log/proof',
  access: 'hop by key',
  summary: 'Proves to the sender of an item that the record which accepted it is in the log.',
  query: LogProofQuery,
  successes: [ok(LogProofResponse, 'an inclusion proof of the record')],
  problems: ['NOT_FOUND', 'RATE_LIMITED'],
  counted: 'work',
  handle: proof,
} as const satisfies HostOperation<typeof LogProofQuery>;

type OfEpoch = Static<typeof LogEpochQuery>;
type OfSizes = Static<typeof LogConsistencyQuery>;
type OfItem = Static<typeof LogProofQuery>;

function checkpoint({ query }: RelayRequest<OfEpoch>, { engine }: RelayParts): Reply {
  const note = engine.log.checkpoint(query.epoch);
  if (note === undefined) return noEpoch();
  return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: note };
}

function link({ query }: RelayRequest<OfEpoch>, { engine, relayPubkey }: RelayParts): Reply {
  const proven = engine.log.link(query.epoch);
  return proven ? provenReply(proven, relayPubkey) : noEpoch();
}

function consistency({ query }: RelayRequest<OfSizes>, { engine, relayPubkey }: RelayParts): Reply {
  const { from, to } = query;
  const proven = engine.log.growth(from, to, query.epoch);
  if (proven === 'bad sizes')
    return problemReply('BAD_REQUEST', 'from and to are sizes that the log has had, from at least 1 and at most to');
  if (!proven) return noEpoch();
  const { epoch, proof: hashes } = proven;
  return jsonReply(200, { relay_pubkey: relayPubkey, epoch, from, to, proof: hashes.map(encodeBase64) });
}

/** An unknown item, a forgotten one and that of another sender get one answer, to the byte. */
async function proof({ query, caller }: HopRelayRequest<OfItem>, { engine, relayPubkey }: RelayParts): Promise<Reply> {
  const { target } = query;
  const itemId = parseMessageId(query.item_id) ?? parseReceiptId(query.item_id);
  if (!itemId) return problemReply('BAD_REQUEST', 'item_id is that of a pushed item, percent-encoded');
  // The caller may have been answered for an item by a batch that is still on its way into what is read here.
  await engine.durable();
  const { hostPubkey } = caller;
  const proven = await engine.log.item({
    itemId,
    senders: [hostPubkey, ...engine.lineage(hostPubkey)],
    targets: [target, ...engine.lineage(target)],
  });
  if (proven === 'pruned') return problemReply('NOT_FOUND', 'the record of this item was pruned; its hash is kept');
  if (proven === 'unknown') return problemReply('NOT_FOUND', 'no item of yours with this id for this target is known');
  return provenReply(proven, relayPubkey);
}

function provenReply({ epoch, checkpoint: note, index, leaf, proof: hashes }: ProvenLeaf, key: PublicKey): Reply {
  return jsonReply(200, {
    relay_pubkey: key,
    epoch,
    checkpoint: note,
    index,
    record_b64: encodeBase64(leaf),
    proof: hashes.map(encodeBase64),
  });
}

function noEpoch(): Reply {
  return problemReply('NOT_FOUND', 'this relay had no such epoch');
}
