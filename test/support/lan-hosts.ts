/** Hosts with a listener on loopback, each with a store of its own and real keys. */
import { onTestFinished } from 'vitest';
import { Bell } from '../../src/host/office/bell.ts';
import { identityOf, newIdentityRow } from '../../src/host/office/identity.ts';
import type { Happening, Identity, Office } from '../../src/host/office/office.ts';
import { generateSealKey } from '../../src/host/office/sealing.ts';
import type { HostStore } from '../../src/host/store/host-store.ts';
import { createHostStore } from '../../src/host/store/open.ts';
import { LanSide } from '../../src/host/transport/lan-side.ts';
import { parseHostName } from '../../src/protocol/names.ts';
import { randomBytes } from 'node:crypto';
import { disposableFolder } from './temporary-folder.ts';

export interface LanHost {
  office: Office;
  store: HostStore;
  lan: LanSide;
  told: Happening[];
}

export async function openLanHost(name: string): Promise<LanHost> {
  const { folder, remove } = await disposableFolder();
  const store = await createHostStore(folder, () => undefined);
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
    store,
    identity: () => identity,
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    randomBytes: (count) => randomBytes(count),
    tell: (happening) => bell.tell(happening),
    listen: (listener) => bell.listen(listener),
    log: () => undefined,
  };
  const lan = new LanSide({ office, listen: { host: '127.0.0.1', port: 0 }, advertise: undefined, version: '0' });
  await lan.start();
  onTestFinished(async () => {
    await lan.stop();
    await store.close();
    await remove();
  });
  return { office, store, lan, told };
}

/** Resolves when the host is told of something of this type, from now on. */
export function untilTold(host: LanHost, type: Happening['type']): Promise<void> {
  return new Promise((resolve) => {
    const end = host.office.listen((happening) => {
      if (happening.type !== type) return;
      end();
      resolve();
    });
  });
}
