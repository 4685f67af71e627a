/**
 * A whole relay in this process, as `serve.ts` composes it, on a free port of 127.0.0.1 over a store in a temporary
 * folder. Clock and timers stand still until the test moves them.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { randomBytes } from 'node:crypto';
import { BINARY_TYPE } from '../../src/protocol/message-pack.ts';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import { DEFAULT_LIMITS, type Limits } from '../../src/protocol/limits.ts';
import { randomEpoch } from '../../src/protocol/names.ts';
import type { RelayEvent } from '../../src/relay/core/event.ts';
import type { QueueRow } from '../../src/relay/core/rows.ts';
import type { Relay, RelayOptions } from '../../src/relay/serve/options.ts';
import { STOP_WITHIN_MS, startRelay } from '../../src/relay/relay.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { PositionFile } from '../../src/relay/store/position.ts';
import type { Adapter } from './adapters.ts';
import { type Form, inBinary } from './binary-form.ts';
import { type Hop, type Signed, hopBytes, hopV1Bytes } from './hops.ts';
import { type TestHost, relay as relayHost } from './hosts.ts';
import { ManualClock, ManualTimers } from './manual-time.ts';
import { packedLoosely } from './plain-message-pack.ts';
import { type RawResponse, rawRequest } from './raw-http.ts';
import { disposableFolder, temporaryFolder } from './temporary-folder.ts';

export { ADAPTERS, type Adapter } from './adapters.ts';

export interface HttpRelayChanges extends Partial<Omit<RelayOptions, 'limits' | 'clock' | 'timers' | 'storeDir'>> {
  limits?: Partial<Limits>;
  /** The form in which hosts push, pull and ack: JSON when absent. */
  form?: Form;
}

export interface LogLine {
  level: 'info' | 'warn' | 'error';
  fields: object;
  message: string;
}

export class HttpRelay {
  readonly folder: string;
  readonly clock: ManualClock;
  readonly timers = new ManualTimers();
  readonly logged: LogLine[] = [];
  relay!: Relay;
  readonly #adapter: Adapter;
  readonly #changes: HttpRelayChanges;
  readonly #form: Form;

  constructor(
    folder: string,
    adapter: Adapter,
    { form = 'json', ...changes }: HttpRelayChanges,
    clock = new ManualClock(),
  ) {
    this.folder = folder;
    this.clock = clock;
    this.#adapter = adapter;
    this.#changes = changes;
    this.#form = form;
  }

  async start(changes: HttpRelayChanges = {}): Promise<void> {
    const { limits, ...others } = { ...this.#changes, ...changes };
    this.relay = await startRelay({
      storeDir: this.folder,
      signer: relayHost.signer,
      listen: { host: '127.0.0.1', port: 0 },
      adminListen: undefined,
      limits: { ...DEFAULT_LIMITS, ...limits },
      pushesPerMinute: 1_000_000,
      enrolRate: 1_000_000,
      enrolmentsMax: 10_000,
      admission: 'open',
      dedupRowsMax: 1_000_000,
      // Of a length that no other timer has, see `ManualTimers.underWay`.
      sweepMs: 59_000,
      diskFloorBytes: 0,
      trustProxy: 'none',
      bodyBytesMax: 8_388_608,
      version: '0.0.0-test',
      server: this.#adapter,
      clock: this.clock,
      timers: this.timers,
      randomBytes,
      log: {
        info: (fields, message) => void this.logged.push({ level: 'info', fields, message }),
        warn: (fields, message) => void this.logged.push({ level: 'warn', fields, message }),
        error: (fields, message) => void this.logged.push({ level: 'error', fields, message }),
      },
      ...others,
    });
  }

  get port(): number {
    return this.relay.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get epoch(): string {
    return this.relay.engine.epoch;
  }

  /** A client of `host` with the key of this relay pinned. */
  client(host: TestHost): RelayClient {
    const nowMs = (): number => this.clock.nowMs();
    const forms = this.#form === 'binary' ? [BINARY_TYPE] : [];
    return new RelayClient({ url: this.url, signer: host.signer, hostName: host.name, nowMs, forms }, relayHost.key);
  }

  /** Enrols the hosts and makes a first hop of each, so that none of what follows is a first one (`HostSeen`). */
  async enrol(...hosts: readonly TestHost[]): Promise<void> {
    for (const host of hosts) {
      await this.client(host).enrol();
      await this.client(host).ownInfo();
    }
  }

  /** As `enrol`, of hosts of the earlier protocol. */
  async enrolInV1(...hosts: readonly TestHost[]): Promise<void> {
    for (const host of hosts) {
      await this.client(host).enrol();
      await this.sendByName(host, 'GET', '/v1/relay/messages');
    }
  }

  /** A signed request in its parts, with what is needed filled in. */
  hop(host: TestHost, method: string, target: string, body?: string | Uint8Array): Hop {
    const { key: relayPubkey } = relayHost;
    return { host, relayPubkey, method, target, timestamp: this.clock.nowMs(), ...(body !== undefined && { body }) };
  }

  /** Sends a signed request over a connection of its own, as given or with parts of it wrong. */
  send(
    hop: Hop,
    signed: Signed = {},
    headers: Readonly<Record<string, string | undefined>> = {},
  ): Promise<RawResponse> {
    return rawRequest(this.port, hopBytes(hop, signed, headers), hop.method);
  }

  /**
   * Sends a signed request in the form of this relay's hosts, in the longest forms that MessagePack has; `jsonOf` reads
   * the answer in either.
   */
  ask(host: TestHost, method: string, target: string, document?: unknown): Promise<RawResponse> {
    if (this.#form === 'json') return this.send(this.hop(host, method, target, JSON.stringify(document)));
    const body = document === undefined ? undefined : packedLoosely(inBinary(document), (forms) => forms - 1);
    const type = body && { 'content-type': BINARY_TYPE };
    return this.send(this.hop(host, method, target, body), {}, { accept: BINARY_TYPE, ...type });
  }

  /** Sends a request whose hop is found by the name of its host. */
  sendByName(host: TestHost, method: string, target: string, body?: unknown): Promise<RawResponse> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return rawRequest(this.port, hopV1Bytes(this.hop(host, method, target, text)), method);
  }

  /** Returns how far the log has come, read from where the relay notes it before it answers. */
  async lastLsn(): Promise<number> {
    const { file, position } = await PositionFile.open(join(this.folder, 'position'));
    await file.close();
    if (!position) throw new Error('the relay has noted no position');
    return position.lsn;
  }

  /** Everything that waits for `target`. */
  async queue(target: TestHost): Promise<QueueRow[]> {
    const rows: QueueRow[] = [];
    for (let after = 0; ; ) {
      const page = await this.relay.engine.page(target.key, after, 500);
      rows.push(...page.rows);
      const last = page.rows.at(-1);
      if (!page.more || !last) return rows;
      after = last.seq;
    }
  }

  /** Returns what the relay said went wrong inside it. */
  get errors(): LogLine[] {
    return this.logged.filter(({ level }) => level === 'error');
  }

  async stop(): Promise<void> {
    await this.relay.stop();
  }

  /** Stops and cuts what a failed test left under way. */
  async stopAtOnce(): Promise<void> {
    const stopped = this.stop();
    this.timers.pass(STOP_WITHIN_MS);
    await stopped;
  }

  /** Stops, and starts again on the same store. */
  async restart(changes: HttpRelayChanges = {}): Promise<void> {
    await this.stop();
    await this.start(changes);
  }

  /** The whole log and the stored rows, raw, by key. The relay must be stopped. */
  async stored(): Promise<{ events: RelayEvent[]; rows: Record<string, string> }> {
    const { store } = await openStore({
      folder: this.folder,
      signer: relayHost.signer,
      nowMs: this.clock.nowMs(),
      newEpoch: () => randomEpoch(randomBytes),
    });
    try {
      const events: RelayEvent[] = [];
      for await (const { event } of store.read(1)) events.push(event);
      const rows: Record<string, string> = {};
      for await (const [key, value] of store.rawRows()) rows[key.toString('hex')] = value.toString('hex');
      return { events, rows };
    } finally {
      await store.close();
    }
  }
}

/** A relay for one test; call it inside. */
export async function relayForTest(adapter: Adapter, changes: HttpRelayChanges = {}): Promise<HttpRelay> {
  const relay = new HttpRelay(await temporaryFolder(), adapter, changes);
  await relay.start();
  onTestFinished(() => relay.stopAtOnce());
  return relay;
}

/** The same, at which these hosts are enrolled. */
export async function enrolledRelay(
  adapter: Adapter,
  hosts: readonly TestHost[],
  changes: HttpRelayChanges = {},
): Promise<HttpRelay> {
  const relay = await relayForTest(adapter, changes);
  await relay.enrol(...hosts);
  return relay;
}

/**
 * One relay for the tests of a describe block; call it there. `current` is there from the first test on; at the end it
 * must have logged no error.
 */
export function relayForSuite(adapter: Adapter, changes: HttpRelayChanges = {}): { current: HttpRelay } {
  const suite = {} as { current: HttpRelay };
  let remove: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    const disposable = await disposableFolder();
    remove = disposable.remove;
    const relay = new HttpRelay(disposable.folder, adapter, changes);
    await relay.start();
    suite.current = relay;
  });
  afterAll(async () => {
    // A relay that could not start has left its folder behind.
    await suite.current?.stopAtOnce();
    await remove?.();
    expect(suite.current?.errors ?? []).toEqual([]);
  });
  return suite;
}
