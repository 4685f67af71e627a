/** Hosts with a listener on loopback, each with a store of its own and real keys. */
import { randomBytes } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { onTestFinished } from 'vitest';
import { isRefusal } from '../../src/host/core/refusal.ts';
import type { QuarantineRow } from '../../src/host/core/quarantine.ts';
import type { Identity, OutboxRow, PeerRow } from '../../src/host/core/rows.ts';
import type { PeerView } from '../../src/host/contract/peers.ts';
import { type HostContext, EventBus, type HostEvent } from '../../src/host/base/context.ts';
import { loadIdentity, newIdentityRow } from '../../src/host/peers/identity.ts';
import { peerOfName } from '../../src/host/peers/peers.ts';
import { generateSealKey } from '../../src/host/wire/sealing.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore, openHostStore } from '../../src/host/store/open.ts';
import { LanService } from '../../src/host/lan/lan-service.ts';
import { OutboxDispatcher } from '../../src/host/outbox/dispatcher.ts';
import { parseHostName } from '../../src/protocol/names.ts';
import { displayFingerprint } from '../../src/protocol/public-key.ts';
import { disposableFolder } from './temporary-folder.ts';
import { PATIENCE_MS } from './patience.ts';
import { onEvent } from './on-event.ts';
import { found } from './found.ts';
import { rowsOf } from './stored-rows.ts';
import { contextWithoutStore } from './test-context.ts';

export interface LanHost {
  context: HostContext;
  readonly lan: LanService;
  told: HostEvent[];
  /** How often it wanted to look at its relay, which it has not. */
  looks: { count: number };
  /** Both clocks go ahead by this; the one that does not go back stands at `stoppedMs` otherwise. */
  clock: { aheadMs: number; stoppedMs?: number };
  /** Another host over a copy of all that this one has: as somebody who got at its home would start it. */
  copy(): Promise<LanHost>;
  /** Ends its daemon, as far as the LAN is concerned. */
  down(): Promise<void>;
  /** Starts it again over what is stored, at the port that it had. */
  up(): Promise<void>;
  /** Resolves at the next commit, or when something is said in the log. */
  changed(): Promise<void>;
}

/** A host of its own, or over what `home` holds: a copy of the folder of another, made while that was down. */
export async function openLanHost(name: string, home?: Awaited<ReturnType<typeof disposableFolder>>): Promise<LanHost> {
  const { folder, remove } = home ?? (await disposableFolder());
  const clock: LanHost['clock'] = { aheadMs: 0 };
  let waiting: (() => void)[] = [];
  const wake = (): void => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  const open = home ? openHostStore : createHostStore;
  let store = watched(await open(folder, () => undefined), wake);
  if (!home) {
    const { enc_pub: encPub, secret } = await generateSealKey();
    const hostName = found(parseHostName(name), `${name} is no host name`);
    const row = newIdentityRow({ hostName, seed: randomBytes(32), sealKey: { encPub, secret }, nowMs: Date.now() });
    await store.transact((tx) => tx.put('identity', [], row));
  }
  let identity: Identity = await loadIdentity(store);
  const events = new EventBus();
  const told: HostEvent[] = [];
  events.subscribe('context', {
    'identity-changed': (event) => {
      ({ identity } = event);
    },
  });
  onEvent(events, (event) => told.push(event));
  const parts = contextWithoutStore({
    identity: () => identity,
    nowMs: () => Date.now() + clock.aheadMs,
    monotonicMs: () => (clock.stoppedMs ?? performance.now()) + clock.aheadMs,
    randomBytes,
    bus: events,
  });
  const context: HostContext = {
    ...parts,
    get store() {
      return store;
    },
    log: wake,
  };
  const looks = { count: 0 };
  const look = async (): Promise<void> => void looks.count++;
  let port = 0;
  let isUp = false;
  const newSide = (): LanService =>
    new LanService({ context, listen: { host: '127.0.0.1', port }, advertise: undefined, version: '0', look });
  const newOutbox = (): OutboxDispatcher => new OutboxDispatcher({ context, lan: lan.carrier, relays: { all: [] } });
  let lan = newSide();
  let outbox = newOutbox();
  const down = async (): Promise<void> => {
    if (!isUp) return;
    isUp = false;
    port = lan.port ?? port;
    const ended = outbox.stop();
    await lan.stop();
    await ended;
    await store.close();
  };
  const up = async (): Promise<void> => {
    store = watched(await openHostStore(folder, () => undefined), wake);
    identity = await loadIdentity(store);
    lan = newSide();
    outbox = newOutbox();
    isUp = true;
    await lan.start();
    await outbox.start();
  };
  isUp = true;
  await lan.start();
  await outbox.start();
  onTestFinished(async () => {
    await down();
    waiting = [];
    await remove();
  });
  const changed = (): Promise<void> => new Promise((resolve) => waiting.push(resolve));
  const copy = async (): Promise<LanHost> => {
    const copied = await disposableFolder();
    await down();
    await cp(folder, copied.folder, { recursive: true });
    await up();
    return openLanHost(name, copied);
  };
  return {
    context,
    get lan() {
      return lan;
    },
    told,
    looks,
    clock,
    copy,
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

/** Returns what `ask` answers when that is something: asked now, and after every commit of the host. */
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

export const fingerprintOf = ({ context }: LanHost): string => displayFingerprint(context.identity().signer.publicKey);

/**
 * The code of an invitation that is open from now on, and where it can be accepted: by `acceptor` without more words.
 */
export async function inviteAt(host: LanHost, acceptor?: LanHost): Promise<{ code: string; address: string }> {
  const invited = await host.lan.invite(acceptor && { fingerprint: fingerprintOf(acceptor) });
  if (isRefusal(invited)) throw new Error(invited.message);
  return { code: invited.code, address: `127.0.0.1:${host.lan.port}` };
}

/** Pairs them: `there` accepts. */
export async function pair(here: LanHost, there: LanHost): Promise<PeerView> {
  const accepted = await there.lan.accept(await inviteAt(here, there));
  if (isRefusal(accepted)) throw new Error(accepted.message);
  return accepted;
}

/** Paired, and each has asked the other for its agents: neither calls again by itself, as nothing changes. */
export async function pairedLanHosts(): Promise<[here: LanHost, there: LanHost]> {
  const [here, there] = [await openLanHost('here'), await openLanHost('there')];
  await pair(here, there);
  await Promise.all([knowsAgentsOf(here, 'there'), knowsAgentsOf(there, 'here')]);
  return [here, there];
}

async function knowsAgentsOf(host: LanHost, name: string): Promise<void> {
  await until(host, async () => (await peerOf(host, name))?.directory ?? undefined);
}

export function peerOf({ context }: LanHost, name: string): Promise<PeerRow | undefined> {
  return context.store.read((reader) => peerOfName(reader, name));
}

export function outboxRowsOf({ context }: LanHost): Promise<OutboxRow[]> {
  return rowsOf(context.store, 'outbox', []);
}

export function quarantineOf({ context }: LanHost): Promise<QuarantineRow[]> {
  return rowsOf(context.store, 'quarantine', []);
}
