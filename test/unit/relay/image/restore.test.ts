/** Restores over real stores: what they take over, what they refuse, and what they leave behind. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import { type BackupHeader, writeBackup } from '../../../../src/relay/image/backup.ts';
import { PREFIX, logKey, prefixRange, queueKey } from '../../../../src/relay/store/keys.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { decodeRow, encodeRow } from '../../../../src/relay/store/row-codec.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { PositionFile } from '../../../../src/relay/store/position.ts';
import { StoreRefused } from '../../../../src/relay/store/refused.ts';
import { tableRows } from '../../../../src/relay/store/scan.ts';
import { verified } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { damageTables, intoTables, tablesIn } from '../../../support/damaged-tables.ts';
import {
  accountEnrolOf,
  encKeyOf,
  enrolOf,
  hostSeenOf,
  inviteOf,
  pushOf,
  revokeOf,
  rotateOf,
  sendersOf,
} from '../../../support/commands.ts';
import { alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { unpackRecords, withRawLevel } from '../../../support/raw-level.ts';
import { expectReplayed } from '../../../support/replay.ts';
import { anyEpoch, backUp, restored } from '../../../support/restores.ts';
import { signedRotation } from '../../../support/rotations.ts';
import { disposableFolder, temporaryFolder } from '../../../support/temporary-folder.ts';
import { type TestRelay, openTestRelay } from '../../../support/test-relay.ts';
import { alterWire, loseWire } from '../../../support/stored-items.ts';

const DAY_MS = 86_400_000;

interface World {
  relay: TestRelay;
  /** A backup of it. */
  file: string;
}

/** As a rebuild leaves the folder before its last step. */
async function interruptRebuild({ folder }: TestRelay): Promise<void> {
  await cp(join(folder, 'log'), join(folder, 'log.rebuilt'), { recursive: true });
  await rename(join(folder, 'log'), join(folder, 'log.replaced-20251120T000000000Z'));
}

/** As a restore leaves the folder before the restored store takes its place. */
async function interruptRestore({ folder, clock }: TestRelay, file: string): Promise<void> {
  await expect(restored(file, folder, clock.nowMs, { step: endBeforeLastRename })).rejects.toThrow('interrupted');
}

function endBeforeLastRename(step: string): Promise<void> {
  return step === 'the restored store takes its place' ? Promise.reject(new Error('interrupted')) : Promise.resolve();
}

/** A relay with mail, a backup of it, and not closed yet. */
async function backedUp(): Promise<World> {
  const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob, carol] });
  await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
  await relay.pushOne(pushOf(alice, 'm2', [[carol, 'two']]));
  const file = join(await temporaryFolder(), 'backup');
  await backUp(relay, file);
  relay.clock.move(60_000);
  return { relay, file };
}

async function restore({ relay, file }: World, changes: Parameters<typeof restored>[3] = {}) {
  await relay.close();
  const report = await restored(file, relay.folder, relay.clock.nowMs, changes);
  await relay.open();
  return report;
}

/** Every file below, by its path, as the hash of its bytes. */
async function treeOf(folder: string): Promise<Record<string, string>> {
  const tree: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    tree[path] = createHash('sha256')
      .update(await readFile(path))
      .digest('hex');
  }
  return tree;
}

async function scratchFolders(): Promise<string[]> {
  return (await readdir(tmpdir())).filter((name) => name.startsWith('poste-rehearsal-'));
}

describe('a restored store', () => {
  test('serves at once, in an epoch of its own, and its rows are those of its log', async () => {
    const world = await backedUp();
    const { relay } = world;
    const before = relay.engine.epoch;
    await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]));
    const lost = await relay.queue(bob);
    const report = await restore(world);
    expect(relay.notices).toEqual([]);
    expect(relay.engine.epoch).toBe(report.epoch);
    expect(report.epoch).not.toBe(before);
    expect(await relay.wires(bob)).toEqual(['one']);
    expect(report).toMatchObject({ items: 2, missing: [{ hostName: 'alice', items: 1 }], carried: { seqFloors: 1 } });
    await expectReplayed(relay.store);
    // What is pushed again comes above everything that was given.
    const again = await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]));
    expect(again.verdict).toBe('accepted');
    expect(again.seqs[0]).toBeGreaterThan(lost.at(-1)?.seq ?? Infinity);
    expect((await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]))).verdict).toBe('duplicate');
  });

  test('keeps out whom the replaced one kept out, and brings a rotated queue over', async () => {
    const world = await backedUp();
    const { relay } = world;
    const { nowMs } = relay.clock;
    await relay.engine.admissions.revokeHost(revokeOf(alice, { nowMs }));
    await relay.rotate(rotateOf(carol, dave));
    await relay.publishSenders(sendersOf(bob, [dave], { iatMs: nowMs }));
    await relay.engine.publishEncKey(encKeyOf(dave, 'key', { advertisedAtMs: nowMs, nowMs }));
    const late = hostNamed('late');
    await relay.enrol(enrolOf(late));
    await relay.engine.admissions.revokeHost(revokeOf(late, { nowMs }));
    const report = await restore(world);
    expect(report.carried).toMatchObject({ revoked: 2, rotated: 1, movedItems: 1, senderLists: 1, encKeys: 1 });
    for (const host of [alice, carol, late]) {
      expect(await relay.enrol(enrolOf(host))).toMatchObject({ type: 'Refusal', code: 'ENROL_REFUSED' });
    }
    expect(await relay.wires(dave)).toEqual(['two']);
    expect(await relay.queue(carol)).toEqual([]);
    expect(await relay.engine.rotation(carol.key)).toEqual(signedRotation(carol, dave));
    expect(await relay.engine.encKey(dave.key)).toMatchObject({ encPub: 'key' });
    const refused = await relay.pushOne(pushOf(hostNamed('stranger'), 'm9', [[bob, 'x']]));
    expect(refused.verdict).toBe('rejected:sender not accepted by target');
    await expectReplayed(relay.store);
  });

  test('brings over a queue that was still on its way when the backup was taken', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob] });
    const count = 450;
    await relay.push(...Array.from({ length: count }, (_none, at) => pushOf(alice, `m${at}`, [[bob, `${at}`]])));
    const rotating = relay.rotate(rotateOf(bob, carol));
    const file = join(await temporaryFolder(), 'backup');
    // The rotation itself is durable, and its items follow.
    while (relay.store.get('move', bob.key) === undefined) await new Promise((resolve) => setImmediate(resolve));
    const written = await backUp(relay, file);
    await rotating;
    const order = await relay.wires(carol);
    await relay.rotate(rotateOf(carol, dave));
    expect(written.items).toBe(count);
    await restore({ relay, file });
    expect(await relay.queue(carol)).toEqual([]);
    expect(await relay.wires(dave)).toEqual(order);
  });

  test('of a backup in the middle of a rotation charges nobody for an item that was lost', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob] });
    const count = 450;
    await relay.push(...Array.from({ length: count }, (_none, at) => pushOf(alice, `m${at}`, [[bob, `${at}`]])));
    const lost = (await relay.queue(bob)).at(-1)?.seq ?? 0;
    await relay.altered((level) => loseWire(level, bob.key, lost));
    const rotating = relay.rotate(rotateOf(bob, carol));
    const file = join(await temporaryFolder(), 'backup');
    while (relay.store.get('move', bob.key) === undefined) await new Promise((resolve) => setImmediate(resolve));
    await backUp(relay, file);
    await rotating;
    expect(await restore({ relay, file })).toMatchObject({ carried: { lost: 1, movedItems: expect.any(Number) } });
    expect(relay.store.get('target', bob.key)).toMatchObject({ queueItems: 0, queueBytes: 0 });
    expect(relay.store.get('target', carol.key)).toMatchObject({ queueItems: count - 1 });
    await relay.close();
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('has no account for a revoked key that the backup does not know, and its mail expires', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, enrolmentsMax: 2 });
    await relay.enrol(enrolOf(alice));
    await relay.engine.noteHostSeen(hostSeenOf(alice, relay.clock.nowMs));
    await relay.enrol(accountEnrolOf(bob, 'acme'));
    await relay.pushOne(pushOf(alice, 'm1', [[bob, 'one']]));
    relay.clock.move(2 * DAY_MS);
    // There is no room: bob, who never came, gives way, and its mail waits on.
    await relay.enrol(enrolOf(carol));
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    await relay.engine.admissions.revokeHost(revokeOf(carol));
    await relay.enrol(accountEnrolOf(bob, 'acme'));
    await relay.engine.admissions.revokeHost(revokeOf(bob, { nowMs: relay.clock.nowMs }));
    await restore({ relay, file });
    expect(relay.store.get('enrolment', bob.key)).toMatchObject({ account: null });
    relay.clock.move(15 * DAY_MS);
    await relay.sweep();
    expect(relay.failures).toEqual([]);
    expect(await relay.queue(bob)).toEqual([]);
    await relay.close();
    expect((await verified(relay.folder)).findings).toEqual([]);
  });

  test('closes the invites that were used, and all when there is no store to ask', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, admission: 'invite' });
    const [used, open] = [sha256Hex('used'), sha256Hex('open')];
    for (const hash of [used, open])
      await relay.engine.admissions.issueInvite(inviteOf(hash, { nowMs: relay.clock.nowMs }));
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    expect(await relay.enrol(enrolOf(alice, { inviteHash: used }))).toMatchObject({ type: 'Enrolled' });
    await restore({ relay, file });
    expect(await relay.enrol(enrolOf(bob, { inviteHash: used }))).toMatchObject({ type: 'Refusal' });
    expect(await relay.enrol(enrolOf(bob, { inviteHash: open }))).toMatchObject({ type: 'Enrolled' });
    const elsewhere = await openTestRelay({
      folder: await emptyRestored(file, relay.clock.nowMs),
      admission: 'invite',
    });
    expect(await elsewhere.enrol(enrolOf(carol, { inviteHash: open }))).toMatchObject({ type: 'Refusal' });
  });

  test('tells of every restore before it', async () => {
    const world = await backedUp();
    const first = await restore(world);
    world.relay.clock.move(1000);
    const second = await restore(world);
    expect(second.replaced).toMatchObject({ epoch: first.epoch, continuesBackup: true });
    await world.relay.close();
    const offline = await openOffline(world.relay.folder);
    const rows = await collected(tableRows(offline.level, 'restore'));
    expect(rows.map((listed) => listed?.[1].epoch)).toEqual([first.epoch, second.epoch]);
    await offline.close();
  });

  test('leaves out the first and the last of more items than are read at once', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob] });
    const ids = Array.from({ length: 150 }, (_none, at) => `m${at}`);
    const seqs: number[] = [];
    for (const id of ids) seqs.push((await relay.pushOne(pushOf(alice, id, [[bob, id]]))).seqs[0] ?? 0);
    await relay.altered(async (level) => {
      for (const seq of [seqs[0], seqs[149]]) await loseWire(level, bob.key, seq ?? 0);
    });
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    expect(await restore({ relay, file })).toMatchObject({ items: 148, carried: { lost: 2 } });
    expect(await relay.wires(bob)).toEqual(ids.slice(1, -1));
  });

  test('leaves out items whose wire bytes the backup lacks or has altered: they are pushed again', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, hosts: [alice, bob] });
    const seqs: number[] = [];
    for (const id of ['m1', 'm2', 'm3']) seqs.push((await relay.pushOne(pushOf(alice, id, [[bob, id]]))).seqs[0] ?? 0);
    await relay.altered(async (level) => {
      await loseWire(level, bob.key, seqs[0] ?? 0);
      await alterWire(level, bob.key, seqs[2] ?? 0, Buffer.from('mX'));
    });
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    const report = await restore({ relay, file });
    expect(report).toMatchObject({ items: 1, carried: { lost: 2 } });
    expect(await relay.wires(bob)).toEqual(['m2']);
    for (const id of ['m1', 'm3']) {
      expect((await relay.pushOne(pushOf(alice, id, [[bob, id]]))).verdict).toBe('accepted');
    }
    await expectReplayed(relay.store);
  });

  test('in an empty folder is what the backup had, with its key beside it', async () => {
    const { relay, file } = await backedUp();
    const folder = await emptyRestored(file, relay.clock.nowMs);
    const elsewhere = await openTestRelay({ folder, clock: relay.clock });
    expect(elsewhere.notices).toEqual([]);
    expect(await elsewhere.wires(bob)).toEqual(['one']);
  });

  test('takes the position at another place along', async () => {
    const { relay, file } = await backedUp();
    await relay.close();
    const positionFile = join(await temporaryFolder(), 'position');
    await writeFile(positionFile, 'what was there');
    const report = await restored(file, relay.folder, relay.clock.nowMs, { positionFile });
    const { file: slots, position } = await PositionFile.open(positionFile);
    await slots.close();
    expect(position?.epoch).toBe(report.epoch);
    const aside = (await readdir(join(positionFile, '..'))).find((name) => name.startsWith('position.replaced-'));
    expect(await readFile(join(positionFile, '..', aside ?? ''), 'utf8')).toBe('what was there');
  });
});

async function emptyRestored(file: string, nowMs: number): Promise<string> {
  const folder = join(await temporaryFolder(), 'new');
  const report = await restored(file, folder, nowMs);
  expect(report).toMatchObject({ replaced: null, keptAside: null, missing: null });
  return folder;
}

test('a restore that cannot be carried out to its end says so, and goes on when it can', async () => {
  const { relay, file } = await backedUp();
  await relay.close();
  const folder = join(await temporaryFolder(), 'other disk');
  await mkdir(folder);
  const told = restored(file, relay.folder, relay.clock.nowMs, {
    positionFile: join(folder, 'position'),
    step: async (step) => {
      if (step === 'the position is replaced') await rm(folder, { recursive: true });
    },
  });
  await expect(told).rejects.toMatchObject({ reason: 'unusable' });
  await expect(told).rejects.toThrow(/has happened, .*\(ENOENT: .*other disk.*\): mend that, and start the relay/);
  await expect(openOffline(relay.folder)).rejects.toThrow('has happened');
  await mkdir(folder);
  const offline = await openOffline(relay.folder);
  expect(offline.store.get('relay', '')?.epoch).not.toBe(relay.engine.epoch);
  await offline.close();
});

describe('what was replaced', () => {
  test('is kept aside as it was, and can be opened', async () => {
    const world = await backedUp();
    await world.relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]));
    const { keptAside } = await restore(world);
    expect(keptAside).toMatch(/\/log\.replaced-20251120T214923Z$/);
    const folder = await temporaryFolder();
    await rename(keptAside ?? '', join(folder, 'log'));
    const offline = await openOffline(folder);
    expect(offline.store.get('target', bob.key)?.queueItems).toBe(2);
    await offline.close();
  });

  test('of several restores in one second all is kept', async () => {
    const world = await backedUp();
    const names = [];
    for (let n = 0; n < 3; n++) names.push((await restore(world)).keptAside);
    expect(new Set(names).size).toBe(3);
    expect(names.map((name) => existsSync(name ?? ''))).toEqual([true, true, true]);
  });
});

describe('a dry run', () => {
  test('says what a restore would do, and changes not a byte', async () => {
    const world = await backedUp();
    const { relay, file } = world;
    await relay.engine.admissions.revokeHost(revokeOf(carol, { nowMs: relay.clock.nowMs }));
    await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]));
    await relay.close();
    const [before, scratch] = [await treeOf(relay.folder), await scratchFolders()];
    const said = await restored(file, relay.folder, relay.clock.nowMs, {
      isRehearsal: true,
      confirm: () => Promise.reject(new Error('a dry run asks nobody')),
    });
    expect(await treeOf(relay.folder)).toEqual(before);
    expect(await scratchFolders()).toEqual(scratch);
    const done = await restored(file, relay.folder, relay.clock.nowMs);
    const told = { ...said, epoch: done.epoch };
    expect(told).toEqual(done);
    expect(said).toMatchObject({ carried: { revoked: 1 }, missing: [{ items: 1 }] });
  });

  test.each([
    ['rebuild', interruptRebuild],
    ['restore', interruptRestore],
  ])('finishes a %s that was interrupted when it had happened, and goes on from there', async (_what, interrupt) => {
    const { relay, file } = await backedUp();
    await relay.pushOne(pushOf(alice, 'm3', [[bob, 'three']]));
    const { lastLsn } = relay.store;
    await relay.close();
    await interrupt(relay, file);
    expect(existsSync(join(relay.folder, 'log'))).toBe(false);
    const said = await restored(file, relay.folder, relay.clock.nowMs, { isRehearsal: true });
    expect(said.replaced?.lsn).toBeGreaterThanOrEqual(lastLsn);
    const left = await readdir(relay.folder);
    expect(left).toContain('log');
    expect(left.filter((name) => name === 'log.rebuilt' || name === 'restore.json')).toEqual([]);
  });

  test('leaves nothing behind when it is refused', async () => {
    const { relay, file } = await backedUp();
    await relay.close();
    const [before, scratch] = [await treeOf(relay.folder), await scratchFolders()];
    await writeFile(file, (await readFile(file)).subarray(0, -3));
    await expect(restored(file, relay.folder, 0, { isRehearsal: true })).rejects.toBeInstanceOf(StoreRefused);
    expect(await treeOf(relay.folder)).toEqual(before);
    expect(await scratchFolders()).toEqual(scratch);
  });
});

describe('a restore is refused, and the store is what it was', () => {
  test('for a file that is cut, altered, empty, none, or a folder', async () => {
    const { relay, file } = await backedUp();
    const bytes = await readFile(file);
    const altered = Buffer.from(bytes);
    altered[bytes.length >> 1]! ^= 4;
    for (const [content, said] of [
      [bytes.subarray(0, -1), /^damaged: .* ends before its end/],
      [altered, /^damaged: .*altered|does not match/],
      [Buffer.alloc(0), /^damaged: .* no backup/],
      [Buffer.from('{"some": "other file, of a length that is enough"}'), /^damaged: .* no backup/],
    ] as const) {
      await writeFile(file, content);
      expect(await refusal(relay, file)).toMatch(said);
    }
    await rm(file);
    expect(await refusal(relay, file)).toMatch(/^missing: /);
    await mkdir(file);
    expect(await refusal(relay, file)).toMatch(/^unusable: /);
  });

  test('for a whole file with another content than its header says, or with a hole in its log', async () => {
    const { relay, file } = await backedUp();
    await relay.close();
    const header = headerOf(relay);
    for (const changes of [{ lsn: header.lsn - 1 }, { epoch: anyEpoch() }, { relay_pubkey: alice.key }]) {
      await relay.close();
      await forge(file, relay.folder, { ...header, ...changes });
      await relay.open();
      expect(await refusal(relay, file)).toMatch(/^damaged: .*does not hold what its header says/);
    }
    await relay.close();
    const copy = await temporaryFolder();
    await cp(join(relay.folder, 'log'), join(copy, 'log'), { recursive: true });
    await withRawLevel(copy, async (level) => {
      await unpackRecords(level);
      await level.del(logKey(3));
    });
    await forge(file, copy, header);
    await relay.open();
    expect(await refusal(relay, file)).toMatch(/^damaged: .*log record 3 is missing/);
  });

  test('for rows that cannot be read', async () => {
    const { relay, file } = await backedUp();
    const keys = [PREFIX.senders, PREFIX.dedup].map((prefix) =>
      Buffer.concat([Buffer.of(prefix), Buffer.alloc(32, 1)]),
    );
    for (const key of [...keys, queueKey(bob.key, 9)]) {
      await relay.atRest((level) => level.put(key, Buffer.from('no row')));
      await forge(file, relay.folder, headerOf(relay));
      await withRawLevel(relay.folder, (level) => level.del(key));
      await relay.open();
      expect(await refusal(relay, file)).toMatch(/^damaged: .*some of its rows cannot be read/);
    }
  });

  test('where a relay began a store in the empty folder meanwhile', async () => {
    const { relay, file } = await backedUp();
    const folder = join(await temporaryFolder(), 'new');
    const refused = restored(file, folder, relay.clock.nowMs, {
      step: async (step) => {
        if (step === 'the restore is decided') await (await openTestRelay({ folder, newEpoch: anyEpoch })).close();
      },
    });
    await expect(refused).rejects.toMatchObject({ reason: 'locked' });
    expect(await namesIn(folder)).toEqual(['log', 'position']);
    expect((await openTestRelay({ folder })).notices).toEqual([]);
  });

  test('for a newer schema, a key that is not its own, and no key', async () => {
    const { relay, file } = await backedUp();
    const other = hostNamed('other relay').signer;
    expect(await refusal(relay, file, { signer: other })).toMatch(/^foreign-key: .*SHA256:/);
    const elsewhere = await temporaryFolder();
    const keyless = restored(file, elsewhere, 0, { signer: undefined as never });
    await expect(keyless).rejects.toMatchObject({ reason: 'missing-key' });
    expect(await readdir(elsewhere)).toEqual([]);
    await relay.close();
    await forge(file, relay.folder, { ...headerOf(relay), schema_version: SCHEMA_VERSION + 1 });
    await relay.open();
    expect(await refusal(relay, file)).toMatch(/^newer-schema: .*use the newer software/);
  });

  test('for a position file that cannot be written', async () => {
    const { relay, file } = await backedUp();
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    for (const [path, why] of [
      [join(folder, 'none', 'position'), 'it is not there'],
      [join(folder, 'file', 'position'), 'it lies below a file'],
      [folder, 'it is a folder'],
    ] as const) {
      for (const isRehearsal of [false, true]) {
        expect(await refusal(relay, file, { positionFile: path, isRehearsal })).toBe(
          `unusable: the position file ${path} cannot be used (${why}): name another place with --position-file`,
        );
      }
    }
  });

  test('for a folder that cannot be made, and does not wait for ever', async () => {
    const { relay, file } = await backedUp();
    for (const folder of ['/proc/store', '/proc/no/store', join(file, 'store')]) {
      const refused = restored(file, folder, relay.clock.nowMs);
      await expect(refused).rejects.toThrow(
        /cannot be used as the store folder \((?:E[A-Z]+|it lies below a file)\): name another one/,
      );
    }
  });

  test('while a relay uses the store', async () => {
    const { relay, file } = await backedUp();
    const refused = restored(file, relay.folder, relay.clock.nowMs);
    await expect(refused).rejects.toMatchObject({ reason: 'locked' });
    await expect(refused).rejects.toThrow('stop it');
    expect((await relay.pushOne(pushOf(alice, 'm5', [[bob, 'x']]))).verdict).toBe('accepted');
  });

  test.each(['the backup is unpacked', 'the restore is decided'])('when it is interrupted at: %s', async (at) => {
    const { relay, file } = await backedUp();
    const controller = new AbortController();
    const { signal } = controller;
    const step = (name: string): Promise<void> => {
      if (name === at) controller.abort(new StoreRefused('unusable', 'interrupted'));
      return Promise.resolve();
    };
    expect(await refusal(relay, file, { signal, step })).toBe('unusable: interrupted');
  });

  test('when the disk takes no more of it, in one sentence', async () => {
    const { relay, file } = await backedUp();
    const full = Object.assign(new Error('IO error: No space left on device'), { code: 'LEVEL_IO_ERROR' });
    const said = await refusal(relay, file, { confirm: () => Promise.reject(full) });
    expect(said).toMatch(
      /^unusable: .*cannot be restored \(IO error: No space left on device\): make room on the disk first$/,
    );
  });

  test('when the person who is asked says no', async () => {
    const { relay, file } = await backedUp();
    const declined = new StoreRefused('unusable', 'not asked for');
    expect(await refusal(relay, file, { confirm: () => Promise.reject(declined) })).toBe('unusable: not asked for');
  });
});

/** The sentence, after checking that nothing but LevelDB's own notes changed. */
async function refusal(relay: TestRelay, file: string, changes: Parameters<typeof restored>[3] = {}) {
  await relay.close();
  const before = await namesIn(relay.folder);
  const error: unknown = await restored(file, relay.folder, relay.clock.nowMs, changes).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof StoreRefused)) throw error;
  expect(await namesIn(relay.folder)).toEqual(before);
  await relay.open();
  expect(relay.notices).toEqual([]);
  expect(await relay.wires(bob)).toEqual(['one']);
  return `${error.reason}: ${error.message}`;
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).toSorted();
}

function headerOf({ engine, store }: TestRelay): BackupHeader {
  const { epoch } = engine;
  const { key: relay_pubkey } = hostNamed('relay');
  return {
    relay_pubkey,
    epoch,
    schema_version: SCHEMA_VERSION,
    lsn: store.lastLsn,
    created_at: 0,
    version: '0.0.0-test',
  };
}

/** A whole backup of a closed store, whatever its header says. */
async function forge(file: string, folder: string, header: BackupHeader): Promise<void> {
  const offline = await openOffline(folder);
  await writeFile(file, Buffer.concat(await collected(writeBackup(offline.level, header))));
  await offline.close();
}

describe('a store that is damaged', () => {
  test('beyond opening is replaced when that is meant, and said to be unread', async () => {
    const world = await backedUp();
    const { relay, file } = world;
    await relay.engine.admissions.revokeHost(revokeOf(carol, { nowMs: relay.clock.nowMs }));
    await relay.close();
    await rm(join(relay.folder, 'log', 'CURRENT'));
    const refused = restored(file, relay.folder, relay.clock.nowMs);
    await expect(refused).rejects.toMatchObject({ reason: 'damaged' });
    await expect(refused).rejects.toThrow('add --force');
    const report = await restored(file, relay.folder, relay.clock.nowMs, { acceptsUnreadable: true });
    expect(report.replaced).toBeNull();
    expect(existsSync(report.keptAside ?? '')).toBe(true);
    await relay.open();
    expect(await relay.wires(bob)).toEqual(['one']);
  });

  test('in some rows gives what can be read of it', async () => {
    const world = await backedUp();
    const { relay, file } = world;
    await relay.engine.admissions.revokeHost(revokeOf(carol, { nowMs: relay.clock.nowMs }));
    await relay.atRest(async (level) => {
      const [key] = await level.keys({ ...prefixRange(PREFIX.target), limit: 1 }).all();
      await level.put(key ?? Buffer.alloc(0), Buffer.from('no row'));
      await level.put(queueKey(dave.key, 1), Buffer.from('no row'));
    });
    await expect(restored(file, relay.folder, relay.clock.nowMs)).rejects.toThrow('1 of its rows cannot be read');
    const report = await restored(file, relay.folder, relay.clock.nowMs, { acceptsUnreadable: true });
    expect(report).toMatchObject({ unreadable: 1, carried: { revoked: 1 } });
    await relay.open();
    expect(await relay.enrol(enrolOf(carol))).toMatchObject({ type: 'Refusal' });
  });

  test('in some of its tables gives what the others hold, and no invite and no lapse by what is missing', async () => {
    const relay = await openTestRelay({ newEpoch: anyEpoch, admission: 'invite' });
    const [unused, open] = [sha256Hex('unused'), sha256Hex('open')];
    for (const hash of [unused, open])
      await relay.engine.admissions.issueInvite(inviteOf(hash, { nowMs: relay.clock.nowMs }));
    await relay.enrol(enrolOf(alice, { inviteHash: unused }));
    const file = join(await temporaryFolder(), 'backup');
    await backUp(relay, file);
    relay.clock.move(60_000);
    const late = hostNamed('late');
    await relay.engine.admissions.issueInvite(inviteOf(sha256Hex('late'), { nowMs: relay.clock.nowMs }));
    await relay.enrol(enrolOf(late, { inviteHash: sha256Hex('late') }));
    await relay.engine.admissions.revokeHost(revokeOf(late, { nowMs: relay.clock.nowMs }));
    await relay.close();
    await intoTables(relay.folder);
    const whole = await tablesIn(relay.folder);
    await relay.open();
    // The invite is spent by a row that is about to be lost.
    await relay.enrol(enrolOf(bob, { inviteHash: open }));
    await relay.atRest(() => Promise.resolve());
    const later = (await tablesIn(relay.folder)).filter((name) => !whole.includes(name));
    expect(later.length).toBeGreaterThan(0);
    await damageTables(relay.folder, later);
    const [before, { nowMs }] = [await namesIn(relay.folder), relay.clock];
    await expect(restored(file, relay.folder, nowMs)).rejects.toThrow('of its table files do not match');
    expect(await namesIn(relay.folder)).toEqual(before);
    for (const isRehearsal of [true, false]) {
      const report = await restored(file, relay.folder, nowMs, { acceptsUnreadable: true, isRehearsal });
      expect(report).toMatchObject({
        damagedTables: later.length,
        missing: null,
        carried: { revoked: 1, invites: 1, lapsed: 0 },
      });
    }
    expect((await namesIn(relay.folder)).filter((name) => name.includes('restoring'))).toEqual([]);
    await relay.open();
    expect(await relay.enrol(enrolOf(late))).toMatchObject({ type: 'Refusal', code: 'ENROL_REFUSED' });
    expect(await relay.enrol(enrolOf(carol, { inviteHash: open }))).toMatchObject({ type: 'Refusal' });
    await expectReplayed(relay.store);
  });

  test('in all of its tables is replaced when that is meant, and said to be unread', async () => {
    const { relay, file } = await backedUp();
    await relay.close();
    await intoTables(relay.folder);
    await damageTables(relay.folder);
    const { nowMs } = relay.clock;
    await expect(restored(file, relay.folder, nowMs)).rejects.toMatchObject({ reason: 'damaged' });
    const report = await restored(file, relay.folder, nowMs, { acceptsUnreadable: true });
    expect(report).toMatchObject({ replaced: null, missing: null });
    expect(existsSync(report.keptAside ?? '')).toBe(true);
    await relay.open();
    expect(await relay.wires(bob)).toEqual(['one']);
  });

  test('or of another relay is not replaced', async () => {
    const { relay, file } = await backedUp();
    await relay.close();
    const { folder, remove } = await disposableFolder();
    await restored(file, folder, 1);
    const other = hostNamed('other relay');
    await withRawLevel(folder, async (level) => {
      const key = Buffer.of(PREFIX.relay);
      const row = decodeRow('relay', key, (await level.get(key)) ?? Buffer.alloc(0));
      await level.put(key, encodeRow('relay', key, { ...row, relayPubkey: other.key }));
    });
    const refused = restored(file, folder, 2);
    await expect(refused).rejects.toMatchObject({ reason: 'foreign-key' });
    await expect(refused).rejects.toThrow('name another folder');
    await remove();
  });
});
