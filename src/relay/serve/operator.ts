/** Starts what the operator uses: the socket for local commands, and the listener of health, metrics and the console. */
import { connectionsOfAll } from '../../http/connections.ts';
import { listenNode } from '../../http/server-node.ts';
import { hostsListenedAt, listenAddressText } from '../../lib/listen-address.ts';
import type { Services } from '../../lib/services.ts';
import type { SharedLogShown } from '../../protocol/operator-documents.ts';
import { SocketUnavailable } from '../../lib/unix-socket.ts';
import { OPERATOR_CONNECTIONS_MAX } from './connection-limits.ts';
import type { LostItems } from '../engine/lost-items.ts';
import { Handler, type HandlerOptions } from '../http/handler.ts';
import type { OpenApiDocument } from '../http/openapi.ts';
import type { DiskGuard } from '../jobs/disk-guard.ts';
import { controlRoutes } from '../operator/control-routes.ts';
import type { LogGauges } from '../operator/log-metrics.ts';
import { OperatorServer } from '../operator/operator-server.ts';
import { listenControl } from '../operator/socket.ts';
import type { RelayOptions } from './options.ts';
import { statusDocument } from './relay-status.ts';
import type { Jobs } from './jobs.ts';
import type { RelayStore } from '../store/relay-store.ts';
import type { Watch } from '../operator/activity.ts';

interface OperatorOptions {
  options: RelayOptions;
  services: Services;
  shared: Omit<HandlerOptions, 'routes' | 'finished'>;
  /** `undefined` without an operator listener. */
  watch: Watch | undefined;
  store: RelayStore;
  lostItems: LostItems;
  disk: DiskGuard;
  startedMs: number;
  serverName: string;
  /** Of the listener of hosts. */
  hostsPort: number;
  /** Called when there is a listener that serves it: it takes milliseconds to make. */
  openApi: () => OpenApiDocument;
  isReady: () => boolean;
  /** Of a log that several relays share; absent where the store holds the log. */
  sharedLog?:
    | { readonly gauges: LogGauges; readonly shown: SharedLogShown; readonly whyNotReady: string | undefined }
    | undefined;
  /** Connections to the listener of hosts. */
  openConnections: () => number;
  connectionsMax: number;
  /** `undefined` while the relay starts. */
  jobs: () => Jobs | undefined;
}

interface Operator {
  adminPort: number | undefined;
  /** Why local commands cannot reach this relay, if they cannot. */
  notices: string[];
}

export async function startOperator(parts: OperatorOptions): Promise<Operator> {
  const { options, services, shared, lostItems } = parts;
  const { engine, clock, timers } = shared;
  const { randomBytes, version, log } = options;
  /** When a command last took a backup over the control socket; 0 when none did. */
  let streamedBackupMs = 0;
  const started = await startListener(parts, () => streamedBackupMs);
  const handler = new Handler({
    ...shared,
    routes: controlRoutes({
      engine,
      clock,
      timers,
      randomBytes,
      version,
      lostItems,
      rowsCheck: () => parts.jobs()?.rowsCheck,
      status: () => {
        const { serverName: server, sharedLog, isReady, jobs } = parts;
        const role = sharedLog ? 'leading' : 'alone';
        const lastBackupMs = Math.max(jobs()?.backups?.lastGoodMs ?? 0, streamedBackupMs);
        return statusDocument(options, {
          role,
          isReady: isReady(),
          server,
          connections: { open: parts.openConnections(), max: parts.connectionsMax },
          brokenQueues: engine.brokenQueues.length,
          damagedRows: parts.store.damagedRows.count,
          lastBackupMs,
          sharedLog: sharedLog?.shown ?? null,
        });
      },
      backupTaken: (atMs) => void (streamedBackupMs = atMs),
      operator: () => started?.operator,
    }),
    finished: (request) => log.info(request, 'local request'),
  });
  return { adminPort: started?.port, notices: await startControl(services, options.storeDir, handler) };
}

async function startListener(
  parts: OperatorOptions,
  streamedBackupMs: () => number,
): Promise<{ operator: OperatorServer; port: number } | undefined> {
  const { options, services, shared, watch, store, disk, startedMs, serverName, openApi, jobs } = parts;
  const { adminListen, backups, randomBytes, version, consoleFolder, log } = options;
  if (!adminListen || !watch) return undefined;
  const { engine, clock, timers } = shared;
  const operator = await OperatorServer.start({
    ...adminListen,
    engine,
    store,
    watch,
    disk,
    clock,
    timers,
    randomBytes,
    version,
    startedMs,
    openApi: openApi(),
    serverName,
    isReady: parts.isReady,
    openConnections: parts.openConnections,
    sharedLog: parts.sharedLog,
    handler: { ...shared, finished: (request) => log.info(request, 'console request') },
    consoleFolder,
    takeBackup: options.takeBackup ?? (backups && (() => takeBackup(jobs()))),
    backups: () => jobs()?.backups?.state,
    commandBackupMs: streamedBackupMs,
    logRetention: options.logRetention,
    lastRemoval: () => jobs()?.retention?.lastRemoval,
    admission: {
      authority: options.issuer ? 'account-token' : 'host-key',
      addresses: () => addressesOf(options, parts.hostsPort),
    },
    lastGoodBackupMs: () =>
      backups || streamedBackupMs() > 0 ? Math.max(jobs()?.backups?.lastGoodMs ?? 0, streamedBackupMs()) : undefined,
    lastScrub: () => jobs()?.scrub.last,
    rowsCheck: () => jobs()?.rowsCheck,
  });
  services.add('operator', { drain: () => operator.drain(), stop: () => operator.close() });
  const few = connectionsOfAll(OPERATOR_CONNECTIONS_MAX);
  const server = await listenNode({
    ...adminListen,
    handler: (exchange) => operator.handle(exchange),
    connections: few,
  });
  services.add('operator listener', { stop: () => server.close() });
  operator.listening(server.port);
  return { operator, port: server.port };
}

/** Where the listener of hosts is, as far as this process knows: the name of a proxy before it it does not know. */
function addressesOf({ issuer, listen, tls }: RelayOptions, port: number): string[] {
  if (issuer) return [issuer.relayUrl];
  const scheme = tls ? 'https' : 'http';
  return hostsListenedAt(listen.host).map((host) => `${scheme}://${listenAddressText({ host, port })}`);
}

/** The console's button: one of the regular backups, before its time. */
function takeBackup(jobs: Jobs | undefined): Promise<{ name: string; bytes: number }> {
  return jobs?.backups?.takeNow() ?? Promise.reject(new Error('the relay is starting'));
}

/** Starts the socket for local commands. Mail goes on without it: why it is missing is a notice. */
async function startControl(services: Services, storeDir: string, handler: Handler): Promise<string[]> {
  try {
    const listener = await listenControl(storeDir, (exchange) => handler.handle(exchange));
    services.add('control socket', {
      drain: () => {
        listener.stopAccepting();
        return handler.drain();
      },
      stop: () => listener.close(),
    });
    return [];
  } catch (error) {
    if (!(error instanceof SocketUnavailable)) throw error;
    return [`Local commands such as poste relay hosts cannot reach this relay: ${error.message}.`];
  }
}
