/**
 * The relay's composition root: opens the store, starts the engine, and puts HTTP and the jobs around it.
 *
 * Clock, timers and randomness are parameters, so that tests of hours and days run at once. What is started is added to
 * one list of services, and stops in the reverse order, also when a later start fails.
 */
import { guardedTimers, withinMs } from '../lib/clock.ts';
import { Services } from '../lib/services.ts';
import type { ConnectionLimits, Connections } from '../http/connections.ts';
import type { Handler } from './http/handler.ts';
import type { HttpServer } from '../http/exchange.ts';
import type { Signer } from '../protocol/ed25519.ts';
import { type Epoch, randomEpoch } from '../protocol/names.ts';
import { Challenges } from './auth/challenges.ts';
import { SignatureThread } from './auth/signature-thread.ts';
import { connectionLimits, hostConnections, openFilesMax } from './serve/connection-limits.ts';
import { StoreFailed } from './engine/committer.ts';
import { Engine, type EngineOptions } from './engine/engine.ts';
import { LostItems } from './engine/lost-items.ts';
import type { RelaySettings } from './core/decision.ts';
import { SharedLead } from './standby/shared-lead.ts';
import { WorkBudget } from './http/work-budget.ts';
import { hostApi, rateLimits } from './serve/host-api.ts';
import { addressesOf, chooseServer, listenToHosts } from './serve/hosts-listener.ts';
import type { DiskGuard } from './jobs/disk-guard.ts';
import type { Relay, RelayOptions } from './serve/options.ts';
import { type Jobs, countInThread, startDiskGuard, startJobs, startWitnesses } from './serve/jobs.ts';
import { startOperator } from './serve/operator.ts';
import type { RelaySubject } from './operator/relay-state.ts';
import { refusedIfDamaged } from './store/refused.ts';
import { openStore } from './store/open.ts';
import type { RelayStore } from './store/relay-store.ts';
import { HELD_BYTES } from './http/page-writer.ts';
import { Watch } from './operator/activity.ts';

/** Requests get this long to finish at a stop; then they are cut, and what was admitted is still written. */
export const STOP_WITHIN_MS = 20_000;

/** Hosts wait so long at a start until a witness says whether the store was put back. */
const WITNESSED_WITHIN_MS = 5_000;

/** Throws `StoreRefused`, `ListenFailed` or `TooFewFiles`. */
export async function startRelay(given: RelayOptions): Promise<Relay> {
  const { storeDir, clock, randomBytes, log } = given;
  const onTimerError = (error: unknown): void => log.error({ err: error }, 'a timer met an unexpected error');
  const options = { ...given, timers: guardedTimers(given.timers, onTimerError) };
  const { limits: connectionsAtMost, notices: fileNotices } = connectionLimits(
    options.connections ?? {},
    options.openFilesMax ?? openFilesMax(),
  );
  const newEpoch = () => randomEpoch(randomBytes);
  const services = new Services();
  let onStoreFailed!: (error: StoreFailed) => void;
  const failed = new Promise<StoreFailed>((resolve) => (onStoreFailed = resolve));
  const { sharedLog } = options;
  const onLost = (error: Error): void => onStoreFailed(new StoreFailed(error));
  // Nothing reads the counts of a relay without an operator listener.
  const watch =
    options.adminListen &&
    new Watch(options.version, clock, { sharesLog: sharedLog !== undefined, linesLost: options.log.linesLost });
  const lead = sharedLog && (await SharedLead.follow({ options, watch, sharedLog, newEpoch, onLost }));
  const opened = lead?.opened ?? (await openOwnStore(options, newEpoch));
  const { store, signer, initialised, notices, epochBegun, isClockSuspect } = opened;
  services.add('store', { stop: () => lead?.close() ?? store.close() });
  try {
    if (epochBegun) watch?.metrics.epochBegun(epochBegun);
    store.damagedRows.subscribe(({ kind }) =>
      log.error(
        { kind },
        'a row of the store is damaged: stop the relay, run poste relay log verify, and then poste relay log rebuild',
      ),
    );
    const engineOptions = {
      store,
      settings: settingsOf(given),
      signer,
      monotonicMs: clock.monotonicMs,
      onStoreFailed,
      ...tellOfQueues(log, async () => {
        const command = { type: 'RotateEpoch', epoch: newEpoch(), reason: 'item-lost', nowMs: clock.nowMs() } as const;
        await engine.rotateEpoch(command);
      }),
      ...(watch && { observer: watch.observer }),
      countApart: countInThread(options, store, services),
    };
    const engine = await Engine.start(engineOptions, clock.nowMs());
    services.add('engine', {
      stop: () => {
        lead?.stopRetrying();
        return engine.close();
      },
    });
    lead?.serves(engine);
    await engine.heartbeat(clock.nowMs());
    const parts = {
      options,
      services,
      watch,
      engine,
      store,
      signer,
      connectionsAtMost,
      isClockSuspect,
      newEpoch,
      failed,
      lead,
    };
    const served = await serve(parts);
    const handedOver = lead?.handedOver ?? new Promise<never>(() => undefined);
    const said = [...fileNotices, ...notices, ...served.notices];
    return { ...served, engine, signer, initialised, notices: said, failed, handedOver };
  } catch (error) {
    await services.stop();
    throw refusedIfDamaged(error, storeDir);
  }
}

/** Says what the operator is told of queues; senders push again in a new epoch what a queue lost. */
function tellOfQueues(
  log: RelayOptions['log'],
  beginEpoch: () => Promise<void>,
): Required<Pick<EngineOptions, 'onBrokenQueue' | 'onVanished'>> {
  return {
    onBrokenQueue: ({ reason }) =>
      log.error(
        { reason },
        'the rows of a queue are at fault, and it is left as it is: stop the relay, and run poste relay log verify',
      ),
    onVanished: ({ reason }) => {
      log.error({ reason }, 'rows of a queue are gone from the disk: senders push again, and its acks wait for that');
      return beginEpoch();
    },
  };
}

/** The store of a relay that holds its log alone. */
function openOwnStore(
  { storeDir, positionFile, positionHome, signer, clock }: RelayOptions,
  newEpoch: () => Epoch,
): ReturnType<typeof openStore> {
  const place = { folder: storeDir, positionFile, positionHome };
  return openStore({ ...place, ...(signer && { signer }), nowMs: clock.nowMs(), newEpoch });
}

interface ServeParts {
  options: RelayOptions;
  services: Services;
  watch: Watch | undefined;
  engine: Engine;
  store: RelayStore;
  signer: Signer;
  connectionsAtMost: ConnectionLimits;
  isClockSuspect: boolean;
  newEpoch: () => Epoch;
  failed: Promise<StoreFailed>;
  lead: SharedLead | undefined;
}

type Served = Pick<Relay, 'serverName' | 'serverWhy' | 'port' | 'adminPort' | 'notices' | 'stop'>;

async function serve(parts: ServeParts): Promise<Served> {
  const { options, services, watch, engine, store, signer, newEpoch, failed, lead } = parts;
  const { clock, timers, randomBytes, log } = options;
  const startedMs = clock.monotonicMs();
  const challenges = new Challenges(clock.monotonicMs, randomBytes);
  const lostItems = lostItemsOf(parts);
  const disk = await guardDisk(parts);
  const shared = handlerParts(parts, disk);
  const { handler, jwks, endEpoch } = hostApi({
    relay: options,
    shared,
    challenges,
    lostItems,
    newEpoch,
    lead,
  });
  if (jwks) services.add('keys of the issuer', { stop: () => jwks.close() });
  const witnesses = await askWitnesses(parts, endEpoch);
  let isReady = false;
  let jobs: Jobs | undefined;
  const { server, connections, serverWhy } = await serveHosts(parts, handler);
  const subject = subjectOf(parts, {
    server,
    connections,
    disk,
    lostItems,
    witnesses,
    startedMs,
    isServing: () => isReady,
    jobs: () => jobs,
  });
  const { adminPort, listenToCommands } = await startOperator({ options, services, watch, subject });
  const notices = await listenToCommands();
  // Not waited for: an issuer that does not answer must not keep hosts from their mail.
  void jwks?.start();
  jobs = startJobs({
    relay: options,
    engine,
    store,
    signer,
    challenges,
    lostItems,
    watch,
    isClockSuspect: parts.isClockSuspect,
    hasRoom: shared.takeRoom,
    disk,
    newEpoch,
    startSnapshots: lead && (() => lead.startSnapshots(engine)),
  });
  const running = jobs.services;
  services.add('jobs', { drain: () => running.drain(), stop: () => running.stop() });
  isReady = true;
  void failed.then(() => {
    isReady = false;
    return running.drain();
  });
  const stop = async (): Promise<void> => {
    isReady = false;
    const isDrained = await withinMs(services.drain(), STOP_WITHIN_MS, timers);
    if (!isDrained) log.warn({}, 'some requests did not finish in time and are cut');
    await services.stop();
  };
  let stopping: Promise<void> | undefined;
  return {
    serverName: server.name,
    serverWhy,
    port: server.port,
    adminPort,
    notices,
    stop: () => (stopping ??= stop()),
  };
}

/** Resolves when all of them answered, or hosts have waited long enough. */
async function askWitnesses(
  { options, services, engine, signer, lead }: ServeParts,
  endEpoch: (contradicted: Epoch) => Promise<Epoch>,
): Promise<ReturnType<typeof startWitnesses>> {
  const mayAsk = (): boolean => lead?.mayAnswer !== false;
  const parts = { log: engine.log, relayPubkey: signer.publicKey, endEpoch, mayAsk };
  const witnesses = startWitnesses(options, parts);
  if (!witnesses) return undefined;
  services.add('witnesses', { drain: () => witnesses.stop(), stop: () => witnesses.stop() });
  await withinMs(witnesses.ask(), WITNESSED_WITHIN_MS, options.timers);
  return witnesses;
}

interface SubjectParts {
  server: HttpServer;
  connections: Connections;
  disk: DiskGuard;
  lostItems: LostItems;
  witnesses: ReturnType<typeof startWitnesses>;
  startedMs: number;
  isServing: () => boolean;
  /** `undefined` while the relay starts. */
  jobs: () => Jobs | undefined;
}

/** The running relay, as its operator's side sees it. */
function subjectOf({ options, engine, store, signer, lead, connectionsAtMost }: ServeParts, parts: SubjectParts) {
  const { server, connections, disk, lostItems, witnesses, startedMs, isServing, jobs } = parts;
  const subject: RelaySubject = {
    serving: {
      engine,
      store,
      authority: options.issuer ? 'account-token' : 'host-key',
      addresses: () => addressesOf(options, server.port),
      connections: () => ({ open: connections.open, max: connectionsAtMost.max }),
    },
    relayPubkey: signer.publicKey,
    serverName: server.name,
    startedMs,
    get isReady() {
      return isServing() && lead?.whyNotReady === undefined;
    },
    get isStopping() {
      return engine.isDraining;
    },
    sharedLog: lead,
    store,
    disk,
    witnesses,
    get jobs() {
      return jobs() ?? {};
    },
    get rowsFound() {
      return jobs()?.rowsCheck?.last?.checked.found ?? 0;
    },
    snapshot: () => engine.snapshot(),
    foundByBackup: (damage) => lostItems.foundByBackup(damage),
  };
  return subject;
}

function lostItemsOf({ options, engine, newEpoch, lead }: ServeParts): LostItems {
  const { clock, log } = options;
  return new LostItems({
    engine,
    clock,
    newEpoch,
    otherCopies: lead && ((rows) => lead.wireBytes(rows)),
    onRepaired: (items, foundBy) =>
      log.error({ items, foundBy }, 'items were missing or altered on the disk, and are whole again from the log'),
    onLost: (items, foundBy) =>
      log.error({ items, foundBy }, 'items were missing or altered on the disk: their senders push them again'),
    onUnreadable: (rows, foundBy) =>
      log.error({ rows, foundBy }, 'rows of the store are damaged: stop the relay, and run poste relay log verify'),
  });
}

function settingsOf({ limits, admission, enrolmentsMax, dedupRowsMax, mailBudgetBytes }: RelayOptions): RelaySettings {
  return { limits, admission, enrolmentsMax, dedupRowsMax, ...(mailBudgetBytes !== undefined && { mailBudgetBytes }) };
}

function guardDisk({ options, services, engine }: ServeParts): Promise<DiskGuard> {
  const { log } = options;
  return startDiskGuard(options, services, {
    onFound: (freeBytes) => (engine.mail.freeBytes = freeBytes - options.diskFloorBytes),
    onChange: (isLow, freeBytes) => {
      if (isLow) log.error({ freeBytes }, 'the disk is almost full: pushes are refused until there is room');
      else log.info({ freeBytes }, 'there is room on the disk again: pushes are taken');
    },
  });
}

/** Gathers what the handler of hosts rests on. */
function handlerParts({ options, services, watch, engine, signer, lead }: ServeParts, disk: DiskGuard) {
  const thread = new SignatureThread(signer);
  services.add('signature thread', { stop: () => thread.close() });
  const { clock, timers, randomBytes, log, trustProxy, takesV1 = true, heldBytes = HELD_BYTES } = options;
  const { verifyHop: verify } = options;
  return {
    engine,
    relayPubkey: signer.publicKey,
    signatures: verify
      ? {
          sign: (texts: readonly string[]) => thread.sign(texts),
          signTree: (receipts: readonly string[]) => thread.signTree(receipts),
          verify,
        }
      : thread,
    clock,
    timers,
    randomBytes,
    takeRoom: lead ? (bytes: number) => disk.takeRoom(bytes) && !lead.isStalled : disk.takeRoom,
    trustProxy,
    takesV1,
    heldBytes,
    rates: rateLimits(options),
    work: new WorkBudget({
      pushesPerMinute: options.pushesPerMinute,
      directory: engine.directory,
      monotonicMs: clock.monotonicMs,
    }),
    log,
    watch,
  };
}

async function serveHosts(
  { options, services, watch, connectionsAtMost, lead }: ServeParts,
  handler: Handler,
): Promise<{ server: HttpServer; connections: Connections; serverWhy: string | undefined }> {
  const { clock, log, trustProxy } = options;
  const connections = hostConnections({
    limits: connectionsAtMost,
    trustProxy,
    monotonicMs: clock.monotonicMs,
    displaced: (why) => watch?.metrics.displaced(why),
    flooded: (told) => log.warn(told, 'idle connections are closed for new ones'),
  });
  const { listenHere, serverWhy } = chooseServer(options);
  const server = await listenToHosts({
    relay: options,
    services,
    handler: lead ? lead.gated(options.randomBytes, handler.handle) : handler.handle,
    connections,
    listenHere,
  });
  services.add('listener', {
    drain: () => {
      server.stopAccepting();
      return handler.drain();
    },
    stop: () => server.close(),
  });
  return { server, connections, serverWhy };
}
