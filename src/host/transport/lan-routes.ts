/**
 * What paired hosts ask for over the LAN, and what they are answered: after the commit, always.
 *
 * Who calls is judged by its hop. A host that is not paired may bring items, which go into quarantine; it learns
 * nothing else. `hello`, `pair` and `rotate` carry their own proof or need none.
 */
import { decodeBase64 } from '../../protocol/base64.ts';
import { REQUEST_JSON_BOUNDS, parseJsonBounded } from '../../protocol/bounded-json.ts';
import {
  LanEncKey,
  LanItem,
  LanItems,
  type LanItemsAnswer,
  LanPairing,
  LAN_BODY_BYTES_MAX,
  LAN_ROUTES,
} from '../../protocol/lan.ts';
import { isObject } from '../../protocol/items.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import { parseHostName } from '../../protocol/names.ts';
import { isPairingMac, pairingMac } from '../../protocol/pairing-code.ts';
import type { ProblemCode } from '../../protocol/problem.ts';
import { type PublicKey, parsePublicKey } from '../../protocol/public-key.ts';
import { RotateRequest, parserOf } from '../../protocol/schemas.ts';
import { isRefusal } from '../core/refusal.ts';
import type { PeerRow } from '../core/rows.ts';
import { ownDirectory } from '../office/own-directory.ts';
import { signedEncKey } from '../office/identity.ts';
import type { IncomingItem } from '../office/incoming.ts';
import type { Office } from '../office/office.ts';
import { encKeyOf, learnEncKey, learnRotation, pinPeer } from '../office/peers.ts';
import { receiveItems } from '../office/receive.ts';
import { callableAddress } from './callable-address.ts';
import type { PairingDesk } from './pairing-desk.ts';

export interface LanRequest {
  method: string;
  /** As sent. */
  target: string;
  body: Buffer;
  /** Of the connection, without a port. */
  callerAddress: string;
  /** Whoever signed the hop; absent on routes without one. */
  caller?: { key: PublicKey; peer: PeerRow | undefined };
}

export type LanReply =
  | { status: 200; document: object }
  | {
      status: 'problem';
      code: ProblemCode;
      detail: string;
      members?: Readonly<Record<string, unknown>>;
      allow?: string;
    };

export interface LanRoute {
  method: 'GET' | 'POST';
  path: string;
  /** `paired`: a hop of a paired host. `signed`: a hop of whoever has a key. `open`: no hop. */
  access: 'open' | 'signed' | 'paired';
  bodyBytesMax: number;
  handle(request: LanRequest): Promise<LanReply>;
}

export interface LanRouteParts {
  office: Office;
  desk: PairingDesk;
  version: string;
  /** What peers are told of where this host listens. */
  listening: () => { port: number; address: string | undefined };
  /** A key was learned that something in quarantine may wait for. Not waited for: the answer is due. */
  keyLearned: () => void;
}

const parsePairing = parserOf(LanPairing);
const parseItems = parserOf(LanItems);
const parseItem = parserOf(LanItem);
const parseRotate = parserOf(RotateRequest);
const parseEncKey = parserOf(LanEncKey);

export function lanRoutes(parts: LanRouteParts): readonly LanRoute[] {
  const { office } = parts;
  return [
    {
      method: 'GET',
      path: LAN_ROUTES.hello,
      access: 'open',
      bodyBytesMax: 0,
      handle: async () => ok(hello(parts)),
    },
    {
      method: 'POST',
      path: LAN_ROUTES.pair,
      access: 'open',
      bodyBytesMax: SMALL_BODY_BYTES_MAX,
      handle: (request) => pair(request, parts),
    },
    {
      method: 'POST',
      path: LAN_ROUTES.items,
      access: 'signed',
      bodyBytesMax: LAN_BODY_BYTES_MAX,
      handle: (request) => takeItems(request, office),
    },
    {
      method: 'GET',
      path: LAN_ROUTES.agents,
      access: 'paired',
      bodyBytesMax: 0,
      handle: async () => ok({ agents: await ownDirectory(office) }),
    },
    {
      method: 'POST',
      path: LAN_ROUTES.rotate,
      access: 'open',
      bodyBytesMax: SMALL_BODY_BYTES_MAX,
      handle: (request) => takeRotation(request, parts),
    },
    {
      method: 'POST',
      path: LAN_ROUTES.encKey,
      access: 'paired',
      bodyBytesMax: SMALL_BODY_BYTES_MAX,
      handle: (request) => takeEncKey(request, office),
    },
  ];
}

function ok(document: object): LanReply {
  return { status: 200, document };
}

function problem(code: ProblemCode, detail: string, members?: Readonly<Record<string, unknown>>): LanReply {
  return { status: 'problem', code, detail, ...(members && { members }) };
}

function bodyOf({ body }: LanRequest): unknown {
  return parseJsonBounded(body, REQUEST_JSON_BOUNDS);
}

function hello({ office, version }: LanRouteParts): object {
  const { hostName, signer } = office.identity();
  return { host: hostName, pubkey: signer.publicKey, version, now: office.nowMs() };
}

/** The acceptor's word: it is pinned before it is answered, so that whoever was answered is pinned here. */
async function pair(request: LanRequest, { office, desk, listening, keyLearned }: LanRouteParts): Promise<LanReply> {
  const said = parsePairing(bodyOf(request));
  const publicKey = parsePublicKey(said?.pubkey);
  const hostName = said && parseHostName(said.host);
  if (!said || !publicKey || hostName === undefined) {
    return problem('BAD_REQUEST', 'send {host, pubkey, enc_key, mac} as the protocol describes them');
  }
  const { hostName: ownName, signer } = office.identity();
  const parties = { inviter_pubkey: signer.publicKey, acceptor_pubkey: publicKey };
  // Before the code: it does not cover this key, and whoever stands between could change it.
  const encKey = encKeyOf(said.enc_key, publicKey);
  if (!encKey) return problem('BAD_SIGNATURE', 'the encryption key is not signed by the host key');
  const redeemed = desk.redeem(said.mac, parties);
  if (typeof redeemed === 'string') return problem('ENROL_REFUSED', redeemed, { reason: redeemed });
  const address = addressOfCaller(said, request.callerAddress);
  const pinned = await office.store.transact((tx) => pinPeer(tx, office, { hostName, publicKey, encKey, address }));
  if (isRefusal(pinned)) return problem('ENROL_REFUSED', pinned.message, { reason: pinned.message });
  office.log('info', 'a host was paired', { host: pinned.hostName });
  keyLearned();
  return ok({
    host: ownName,
    pubkey: signer.publicKey,
    enc_key: encKeyDocument(office),
    mac: pairingMac(redeemed.secret, 'inviter', parties),
    ...spokenAddress(listening()),
  });
}

/** Where a host that says `port` or `address` can be called: it is known by the address that it calls from. */
function addressOfCaller({ port, address }: Pick<LanPairing, 'port' | 'address'>, from: string): string | null {
  if (address !== undefined) return address;
  return port === undefined ? null : callableAddress({ host: from, port });
}

/** How a host says where it listens. */
export function spokenAddress({ port, address }: { port: number; address: string | undefined }): object {
  return address === undefined ? { port } : { port, address };
}

export function encKeyDocument(office: Office): LanEncKey {
  const { hostPubkey, encPub, at, sig } = signedEncKey(office.identity());
  return { host_pubkey: hostPubkey, enc_pub: encPub, at, sig };
}

/** Whether an answer to `pair` proves that the inviter has the code's secret. */
export function isInvitersAnswer(
  answer: LanPairing,
  secret: Buffer,
  parties: { inviter_pubkey: PublicKey; acceptor_pubkey: PublicKey },
): boolean {
  return answer.pubkey === parties.inviter_pubkey && isPairingMac(answer.mac, secret, 'inviter', parties);
}

/** In their order and in one transaction: the answer is given when all of it is durable. */
async function takeItems(request: LanRequest, office: Office): Promise<LanReply> {
  const { caller } = request;
  const said = parseItems(bodyOf(request));
  if (!said || !caller) return problem('BAD_REQUEST', 'send {items: [{kind, item_id, wire_b64}]}, 1 to 200 of them');
  const items = said.items.map((raw) => incomingOf(raw, caller.key));
  const received = await receiveItems(
    office,
    items.filter((item) => item !== undefined),
  );
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

async function takeRotation(request: LanRequest, { office, keyLearned }: LanRouteParts): Promise<LanReply> {
  const said = parseRotate(bodyOf(request));
  const newKey = parsePublicKey(said?.rotation.rec.new_pubkey);
  const oldKey = parsePublicKey(said?.rotation.rec.old_pubkey);
  if (!said || !newKey || !oldKey) return problem('BAD_REQUEST', 'send {rotation: {rec, old_sig, new_sig}}');
  const { rec, old_sig, new_sig } = said.rotation;
  const rotation = { rec: { ...rec, old_pubkey: oldKey, new_pubkey: newKey }, old_sig, new_sig };
  const learned = await office.store.transact((tx) => learnRotation(tx, office, rotation));
  if (learned === 'unknown-host') return problem('NOT_ENROLLED', 'the old key is of no paired host');
  if (learned === 'refused') return problem('ENROL_REFUSED', 'the rotation is not one of a key that is pinned here');
  if (learned === 'learned') keyLearned();
  return ok({ host_pubkey: newKey });
}

async function takeEncKey(request: LanRequest, office: Office): Promise<LanReply> {
  const said = parseEncKey(bodyOf(request));
  const peer = request.caller?.peer;
  if (!said || !peer) return problem('BAD_REQUEST', 'send {host_pubkey, enc_pub, at, sig}');
  const isTaken = await office.store.transact((tx) => learnEncKey(tx, office, peer.peerId, said));
  if (!isTaken) return problem('KEY_MISMATCH', 'the encryption key is not signed by the key that calls');
  return ok({ host_pubkey: said.host_pubkey });
}
