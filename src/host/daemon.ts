/**
 * The daemon: opens the store, answers at the local socket, and runs what is done by the clock. The composition root of
 * the host side.
 *
 *     start   store (its lock keeps a second daemon out) ─▶ identity ─▶ socket ─▶ LAN, relay
 *     stop    socket, LAN and relay: what came is answered ─▶ store: what was begun is durable
 *
 * When the store fails nothing more is answered, and `failed` resolves: the process is to end.
 */
import { dirname } from 'node:path';
import { DAY_MS } from '../protocol/limits.ts';
import { isListening } from '../system/unix-socket.ts';
import { loadIdentity } from './office/identity.ts';
import type { Identity, Office } from './office/office.ts';
import { sweepRetention } from './office/retention.ts';
import type { HostConfig } from './config.ts';
import { diagnosisOf } from './diagnosis.ts';
import { handlersOf } from './local/handlers.ts';
import { LocalServer } from './local/server.ts';
import { LanSide } from './transport/lan-side.ts';
import { RelaySide } from './transport/relay-side/relay-side.ts';
import { WebSide } from './web/web-side.ts';
import { type HostPaths, daemonSocketFault, makePrivateFolder } from './paths.ts';
import { SYSTEM_TIMERS } from './office/timers.ts';
import { type HostStore, StoreFailed } from './store/host-store.ts';
import { ownOffice } from './own-office.ts';
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
  log: Office['log'];
}

export interface Daemon {
  identity: () => Identity;
  /** Resolves when the store failed; never otherwise. */
  failed: Promise<StoreFailed>;
  /** Ends what was begun, within 25 s. */
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
    const office = ownOffice(store, await loadIdentity(store), log);
    const facts = {
      version,
      pid: process.pid,
      startedAtMs,
      store: paths.store,
      config: paths.configFile,
      socket: paths.socket,
    };
    await makeSocketFolder(paths);
    const waking = await startWake(office, SYSTEM_TIMERS);
    wake = waking;
    const relay = new RelaySide({ office });
    const lan = new LanSide({ office, listen: config.lanListen, advertise: config.lanAdvertise, version, relay });
    const web: WebSide = new WebSide({ office, handlers: () => handlers, listen: config.webListen });
    const diagnosis = diagnosisOf({ office, facts, lan, lanListen: config.lanListen, relay });
    const handlers = handlersOf({
      office,
      timers: SYSTEM_TIMERS,
      facts,
      pairing: lan,
      relay,
      diagnosis,
      web,
      sessions: waking.desk,
      ring: waking.ring,
    });
    const server = await LocalServer.listen({
      socketPath: paths.socket,
      office,
      handlers,
      backup: () => {
        const { hostName: host, signer } = office.identity();
        return writeHostBackup(store, { host, host_pubkey: signer.publicKey, created_at: office.nowMs(), version });
      },
    });
    await lan.start();
    relay.start();
    const sweep = repeatedSweep(office, config.retentionDays * DAY_MS);
    const stop = async (): Promise<void> => {
      await sweep.stop();
      await Promise.race([Promise.all([server.drain(), lan.stop(), relay.stop(), web.stop()]), elapsed(DRAIN_MS)]);
      server.close();
      await waking.close();
      await store.close();
    };
    return { identity: () => office.identity(), failed, stop };
  } catch (error) {
    await wake?.close();
    await store.close();
    throw error;
  }
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

/** Drops what was kept long enough: now, and then every hour. */
function repeatedSweep(office: Office, retentionMs: number): { stop: () => Promise<void> } {
  const stopping = new AbortController();
  let underWay: Promise<void> = Promise.resolve();
  const sweep = async (): Promise<void> => {
    try {
      const dropped = await sweepRetention(office, retentionMs, stopping.signal);
      if (dropped.entries + dropped.sent + dropped.idempotencyKeys > 0)
        office.log('info', 'mail was kept long enough', { ...dropped });
    } catch (error) {
      if (!(error instanceof StoreFailed)) office.log('error', 'the sweep failed', { err: error });
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

/** The store's lock says that no other daemon has this store; another store's may listen at the socket all the same. */
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
