/**
 * What the daemon knows that a person may want to type next: agents, hosts, messages. It answers at once or not at all, and
 * nothing that it is asked changes anything: a shell asks at every key.
 */
import { DaemonClient } from '../../host/api/client.ts';
import type { InputOf, OperationName, OutputOf } from '../../host/api/operations.ts';
import { OWNER_NAME } from '../../host/core/address.ts';
import { ownPaths } from '../../host/base/paths.ts';
import type { CommandContext } from './context.ts';

/** A word that may come next, and what it stands for. */
export interface CompletionWord {
  word: string;
  about: string;
}

/** A daemon that takes longer is not waited for. */
const ANSWER_MS = 1_000;
const PAGE = 20;

export class CompletionSources {
  readonly #client: DaemonClient;
  /** The agent that the command acts as, if it says so. */
  readonly #as: string | undefined;

  constructor(context: CommandContext, as: string | undefined) {
    const { socket, store } = ownPaths(context);
    this.#client = new DaemonClient(socket, store);
    this.#as = as;
  }

  async agents(): Promise<CompletionWord[]> {
    const { agents } = await this.#ask('list-agents', {});
    return agents.map(({ name, roles, presence }) => ({ word: name, about: [presence, ...roles].join(', ') }));
  }

  async actors(): Promise<CompletionWord[]> {
    return [...(await this.agents()), { word: OWNER_NAME, about: 'you' }];
  }

  /** Of this host, without asking others: that would take a while. */
  async addresses(): Promise<CompletionWord[]> {
    const { agents } = await this.#ask('list-agents', {});
    const roles = [...new Set(agents.flatMap((agent) => agent.roles))];
    return [...(await this.actors()), ...roles.map((role) => ({ word: `role:${role}`, about: 'all with this role' }))];
  }

  async hosts(): Promise<CompletionWord[]> {
    const { peers } = await this.#ask('peers', {});
    return peers.map(({ host, fingerprint }) => ({ word: host, about: fingerprint }));
  }

  /** What is unread in the mailbox. A list would tell the senders that the agent was notified. */
  async messages(): Promise<CompletionWord[]> {
    const { summaries } = await this.#ask('watch-inbox', {});
    return summaries.map(({ message_id, from, subject }) => ({ word: message_id, about: `${from}: ${subject}` }));
  }

  async sent(): Promise<CompletionWord[]> {
    const { messages } = await this.#ask('mail-sent', { limit: PAGE });
    return messages.map(({ message_id, subject }) => ({ word: message_id, about: subject }));
  }

  async messagesAndSent(): Promise<CompletionWord[]> {
    return [...(await this.messages()), ...(await this.sent())];
  }

  async outboxRows(): Promise<CompletionWord[]> {
    const { rows } = await this.#ask('outbox', { limit: PAGE });
    return rows.map(({ row, host, state }) => ({ word: String(row), about: `${state}, for ${host}` }));
  }

  async quarantined(): Promise<CompletionWord[]> {
    const { items } = await this.#ask('quarantine', { limit: PAGE });
    return items.map(({ number, reason, detail }) => ({ word: String(number), about: `${reason}: ${detail}` }));
  }

  async sessions(): Promise<CompletionWord[]> {
    const { sessions } = await this.#ask('session-list', {});
    return sessions.map(({ session_id, agent, presence }) => ({ word: session_id, about: `${agent}, ${presence}` }));
  }

  #ask<N extends OperationName>(name: N, input: InputOf<N>): Promise<OutputOf<N>> {
    const signal = AbortSignal.timeout(ANSWER_MS);
    return this.#client.call(name, input, { as: this.#as, signal });
  }
}

export type SourceName = Exclude<keyof CompletionSources, 'constructor'>;
