/**
 * The state of this host, as its store and its daemon know it without a call. `poste status` shows it, and `poste
 * doctor` adds what paired hosts and the relay answer.
 */
import { type ListenAddress, listenAddressText } from '../../lib/listen-address.ts';
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { isoSecondOrNull, isoTime } from '../../protocol/time.ts';
import type { DaemonFacts } from '../api/handlers.ts';
import { broken } from '../../lib/check.ts';
import type { Check, CheckId, StatusResult } from '../contract/daemon.ts';
import type { RelayStatusResult, RelayView } from '../contract/relays.ts';
import { liveSessions } from '../agents/sessions.ts';
import type { HostClock, HostContext } from '../base/context.ts';
import { type AgentRow, OWNER_ID, type PeerRow } from '../core/rows.ts';
import type { SessionRow } from '../core/session-rows.ts';
import { failsOverLan, type RelayFacts, wayOfMail } from '../core/transport-choice.ts';
import { lossOf, quarantineUsage } from '../inbound/quarantine-rows.ts';
import { mailboxOf } from '../mailbox/mailbox.ts';
import { homesOf, type PeerHomes, takesMailAt, ownRelays, relayRowOf } from '../outbox/homes.ts';
import { openRows } from '../outbox/outbox.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import type { RelayReach } from '../outbox/peer-work.ts';
import { knewKey } from '../relay/relay-rows.ts';
import { type MailFacts, mailChecks } from './mail-checks.ts';
import { lanChecks, type PeerFacts } from './peer-checks.ts';
import { type KeysAtRelay, ownKeyChecks, type RelayDoubt } from './relay-checks.ts';

/** The parts of the daemon that know how it is. */
export interface HealthParts {
  context: HostContext;
  facts: DaemonFacts;
  /** The port of the LAN listener; `undefined` while there is none. */
  lan: { readonly port: number | undefined };
  lanListen: ListenAddress;
  web: { readonly page: StatusResult['page'] };
  relay: {
    status(): Promise<RelayStatusResult>;
    /** This relay answers: the daemon need not wait out an earlier failure. */
    answered(relayPubkey: PublicKey): void;
    /** Looks at the logs of the relays, for so long at most. */
    look(waitMs: number): Promise<void>;
  };
  reach: RelayReach;
}

export type Health = Awaited<ReturnType<typeof readHealth>>;

export async function readHealth({ context, lan, lanListen, relay }: HealthParts) {
  const [link, stored] = await Promise.all([
    relay.status(),
    context.store.read((reader) => storedFacts(reader, context)),
  ]);
  const listener = { listen: listenAddressText(lanListen), port: lan.port ?? null };
  const checks = {
    lan: lanChecks(listener, stored.peers.length),
    mail: mailChecks(stored.mail, context.nowMs()),
    ownKey: ownKeyChecks(stored.ownKeys, context.nowMs()),
  };
  return { link, stored, listener, checks };
}

export async function hostStatus(parts: HealthParts): Promise<StatusResult> {
  const { startedAtMs, linesLost, ...daemon } = parts.facts;
  const { hostName, signer, sealKey } = parts.context.identity();
  const { stored, link, listener, checks } = await readHealth(parts);
  const { pending, unconfirmed } = stored.mail.outbox;
  return {
    host: hostName,
    host_pubkey: signer.publicKey,
    fingerprint: displayFingerprint(signer.publicKey),
    enc_pub: sealKey.encPub,
    ...daemon,
    started_at: isoTime(startedAtMs),
    agents: stored.agents.length,
    owner_unread: stored.ownerUnread,
    listener,
    page: parts.web.page,
    relay: link.relay && { url: link.relay.url, state: link.state, problem: link.problem?.message ?? null },
    ...(link.relays && { relays: link.relays.map(relayLine) }),
    peers: stored.peers.map(({ row, homes, facts: { waiting, oldestAtMs } }) => ({
      host: row.hostName,
      reach: wayOfMail(row, parts.reach.factsFor(row)),
      ...takesMailAt(row, homes, parts.reach.factsFor(row)),
      ...laneIn(link.relays, parts.reach.factsFor(row)),
      address: row.address,
      reached_at: isoSecondOrNull(row.reachedAtMs),
      waiting,
      oldest_at: isoSecondOrNull(oldestAtMs),
    })),
    outbox: { waiting: pending.count, unconfirmed: unconfirmed.count },
    quarantined: stored.mail.quarantine.items,
    log_lines_lost: linesLost(),
    problems: [...checks.lan, ...relayFault(link), ...checks.ownKey, ...checks.mail].filter(
      ({ state }) => state === 'broken',
    ),
  };
}

/** The relay that mail for a host takes where the LAN does not reach; nothing while there is none beside the first. */
function laneIn(
  relays: RelayStatusResult['relays'],
  facts: RelayFacts | null | 'unknown',
): Pick<StatusResult['peers'][number], 'relay'> {
  if (!relays) return {};
  const lane = facts === 'unknown' ? null : facts?.relayPubkey;
  const found = relays.find(({ relay }) => relay.relay_pubkey === lane);
  return { relay: found ? { number: found.number, url: found.relay.url } : null };
}

function relayLine({
  number,
  role,
  relay: { url },
  state,
  problem,
  is_down,
  unheard_seconds,
}: RelayView): NonNullable<StatusResult['relays']>[number] {
  return { number, url, role, state, problem, is_down, unheard_seconds };
}

const RELAY_FAULTS: Readonly<Partial<Record<RelayStatusResult['state'], [id: CheckId, sentence: string]>>> = {
  failing: ['relay-reach', 'the relay does not work'],
  'key-changed': ['relay-key', 'the relay shows another key'],
  'two-histories': ['relay-evidence', 'the relay signed two histories'],
};

function relayFault({ relay, state, problem }: RelayStatusResult): Check[] {
  const [id, sentence] = (relay && RELAY_FAULTS[state]) ?? [];
  if (id === undefined) return [];
  return [broken({ area: 'relay', id }, `${sentence}${problem ? `: ${problem.message}` : ''}`, 'poste doctor')];
}

export interface StoredFacts {
  mail: MailFacts;
  /** Facts from the store; no peer was called. */
  peers: { row: PeerRow; homes: PeerHomes; facts: PeerFacts }[];
  doubts: RelayDoubt[];
  ownKeys: readonly KeysAtRelay[];
  agents: { agent: AgentRow; unreadWaking: number; sessions: SessionRow[] }[];
  ownerUnread: number;
}

/** The last error of a row whose target does not accept mail from this host. */
const REFUSED_BY_LIST = 'rejected:sender not accepted by target';

export async function storedFacts(reader: Reader, clock: HostClock): Promise<StoredFacts> {
  const pending: MailFacts['outbox']['pending'] = { count: 0, oldestAtMs: null, lastError: null };
  const unconfirmed: MailFacts['outbox']['unconfirmed'] = { count: 0, oldestAtMs: null };
  const refusedReceipts: MailFacts['outbox']['refusedReceipts'] = { count: 0, lastError: null };
  const peers: StoredFacts['peers'] = [];
  for (const row of await livePeers(reader)) {
    const { hostName: host, address, reachedAtMs } = row;
    const facts: PeerFacts = {
      host,
      address,
      reachedAtMs,
      mailFails: failsOverLan(row),
      waiting: 0,
      oldestAtMs: null,
      refusedByList: 0,
      probe: null,
      atRelay: 'not-seen',
    };
    for await (const { kind, state, createdAtMs, lastError } of openRows(reader, row.peerId)) {
      if (kind !== 'envelope') {
        if (lastError?.startsWith('rejected:')) refusedReceipts.lastError = lastError;
        if (lastError?.startsWith('rejected:')) refusedReceipts.count++;
        continue;
      }
      const group = state === 'pending' ? pending : unconfirmed;
      if (createdAtMs < (group.oldestAtMs ?? Infinity)) {
        group.oldestAtMs = createdAtMs;
        if (group === pending) pending.lastError = lastError;
      }
      group.count++;
      if (state !== 'pending') continue;
      facts.waiting++;
      if (lastError === REFUSED_BY_LIST) facts.refusedByList++;
      facts.oldestAtMs = Math.min(createdAtMs, facts.oldestAtMs ?? createdAtMs);
    }
    peers.push({ row, homes: homesOf(reader, row), facts });
  }
  return {
    mail: { outbox: { pending, unconfirmed, refusedReceipts }, quarantine: quarantineFacts(reader) },
    peers,
    doubts: peers.flatMap(({ row }) => doubtsOf(reader, row, clock.nowMs())),
    ownKeys: await keysAtRelays(reader),
    agents: await agentsIn(reader, clock),
    ownerUnread: mailboxOf(reader, OWNER_ID).unread,
  };
}

async function keysAtRelays(reader: Reader): Promise<KeysAtRelay[]> {
  const keys = reader.get('identity')?.keys ?? [];
  return (await ownRelays(reader)).map(({ row: { url, pubkey: relayPubkey, epoch } }) => {
    const newest = keys.findLastIndex(
      ({ publicKey: hostPubkey }) => epoch !== null && knewKey(reader, { relayPubkey, epoch, hostPubkey }),
    );
    return { url, keys: newest < 0 ? [] : keys.slice(newest) };
  });
}

function doubtsOf(reader: Reader, { hostName: host, doubted = [] }: PeerRow, nowMs: number): RelayDoubt[] {
  return doubted.flatMap(({ relayPubkey, over, messages, untilMs }) => {
    const relay = relayRowOf(reader, relayPubkey);
    const other = relayRowOf(reader, over);
    if (!relay || !other || untilMs <= nowMs) return [];
    return [{ relay: new URL(relay.url).host, over: new URL(other.url).host, host, messages }];
  });
}

function quarantineFacts(reader: Reader): MailFacts['quarantine'] {
  const { items, bare } = quarantineUsage(reader);
  const { dropped } = lossOf(reader, 'strangers');
  return { items, bare, dropped };
}

async function agentsIn(reader: Reader, clock: HostClock): Promise<StoredFacts['agents']> {
  const agents: StoredFacts['agents'] = [];
  for await (const { row: agent } of reader.range('agent', [])) {
    if (agent.removedAtMs !== null) continue;
    const { unreadWaking } = mailboxOf(reader, agent.agentId);
    agents.push({ agent, unreadWaking, sessions: await liveSessions(reader, clock, agent.agentId) });
  }
  return agents;
}
