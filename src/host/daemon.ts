/**
 * The daemon: opens the store, answers at the local socket, and runs what is done by the clock. The composition root of
 * the host side.
 *
 *     start   store (its lock keeps a second daemon out) ─▶ identity ─▶ socket ─▶ LAN
 *     stop    socket and LAN: what came is answered ─▶ store: what was begun is durable
 *
 * When the store fails nothing more is answered, and `failed` resolves: the process is to end.
 */
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { isListening } from '../system/unix-socket.ts';
import { Bell } from './office/bell.ts';
import { loadIdentity } from './office/identity.ts';
import type { Identity, Office } from './office/office.ts';
import type { HostConfig } from './config.ts';
import { handlersOf } from './local/handlers.ts';
import { LocalServer } from './local/server.ts';
import { LanSide } from './transport/lan-side.ts';
import { type HostPaths, daemonSocketFault, makePrivateFolder } from './paths.ts';
import type { HostStore, StoreFailed } from './store/host-store.ts';
import { HostStoreRefused, openHostStore } from './store/open.ts';

/** How long requests may take to end when the daemon stops. */
const DRAIN_MS = 20_000;

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
  try {
    const startedAtMs = Date.now();
    const { office, identity } = await officeOf(store, log);
    const facts = {
      version,
      pid: process.pid,
      startedAtMs,
      store: paths.store,
      config: paths.configFile,
      socket: paths.socket,
    };
    await makeSocketFolder(paths);
    const lan = new LanSide({ office, listen: config.lanListen, advertise: config.lanAdvertise, version });
    const server = await LocalServer.listen({
      socketPath: paths.socket,
      office,
      handlers: handlersOf({ office, facts, pairing: lan }),
    });
    await lan.start();
    const stop = async (): Promise<void> => {
      await Promise.race([Promise.all([server.drain(), lan.stop()]), elapsed(DRAIN_MS)]);
      server.close();
      await store.close();
    };
    return { identity, failed, stop };
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function openStore({ store }: HostPaths, fail: (error: StoreFailed) => void): Promise<HostStore> {
  try {
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

async function officeOf(store: HostStore, log: Office['log']): Promise<{ office: Office; identity: () => Identity }> {
  const bell = new Bell();
  let current = await loadIdentity(store);
  // Before any other listener: whoever is told of a new key finds it.
  bell.listen((happening) => {
    if (happening.type === 'identity-changed') current = happening.identity;
  });
  const identity = (): Identity => current;
  const office: Office = {
    store,
    identity,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    randomBytes: (count) => randomBytes(count),
    tell: (happening) => bell.tell(happening),
    listen: (listener) => bell.listen(listener),
    log,
  };
  return { office, identity };
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
