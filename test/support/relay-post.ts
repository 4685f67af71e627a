/**
 * Daemons that are paired and reach each other over a relay alone, all processes of their own, with a proxy between them
 * and the relay; and an oracle outside of them. Call these inside a test.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { MessageSummary } from '../../src/host/documents/mail.ts';
import { FlakyProxy, NO_CHANCES } from './flaky-proxy.ts';
import { KilledDaemon } from './killed-daemon.ts';
import { KilledRelay } from './killed-relay.ts';
import { MailOracle } from './mail-oracle.ts';
import { SeededRandom } from './seeded-random.ts';
import { disposableFolder, temporaryFolder } from './temporary-folder.ts';

export const HOST_NAMES = ['north', 'south', 'west'] as const;
export type HostName = (typeof HOST_NAMES)[number];
/** Nobody listens there. */
const NOWHERE = '127.0.0.1:1';
const AGENT = 'agent';
const SETTLED_MS = 90_000;
const DELIVERED: ReadonlySet<string> = new Set(['delivered', 'notified', 'read', 'acked']);

/**
 * Folders of hosts that were paired over the LAN and lost each other there: made once, and copied for each test. Whoever
 * makes it removes it.
 */
export async function makePairedHosts(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const made = await disposableFolder();
  const daemons = await Promise.all(HOST_NAMES.map((name) => KilledDaemon.begin(name)));
  for (const daemon of daemons) await daemon.answered((client) => client.call('add-agent', { name: AGENT }));
  for (const [at, accepting] of daemons.entries()) {
    for (const inviting of daemons.slice(0, at)) {
      const { code } = await inviting.answered((client) => client.call('pair-invite', {}));
      await accepting.answered((client) => client.call('pair-accept', { code, address: inviting.lanAddress }));
    }
  }
  for (const daemon of daemons) await loseTheOthers(daemon);
  for (const daemon of daemons) {
    expect((await daemon.stop()).code).toBe(0);
    await cp(join(daemon.folder, 'store'), join(made.folder, daemon.name, 'store'), { recursive: true });
  }
  return made;
}

/** Two calls fail for each of the others, as the LAN has to before a relay is asked. */
async function loseTheOthers(daemon: KilledDaemon): Promise<void> {
  const { client } = daemon;
  for (const host of HOST_NAMES.filter((name) => name !== daemon.name)) {
    await client.call('peer-address', { host, address: NOWHERE });
    for (const failures of [1, 2]) {
      await client.call('mail-send', { to: [`${AGENT}@${host}`], subject: 'lost', body: 'words' }, { as: AGENT });
      const failed = async (): Promise<number> =>
        (await client.call('peers', {})).peers.find((peer) => peer.host === host)?.lan_failures ?? 0;
      await expect.poll(failed, { interval: 20 }).toBeGreaterThanOrEqual(failures);
    }
  }
  for (const { row } of (await client.call('outbox', {})).rows) await client.call('outbox-cancel', { row });
}

export interface RelayPostOptions {
  /** The folder of `makePairedHosts`. */
  paired: string;
  /** Who takes part; north and south when absent. */
  names?: readonly HostName[];
  /** Arguments of `relay serve`. */
  relay?: readonly string[];
  /** Whether nothing of v2 is there to be seen. */
  isV1Only?: boolean;
}

export class RelayPost {
  readonly oracle = new MailOracle();
  readonly relay: KilledRelay;
  readonly proxy: FlakyProxy;
  readonly daemons: readonly KilledDaemon[];

  static async begin({
    paired,
    names = ['north', 'south'],
    relay: args,
    isV1Only = false,
  }: RelayPostOptions): Promise<RelayPost> {
    const folder = await temporaryFolder();
    const relay = await KilledRelay.begin(args);
    const proxy = await FlakyProxy.open(new SeededRandom(1), () => relay.port);
    onTestFinished(() => proxy.close());
    proxy.isV1Only = isV1Only;
    await cp(paired, folder, { recursive: true });
    const daemons = await Promise.all(names.map((name) => KilledDaemon.over(name, join(folder, name))));
    await Promise.all(daemons.map((daemon) => daemon.answered((one) => one.call('relay-set', { url: proxy.url }))));
    // A host that the relay does not know yet is asked for again after a minute.
    for (const { client } of daemons) {
      await expect.poll(async () => (await client.call('relay-status', {})).state, { interval: 20 }).toBe('ready');
    }
    return new RelayPost(relay, proxy, daemons);
  }

  private constructor(relay: KilledRelay, proxy: FlakyProxy, daemons: readonly KilledDaemon[]) {
    this.relay = relay;
    this.proxy = proxy;
    this.daemons = daemons;
  }

  daemon(name: HostName): KilledDaemon {
    const daemon = this.daemons.find((one) => one.name === name);
    if (!daemon) throw new Error(`${name} takes no part`);
    return daemon;
  }

  /** `count` messages from each to each of the others, or as is said; they are accepted when it resolves. */
  async write(count: number, from: readonly KilledDaemon[] = this.daemons): Promise<void> {
    for (let at = 0; at < count; at++) {
      await Promise.all(
        from.flatMap((sender) =>
          this.daemons.filter((other) => other !== sender).map((other) => this.#send(sender, other)),
        ),
      );
    }
  }

  async #send(from: KilledDaemon, to: KilledDaemon): Promise<void> {
    const subject = `${from.name} to ${to.name} ${this.#count++}`;
    const said = { from: `${AGENT}@${from.name}`, body: `${subject}: words` };
    const input = { to: [`${AGENT}@${to.name}`], subject, body: said.body, idempotency_key: subject };
    const result = await from.answered((client) => client.call('mail-send', input, { as: AGENT }));
    this.oracle.accept(subject, said, result);
  }
  #count = 0;

  /** Their LAN is there again. */
  async meet(): Promise<void> {
    for (const here of this.daemons) {
      for (const { name: host, lanAddress: address } of this.daemons.filter((other) => other !== here)) {
        await here.answered((client) => client.call('peer-address', { host, address }));
      }
    }
  }

  /** Everybody sees a relay that works. */
  async calm(): Promise<void> {
    this.proxy.chances = NO_CHANCES;
    await Promise.all(this.daemons.map((daemon) => daemon.ready()));
  }

  /** Resolves when every message is in its mailbox once and its sender knows; fails when one comes twice. */
  async expectAllDelivered(): Promise<void> {
    const wrong = async (): Promise<string[]> =>
      (await this.#outcomes()).flatMap(({ subject, times, alerts, state }) =>
        times === 1 && alerts === 0 && DELIVERED.has(state) ? [] : [`${subject}: ${times}, ${alerts}, ${state}`],
      );
    await expect.poll(wrong, { interval: 200, timeout: SETTLED_MS }).toEqual([]);
    await this.#expectNothingKept();
  }

  /** Resolves when every message is in its mailbox once, whatever its sender knows of that. */
  async expectArrived(): Promise<void> {
    const times = async (): Promise<number[]> => [...new Set((await this.#outcomes()).map((one) => one.times))];
    await expect.poll(times, { interval: 200, timeout: SETTLED_MS }).toEqual([1]);
  }

  /** Resolves when every message arrived once, or never and its sender was alerted; answers how many were alerted. */
  async expectDeliveredOrAlerted(): Promise<number> {
    const lost = async (): Promise<string[]> =>
      (await this.#outcomes()).flatMap(({ subject, times, alerts, state }) =>
        times === 1 || (times === 0 && alerts > 0) ? [] : [`${subject}: ${times}, ${alerts}, ${state}`],
      );
    await expect.poll(lost, { interval: 200, timeout: SETTLED_MS }).toEqual([]);
    return (await this.#outcomes()).filter(({ alerts }) => alerts > 0).length;
  }

  async #expectNothingKept(): Promise<void> {
    for (const daemon of this.daemons) {
      expect(await daemon.answered((client) => client.call('quarantine', {}))).toMatchObject({ total_items: 0 });
    }
  }

  async #outcomes(): Promise<{ subject: string; times: number; alerts: number; state: string }[]> {
    const boxes = new Map<string, MessageSummary[]>();
    const states = new Map<string, string>();
    for (const daemon of this.daemons) {
      boxes.set(`${AGENT}@${daemon.name}`, await mailboxOf(daemon));
      const { messages } = await daemon.answered((one) => one.call('mail-sent', { limit: 100 }, { as: AGENT }));
      for (const { subject, recipients } of messages) states.set(subject, recipients[0]?.state ?? '');
    }
    return [...this.oracle.accepted].map(([subject, { from, messageId, recipients }]) => ({
      subject,
      times: (boxes.get(recipients[0] ?? '') ?? []).filter((mail) => mail.subject === subject).length,
      alerts: (boxes.get(from) ?? []).filter(({ kind, reply_to: about }) => kind === 'alert' && about === messageId)
        .length,
      state: states.get(subject) ?? '',
    }));
  }
}

async function mailboxOf(daemon: KilledDaemon): Promise<MessageSummary[]> {
  const ask = { state: 'all', limit: 100 } as const;
  return (await daemon.answered((client) => client.call('mail-inbox', ask, { as: AGENT }))).summaries ?? [];
}
