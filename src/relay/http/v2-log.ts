/**
 * `/v2/relay/log/...`: what the relay proves of its log. Checkpoints, links and consistency are public: they show sizes
 * and hashes. That an item is in the log is proven to its sender alone. Hosts show the relay what it signed: one whose
 * store was put back to a copy learns it so.
 */
import type { Static } from 'typebox';
import {
  type HopRelayRequest,
  type HostOperation,
  type RelayParts,
  type RelayRequest,
  bodyParserOf,
  ok,
} from './operation.ts';
import {
  CheckpointResponse,
  CheckpointShownResponse,
  LogConsistencyResponse,
  LogProofResponse,
} from '../../protocol/responses.ts';
import { ShowCheckpointRequest } from '../../protocol/schemas.ts';
import { LogCheckpointQuery, LogConsistencyQuery, LogEpochQuery, LogProofQuery } from '../../protocol/parameters.ts';
import { encodeBase64 } from '../../protocol/encodings.ts';
import { leafDocument } from '../../protocol/log-leaf.ts';
import { parseMessageId, parseReceiptId } from '../../protocol/names.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import type { ProvenLeaf } from '../engine/log-proofs.ts';
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';

const PUBLIC = {
  method: 'GET',
  access: 'optional hop',
  problems: ['NOT_FOUND', 'RATE_LIMITED'],
  counted: 'log',
  hasSmallBody: true,
  isNeverStored: true,
} as const;

export const LOG_CHECKPOINT = {
  id: 'logCheckpoint',
  ...PUBLIC,
  path: '/v2/relay/log/checkpoint',
  summary:
    'Shows the newest signed checkpoint of the log, the last one of an earlier epoch, or that of an earlier size. ' +
    'Public, as links and consistency proofs are.',
  query: LogCheckpointQuery,
  successes: [{ ...ok(CheckpointResponse, 'a signed note'), contentType: 'text/plain' }],
  handle: checkpoint,
} as const satisfies HostOperation<typeof LogCheckpointQuery>;

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
  problems: ['NOT_FOUND', 'RECORD_PRUNED', 'RATE_LIMITED'],
  // Not with the reads of hashes: this one reads a record from the disk, and a trace asks for one for each recipient.
  counted: 'work',
  isNeverStored: true,
  handle: proof,
} as const satisfies HostOperation<typeof LogProofQuery>;

export const SHOW_CHECKPOINT = {
  id: 'showCheckpoint',
  method: 'POST',
  path: '/v2/relay/log/checkpoint',
  access: 'hop by key',
  summary: 'Shows the relay a checkpoint that it signed: a relay whose log contradicts it begins a new epoch.',
  request: { schema: ShowCheckpointRequest },
  successes: [ok(CheckpointShownResponse, 'nothing is to be done')],
  problems: ['EPOCH_CHANGED', 'RATE_LIMITED'],
  counted: 'log',
  hasSmallBody: true,
  isNeverStored: true,
  handle: showCheckpoint,
} as const satisfies HostOperation;

function checkpoint({ query }: RelayRequest<Static<typeof LogCheckpointQuery>>, { engine }: RelayParts): Reply {
  const { epoch, size, after, cosigned } = query;
  if (cosigned !== undefined && (epoch ?? size ?? after) !== undefined)
    return problemReply('BAD_REQUEST', 'the cosigned checkpoint is the newest one: ask for it alone');
  if (cosigned !== undefined) {
    const { cosigned: note } = engine.log;
    return note === undefined ? problemReply('NOT_FOUND', 'no witness cosigned this epoch') : noteReply(note);
  }
  // It would be signed as the newest after what the asker knows, and it is not.
  if (after !== undefined && (size !== undefined || epoch !== undefined))
    return problemReply('BAD_REQUEST', 'after is signed with the newest checkpoint: ask for it without size and epoch');
  if (after !== undefined) return noteReply(engine.log.checkpointAfter(Buffer.from(after, 'base64url')));
  const newest = engine.log.checkpoint(epoch);
  if (newest === undefined) return noEpoch();
  const note = size === undefined ? newest : engine.log.checkpointAt(size, epoch);
  return note === undefined ? badSize() : noteReply(note);
}

function link({ query }: RelayRequest<Static<typeof LogEpochQuery>>, { engine, relayPubkey }: RelayParts): Reply {
  const proven = engine.log.link(query.epoch);
  return proven ? provenReply(proven, relayPubkey) : noEpoch();
}

function consistency(
  { query }: RelayRequest<Static<typeof LogConsistencyQuery>>,
  { engine, relayPubkey }: RelayParts,
): Reply {
  const { from, to } = query;
  const proven = engine.log.growth(from, to, query.epoch);
  if (proven === 'bad sizes')
    return problemReply('BAD_REQUEST', 'from and to are sizes that the log has had, from at least 1 and at most to');
  if (!proven) return noEpoch();
  const { epoch, proof: hashes } = proven;
  return jsonReply(200, { relay_pubkey: relayPubkey, epoch, from, to, proof: hashes.map(encodeBase64) });
}

/** An unknown item, a forgotten one and that of another sender get one answer, to the byte. */
async function proof(
  { query, caller }: HopRelayRequest<Static<typeof LogProofQuery>>,
  { engine, relayPubkey }: RelayParts,
): Promise<Reply> {
  const { target, size } = query;
  const itemId = parseMessageId(query.item_id) ?? parseReceiptId(query.item_id);
  if (!itemId) return problemReply('BAD_REQUEST', 'item_id is that of a pushed item, percent-encoded');
  // The caller may have been answered for an item by a batch that is still on its way into what is read here.
  await engine.durable();
  const { hostPubkey } = caller;
  const proven = await engine.log.item({
    itemId,
    senders: [hostPubkey, ...engine.lineage(hostPubkey)],
    targets: [target, ...engine.lineage(target)],
    size,
  });
  if (proven === 'bad size') return badSize();
  if (proven === 'pruned') return problemReply('RECORD_PRUNED', 'the record of this item was pruned; its hash is kept');
  if (proven === 'unknown') return problemReply('NOT_FOUND', 'no item of yours with this id for this target is known');
  return provenReply(proven, relayPubkey);
}

const parseShown = bodyParserOf(ShowCheckpointRequest);

async function showCheckpoint({ body }: HopRelayRequest, { engine, endEpoch }: RelayParts): Promise<Reply> {
  const shown = parseShown(body);
  const verdict = shown && engine.log.judge(shown);
  if (!verdict || verdict === 'malformed')
    return problemReply('BAD_REQUEST', 'send {note, knew, older}, the notes as this relay signed them');
  if (verdict.contradicted === undefined) return jsonReply(200, { known: verdict.known });
  const epoch = await endEpoch(verdict.contradicted);
  if (epoch === verdict.contradicted) return problemReply('UNAVAILABLE', 'no new epoch could be begun now');
  return problemReply('EPOCH_CHANGED', 'the log contradicts this checkpoint: a new epoch began', {
    members: { epoch },
  });
}

function provenReply(proven: ProvenLeaf, key: PublicKey): Reply {
  return jsonReply(200, leafDocument(key, proven));
}

function noteReply(note: string): Reply {
  return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: note };
}

function badSize(): Reply {
  return problemReply('BAD_REQUEST', 'size is one that the log of this epoch has had, from at least 1');
}

function noEpoch(): Reply {
  return problemReply('NOT_FOUND', 'this relay had no such epoch');
}
