/**
 * The relay of a rehearsal: started as any, on the unpacked copy of a backup, it answers over a socket in the folder of
 * that copy. Time stands still at the moment of the backup: no job runs, nothing expires, and two versions that
 * rehearse the same backup answer the same.
 *
 * Nobody has the keys of the hosts, and a rehearsal is not given that of the relay. A key that is made here and kept
 * nowhere stands for all of them: it is the relay's in the copy, and signs every hop. So nothing that is signed here is
 * of a relay that anybody knows, and it can be no second history.
 */
import { dirname, join } from 'node:path';
import { exchangeServer } from '../http/server-node.ts';
import type { Listen } from '../http/exchange.ts';
import { systemRandom, type Timers } from '../lib/clock.ts';
import { socketStream } from '../lib/socket-request.ts';
import { listenAt, SocketUnavailable, socketPathFault } from '../lib/unix-socket.ts';
import { SEED_BYTES, signerFromSeed, verifySignature } from '../protocol/ed25519.ts';
import { EMPTY_BODY_HASH, HOP_HEADERS, hopV2Message } from '../protocol/hop.ts';
import { BODY_BYTES_MAX, DEFAULT_LIMITS, HOUR_MS } from '../protocol/limits.ts';
import type { PublicKey } from '../protocol/public-key.ts';
import { isAdmitted } from './auth/hop.ts';
import { rowKey } from './core/rows.ts';
import { startRelay } from './relay.ts';
import { rowKeyBytes, VIEW_KEY } from './store/keys.ts';
import { heartbeatOf, notePosition, positionAt, POSITION_FILE } from './store/position.ts';
import { StoreRefused } from './store/refused.ts';
import { encodeRow } from './store/row-codec.ts';
import type { StoreReader } from './store/store-reader.ts';

/** What is decided nowhere here. */
const UNLIMITED = 1_000_000;
const SILENCE_MS = 60_000;
const NO_TIMERS: Timers = { after: () => () => undefined, every: () => () => undefined };
const NO_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };

export type RehearsedRelay = Awaited<ReturnType<typeof startRehearsal>>;

interface Question {
  /** Path and query. */
  target: string;
  host?: PublicKey | undefined;
  accept?: string | undefined;
}

/**
 * Closes `copy`, which is of schema `schema`, and starts a relay in its folder. Throws `StoreRefused`, and
 * `SocketUnavailable` where the path of that folder is too long.
 */
export async function startRehearsal(copy: StoreReader, schema: number, version: string) {
  const folder = dirname(copy.location);
  const socketPath = join(folder, 'hosts.sock');
  const tooLong = socketPathFault(socketPath, 'name a folder for temporary files by a shorter path, with TMPDIR');
  if (tooLong !== undefined) throw new SocketUnavailable(tooLong);
  const signer = signerFromSeed(systemRandom(SEED_BYTES));
  const nowMs = await prepare(copy, folder, { schema, relayPubkey: signer.publicKey });
  // Each question comes an hour after the one before, so that no rate refuses it.
  let questions = 0;
  const monotonicMs = (): number => performance.now() + questions * HOUR_MS;
  const relay = await startRelay({
    storeDir: folder,
    signer,
    listen: { host: 'rehearsal', port: 0 },
    adminListen: undefined,
    listenHere: listenOn(socketPath),
    verifyHop: (_host, message, signature) => Promise.resolve(verifySignature(signer.publicKey, message, signature)),
    limits: DEFAULT_LIMITS,
    pushesPerMinute: UNLIMITED,
    enrolRate: UNLIMITED,
    enrolmentsMax: UNLIMITED,
    dedupRowsMax: UNLIMITED,
    admission: 'invite',
    sweepMs: UNLIMITED,
    diskFloorBytes: 0,
    trustProxy: 'none',
    bodyBytesMax: BODY_BYTES_MAX,
    version,
    clock: { nowMs: () => nowMs, monotonicMs },
    timers: NO_TIMERS,
    randomBytes: systemRandom,
    log: NO_LOG,
  });
  const { engine } = relay;
  let failed: Error | undefined;
  void relay.failed.then((error) => (failed = error));
  const admitted = (await engine.enrolments()).filter((row) => isAdmitted(row, nowMs));
  const isWaitedFor = (key: PublicKey): boolean => engine.head(key).headSeq > engine.head(key).ackedThrough;
  const [first, others] = [true, false].map((waits) =>
    admitted.flatMap(({ hostPubkey }) => (isWaitedFor(hostPubkey) === waits ? hostPubkey : [])),
  );
  return {
    /** The key of the rehearsal. */
    signer,
    /** Hosts whose hops are taken at that moment; those for which mail waits come first. */
    hosts: [...(first ?? []), ...(others ?? [])],
    stop: () => relay.stop(),
    /** Asks as the host, or as a stranger. Throws `SocketRequestFailed`, or why the store failed. */
    ask: async ({ target, host, accept }: Question) => {
      questions++;
      const timestamp = String(nowMs);
      const fields = { method: 'GET', target, timestamp, bodyHash: EMPTY_BODY_HASH };
      const hop = host && {
        [HOP_HEADERS.key]: host,
        [HOP_HEADERS.timestamp]: timestamp,
        [HOP_HEADERS.signature]: signer.sign(hopV2Message(fields, signer.publicKey)),
      };
      const answer = await socketStream({
        socketPath,
        method: 'GET',
        target,
        headers: { host: 'rehearsal', ...hop, ...(accept !== undefined && { accept }) },
        silenceMs: SILENCE_MS,
        documentBytesMax: 0,
        failure: (fault) => fault,
      });
      const chunks: Buffer[] = [];
      for await (const chunk of answer.chunks()) chunks.push(chunk);
      if (failed) throw failed;
      return { status: answer.status, type: answer.headers['content-type'] ?? '', body: Buffer.concat(chunks) };
    },
  };
}

/**
 * Makes of the copy what a relay leaves that stopped at that moment, which is returned: a store with a position beside
 * it, and here with another key.
 */
async function prepare(
  copy: StoreReader,
  folder: string,
  { schema: schemaVersion, relayPubkey }: { schema: number; relayPubkey: PublicKey },
): Promise<number> {
  const { level, lastLsn } = copy;
  const [row, record, nowMs] = [copy.get('relay', rowKey.relay), await copy.record(lastLsn), heartbeatOf(copy)];
  if (!row || !record || nowMs === undefined)
    throw new StoreRefused('damaged', 'the backup lacks a relay row, a heartbeat or the end of its log: take another');
  await notePosition(join(folder, POSITION_FILE), await positionAt(copy));
  const key = rowKeyBytes('relay', rowKey.relay);
  // A store that was the view of a shared log has a log of its own here.
  const changes = level.batch().del(VIEW_KEY);
  await changes.put(key, encodeRow('relay', key, { ...row, schemaVersion, relayPubkey })).write();
  await copy.close();
  return nowMs;
}

function listenOn(socketPath: string): Listen {
  return async ({ handler }) => {
    const server = exchangeServer(handler);
    await listenAt(server, socketPath, 'rehearse again');
    return {
      name: 'node:http',
      port: 0,
      stopAccepting: () => server.close(),
      renewTls: () => undefined,
      close: () => {
        server.close();
        server.closeAllConnections();
      },
    };
  };
}
