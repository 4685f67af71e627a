/**
 * Finds who waits for whom, as the rows of debts have it: of one agent, or of all agents of this host. A debt between
 * two agents of this host is one, though it has a row at either.
 */
import { isoSecond, timeMsOf } from '../../protocol/time.ts';
import { LAN_AGENTS_MAX } from '../../protocol/lan.ts';
import { presentAgents } from '../agents/agents.ts';
import { isAgentLive } from '../agents/sessions.ts';
import type { HostContext } from '../base/context.ts';
import { DEBTS_SHOWN_MAX } from '../contract/limits.ts';
import type { Debt, WaitingInput, WaitingResult, WaitingSummary, Whereabouts } from '../contract/waiting.ts';
import { addressOf } from '../core/address.ts';
import { howGone, type OwedRow } from '../core/debts.ts';
import type { Refusal } from '../core/refusal.ts';
import {
  type Address,
  type AgentId,
  type MessageRef,
  type MessageRow,
  OWNER_ID,
  type PeerId,
  type SentRecipient,
} from '../core/rows.ts';
import { spanText } from '../core/spans.ts';
import { wayOfMail } from '../core/transport-choice.ts';
import { nameOf, refuseAbsentAgent } from '../mailbox/mailbox.ts';
import type { RelayReach } from '../outbox/peer-work.ts';
import type { Reader } from '../store/host-store.ts';
import { entryOf } from './inbox-pages.ts';
import { recipientView } from './sent.ts';

/** One answer looks at this number of debts. */
const LOOKED_AT_MAX = 10_000;

/** Null for all agents of this host. Refuses `NO_SUCH_AGENT`. */
export function listWaiting(
  context: HostContext,
  agentId: AgentId | null,
  { limit = DEBTS_SHOWN_MAX }: Pick<WaitingInput, 'limit'>,
  reach?: RelayReach,
): Promise<WaitingResult | Refusal> {
  return context.store.read<WaitingResult | Refusal>(async (reader) => {
    const absent = agentId === null ? undefined : refuseAbsentAgent(reader, agentId);
    return absent ?? waitingPage(reader, context, agentId, limit, reach);
  });
}

/** The debts of one agent as its tools show them. */
export async function showWaiting(
  reader: Reader,
  context: HostContext,
  agentId: AgentId,
  limit: number,
  reach?: RelayReach,
): Promise<WaitingSummary> {
  const { debts, total } = await waitingPage(reader, context, agentId, limit, reach);
  const you = addressOf(nameOf(reader, agentId), context.identity().hostName);
  const nowMs = context.nowMs();
  const you_owe: WaitingSummary['you_owe'] = [];
  const owed_to_you: WaitingSummary['owed_to_you'] = [];
  for (const { message_id, subject, since, ...debt } of debts) {
    const head = { message_id, subject, since, age: spanText(nowMs - timeMsOf(since)) };
    if (debt.debtor === you) you_owe.push({ to: debt.asker, ...head, is: debt.asker_is });
    else owed_to_you.push({ from: debt.debtor, ...head, state: debt.state, at: debt.at, is: debt.debtor_is });
  }
  return { you_owe, owed_to_you, ...(total > debts.length && { more: total - debts.length }) };
}

interface FoundDebt {
  sinceMs: number;
  show: () => Promise<Debt>;
}

async function waitingPage(
  reader: Reader,
  context: HostContext,
  agentId: AgentId | null,
  limit: number,
  reach: RelayReach | undefined,
): Promise<WaitingResult> {
  const look = new DebtLook(reader, context, reach);
  const holders =
    agentId === null ? [OWNER_ID, ...(await presentAgents(reader)).map((agent) => agent.agentId)] : [agentId];
  for (const holder of holders) await look.addAsked(holder);
  for (const holder of holders) await look.addOwed(holder);
  const found = [...look.found.values()].toSorted((a, b) => a.sinceMs - b.sinceMs);
  const debts: Debt[] = [];
  for (const { show } of found.slice(0, limit)) debts.push(await show());
  return { debts, total: found.length };
}

/** One answer's look at the rows of debts. */
class DebtLook {
  readonly #reader: Reader;
  readonly #context: HostContext;
  readonly #reach: RelayReach | undefined;
  /** The debts, by the question and its debtor. */
  readonly found = new Map<string, FoundDebt>();

  constructor(reader: Reader, context: HostContext, reach: RelayReach | undefined) {
    this.#reader = reader;
    this.#context = context;
    this.#reach = reach;
  }

  /** Adds what the agent waits for. */
  async addAsked(asker: AgentId): Promise<void> {
    const reader = this.#reader;
    for await (const { key, row } of reader.range('asked', [asker])) {
      if (this.found.size >= LOOKED_AT_MAX) return;
      const sent = reader.get('sent', key[1]);
      for (const { at } of row.open) {
        const recipient = sent?.recipients[at];
        if (!recipient) continue;
        const show = (): Promise<Debt> => this.#showAsked(asker, key[1], row.sinceMs, recipient);
        this.found.set(`${key[1]} ${recipient.agentId ?? recipient.address}`, { sinceMs: row.sinceMs, show });
      }
    }
  }

  /** Adds what the agent owes; a debt that its asker's row showed too takes the place of that. */
  async addOwed(debtor: AgentId): Promise<void> {
    for await (const { key, row } of this.#reader.range('owed', [debtor])) {
      if (this.found.size >= LOOKED_AT_MAX) return;
      this.found.set(`${row.ref} ${debtor}`, { sinceMs: row.sinceMs, show: () => this.#showOwed(debtor, key[1], row) });
    }
  }

  async #showAsked(asker: AgentId, ref: MessageRef, sinceMs: number, recipient: SentRecipient): Promise<Debt> {
    const reader = this.#reader;
    const message = messageOf(reader, ref);
    const { address, agentId, peerId } = recipient;
    const { state, at } = recipientView(reader, recipient, message.id);
    const position = agentId === null ? undefined : reader.get('place', agentId, ref);
    const owed = agentId === null || position === undefined ? undefined : reader.get('owed', agentId, position);
    return {
      message_id: ref,
      subject: message.subject,
      asker: this.#addressOf(asker),
      debtor: agentId === null ? address : this.#addressOf(agentId),
      since: isoSecond(sinceMs),
      state,
      at,
      asker_is: await this.#whereAgentIs(asker),
      debtor_is: agentId === null ? this.#wherePeerIs(peerId, recipient, sinceMs) : await this.#whereAgentIs(agentId),
      reminded_at: remindedAt(owed),
    };
  }

  async #showOwed(debtor: AgentId, position: number, owed: OwedRow): Promise<Debt> {
    const message = messageOf(this.#reader, owed.ref);
    const entry = entryOf(this.#reader, debtor, owed.ref) ?? this.#reader.get('entry', debtor, position);
    if (!entry) throw new Error('invariant: what is owed is in the mailbox');
    const { fromAgent, fromPeer, from, storedAtMs } = message;
    const { readAtMs, notifiedAtMs } = entry;
    const state = readAtMs !== null ? 'read' : notifiedAtMs !== null ? 'notified' : 'delivered';
    // It was there when it asked.
    const asker = { address: from, state: 'read', atMs: storedAtMs } as const;
    return {
      message_id: owed.ref,
      subject: message.subject,
      asker: fromAgent === null ? from : this.#addressOf(fromAgent),
      debtor: this.#addressOf(debtor),
      since: isoSecond(owed.sinceMs),
      state,
      at: isoSecond(readAtMs ?? notifiedAtMs ?? entry.storedAtMs),
      asker_is:
        fromAgent === null ? this.#wherePeerIs(fromPeer, asker, storedAtMs) : await this.#whereAgentIs(fromAgent),
      debtor_is: await this.#whereAgentIs(debtor),
      reminded_at: remindedAt(owed),
    };
  }

  #addressOf(agentId: AgentId): Address {
    return addressOf(nameOf(this.#reader, agentId), this.#context.identity().hostName);
  }

  async #whereAgentIs(agentId: AgentId): Promise<Whereabouts> {
    if (refuseAbsentAgent(this.#reader, agentId)) return 'gone';
    return (await isAgentLive(this.#reader, this.#context, agentId)) ? 'live' : 'offline';
  }

  #wherePeerIs(peerId: PeerId | null, known: Parameters<typeof howGone>[0], askedAtMs: number): Whereabouts {
    const peer = peerId === null ? undefined : this.#reader.get('peer', peerId);
    if (!peer) return 'gone';
    const gone = howGone(known, { isRemoved: false, peer, listMax: LAN_AGENTS_MAX, askedAtMs });
    if (gone !== undefined) return gone === 'unlisted' ? 'unlisted' : 'gone';
    const relay = this.#reach ? this.#reach.factsFor(peer) : 'unknown';
    return wayOfMail(peer, relay) === 'none' ? 'unreachable' : 'remote';
  }
}

function messageOf(reader: Reader, ref: MessageRef): MessageRow {
  const message = reader.get('message', ref);
  if (!message) throw new Error('invariant: a question is kept with its debts');
  return message;
}

function remindedAt(owed: OwedRow | undefined): string | null {
  return owed && owed.remindedAtMs !== null ? isoSecond(owed.remindedAtMs) : null;
}
