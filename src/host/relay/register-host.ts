/**
 * Registers this host at the relay: rotations, enrolment, encryption key, allowlist. Each step is verified and
 * recorded; a crash only repeats work. v1 has no allowlist and no rotations: a new key enrols beside the old one, and
 * the answer tells the epoch.
 *
 * Specification, "Enrolment" rule 10, "Sender allowlist"; every request is idempotent.
 */
import { sha256Hex } from '../../protocol/digest.ts';
import { encKeyAdvertisement, isDocumentSigned, senderList, signDocument } from '../../protocol/documents.ts';
import { ISSUED_AHEAD_MAX_MS } from '../../protocol/limits.ts';
import { printableWithin } from '../../protocol/printable.ts';
import type { PublicKey } from '../../protocol/public-key.ts';
import { acceptedSenders } from '../core/peer-keys.ts';
import type { Identity, RelayEnrolmentRow, RelayProofSource } from '../core/rows.ts';
import { signedEncKey } from '../peers/identity.ts';
import type { HostContext } from '../base/context.ts';
import { livePeers } from '../peers/peers.ts';
import {
  type RelayScope,
  addToEnrolment,
  dropEnrolment,
  enrolmentIn,
  noteSendersIat,
  putEnrolment,
} from './relay-rows.ts';
import type { RelayClient } from './relay-client.ts';
import { type Enrolled, RelayCallFailed, RelayProblem, type ShownEncKey, isNotEnrolled } from './relay-request.ts';
import { freshToken } from './enrolment-token.ts';
import type { Epoch } from '../../protocol/epoch.ts';
import type { RelayV1Client } from './relay-v1-client.ts';

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
  /** By the relay's clock. */
  relayNowMs: number;
  /** How many of this host's rotations were posted for this enrolment: a relay takes few in a minute. */
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
      await context.store.transact((tx) => dropEnrolment(tx, scope));
    }
    throw error;
  }
}

async function register(parts: RegisterHost): Promise<RelayEnrolmentRow> {
  const { context, scope, identity } = parts;
  let known = await context.store.read((reader) => enrolmentIn(reader, scope));
  if (!known || isRunningOut(known, context.nowMs())) known = await enrol(parts, known);
  if (known.encKey?.encPub !== identity.sealKey.encPub) {
    const encKey = await publishEncKey(parts, {
      publish: (advertisement) => parts.client.publishEncKey(advertisement),
      shown: () => parts.client.encKeyOf(scope.hostPubkey),
      otherwise: 'the relay shows another key to seal to than this host published',
    });
    known = await added(parts, { ...known, encKey });
  }
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

/** What is known after an enrolment, with what was published before; `answer` is missing when it was refused. */
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

interface EncKeyRoutes {
  publish: (advertisement: { enc_pub: string; at: number; sig: string }) => Promise<unknown>;
  /** What the relay shows for this host. */
  shown: () => Promise<ShownEncKey | null>;
  /** What it means when that is another. */
  otherwise: string;
}

/** Publishes the key to seal to and reads it back. */
async function publishEncKey(
  { context, identity }: HostAtRelay,
  { publish, shown: read, otherwise }: EncKeyRoutes,
): Promise<NonNullable<RelayEnrolmentRow['encKey']>> {
  const { publicKey: hostPubkey } = identity.signer;
  const { encPub, at, sig } = signedEncKey(identity);
  try {
    await publish({ enc_pub: encPub, at, sig });
  } catch (error) {
    if (!(error instanceof RelayProblem) || (error.code !== 'STALE_LIST' && error.code !== 'IAT_IN_FUTURE'))
      throw error;
    // Either the relay has one of a later time, as this host was set back to a copy from before it; or this host's
    // clock was ahead when the key was made.
    const other = error.code === 'STALE_LIST' ? ((await read())?.at ?? at) + 1 : context.nowMs();
    const document = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at: other });
    await publish({ enc_pub: encPub, at: other, sig: signDocument(identity.signer, document) });
  }
  const shown = await read();
  if (shown?.enc_pub !== encPub || !isSignedEncKey(shown, hostPubkey)) throw new RelayCallFailed(otherwise, 200);
  return { encPub, at: shown.at, checkedAtMs: context.nowMs() };
}

/** Whether the host of this key, and no other, signed the advertisement. */
export function isSignedEncKey(shown: ShownEncKey, hostPubkey: PublicKey): boolean {
  const { host_pubkey: host, enc_pub: encPub, at, sig } = shown;
  const document = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at });
  return host === hostPubkey && isDocumentSigned(hostPubkey, document, sig);
}

async function publishSenders(parts: RegisterHost, known: RelayEnrolmentRow): Promise<RelayEnrolmentRow> {
  const { context, client, identity, scope, relayNowMs } = parts;
  const { senders, lastIatMs } = await context.store.read(async (reader) => ({
    senders: acceptedSenders(await livePeers(reader)),
    lastIatMs: reader.get('relay')?.sendersIatMs ?? 0,
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

async function added({ context, scope }: RegisterHost, row: RelayEnrolmentRow): Promise<RelayEnrolmentRow> {
  await context.store.transact((tx) => addToEnrolment(tx, scope, row));
  return row;
}

export interface RegisterHostInV1 extends HostAtRelay {
  client: RelayV1Client;
  relayPubkey: PublicKey;
  /** As it was last known. */
  epoch: Epoch | null;
  /** The enrolment told an epoch. */
  enter: (scope: RelayScope) => Promise<void>;
}

/** Resolves when the relay knows all of it. Throws `RelayCallFailed` and `TokenUnavailable`. */
export async function registerHostInV1(
  parts: RegisterHostInV1,
): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { context, identity, client } = parts;
  const { known: enrolment, scope } = await enrolInV1(parts);
  if (enrolment.encKey?.encPub === identity.sealKey.encPub) return { scope, known: enrolment };
  const routes: EncKeyRoutes = {
    publish: (advertisement) => client.publishEncKey(advertisement),
    shown: () => client.encKeyOf(identity.hostName),
    otherwise: 'the relay shows another key for the name of this host: others may have this name there',
  };
  const encKey = await forgettingWhenUnknown(context, scope, () => publishEncKey(parts, routes));
  const known = { ...enrolment, encKey };
  await context.store.transact((tx) => addToEnrolment(tx, scope, known));
  return { scope, known };
}

async function enrolInV1(parts: RegisterHostInV1): Promise<{ scope: RelayScope; known: RelayEnrolmentRow }> {
  const { context, identity, client, relayPubkey, epoch, proof, stopping } = parts;
  const { publicKey: hostPubkey } = identity.signer;
  const scopeIn = (generation: Epoch): RelayScope => ({ relayPubkey, epoch: generation, hostPubkey });
  const before = epoch === null ? undefined : await context.store.read((reader) => enrolmentIn(reader, scopeIn(epoch)));
  if (before && epoch !== null && !isRunningOut(before, context.nowMs()))
    return { scope: scopeIn(epoch), known: before };
  const fresh = proof && (await freshToken(proof, identity.signer, stopping));
  let answer: Awaited<ReturnType<RelayV1Client['enrol']>>;
  try {
    answer = await client.enrol('', fresh?.proof);
  } catch (error) {
    // An earlier token may be good for a while yet.
    if (!(error instanceof RelayProblem) || error.status === 429 || !before || epoch === null) throw error;
    context.log('warn', 'the relay did not renew the enrolment', { code: error.code });
    return { scope: scopeIn(epoch), known: before };
  }
  const scope = scopeIn(answer.epoch as Epoch);
  await parts.enter(scope);
  const isSame = scope.epoch === epoch;
  const known = enrolled(isSame ? before : undefined, answer, fresh?.validUntilMs ?? null, context.nowMs());
  await context.store.transact((tx) => putEnrolment(tx, scope, known));
  return { scope, known };
}
