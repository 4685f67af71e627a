/**
 * The relay's composition root: opens the store, starts the engine, and puts HTTP and the timers around it.
 *
 * Clock, timers and randomness are parameters, so that tests of hours and days run at once.
 */
import { BODY_BYTES_MAX, LOG_READS_PER_MINUTE, type Limits } from '../protocol/limits.ts';
import type { Signer } from '../protocol/ed25519.ts';
import { EPOCH_RANDOM_BYTES, epochFromRandom } from '../protocol/epoch.ts';
import type { ListenAddress } from '../system/listen-address.ts';
import { SocketUnavailable } from '../system/unix-socket.ts';
import type { TakeBackup } from './admin/console/routes.ts';
import { OperatorSide } from './admin/operator-side.ts';
import { Watch } from './admin/watch.ts';
import { BackupPlan, type BackupSettings } from './backup-plan.ts';
import { accountTokenAuthority } from './auth/account-token.ts';
import { hostKeyAuthority } from './auth/authority.ts';
import { Challenges } from './auth/challenges.ts';
import { Issuer, type IssuerSettings } from './auth/issuer.ts';
import { Jwks } from './auth/jwks.ts';
import { RateLimiter } from './auth/rate-limit.ts';
import { consoleRoute } from './control/console.ts';
import { backupRoute } from './control/backup.ts';
import { epochRoute } from './control/epoch.ts';
import { hostRoutes } from './control/hosts.ts';
import { inviteRoutes } from './control/invites.ts';
import { type ControlListener, listenControl } from './control/socket.ts';
import type { RelaySettings } from './core/facts.ts';
import { DiskGuard, freeBytesOf } from './disk-guard.ts';
import type { Clock, RandomBytes, Timers } from './engine/ambient.ts';
import type { StoreFailed } from './engine/committer.ts';
import { Engine } from './engine/engine.ts';
import { LostItems } from './engine/lost-items.ts';
import type { TrustProxy } from './http/client-address.ts';
import { type ExchangeHandler, type HttpServer, type Listen, ListenFailed } from '../http/exchange.ts';
import { Handler } from './http/handler.ts';
import { openApiDocument } from './http/openapi.ts';
import { describedOperations } from './http/operations.ts';
import { PageWriter } from './http/page-writer.ts';
import { listenNode } from '../http/server-node.ts';
import { listenUws } from './http/server-uws.ts';
import { loadUws } from './http/uws-binding.ts';
import { enrolmentRoutes } from './http/v1-enrolment.ts';
import { v1MessageRoutes } from './http/v1-messages.ts';
import { ackRoute } from './http/v2-ack.ts';
import { encKeyRoutes } from './http/enc-key.ts';
import { denyRoute } from './http/v2-deny.ts';
import { infoRoute } from './http/v2-info.ts';
import { logRoutes } from './http/v2-log.ts';
import { pullRoute } from './http/v2-pull.ts';
import { pushRoute } from './http/v2-push.ts';
import { rotateRoute } from './http/v2-rotate.ts';
import { sendersRoute } from './http/v2-senders.ts';
import { Scrub } from './scrub.ts';
import { refusedIfDamaged } from './store/damage.ts';
import { openStore } from './store/open.ts';
import type { RelayStore } from './store/relay-store.ts';
import { Sweeps } from './sweep.ts';
import { LogArchives } from './log-archives.ts';
import { type LogKeepingSettings, LogPlan } from './log-plan.ts';

export interface RelayOptions {
  storeDir: string;
  positionFile?: string;
  /** The deploy secret's key; else the one beside the store. */
  signer?: Signer;
  listen: ListenAddress;
  /** `undefined`: no operator listener. */
  adminListen: ListenAddress | undefined;
  limits: Limits;
  pushesPerMinute: number;
  enrolRate: number;
  enrolmentsMax: number;
  admission: RelaySettings['admission'];
  dedupRowsMax: number;
  /** Whose account tokens admit hosts; absent: the host-key challenge alone does. */
  issuer?: IssuerSettings;
  sweepMs: number;
  /** Regular backups; absent: none. */
  backups?: BackupSettings;
  /** How long the log is kept; absent: for ever. */
  logKeeping?: LogKeepingSettings;
  /** Pushes are refused while less than this is free on the disk of the store. */
  diskFloorBytes: number;
  /** How much is free; absent: what the file system says. */
  freeBytes?: () => Promise<number>;
  trustProxy: TrustProxy;
  /** Largest request body of the routes with a hop. */
  bodyBytesMax: number;
  version: string;
  /** Where the page of the console is; absent: where the build puts it. */
  consoleFolder?: string;
  /** Writes a backup when the console asks for one; absent: it does not offer it. */
  takeBackup?: TakeBackup;
  /** Which server to use; absent: uWebSockets.js where one runs, else node:http. */
  server?: 'uws' | 'node';
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  log: RelayLogger;
}

export interface RelayLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface Relay {
  readonly engine: Engine;
  readonly signer: Signer;
  /** Whether this start made the store. */
  readonly initialised: boolean;
  /** What the start found and did about it, a sentence each. */
  readonly notices: readonly string[];
  readonly serverName: string;
  readonly port: number;
  readonly adminPort: number | undefined;
  /** Resolves when the store failed: the process is to exit non-zero. */
  readonly failed: Promise<StoreFailed>;
  /** Not ready → stops accepting → finishes what is under way, for `STOP_WITHIN_MS` at most → flushes → closes. */
  stop(): Promise<void>;
}

/** Requests under way get this long at a stop; what is left then is cut, and what was admitted is still written. */
export const STOP_WITHIN_MS = 20_000;

/** Throws `StoreRefused` or `ListenFailed`. */
export async function startRelay(options: RelayOptions): Promise<Relay> {
  const { storeDir, positionFile, clock, randomBytes, limits, admission, enrolmentsMax, dedupRowsMax } = options;
  const newEpoch = () => epochFromRandom(randomBytes(EPOCH_RANDOM_BYTES));
  const { store, signer, initialised, notices, epochBegun, isClockDoubted } = await openStore({
    folder: storeDir,
    ...(positionFile !== undefined && { positionFile }),
    ...(options.signer && { signer: options.signer }),
    nowMs: clock.nowMs(),
    newEpoch,
  });
  const failure = new FailureReport();
  const monotonicMs = () => clock.monotonicMs();
  const settings = { limits, admission, enrolmentsMax, dedupRowsMax };
  // Without an operator's listener there is nobody to count for.
  const watch = options.adminListen ? new Watch(options.version, clock) : undefined;
  if (epochBegun) watch?.metrics.epochBegun(epochBegun);
  const observed = watch && { observer: watch.observer };
  const engineOptions = { store, settings, signer, monotonicMs, failed: failure.tell, ...observed };
  const engine = await Engine.start(engineOptions, clock.nowMs()).catch(async (error: unknown) => {
    await store.close();
    throw refusedIfDamaged(error, storeDir);
  });
  try {
    await engine.heartbeat(clock.nowMs());
    return await serve({
      ...options,
      watch,
      engine,
      store,
      signer,
      initialised,
      notices,
      isClockDoubted,
      newEpoch,
      failed: failure.told,
    });
  } catch (error) {
    await engine.close();
    await store.close();
    throw refusedIfDamaged(error, storeDir);
  }
}

interface ServeOptions extends RelayOptions {
  watch: Watch | undefined;
  engine: Engine;
  store: RelayStore;
  signer: Signer;
  initialised: boolean;
  notices: string[];
  isClockDoubted: boolean;
  newEpoch: () => ReturnType<typeof epochFromRandom>;
  failed: Promise<StoreFailed>;
}

async function serve(options: ServeOptions): Promise<Relay> {
  const { engine, store, signer, clock, timers, randomBytes, newEpoch, log, version } = options;
  const { initialised, notices, failed, watch } = options;
  const monotonicMs = () => clock.monotonicMs();
  const startedMs = monotonicMs();
  const challenges = new Challenges(monotonicMs, randomBytes);
  const { publicKey: relayPubkey } = signer;
  const bodyBytesMax = Math.min(options.bodyBytesMax, BODY_BYTES_MAX);
  const lostItems = new LostItems({
    engine,
    clock,
    newEpoch,
    lost: (items, foundBy) =>
      log.error({ items, foundBy }, 'items were missing or altered on the disk: their senders push them again'),
    unreadable: (rows, foundBy) =>
      log.error({ rows, foundBy }, 'rows of queues cannot be read: stop the relay, and run poste relay log verify'),
  });
  const pageWriter = new PageWriter({ engine, timers, lostItems });
  const disk = await DiskGuard.start({
    freeBytes: options.freeBytes ?? (() => freeBytesOf(options.storeDir)),
    floorBytes: options.diskFloorBytes,
    timers,
    changed: (isLow, freeBytes) => {
      if (isLow) log.error({ freeBytes }, 'the disk is almost full: pushes are refused until there is room');
      else log.info({ freeBytes }, 'there is room on the disk again: pushes are taken');
    },
  });
  const hosted = options.issuer && hostedParts(options.issuer, options);
  const shared = {
    engine,
    relayPubkey,
    clock,
    timers,
    randomId: () => randomBytes(8).toString('hex'),
    room: {
      take: (bytes: number) => {
        disk.taken(bytes);
        return !disk.isLow;
      },
    },
    trustProxy: options.trustProxy,
    rates: {
      challenge: new RateLimiter(options.enrolRate, monotonicMs),
      enrol: new RateLimiter(options.enrolRate, monotonicMs),
      rotate: new RateLimiter(options.enrolRate, monotonicMs),
      deny: new RateLimiter(options.enrolRate, monotonicMs),
      push: new RateLimiter(options.pushesPerMinute, monotonicMs),
      log: new RateLimiter(LOG_READS_PER_MINUTE, monotonicMs),
    },
    unexpected: (error: unknown, requestId: string) =>
      log.error({ err: error, requestId }, 'a request met an unexpected error'),
  };
  const handler = new Handler({
    ...shared,
    routes: [
      ...enrolmentRoutes({ engine, challenges, authority: hosted?.authority ?? hostKeyAuthority, relayPubkey }),
      ...(hosted ? [denyRoute({ engine, issuer: hosted.issuer })] : []),
      rotateRoute({ engine }),
      infoRoute({ engine, relayPubkey, version, bodyBytesMax }),
      pushRoute({ engine, signer, newEpoch, monotonicMs, bodyBytesMax }),
      pullRoute({ engine, clock, timers, pageWriter, bodyBytesMax }),
      ackRoute({ engine, bodyBytesMax }),
      ...v1MessageRoutes({ engine, newEpoch, monotonicMs, pageWriter, bodyBytesMax }),
      sendersRoute({ engine, monotonicMs, bodyBytesMax }),
      ...encKeyRoutes({ engine, bodyBytesMax }),
      ...logRoutes({ engine, relayPubkey, bodyBytesMax }),
    ],
    finished: (request) => {
      watch?.finished(request);
      log.info(request, 'request');
    },
  });
  let operator: OperatorSide | undefined;
  /** When the last backup was handed over to whoever asked for it; 0 when none was. */
  let handedOverMs = 0;
  const controlHandler = new Handler({
    ...shared,
    routes: [
      ...hostRoutes({ engine, monotonicMs }),
      ...inviteRoutes({ engine, randomBytes }),
      consoleRoute({ clock, operator: () => operator }),
      backupRoute({ engine, lostItems, version, taken: (atMs) => void (handedOverMs = atMs) }),
      epochRoute({ engine, randomBytes }),
    ],
    finished: (request) => log.info(request, 'local request'),
  });
  let isReady = false;
  const listen = chooseServer(options.server);
  let server: HttpServer | undefined;
  let admin: HttpServer | undefined;
  let plan: BackupPlan | undefined;
  let scrub: Scrub | undefined;
  let control: Control;
  try {
    server = await listen({ ...options.listen, handler: (exchange) => handler.handle(exchange) });
    const openApi = openApiDocument({ version, operations: describedOperations(handler.routes) });
    if (options.adminListen && watch) {
      operator = await OperatorSide.start({
        ...options.adminListen,
        engine,
        store,
        watch,
        disk,
        clock,
        timers,
        randomBytes,
        version,
        startedMs,
        openApi,
        serverName: server.name,
        isReady: () => isReady,
        handler: { ...shared, finished: (request) => log.info(request, 'console request') },
        consoleFolder: options.consoleFolder,
        takeBackup: options.takeBackup ?? (options.backups && (() => takeBackup(plan))),
        lastBackup: () => plan?.last,
        lastGoodBackupMs: () =>
          options.backups || handedOverMs > 0 ? Math.max(plan?.lastGoodMs ?? 0, handedOverMs) : undefined,
        lastScrub: () => scrub?.last,
      });
      const { adminListen } = options;
      const side = operator;
      admin = await listenNode({ ...adminListen, handler: (exchange) => side.handle(exchange) });
      operator.listening(admin.port);
    }
    control = await controlOrNotice(options.storeDir, (exchange) => controlHandler.handle(exchange));
  } catch (error) {
    hosted?.jwks.close();
    server?.close();
    admin?.close();
    await operator?.close();
    await disk.close();
    throw error;
  }
  // Not waited for: an issuer that is away keeps nobody from their mail.
  void hosted?.jwks.start();
  const sweeps = new Sweeps({
    engine,
    challenges,
    clock,
    timers,
    everyMs: options.sweepMs,
    isClockDoubted: options.isClockDoubted,
    unexpected: (error) => log.error({ err: error }, 'a sweep met an unexpected error'),
  });
  plan = options.backups && backupPlan(options.backups, lostItems, options);
  scrub = startScrub(lostItems, options);
  const keeping = options.logKeeping && logPlan(options.logKeeping, options, sweeps, shared.room.take);
  isReady = true;
  failed.then(
    () => {
      isReady = false;
      void sweeps.stop();
      void scrub?.stop();
      void plan?.stop();
      void keeping?.stop();
    },
    () => undefined,
  );
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    isReady = false;
    server.stopAccepting();
    control.listener?.stopAccepting();
    const planEnded = plan?.stop();
    const keepingEnded = keeping?.stop();
    const drained = Promise.all([handler.drain(), controlHandler.drain(), operator?.drain()]);
    const isDrained = await withinMs(drained, STOP_WITHIN_MS, timers);
    if (!isDrained) log.warn({}, 'some requests did not finish in time and are cut');
    await Promise.all([sweeps.stop(), scrub?.stop(), planEnded, keepingEnded]);
    await operator?.close();
    await disk.close();
    hosted?.jwks.close();
    server.close();
    admin?.close();
    control.listener?.close();
    await engine.close();
    await store.close();
  };
  return {
    engine,
    signer,
    initialised,
    notices: [...notices, ...control.notices],
    serverName: server.name,
    port: server.port,
    adminPort: admin?.port,
    failed,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

/** The console's button: a backup of the plan, before its time. */
function takeBackup(plan: BackupPlan | undefined): ReturnType<TakeBackup> {
  return plan ? plan.takeNow() : Promise.reject(new Error('the relay is starting'));
}

/** Says of each pass how it went; what was lost is said besides, when it is found. */
function startScrub(lostItems: LostItems, { engine, clock, timers, randomBytes, watch, log }: ServeOptions): Scrub {
  return new Scrub({
    engine,
    lostItems,
    clock,
    timers,
    randomBytes,
    scrubbed: (items) => watch?.metrics.scrubbed(items),
    ended: ({ atMs: _atMs, durationMs, ...counts }) =>
      log.info({ ...counts, durationMs: Math.round(durationMs) }, 'everything that waits was compared with its hash'),
    unexpected: (error) => log.error({ err: error }, 'a scrub met an unexpected error'),
  });
}

function backupPlan(
  settings: BackupSettings,
  lostItems: LostItems,
  { engine, signer, clock, timers, version, log }: ServeOptions,
): BackupPlan {
  return BackupPlan.start({
    ...settings,
    engine,
    lostItems,
    relayPubkey: signer.publicKey,
    clock,
    timers,
    version,
    written: ({ bytes, items, damagedItems, header }) =>
      log.info({ bytes, items, damagedItems, lsn: header.lsn }, 'a backup was written'),
    failed: (error) => log.error({ err: error }, 'a backup could not be written; it is tried again'),
  });
}

function logPlan(
  { keepMs, archiveFolder }: LogKeepingSettings,
  { engine, store, signer, clock, timers, version, log }: ServeOptions,
  sweeps: Sweeps,
  hasRoom: (bytes: number) => boolean,
): LogPlan {
  const archives =
    archiveFolder === undefined
      ? undefined
      : new LogArchives({ folder: archiveFolder, relayPubkey: signer.publicKey, store, clock, version });
  return new LogPlan({
    keepMs,
    archives,
    keeping: engine.logKeeping,
    store,
    clock,
    timers,
    isClockTrusted: () => sweeps.isClockTrusted,
    hasRoom,
    told: {
      checkpoint: (taken) => {
        if (taken.type === 'CheckpointTaken') log.info(taken, 'the rows were kept, so that old log records may go');
        else log.warn({}, 'there is no room to keep the rows, so no log record can go: make room on the disk');
      },
      pruned: (records, throughLsn, archive) =>
        log.info({ records, throughLsn, ...(archive !== undefined && { archive }) }, 'old log records were pruned'),
      failed: (error) => log.error({ err: error }, 'the log could not be pruned; it is tried again within the hour'),
    },
  });
}

/** What a hosted relay has besides: the issuer's keys, what it says, and the authority that goes by it. */
function hostedParts({ jwksUrl, ...names }: IssuerSettings, { clock, timers, log }: RelayOptions) {
  const monotonicMs = () => clock.monotonicMs();
  const nowMs = () => clock.nowMs();
  const failed = (reason: string) => log.warn({ reason }, "the issuer's keys could not be fetched");
  const jwks = new Jwks({ url: jwksUrl, fetch, monotonicMs, timers, failed });
  const issuer = new Issuer({ ...names, jwks, nowMs });
  return { jwks, issuer, authority: accountTokenAuthority({ issuer, nowMs, monotonicMs }) };
}

/** The first failure of the store, told once. */
class FailureReport {
  tell!: (error: StoreFailed) => void;
  readonly told = new Promise<StoreFailed>((resolve) => {
    this.tell = resolve;
  });
}

function chooseServer(wanted: 'uws' | 'node' | undefined): Listen {
  if (wanted === 'node') return listenNode;
  const binding = loadUws();
  if (binding) return listenUws(binding);
  if (wanted === 'uws')
    throw new ListenFailed('no uWebSockets.js runs on this machine: leave --server out, or say --server node');
  return listenNode;
}

interface Control {
  listener?: ControlListener;
  notices: string[];
}

/** Mail goes on without the socket for local commands: what is in its way is a notice. */
async function controlOrNotice(storeDir: string, handler: ExchangeHandler): Promise<Control> {
  try {
    return { listener: await listenControl(storeDir, handler), notices: [] };
  } catch (error) {
    if (!(error instanceof SocketUnavailable)) throw error;
    return { notices: [`Local commands such as poste relay hosts cannot reach this relay: ${error.message}.`] };
  }
}

/** Whether `work` ended within `ms`. */
function withinMs(work: Promise<unknown>, ms: number, timers: Timers): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const cancel = timers.after(ms, () => resolve(false));
    work.then(() => {
      cancel();
      resolve(true);
    }, reject);
  });
}
