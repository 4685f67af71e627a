/** A relay whose log moves between the store of its folder and a shared log, and what must stay as it was. */
import { hash } from 'node:crypto';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import type { MoveOptions } from '../../src/relay/shared-log/move-log.ts';
import { joinLog } from '../../src/relay/shared-log/node.ts';
import type { SharedLog } from '../../src/relay/shared-log/shared-log.ts';
import type { LeadingNode } from '../../src/relay/shared-log/take-lead.ts';
import type { OpenStoreOptions } from '../../src/relay/store/open.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import { pushOf, rotateOf } from './commands.ts';
import { epochSource } from './epochs.ts';
import { alice, bob, carol, dave, hostNamed, relay } from './hosts.ts';
import type { MemoryLogServer } from './memory-log.ts';
import { TestRelay, type TestRelayOptions, outcomeOf } from './test-relay.ts';

export const NOBODY = { info: () => undefined, warn: () => undefined, error: () => undefined };
const ITEMS = Array.from({ length: 9 }, (_none, at) =>
  pushOf(alice, `item-${at}`, [
    [bob, `to bob ${at}`],
    [carol, `to carol ${at}`],
  ]),
);
const RENEWED = hostNamed('bob renewed');

export class MovedRelay extends TestRelay {
  readonly server: MemoryLogServer;
  where: 'store' | 'log' = 'store';
  #node: LeadingNode | undefined;
  /** The last record when the relay was looked at first. */
  #firstLsn: number | undefined;

  constructor(folder: string, server: MemoryLogServer, options: TestRelayOptions = {}) {
    super(folder, options);
    this.server = server;
    server.nowMs = () => this.clock.nowMs;
  }

  /** Returns what a command that moves the log is given; `client` makes its connections. */
  move(client: () => SharedLog = () => this.server.client()): MoveOptions {
    return {
      log: client(),
      newLog: async () => client(),
      durability: 'standby',
      folder: this.folder,
      signer: relay.signer,
      ...this.#waitingTime(),
      newEpoch: epochSource(),
      version: '0.0.0-test',
      logger: NOBODY,
      signal: new AbortController().signal,
      confirm: async () => undefined,
      step: async () => undefined,
    };
  }

  /** Time passes only while something waits for it: a lease that nobody renews ends by itself. */
  #waitingTime(): Pick<MoveOptions, 'clock' | 'timers'> {
    let monotonicMs = 0;
    const after = (ms: number, run: () => void): (() => void) => {
      // What would give up after seconds never does: the memory log answers at once.
      if (ms > LEASE_MS / 2) return () => undefined;
      const waiting = setImmediate(() => {
        monotonicMs += ms;
        run();
      });
      return () => clearImmediate(waiting);
    };
    return {
      clock: { nowMs: () => this.clock.nowMs, monotonicMs: () => monotonicMs },
      timers: { after, every: () => () => undefined },
    };
  }

  protected override async openStore(
    newEpoch: OpenStoreOptions['newEpoch'],
  ): Promise<{ store: RelayStore; notices: string[] }> {
    if (this.where === 'store') return super.openStore(newEpoch);
    const node = await joinLog({
      ...this.move(),
      leaseMs: LEASE_MS,
      acceptsSettings: false,
      settings: {},
      newEpoch,
    });
    if (!node) throw new Error('the node does not lead');
    this.#node = node;
    return node;
  }

  protected override async closeStore(): Promise<void> {
    await (this.where === 'store' ? super.closeStore() : this.#node?.close());
  }

  /** Mail that waits, that was acked in part, and that a rotation moved. */
  async fill(): Promise<void> {
    await this.enrolAll(alice, bob, carol, dave);
    await this.push(...ITEMS);
    const [, , , fourth] = await this.queue(carol);
    await this.ack(carol, fourth?.seq ?? 0);
    await this.rotate(rotateOf(bob, RENEWED));
    await this.push(pushOf(alice, 'late', [[RENEWED, 'to bob at last']]));
  }

  /** Returns the hashes of the records that were there when this was asked first. */
  async #recordHashes(): Promise<string[]> {
    const { store } = this;
    this.#firstLsn ??= store.lastLsn;
    const lsns = Array.from({ length: this.#firstLsn }, (_none, at) => at + 1);
    const records = await Promise.all(lsns.map((lsn) => store.record(lsn)));
    return records.map((record) => hash('sha256', record ?? ''));
  }

  /** Returns what hosts see of the relay, and the log as it was; opens and closes it. */
  async seen(where: 'store' | 'log'): Promise<object> {
    this.where = where;
    await this.open();
    try {
      const again = await this.push(...ITEMS);
      return {
        epoch: this.engine.epoch,
        records: await this.#recordHashes(),
        waiting: await Promise.all([RENEWED, carol].map((host) => this.wires(host))),
        seqs: await Promise.all([RENEWED, carol].map(async (host) => (await this.queue(host)).map(({ seq }) => seq))),
        again: again.map(outcomeOf),
      };
    } finally {
      await this.close();
    }
  }
}
