/**
 * Restores a backup as the store of this host, while its daemon is stopped.
 *
 * What going back in time must not undo, and what happens to the rest:
 *   - receipts: their seqs continue above every seq that may have been issued since the backup (`receiptFloor`);
 *   - keys and pairings come from the present store, if it can be read and is this host's: a
 *     retired key does not sign again, and an unpaired host does not come back; so does what relays signed for it, and,
 *     where there are several, which relays it uses, with what hosts told each other of that;
 *   - outgoing mail: a row that waits in the backup is sent again with the same bytes and id, and a receiver that
 *     has it answers `duplicate`, so nothing arrives twice; a row for a host that was unpaired since is given up;
 *   - incoming mail: what peers send again is a duplicate if the backup knows its id, and is stored if not;
 *   - messages since the backup are missing. They are counted, reported to the user who restores and, by mail of the
 *     host itself, to its owner; the replaced store is kept beside the new one.
 */
import { countText } from './core/spans.ts';
import { randomBytes } from 'node:crypto';
import { createReadStream, rmSync, cpSync, existsSync } from 'node:fs';
import { ImageDamaged, type ImageReader, readImage } from '../lib/image.ts';
import { isListening } from '../lib/unix-socket.ts';
import { fileFault } from '../lib/file-fault.ts';
import { type IdentityRow, OWNER_ID, type PeerId } from './core/rows.ts';
import { RETRY_TIMING } from './core/outbox-event.ts';
import { identityOf } from './peers/identity.ts';
import { createHostContext, type HostContext } from './base/context.ts';
import { ownHome, renewOwnHome, ownRelays } from './outbox/homes.ts';
import { afterPeerChange } from './outbox/outbox.ts';
import { reportToAgent } from './mailbox/mailbox.ts';
import { type HostPaths, makePrivateFolder } from './base/paths.ts';
import { HOST_BACKUP, type HostBackupHeader } from './store/backup.ts';
import type { HostStore, Reader, Transaction } from './store/host-store.ts';
import { putOwnRelays } from './relay/relay-rows.ts';
import { HOST_SCHEMA_VERSION, HostStoreRefused, holdsStore, openHostStore } from './store/open.ts';
import { fillStore, finishRestore, removeUnfinished, takePlace, storeToBe } from './store/restored.ts';
import { isoTime } from '../protocol/time.ts';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { DaemonClient } from './api/client.ts';

/** Covers receipts from a time when the clock was ahead. */
const RECEIPT_MARGIN_MS = 86_400_000;
/** Copied in one transaction: a host has few peers, and keeps little of a relay. */
const TAKEN_TABLES = [
  'peer',
  'peerKey',
  'peerName',
  'homeDocument',
  'peerHome',
  'checkpoint',
  'relayTrust',
  'pendingNote',
  'evidence',
] as const;

export type RestoreFault = 'file' | 'damaged' | 'newer' | 'running' | 'other-host' | 'unreadable';

/** Nothing was restored; the message says why and what to do. */
export class RestoreRefused extends Error {
  readonly fault: RestoreFault;

  constructor(fault: RestoreFault, message: string) {
    super(message);
    this.fault = fault;
  }
}

/** The store that a restore replaces, as far as it can be read. */
interface ReplacedHost {
  isReadable: boolean;
  isSameHost: boolean;
  /** Messages that the backup does not hold. */
  messagesSince: number;
  /** The number of them that wait to be sent to another host. */
  outgoingSince: number;
  /** The names of agents that the backup does not hold. */
  agentsSince: string[];
}

/** Counts of the mail and pairings in a backup. */
interface HeldCounts {
  messages: number;
  agents: number;
  /** Paired hosts. */
  peers: number;
  /** Messages that wait to be sent to other hosts. */
  waiting: number;
}

export interface RestorePlan {
  backup: HostBackupHeader;
  holds: HeldCounts;
  /** Null when there is no store. */
  replaced: ReplacedHost | null;
}

export interface RestoreReport extends RestorePlan {
  receiptFloor: number;
  /** The folder that the replaced store was renamed to. */
  keptAside: string | null;
}

export interface RestoreOptions {
  file: string;
  paths: HostPaths;
  nowMs: number;
  /** True to replace also a store that cannot be read, or that is another host's. */
  force: boolean;
  /** Called before anything is replaced; throws to cancel. */
  confirm: (plan: RestorePlan) => Promise<void>;
}

/** Throws `RestoreRefused`, `HostStoreRefused`, or what `confirm` throws. */
export async function restoreHost({ file, paths, nowMs, force, confirm }: RestoreOptions): Promise<RestoreReport> {
  const { store: place, dataFolder, socket } = paths;
  if (await isListening(socket)) throw running(place);
  makePrivateFolder(dataFolder);
  await finishRestore(place);
  const replaced = await openReplaced(place, place, force);
  const making = `${place}.restoring-${randomBytes(4).toString('hex')}`;
  try {
    removeUnfinished(place);
    const backup = await storeOfFile(file, making);
    const restored = await openHostStore(making, () => undefined);
    let plan: RestorePlan;
    let receiptFloor: number;
    try {
      plan = await planOf({ backup, restored, replaced, place, force });
      await confirm(plan);
      receiptFloor = await carryOver(restored, plan, replaced ?? 'unreadable', nowMs);
    } finally {
      await restored.close();
    }
    // The lock of the replaced store is held until it is renamed.
    const keptAside = await takePlace(making, place, nowMs);
    return { ...plan, receiptFloor, keptAside };
  } catch (error) {
    rmSync(making, { recursive: true, force: true });
    throw error;
  } finally {
    if (replaced !== undefined && replaced !== 'unreadable') await replaced.close();
  }
}

/** The present store, which is in `folder`, or a copy of it is; `unreadable`, or `undefined` when there is none. */
async function openReplaced(
  folder: string,
  place: string,
  force: boolean,
): Promise<HostStore | 'unreadable' | undefined> {
  if (!holdsStore(folder)) return undefined;
  try {
    return await openHostStore(folder, () => undefined);
  } catch (error) {
    if (!(error instanceof HostStoreRefused)) throw error;
    if (error.fault === 'locked') throw running(place);
    if (force) return 'unreadable';
    throw new RestoreRefused(
      'unreadable',
      `the store at ${place} cannot be read, so that its keys and pairings cannot be taken over: ` +
        'add --force to restore without them',
    );
  }
}

/** The plan of a restore. Throws `RestoreRefused` when the store is another host's, unless `force`. */
async function planOf({
  backup,
  restored,
  replaced,
  place,
  force,
}: {
  backup: HostBackupHeader;
  restored: HostStore;
  replaced: HostStore | 'unreadable' | undefined;
  place: string;
  force: boolean;
}): Promise<RestorePlan> {
  const seen = replaced === undefined ? null : await compareHosts(restored, replaced);
  if (seen && seen.isReadable && !seen.isSameHost && !force) throw otherHost(place);
  return { backup, holds: await countHeld(restored), replaced: seen };
}

/** Makes a store of the file in `folder`, which must not exist. Throws `RestoreRefused`. */
async function storeOfFile(file: string, folder: string): Promise<HostBackupHeader> {
  try {
    const { header, pairs }: ImageReader<HostBackupHeader> = await readImage(createReadStream(file), HOST_BACKUP);
    if (header.schema_version > HOST_SCHEMA_VERSION) {
      throw new RestoreRefused(
        'newer',
        `${file} is of schema ${header.schema_version} and this software knows ${HOST_SCHEMA_VERSION}: ` +
          'use the newer software',
      );
    }
    await fillStore(folder, pairs);
    return header;
  } catch (error) {
    if (error instanceof ImageDamaged) {
      throw new RestoreRefused('damaged', `${file} cannot be restored (${error.message}): use another backup`);
    }
    const { path, syscall } = error as NodeJS.ErrnoException;
    // Of a folder that is read as a file the system names no path.
    if (path !== file && syscall !== 'read') throw error;
    throw new RestoreRefused('file', `${file} cannot be read (${fileFault(error)}): name a backup file`);
  }
}

/** Counts the messages that the replaced store has and the restored one lacks. */
async function compareHosts(restored: HostStore, replaced: HostStore | 'unreadable'): Promise<ReplacedHost> {
  if (replaced === 'unreadable') {
    return { isReadable: false, isSameHost: false, messagesSince: 0, outgoingSince: 0, agentsSince: [] };
  }
  return replaced.read((before) =>
    restored.read(async (after) => {
      const [own, its] = [identityRow(after), identityRow(before)];
      const known = new Set(its.keys.map(({ publicKey }) => publicKey));
      const isSameHost = own.keys.every(({ publicKey }) => known.has(publicKey));
      let messagesSince = 0;
      for await (const { key } of before.range('message', [])) if (!after.get('message', ...key)) messagesSince++;
      let outgoingSince = 0;
      for await (const { row } of before.range('outbox', [])) {
        if (row.state === 'pending' && after.get('outboxItem', row.peerId, row.itemId) === undefined) outgoingSince++;
      }
      const agentsSince: string[] = [];
      for await (const { key, row } of before.range('agent', [])) {
        if (row.removedAtMs === null && !after.get('agent', ...key)) agentsSince.push(row.name);
      }
      return { isReadable: true, isSameHost, messagesSince, outgoingSince, agentsSince };
    }),
  );
}

async function countHeld(store: HostStore): Promise<HeldCounts> {
  return store.read(async (reader) => {
    const counts: HeldCounts = { messages: 0, agents: 0, peers: 0, waiting: 0 };
    for await (const _ of reader.range('message', [])) counts.messages++;
    for await (const { row } of reader.range('agent', [])) if (row.removedAtMs === null) counts.agents++;
    for await (const { row } of reader.range('peer', [])) if (row.unpairedAtMs === null) counts.peers++;
    for await (const { row } of reader.range('outbox', [])) {
      if (row.state === 'pending' && row.kind === 'envelope') counts.waiting++;
    }
    return counts;
  });
}

/** Copies into the restored store what must not be undone. Returns the floor of receipts. */
async function carryOver(
  restored: HostStore,
  plan: RestorePlan,
  replaced: HostStore | 'unreadable',
  nowMs: number,
): Promise<number> {
  const work = async (before: Reader | undefined): Promise<number> =>
    restored.transact(async (tx) => {
      const own = identityRow(tx);
      const its = before && plan.replaced?.isSameHost ? identityRow(before) : undefined;
      const receiptFloor = Math.max(
        nowMs + RECEIPT_MARGIN_MS,
        own.receiptFloor,
        before ? (await lastReceipt(before)) + 1 : 0,
        before ? identityRow(before).receiptFloor : 0,
      );
      const identity: IdentityRow = { ...(its ?? own), receiptFloor };
      tx.put('identity', [], identity);
      const context = createHostContext(restored, identityOf(identity), RETRY_TIMING, () => undefined);
      if (before && its) {
        await takeTables(tx, before);
        await takeRelays(tx, context, before);
        await endUnpaired(tx, context);
      }
      // Paired hosts may hold a later document of its relays than the one that it has now.
      if (ownHome(tx)) await renewOwnHome(tx, context, { isBehind: true });
      reportRestore(tx, context, plan);
      return receiptFloor;
    });
  return replaced === 'unreadable' ? work(undefined) : replaced.read(work);
}

function identityRow(reader: Reader): IdentityRow {
  const row = reader.get('identity');
  if (!row) throw new Error('invariant: a store has an identity');
  return row;
}

async function lastReceipt(reader: Reader): Promise<number> {
  let last = 0;
  for await (const { row } of reader.range('receipt', [])) last = Math.max(last, row.seq);
  return last;
}

async function takeTables(tx: Transaction, before: Reader): Promise<void> {
  for (const table of TAKEN_TABLES) {
    for await (const { key } of tx.range(table, [])) tx.delete(table, key);
    for await (const { key, row } of before.range(table, [])) tx.put(table, key, row);
  }
}

/**
 * Where this host uses or used several relays, they are those of the store that was there: paired hosts may have
 * learned of them. What an earlier epoch of a relay took is pushed again when that relay can be used.
 */
async function takeRelays(tx: Transaction, context: HostContext, before: Reader): Promise<void> {
  const [its, own] = [await ownRelays(before), await ownRelays(tx)];
  if (its.length > 1 || own.length > 1) await putOwnRelays(tx, context, its);
}

/** Gives up the rows for hosts that were unpaired since the backup, and reports that to their senders. */
async function endUnpaired(tx: Transaction, context: HostContext): Promise<void> {
  const unpaired: PeerId[] = [];
  for await (const { row } of tx.range('peer', [])) if (row.unpairedAtMs !== null) unpaired.push(row.peerId);
  for (const peerId of unpaired) await afterPeerChange(tx, context, peerId, { type: 'peer-unpaired' });
}

function reportRestore(tx: Transaction, context: HostContext, { backup, replaced }: RestorePlan): void {
  const taken = isoTime(backup.created_at);
  const since = replaced?.isReadable
    ? `${countText(replaced.messagesSince, 'message is', 'messages are')} in the store that was there ` +
      `and not in this one; ${replaced.outgoingSince} of them waited to go to another host.`
    : 'What came or was sent since then is not in it, and how much that is, is unknown.';
  const body =
    `This host was restored from a backup that was taken at ${taken}. ${since} ` +
    'Agents that sent something since then should look whether it is there before they send it again.';
  reportToAgent(tx, context, OWNER_ID, { subject: 'Restored from a backup', body, kind: 'alert' });
}

function running(place: string): RestoreRefused {
  return new RestoreRefused('running', `a daemon uses the store at ${place}: stop it, and restore then`);
}

function otherHost(place: string): RestoreRefused {
  return new RestoreRefused(
    'other-host',
    `the store at ${place} is that of another host than the backup: add --force to put the backup in its place`,
  );
}

type RehearsalOptions = Pick<RestoreOptions, 'file' | 'paths' | 'force'> & { signal: AbortSignal };

export interface RestoreRehearsal extends RestorePlan {
  /** It has to be stopped before a restore. */
  isDaemonRunning: boolean;
}

/**
 * Tells what a restore of this host would do, over copies in the folder for temporary files: the present store is not
 * opened, and a daemon may go on using it. Throws `RestoreRefused` where a restore would, `CallFailed`, or why the
 * signal aborted.
 */
export async function rehearseRestore({ file, paths, force, signal }: RehearsalOptions): Promise<RestoreRehearsal> {
  const scratch = await mkdtemp(join(tmpdir(), 'poste-rehearsal-'));
  const opened: HostStore[] = [];
  try {
    const backup = await storeOfFile(file, join(scratch, 'restored'));
    const restored = await openHostStore(join(scratch, 'restored'), () => undefined);
    opened.push(restored);
    signal.throwIfAborted();
    const isDaemonRunning = await isListening(paths.socket);
    const copy = join(scratch, 'present');
    if (isDaemonRunning) await copyOfDaemon(paths, copy, signal);
    else copyOfStore(paths.store, copy);
    const present = await openReplaced(copy, paths.store, force);
    if (present !== undefined && present !== 'unreadable') opened.push(present);
    const plan = await planOf({ backup, restored, replaced: present, place: paths.store, force });
    return { ...plan, isDaemonRunning };
  } finally {
    for (const store of opened) await store.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Copies what the daemon holds at this moment. */
async function copyOfDaemon({ socket, store }: HostPaths, copy: string, signal: AbortSignal): Promise<void> {
  const chunks = new DaemonClient(socket, store).backup(signal);
  const { pairs } = await readImage(chunks, HOST_BACKUP);
  await fillStore(copy, pairs);
}

function copyOfStore(store: string, copy: string): void {
  const place = storeToBe(store);
  if (!existsSync(place)) return;
  cpSync(place, copy, { recursive: true, filter: (path) => basename(path) !== 'LOCK' });
}
