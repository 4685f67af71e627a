/** Two hosts, each a process with a store that syncs, that send each other mail over loopback or a relay. */
import type { Environment } from '../test/support/poste-process.ts';
import { type RemoteHost, startMailHost } from './mail-host.ts';
import { type BenchRelay, startBenchRelay } from './relay-process.ts';

/** The sender sees two changes for one message that was sent: it is there, and its receipt came. */
const CHANGES = 2;
const TO = 'agent@bob';

/** The ways between the hosts. */
export interface Ways {
  lan: boolean;
  relay: boolean;
}

export class MailPair {
  readonly #alice: RemoteHost;
  readonly #bob: RemoteHost;
  readonly #relay: BenchRelay | undefined;

  private constructor(alice: RemoteHost, bob: RemoteHost, relay: BenchRelay | undefined) {
    this.#alice = alice;
    this.#bob = bob;
    this.#relay = relay;
  }

  /** Resolves when a message has gone there and its receipt has come back. */
  static async begin(ways: Ways, environment: Environment = {}): Promise<MailPair> {
    const relay = ways.relay ? await startBenchRelay({ environment }) : undefined;
    const [alice, bob] = [await startMailHost('alice', environment), await startMailHost('bob', environment)];
    if (ways.lan) {
      for (const host of [alice, bob]) await host.call('startLan');
      await alice.call('accept', await bob.call('invite', (await alice.call('shown')).publicKey));
    } else {
      await alice.call('pin', await bob.call('shown'));
      await bob.call('pin', await alice.call('shown'));
    }
    if (relay) for (const host of [bob, alice]) await host.call('useRelay', `http://127.0.0.1:${relay.port}`);
    const pair = new MailPair(alice, bob, relay);
    await pair.confirmed(() => pair.send(1, 1), 1);
    return pair;
  }

  /** The processes, by the machine that each is in life. */
  get pids(): Record<string, number> {
    const [sender, receiver] = [this.#alice.pid, this.#bob.pid];
    return {
      "the sender's host": sender,
      ...(this.#relay && { 'the relay': this.#relay.pid }),
      "the receiver's host": receiver,
    };
  }

  /** Resolves when the messages are durable at their senders' host, with the milliseconds that each took. */
  send(messages: number, senders: number): Promise<number[]> {
    return this.#alice.call('send', TO, messages, senders);
  }

  /** Resolves when `messages` more are confirmed to the sender's host than when `work` began. */
  confirmed(work: () => Promise<unknown>, messages: number): Promise<void> {
    return after(this.#alice, 'sent-changed', messages * CHANGES, work);
  }

  /** Resolves when the receiver's host has stored one more. */
  arrived(work: () => Promise<unknown>): Promise<void> {
    return after(this.#bob, 'mail-stored', 1, work);
  }

  /** The receiver's host cannot be reached over the LAN any more. */
  loseLan(): Promise<void> {
    return this.#bob.call('stopLan');
  }

  async end(): Promise<void> {
    for (const host of [this.#alice, this.#bob]) await host.end();
    await this.#relay?.stop();
  }
}

async function after(
  host: RemoteHost,
  type: 'sent-changed' | 'mail-stored',
  times: number,
  work: () => Promise<unknown>,
): Promise<void> {
  const wanted = (await host.call('count', type)) + times;
  await Promise.all([work(), host.call('reached', type, wanted)]);
}
