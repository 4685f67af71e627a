/**
 * Asks the pinned relay what it knows of this host. Every probe is its own request, so that none hides another.
 *
 * It probes the list of senders by publishing it again: the same list under the same `iat` changes
 * nothing, and the relay refuses another one as stale.
 */
import { openCheckpoint } from '../../protocol/checkpoint.ts';
import { sha256Hex } from '../../protocol/encodings.ts';
import { senderList, signDocument } from '../../protocol/documents.ts';
import type { Epoch } from '../../protocol/names.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { acceptedSenders } from '../core/peer-keys.ts';
import { avoidedUntilMs } from '../core/relay-lanes.ts';
import type { PeerFacts } from './peer-checks.ts';
import type { ProbeResult, Probed, RelayCheckFacts } from './relay-checks.ts';
import type { PeerRow } from '../core/rows.ts';
import type { RelayEnrolmentRow, RelayRow } from '../core/relay-rows.ts';
import type { RelayView } from '../contract/relays.ts';
import type { HostContext } from '../base/context.ts';
import { rotationsSince } from '../peers/identity.ts';
import { currentKey, encKeyOf, livePeers } from '../peers/peers.ts';
import { openEvidence } from '../outbox/relay-evidence.ts';
import { enrolmentIn } from '../relay/relay-rows.ts';
import { RelayClient } from '../relay/relay-client.ts';
import { type RelayClientOptions, RelayCallFailed, RelayProblem, callerTrusting } from '../relay/relay-request.ts';
import { shownRelay } from '../relay/register-host.ts';
import { JUDGED_SKEW_MAX_MS, witnessesAt } from '../relay/relay-witnesses.ts';

/** Waiting items are counted up to this number. */
const COUNTED_ITEMS_MAX = 20;
/** The number of paired hosts that are asked for in parallel. */
const AT_ONCE = 8;

type ShownInfo = Extract<RelayCheckFacts['info'], { type: 'seen' }>['value'];

const SKIPPED = { type: 'skipped' } as const;

export interface RelayProbe {
  facts: RelayCheckFacts;
  /** Asks the relay of each of these paired hosts whether it accepts mail for it. */
  carriesFor(peers: readonly PeerRow[]): Promise<PeerFacts['atRelay'][]>;
  /** Asks for this host's rotations away from each of these keys. */
  showsRotations(keys: ReadonlySet<PublicKey>): Promise<'shown' | 'not-shown' | 'not-seen'>;
}

/** `inTime` ends every request. */
export async function probeRelay(
  context: HostContext,
  row: RelayRow,
  status: Pick<RelayView, 'problem' | 'enrolment' | 'received_through' | 'limits'>,
  inTime: AbortSignal,
): Promise<RelayProbe> {
  const { hostName, signer } = context.identity();
  const nowMs = (): number => context.nowMs();
  const caller = callerTrusting(row.ca);
  const options: RelayClientOptions = { url: row.url, signer, hostName, nowMs, stopping: inTime, caller };
  const client = new RelayClient(options, row.pubkey);
  const isV1 = row.isV1 === true;
  const info = await resultOf(() => (isV1 ? infoInV1(options) : infoOf(client, nowMs)));
  const pinned = displayFingerprint(row.pubkey);
  // A relay that shows or showed another key is asked nothing more; a v1 relay has
  // nothing to ask for.
  const isUsable = !isV1 && info.type === 'seen' && info.value.fingerprint === pinned && !row.seenKey;
  const you = await probeIf(isUsable, async () => {
    const record = (await client.ownInfo()).you;
    return record ? { headSeq: record.head_seq, ackedThrough: record.acked_through } : null;
  });
  const isKnown = you.type === 'seen' && you.value !== null;
  const epoch = info.type === 'seen' ? (info.value.epoch as Epoch) : null;
  const [signedLog, encKey, senders, queue] = await Promise.all([
    probeIf(isUsable, () => signedLogOf(client, row, epoch)),
    probeIf(isKnown, () => encKeyAt(client, context)),
    probeIf(isKnown, () => sendersAt(client, context, row, epoch)),
    probeIf(isKnown, async () => {
      const page = await client.pull({ after: status.received_through, limit: COUNTED_ITEMS_MAX });
      return { items: page.items.length + page.unreadable.length, more: page.more };
    }),
  ]);
  const witnesses = await probeIf(isUsable && isJudged(info, row), () => witnessesAt(client, context, row));
  const evidence = await context.store.read((reader) => openEvidence(reader, row.pubkey));
  const validUntil = status.enrolment?.valid_until ?? null;
  return {
    facts: {
      url: row.url,
      isV1,
      proof: row.proof,
      pinned,
      seen: row.seenKey && { fingerprint: displayFingerprint(row.seenKey.pubkey), atMs: row.seenKey.atMs },
      known: {
        epoch: row.epoch,
        problem: status.problem && { ...status.problem, atMs: timeMsOf(status.problem.at) },
        validUntilMs: validUntil === null ? null : timeMsOf(validUntil),
        isCrowded: status.enrolment?.crowded ?? false,
        receivedThrough: status.received_through,
        retentionDays: status.limits?.retention_days ?? null,
        avoidedUntilMs: avoidedUntilMs(row, context),
      },
      info,
      you,
      // A relay may have no log to show, or show none now: that says nothing about its key.
      signedLog: signedLog.type === 'failed' ? SKIPPED : signedLog,
      encKey,
      senders,
      queue,
      evidence,
      witnesses,
    },
    carriesFor: async (peers) => (isKnown ? carriedPeers(client, peers) : peers.map(() => 'not-seen')),
    showsRotations: async (keys) => (isKnown ? shownRotations(client, context, keys) : 'not-seen'),
  };
}

/** Says whether the clocks agree enough to judge the time of a cosignature, and there is one to judge. */
function isJudged(info: RelayCheckFacts['info'], { witnesses = [] }: RelayRow): boolean {
  const aheadMs = info.type === 'seen' ? (info.value.aheadMs ?? 0) : 0;
  return witnesses.length > 0 && Math.abs(aheadMs) <= JUDGED_SKEW_MAX_MS;
}

async function infoOf(client: RelayClient, nowMs: () => number): Promise<ShownInfo> {
  const askedMs = nowMs();
  const { relay_pubkey: key, epoch, now } = await client.info();
  const aheadMs = Math.round((askedMs + nowMs()) / 2 - now);
  return { fingerprint: displayFingerprint(key), epoch, aheadMs };
}

async function infoInV1(options: RelayClientOptions): Promise<ShownInfo> {
  const { pubkey } = await shownRelay(options);
  return { fingerprint: displayFingerprint(pubkey), epoch: null, aheadMs: null };
}

async function resultOf<T>(ask: () => Promise<T>): Promise<ProbeResult<T>> {
  try {
    return { type: 'seen', value: await ask() };
  } catch (error) {
    if (!(error instanceof RelayCallFailed)) throw error;
    return { type: 'failed', reason: error.message, code: error.code };
  }
}

function probeIf<T>(isWanted: boolean, ask: () => Promise<T>): Promise<Probed<T>> {
  return isWanted ? resultOf(ask) : Promise.resolve(SKIPPED);
}

/** The holder of the pinned key alone can sign the log; anybody can answer `info`. */
async function signedLogOf(
  client: RelayClient,
  { pubkey }: RelayRow,
  epoch: Epoch | null,
): Promise<'proven' | 'not-signed' | 'another-epoch'> {
  const { checkpoint } = await client.logLink();
  const opened = openCheckpoint(checkpoint, pubkey);
  if (!opened) return 'not-signed';
  return opened.epoch === epoch ? 'proven' : 'another-epoch';
}

async function encKeyAt(client: RelayClient, context: HostContext): Promise<'own' | 'none' | 'another' | 'not-signed'> {
  const { signer, sealKey } = context.identity();
  const shown = await client.encKeyOf(signer.publicKey);
  if (!shown) return 'none';
  if (!encKeyOf(shown, signer.publicKey)) return 'not-signed';
  return shown.enc_pub === sealKey.encPub ? 'own' : 'another';
}

async function sendersAt(
  client: RelayClient,
  context: HostContext,
  row: RelayRow,
  epoch: Epoch | null,
): Promise<'as-paired' | 'another' | 'not-published'> {
  const { signer } = context.identity();
  const published = (): Promise<{ senders: ReturnType<typeof acceptedSenders>; list: RelayEnrolmentRow['senders'] }> =>
    context.store.read(async (reader) => {
      const scope = epoch && { relayPubkey: row.pubkey, epoch, hostPubkey: signer.publicKey };
      const list = (scope && enrolmentIn(reader, scope)?.senders) ?? null;
      return { senders: acceptedSenders(await livePeers(reader)), list };
    });
  const { senders, list } = await published();
  if (!list || list.hash !== sha256Hex(senders.join('\n'))) return 'not-published';
  const document = senderList({ host_pubkey: signer.publicKey, senders, iat: list.iat });
  try {
    const answer = await client.publishSenders(document, signDocument(signer, document));
    return answer.senders === senders.length && answer.iat === list.iat ? 'as-paired' : 'another';
  } catch (error) {
    if (!(error instanceof RelayProblem) || error.code !== 'STALE_LIST') throw error;
    // The daemon may have published a newer list meanwhile.
    return (await published()).list?.iat === list.iat ? 'another' : 'as-paired';
  }
}

async function carriedPeers(client: RelayClient, peers: readonly PeerRow[]): Promise<PeerFacts['atRelay'][]> {
  const carried: PeerFacts['atRelay'][] = [];
  for (let from = 0; from < peers.length; from += AT_ONCE) {
    const asked = peers.slice(from, from + AT_ONCE).map(async (peer): Promise<PeerFacts['atRelay']> => {
      const { publicKey } = currentKey(peer);
      const shown = await resultOf(() => client.encKeyOf(publicKey));
      if (shown.type !== 'seen') return 'not-seen';
      return shown.value !== null && encKeyOf(shown.value, publicKey) ? 'carried' : 'absent';
    });
    carried.push(...(await Promise.all(asked)));
  }
  return carried;
}

/** The rotations are this host's own, so it compares them with its stored ones. */
async function shownRotations(
  client: RelayClient,
  context: HostContext,
  keys: ReadonlySet<PublicKey>,
): Promise<'shown' | 'not-shown' | 'not-seen'> {
  const identity = await context.store.read((reader) => reader.get('identity'));
  for (const { rec } of [...keys].flatMap((key) => (identity ? rotationsSince(identity, key) : []))) {
    const shown = await resultOf(() => client.rotationOf(rec.old_pubkey));
    if (shown.type !== 'seen') return 'not-seen';
    if (shown.value?.rec.new_pubkey !== rec.new_pubkey) return 'not-shown';
  }
  return 'shown';
}
