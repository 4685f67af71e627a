/**
 * The daemon: opens the store, serves the local socket, the LAN and the relay link, and runs periodic jobs. The
 * composition root of the host.
 *
 *     start   store (its lock keeps a second daemon out) ─▶ identity ─▶ socket ─▶ LAN, relay, outbox
 *     stop    all of these drain: every request is answered ─▶ doorbells ─▶ store: every transaction is durable
 *
 * When the store fails, no request is answered any more, and `failed` resolves: the process must end.
 */
import { dirname } from 'node:path';
import { DAY_MS } from '../protocol/limits.ts';
import { isListening } from '../lib/unix-socket.ts';
import { loadIdentity } from './peers/identity.ts';
import { clockNotes, noteClock, openClock } from './host-clock.ts';
import { createHostContext, type HostContext, isStoreFailure } from './base/context.ts';
import { reportQuarantineLosses } from './inbound/quarantine-rows.ts';
import { findOlderDebts, keepDebts } from './mail/debt-keeping.ts';
import { sweepRetention } from './mail/retention.ts';
import { writeToOwner } from './mail/post.ts';
import { keepWords } from './mail/word-index.ts';
import { reportToAgent } from './mailbox/mailbox.ts';
import type { HostConfig } from './base/config.ts';
import type { RetryTiming } from './core/outbox-event.ts';
import { type Identity, OWNER_ID } from './core/rows.ts';
import { healthOf } from './doctor/diagnosis.ts';
import { handlersOf } from './api/handlers.ts';
import { LocalServer } from './api/server.ts';
import { OutboxDispatcher } from './outbox/dispatcher.ts';
import type { LaneSettings } from './outbox/peer-work.ts';
import { LanService } from './lan/lan-service.ts';
import type { RelayTiming } from './relay/relay-timing.ts';
import { RelayMover } from './relay/relay-move.ts';
import { RelayService } from './relay/relay-service.ts';
import { WebService } from './web/web-service.ts';
import { type HostPaths, daemonSocketFault, makePrivateFolder } from './base/paths.ts';
import { rehearseSoon } from './rehearsal.ts';
import { systemTimers } from '../lib/clock.ts';
import { PeriodicTask } from '../lib/periodic-task.ts';
import { Services } from '../lib/services.ts';
import type { HostStore, StoreFailed } from './store/host-store.ts';
import { writeHostBackup } from './store/backup.ts';
import { HostStoreRefused, openHostStore } from './store/open.ts';
import { finishRestore } from './store/restored.ts';
import { startWake } from './wake/wake.ts';

/** The time that requests may take to end when the daemon stops. */
const DRAIN_MS = 20_000;
const HOUR_MS = 3_600_000;
const SWEEP_EVERY_MS = HOUR_MS;

type DaemonFault = 'listening' | 'socket-path';

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
  /** The number of lines of the log that could not be written. */
  linesLost: () => number;
}

export interface Daemon {
  identity: () => Identity;
  /** Resolves when the store failed; never otherwise. */
  failed: Promise<StoreFailed>;
  /** Finishes the work under way, within 25 s. */
  stop(): Promise<void>;
}

/** Throws `DaemonRefused`, `HostStoreRefused` or `SocketUnavailable`. */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { paths, log } = options;
  const fault = daemonSocketFault(paths);
  if (fault !== undefined) throw new DaemonRefused('socket-path', fault);
  let fail!: (error: StoreFailed) => void;
  const failed = new Promise<StoreFailed>((resolve) => {
    fail = resolve;
  });
  const store = await openStore(paths, fail);
  const services = new Services();
  services.add('store', { stop: () => store.close() });
  const stop = async (): Promise<void> => {
    try {
      await Promise.race([services.drain(), elapsed(DRAIN_MS)]);
    } finally {
      await services.stop();
    }
  };
  try {
    return { identity: await startServices(options, store, services), failed, stop };
  } catch (error) {
    await stop().catch((failure: unknown) => log('error', 'the daemon did not end cleanly', { err: failure }));
    throw error;
  }
}

/** Adds each service when it has started, so that a failure of a later one stops it. Returns this host's identity. */
async function startServices(
  { paths, config, version, log, linesLost }: DaemonOptions,
  store: HostStore,
  services: Services,
): Promise<Daemon['identity']> {
  const timing = timingOf(config);
  const notes: { task?: PeriodicTask } = {};
  const clock = await openClock(store, ({ beforeMs, afterMs }) => {
    log('warn', 'the clock jumped: deadlines count the time that passed', { by_ms: afterMs - beforeMs });
    void notes.task?.rerun();
  });
  const context = createHostContext(store, await loadIdentity(store), timing.retry, log, clock);
  notes.task = clockNotes(context, clock, systemTimers);
  services.add('clock', { stop: () => notes.task?.rerun().then(() => notes.task?.stop()) });
  await noteClock(context, clock);
  await findOlderDebts(context);
  const { store: folder, configFile, socket: socketPath } = paths;
  const daemon = { version, pid: process.pid, startedAtMs: Date.now(), linesLost };
  const facts = { ...daemon, store: folder, config: configFile, socket: socketPath };
  await makeSocketFolder(paths);
  const waking = await startWake(context, systemTimers);
  services.add('doorbells', { stop: () => waking.close() });
  const relay = new RelayService({ context, timing: timing.relay });
  const look = (waitMs: number): Promise<void> => relay.look(waitMs);
  const lan = new LanService({ context, listen: config.lanListen, advertise: config.lanAdvertise, version, look });
  const outbox = new OutboxDispatcher({
    context,
    lan: lan.carrier,
    relays: relay,
    settings: timing.lanes,
  });
  const web: WebService = new WebService({ context, handlers: () => handlers, listen: config.webListen });
  const health = healthOf({ context, facts, lan, lanListen: config.lanListen, web, relay, reach: outbox });
  const { sessions, wakeAgent } = waking;
  const timers = systemTimers;
  const relayMove = relayMover(context, relay);
  const parts = { context, timers, health, pairing: lan, relay, relayMove, reach: outbox, web, sessions, wakeAgent };
  const handlers = handlersOf(parts);
  const backup = (): AsyncIterable<Buffer> => {
    const { hostName: host, signer } = context.identity();
    return writeHostBackup(store, { host, host_pubkey: signer.publicKey, created_at: context.nowMs(), version });
  };
  const server = await LocalServer.listen({ socketPath, context, handlers, version, backup });
  services.add('socket', { drain: () => server.drain(), stop: () => server.close() });
  services.add('page', { drain: () => web.stop() });
  await web.reopen();
  services.add('LAN', { drain: () => lan.stop() });
  await lan.start();
  services.add('relay', { drain: () => relay.stop() });
  relay.start();
  services.add('move', { drain: () => relayMove.stop() });
  relayMove.start();
  services.add('outbox', { drain: () => outbox.stop() });
  await outbox.start();
  const debts = keepDebts(context, systemTimers, Math.ceil(config.remindAfterHours * HOUR_MS));
  services.add('debts', { drain: () => debts.stop() });
  const words = keepWords(context, timers);
  services.add('words', { drain: () => words.stop() });
  const sweep = retentionSweep(context, config.retentionDays * DAY_MS);
  services.add('sweep', { drain: () => sweep.stop() });
  services.add('rehearsal', { drain: rehearseSoon(parts, timers) });
  return () => context.identity();
}

function relayMover(context: HostContext, relays: RelayService): RelayMover {
  return new RelayMover({
    context,
    timers: systemTimers,
    relays,
    write: (peerId, words, key) => writeToOwner(context, peerId, words, key),
    report: (tx, words) => void reportToAgent(tx, context, OWNER_ID, { ...words, kind: 'status' }),
  });
}

/** A relay that does not answer is tried again sooner than a row, and its longest pause is shorter. */
function timingOf(config: HostConfig): { retry: RetryTiming; relay: Partial<RelayTiming>; lanes: LaneSettings } {
  const { retryFirstSeconds, retryLongestSeconds, relayPollSeconds } = config;
  const { relayRetryElsewhereSeconds, relaySecondCopySeconds } = config;
  const retry = { firstMs: retryFirstSeconds * 1000, longestMs: retryLongestSeconds * 1000 };
  const relay = { pauseFirstMs: retry.firstMs / 5, pauseMaxMs: retry.longestMs / 3, pollMs: relayPollSeconds * 1000 };
  const lanes = {
    retryElsewhereMs: relayRetryElsewhereSeconds * 1000,
    secondCopyMs: relaySecondCopySeconds === 'off' ? null : relaySecondCopySeconds * 1000,
  };
  return { retry, relay, lanes };
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

/** Now, and then every hour. */
function retentionSweep(context: HostContext, retentionMs: number): PeriodicTask {
  const sweep = new PeriodicTask({
    timers: systemTimers,
    everyMs: SWEEP_EVERY_MS,
    work: async (signal) => {
      await reportQuarantineLosses(context);
      const dropped = await sweepRetention(context, retentionMs, signal);
      if (dropped.entries + dropped.sent + dropped.idempotencyKeys > 0)
        context.log('info', 'mail was kept long enough', { ...dropped });
    },
    onError: (error) => {
      if (!isStoreFailure(error)) context.log('error', 'the sweep failed', { err: error });
    },
  });
  void sweep.run();
  return sweep;
}

/** The store's lock keeps other daemons from this store; but that of another store may listen at the socket. */
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
