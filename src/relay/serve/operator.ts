/**
 * Starts what the operator uses of a relay that serves, and of a standby: the listener of health, metrics and the
 * console, and the socket for local commands.
 */
import { connectionsOfAll } from '../../http/connections.ts';
import { listenNode } from '../../http/server-node.ts';
import { listenAddressText } from '../../lib/listen-address.ts';
import type { Services } from '../../lib/services.ts';
import { SocketUnavailable } from '../../lib/unix-socket.ts';
import { openApiDocument } from '../http/openapi.ts';
import type { Watch } from '../operator/activity.ts';
import { controlRoutes } from '../operator/control-routes.ts';
import type { StatusDocument } from '../operator/documents.ts';
import { operatorPipeline } from '../operator/operator-pipeline.ts';
import { OperatorServer } from '../operator/operator-server.ts';
import { type RelaySubject, RelayState } from '../operator/relay-state.ts';
import { listenControl } from '../operator/socket.ts';
import { SCHEMA_VERSION } from '../store/marks.ts';
import { positionPathOf } from '../store/position.ts';
import { OPERATOR_CONNECTIONS_MAX, openFilesMax } from './connection-limits.ts';
import { operationsOf } from './host-api.ts';
import type { RelayOptions } from './options.ts';

interface OperatorOptions {
  options: RelayOptions;
  services: Services;
  /** `undefined` without an operator listener. */
  watch: Watch | undefined;
  subject: RelaySubject;
}

interface Operator {
  adminPort: number | undefined;
  /**
   * Starts the socket for local commands; the process that holds the store calls it. Mail goes on without the socket:
   * the notices say why it is missing.
   */
  listenToCommands: () => Promise<string[]>;
}

export async function startOperator({ options, services, watch, subject }: OperatorOptions): Promise<Operator> {
  const state = new RelayState({ settings: options, subject, watch });
  services.add('state of the relay', { stop: () => state.close() });
  const started = watch && (await startListener(options, services, watch, state));
  const routes = controlRoutes({ state, status: () => statusDocument(options, state), operator: started?.operator });
  return {
    adminPort: started?.port,
    listenToCommands: async () => {
      const pipeline = operatorPipeline('local request', routes, state);
      try {
        const listener = await listenControl(options.storeDir, pipeline.handle);
        services.add('control socket', {
          drain: () => {
            listener.stopAccepting();
            return pipeline.drain();
          },
          stop: () => listener.close(),
        });
        return [];
      } catch (error) {
        if (!(error instanceof SocketUnavailable)) throw error;
        return [`Local commands such as poste relay hosts cannot reach this relay: ${error.message}.`];
      }
    },
  };
}

async function startListener(
  { adminListen, version, issuer }: RelayOptions,
  services: Services,
  watch: Watch,
  state: RelayState,
): Promise<{ operator: OperatorServer; port: number } | undefined> {
  if (!adminListen) return undefined;
  const openApi = openApiDocument({ version, operations: operationsOf(issuer !== undefined) });
  const operator = await OperatorServer.start({ state, watch, openApi, host: adminListen.host });
  services.add('operator', { drain: () => operator.drain(), stop: () => operator.close() });
  const server = await listenNode({
    ...adminListen,
    handler: (exchange) => operator.handle(exchange),
    connections: connectionsOfAll(OPERATOR_CONNECTIONS_MAX),
  });
  services.add('operator listener', { stop: () => server.close() });
  operator.listening(server.port);
  return { operator, port: server.port };
}

/** Says how this relay is, as `poste relay doctor` asks for it over the control socket. */
function statusDocument(
  options: RelayOptions,
  { role, subject, faults, lastGoodBackupMs }: RelayState,
): StatusDocument {
  const { version, listen, tls, server: serverAsked, backups, logRetention, storeDir, positionFile } = options;
  const { serving, isReady, serverName, sharedLog, witnesses } = subject;
  return {
    version,
    pid: process.pid,
    role,
    is_ready: isReady,
    listen: listenAddressText(listen),
    tls: tls ? { cert_file: tls.certFile, key_file: tls.keyFile } : null,
    server: serverName,
    server_asked: serverAsked ?? null,
    open_files_max: options.openFilesMax ?? openFilesMax(),
    connections: serving?.connections() ?? null,
    disk_floor_bytes: options.diskFloorBytes,
    schema_version: SCHEMA_VERSION,
    position_file: positionPathOf(storeDir, positionFile),
    faults,
    last_backup_at: lastGoodBackupMs === 0 ? null : lastGoodBackupMs,
    backups: backups ? { folder: backups.folder, every_ms: backups.everyMs } : null,
    log_archive_folder: logRetention?.archiveFolder ?? null,
    shared_log: sharedLog?.shown ?? null,
    witnesses: witnesses?.shown ?? [],
  };
}
