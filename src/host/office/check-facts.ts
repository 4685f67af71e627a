/** What the store says of the health of a host: what waits, what was kept out, who is paired and who can be woken. */
import type { MailFacts } from '../core/doctor/mail-checks.ts';
import type { PeerFacts } from '../core/doctor/peer-checks.ts';
import type { AgentRow, PeerRow, SessionRow } from '../core/rows.ts';
import type { Reader } from '../store/host-store.ts';
import { mailboxOf } from './mailbox.ts';
import { openRows } from './outbox-rows.ts';
import { livePeers } from './peers.ts';
import { QUARANTINE_BOUNDS, quarantineUsage } from './quarantine-rows.ts';
import { liveSessions } from './sessions.ts';

export interface StoredFacts {
  mail: MailFacts;
  /** Nobody was called. */
  peers: { row: PeerRow; facts: PeerFacts }[];
  agents: { agent: AgentRow; unreadWaking: number; sessions: SessionRow[] }[];
}

export async function storedFacts(reader: Reader, nowMs: number): Promise<StoredFacts> {
  const pending: MailFacts['outbox']['pending'] = { count: 0, oldestAtMs: null, lastError: null };
  const unconfirmed: MailFacts['outbox']['unconfirmed'] = { count: 0, oldestAtMs: null };
  const peers: StoredFacts['peers'] = [];
  for (const row of await livePeers(reader)) {
    const { hostName: host, address, reachedAtMs } = row;
    const facts: PeerFacts = {
      host,
      address,
      reachedAtMs,
      waiting: 0,
      oldestAtMs: null,
      probe: null,
      atRelay: 'not-seen',
    };
    for await (const { kind, state, createdAtMs, lastError } of openRows(reader, row.peerId)) {
      if (kind !== 'envelope') continue;
      const group = state === 'pending' ? pending : unconfirmed;
      if (createdAtMs < (group.oldestAtMs ?? Infinity)) {
        group.oldestAtMs = createdAtMs;
        if (group === pending) pending.lastError = lastError;
      }
      group.count++;
      if (state !== 'pending') continue;
      facts.waiting++;
      facts.oldestAtMs = Math.min(createdAtMs, facts.oldestAtMs ?? createdAtMs);
    }
    peers.push({ row, facts });
  }
  return {
    mail: { outbox: { pending, unconfirmed }, quarantine: quarantineFacts(reader) },
    peers,
    agents: await agentsIn(reader, nowMs),
  };
}

function quarantineFacts(reader: Reader): MailFacts['quarantine'] {
  return { ...quarantineUsage(reader), ...QUARANTINE_BOUNDS };
}

async function agentsIn(reader: Reader, nowMs: number): Promise<StoredFacts['agents']> {
  const agents: StoredFacts['agents'] = [];
  for await (const { row: agent } of reader.range('agent', [])) {
    if (agent.removedAtMs !== null) continue;
    const { unreadWaking } = mailboxOf(reader, agent.agentId);
    agents.push({ agent, unreadWaking, sessions: await liveSessions(reader, agent.agentId, nowMs) });
  }
  return agents;
}
