/** A `TestRelay` of several nodes that share a log: with each opening the next of them leads. */
import { join } from 'node:path';
import { LEASE_MS } from '../../src/relay/shared-log/leadership.ts';
import { joinLog } from '../../src/relay/shared-log/node.ts';
import type { LeadingNode } from '../../src/relay/shared-log/take-lead.ts';
import type { OpenStoreOptions } from '../../src/relay/store/open.ts';
import type { RelayStore } from '../../src/relay/store/relay-store.ts';
import { relay } from './hosts.ts';
import { ManualTimers } from './manual-time.ts';
import { MemoryLogServer } from './memory-log.ts';
import { TestRelay, type TestRelayOptions } from './test-relay.ts';

const NOBODY = { info: () => undefined, warn: () => undefined, error: () => undefined };

export class SharedTestRelay extends TestRelay {
  override readonly doubtsOldHeartbeats = false;
  readonly server = new MemoryLogServer();
  /** Of the nodes, in the order in which they lead. */
  readonly folders: readonly string[];
  #opened = 0;
  #node: LeadingNode | undefined;

  constructor(folder: string, nodes: number, options: TestRelayOptions) {
    super(folder, options);
    this.folders = Array.from({ length: nodes }, (_none, at) => join(folder, `node-${at}`));
    this.server.nowMs = () => this.clock.nowMs;
  }

  protected override async openStore(
    newEpoch: OpenStoreOptions['newEpoch'],
  ): Promise<{ store: RelayStore; notices: string[] }> {
    const folder = this.folders[this.#opened++ % this.folders.length] ?? '';
    const node = await joinLog({
      log: this.server.client(),
      durability: 'standby',
      leaseMs: LEASE_MS,
      acceptsSettings: false,
      folder,
      signer: relay.signer,
      settings: {},
      clock: { nowMs: () => this.clock.nowMs, monotonicMs: () => 0 },
      timers: new ManualTimers(),
      newEpoch,
      logger: NOBODY,
      signal: new AbortController().signal,
      onLost: () => undefined,
      onDoubt: () => undefined,
      onStalled: () => undefined,
    });
    if (!node) throw new Error('the node does not lead');
    this.#node = node;
    return node;
  }

  protected override async closeStore(): Promise<void> {
    await this.#node?.close();
  }
}
