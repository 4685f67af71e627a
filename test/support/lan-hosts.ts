/** Hosts with a listener on loopback, each with a store of its own and real keys. */
import { randomBytes } from 'node:crypto';
import { onTestFinished } from 'vitest';
import { isRefusal } from '../../src/host/core/refusal.ts';
import type { OutboxRow, PeerRow, QuarantineRow } from '../../src/host/core/rows.ts';
import type { PeerView } from '../../src/host/documents/peers.ts';
import { Bell } from '../../src/host/office/bell.ts';
import { identityOf, loadIdentity, newIdentityRow } from '../../src/host/office/identity.ts';
import type { Happening, Identity, Office } from '../../src/host/office/office.ts';
import { peerOfName } from '../../src/host/office/peers.ts';
import { generateSealKey } from '../../src/host/office/sealing.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import { LanSide } from '../../src/host/transport/lan-side.ts';
import { parseHostName } from '../../src/protocol/names.ts';
import { disposableFolder } from './temporary-folder.ts';

/** How long a test waits for what must come. */
const PATIENCE_MS = 20_000;

export interface LanHost {
  office: Office;
  readonly lan: LanSide;
  told: Happening[];
  /** Both clocks go ahead by this. */
  clock: { aheadMs: number };
  /** Ends its daemon, as far as the LAN is concerned. */
  down(): Promise<void>;
  /** Starts it again over what is stored, at the port that it had. */
  up(): Promise<void>;
  /** Resolves at the next commit, or when something is said in the log. */
  changed(): Promise<void>;
}

export async function openLanHost(name: string): Promise<LanHost> {
  const { folder, remove } = await disposableFolder();
  const clock = { aheadMs: 0 };
  let waiting: (() => void)[] = [];
  const wake = (): void => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  let store = watched(await createHostStore(folder, () => undefined), wake);
  const { enc_pub: encPub, secret } = await generateSealKey();
  const hostName = parseHostName(name);
  if (hostName === undefined) throw new Error(`${name} is no host name`);
  const row = newIdentityRow({ hostName, seed: randomBytes(32), sealKey: { encPub, secret }, nowMs: Date.now() });
  await store.transact((tx) => tx.put('identity', [], row));
  let identity: Identity = identityOf(row);
  const bell = new Bell();
  const told: Happening[] = [];
  bell.listen((happening) => {
    if (happening.type === 'identity-changed') identity = happening.identity;
    told.push(happening);
  });
  const office: Office = {
    get store() {
      return store;
    },
    identity: () => identity,
    nowMs: () => Date.now() + clock.aheadMs,
    monotonicMs: () => performance.now() + clock.aheadMs,
    randomBytes: (count) => randomBytes(count),
    tell: (happening) => bell.tell(happening),
    listen: (listener) => bell.listen(listener),
    log: wake,
  };
  let port = 0;
  let isUp = false;
  const newSide = (): LanSide =>
    new LanSide({ office, listen: { host: '127.0.0.1', port }, advertise: undefined, version: '0' });
  let lan = newSide();
  const down = async (): Promise<void> => {
    if (!isUp) return;
    isUp = false;
    port = lan.port ?? port;
    await lan.stop();
    await store.close();
  };
  const up = async (): Promise<void> => {
    store = watched(await openHostStore(folder, () => undefined), wake);
    identity = await loadIdentity(store);
    lan = newSide();
    isUp = true;
    await lan.start();
  };
  isUp = true;
  await lan.start();
  onTestFinished(async () => {
    await down();
    waiting = [];
    await remove();
  });
  const changed = (): Promise<void> => new Promise((resolve) => waiting.push(resolve));
  return {
    office,
    get lan() {
      return lan;
    },
    told,
    clock,
    down,
    up,
    changed,
  };
}

/** The store, that says when something was committed. */
function watched(store: HostStore, committed: () => void): HostStore {
  const transact = store.transact.bind(store);
  store.transact = async (work) => {
    const value = await transact(work);
    committed();
    return value;
  };
  return store;
}

/** What `ask` answers when that is something: asked now, and after every commit of the host. */
export async function until<T>(host: LanHost, ask: () => Promise<T | undefined>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error('it did not come to be')), PATIENCE_MS);
  });
  try {
    for (;;) {
      const changed = host.changed();
      const answer = await ask();
      if (answer !== undefined) return answer;
      await Promise.race([changed, late]);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** The code of an invitation that is open from now on, and where it can be accepted. */
export async function inviteAt(host: LanHost): Promise<{ code: string; address: string }> {
  const invited = await host.lan.invite();
  if (isRefusal(invited)) throw new Error(invited.message);
  return { code: invited.code, address: `127.0.0.1:${host.lan.port}` };
}

/** Pairs them: `there` accepts. */
export async function pair(here: LanHost, there: LanHost): Promise<PeerView> {
  const accepted = await there.lan.accept(await inviteAt(here));
  if (isRefusal(accepted)) throw new Error(accepted.message);
  return accepted;
}

export async function pairedLanHosts(): Promise<[here: LanHost, there: LanHost]> {
  const [here, there] = [await openLanHost('here'), await openLanHost('there')];
  await pair(here, there);
  return [here, there];
}

export function peerOf({ office }: LanHost, name: string): Promise<PeerRow | undefined> {
  return office.store.read((reader) => peerOfName(reader, name));
}

export function outboxRowsOf({ office }: LanHost): Promise<OutboxRow[]> {
  return office.store.read(async (reader) => {
    const rows: OutboxRow[] = [];
    for await (const { row } of reader.range('outbox', [])) rows.push(row);
    return rows;
  });
}

export function quarantineOf({ office }: LanHost): Promise<QuarantineRow[]> {
  return office.store.read(async (reader) => {
    const rows: QuarantineRow[] = [];
    for await (const { row } of reader.range('quarantine', [])) rows.push(row);
    return rows;
  });
}
