/**
 * Asks the pinned relay what it knows of this host. Every look is a request of its own, so that none hides another.
 *
 * The list of senders is shown to the relay again as it was published: the same list under the same `iat` changes
 * nothing, and another one is refused as stale.
 */
import { canonicalBytes } from '../../../protocol/canonical-json.ts';
import { openCheckpoint } from '../../../protocol/checkpoint.ts';
import { sha256Hex } from '../../../protocol/digest.ts';
import { senderList } from '../../../protocol/documents.ts';
import type { Epoch } from '../../../protocol/epoch.ts';
import { displayFingerprint } from '../../../protocol/public-key.ts';
import { acceptedSenders } from '../../core/accepted-senders.ts';
import type { PeerFacts } from '../../core/doctor/peer-checks.ts';
import type { Looked, RelayCheckFacts } from '../../core/doctor/relay-checks.ts';
import type { PeerRow, RelayEnrolmentRow, RelayRow } from '../../core/rows.ts';
import type { RelayStatusResult } from '../../documents/relay.ts';
import type { Office } from '../../office/office.ts';
import { currentKey, livePeers } from '../../office/peers.ts';
import { enrolmentIn } from '../../office/relay-rows.ts';
import { RelayClient, type RelayInfo } from '../relay-client.ts';
import { type RelayClientOptions, RelayCallFailed, RelayProblem } from '../relay-request.ts';
import { shownRelay } from '../relay-side/connect.ts';
import { isSignedEncKey } from '../relay-side/make-known.ts';

/** What waits is counted up to here. */
const COUNTED_ITEMS_MAX = 20;
/** Paired hosts that are looked for at once. */
const AT_ONCE = 8;

type ShownInfo = Extract<RelayCheckFacts['info'], { type: 'seen' }>['value'];

const NOT_LOOKED = { type: 'not-looked' } as const;

export interface RelayProbe {
  facts: RelayCheckFacts;
  /** Whether the relay takes mail for these paired hosts. */
  carriesFor(peers: readonly PeerRow[]): Promise<PeerFacts['atRelay'][]>;
}

/** `inTime` ends every request. */
export async function probeRelay(
  office: Office,
  row: RelayRow,
  status: RelayStatusResult,
  inTime: AbortSignal,
): Promise<RelayProbe> {
  const { hostName, signer } = office.identity();
  const nowMs = (): number => office.nowMs();
  const options: RelayClientOptions = { url: row.url, signer, hostName, nowMs, stopping: inTime };
  const client = new RelayClient(options, row.pubkey);
  const isV1 = row.isV1 === true;
  const info = await looked(() => (isV1 ? infoInV1(options) : infoOf(client, nowMs)));
  const pinned = displayFingerprint(row.pubkey);
  // A relay that shows another key is asked nothing more, and neither is one that showed another before; in v1 there is
  // nothing that could be asked.
  const isUsable = !isV1 && info.type === 'seen' && info.value.fingerprint === pinned && !row.seenKey;
  const look = <T>(ask: () => Promise<T>): Promise<Looked<T>> => (isUsable ? looked(ask) : Promise.resolve(NOT_LOOKED));
  const you = await look(async () => youOf(await client.ownInfo()));
  const isKnown = you.type === 'seen' && you.value !== null;
  const lookAsKnown = <T>(ask: () => Promise<T>): Promise<Looked<T>> =>
    isKnown ? looked(ask) : Promise.resolve(NOT_LOOKED);
  const epoch = info.type === 'seen' ? (info.value.epoch as Epoch) : null;
  const [signedLog, encKey, senders, queue] = await Promise.all([
    look(() => signedLogOf(client, row, epoch)).then(withoutLog),
    lookAsKnown(() => encKeyAt(client, office)),
    lookAsKnown(() => sendersAt(client, office, row, epoch)),
    lookAsKnown(async () => {
      const page = await client.pull({ after: status.received_through, limit: COUNTED_ITEMS_MAX });
      return { items: page.items.length, more: page.more };
    }),
  ]);
  return {
    facts: {
      url: row.url,
      isV1,
      proof: row.proof,
      pinned,
      seen: row.seenKey && { fingerprint: displayFingerprint(row.seenKey.pubkey), atMs: row.seenKey.atMs },
      known: {
        epoch: row.epoch,
        problem: status.problem && { ...status.problem, atMs: status.problem.at },
        validUntilMs: status.enrolment?.valid_until ?? null,
        isCrowded: status.enrolment?.crowded ?? false,
        receivedThrough: status.received_through,
      },
      info,
      you,
      signedLog,
      encKey,
      senders,
      queue,
    },
    carriesFor: async (peers) => (isKnown ? carriedPeers(client, peers) : peers.map(() => 'not-seen')),
  };
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

async function looked<T>(ask: () => Promise<T>): Promise<Looked<T>> {
  try {
    return { type: 'seen', value: await ask() };
  } catch (error) {
    if (!(error instanceof RelayCallFailed)) throw error;
    return { type: 'failed', reason: error.message };
  }
}

function youOf({ you }: RelayInfo): { headSeq: number; ackedThrough: number } | null {
  return you ? { headSeq: you.head_seq, ackedThrough: you.acked_through } : null;
}

/** Whoever has the pinned key signs the log; what `info` says anybody can say. */
async function signedLogOf(
  client: RelayClient,
  { pubkey }: RelayRow,
  epoch: Epoch | null,
): Promise<'proven' | 'not-signed' | 'another-epoch'> {
  const { checkpoint } = await client.request('GET', '/v2/relay/log/link');
  const opened = typeof checkpoint === 'string' ? openCheckpoint(checkpoint, pubkey) : undefined;
  if (!opened) return 'not-signed';
  return opened.epoch === epoch ? 'proven' : 'another-epoch';
}

/** A relay may have no log to show, or show it to nobody now: that says nothing of its key. */
function withoutLog(look: RelayCheckFacts['signedLog']): RelayCheckFacts['signedLog'] {
  return look.type === 'failed' ? NOT_LOOKED : look;
}

async function encKeyAt(client: RelayClient, office: Office): Promise<'own' | 'none' | 'another' | 'not-signed'> {
  const { signer, sealKey } = office.identity();
  const shown = await client.encKeyOf(signer.publicKey);
  if (!shown) return 'none';
  if (!isSignedEncKey(shown, signer.publicKey)) return 'not-signed';
  return shown.enc_pub === sealKey.encPub ? 'own' : 'another';
}

async function sendersAt(
  client: RelayClient,
  office: Office,
  row: RelayRow,
  epoch: Epoch | null,
): Promise<'as-paired' | 'another' | 'not-published'> {
  const { signer } = office.identity();
  const published = (): Promise<{ senders: ReturnType<typeof acceptedSenders>; list: RelayEnrolmentRow['senders'] }> =>
    office.store.read(async (reader) => {
      const scope = epoch && { relayPubkey: row.pubkey, epoch, hostPubkey: signer.publicKey };
      const list = (scope && enrolmentIn(reader, scope)?.senders) ?? null;
      return { senders: acceptedSenders(await livePeers(reader)), list };
    });
  const { senders, list } = await published();
  if (!list || list.hash !== sha256Hex(senders.join('\n'))) return 'not-published';
  const document = senderList({ host_pubkey: signer.publicKey, senders, iat: list.iat });
  try {
    const answer = await client.publishSenders(document, signer.sign(canonicalBytes(document)));
    return answer.senders === senders.length && answer.iat === list.iat ? 'as-paired' : 'another';
  } catch (error) {
    if (!(error instanceof RelayProblem) || error.code !== 'STALE_LIST') throw error;
    // The daemon may have published a newer one meanwhile.
    return (await published()).list?.iat === list.iat ? 'another' : 'as-paired';
  }
}

async function carriedPeers(client: RelayClient, peers: readonly PeerRow[]): Promise<PeerFacts['atRelay'][]> {
  const carried: PeerFacts['atRelay'][] = [];
  for (let from = 0; from < peers.length; from += AT_ONCE) {
    const asked = peers.slice(from, from + AT_ONCE).map(async (peer): Promise<PeerFacts['atRelay']> => {
      const { publicKey } = currentKey(peer);
      const shown = await looked(() => client.encKeyOf(publicKey));
      if (shown.type !== 'seen') return 'not-seen';
      return shown.value !== null && isSignedEncKey(shown.value, publicKey) ? 'carried' : 'absent';
    });
    carried.push(...(await Promise.all(asked)));
  }
  return carried;
}
