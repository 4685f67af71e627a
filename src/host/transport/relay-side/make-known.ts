/**
 * Makes a relay know this host: its rotations, its enrolment, the key to seal to, whose mail it takes. Each is checked,
 * and noted when it was; what is noted is not done again, so a crash anywhere costs a repetition.
 *
 * Specification, "Enrolment" rule 10, "Sender allowlist"; every request is idempotent.
 */
import { canonicalBytes } from '../../../protocol/canonical-json.ts';
import { sha256Hex } from '../../../protocol/digest.ts';
import { encKeyAdvertisement, senderList } from '../../../protocol/documents.ts';
import { verifySignature } from '../../../protocol/ed25519.ts';
import { ISSUED_AHEAD_MAX_MS } from '../../../protocol/limits.ts';
import { acceptedSenders } from '../../core/accepted-senders.ts';
import type { RelayEnrolmentRow, RelayProofSource } from '../../core/rows.ts';
import { signedEncKey } from '../../office/identity.ts';
import type { Identity, Office } from '../../office/office.ts';
import { livePeers } from '../../office/peers.ts';
import { type RelayScope, enrolmentIn, noteSendersIat, putEnrolment } from '../../office/relay-rows.ts';
import { RelayCallFailed, type RelayClient, RelayProblem, type ShownEncKey } from '../relay-client.ts';
import { freshProof } from './relay-proof.ts';

/** A hosted enrolment is renewed so long before it runs out. */
export const RENEW_BEFORE_MS = 120_000;
/** An `iat` ahead of the relay's clock stays this far below what it takes. */
const AHEAD_MARGIN_MS = 30_000;

export interface MakeKnown {
  office: Office;
  identity: Identity;
  client: RelayClient;
  scope: RelayScope;
  proof: RelayProofSource | null;
  /** By the relay's clock. */
  relayNowMs: number;
  /** How many of this host's rotations were posted in this epoch: a relay takes few in a minute. */
  progress: { rotations: number };
  stopping: AbortSignal;
}

/** Resolves when the relay knows all of it. Throws `RelayCallFailed` and `ProofUnavailable`. */
export async function makeKnown(parts: MakeKnown): Promise<RelayEnrolmentRow> {
  const { office, scope, identity } = parts;
  let known = await office.store.read((reader) => enrolmentIn(reader, scope));
  if (!known || isRunningOut(known, office.nowMs())) known = await enrol(parts, known);
  if (known.encKey?.encPub !== identity.sealKey.encPub) known = await publishEncKey(parts, known);
  return publishSenders(parts, known);
}

function isRunningOut({ validUntilMs }: RelayEnrolmentRow, nowMs: number): boolean {
  return validUntilMs !== null && nowMs >= validUntilMs - RENEW_BEFORE_MS;
}

async function enrol(parts: MakeKnown, before: RelayEnrolmentRow | undefined): Promise<RelayEnrolmentRow> {
  const { office, client, scope, identity } = parts;
  if (!before) await postRotations(parts);
  const fresh = parts.proof && (await freshProof(parts.proof, identity.signer, parts.stopping));
  let known: RelayEnrolmentRow = {
    checkedAtMs: 0,
    authorizedBy: before?.authorizedBy ?? null,
    account: before?.account ?? null,
    isCrowded: before?.isCrowded ?? false,
    validUntilMs: fresh?.validUntilMs ?? null,
    encKey: before?.encKey ?? null,
    senders: before?.senders ?? null,
  };
  let refused: RelayProblem | undefined;
  try {
    const enrolled = await client.enrol('', fresh?.proof);
    const { authorized_by: authorizedBy, account, crowded: isCrowded } = enrolled;
    known = { ...known, authorizedBy, account, isCrowded };
  } catch (error) {
    // What a rotation brought over, or an earlier token, may be good for a while yet.
    if (!(error instanceof RelayProblem) || error.status === 429) throw error;
    refused = error;
  }
  const { you } = await client.ownInfo();
  if (you?.pubkey !== scope.hostPubkey) {
    throw refused ?? new RelayCallFailed('the relay took the enrolment and does not know this host', 200);
  }
  if (refused) {
    office.log('warn', 'the relay did not renew the enrolment', { code: refused.code });
    known = { ...known, validUntilMs: before?.validUntilMs ?? null };
  }
  return noted(parts, { ...known, checkedAtMs: office.nowMs() });
}

/** Oldest first. One that the relay has no use for (it never knew the old key) stops none of the others. */
async function postRotations({ office, client, progress }: MakeKnown): Promise<void> {
  const identity = await office.store.read((reader) => reader.get('identity'));
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

async function publishEncKey(parts: MakeKnown, known: RelayEnrolmentRow): Promise<RelayEnrolmentRow> {
  const { office, client, identity, scope } = parts;
  const { encPub, at, sig } = signedEncKey(identity);
  try {
    await client.publishEncKey({ enc_pub: encPub, at, sig });
  } catch (error) {
    if (!(error instanceof RelayProblem) || error.code !== 'STALE_LIST') throw error;
    // The relay has one of a later time: this host was set back to a copy from before it.
    const later = ((await client.encKeyOf(scope.hostPubkey))?.at ?? at) + 1;
    const document = encKeyAdvertisement({ host_pubkey: scope.hostPubkey, enc_pub: encPub, at: later });
    const laterSig = identity.signer.sign(canonicalBytes(document));
    await client.publishEncKey({ enc_pub: encPub, at: later, sig: laterSig });
  }
  const shown = await client.encKeyOf(scope.hostPubkey);
  if (shown?.enc_pub !== encPub || !isSignedEncKey(shown, scope.hostPubkey)) {
    throw new RelayCallFailed('the relay shows another key to seal to than this host published', 200);
  }
  return noted(parts, { ...known, encKey: { encPub, at: shown.at, checkedAtMs: office.nowMs() } });
}

/** Whether the host of this key, and no other, signed the advertisement. */
export function isSignedEncKey(shown: ShownEncKey, hostPubkey: MakeKnown['scope']['hostPubkey']): boolean {
  const { host_pubkey: host, enc_pub: encPub, at, sig } = shown;
  const document = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at });
  return host === hostPubkey && verifySignature(hostPubkey, canonicalBytes(document), sig);
}

async function publishSenders(parts: MakeKnown, known: RelayEnrolmentRow): Promise<RelayEnrolmentRow> {
  const { office, client, identity, scope, relayNowMs } = parts;
  const { senders, lastIatMs } = await office.store.read(async (reader) => ({
    senders: acceptedSenders(await livePeers(reader)),
    lastIatMs: reader.get('relay')?.sendersIatMs ?? 0,
  }));
  const hash = sha256Hex(senders.join('\n'));
  if (known.senders?.hash === hash) return known;
  const soonest = Math.max(office.nowMs(), lastIatMs + 1);
  // A list that another copy of this host published may be newer, and a clock may be off: a later one is tried then.
  const latest = relayNowMs + ISSUED_AHEAD_MAX_MS - AHEAD_MARGIN_MS;
  const tries = [soonest, ...[Math.max(relayNowMs, lastIatMs + 1), latest].filter((iat) => iat > soonest)];
  for (const [at, iat] of tries.entries()) {
    await office.store.transact((tx) => noteSendersIat(tx, scope.relayPubkey, iat));
    const list = senderList({ host_pubkey: scope.hostPubkey, senders, iat });
    try {
      const answer = await client.publishSenders(list, identity.signer.sign(canonicalBytes(list)));
      if (answer.senders !== senders.length || answer.iat !== iat) {
        throw new RelayCallFailed('the relay took another list of senders than this host published', 200);
      }
      return await noted(parts, {
        ...known,
        senders: { hash, count: senders.length, iat, checkedAtMs: office.nowMs() },
      });
    } catch (error) {
      const isStale = error instanceof RelayProblem && error.code === 'STALE_LIST';
      if (!isStale || at === tries.length - 1) throw error;
    }
  }
  throw new Error('invariant: a list of senders is tried once at least');
}

async function noted({ office, scope }: MakeKnown, row: RelayEnrolmentRow): Promise<RelayEnrolmentRow> {
  await office.store.transact((tx) => putEnrolment(tx, scope, row));
  return row;
}
