/**
 * Hosts whose daemons are processes, that are paired, reach each other over relays alone, and are killed: what tests of
 * several relays ask of them.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import type { InboxInput, InboxResult, MessageSummary } from '../../src/host/contract/mail.ts';
import { eventually } from './eventually.ts';
import { KilledDaemon } from './killed-daemon.ts';
import type { Environment } from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { wholeMailbox } from './whole-mailbox.ts';

export const AGENT = 'agent';
export const HOST_NAMES = ['north', 'south', 'west'] as const;
type Name = (typeof HOST_NAMES)[number];

interface HostOptions {
  /** Its relays, in this order. */
  urls: readonly string[];
  environment?: Environment;
}

export class RelayedHost {
  readonly name: Name;
  readonly daemon: KilledDaemon;

  private constructor(name: Name, daemon: KilledDaemon) {
    this.name = name;
    this.daemon = daemon;
  }

  /** `paired`: what `makePairedStores` left. A relay may not know one of them before another. */
  static async all<const Names extends readonly Name[]>(
    paired: string,
    names: Names,
    options: HostOptions,
  ): Promise<{ -readonly [At in keyof Names]: RelayedHost }> {
    const hosts = await Promise.all(names.map((name) => RelayedHost.#begin(join(paired, name), name, options)));
    await RelayedHost.ready(hosts);
    return hosts as { -readonly [At in keyof Names]: RelayedHost };
  }

  static async #begin(home: string, name: Name, { urls, environment = {} }: HostOptions): Promise<RelayedHost> {
    const folder = join(await temporaryFolder(), name);
    await cp(home, folder, { recursive: true });
    const host = new RelayedHost(name, await KilledDaemon.over(name, folder, { environment }));
    for (const [at, url] of urls.entries())
      await host.daemon.answered((client) => client.call(at === 0 ? 'relay-set' : 'relay-add', { url }));
    return host;
  }

  /** Resolves when each of them can use all of its relays. */
  static async ready(hosts: readonly RelayedHost[]): Promise<void> {
    for (const host of hosts) await host.#ready();
  }

  async #ready(): Promise<void> {
    const ask = () => this.daemon.answered((client) => client.call('relay-list', {}));
    const states = await eventually(
      async () => (await ask()).relays.map(({ state }) => state),
      (all) => all.every((state) => state === 'ready'),
    );
    if (states.some((state) => state !== 'ready')) throw new Error(`${this.daemon.name}: ${states.join(', ')}`);
  }

  /** Resolves with the message id. `to`: the other one of two when absent. */
  async send(subject: string, to: Name = this.name === 'north' ? 'south' : 'north'): Promise<string> {
    const input = { to: [`${AGENT}@${to}`], subject, body: `${subject}: words`, idempotency_key: subject };
    return (await this.daemon.answered((client) => client.call('mail-send', input, { as: AGENT }))).message_id;
  }

  /** The subjects in its mailbox, oldest first: the last hundred. */
  async subjects(): Promise<string[]> {
    return subjectsOf((await this.#inbox({ state: 'all', limit: 100 })).summaries ?? []);
  }

  /** All of them. */
  async allSubjects(): Promise<string[]> {
    return subjectsOf(await wholeMailbox((input) => this.#inbox(input)));
  }

  #inbox(input: InboxInput): Promise<InboxResult> {
    return this.daemon.answered((client) => client.call('mail-inbox', input, { as: AGENT }));
  }

  /** The addresses of the relays that took a message, as far as this host knows. */
  async tookIt(messageId: string): Promise<(string | null)[]> {
    const { rows } = await this.daemon.answered((client) => client.call('trace', { message_id: messageId }));
    return rows[0]?.relays?.map(({ url }) => url) ?? [];
  }

  /** Resolves when every message of its outbox was confirmed. Nobody was told that one did not arrive. */
  async confirmed(): Promise<void> {
    const shown = async (show: 'open' | 'undelivered'): Promise<string[]> => {
      const { rows } = await this.daemon.answered((client) => client.call('outbox', { show }));
      return rows.map(({ state }) => state);
    };
    const open = async (): Promise<string[]> => [...(await shown('open')), ...(await shown('undelivered'))];
    const left = await eventually(open, (states) => states.length === 0);
    if (left.length > 0) throw new Error(`${this.daemon.name} has no receipt for what is ${left.join(', ')}`);
  }
}

function subjectsOf(summaries: readonly MessageSummary[]): string[] {
  return summaries.map(({ subject }) => subject).toReversed();
}
