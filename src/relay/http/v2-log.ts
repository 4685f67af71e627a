/**
 * `GET /v2/relay/log/...`: what the relay proves of its log. Checkpoints, links and consistency are public: they
 * show sizes and hashes. That an item is in the log is proven to its sender alone.
 */
import { type HostOperation, type RelayParts, ok } from './operation.ts';
import { CheckpointResponse, LogConsistencyResponse, LogProofResponse } from '../../protocol/responses.ts';
import { LogConsistencyQuery, LogEpochQuery, LogProofQuery } from '../../protocol/parameters.ts';
import { encodeBase64 } from '../../protocol/base64.ts';
import { type ItemId, parseMessageId, parseReceiptId } from '../../protocol/names.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import type { ProvenLeaf } from '../engine/log-proofs.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { type HopRelayRequest, type RelayRequest, isRepeated, onlyParameter, wholeNumber } from './route.ts';

export const LOG_CHECKPOINT = {
  id: 'logCheckpoint',
  method: 'GET',
  path: '/v2/relay/log/checkpoint',
  access: 'open',
  summary:
    'Shows the newest signed checkpoint of the log, or the last one of an earlier epoch. Public, as links and consistency proofs are.',
  query: LogEpochQuery,
  successes: [{ ...ok(CheckpointResponse, 'a signed note'), contentType: 'text/plain' }],
  problems: ['NOT_FOUND', 'RATE_LIMITED'],
  counted: 'log',
  hasSmallBody: true,
  handle: checkpoint,
} as const satisfies HostOperation;

export const LOG_LINK = {
  id: 'logLink',
  method: 'GET',
  path: '/v2/relay/log/link',
  access: 'open',
  summary: 'Proves the first leaf of an epoch: what it commits of the epoch before.',
  query: LogEpochQuery,
  successes: [ok(LogProofResponse, 'an inclusion proof of leaf 0')],
  problems: ['NOT_FOUND', 'RATE_LIMITED'],
  counted: 'log',
  hasSmallBody: true,
  handle: link,
} as const satisfies HostOperation;

export const LOG_CONSISTENCY = {
  id: 'logConsistency',
  method: 'GET',
  path: '/v2/relay/log/consistency',
  access: 'open',
  summary: 'Proves that one size of the log of an epoch continues another.',
  query: LogConsistencyQuery,
  successes: [ok(LogConsistencyResponse, 'a consistency proof')],
  problems: ['NOT_FOUND', 'RATE_LIMITED'],
  counted: 'log',
  hasSmallBody: true,
  handle: consistency,
} as const satisfies HostOperation;

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
} as const satisfies HostOperation;

function checkpoint({ query }: RelayRequest, { engine }: RelayParts): Reply {
  if (isRepeated(query, 'epoch')) return repeatedEpoch();
  const note = engine.log.checkpoint(onlyParameter(query, 'epoch'));
  if (note === undefined) return noEpoch();
  return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: note };
}

function link({ query }: RelayRequest, { engine, relayPubkey }: RelayParts): Reply {
  if (isRepeated(query, 'epoch')) return repeatedEpoch();
  const proven = engine.log.link(onlyParameter(query, 'epoch'));
  return proven ? provenReply(proven, relayPubkey) : noEpoch();
}

function consistency({ query }: RelayRequest, { engine, relayPubkey }: RelayParts): Reply {
  if (isRepeated(query, 'epoch')) return repeatedEpoch();
  const from = wholeNumber(onlyParameter(query, 'from') ?? '');
  const to = wholeNumber(onlyParameter(query, 'to') ?? '');
  if (from === undefined || to === undefined) return badSizes();
  const proven = engine.log.growth(from, to, onlyParameter(query, 'epoch'));
  if (proven === 'bad sizes') return badSizes();
  if (!proven) return noEpoch();
  const { epoch, proof: hashes } = proven;
  return jsonReply(200, { relay_pubkey: relayPubkey, epoch, from, to, proof: hashes.map(encodeBase64) });
}

/** An unknown item, a forgotten one and that of another sender get one answer, to the byte. */
async function proof({ query, caller }: HopRelayRequest, { engine, relayPubkey }: RelayParts): Promise<Reply> {
  const itemId = parseItemId(onlyParameter(query, 'item_id'));
  const target = parsePublicKey(onlyParameter(query, 'target'));
  if (!itemId || !target) return problemReply('BAD_REQUEST', 'item_id and target name a pushed item, percent-encoded');
  // The caller may have been answered for an item by a batch that is still on its way into what is read here.
  await engine.durable();
  const { hostPubkey } = caller;
  const proven = engine.log.item({
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

function parseItemId(text = ''): ItemId | undefined {
  return parseMessageId(text) ?? parseReceiptId(text);
}

function noEpoch(): Reply {
  return problemReply('NOT_FOUND', 'this relay had no such epoch');
}

function repeatedEpoch(): Reply {
  return problemReply('BAD_REQUEST', 'epoch is repeated');
}

function badSizes(): Reply {
  return problemReply('BAD_REQUEST', 'from and to are sizes that the log has had, from at least 1 and at most to');
}
