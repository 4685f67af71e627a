/** `poste relay backup`, `restore` and `rotate-epoch`, and the regular backups of `relay serve`. */
import { createHash, hash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { type Socket, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { softwareVersion } from '../../../../src/lib/package-root.ts';
import { displayFingerprint, type PublicKey } from '../../../../src/protocol/public-key.ts';
import { deferred } from '../../../support/deferred.ts';
import { type TestHost, alice, bob, carol, dave, hostNamed } from '../../../support/hosts.ts';
import { envelopeWire, itemTo } from '../../../support/mail.ts';
import { CommandRun, type RelayHere, commandContext, relayHere, runHere } from '../../../support/command-run.ts';
import type { Ended } from '../../../support/poste-process.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { EXIT, clientOf, newStore, sentenceOf, stopped } from '../../../support/relay-command.ts';
import { rotationBody } from '../../../support/rotations.ts';
import { openTestRelay } from '../../../support/test-relay.ts';
import { alterWire, breakRow } from '../../../support/stored-items.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

interface Store {
  storeDir: string;
  folder: string;
  /** `poste relay <args> --store-dir <its own>`. */
  command: (...args: string[]) => Promise<Ended>;
  start: (...args: string[]) => Promise<RelayHere>;
}

async function store(): Promise<Store> {
  const { folder, storeDir } = await newStore();
  return {
    storeDir,
    folder,
    command: (...words) => runHere(['relay', ...words, '--store-dir', storeDir]),
    start: (...args) => relayHere(storeDir, args),
  };
}

interface BackupDocument {
  file: string | null;
  bytes: number;
  items: number;
  lsn: number;
  epoch: string;
  sha256: string;
  online: boolean;
}

/** Everything that waits for the host, of however many pages. */
async function ids(relay: RelayHere, host: TestHost): Promise<string[]> {
  const all: string[] = [];
  for (let after = 0; ; ) {
    const page = await clientOf(relay, host).pull({ after });
    all.push(...page.items.map(({ item_id }) => item_id));
    if (!page.more) return all;
    after = page.last_seq;
  }
}

describe('relay backup', () => {
  test('of a running relay under load holds every item that was answered before it began', async () => {
    const { folder, command, start } = await store();
    const relay = await start();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    const answered: string[] = [];
    const load = { isOver: false };
    const begun = deferred();
    const pushing = (async () => {
      for (let at = 0; !load.isOver && at < 400; at++) {
        const items = [`m${at}a`, `m${at}b`];
        await clientOf(relay, alice).push(items.map((id) => itemTo([bob], id, envelopeWire(id, 2000))));
        answered.push(...items);
        if (answered.length > 20) begun.resolve();
      }
    })();
    await Promise.race([begun.promise, pushing]);
    const before = [...answered];
    const file = join(folder, 'relay.backup');
    const ended = await command('backup', file, '--json');
    load.isOver = true;
    await pushing;
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    const said = JSON.parse(ended.stdout) as BackupDocument;
    const bytes = await readFile(file);
    expect(said).toMatchObject({ file, bytes: bytes.length, epoch: relay.start.epoch, online: true });
    expect(said.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['relay.backup', 'store']);
    await stopped(relay);
    expect((await command('restore', file, '--yes')).code).toBe(EXIT.ok);
    const again = await start();
    const held = new Set(await ids(again, bob));
    expect(held.size).toBe(said.items);
    expect(before.filter((id) => !held.has(id))).toEqual([]);
  });

  test('of a stopped one reads its store; to standard output it is the same bytes, and nothing else', async () => {
    const { folder, command, start } = await store();
    const relay = await start();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    await clientOf(relay, alice).push([itemTo([bob], 'm1')]);
    await stopped(relay);
    const ended = await command('backup', join(folder, 'one'));
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(ended.stdout).toMatch(
      /^The backup is complete\.\n {2}file .*one\n {2}size .*\n {2}taken .*from the stopped store\n/,
    );
    expect(ended.stdout).toContain('1 waiting');
    expect(ended.stdout).toContain(relay.start.fingerprint);
    const piped = await command('backup', '-', '--json');
    const said = JSON.parse(piped.stderr) as BackupDocument;
    expect(said).toMatchObject({ file: null, items: 1, online: false });
    expect(piped.stdout.startsWith('poste-backup 1\n')).toBe(true);
  });

  test('never overwrites, unless --force is said', async () => {
    const { folder, command, start } = await store();
    await start();
    const file = join(folder, 'relay.backup');
    await writeFile(file, 'mine');
    const refused = await command('backup', file);
    expect(refused.code).toBe(EXIT.conflict);
    expect(sentenceOf(refused)).toContain('add --force');
    expect(await readFile(file, 'utf8')).toBe('mine');
    expect((await command('backup', file, '--force')).code).toBe(EXIT.ok);
    expect((await readFile(file)).toString('latin1').startsWith('poste-backup 1\n')).toBe(true);
  });

  test.each([
    ['the end of the relay', EXIT.temporary, /the relay closed the connection/],
    ['ctrl-c', EXIT.interrupted, /nothing was done/],
  ])('that is cut short by %s leaves no file', async (by, code, said) => {
    const { folder, storeDir, start } = await store();
    await stopped(await start());
    // What stands in for the relay takes the connection and answers nothing.
    const socket = join(storeDir, 'control.sock');
    await rm(socket, { force: true });
    const deaf = createServer();
    onTestFinished(() => void deaf.close());
    await new Promise<void>((resolve) => {
      deaf.listen(socket, resolve);
    });
    const connected = once(deaf, 'connection') as Promise<[Socket]>;
    const args = ['relay', 'backup', join(folder, 'cut'), '--store-dir', storeDir];
    const backup = new CommandRun(args, commandContext());
    const [connection] = await connected;
    if (by === 'ctrl-c') backup.signal('SIGINT');
    else connection.destroy();
    const ended = await backup.ended();
    connection.destroy();
    expect([ended.code, sentenceOf(ended)]).toEqual([code, expect.stringMatching(said)]);
    expect(await readdir(folder)).toEqual(['store']);
  });

  test('of a stopped store that holds no relay, or one that cannot be read, says so in one sentence', async () => {
    const { folder, storeDir, command, start } = await store();
    await stopped(await start());
    await withRawLevel(storeDir, (level) => level.put(rowKeyBytes('relay', ''), Buffer.from('no row')));
    const unread = await command('backup', join(folder, 'x'));
    expect([unread.code, sentenceOf(unread)]).toEqual([
      EXIT.failure,
      expect.stringContaining('the relay row of the relay does not match its checksum'),
    ]);
    const served = await command('serve', '--listen', '127.0.0.1:0', '--admin-listen', 'off');
    expect([served.code, sentenceOf(served)]).toEqual([
      EXIT.failure,
      expect.stringContaining('the relay row of the relay does not match its checksum'),
    ]);
    await withRawLevel(storeDir, (level) => level.del(rowKeyBytes('relay', '')));
    const none = await command('backup', join(folder, 'x'));
    expect([none.code, sentenceOf(none)]).toEqual([EXIT.failure, expect.stringContaining('holds no relay row')]);
    expect(await readdir(folder)).toEqual(['store']);
  });

  test('says what is wrong in one sentence', async () => {
    const { folder, storeDir, command, start } = await store();
    const none = await command('backup', join(folder, 'x'));
    expect([none.code, sentenceOf(none)]).toEqual([EXIT.notFound, expect.stringContaining('there is no store folder')]);
    await start();
    const noFolder = await command('backup', join(folder, 'none', 'x'), '--json');
    expect(noFolder).toMatchObject({ code: EXIT.notFound, stdout: '' });
    expect(JSON.parse(noFolder.stderr)).toMatchObject({ code: 'BACKUP_NO_FOLDER', details: {} });
    await mkdir(join(folder, 'folder'));
    expect((await command('backup', join(folder, 'folder'), '--force')).code).toBe(EXIT.usage);
    expect((await readdir(folder)).toSorted()).toEqual(['folder', 'store']);
    // A relay whose socket is gone still holds its store.
    await rm(join(storeDir, 'control.sock'));
    const locked = await command('backup', join(folder, 'x'));
    expect([locked.code, sentenceOf(locked)]).toEqual([EXIT.conflict, expect.stringContaining('another process')]);
  });
});

/** Three items wait for bob, and the bytes of the second are others. */
async function altered(): Promise<Store & { seqs: number[] }> {
  const made = await store();
  const relay = await made.start();
  for (const host of [alice, bob]) await clientOf(relay, host).enrol();
  await clientOf(relay, alice).push(['m1', 'm2', 'm3'].map((id) => itemTo([bob], id)));
  const seqs = (await clientOf(relay, bob).pull()).items.map(({ seq }) => seq);
  await stopped(relay);
  await withRawLevel(made.storeDir, (level) => alterWire(level, bob.key, seqs[1] ?? 0, Buffer.from('other')));
  return { ...made, seqs };
}

describe('relay backup of a store that the disk altered', () => {
  test('is written while the relay is stopped, says what is damaged, and can be restored', async () => {
    const { folder, command } = await altered();
    const file = join(folder, 'relay.backup');
    const ended = await command('backup', file);
    expect(ended.code).toBe(EXIT.ok);
    expect(ended.stdout).toContain('items    3 waiting, 1 of them damaged');
    expect(ended.stderr).toMatch(/^poste: one of the waiting items is missing or altered on the disk\..*\n$/);
    const told = await command('backup', `${file}2`, '--json');
    expect(JSON.parse(told.stdout)).toMatchObject({ items: 3, damaged_items: 1, online: false });
    const restored = await command('restore', file, '--yes', '--json');
    expect(restored.code).toBe(EXIT.ok);
    expect(JSON.parse(restored.stdout)).toMatchObject({ items: 2, carried: { lost_items: 1 } });
  });

  test('is written by a running relay, which begins a new epoch for it', async () => {
    const { folder, command, start } = await altered();
    const relay = await start();
    const ended = await command('backup', join(folder, 'relay.backup'), '--json');
    expect(ended.code).toBe(EXIT.ok);
    expect(ended.stderr).toContain('the relay has dropped them');
    const { epoch, ...said } = JSON.parse(ended.stdout) as BackupDocument;
    expect(said).toMatchObject({ items: 3, damaged_items: 1, online: true });
    const page = await clientOf(relay, bob).pull();
    expect(page.items.map(({ item_id }) => item_id)).toEqual(['m1', 'm3']);
    expect(page.epoch).not.toBe(epoch);
    await stopped(relay);
  });

  test('is not written when rows of it cannot be read: a restore would refuse it', async () => {
    const { folder, storeDir, command, seqs } = await altered();
    await withRawLevel(storeDir, (level) => breakRow(level, bob.key, seqs[0] ?? 0));
    const ended = await command('backup', join(folder, 'relay.backup'));
    expect(ended.code).toBe(EXIT.failure);
    expect(sentenceOf(ended)).toContain('run poste relay log verify and then poste relay log rebuild');
    expect(existsSync(join(folder, 'relay.backup'))).toBe(false);
  });
});

describe('relay restore', () => {
  test('is a drill: backup, loss, restore; nothing is lost, and who was out stays out', async () => {
    const { folder, storeDir, command, start } = await store();
    const relay = await start();
    for (const host of [alice, bob, carol]) await clientOf(relay, host).enrol();
    await clientOf(relay, alice).push([itemTo([bob], 'm1'), itemTo([carol], 'c1')]);
    const file = join(folder, 'relay.backup');
    await command('backup', file);
    const { results } = await clientOf(relay, alice).push([itemTo([bob], 'm2')]);
    const [given] = results[0]?.targets ?? [];
    await clientOf(relay, carol).request('POST', '/v2/relay/rotate', rotationBody(carol, dave));
    await clientOf(relay, dave).ownInfo();
    const late = hostNamed('late');
    await clientOf(relay, late).enrol();
    await command('revoke', 'late', '--yes');
    const { epoch } = await clientOf(relay, bob).pull();

    const running = await command('restore', file, '--yes');
    expect([running.code, sentenceOf(running)]).toEqual([EXIT.conflict, expect.stringContaining('stop it')]);
    const rehearsedRunning = await command('restore', file, '--dry-run');
    expect(rehearsedRunning.code).toBe(EXIT.conflict);
    await stopped(relay);

    const rehearsed = await command('restore', file, '--dry-run');
    expect(rehearsed).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(rehearsed.stdout).toContain('would begin a new epoch');
    const { relay_pubkey: key } = relay.start;
    const whose = `of the relay ${displayFingerprint(key as PublicKey)}, written by Poste ${softwareVersion()}`;
    expect(rehearsed.stdout).toContain(`\n  ${whose}\n`);
    expect(rehearsed.stdout).toContain('\n  1 item is to be pushed again, as the backup does not know it:\n');
    expect(rehearsed.stdout.endsWith('\nThis was a dry run: the store is as it was.\n')).toBe(true);
    expect(rehearsed.stdout).toContain(`1 by alice ${displayFingerprint(alice.key)}`);
    const unasked = await command('restore', file);
    expect([unasked.code, sentenceOf(unasked)]).toEqual([EXIT.usage, expect.stringContaining('add --yes')]);
    const done = await command('restore', file, '--yes', '--json');
    expect(done).toMatchObject({ code: EXIT.ok, stderr: '' });
    const said = JSON.parse(done.stdout) as { epoch: string; kept_aside: string; carried: object; missing: object[] };
    expect(said).toMatchObject({
      carried: { revoked: 1, rotated: 1, moved_items: 1 },
      missing: [{ host: 'alice', items: 1 }],
    });
    expect(existsSync(said.kept_aside)).toBe(true);

    const again = await start();
    expect(again.start).toMatchObject({ epoch: said.epoch, initialised: false, notices: [] });
    await expect(clientOf(again, bob).pull({ epoch })).rejects.toMatchObject({ status: 409, code: 'EPOCH_CHANGED' });
    expect(await ids(again, bob)).toEqual(['m1']);
    expect(await ids(again, dave)).toEqual(['c1']);
    await expect(clientOf(again, carol).pull()).rejects.toMatchObject({ status: 401 });
    await expect(clientOf(again, late).enrol()).rejects.toMatchObject({ status: 403, code: 'ENROL_REFUSED' });
    const pushed = await clientOf(again, alice).push([itemTo([bob], 'm1'), itemTo([bob], 'm2')]);
    expect(pushed.results.map(({ status }) => status)).toEqual(['duplicate', 'accepted']);
    expect(pushed.results[1]?.targets?.[0]?.seq).toBeGreaterThan(given?.seq ?? Infinity);
    expect(await ids(again, bob)).toEqual(['m1', 'm2']);
    expect((await readdir(storeDir)).filter((name) => name.includes('restoring'))).toEqual([]);
  });

  test('refuses what it should not take, and the store serves as before', async () => {
    const { folder, command, start } = await store();
    const relay = await start();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    await clientOf(relay, alice).push([itemTo([bob], 'm1')]);
    const file = join(folder, 'relay.backup');
    await command('backup', file);
    await stopped(relay);
    const bytes = await readFile(file);
    await writeFile(join(folder, 'cut'), bytes.subarray(0, -9));
    const altered = Buffer.from(bytes);
    altered[bytes.length - 200]! ^= 1;
    await writeFile(join(folder, 'altered'), altered);
    const header = bytes.indexOf(`"schema_version":${SCHEMA_VERSION}`);
    const newer = Buffer.from(bytes);
    newer.write('9', header + 17);
    await writeFile(join(folder, 'newer'), newer);
    const other = await store();
    await stopped(await other.start());
    const cases = [
      ['cut', EXIT.failure, 'ends before its end'],
      ['altered', EXIT.failure, 'take another backup'],
      ['newer', EXIT.refused, 'use the newer software'],
      ['none', EXIT.notFound, 'cannot be read'],
    ] as const;
    for (const [name, code, said] of cases) {
      const ended = await command('restore', join(folder, name), '--yes');
      expect([name, ended.code, sentenceOf(ended)]).toEqual([name, code, expect.stringContaining(said)]);
    }
    const foreign = await other.command('restore', file, '--yes');
    expect([foreign.code, sentenceOf(foreign)]).toEqual([EXIT.refused, expect.stringContaining('of another relay')]);
    const again = await start();
    expect(again.start).toMatchObject({ epoch: relay.start.epoch, notices: [] });
    expect(await ids(again, bob)).toEqual(['m1']);
  });

  test('into a new folder needs the key, and then serves what the backup had', async () => {
    const { folder, storeDir, command, start } = await store();
    const relay = await start();
    for (const host of [alice, bob]) await clientOf(relay, host).enrol();
    await clientOf(relay, alice).push([itemTo([bob], 'm1')]);
    const file = join(folder, 'relay.backup');
    await command('backup', file);
    await stopped(relay);
    const elsewhere = join(folder, 'elsewhere');
    const keyless = await runHere(['relay', 'restore', file, '--yes', '--store-dir', elsewhere]);
    expect([keyless.code, sentenceOf(keyless)]).toEqual([EXIT.refused, expect.stringContaining('MAIL_RELAY_KEY')]);
    const environment = { MAIL_RELAY_KEY: (await readFile(join(storeDir, 'relay.key'), 'utf8')).trim() };
    const done = await runHere(['relay', 'restore', file, '--yes', '--store-dir', elsewhere], { environment });
    expect(done.code).toBe(EXIT.ok);
    expect(done.stdout).toContain('there is no store, so nothing is preserved');
    const again = await relayHere(elsewhere, [], environment);
    expect(again.start.notices).toEqual([]);
    expect(await ids(again, bob)).toEqual(['m1']);
  });

  test('says what failed past its decision, also after ctrl-c', async () => {
    const { folder, storeDir, command, start } = await store();
    await stopped(await start());
    const file = join(folder, 'relay.backup');
    expect((await command('backup', file)).code).toBe(EXIT.ok);
    const context = commandContext({ typed: '' });
    const restore = new CommandRun(['relay', 'restore', file, '--yes', '--store-dir', storeDir], context);
    context.stderr.on('more', () => {
      if (!context.stderr.text.endsWith('the restored store takes its place ...')) return;
      restore.signal('SIGINT');
      writeFileSync(join(storeDir, LEVEL_FOLDER), 'in the way');
    });
    const ended = await restore.ended();
    expect(ended.code).toBe(EXIT.failure);
    expect(ended.stderr).toContain('has happened, and cannot be carried out to its end (ENOTDIR');
    expect(ended.stderr).not.toContain('nothing was done');
  });
});

describe('relay rotate-epoch', () => {
  test('begins an epoch in a running relay and in a stopped one', async () => {
    const { command, start } = await store();
    const relay = await start();
    await clientOf(relay, bob).enrol();
    const online = await command('rotate-epoch');
    expect(online.code).toBe(EXIT.ok);
    expect(online.stdout).toMatch(/^[0-9A-Z]{26}\n$/);
    expect((await clientOf(relay, bob).pull()).epoch).toBe(online.stdout.trim());
    await stopped(relay);
    const offline = await command('rotate-epoch', '--json');
    const { epoch } = JSON.parse(offline.stdout) as { epoch: string };
    expect(epoch).not.toBe(online.stdout.trim());
    expect((await start()).start).toMatchObject({ epoch, notices: [] });
  });

  test('finishes a rebuild that was interrupted before its last step', async () => {
    const { command, start, storeDir } = await store();
    await stopped(await start());
    await rename(join(storeDir, 'log'), join(storeDir, 'log.rebuilt'));
    const { stdout, code } = await command('rotate-epoch');
    expect(code).toBe(EXIT.ok);
    expect((await start()).start).toMatchObject({ epoch: stdout.trim(), notices: [] });
    expect(await readdir(storeDir)).not.toContain('log.rebuilt');
  });

  test('makes no store where there is none', async () => {
    const { command, storeDir } = await store();
    const ended = await command('rotate-epoch');
    expect([ended.code, sentenceOf(ended)]).toEqual([
      EXIT.notFound,
      expect.stringContaining('there is no store folder'),
    ]);
    expect(existsSync(storeDir)).toBe(false);
    await mkdir(storeDir);
    const empty = await command('rotate-epoch');
    expect([empty.code, sentenceOf(empty)]).toEqual([EXIT.notFound, expect.stringContaining('there is no store at')]);
    expect(await readdir(storeDir)).toEqual([]);
  });
});

describe('relay serve --backup-dir', () => {
  test('writes a first backup at the start, which can be restored, and says so in its health', async () => {
    const { folder, command, start } = await store();
    const backups = join(folder, 'backups');
    const relay = await start('--backup-dir', backups, '--backup-keep', '2', '--admin-listen', '127.0.0.1:0');
    const written = async (): Promise<string[]> => (existsSync(backups) ? readdir(backups) : []);
    const finished = async (): Promise<number> => (await written()).filter((name) => name.endsWith('.backup')).length;
    await expect.poll(finished).toBe(1);
    const health = async (): Promise<unknown> => (await fetch(`${relay.start.admin_url}/healthz`)).json();
    await expect.poll(health).toMatchObject({ last_backup: { ok: true } });
    await stopped(relay);
    const [name = ''] = await written();
    expect(name).toMatch(/^poste-[0-9a-f]{12}-[0-9]{8}T[0-9]{9}Z\.backup$/);
    expect((await command('restore', join(backups, name), '--yes')).code).toBe(EXIT.ok);
  });
});

test('a folder for backups that cannot be used ends the start with one sentence', async () => {
  const { command, folder } = await store();
  await writeFile(join(folder, 'file'), '');
  const ended = await command('serve', '--backup-dir', join(folder, 'file'));
  expect([ended.code, sentenceOf(ended)]).toEqual([EXIT.failure, expect.stringContaining('--backup-dir')]);
});

/** The key of the test relay, see `hostNamed`. */
const MAIL_RELAY_KEY = hash('sha256', 'relay', 'buffer').toString('base64');

test.each([
  ['LEVEL_IO_ERROR', 'IO error: /store/log/000005.log: Input/output error', 'Input/output error'],
  ['EIO', 'EIO: i/o error, fdatasync', 'EIO'],
])('a new epoch whose write fails (%s) is one sentence and no stack', async (code, message, said) => {
  const relay = await openTestRelay();
  const { epoch } = relay.engine;
  await relay.close();
  vi.spyOn(RelayStore.prototype, 'append').mockRejectedValueOnce(Object.assign(new Error(message), { code }));
  const args = ['relay', 'rotate-epoch', '--store-dir', relay.folder];
  const failed = await runHere(args, { environment: { MAIL_RELAY_KEY } });
  expect([failed.code, failed.stdout]).toEqual([1, '']);
  expect(failed.stderr).toContain(`the store at ${relay.folder} cannot be used (`);
  expect(failed.stderr).toContain(said);
  expect(failed.stderr).not.toMatch(/\n\s+at /);
  await relay.open();
  expect(relay.engine.epoch).toBe(epoch);
  await relay.close();
  const rotated = await runHere(args, { environment: { MAIL_RELAY_KEY } });
  expect([rotated.code, rotated.stdout.length]).toEqual([0, epoch.length + 1]);
  // What was found when the store was opened is said as errors are.
  expect(rotated.stderr).toMatch(/^poste: The last heartbeat in the store is [0-9]+ minutes old: .*\.$/m);
});

test.each([
  ['restore', 'Stop the relay first.'],
  ['rotate-epoch', 'On a running relay it takes effect at once.'],
])('%s says in its help whether the relay may run', async (command, said) => {
  const { stdout } = await runHere(['relay', command, '--help']);
  expect(stdout.replace(/\s+/g, ' ')).toContain(said);
});
