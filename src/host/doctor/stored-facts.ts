/** Reads from the store what the checks of mail, agents and paired hosts judge. It calls nobody. */
import { liveSessions } from '../agents/sessions.ts';
import type { HostClock } from '../base/context.ts';
import type { AgentRow, PeerRow } from '../core/rows.ts';
import type { SessionRow } from '../core/session-rows.ts';
import { failsOverLan } from '../core/transport-choice.ts';
import { lossOf, quarantineUsage } from '../inbound/quarantine-rows.ts';
import { mailboxOf } from '../mailbox/mailbox.ts';
import { openRows } from '../outbox/outbox-rows.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import type { MailFacts } from './mail-checks.ts';
import type { PeerFacts } from './peer-checks.ts';

export interface StoredFacts {
  mail: MailFacts;
  /** Facts from the store; no peer was called. */
  peers: { row: PeerRow; facts: PeerFacts }[];
  agents: { agent: AgentRow; unreadWaking: number; sessions: SessionRow[] }[];
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
    peers.push({ row, facts });
  }
  return {
    mail: { outbox: { pending, unconfirmed, refusedReceipts }, quarantine: quarantineFacts(reader) },
    peers,
    agents: await agentsIn(reader, clock),
  };
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
