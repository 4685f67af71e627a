/**
 * A relay whose log is shared, until it leads: it follows, and tells hosts and load balancers that it does not serve. And
 * what keeps a leader from answering when another node may lead already.
 */
import type { Exchange, ExchangeHandler, HttpServer, Reply, ReplyStream } from '../http/exchange.ts';
import { connectionsOfAll } from '../http/connections.ts';
import { jsonReply, problemReply } from '../http/replies.ts';
import { listenNode } from '../http/server-node.ts';
import { keepTlsCurrent, readTls } from '../http/tls-files.ts';
import { SingleFlightTask } from '../lib/periodic-task.ts';
import type { Signer } from '../protocol/ed25519.ts';
import type { Epoch } from '../protocol/epoch.ts';
import { type LogGauges, followerMetrics } from './operator/metrics.ts';
import { OPERATOR_CONNECTIONS_MAX } from './connection-limits.ts';
import type { RelayOptions } from './options.ts';
import { joinLog } from './shared-log/node.ts';
import type { LeadingNode } from './shared-log/take-lead.ts';
import type { SharedLogOptions } from './shared-log/node-options.ts';
import { LogRefused } from './shared-log/shared-log.ts';
import { SnapshotJob } from './shared-log/snapshot-job.ts';
import type { Engine } from './engine/engine.ts';
import type { QueueRow } from './core/rows.ts';
import type { OpenedStore } from './store/open.ts';

/** Thrown when the relay was stopped while it followed. */
export class StoppedFollowing extends Error {}

const RETRY_AFTER_S = 1;

/** What hosts are told by a node that does not lead. */
function notLeading(requestId: string): Reply {
  const reply = problemReply('UNAVAILABLE', 'this node of the relay does not lead', { retryAfterS: RETRY_AFTER_S });
  return { ...reply, headers: { ...reply.headers, 'x-request-id': requestId } };
}

/** The operator's listener of a node that follows: live, and not ready. */
function followerHandler(exchange: Exchange, behind: number): void {
  exchange.receive(() => undefined);
  const { target } = exchange.head;
  if (target === '/livez') exchange.reply(jsonReply(200, { status: 'live' }));
  else if (target === '/metrics')
    followerMetrics(behind).then(
      (reply) => exchange.reply(reply),
      () => exchange.abort(),
    );
  else exchange.reply(problemReply('UNAVAILABLE', 'this node of the relay follows', { retryAfterS: RETRY_AFTER_S }));
}

interface LeadOptions {
  options: RelayOptions;
  sharedLog: SharedLogOptions;
  newEpoch: () => Epoch;
  /** Called once, when another node took the lead. */
  onLost: (error: Error) => void;
}

/** The lead of a shared log, as the relay that has it uses it. */
export class SharedLead {
  readonly #options: LeadOptions;
  #node: LeadingNode | undefined;
  #isStalled = false;
  #snapshots: SnapshotJob | undefined;
  /** Batches of the log that the view lacks while the node follows. */
  #behind = 0;
  /** Begins a new epoch because the log is in doubt; one at a time. */
  #beginning: SingleFlightTask | undefined;
  #doubt = '';

  private constructor(options: LeadOptions) {
    this.#options = options;
  }

  /** Follows until this node leads. Throws `LogRefused`, `StoreRefused` and `StoppedFollowing`. */
  static async follow(options: LeadOptions): Promise<SharedLead> {
    const lead = new SharedLead(options);
    const listeners = await listenAsFollower(options.options, () => lead.#behind);
    try {
      lead.#node = await lead.#join();
      return lead;
    } finally {
      for (const listener of listeners) listener.close();
    }
  }

  /** The store that it leads with. */
  get opened(): OpenedStore {
    const { store, initialised, notices, epochBegun } = this.#leading;
    return {
      store,
      signer: keyFromOutside(this.#options.options),
      initialised,
      notices,
      epochBegun,
      isClockSuspect: false,
    };
  }

  /** Whether no other node can lead yet. */
  get mayAnswer(): boolean {
    return this.#leading.leadership.isCurrent;
  }

  /** Whether the log takes nothing now: its disk is full, or it cannot be reached. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** The wire bytes of these rows, as the log has them. */
  wireBytes(rows: readonly QueueRow[]): Promise<(Buffer | undefined)[]> {
    return this.#leading.wireBytes(rows);
  }

  /** For the metrics of a relay that leads: its view holds every batch. */
  get gauges(): LogGauges {
    return { isLeading: this.mayAnswer, behind: 0, isStalled: this.#isStalled, ...this.#snapshots?.gauges };
  }

  /** From now on a log in doubt gets its new epoch from `engine`. */
  serves(engine: Engine): void {
    const { newEpoch, options } = this.#options;
    this.#beginning = new SingleFlightTask({
      work: async () => {
        await engine.rotateEpoch({
          type: 'RotateEpoch',
          epoch: newEpoch(),
          reason: 'log-in-doubt',
          nowMs: options.clock.nowMs(),
        });
        await this.#leading.settleDoubt();
        options.log.error({ why: this.#doubt }, 'the log is in doubt: a new epoch begins');
      },
      onError: (error) => options.log.error({ err: error }, 'the log is in doubt, and no new epoch could be begun'),
    });
  }

  /** Takes snapshots for the log, and prunes it, while this node leads. */
  startSnapshots(engine: Engine): SnapshotJob {
    const { options, sharedLog } = this.#options;
    const { clock, timers, log } = options;
    const { store, snapshotParts } = this.#leading;
    this.#snapshots = new SnapshotJob({
      ...snapshotParts,
      store,
      retention: engine.logRetention,
      due: sharedLog.snapshotDue,
      clock,
      timers,
      onTaken: (taken) => log.info(taken, 'a snapshot of the log was taken and read back'),
      onPruned: (throughBatch) => log.info({ throughBatch }, 'old batches of the log were pruned'),
      onFailed: (error) =>
        log.error(
          { err: error },
          'no snapshot of the log could be taken, or the log could not be pruned; it is tried again',
        ),
    });
    return this.#snapshots;
  }

  /** A batch that the log does not take is given to it no more: the relay stops. */
  stopRetrying(): void {
    this.#leading.stopRetrying();
  }

  /** Gives the lead back. To be called when nothing is appended any more. */
  async close(): Promise<void> {
    await this.#beginning?.stop();
    await this.#leading.close();
  }

  get #leading(): LeadingNode {
    if (!this.#node) throw new Error('invariant: the node leads');
    return this.#node;
  }

  async #join(): Promise<LeadingNode> {
    const { options, sharedLog, newEpoch, onLost } = this.#options;
    const { storeDir, clock, timers, log } = options;
    const node = await joinLog({
      ...sharedLog,
      folder: storeDir,
      signer: keyFromOutside(options),
      settings: decidingSettings(options),
      clock,
      timers,
      newEpoch,
      onLost,
      logger: log,
      signal: options.stopFollowing ?? new AbortController().signal,
      onFollowed: (behind) => void (this.#behind = behind),
      onStalled: (why) => this.#noteStalled(why),
      onDoubt: (why) => {
        this.#doubt = why;
        void this.#beginning?.run();
      },
    });
    if (!node) throw new StoppedFollowing('the relay was stopped while it followed');
    return node;
  }

  #noteStalled(why: string | undefined): void {
    const { log } = this.#options.options;
    if (why !== undefined && !this.#isStalled)
      log.error({ why }, 'the log takes nothing: pushes are refused until it does');
    if (why === undefined && this.#isStalled) log.info({}, 'the log takes batches again');
    this.#isStalled = why !== undefined;
  }
}

/** Several nodes sign with one key, so none of them makes it. */
function keyFromOutside({ signer }: RelayOptions): Signer {
  if (signer) return signer;
  throw new LogRefused(
    'a relay whose log is shared takes its key from outside: name it with --key-file, or set MAIL_RELAY_KEY',
  );
}

/** The addresses of the relay, until it needs them itself. */
async function listenAsFollower(
  { listen, tls: files, adminListen, randomBytes, timers, log }: RelayOptions,
  behind: () => number,
): Promise<HttpServer[]> {
  const connections = connectionsOfAll(OPERATOR_CONNECTIONS_MAX);
  const toHosts = (exchange: Exchange): void => refuse(exchange, randomBytes(8).toString('hex'));
  const tls = files && (await readTls(files));
  const hosts = await listenNode({ ...listen, handler: toHosts, connections, tls });
  const cancel = tls && keepTlsCurrent({ tls, timers, log, renew: (renewed) => hosts.renewTls(renewed) });
  const servers = [hosts, { ...hosts, close: () => cancel?.() }];
  try {
    const toOperator = (exchange: Exchange): void => followerHandler(exchange, behind());
    if (adminListen) servers.push(await listenNode({ ...adminListen, handler: toOperator, connections }));
    return servers;
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
}

/** What decisions rest on: two nodes that differ in it must not lead one after the other unnoticed. */
function decidingSettings({
  limits,
  admission,
  enrolmentsMax,
  dedupRowsMax,
  issuer,
  logRetention,
}: RelayOptions): object {
  const authority = issuer ? { issuer: issuer.issuer, relayUrl: issuer.relayUrl } : 'host-key';
  return { limits, admission, enrolmentsMax, dedupRowsMax, authority, logKeepMs: logRetention?.keepMs ?? null };
}

/** As `handler` while `mayAnswer`; what it answers later is not sent: another node may have answered otherwise by then. */
export function answeringWhile(
  mayAnswer: () => boolean,
  randomId: () => string,
  handler: ExchangeHandler,
): ExchangeHandler {
  return (exchange) => {
    if (mayAnswer()) handler(new GatedExchange(exchange, mayAnswer));
    else refuse(exchange, randomId());
  };
}

function refuse(exchange: Exchange, requestId: string): void {
  exchange.receive(() => undefined);
  exchange.reply({ ...notLeading(requestId), close: true });
}

class GatedExchange implements Exchange {
  readonly #exchange: Exchange;
  readonly #mayAnswer: () => boolean;

  constructor(exchange: Exchange, mayAnswer: () => boolean) {
    this.#exchange = exchange;
    this.#mayAnswer = mayAnswer;
  }

  get head(): Exchange['head'] {
    return this.#exchange.head;
  }

  get isAborted(): boolean {
    return this.#exchange.isAborted;
  }

  receive(...given: Parameters<Exchange['receive']>): void {
    this.#exchange.receive(...given);
  }

  onAborted(listener: () => void): void {
    this.#exchange.onAborted(listener);
  }

  reply(reply: Reply): void {
    this.#exchange.reply(this.#mayAnswer() ? reply : notLeading(reply.headers['x-request-id'] ?? ''));
  }

  startReply(...given: Parameters<Exchange['startReply']>): ReplyStream {
    if (!this.#mayAnswer()) this.#exchange.abort();
    return this.#exchange.startReply(...given);
  }

  abort(): void {
    this.#exchange.abort();
  }

  isOf(address: string): void {
    this.#exchange.isOf(address);
  }

  isProven(): void {
    this.#exchange.isProven();
  }
}
