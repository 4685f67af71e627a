/**
 * The daemon: opens the store, serves the local socket, the LAN and the relay link, and runs periodic jobs. The composition
 * root of the host.
 *
 *     start   store (its lock keeps a second daemon out) ─▶ identity ─▶ socket ─▶ LAN, relay
 *     stop    socket, LAN and relay: every request is answered ─▶ store: every transaction is durable
 *
 * When the store fails, no request is answered any more, and `failed` resolves: the process must end.
 */
import { dirname } from 'node:path';
import { DAY_MS } from '../protocol/limits.ts';
import { isListening } from '../lib/unix-socket.ts';
import { loadIdentity } from './peers/identity.ts';
import { createHostContext, type HostContext, type Identity } from './context.ts';
import { reportQuarantineLosses } from './inbound/quarantine-rows.ts';
import { sweepRetention } from './mailbox/retention.ts';
import type { HostConfig } from './config.ts';
import type { RetryTiming } from './core/outbox-event.ts';
import { diagnosisOf } from './doctor/diagnosis.ts';
import { handlersOf } from './api/handlers.ts';
import { LocalServer } from './api/server.ts';
import { OutboxDispatcher } from './outbox/dispatcher.ts';
import { LanService } from './lan/lan-service.ts';
import type { RelayTiming } from './relay/relay-link.ts';
import { RelayService } from './relay/relay-service.ts';
import { WebService } from './web/web-service.ts';
import { type HostPaths, daemonSocketFault, makePrivateFolder } from './paths.ts';
import { systemTimers } from '../lib/clock.ts';
import { type HostStore, StoreFailed } from './store/host-store.ts';
import { writeHostBackup } from './store/backup.ts';
import { HostStoreRefused, openHostStore } from './store/open.ts';
import { finishRestore } from './store/restored.ts';
import { type Wake, startWake } from './wake/wake.ts';

/** How long requests may take to end when the daemon stops. */
const DRAIN_MS = 20_000;
const SWEEP_EVERY_MS = 3_600_000;

export type DaemonFault = 'listening' | 'socket-path';

/** The daemon cannot start; the message says why and what to do. */
export class DaemonRefused extends Error {
  readonly fault: DaemonFault;

  constructor(fault: DaemonFault, message: string) {
    super(message);
    this.fault = fault;
  }
}

export interface DaemonOptions {
  paths: HostPaths;
  config: HostConfig;
  version: string;
  log: HostContext['log'];
}

export interface Daemon {
  identity: () => Identity;
  /** Resolves when the store failed; never otherwise. */
  failed: Promise<StoreFailed>;
  /** Finishes the work under way, within 25 s. */
  stop(): Promise<void>;
}

/** Throws `DaemonRefused`, `HostStoreRefused` or `SocketUnavailable`. */
export async function startDaemon({ paths, config, version, log }: DaemonOptions): Promise<Daemon> {
  const fault = daemonSocketFault(paths);
  if (fault !== undefined) throw new DaemonRefused('socket-path', fault);
  let fail!: (error: StoreFailed) => void;
  const failed = new Promise<StoreFailed>((resolve) => {
    fail = resolve;
  });
  const store = await openStore(paths, fail);
  let wake: Wake | undefined;
  try {
    const startedAtMs = Date.now();
    const timing = timingOf(config);
    const context = createHostContext(store, await loadIdentity(store), timing.retry, log);
    const facts = {
      version,
      pid: process.pid,
      startedAtMs,
      store: paths.store,
      config: paths.configFile,
      socket: paths.socket,
    };
    await makeSocketFolder(paths);
    const waking = await startWake(context, systemTimers);
    wake = waking;
    const relay = new RelayService({ context, timing: timing.relay });
    const lan = new LanService({ context, listen: config.lanListen, advertise: config.lanAdvertise, version });
    const outbox = new OutboxDispatcher({ context, lan: lan.carrier, relay: relay.carrier });
    const web: WebService = new WebService({ context, handlers: () => handlers, listen: config.webListen });
    const diagnosis = diagnosisOf({ context, facts, lan, lanListen: config.lanListen, relay });
    const handlers = handlersOf({
      context,
      timers: systemTimers,
      facts,
      pairing: lan,
      relay,
      diagnosis,
      web,
      sessions: waking.sessions,
      wakeAgent: waking.wakeAgent,
    });
    const server = await LocalServer.listen({
      socketPath: paths.socket,
      context,
      handlers,
      backup: () => {
        const { hostName: host, signer } = context.identity();
        return writeHostBackup(store, { host, host_pubkey: signer.publicKey, created_at: context.nowMs(), version });
      },
    });
    await lan.start();
    relay.start();
    await outbox.start();
    const sweep = repeatedSweep(context, config.retentionDays * DAY_MS);
    const stop = async (): Promise<void> => {
      await sweep.stop();
      await Promise.race([
        Promise.all([server.drain(), outbox.stop(), lan.stop(), relay.stop(), web.stop()]),
        elapsed(DRAIN_MS),
      ]);
      server.close();
      await waking.close();
      await store.close();
    };
    return { identity: () => context.identity(), failed, stop };
  } catch (error) {
    await wake?.close();
    await store.close();
    throw error;
  }
}

/** A relay that does not answer is tried again sooner than a row, and its longest pause is shorter. */
function timingOf(config: HostConfig): { retry: RetryTiming; relay: Partial<RelayTiming> } {
  const { retryFirstSeconds, retryLongestSeconds, relayPollSeconds } = config;
  const retry = { firstMs: retryFirstSeconds * 1000, longestMs: retryLongestSeconds * 1000 };
  const relay = { pauseFirstMs: retry.firstMs / 5, pauseMaxMs: retry.longestMs / 3, pollMs: relayPollSeconds * 1000 };
  return { retry, relay };
}

async function openStore({ store }: HostPaths, fail: (error: StoreFailed) => void): Promise<HostStore> {
  try {
    await finishRestore(store);
    return await openHostStore(store, fail);
  } catch (error) {
    if (!(error instanceof HostStoreRefused) || error.fault !== 'locked') throw error;
    throw new HostStoreRefused(
      'locked',
      `a daemon runs on the store at ${store} already: poste status shows it`,
      error,
    );
  }
}

/** Runs the retention sweep now, and then every hour. */
function repeatedSweep(context: HostContext, retentionMs: number): { stop: () => Promise<void> } {
  const stopping = new AbortController();
  let underWay: Promise<void> = Promise.resolve();
  const sweep = async (): Promise<void> => {
    try {
      await reportQuarantineLosses(context);
      const dropped = await sweepRetention(context, retentionMs, stopping.signal);
      if (dropped.entries + dropped.sent + dropped.idempotencyKeys > 0)
        context.log('info', 'mail was kept long enough', { ...dropped });
    } catch (error) {
      if (!(error instanceof StoreFailed)) context.log('error', 'the sweep failed', { err: error });
    }
  };
  const next = (): void => {
    underWay = underWay.then(sweep);
  };
  next();
  const timer = setInterval(next, SWEEP_EVERY_MS);
  return {
    stop: () => {
      clearInterval(timer);
      stopping.abort();
      return underWay;
    },
  };
}

/** The store's lock proves that no other daemon has this store; but the daemon of another store may listen at the socket. */
async function makeSocketFolder({ socket, store }: HostPaths): Promise<void> {
  makePrivateFolder(dirname(socket));
  if (!(await isListening(socket))) return;
  throw new DaemonRefused(
    'listening',
    `a daemon on another store than ${store} listens at ${socket}: stop it, or give this one another POSTE_HOME`,
  );
}

function elapsed(ms: number): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, ms).unref();
  });
}
