/**
 * One attempt to get a session of the pinned relay: who answers there, in which epoch and protocol, and that it knows
 * this host (rotations, enrolment, encryption key, allowlist). Each step is verified and recorded; every request is
 * idempotent, so a crash only repeats work. v1 has no allowlist and no rotations: a new key enrols beside the old one,
 * and the answer to the enrolment tells the epoch.
 *
 * Specification, "Enrolment" rule 10, "Sender allowlist", "Versioning" rule 3: v1 is spoken only after a 404 for
 * `GET /v2/relay/info`, and only to a relay that answered nothing else when it was set. A relay that is pinned never
 * falls back.
 */
import { sha256Hex } from '../../protocol/encodings.ts';
import { encKeyAdvertisement, senderList, signDocument } from '../../protocol/documents.ts';
import { ISSUED_AHEAD_MAX_MS, retentionMs, type Limits } from '../../protocol/limits.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { acceptedSenders } from '../core/peer-keys.ts';
import { isDoorShut } from '../core/relay-move.ts';
import type { Identity } from '../core/rows.ts';
import type { RelayEnrolmentRow, RelayProofSource, RelayRow } from '../core/relay-rows.ts';
import { signedEncKey } from '../peers/identity.ts';
import type { HostContext } from '../base/context.ts';
import { encKeyOf, livePeers } from '../peers/peers.ts';
import { relayRowOf } from '../outbox/homes.ts';
import {
  type RelayScope,
  addToEnrolment,
  endEnrolment,
  enrolmentIn,
  noteSendersIat,
  putEnrolment,
  enterEpoch,
  noteSpeaksV2,
} from './relay-rows.ts';
import { RelayClient, type RelayInfo } from './relay-client.ts';
import { RelayV1Client, V1_LIMITS } from './relay-v1-client.ts';
import {
  type Enrolled,
  RelayCallFailed,
  RelayProblem,
  type ShownEncKey,
  isNotEnrolled,
  AnotherRelay,
  type RelayClientOptions,
  askChallenge,
  callerTrusting,
} from './relay-request.ts';
import { freshToken } from './enrolment-token.ts';
import type { Epoch } from '../../protocol/names.ts';

/** A hosted enrolment is renewed so long before it runs out. */
export const RENEW_BEFORE_MS = 120_000;
/** An `iat` ahead of the relay's clock stays this far below what it takes. */
const AHEAD_MARGIN_MS = 30_000;
const ACCOUNT_CHARACTERS_MAX = 200;

interface HostAtRelay {
  context: HostContext;
  identity: Identity;
  proof: RelayProofSource | null;
  stopping: AbortSignal;
}

interface RegisterHost extends HostAtRelay {
  client: RelayClient;
  scope: RelayScope;
  /** The time by the relay's clock. */
  relayNowMs: number;
  /** The number of this host's rotations that were posted for this enrolment: a relay takes few in a minute. */
  progress: { rotations: number };
}

/** Resolves when the relay knows all of it. Throws `RelayCallFailed` and `TokenUnavailable`. */
export function registerHost(parts: RegisterHost): Promise<RelayEnrolmentRow> {
  return forgettingWhenUnknown(parts.context, parts.scope, () => register(parts));
}

/** When the relay does not know a host that is recorded as enrolled, the record goes, and all steps are repeated. */
export async function forgettingWhenUnknown<T>(
  context: HostContext,
  scope: RelayScope,
  ask: () => Promise<T>,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof RelayCallFailed && isNotEnrolled(error)) {
      await context.store.transact((tx) => endEnrolment(tx, scope));
    }
    throw error;
  }
}

async function register(parts: RegisterHost): Promise<RelayEnrolmentRow> {
  const { context, scope } = parts;
  let known = await context.store.read((reader) => enrolmentIn(reader, scope));
  if (!known || isRunningOut(known, context.nowMs())) known = await enrol(parts, known);
  known = await publishEncKey(parts, known, {
    shown: () => parts.client.encKeyOf(scope.hostPubkey),
    otherwise: 'the relay shows another key to seal to than this host published',
  });
  return publishSenders(parts, known);
}

export function isRunningOut({ validUntilMs }: RelayEnrolmentRow, nowMs: number): boolean {
  return validUntilMs !== null && nowMs >= validUntilMs - RENEW_BEFORE_MS;
}

async function enrol(parts: RegisterHost, before: RelayEnrolmentRow | undefined): Promise<RelayEnrolmentRow> {
  const { context, client, scope, identity } = parts;
  if (!before) await postRotations(parts);
  const fresh = parts.proof && (await freshToken(parts.proof, identity.signer, parts.stopping));
  let answer: Enrolled | undefined;
  let refused: RelayProblem | undefined;
  try {
    answer = await client.enrol('', fresh?.proof);
  } catch (error) {
    // What a rotation brought over, or an earlier token, may be good for a while yet.
    if (!(error instanceof RelayProblem) || error.status === 429) throw error;
    refused = error;
  }
  const { you } = await client.ownInfo();
  if (you?.pubkey !== scope.hostPubkey) {
    throw refused ?? new RelayCallFailed('the relay took the enrolment and does not know this host', 200);
  }
  if (refused) context.log('warn', 'the relay did not renew the enrolment', { code: refused.code });
  const validUntilMs = refused ? (before?.validUntilMs ?? null) : (fresh?.validUntilMs ?? null);
  const row = enrolled(before, answer, validUntilMs, context.nowMs());
  await context.store.transact((tx) => putEnrolment(tx, scope, row));
  // Should the relay forget the host in this epoch, all of them are posted again.
  parts.progress.rotations = 0;
  return row;
}

/** The row after an enrolment, with what was published before; `answer` is missing when it was refused. */
export function enrolled(
  before: RelayEnrolmentRow | undefined,
  answer: Pick<Enrolled, 'authorized_by' | 'account' | 'crowded'> | undefined,
  validUntilMs: number | null,
  nowMs: number,
): RelayEnrolmentRow {
  return {
    checkedAtMs: nowMs,
    authorizedBy: answer ? answer.authorized_by : (before?.authorizedBy ?? null),
    account: answer ? accountOf(answer) : (before?.account ?? null),
    isCrowded: answer ? answer.crowded : (before?.isCrowded ?? false),
    validUntilMs,
    encKey: before?.encKey ?? null,
    senders: before?.senders ?? null,
  };
}

/** Any text, as far as the relay's word goes. */
function accountOf({ account }: Pick<Enrolled, 'account'>): string | null {
  return account === null ? null : printableWithin(account, ACCOUNT_CHARACTERS_MAX);
}

/** Oldest first. One that the relay has no use for (it never knew the old key) stops none of the others. */
async function postRotations({ context, client, progress }: RegisterHost): Promise<void> {
  const identity = await context.store.read((reader) => reader.get('identity'));
  for (const rotation of (identity?.rotations ?? []).slice(progress.rotations)) {
    try {
      await client.rotate(rotation);
    } catch (error) {
      const isOfNoUse = error instanceof RelayProblem && (error.status === 401 || error.status === 403);
      if (!isOfNoUse) throw error;
    }
    progress.rotations++;
  }
}

interface EncKeyShown {
  /** Asks what the relay shows for this host. */
  shown: () => Promise<ShownEncKey | null>;
  /** The fault when that is another key. */
  otherwise: string;
}

/** Publishes the key to seal to and reads it back, unless the relay is known to have it. */
async function publishEncKey(
  parts: HostAtRelay & { client: Pick<RelayClient, 'publishEncKey'>; scope: RelayScope },
  known: RelayEnrolmentRow,
  { shown: read, otherwise }: EncKeyShown,
): Promise<RelayEnrolmentRow> {
  const { context, identity, client } = parts;
  if (known.encKey?.encPub === identity.sealKey.encPub) return known;
  const { publicKey: hostPubkey } = identity.signer;
  const { encPub, at, sig } = signedEncKey(identity);
  try {
    await client.publishEncKey({ enc_pub: encPub, at, sig });
  } catch (error) {
    if (!(error instanceof RelayProblem) || (error.code !== 'STALE_LIST' && error.code !== 'IAT_IN_FUTURE'))
      throw error;
    // Either the relay has one of a later time, as this host was set back to a copy from before it; or this host's
    // clock was ahead when the key was made.
    const other = error.code === 'STALE_LIST' ? ((await read())?.at ?? at) + 1 : context.nowMs();
    const document = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at: other });
    await client.publishEncKey({ enc_pub: encPub, at: other, sig: signDocument(identity.signer, document) });
  }
  const shown = await read();
  if (shown?.enc_pub !== encPub || !encKeyOf(shown, hostPubkey)) throw new RelayCallFailed(otherwise, 200);
  return added(parts, { ...known, encKey: { encPub, at: shown.at, checkedAtMs: context.nowMs() } });
}

async function publishSenders(parts: RegisterHost, known: RelayEnrolmentRow): Promise<RelayEnrolmentRow> {
  const { context, client, identity, scope, relayNowMs } = parts;
  const { senders, lastIatMs } = await context.store.read(async (reader) => ({
    // A relay that is being left refuses everybody (core/relay-move.ts).
    senders: isDoorShut(reader.get('relayMove'), scope.relayPubkey) ? [] : acceptedSenders(await livePeers(reader)),
    lastIatMs: relayRowOf(reader, scope.relayPubkey)?.sendersIatMs ?? 0,
  }));
  const hash = sha256Hex(senders.join('\n'));
  if (known.senders?.hash === hash) return known;
  const latest = relayNowMs + ISSUED_AHEAD_MAX_MS - AHEAD_MARGIN_MS;
  // One of a clock that was ahead, which the relay cannot have taken, holds up none of now.
  const afterLast = lastIatMs < latest ? lastIatMs + 1 : 0;
  const soonest = Math.max(context.nowMs(), afterLast);
  // A list that another copy of this host published may be newer, and a clock may be off: a later one is tried then.
  const tries = [soonest, ...[Math.max(relayNowMs, afterLast), latest].filter((iat) => iat > soonest)];
  for (const [at, iat] of tries.entries()) {
    await context.store.transact((tx) => noteSendersIat(tx, scope.relayPubkey, iat));
    const list = senderList({ host_pubkey: scope.hostPubkey, senders, iat });
    try {
      const answer = await client.publishSenders(list, signDocument(identity.signer, list));
      if (answer.senders !== senders.length || answer.iat !== iat) {
        throw new RelayCallFailed('the relay took another list of senders than this host published', 200);
      }
      return await added(parts, {
        ...known,
        senders: { hash, count: senders.length, iat, checkedAtMs: context.nowMs() },
      });
    } catch (error) {
      const isStale = error instanceof RelayProblem && error.code === 'STALE_LIST';
      if (!isStale || at === tries.length - 1) throw error;
    }
  }
  throw new Error('invariant: a list of senders is tried once at least');
}

async function added(
  { context, scope }: Pick<RegisterHost, 'context' | 'scope'>,
  row: RelayEnrolmentRow,
): Promise<RelayEnrolmentRow> {
  await context.store.transact((tx) => addToEnrolment(tx, scope, row));
  return row;
}

/** A relay as pulling and pushing use it: of one key of this host, one epoch and one protocol. */
interface Session {
  scope: RelayScope;
  limits: Limits;
  retentionMs: number;
  /** Requests of a session that ended are aborted. */
  ending: AbortController;
}

export type V2Session = Session & { protocol: 2; client: RelayClient };
export type V1Session = Session & { protocol: 1; client: RelayV1Client };
/** Replaced when its scope or protocol is another. */
export type RelaySession = V2Session | V1Session;

/** A relay that promises more is not believed. */
const RETENTION_MAX_MS = 366 * 86_400_000;

export interface Connecting {
  context: HostContext;
  identity: Identity;
  row: RelayRow;
  /** The number of rotations that were posted, by the scope that they were posted in. */
  progress: { scope: string; rotations: number };
  /** Takes the time by which this host's clock is ahead of the relay's; null when the relay does not tell its time. */
  noteSkew: (ms: number | null) => void;
  asking?: RelayClientOptions['asking'];
  stopping: AbortSignal;
}

export interface Connected {
  session: RelaySession;
  known: RelayEnrolmentRow;
}

/** Throws `AnotherRelay` when another key is shown, `RelayCallFailed` and `TokenUnavailable`. */
export async function connect(connecting: Connecting): Promise<Connected> {
  const { context, identity, row, stopping } = connecting;
  const ending = new AbortController();
  const options: RelayClientOptions = {
    url: row.url,
    signer: identity.signer,
    hostName: identity.hostName,
    nowMs: context.nowMs,
    stopping: AbortSignal.any([stopping, ending.signal]),
    caller: callerTrusting(row.ca),
    asking: connecting.asking,
  };
  const client = new RelayClient(options, row.pubkey);
  const info = await infoUnlessV1(client, row.isV1 === true);
  if (!info) return connectInV1(connecting, new RelayV1Client(options, row.pubkey), ending);
  if (info.relay_pubkey !== row.pubkey) throw new AnotherRelay(info.relay_pubkey);
  connecting.noteSkew(context.nowMs() - info.now);
  if (row.isV1) {
    await context.store.transact((tx) => noteSpeaksV2(tx, row.pubkey));
    context.log('info', 'the relay speaks v2 now: its key is pinned');
  }
  const scope = { relayPubkey: row.pubkey, epoch: info.epoch as Epoch, hostPubkey: identity.signer.publicKey };
  await enter(connecting, scope);
  const relayNowMs = info.now;
  const { proof } = row;
  const known = await registerHost({ ...connecting, client, scope, proof, relayNowMs });
  const { limits } = info;
  const keptMs = Math.min(RETENTION_MAX_MS, retentionMs(limits));
  const session = { protocol: 2, client, scope, limits, retentionMs: keptMs, ending } as const;
  return { session, known };
}

/**
 * The relay at an address that nobody has set yet, asked by v2, or by v1 where there is no v2. Throws
 * `RelayCallFailed`.
 */
export async function shownRelay(options: RelayClientOptions): Promise<{ pubkey: PublicKey; isV1: boolean }> {
  const info = await infoUnlessV1(new RelayClient(options), true);
  if (info) return { pubkey: info.relay_pubkey, isV1: false };
  return { pubkey: (await askChallenge(options)).relayPubkey, isV1: true };
}

async function infoUnlessV1(client: RelayClient, mayBeV1: boolean): Promise<RelayInfo | undefined> {
  try {
    return await client.info();
  } catch (error) {
    if (mayBeV1 && error instanceof RelayProblem && error.status === 404) return undefined;
    throw error;
  }
}

/** Throws `RelayCallFailed` and `TokenUnavailable`. */
async function connectInV1(connecting: Connecting, client: RelayV1Client, ending: AbortController): Promise<Connected> {
  connecting.noteSkew(null);
  const { context, identity, row } = connecting;
  const { scope, known: enrolment } = await enrolInV1(connecting, client);
  const parts = { ...connecting, client, scope, proof: row.proof };
  const shown = {
    shown: () => client.encKeyOf(identity.hostName),
    otherwise: 'the relay shows another key for the name of this host: others may have this name there',
  };
  const known = await forgettingWhenUnknown(context, scope, () => publishEncKey(parts, enrolment, shown));
  const limits = V1_LIMITS;
  const session = { protocol: 1, client, scope, limits, retentionMs: retentionMs(limits), ending } as const;
  return { session, known };
}

async function enrolInV1(
  connecting: Connecting,
  client: RelayV1Client,
): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { context, identity, row, stopping } = connecting;
  const { publicKey: hostPubkey } = identity.signer;
  const scopeIn = (epoch: Epoch): RelayScope => ({ relayPubkey: row.pubkey, epoch, hostPubkey });
  const last = row.epoch === null ? undefined : scopeIn(row.epoch);
  const before = last && (await context.store.read((reader) => enrolmentIn(reader, last)));
  if (before && !isRunningOut(before, context.nowMs())) return { scope: last, known: before };
  const fresh = row.proof && (await freshToken(row.proof, identity.signer, stopping));
  let answer: Enrolled;
  try {
    answer = await client.enrol('', fresh?.proof);
  } catch (error) {
    // An earlier token may be good for a while yet.
    if (!(error instanceof RelayProblem) || error.status === 429 || !before) throw error;
    context.log('warn', 'the relay did not renew the enrolment', { code: error.code });
    return { scope: last, known: before };
  }
  const scope = scopeIn(answer.epoch as Epoch);
  await enter(connecting, scope);
  const isSame = scope.epoch === last?.epoch;
  const known = enrolled(isSame ? before : undefined, answer, fresh?.validUntilMs ?? null, context.nowMs());
  await context.store.transact((tx) => putEnrolment(tx, scope, known));
  return { scope, known };
}

async function enter({ context, row, progress }: Connecting, scope: RelayScope): Promise<void> {
  const isAnother = await context.store.transact((tx) => enterEpoch(tx, context, scope));
  if (isAnother && row.epoch !== null) context.log('warn', 'the relay began a new epoch', { epoch: scope.epoch });
  const name = Object.values(scope).join(' ');
  if (isAnother || progress.scope !== name) Object.assign(progress, { scope: name, rotations: 0 });
}
