/**
 * The requests of paired hosts over the LAN, and their answers: after the commit, always.
 *
 * Who calls is judged by its hop. A host that is not paired may bring items, which go into quarantine; it learns
 * nothing else. `hello`, `pair` and `rotate` carry their own proof or need none.
 */
import type { Reply } from '../../http/exchange.ts';
import { queryParserOf } from '../../http/query.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import { decodeBase64 } from '../../protocol/encodings.ts';
import { REQUEST_JSON_BOUNDS, isObject, parseJsonBounded } from '../../protocol/json.ts';
import { lanHelloWord, signDocument } from '../../protocol/documents.ts';
import {
  LanAgents,
  LanEncKey,
  LanHelloQuery,
  LanItem,
  LanItems,
  type LanItemsAnswer,
  LanPairing,
  LAN_BODY_BYTES_MAX,
  LAN_ROUTES,
} from '../../protocol/lan.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { parseHostName } from '../../protocol/names.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { RotateRequest, parserOf } from '../../protocol/schemas.ts';
import { parseSeen } from '../../protocol/seen.ts';
import type { PeerRow } from '../core/rows.ts';
import { type IncomingItem, isGivenUp } from '../inbound/verify.ts';
import type { HostContext } from '../base/context.ts';
import { encKeyOf, learnDirectory, learnEncKey, learnRotation } from '../peers/peers.ts';
import { receiveItems } from '../inbound/receive.ts';
import { takeHome } from '../outbox/homes.ts';
import { takeSeen } from '../outbox/seen.ts';
import type { ListenAddress } from '../../lib/listen-address.ts';
import { isDialledAt } from './peer-address.ts';
import { agentsFor, type LookAtRelay } from './peer-sync.ts';
import {
  inviterMessage,
  type ListeningAt,
  NOT_CONFIRMED,
  type PairingInvite,
  pairingWords,
} from '../peers/pairing-invite.ts';

export interface LanRequest {
  method: string;
  /** The target as it was sent. */
  target: string;
  body: Buffer;
  /** The address of the connection, without a port. */
  callerAddress: string;
  /** This host's end of the connection. */
  calledAt: ListenAddress;
  /** The host that signed the hop; absent on routes without one. */
  caller?: { key: PublicKey; peer: PeerRow | undefined };
}

export interface LanRoute {
  method: 'GET' | 'POST';
  path: string;
  /** `paired`: a hop of a paired host. `signed`: of any host. `proof`: none, the body proves itself. `open`: none. */
  access: 'open' | 'proof' | 'signed' | 'paired';
  bodyBytesMax: number;
  handle(request: LanRequest): Promise<Reply>;
}

interface LanRouteParts {
  context: HostContext;
  invite: PairingInvite;
  version: string;
  /** The address at which peers learn that this host listens. */
  listening: () => ListeningAt;
  /**
   * `host:port` of a host that calls from `from` and says that it listens at `port`, when it proves that; else null. No
   * MAC covers where a call comes from.
   */
  addressOfCaller: (caller: { publicKey: PublicKey; port: number | undefined; from: string }) => Promise<string | null>;
  look: LookAtRelay;
  /** A key was learned that something in quarantine may wait for. Not waited for: the answer is due. */
  keyLearned: () => void;
}

const parsePairing = parserOf(LanPairing);
const parseItems = parserOf(LanItems);
const parseItem = parserOf(LanItem);
const parseRotate = parserOf(RotateRequest);
const parseEncKey = parserOf(LanEncKey);
const parseAgents = parserOf(LanAgents);
const parseHelloQuery = queryParserOf(LanHelloQuery);

/** Nothing that a host brings by its former key is even kept: the host itself tries again under the key that it has. */
const RETIRED_HOP_KEY = 'the host gave up the key of this hop for another';

/** The bytes that an answer of `GET /v1/lan/agents` may have. */
const AGENTS_BODY_BYTES_MAX = 2 << 20;

export function lanRoutes(parts: LanRouteParts): readonly LanRoute[] {
  const route = (
    method: LanRoute['method'],
    path: string,
    access: LanRoute['access'],
    bodyBytesMax: number,
    answer: (request: LanRequest, parts: LanRouteParts) => Promise<Reply>,
  ): LanRoute => ({ method, path, access, bodyBytesMax, handle: (request) => answer(request, parts) });
  return [
    route('GET', LAN_ROUTES.hello, 'open', 0, hello),
    route('POST', LAN_ROUTES.pair, 'proof', SMALL_BODY_BYTES_MAX, pair),
    route('POST', LAN_ROUTES.items, 'signed', LAN_BODY_BYTES_MAX, takeItems),
    route('GET', LAN_ROUTES.agents, 'paired', 0, giveAgents),
    route('POST', LAN_ROUTES.agents, 'paired', AGENTS_BODY_BYTES_MAX, takeAgents),
    route('POST', LAN_ROUTES.rotate, 'proof', SMALL_BODY_BYTES_MAX, takeRotation),
    route('POST', LAN_ROUTES.encKey, 'paired', SMALL_BODY_BYTES_MAX, takeEncKey),
  ];
}

function ok(document: object): Reply {
  return jsonReply(200, document);
}

function bodyOf({ body }: LanRequest): unknown {
  return parseJsonBounded(body, REQUEST_JSON_BOUNDS);
}

/** Signs an address of this host's own where the caller asks: a host that passes the request on is found out. */
async function hello({ target, calledAt }: LanRequest, { context, version, listening }: LanRouteParts): Promise<Reply> {
  const { hostName, signer } = context.identity();
  const now = context.nowMs();
  const said = { host: hostName, pubkey: signer.publicKey, version, now };
  const asked = parseHelloQuery(target.split('?', 2)[1]);
  if (typeof asked === 'string') return problemReply('BAD_REQUEST', asked);
  const { nonce, address } = asked;
  if (nonce === undefined && address === undefined) return ok(said);
  if (nonce === undefined || address === undefined || !isBase64url(nonce))
    return problemReply('BAD_REQUEST', 'ask with nonce, 16 to 32 bytes in base64url, and address, host:port');
  if (!isDialledAt(address, calledAt, listening().address)) return ok(said);
  const word = lanHelloWord({ nonce, pubkey: signer.publicKey, address, now });
  return ok({ ...said, sig: signDocument(signer, word) });
}

function isBase64url(text: string): boolean {
  return Buffer.from(text, 'base64url').toString('base64url') === text;
}

/** The acceptor's message. The acceptor is pinned before it is answered, so every host that has an answer is pinned. */
async function pair(request: LanRequest, parts: LanRouteParts): Promise<Reply> {
  const { context, invite, listening, addressOfCaller } = parts;
  const said = parsePairing(bodyOf(request));
  const publicKey = parsePublicKey(said?.pubkey);
  const hostName = said && parseHostName(said.host);
  if (!said || !publicKey || hostName === undefined) {
    return problemReply('BAD_REQUEST', 'send {host, pubkey, enc_key, mac} as the protocol describes them');
  }
  const parties = { inviter_pubkey: context.identity().signer.publicKey, acceptor_pubkey: publicKey };
  const invitation = invite.proven(said, parties);
  if (typeof invitation === 'string') return notPaired(invitation);
  const encKey = encKeyOf(said.enc_key, publicKey);
  if (!encKey) return problemReply('BAD_SIGNATURE', 'the encryption key is not signed by the host key');
  const { port, home } = said;
  const address = said.address ?? (await addressOfCaller({ publicKey, port, from: request.callerAddress }));
  const fault = await invite.admit(invitation, { hostName, publicKey, encKey, address, port, home });
  if (fault !== undefined) return notPaired(fault);
  const words = await pairingWords(context, listening(), publicKey);
  return ok(inviterMessage(context, invitation.secret, parties, words, said.mac));
}

function notPaired(reason: string): Reply {
  return problemReply(reason === NOT_CONFIRMED ? 'UNAVAILABLE' : 'ENROL_REFUSED', reason, { members: { reason } });
}

/**
 * Takes items in their order; the answer is given when all of them are durable. A rotation of the caller may be learned
 * while the body arrives, after the hop was verified: from then on nothing is received under its former key.
 */
async function takeItems(request: LanRequest, { context }: LanRouteParts): Promise<Reply> {
  const { caller } = request;
  const said = parseItems(bodyOf(request));
  if (!said || !caller)
    return problemReply('BAD_REQUEST', 'send {items: [{kind, item_id, wire_b64}]}, 1 to 200 of them');
  const items = said.items.map((raw) => incomingOf(raw, caller.key));
  const whole = items.filter((item) => item !== undefined);
  const received = await receiveItems(context, whole, { goesOn: (tx) => !isGivenUp(tx, caller.key) });
  if (received.length < whole.length) return problemReply('NOT_ENROLLED', RETIRED_HOP_KEY);
  const results: LanItemsAnswer['results'] = items.map((item, at) => {
    const outcome = item && received.shift();
    if (!outcome) return { item_id: idOf(said.items[at]), status: 'rejected:malformed' };
    const status = outcome.status === 'rejected' ? `rejected:${outcome.code}` : outcome.status;
    return { item_id: item.itemId, status };
  });
  return ok({ results });
}

function incomingOf(raw: unknown, senderPubkey: PublicKey): IncomingItem | undefined {
  const item = parseItem(raw);
  const wire = item && decodeBase64(item.wire_b64);
  return wire && { via: 'lan', relay: null, kind: item.kind, itemId: item.item_id, wire, senderPubkey };
}

function idOf(raw: unknown): string | null {
  return isObject(raw) && typeof raw['item_id'] === 'string' ? raw['item_id'].slice(0, 320) : null;
}

async function takeRotation(request: LanRequest, { context, keyLearned }: LanRouteParts): Promise<Reply> {
  const said = parseRotate(bodyOf(request));
  const newKey = parsePublicKey(said?.rotation.rec.new_pubkey);
  const oldKey = parsePublicKey(said?.rotation.rec.old_pubkey);
  if (!said || !newKey || !oldKey) return problemReply('BAD_REQUEST', 'send {rotation: {rec, old_sig, new_sig}}');
  const { rec, old_sig, new_sig } = said.rotation;
  const rotation = { rec: { ...rec, old_pubkey: oldKey, new_pubkey: newKey }, old_sig, new_sig };
  const learned = await context.store.transact((tx) => learnRotation(tx, context, rotation));
  if (learned === 'unknown-host') return problemReply('NOT_ENROLLED', 'the old key is of no paired host');
  if (learned === 'refused')
    return problemReply('ENROL_REFUSED', 'the rotation is not one of a key that is pinned here');
  if (learned === 'learned') keyLearned();
  return ok({ host_pubkey: newKey });
}

async function giveAgents({ caller }: LanRequest, { context, look }: LanRouteParts): Promise<Reply> {
  const peer = caller?.peer;
  return peer ? ok(await agentsFor(context, peer, look)) : problemReply('NOT_ENROLLED', 'the host is not paired');
}

async function takeAgents(request: LanRequest, { context }: LanRouteParts): Promise<Reply> {
  const said = parseAgents(bodyOf(request));
  const peer = request.caller?.peer;
  if (!said || !peer) return problemReply('BAD_REQUEST', 'send {agents: [{name, roles}]}');
  const directory = { agents: said.agents, fetchedAtMs: context.nowMs() };
  await context.store.transact(async (tx) => {
    learnDirectory(tx, peer.peerId, directory, context.nowMs());
    await takeSeen(tx, context, peer.peerId, { entries: parseSeen(said.seen), heard: [] });
    await takeHome(tx, context, peer.peerId, { home: said.home, via: 'lan', by: { type: 'lan' } });
  });
  return ok({ host_pubkey: context.identity().signer.publicKey });
}

async function takeEncKey(request: LanRequest, { context }: LanRouteParts): Promise<Reply> {
  const said = parseEncKey(bodyOf(request));
  const peer = request.caller?.peer;
  if (!said || !peer) return problemReply('BAD_REQUEST', 'send {host_pubkey, enc_pub, at, sig}');
  const isTaken = await context.store.transact((tx) => learnEncKey(tx, context, peer.peerId, said));
  if (!isTaken) return problemReply('KEY_MISMATCH', 'the encryption key is not signed by the key that calls');
  return ok({ host_pubkey: said.host_pubkey });
}
