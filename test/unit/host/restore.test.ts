/**
 * Tests what a restore of a host carries over from the store that was there, and what becomes of one that was cut
 * short.
 */
import { createWriteStream, existsSync } from 'node:fs';
import { mkdir, readdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { pinRelay, putOwnRelays, rowPinned } from '../../../src/host/relay/relay-rows.ts';
import { ownRelays, ownHome } from '../../../src/host/outbox/homes.ts';
import { describe, expect, test } from 'vitest';
import { initialiseHost } from '../../../src/host/init.ts';
import { RETRY_TIMING } from '../../../src/host/core/outbox-event.ts';
import { NEW_TRUST } from '../../../src/host/core/relay-trust.ts';
import { addAgent } from '../../../src/host/agents/agents.ts';
import { loadIdentity, rotateOwnKey } from '../../../src/host/peers/identity.ts';
import { createHostContext, type HostContext } from '../../../src/host/base/context.ts';
import { listOutbox } from '../../../src/host/outbox/outbox-list.ts';
import { dueRows } from '../../../src/host/outbox/outbox.ts';
import { learnDirectory, listPeers, peerOfName, pinPeer, unpair } from '../../../src/host/peers/peers.ts';
import { type HostPaths, ownPaths } from '../../../src/host/base/paths.ts';
import { generateSealKey } from '../../../src/host/wire/sealing.ts';
import { type RestoreReport, restoreHost } from '../../../src/host/restore.ts';
import { writeHostBackup } from '../../../src/host/store/backup.ts';
import { openHostStore } from '../../../src/host/store/open.ts';
import { finishRestore } from '../../../src/host/store/restored.ts';
import { type HostName, parseHostName } from '../../../src/protocol/names.ts';
import { accepted, idOf, send } from '../../support/mail-context.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { HOME_RELAYS, useRelays } from '../../support/home-relays.ts';
import { hostNamed, relay } from '../../support/hosts.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const agreed = (): Promise<void> => Promise.resolve();

class Host {
  readonly paths: HostPaths;
  readonly file: string;

  constructor(folder: string) {
    this.file = join(folder, 'poste.backup');
    this.paths = ownPaths({ env: { POSTE_HOME: join(folder, 'poste') } });
  }

  /** As its daemon would, while it runs. */
  async as<T>(work: (context: HostContext) => Promise<T>): Promise<T> {
    const store = await openHostStore(this.paths.store, () => undefined);
    try {
      return await work(createHostContext(store, await loadIdentity(store), RETRY_TIMING, () => undefined));
    } finally {
      await store.close();
    }
  }

  backup(): Promise<void> {
    return this.as(async (context) => {
      const { hostName: host, signer } = context.identity();
      const header = { host, host_pubkey: signer.publicKey, created_at: context.nowMs(), version: '1' };
      await pipeline(Readable.from(writeHostBackup(context.store, header)), createWriteStream(this.file));
    });
  }

  restore(): Promise<RestoreReport> {
    return restoreHost({ file: this.file, paths: this.paths, nowMs: Date.now(), force: false, confirm: agreed });
  }

  /** The names beside the store. */
  async beside(): Promise<string[]> {
    return (await readdir(dirname(this.paths.store))).toSorted();
  }
}

async function host(): Promise<Host> {
  const made = new Host(await temporaryFolder());
  await initialiseHost(made.paths, parseHostName('here') as HostName, Date.now());
  return made;
}

/** A paired host with the agent bob. */
async function pair(context: HostContext, name: string): Promise<void> {
  const { key: publicKey } = hostNamed(name);
  const { enc_pub: encPub } = await generateSealKey();
  const encKey = { hostPubkey: publicKey, encPub, at: 1, sig: '' };
  await context.store.transact(async (tx) => {
    const pinned = await pinPeer(tx, context, { hostName: name as HostName, publicKey, encKey, address: null });
    const directory = { agents: [{ name: 'bob', roles: [] }], fetchedAtMs: context.nowMs() };
    learnDirectory(tx, accepted(pinned).peerId, directory, context.nowMs());
  });
}

async function peerNames(context: HostContext): Promise<string[]> {
  return (await listPeers(context)).peers.map(({ host: name }) => name).toSorted();
}

const pinned = (name: string) => ({ url: `https://${name}.example`, pubkey: hostNamed(name).key, proof: null });

const keptNote = (size: number) =>
  ({ epoch: epochNumbered(1), size, root: '', note: '', knew: null, atMs: 0 }) as never;

describe('what a restore of a host does not undo', () => {
  test('keys and pairings are those of the store that was there', async () => {
    const here = await host();
    await here.as(async (context) => {
      await pair(context, 'laptop');
      await pair(context, 'gone');
    });
    await here.backup();
    const before = await here.as(async (context) => {
      accepted(await rotateOwnKey(context));
      accepted(await unpair(context, 'gone'));
      await pair(context, 'later');
      return context.store.read((reader) => Promise.resolve(reader.get('identity')));
    });
    const report = await here.restore();
    expect(report.replaced).toMatchObject({ isReadable: true, isSameHost: true });
    await here.as(async (context) => {
      const after = await context.store.read((reader) => Promise.resolve(reader.get('identity')));
      expect(after).toEqual({ ...before, receiptFloor: report.receiptFloor });
      expect(after?.keys).toHaveLength(2);
      expect(context.identity().signer.publicKey).not.toBe(report.backup.host_pubkey);
      expect(await peerNames(context)).toEqual(['laptop', 'later']);
    });
  });

  test('what relays signed for this host, and evidence, are those of the store that was there', async () => {
    const here = await host();
    const put = (size: number): Promise<void> =>
      here.as((context) =>
        context.store.transact((tx) => {
          tx.put('checkpoint', [relay.key, epochNumbered(1)], keptNote(size));
          tx.put('relayTrust', [relay.key], { ...NEW_TRUST, looks: size });
        }),
      );
    await put(3);
    await here.backup();
    await put(5);
    await here.restore();
    await here.as((context) =>
      context.store.read((reader) => {
        expect(reader.get('checkpoint', relay.key, epochNumbered(1))).toEqual(keptNote(5));
        expect(reader.get('relayTrust', relay.key)).toMatchObject({ looks: 5 });
      }),
    );
  });

  test('of several relays it uses those of the store that was there', async () => {
    const here = await host();
    const use = (...names: string[]): Promise<void> =>
      here.as((context) =>
        context.store.transact((tx) => {
          const home = names.map((name) => ({ row: rowPinned(pinned(name), undefined, 1), role: 'home' as const }));
          return putOwnRelays(tx, context, home);
        }),
      );
    const used = () =>
      here.as((context) => context.store.read(async (reader) => (await ownRelays(reader)).map(({ row }) => row.url)));
    await use('r1', 'r2');
    await here.backup();
    await use('r2', 'r3', 'r4');
    const [seq] = await here.as((context) => context.store.read((reader) => [reader.get('homeDocument')?.doc.seq]));
    await here.restore();
    expect(await used()).toEqual(['r2', 'r3', 'r4'].map((name) => `https://${name}.example`));
    await here.as((context) =>
      context.store.read((reader) => {
        expect(seq).toBeGreaterThan(0);
        expect(reader.get('homeDocument')?.doc).toMatchObject({ relays: [{}, {}, {}] });
        expect(reader.get('homeDocument')?.doc.seq).toBeGreaterThan(seq ?? 0);
      }),
    );
  });

  test('of one relay it uses that of the backup', async () => {
    const here = await host();
    const use = (name: string): Promise<void> =>
      here.as((context) =>
        context.store.transact((tx) => {
          pinRelay(tx, context, pinned(name));
        }),
      );
    await use('r1');
    await here.backup();
    await use('r2');
    await here.restore();
    await here.as((context) =>
      context.store.read((reader) => expect(reader.get('relay')?.url).toBe('https://r1.example')),
    );
  });

  test('the document of its relays is ahead of those that paired hosts hold; with one relay it has none', async () => {
    const here = await host();
    await here.as((context) => useRelays(context, HOME_RELAYS.slice(0, 1)));
    await here.backup();
    await here.restore();
    const ownDocument = () => here.as((context) => context.store.read(async (reader) => ownHome(reader)));
    expect(await ownDocument()).toBeUndefined();
    const old = await here.as((context) => useRelays(context, HOME_RELAYS.slice(0, 2)));
    await here.backup();
    await here.restore();
    const anew = await ownDocument();
    expect(anew?.doc).toMatchObject({ relays: HOME_RELAYS.slice(0, 2) });
    expect(anew?.doc.seq).toBeGreaterThan(old?.doc.seq ?? 0);
  });

  test('what waits for a host that was unpaired since is not sent, and its sender is told', async () => {
    const here = await host();
    const [gone, kept] = await here.as(async (context) => {
      await pair(context, 'gone');
      await pair(context, 'laptop');
      accepted(await addAgent(context, { name: 'eve' }));
      const sent = ['bob@gone', 'bob@laptop'].map((to) => send(context, 'eve', { to: [to] }));
      return (await Promise.all(sent)).map((result) => accepted(result).message_id);
    });
    await here.backup();
    const unpaired = await here.as(async (context) => {
      const peer = await context.store.read((reader) => Promise.resolve(peerOfName(reader, 'gone')));
      accepted(await unpair(context, 'gone'));
      return peer;
    });
    await here.restore();
    await here.as(async (context) => {
      const { rows } = accepted(await listOutbox(context, { show: 'all' }));
      const states = new Map(rows.map(({ message_id, state }) => [message_id, state]));
      expect(states).toEqual(
        new Map([
          [gone, 'undelivered'],
          [kept, 'pending'],
        ]),
      );
      const later = { ...context, nowMs: () => Date.now() + 1e12 };
      const due = await dueRows(later, unpaired!.peerId, 10);
      expect(due.filter(({ kind }) => kind === 'envelope')).toEqual([]);
      const told = await context.store.read(async (reader) => reader.get('mailbox', await idOf(context, 'eve')));
      expect(told).toMatchObject({ unread: 1 });
    });
  });
});

describe('a restore of a host that was cut short', () => {
  test('between its two renames is finished at the next start', async () => {
    const here = await host();
    await here.backup();
    await here.as((context) => addAgent(context, { name: 'later' }));
    await here.restore();
    const { store } = here.paths;
    // As a crash leaves it: what served has another name, and the restored one has its own not yet.
    await rename(store, `${store}.restored`);
    await finishRestore(store);
    expect((await here.beside()).map((name) => name.replace(/\d{8}T\d{6}Z/, 'TIME'))).toEqual([
      'config.toml',
      'store',
      'store.replaced-TIME',
    ]);
    await here.as(async (context) => {
      const report = await context.store.read((reader) => Promise.resolve(reader.get('mailbox', 'owner' as never)));
      expect(report).toMatchObject({ unread: 1 });
    });
  });

  test('before the first rename leaves the store that served, and the next restore clears up', async () => {
    const here = await host();
    await here.backup();
    const { store } = here.paths;
    await mkdir(`${store}.restored`);
    await mkdir(`${store}.restoring-0a0b0c0d`);
    await finishRestore(store);
    await here.as((context) => addAgent(context, { name: 'eve' }));
    const { keptAside } = await here.restore();
    expect(existsSync(keptAside ?? '')).toBe(true);
    expect(await here.beside()).toEqual(['config.toml', 'store', keptAside?.slice(dirname(store).length + 1)]);
  });
});
