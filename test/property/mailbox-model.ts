/**
 * Models what a host's mail does, without indexes, counters or transactions: agents with names, and lists of messages.
 *
 * Addresses are agent names, `*` and roles; who is meant is found by looking at everybody.
 */
export type ModelState = 'unread' | 'read' | 'acked';

interface ModelAgent {
  name: string;
  roles: string[];
  isRemoved: boolean;
}

interface ModelMessage {
  id: string;
  thread: string;
  from: number;
  wakes: boolean;
}

interface ModelEntry {
  message: ModelMessage;
  state: ModelState;
  handledAtMs: number;
}

export class MailboxModel {
  readonly agents: ModelAgent[] = [];
  /** The agent that a name means, or meant when it was last given away. */
  readonly #names = new Map<string, number>();
  readonly #mailboxes: ModelEntry[][] = [];
  readonly #sent: (ModelMessage & { sentAtMs: number; isDropped: boolean })[] = [];

  present(): number[] {
    return this.agents.flatMap((agent, at) => (agent.isRemoved ? [] : [at]));
  }

  add(name: string, roles: string[]): boolean {
    if (this.#holder(name) !== undefined) return false;
    this.#names.set(name, this.agents.length);
    this.agents.push({ name, roles, isRemoved: false });
    this.#mailboxes.push([]);
    return true;
  }

  rename(agent: number, name: string): boolean {
    const holder = this.#holder(name);
    if (holder !== undefined && holder !== agent) return false;
    this.#names.set(name, agent);
    this.agents[agent]!.name = name;
    return true;
  }

  remove(agent: number): void {
    this.agents[agent]!.isRemoved = true;
  }

  /** Returns whom a message goes to, or undefined when it is refused. */
  send(from: number, to: readonly string[], message: Omit<ModelMessage, 'from'>, nowMs: number): number[] | undefined {
    const recipients: number[] = [];
    for (const address of to) {
      const meant = this.#meant(from, address);
      if (meant.length === 0) return undefined;
      recipients.push(...meant);
    }
    const distinct = [...new Set(recipients)];
    const kept = { ...message, from };
    for (const recipient of distinct) {
      this.#mailboxes[recipient]!.push({ message: kept, state: 'unread', handledAtMs: nowMs });
    }
    this.#sent.push({ ...kept, sentAtMs: nowMs, isDropped: false });
    return distinct;
  }

  /** Those of the ids that change. */
  mark(agent: number, ids: readonly string[], to: 'read' | 'acked', nowMs: number): string[] {
    return [...new Set(ids)].filter((id) => {
      const entry = this.#mailboxes[agent]!.find(({ message }) => message.id === id);
      if (!entry || entry.state === to || entry.state === 'acked') return false;
      entry.state = to;
      entry.handledAtMs = nowMs;
      return true;
    });
  }

  sweep(nowMs: number, retentionMs: number): void {
    for (const [at, mailbox] of this.#mailboxes.entries()) {
      const isDue = ({ state, handledAtMs }: ModelEntry) =>
        this.agents[at]!.isRemoved || (state !== 'unread' && handledAtMs + retentionMs <= nowMs);
      this.#mailboxes[at] = mailbox.filter((entry) => !isDue(entry));
    }
    for (const sent of this.#sent) sent.isDropped ||= sent.sentAtMs + retentionMs <= nowMs;
  }

  /** Newest first. */
  list(agent: number, state: 'unread' | 'unacked' | 'all'): string[] {
    return this.#mailboxes[agent]!.filter(
      (entry) => state === 'all' || (state === 'unread' ? entry.state === 'unread' : entry.state !== 'acked'),
    )
      .map(({ message }) => message.id)
      .toReversed();
  }

  counts(agent: number): { total: number; unread: number; unreadWaking: number } {
    const unread = this.#mailboxes[agent]!.filter(({ state }) => state === 'unread');
    const unreadWaking = unread.filter(({ message }) => message.wakes).length;
    return { total: this.#mailboxes[agent]!.length, unread: unread.length, unreadWaking };
  }

  /** Ids that an agent may name, oldest first. */
  known(agent: number): string[] {
    const received = this.#mailboxes[agent]!.map(({ message }) => message.id);
    const sent = this.#sent.filter((one) => one.from === agent && !one.isDropped).map(({ id }) => id);
    return [...new Set([...received, ...sent])];
  }

  thread(agent: number, id: string): string {
    const all = [...this.#sent, ...this.#mailboxes[agent]!.map(({ message }) => message)];
    return all.find((message) => message.id === id)!.thread;
  }

  /** Every message that somebody keeps. */
  kept(): string[] {
    const received = this.#mailboxes.flat().map(({ message }) => message.id);
    return [...new Set([...received, ...this.#sent.filter((one) => !one.isDropped).map(({ id }) => id)])];
  }

  #holder(name: string): number | undefined {
    const at = this.agents.findIndex((agent) => agent.name === name && !agent.isRemoved);
    return at < 0 ? undefined : at;
  }

  #meant(from: number, address: string): number[] {
    if (address === '*') return this.present().filter((agent) => agent !== from);
    if (address.startsWith('role:')) {
      const role = address.slice('role:'.length);
      return this.present().filter((agent) => agent !== from && this.agents[agent]!.roles.includes(role));
    }
    const agent = this.#names.get(address);
    return agent === undefined || this.agents[agent]!.isRemoved ? [] : [agent];
  }
}
