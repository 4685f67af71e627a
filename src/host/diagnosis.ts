/**
 * Looks at everything of a running host, or at all that is known of one message: what its store says, how paired hosts
 * and the relay answer now.
 *
 * Nothing is asked for longer than `LOOK_MS`, and what fails is said beside everything else.
 */
import { displayFingerprint } from '../protocol/public-key.ts';
import { type ListenAddress, listenAddressText } from '../system/listen-address.ts';
import type { Check } from './core/doctor/check.ts';
import { mailChecks, wakeCheck } from './core/doctor/mail-checks.ts';
import { type PeerFacts, lanChecks, peerCheck } from './core/doctor/peer-checks.ts';
import { noRelayCheck, relayChecks } from './core/doctor/relay-checks.ts';
import { type Refusal, isRefusal } from './core/refusal.ts';
import type { DoctorResult } from './documents/doctor.ts';
import type { RelayStatusResult } from './documents/relay.ts';
import type { TraceInput, TraceResult } from './documents/trace.ts';
import type { Diagnosis } from './local/handlers.ts';
import { type StoredFacts, storedFacts } from './office/check-facts.ts';
import type { Office } from './office/office.ts';
import type { DaemonFacts } from './office/status.ts';
import { traceMessage } from './office/trace.ts';
import { probePeer } from './transport/doctor/peer-probe.ts';
import { type RelayProbe, probeRelay } from './transport/doctor/relay-probe.ts';
import { withProofs } from './transport/doctor/log-proofs.ts';
import { LanClient } from './transport/lan-client.ts';
import { wakeFaults } from './wake/wake-faults.ts';

/** For everything that is asked of others; whoever asks the daemon waits longer than twice this. */
const LOOK_MS = 8_000;

export interface DiagnosisParts {
  office: Office;
  facts: DaemonFacts;
  /** Where the LAN's listener is; `undefined` while there is none. */
  lan: { readonly port: number | undefined };
  lanListen: ListenAddress;
  relay: { status(): Promise<RelayStatusResult> };
}

type CalledPeer = StoredFacts['peers'][number];

export function diagnosisOf(parts: DiagnosisParts): Diagnosis {
  return {
    doctor: (signal) => examine(parts, signal),
    trace: (input, signal) => traced(parts, input, signal),
  };
}

async function examine(parts: DiagnosisParts, signal: AbortSignal): Promise<DoctorResult> {
  const { office, facts, lan, lanListen } = parts;
  const { hostName, signer } = office.identity();
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
  const stored = await office.store.read((reader) => storedFacts(reader, office.nowMs()));
  const [peers, relay, wake] = await Promise.all([
    calledPeers(office, stored, inTime),
    askedRelay(parts, inTime),
    Promise.all(stored.agents.map((agent) => wakeCheckOf(agent, inTime))),
  ]);
  const reached = await withRelay(peers, relay);
  const nowMs = office.nowMs();
  const isNeeded = reached.some(({ probe }) => probe?.type !== 'answered');
  const checks: Check[] = [
    ...lanChecks({ listen: listenAddressText(lanListen), port: lan.port ?? null }, reached.length),
    ...reached.map((peer) => peerCheck(peer, nowMs)),
    ...(relay ? relayChecks(relay.facts, nowMs) : [noRelayCheck(isNeeded)]),
    ...mailChecks(stored.mail, nowMs),
    ...wake,
  ];
  const { version, pid } = facts;
  return { host: hostName, fingerprint: displayFingerprint(signer.publicKey), version, pid, checks };
}

async function calledPeers(office: Office, { peers }: StoredFacts, inTime: AbortSignal): Promise<CalledPeer[]> {
  const client = new LanClient(office, inTime);
  return Promise.all(
    peers.map(async ({ row, facts }) => ({ row, facts: { ...facts, probe: await probePeer(office, client, row) } })),
  );
}

async function askedRelay({ office, relay }: DiagnosisParts, inTime: AbortSignal): Promise<RelayProbe | undefined> {
  const row = await office.store.read((reader) => reader.get('relay'));
  return row && probeRelay(office, row, await relay.status(), inTime);
}

/** Those that the LAN does not reach are looked for at the relay. */
async function withRelay(peers: readonly CalledPeer[], relay: RelayProbe | undefined): Promise<PeerFacts[]> {
  if (!relay) return peers.map(({ facts }) => ({ ...facts, atRelay: 'no-relay' }));
  const away = peers.filter(({ facts }) => facts.probe?.type !== 'answered').map(({ row }) => row);
  const carried = await relay.carriesFor(away);
  const atRelay = new Map(away.map(({ peerId }, at) => [peerId, carried[at]]));
  return peers.map(({ row, facts }) => ({ ...facts, atRelay: atRelay.get(row.peerId) ?? 'not-seen' }));
}

async function wakeCheckOf(
  { agent, unreadWaking, sessions }: StoredFacts['agents'][number],
  inTime: AbortSignal,
): Promise<Check> {
  const faults = await wakeFaults(sessions, inTime);
  const methods = sessions.flatMap(({ wake }) => wake.map(({ type }) => type));
  return wakeCheck({ agent: agent.name, unreadWaking, liveSessions: sessions.length, methods, faults });
}

/** With the relay's proof for every row that it took. */
async function traced(
  { office }: DiagnosisParts,
  input: TraceInput,
  signal: AbortSignal,
): Promise<TraceResult | Refusal> {
  const trace = await traceMessage(office, input);
  if (isRefusal(trace)) return trace;
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(LOOK_MS)]);
  return { ...trace, rows: await withProofs(office, trace.rows, inTime) };
}
