/**
 * Lists what an operator does with a relay's store, as a `poste` process that may fail or be killed at any call: from
 * which folder each begins, and what must be true of the folder afterwards.
 *
 * The clock of the processes stands still, and so do the names that hold a time.
 */
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { DAY_MS } from '../../src/protocol/limits.ts';
import type { Engine } from '../../src/relay/engine/engine.ts';
import { openBackup, openOffline } from '../../src/relay/replay/offline.ts';
import { verify } from '../../src/relay/replay/verify.ts';
import { openStore } from '../../src/relay/store/open.ts';
import { RELAY_KEY_FILE } from '../../src/relay/store/relay-key.ts';
import { resultOf, verified } from './audits.ts';
import { epochSource } from './epochs.ts';
import { eventually } from './eventually.ts';
import { fixtureStore } from './fixture-stores.ts';
import { alice, bob, dave } from './hosts.ts';
import { carolAfter } from './life.ts';
import { type Promises, RELAY_KEY_TEXT, RELAY_SIGNER, engineOver, livedStore, push } from './mutated-store.ts';
import { type Ended, type Environment, type PosteProcess, poste, serveArgs } from './poste-process.ts';
import { startOn } from './served-promises.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A folder with `store` in it, from copies of which the operation begins. */
export interface Template {
  folder: string;
  nowMs: number;
  /**
   * Throws unless everything that was promised is there, the store verifies, and a relay serves from it: in the same
   * epoch, where the operation begins none and `mayBegin` is not said.
   */
  keeps: (folder: string, mayBegin?: boolean) => Promise<void>;
  /** Says whether the operation has been done. */
  isDone: (folder: string) => Promise<boolean>;
}

export interface Operation {
  name: string;
  args: (folder: string) => string[];
  /** Returns what the operation begins from, in a folder of the caller's. */
  prepare: (folder: string) => Promise<Template>;
  /** Resolves when the process has ended: what serves is ended as soon as the operation is done. */
  ended: (process: PosteProcess) => Promise<Ended>;
}

const storeOf = (folder: string): string => join(folder, 'store');
const backupsOf = (folder: string): string => join(folder, 'backups');
const backupOf = (folder: string): string => join(backupsOf(folder), 'relay.backup');

/** Long enough ago that a day of the log may go. */
const AGE_MS = 3 * DAY_MS;
/** The retention of the log waits so long after a start. */
const RETENTION_AFTER_MS = 10_000;
/** Random bytes in the name of a temporary file. */
const NAME_BYTES = 4;

/** A process says this when the retention of the log has had its time. */
const RETENTION_OVER = 'the retention of the log has had its time';

/**
 * The clock stands still, the names of temporary files are those of every run with this `number`, and the retention of
 * the log begins soon. The process says when that must have ended, for a run in which it finds nothing to do.
 */
export function stillClock(nowMs: number, number = 0): Environment {
  const preload = `
    import crypto from 'node:crypto';
    import { syncBuiltinESMExports } from 'node:module';
    Date.now = () => ${nowMs};
    const drawn = crypto.randomBytes;
    let names = 0;
    crypto.randomBytes = (count, ...rest) =>
      count === ${NAME_BYTES} && rest.length === 0 ? Buffer.alloc(count, ${number} + ++names) : drawn(count, ...rest);
    syncBuiltinESMExports();
    const after = setTimeout;
    globalThis.setTimeout = (run, ms, ...rest) => {
      if (ms !== ${RETENTION_AFTER_MS}) return after(run, ms, ...rest);
      after(() => console.error('${RETENTION_OVER}'), 1500);
      return after(run, 100, ...rest);
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
}

export const OPERATIONS: readonly Operation[] = [
  {
    name: 'backup',
    args: (folder) => ['relay', 'backup', backupOf(folder), '--force', '--store-dir', storeOf(folder)],
    prepare: (folder) => mailStore(folder, async () => existsSync(backupOf(folder)), { begins: false }),
    ended: (process) => process.ended(),
  },
  {
    name: 'restore',
    args: (folder) => ['relay', 'restore', backupOf(folder), '--yes', '--store-dir', storeOf(folder)],
    prepare: (folder) => mailStore(folder, isOfOtherEpoch, { begins: true }),
    ended: (process) => process.ended(),
  },
  {
    name: 'rotation of the epoch',
    args: (folder) => ['relay', 'rotate-epoch', '--store-dir', storeOf(folder)],
    prepare: (folder) => mailStore(folder, isOfOtherEpoch, { begins: true }),
    ended: (process) => process.ended(),
  },
  {
    name: 'rebuild of the rows',
    args: (folder) => ['relay', 'log', 'rebuild', '--yes', '--store-dir', storeOf(folder)],
    prepare: (folder) =>
      mailStore(folder, async (store) => (await readdir(store)).some((name) => name.includes('replaced')), {
        begins: false,
      }),
    ended: (process) => process.ended(),
  },
  {
    name: 'pruning of the log',
    args: (folder) => [
      ...serveArgs(storeOf(folder), ['--log-level', 'info']),
      '--log-keep-days',
      '1',
      '--log-archive-dir',
      backupsOf(folder),
    ],
    prepare: (folder) => mailStore(folder, isPruned, { begins: false }),
    ended: (process) =>
      endedAfter(
        process,
        () => /were pruned|could not be pruned/.test(process.stderr) || process.stderr.includes(RETENTION_OVER),
      ),
  },
  {
    name: 'migration',
    args: (folder) => [...serveArgs(storeOf(folder)), '--json'],
    prepare: migrationStore,
    ended: (process) => endedAfter(process, () => process.stdout.includes('}\n')),
  },
];

async function endedAfter(process: PosteProcess, isDone: () => boolean): Promise<Ended> {
  await eventually(
    async () => isDone() || !process.isRunning,
    (isOver) => isOver,
  );
  if (process.isRunning) process.signal('SIGTERM');
  return process.ended();
}

/** A store with mail, a backup of a while ago beside it, and what came since. */
async function mailStore(
  folder: string,
  isDone: (store: string, promises: Promises) => Promise<boolean>,
  { begins }: { begins: boolean },
): Promise<Template> {
  const store = storeOf(folder);
  await mkdir(backupsOf(folder), { recursive: true });
  let promises = await livedStore(store, 'a checkpoint kept');
  await writeFile(join(store, RELAY_KEY_FILE), RELAY_KEY_TEXT, { mode: 0o600 });
  promises = await aged(store, promises);
  const written = await poste(
    ['relay', 'backup', backupOf(folder), '--store-dir', store],
    stillClock(promises.nowMs),
  ).ended();
  expect(written.stderr).toBe('');
  promises = await withMore(store, promises);
  return {
    folder,
    nowMs: promises.nowMs,
    keeps: async (copy, mayBegin = false) => {
      const start = await startOn(storeOf(copy), promises, { begun: begins || mayBegin });
      expect(start).toMatchObject({ type: 'served', isMarked: false });
      if (start.type === 'served' && !begins && !mayBegin) expect(start.epoch).toBe('same');
      expect((await verified(storeOf(copy))).findings).toEqual([]);
      await wholeBackup(copy);
    },
    isDone: (copy) => isDone(storeOf(copy), promises),
  };
}

/** The same store days later, with its relay alive until now. */
function aged(folder: string, promises: Promises): Promise<Promises> {
  return inEngine(folder, promises.nowMs, async (engine) => {
    const nowMs = promises.nowMs + AGE_MS;
    await engine.heartbeat(nowMs);
    return { ...promises, nowMs };
  });
}

/** Returns what is lost with a step back to the backup, so that its sender pushes it again. */
function withMore(folder: string, promises: Promises): Promise<Promises> {
  return inEngine(folder, promises.nowMs, async (engine) => {
    const { seqs } = await push(engine, 'since', 'since the backup', promises.nowMs);
    return { ...promises, items: [...promises.items, { id: 'since', text: 'since the backup', seqs }] };
  });
}

async function inEngine<T>(folder: string, nowMs: number, work: (engine: Engine) => Promise<T>): Promise<T> {
  const { store } = await openStore({ folder, signer: RELAY_SIGNER, nowMs, newEpoch: epochSource(50) });
  const engine = await engineOver(store, nowMs, () => undefined);
  try {
    return await work(engine);
  } finally {
    await engine.close();
    await store.close();
  }
}

function isOfOtherEpoch(folder: string, { epoch, nowMs }: Promises): Promise<boolean> {
  return inEngine(folder, nowMs, async (engine) => engine.epoch !== epoch);
}

async function isPruned(folder: string): Promise<boolean> {
  const offline = await openOffline(folder);
  const { firstLsn } = offline.store;
  await offline.close();
  return firstLsn > 1;
}

/** A store of the first schema, as it lay on the disk of the software that wrote it. */
async function migrationStore(folder: string): Promise<Template> {
  const store = storeOf(folder);
  const fixture = await fixtureStore(1);
  await cp(fixture.folder, store, { recursive: true });
  await writeFile(join(store, RELAY_KEY_FILE), RELAY_KEY_TEXT, { mode: 0o600 });
  const nowMs = fixture.header.created_at;
  const waiting = (copy: string): Promise<string> =>
    inEngine(storeOf(copy), nowMs, async (engine) => {
      const lines: string[] = [engine.epoch];
      for (const { key } of [alice, bob, carolAfter, dave]) {
        const { rows } = await engine.page(key, 0, 100);
        const wires = await engine.payloads(rows);
        // What the relay itself told of: its seq depends on when.
        for (const [at, { itemId, senderPubkey, wireHash }] of rows.entries())
          if (senderPubkey !== RELAY_SIGNER.publicKey)
            lines.push(`${key} ${itemId} ${wireHash} ${wires[at]?.toString()}`);
      }
      return lines.join('\n');
    });
  const migrated = join(await temporaryFolder(), 'migrated');
  await cp(folder, migrated, { recursive: true });
  const expected = await waiting(migrated);
  return {
    folder,
    nowMs,
    keeps: async (copy, mayBegin = false) => {
      const [epoch, ...lines] = (await waiting(copy)).split('\n');
      expect(lines).toEqual(expected.split('\n').slice(1));
      if (!mayBegin) expect(epoch).toBe(expected.split('\n')[0]);
      expect((await verified(storeOf(copy))).findings).toEqual([]);
    },
    isDone: async (copy) => {
      const { store: opened, notices } = await openStore({
        folder: storeOf(copy),
        signer: RELAY_SIGNER,
        nowMs,
        newEpoch: epochSource(50),
      });
      await opened.close();
      return notices.length === 0;
    },
  };
}

/** The backup has its name only when it is whole. */
async function wholeBackup(folder: string): Promise<void> {
  const backup = await openBackup(backupOf(folder));
  try {
    expect((await resultOf(verify(backup))).findings).toEqual([]);
  } finally {
    await backup.close();
  }
}
