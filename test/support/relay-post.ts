/**
 * Daemons that are paired and reach each other over a relay alone, all processes of their own, with a proxy between
 * them and the relay; and an oracle outside of them. Call these inside a test.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { atTestEnd } from './test-end.ts';
import type { MessageSummary } from '../../src/host/contract/mail.ts';
import { eventually } from './eventually.ts';
import { FlakyProxy, NO_CHANCES } from './flaky-proxy.ts';
import { KilledDaemon } from './killed-daemon.ts';
import { KilledRelay } from './killed-relay.ts';
import { MailOracle } from './mail-oracle.ts';
import { makePairedStores } from './paired-stores.ts';
import { SeededRandom } from './seeded-random.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { found } from './found.ts';

export const HOST_NAMES = ['north', 'south', 'west'] as const;
export type HostName = (typeof HOST_NAMES)[number];
const AGENT = 'agent';
const DELIVERED: ReadonlySet<string> = new Set(['delivered', 'notified', 'read', 'acked']);

/** Homes of hosts that are paired and lost each other on the LAN: made once, and copied for each test. */
export function makePairedHosts(): Promise<{ folder: string; remove: () => Promise<void> }> {
  return makePairedStores(HOST_NAMES, AGENT);
}

async function openProxy(relay: KilledRelay): Promise<FlakyProxy> {
  const proxy = await FlakyProxy.open(new SeededRandom(1), () => relay.port);
  atTestEnd(() => proxy.close());
  return proxy;
}

export interface RelayPostOptions {
  /** The folder of `makePairedHosts`. */
  paired: string;
  /** The hosts that take part; north and south when absent. */
  names?: readonly HostName[];
  /** Arguments of `relay serve`. */
  relay?: readonly string[];
  /** Those to whom nothing of v2 is there to be seen; nobody when absent. */
  v1Only?: readonly HostName[];
}

/** One accepted message. */
interface Mail {
  subject: string;
  /** The number of times that it is in its mailbox. */
  times: number;
  alerts: number;
  /** The state of its recipient, as its sender is told. */
  state: string;
}

export interface PostOutcome {
  /** A line for each message that did not arrive exactly once with its sender knowing, or never with an alert. */
  wrong: string[];
  /** Messages whose senders were alerted. */
  alerted: number;
  /** Items that are in quarantine somewhere. */
  quarantined: number;
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
    v1Only = [],
  }: RelayPostOptions): Promise<RelayPost> {
    const folder = await temporaryFolder();
    const relay = await KilledRelay.begin(args);
    const [proxy, v1Proxy] = [await openProxy(relay), await openProxy(relay)];
    v1Proxy.isV1Only = true;
    const urlOf = (name: HostName): string => (v1Only.includes(name) ? v1Proxy : proxy).url;
    await cp(paired, folder, { recursive: true });
    const daemons = await Promise.all(names.map((name) => KilledDaemon.over(name, join(folder, name))));
    for (const [at, name] of names.entries()) {
      await daemons[at]?.answered((one) => one.call('relay-set', { url: urlOf(name) }));
    }
    // A host that the relay does not know yet is asked for again after a minute.
    for (const { client } of daemons) {
      const { state, problem } = await eventually(
        () => client.call('relay-status', {}),
        (answer) => answer.state === 'ready',
      );
      if (state !== 'ready') throw new Error(`the relay is ${state}: ${problem?.message}`);
    }
    return new RelayPost(relay, v1Only.length === names.length ? v1Proxy : proxy, daemons);
  }

  private constructor(relay: KilledRelay, proxy: FlakyProxy, daemons: readonly KilledDaemon[]) {
    this.relay = relay;
    this.proxy = proxy;
    this.daemons = daemons;
  }

  daemon(name: HostName): KilledDaemon {
    return found(
      this.daemons.find((one) => one.name === name),
      `${name} takes no part`,
    );
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

  /** Resolves when every message is in its mailbox once, whatever its sender knows of that; or it takes too long. */
  async arrived(): Promise<void> {
    await eventually(
      () => this.#mail(),
      (mail) => mail.every(({ times }) => times === 1),
    );
  }

  /**
   * Resolves when every sender knows that its message was seen, so that nothing is on its way any more. To look at a
   * mailbox makes a receipt: a test that only saw the mail arrive has receipts of its own under way.
   */
  async settled(): Promise<void> {
    const mail = await eventually(
      () => this.#mail(),
      (seen) => seen.every(({ state }) => state === 'notified'),
    );
    const late = mail.filter(({ state }) => state !== 'notified');
    if (late.length > 0) throw new Error(`not settled: ${JSON.stringify(late)}`);
  }

  /**
   * Returns what became of all that was accepted, once as many senders as are said were alerted and nothing is wrong,
   * or when that takes too long.
   */
  outcome(alerted: number): Promise<PostOutcome> {
    return eventually(
      () => this.#outcome(),
      (outcome) => outcome.wrong.length === 0 && outcome.alerted === alerted,
    );
  }

  async #outcome(): Promise<PostOutcome> {
    const mail = await this.#mail();
    const wrong = mail
      .filter((one) => !isRight(one))
      .map(({ subject, times, alerts, state }) => `${subject}: ${times} times, ${alerts} alerts, ${state}`);
    let quarantined = 0;
    for (const daemon of this.daemons) {
      quarantined += (await daemon.answered((client) => client.call('quarantine', {}))).total_items;
    }
    return { wrong, alerted: mail.filter(({ alerts }) => alerts > 0).length, quarantined };
  }

  async #mail(): Promise<Mail[]> {
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

function isRight({ times, alerts, state }: Mail): boolean {
  if (times === 1) return alerts > 0 || DELIVERED.has(state);
  return times === 0 && alerts > 0 && !DELIVERED.has(state);
}
