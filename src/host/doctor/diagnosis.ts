/**
 * Checks a running host (`poste doctor`), or traces one message (`poste trace`): reads the store, and asks paired hosts
 * and the relay.
 *
 * Paired hosts and the relay are asked in parallel, each for at most `PROBE_MS`, so that none uses up the time of the
 * other. A probe that fails is reported beside the others.
 */
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import type { HandlerParts } from '../api/handlers.ts';
import type { Check, DoctorResult } from '../contract/daemon.ts';
import type { RelayView } from '../contract/relays.ts';
import type { AskedProof, TraceInput, TraceResult, TraceRow } from '../contract/outbox.ts';
import type { HostContext } from '../base/context.ts';
import { isRefusal, type Refusal } from '../core/refusal.ts';
import type { PeerId, PeerRow } from '../core/rows.ts';
import type { RelayRow } from '../core/relay-rows.ts';
import { LanClient } from '../lan/lan-client.ts';
import { traceMessage } from '../mail/trace.ts';
import { knowsOurKey } from '../peers/peers.ts';
import { RelayClient } from '../relay/relay-client.ts';
import { callerTrusting, RelayCallFailed, RelayProblem } from '../relay/relay-request.ts';
import { peerHomes, ownRelays, relayRowOf } from '../outbox/homes.ts';
import type { Reader } from '../store/host-store.ts';
import { wakeFaults } from '../wake/wake-methods.ts';
import { type Health, type HealthParts, hostStatus, readHealth, type StoredFacts } from './health.ts';
import { wakeCheck } from './mail-checks.ts';
import {
  copyChecks,
  type HomeFacts,
  ownKeyCheck,
  type OwnKeyFacts,
  peerCheck,
  type PeerFacts,
  probePeer,
} from './peer-checks.ts';
import { doubtCheck, noRelayCheck, type RelayCheckFacts, relayChecks } from './relay-checks.ts';
import { probeRelay, type RelayProbe } from './relay-probe.ts';

/** The time for all requests over the LAN, and for all requests to the relay. The daemon's clients wait longer. */
const PROBE_MS = 8_000;
/** What is said of a relay rests on a look at its log, which may take longer than that. */
const LOOK_WAIT_MS = 3_000;

type CalledPeer = StoredFacts['peers'][number];

export function healthOf(parts: HealthParts): HandlerParts['health'] {
  return {
    status: () => hostStatus(parts),
    doctor: (signal) => examineHost(parts, signal),
    trace: async (input, signal) => {
      await parts.relay.look(LOOK_WAIT_MS);
      return traceWithProofs(parts.context, input, signal);
    },
  };
}

/** `probeMs`: for each of the two sorts of requests. */
export async function examineHost(
  parts: HealthParts,
  signal: AbortSignal,
  probeMs = { lan: PROBE_MS, relay: PROBE_MS },
): Promise<DoctorResult> {
  const { context, facts } = parts;
  const { hostName, signer } = context.identity();
  const lanTime = AbortSignal.any([signal, AbortSignal.timeout(probeMs.lan)]);
  const relayTime = AbortSignal.any([signal, AbortSignal.timeout(probeMs.relay)]);
  const health = await readHealth(parts);
  const { stored, checks } = health;
  const unaware = stored.peers.map(({ row }) => row).filter((row) => !knowsOurKey(row, signer.publicKey));
  const [peers, relays, wake] = await Promise.all([
    calledPeers(context, stored, lanTime),
    askedRelays(parts, health, unaware, relayTime),
    Promise.all(
      stored.agents.map(async ({ agent: { name }, unreadWaking, sessions }) => {
        const faults = await wakeFaults(sessions, lanTime);
        const methods = sessions.flatMap(({ wake }) => wake.map(({ type }) => type));
        return wakeCheck({ agent: name, unreadWaking, liveSessions: sessions.length, methods, faults });
      }),
    ),
    parts.relay.look(LOOK_WAIT_MS),
  ]);
  const reached = peers.map(({ row, facts: seen }): PeerFacts => {
    return {
      ...seen,
      atRelay: bestOf(AT_RELAY, relays, ({ atRelay }) => atRelay.get(row.peerId)) ?? 'no-relay',
    };
  });
  const ownKey: OwnKeyFacts = {
    unaware: peers
      .filter(({ row }) => unaware.includes(row))
      .map(({ facts: { host, probe } }) => ({ host, isAnswering: probe?.type === 'answered' })),
    atRelay: bestOf(ROTATIONS, relays, ({ rotations }) => rotations) ?? 'no-relay',
  };
  const nowMs = context.nowMs();
  const homes = await context.store.read((reader) => homesShown(reader));
  const isNeeded = reached.some(({ probe, mailFails }) => probe?.type !== 'answered' || mailFails);
  const { version, pid } = facts;
  return {
    host: hostName,
    fingerprint: displayFingerprint(signer.publicKey),
    version,
    pid,
    checks: [
      ...checks.lan,
      ...reached.map((peer) => peerCheck(peer, nowMs)),
      ...ownKeyCheck(ownKey),
      ...copyChecks(homes, nowMs),
      ...stored.doubts.map(doubtCheck),
      ...checks.ownKey,
      ...(relays.length === 0 ? [noRelayCheck(isNeeded)] : relays.flatMap(({ facts }) => checksOf(facts, nowMs))),
      ...checks.mail,
      ...wake,
    ],
  };
}

async function homesShown(reader: Reader): Promise<HomeFacts[]> {
  return (await peerHomes(reader)).map(({ peerId, row: { twin, later } }) => {
    const over =
      later && (later.via === 'lan' ? 'the LAN' : (relayRowOf(reader, later.via)?.url ?? 'a relay of before'));
    return {
      host: reader.get('peer', peerId)?.hostName ?? peerId,
      twinAtMs: twin?.atMs ?? null,
      later: later && over !== undefined ? { atMs: later.atMs, over } : null,
    };
  });
}

async function calledPeers(context: HostContext, { peers }: StoredFacts, inTime: AbortSignal): Promise<CalledPeer[]> {
  const client = new LanClient(context, inTime);
  return Promise.all(
    peers.map(async ({ row, homes, facts }) => {
      return { row, homes, facts: { ...facts, probe: await probePeer(context, client, row) } };
    }),
  );
}

interface AskedRelay {
  facts: RelayProbe['facts'];
  /** The relay's answer for each paired host: does it accept mail for it? */
  atRelay: ReadonlyMap<PeerId, PeerFacts['atRelay']>;
  rotations: Exclude<OwnKeyFacts['atRelay'], 'no-relay'>;
}

/** The best that one of several relays says of a host. */
const AT_RELAY = ['carried', 'not-seen', 'absent'] as const;
const ROTATIONS = ['shown', 'not-seen', 'not-shown'] as const;

function bestOf<T>(
  order: readonly T[],
  relays: readonly AskedRelay[],
  saidBy: (relay: AskedRelay) => T | undefined,
): T | undefined {
  return order.find((one) => relays.some((relay) => saidBy(relay) === one));
}

/** Names the relay in each finding where there are several. */
function checksOf(facts: RelayCheckFacts, nowMs: number): Check[] {
  const checks = relayChecks(facts, nowMs);
  return facts.among ? checks.map((check) => ({ ...check, relay: facts.url })) : checks;
}

/** Asks each relay, for all paired hosts: whether the LAN reaches them is not known yet. */
async function askedRelays(
  parts: HealthParts,
  { stored, link }: Health,
  unaware: readonly PeerRow[],
  inTime: AbortSignal,
): Promise<AskedRelay[]> {
  const { context, relay } = parts;
  const relays = await context.store.read(ownRelays);
  const peers = stored.peers.map(({ row }) => row);
  const ask = async (row: RelayRow, known: Link, among: RelayCheckFacts['among']): Promise<AskedRelay> => {
    const probe = await probeRelay(context, row, known, inTime);
    if (probe.facts.info.type === 'seen') relay.answered(row.pubkey);
    const [carried, rotations] = await Promise.all([
      probe.carriesFor(peers),
      probe.showsRotations(new Set(unaware.map(({ pinnedOurKey }) => pinnedOurKey))),
    ]);
    const atRelay = new Map(peers.map(({ peerId }, at) => [peerId, carried[at] ?? 'not-seen'] as const));
    return { facts: { ...probe.facts, ...(among && { among }) }, atRelay, rotations };
  };
  const views = link.relays;
  if (!views) return Promise.all(relays.slice(0, 1).map(({ row }) => ask(row, link, undefined)));
  const asked = await Promise.all(
    views.flatMap((view) => {
      const row = relays.find((one) => one.row.pubkey === view.relay.relay_pubkey)?.row;
      return row ? [ask(row, view, amongOf(view))] : [];
    }),
  );
  return asked.map(({ facts, atRelay, rotations }) => ({ facts: besideOthers(facts, asked), atRelay, rotations }));
}

type Link = Pick<RelayView, 'problem' | 'enrolment' | 'received_through' | 'limits'>;

/** `isOtherWell` is known when all were asked. */
function amongOf({ heard_seconds: heard, unheard_seconds: unheard }: RelayView): RelayCheckFacts['among'] {
  return { isOtherWell: false, silentMs: Math.max(heard ?? 0, unheard) * 1000 };
}

function besideOthers(facts: RelayCheckFacts, asked: readonly AskedRelay[]): RelayCheckFacts {
  const isOtherWell = asked.some(
    ({ facts: { url, info, pinned, seen } }) =>
      url !== facts.url && info.type === 'seen' && info.value.fingerprint === pinned && !seen,
  );
  return facts.among ? { ...facts, among: { ...facts.among, isOtherWell } } : facts;
}

/**
 * The trace, with the proofs of pinned relays that the items they accepted are in their logs. The daemon does not
 * verify the proofs: the receiver of the trace does, offline.
 */
export async function traceWithProofs(
  context: HostContext,
  input: TraceInput,
  signal: AbortSignal,
): Promise<TraceResult | Refusal> {
  const trace = await traceMessage(context, input);
  if (isRefusal(trace)) return trace;
  const relays = await context.store.read(ownRelays);
  const { hostName, signer } = context.identity();
  const stopping = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
  const proofAt = async (row: TraceRow, acceptance: Acceptance): Promise<AskedProof> => {
    if (relays.length === 0) return none('no relay is set any more that could be asked');
    const relay = relays.find((one) => one.row.pubkey === acceptance.relay_pubkey)?.row;
    if (!relay) return none('another relay took it than the one that is set now');
    if (relay.seenKey) return none('the relay shows another key, and is not asked: see poste doctor');
    const caller = callerTrusting(relay.ca);
    const options = { url: relay.url, signer, hostName, nowMs: context.nowMs, stopping, caller };
    return proofOf(new RelayClient(options, relay.pubkey), row, acceptance);
  };
  const rows = trace.rows.map(async (row) =>
    row.acceptance ? { ...row, proof: await proofAt(row, row.acceptance) } : row,
  );
  return { ...trace, rows: await Promise.all(rows) };
}

type Acceptance = NonNullable<TraceRow['acceptance']>;

async function proofOf(
  client: RelayClient,
  { item_id: itemId }: TraceRow,
  { accept, must_know: mustKnow }: Acceptance,
): Promise<AskedProof> {
  const [target] = accept.targets;
  try {
    const document = await client.logProof(itemId, (target?.host_pubkey ?? '') as PublicKey);
    return { state: 'served', document };
  } catch (error) {
    if (!(error instanceof RelayCallFailed)) throw error;
    if (!(error instanceof RelayProblem) || error.status !== 404) return none(error.message);
    const detail = error.document['detail'];
    // The relay keeps only the hash of a pruned record, and says so: one of an earlier version in words alone.
    const isInWords = typeof detail === 'string' && detail.includes('pruned');
    const isPruned = error.code === 'RECORD_PRUNED' || isInWords;
    return mustKnow && !isPruned ? { state: 'denied', reason: error.message } : none(error.message);
  }
}

function none(reason: string): AskedProof {
  return { state: 'none', reason };
}
