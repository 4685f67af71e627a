/**
 * `poste relay doctor`: everything that it may find, of a relay that runs, of one that does not, and of its machine.
 */
import { existsSync } from 'node:fs';
import {
  chmod,
  mkdir,
  readFile,
  readdir,
  rename,
  rm,
  stat,
  statfs,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { withFaults } from '../../../../src/cli/relay/doctor/process-checks.ts';
import type { RelaySubject } from '../../../../src/cli/relay/doctor/subject.ts';
import type { Check } from '../../../../src/lib/check.ts';
import { softwareVersion } from '../../../../src/lib/package-root.ts';
import type { SharedLogShown } from '../../../../src/protocol/operator-documents.ts';
import { type Condition, RULES, faultsOf } from '../../../../src/relay/operator/condition.ts';
import type { StatusDocument } from '../../../../src/relay/operator/documents.ts';
import { SCHEMA_KEY, VIEW_KEY, logKey } from '../../../../src/relay/store/keys.ts';
import { openStore } from '../../../../src/relay/store/open.ts';
import { viewMarkPair, SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { FIRST_ADAPTER } from '../../../support/adapters.ts';
import { relayHere, runHere } from '../../../support/command-run.ts';
import { CALM, SOUND_LOG } from '../../../support/conditions.ts';
import { epochNumbered } from '../../../support/epochs.ts';
import { freePort } from '../../../support/free-port.ts';
import type { Ended, Environment } from '../../../support/poste-process.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { EXIT } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { SELF_SIGNED, SERVER } from '../../../support/test-authority.ts';

const OTHER_KEY = Buffer.from('0123456789abcdefghijklmnopqrstuv').toString('base64');
const DAY_MS = 86_400_000;
/** When the certificates of the tests end. */
const CERTIFICATES_UNTIL = Date.UTC(2126, 9, 29);

afterEach(() => {
  vi.useRealTimers();
});

function doctor(storeDir: string, args: readonly string[] = [], environment: Environment = {}): Promise<Ended> {
  // No file of this machine's user is read.
  const own = { POSTE_HOME: join(storeDir, 'no-home'), ...environment };
  return runHere(['relay', 'doctor', '--store-dir', storeDir, ...args], { environment: own });
}

interface Found {
  ended: Ended;
  document: { ok: boolean; broken: number; notes: number; store: string; pid: number | null; checks: Check[] };
  /** The one check of that id. */
  of: (id: string) => Pick<Check, 'state' | 'sentence' | 'command'>;
}

async function examined(storeDir: string, args: readonly string[] = [], environment: Environment = {}): Promise<Found> {
  const ended = await doctor(storeDir, [...args, '--json'], environment);
  const document = JSON.parse(ended.stdout) as Found['document'];
  const broken = document.checks.filter(({ state }) => state === 'broken').length;
  expect(document).toMatchObject({ ok: broken === 0, broken });
  expect(ended.code).toBe(broken === 0 ? EXIT.ok : EXIT.failure);
  // What is not as it should be has a mend.
  expect(document.checks.filter(({ state, command }) => (state === 'ok') !== (command === null))).toEqual([]);
  return {
    ended,
    document,
    of: (id) => {
      const found = document.checks.filter((check) => check.id === id);
      expect(found.map((check) => check.id)).toEqual([id]);
      const [{ state, sentence, command } = { state: 'broken', sentence: '', command: null } as const] = found;
      return { state, sentence, command };
    },
  };
}

function finding(state: Check['state'], sentence: string, command: string | null): object {
  return { state, sentence: containing(sentence), command: command === null ? null : containing(command) };
}

function containing(text: string): unknown {
  return expect.stringContaining(text);
}

/** A store as a first start leaves it, written `agoMs` ago. */
async function usedStore(agoMs = 0): Promise<string> {
  const folder = await temporaryFolder();
  const { store } = await openStore({ folder, nowMs: Date.now() - agoMs, newEpoch: () => epochNumbered(1) });
  await store.close();
  return folder;
}

const HEALTHY: StatusDocument = {
  version: softwareVersion(),
  pid: 4711,
  role: 'alone',
  is_ready: true,
  listen: '127.0.0.1:8787',
  tls: null,
  server: 'uWebSockets.js 20.51.4',
  server_asked: 'uws',
  open_files_max: 65_536,
  connections: { open: 3, max: 1000 },
  disk_floor_bytes: 0,
  schema_version: SCHEMA_VERSION,
  position_file: '/nowhere/position',
  faults: [],
  last_backup_at: null,
  backups: null,
  log_archive_folder: null,
  witnesses: [],
  shared_log: null,
};

const SHARED: SharedLogShown = { ...SOUND_LOG, node: 'beta-00000002', leader: 'alpha-00000001', term: 7 };

function faults(change: Partial<Condition>): Pick<StatusDocument, 'faults'> {
  return { faults: faultsOf({ ...CALM, ...change }) };
}

/** A store folder in which a relay answers that it is so. */
async function answering(changes: Partial<StatusDocument> | string): Promise<string> {
  const folder = await usedStore();
  const document = { ...HEALTHY, position_file: join(folder, 'position') };
  const body = typeof changes === 'string' ? changes : JSON.stringify({ ...document, ...changes });
  const server = createServer((_request, response) => response.end(body));
  const socket = join(folder, 'control.sock');
  await new Promise<void>((done) => server.listen(socket, done));
  await chmod(socket, 0o600);
  onTestFinished(() => new Promise((done) => void server.close(() => done())));
  return folder;
}

const backupName = (timeMs: number): string =>
  `poste-${'0'.repeat(12)}-${new Date(timeMs).toISOString().replaceAll(/[-:.]/g, '')}.backup`;

describe('a relay that is well', () => {
  test('runs: every check is ok, on one page, and the exit code is 0', async () => {
    const storeDir = await temporaryFolder();
    const backups = join(await temporaryFolder(), 'backups');
    await relayHere(storeDir, ['--backup-dir', backups]);
    await expect.poll(() => readdir(backups)).toEqual([expect.stringMatching(/\.backup$/)]);
    const { document, of } = await examined(storeDir, ['--backup-dir', backups]);
    // A note where no uWebSockets.js runs on this Node and system.
    const notes = FIRST_ADAPTER === 'node' ? 1 : 0;
    expect(of('server').state).toBe(notes ? 'note' : 'ok');
    expect(document).toMatchObject({ ok: true, broken: 0, notes, store: storeDir, pid: process.pid });
    expect(of('relay')).toMatchObject(finding('ok', `runs as process ${process.pid}, version`, null));
    expect(of('store').sentence).toContain(`process ${process.pid} has ${storeDir} open, of schema ${SCHEMA_VERSION}`);
    expect(of('position').sentence).toMatch(/\/relay-position-[^/ ]+ is of log record [1-9]/);
    expect(of('key')).toMatchObject(finding('ok', 'relay.key is closed to other users', null));
    expect(of('backup')).toMatchObject(finding('ok', 'one is due every 24 hours', null));
    const { code, stdout, stderr } = await doctor(storeDir);
    expect([code, stderr]).toEqual([EXIT.ok, '']);
    expect(stdout).toMatch(/^Relay of .*\n\nThe relay\n {2}ok {6}config {6} /);
    expect(stdout).toMatch(/\nIts store\n[^]*\nThis machine\n[^]*\nCertificate\n[^]*\nBackups\n/);
    expect(stdout.endsWith(`\nNothing is broken${notes ? ', 1 thing is worth a look' : ''}.\n`)).toBe(true);
  });

  test('does not run: its store is read, and not a byte of it is changed', async () => {
    const storeDir = await usedStore();
    const files = async (): Promise<unknown> =>
      Promise.all(
        (await readdir(storeDir, { recursive: true }))
          .toSorted()
          .map(async (name) => [name, (await stat(join(storeDir, name))).mtimeMs]),
      );
    const before = await files();
    const { of } = await examined(storeDir);
    expect(of('relay')).toMatchObject(
      finding('broken', 'it does not run', `poste relay serve --store-dir ${storeDir}`),
    );
    expect(of('store').sentence).toMatch(/nobody has .* open; it has schema 3, and its log ends with record 1$/);
    expect(of('position')).toMatchObject(finding('note', 'lies in the store folder', '--position-file'));
    expect(of('clock').state).toBe('ok');
    expect(await files()).toEqual(before);
  });

  test('was never started: nothing is broken, and nothing is made', async () => {
    const storeDir = await temporaryFolder();
    const { document, of } = await examined(storeDir);
    expect(of('relay')).toMatchObject(finding('note', 'no relay was ever started', 'poste relay serve'));
    expect(of('store')).toMatchObject(finding('ok', 'the first start makes it', null));
    expect(document.broken).toBe(0);
    expect(await readdir(storeDir)).toEqual([]);
  });

  test('is asked for in a folder that is not there: wrong if the folder was named, and a note if not', async () => {
    const folder = await temporaryFolder();
    const storeDir = join(folder, 'store');
    const { document, of } = await examined(storeDir);
    expect(document.broken).toBe(1);
    expect(of('store')).toMatchObject(finding('broken', `there is no folder ${storeDir}`, 'poste relay serve'));
    expect(existsSync(storeDir)).toBe(false);
    const ended = await runHere(['relay', 'doctor'], { environment: { POSTE_HOME: join(folder, 'no-home') } });
    expect(ended.code).toBe(EXIT.ok);
    expect(ended.stdout).toMatch(/ relay .*no relay was ever started in .*poste-relay/);
  });

  test('as text, what is wrong has its mend below it, and the command ends with 1', async () => {
    const { code, stdout, stderr } = await doctor(await usedStore());
    expect(code).toBe(EXIT.failure);
    expect(stderr).toBe('poste: 1 thing is broken: below each stands the command that repairs it.\n');
    expect(stdout).toMatch(/\n {2}BROKEN {2}relay .*\n +\$ poste relay serve --store-dir /);
    expect(stdout).toMatch(/\n {2}note {4}backup .*\n +\$ poste relay serve --backup-dir \/var\/lib\/poste-backups\n/);
  });
});

describe('the config', () => {
  test('is understood, or refused with its line and the file to edit; flags are looked at all the same', async () => {
    const storeDir = await usedStore();
    const config = join(await temporaryFolder(), 'relay.toml');
    await writeFile(config, 'enrol_rate = 5\n');
    const args = ['--config', config];
    expect((await examined(storeDir, args)).of('config')).toMatchObject(finding('ok', `${config} is understood`, null));
    await writeFile(config, '\nenrol_rat = 5\n');
    const { of } = await examined(storeDir, args);
    const sentence = `${config}, line 2: there is no setting enrol_rat (did you mean enrol_rate?)`;
    expect(of('config')).toMatchObject(finding('broken', sentence, `$EDITOR ${config}`));
    expect(of('store').state).toBe('ok');
  });

  test('contradicts itself, or the environment does not fit', async () => {
    const storeDir = await usedStore();
    const idle = await examined(storeDir, ['--backup-keep', '3']);
    expect(idle.of('config')).toMatchObject(finding('broken', '--backup-keep has no effect', '$EDITOR'));
    const large = await examined(storeDir, ['--limits', '{"max_item_bytes": 8388608}']);
    expect(large.of('config')).toMatchObject(finding('broken', 'max_item_bytes is 8388608', '$EDITOR'));
    const environment = await examined(storeDir, [], { MAIL_RELAY_TRUST_PROXY: 'nginx' });
    const mend = 'unset MAIL_RELAY_TRUST_PROXY';
    expect(environment.of('config')).toMatchObject(finding('broken', 'must be xff, cloudflare or none', mend));
  });

  test('the mend of a setting is a line of the file, where there is one', async () => {
    const storeDir = await usedStore();
    const config = join(await temporaryFolder(), 'relay.toml');
    await writeFile(config, '');
    const { command } = (await examined(storeDir, ['--config', config])).of('backup');
    expect(command).toBe(`$EDITOR ${config}  # backup_dir = "/var/lib/poste-backups"`);
  });
});

describe('the process', () => {
  // Linux alone says who holds a lock.
  test.runIf(process.platform === 'linux')('has the store open and does not answer', async () => {
    const storeDir = await temporaryFolder();
    await relayHere(storeDir);
    await rename(join(storeDir, 'control.sock'), join(storeDir, 'elsewhere.sock'));
    onTestFinished(() =>
      rename(join(storeDir, 'elsewhere.sock'), join(storeDir, 'control.sock')).catch(() => undefined),
    );
    const { of } = await examined(storeDir);
    expect(of('relay')).toMatchObject(
      finding('broken', `process ${process.pid} has the database of the store open`, `ps -fp ${process.pid}`),
    );
  });

  test('is what is not understood', async () => {
    const { of } = await examined(await answering('garbage'));
    expect(of('relay')).toMatchObject(finding('broken', 'is not understood', 'poste relay serve --store-dir'));
  });

  test('cannot be asked, because the path of its socket is too long', async () => {
    const storeDir = join(await temporaryFolder(), 'x'.repeat(110));
    await mkdir(storeDir);
    expect((await examined(storeDir)).of('relay')).toMatchObject(finding('broken', 'control.sock, has', 'ln -s '));
  });

  test('cannot be asked, because others can write to its folder', async () => {
    const storeDir = await answering({});
    await chmod(storeDir, 0o777);
    expect((await examined(storeDir)).of('relay')).toMatchObject(
      finding('broken', 'can be written by other users', `chmod go-w ${storeDir}`),
    );
  });

  test.each<[string, Partial<StatusDocument>, string, object]>([
    [
      'is of another version',
      { version: '9.9.9' },
      'relay',
      finding('note', 'version 9.9.9, and serves at', 'kill 4711; '),
    ],
    ['takes no requests', { is_ready: false }, 'relay', finding('broken', 'takes no requests', 'ls -la ')],
    ['follows', { role: 'following', is_ready: false, connections: null }, 'relay', finding('ok', 'and follows', null)],
    [
      'has few connections left',
      { connections: { open: 900, max: 1000 } },
      'connections',
      finding('note', '900 of 1000 connections are open', '--max-connections 2000'),
    ],
    ['has connections left', {}, 'connections', finding('ok', '3 of 1000 connections are open', null)],
    [
      'may open few files',
      { open_files_max: 1024 },
      'files',
      finding('note', 'may open 1024 files', 'ulimit -n 65536'),
    ],
    [
      'found damaged rows',
      faults({ damagedRows: 2 }),
      'rows',
      finding('broken', '2 rows of the store are damaged. Stop the relay', 'poste relay log verify'),
    ],
    [
      'left queues',
      faults({ brokenQueues: 1 }),
      'rows',
      finding('broken', '1 queue contradicts itself and is left as it is', 'poste relay log verify'),
    ],
    ['found nothing', {}, 'rows', finding('ok', 'no damaged row', null)],
    ['lost mail', faults({ lost: 2 }), 'mail', finding('broken', '2 items missing or altered', 'ls -la')],
    [
      'is about to expire mail',
      faults({ oldestItemAgeMs: 13 * DAY_MS }),
      'mail',
      finding('note', 'Mail expires within two days', 'poste relay hosts'),
    ],
    [
      'could not write its last backup',
      {
        backups: { folder: '/tmp', every_ms: DAY_MS },
        ...faults({ backups: { everyMs: DAY_MS, last: { isGood: false, atMs: 0 }, newest: undefined } }),
      },
      'backup',
      finding('broken', 'The last backup failed', 'ls -la'),
    ],
    [
      'speaks plain HTTP to the network',
      { listen: '0.0.0.0:8787' },
      'certificate',
      finding('note', 'plain HTTP at 0.0.0.0:8787', '--tls-cert'),
    ],
    [
      'has not written a backup yet',
      { backups: { folder: '/tmp', every_ms: DAY_MS } },
      'backup',
      finding('note', 'none has been written to /tmp yet', 'ls -la '),
    ],
    [
      'wrote its last backup long ago',
      { backups: { folder: '/tmp', every_ms: 1 }, last_backup_at: 1_700_000_000_000 },
      'backup',
      finding('broken', 'the newest is', 'ls -la '),
    ],
    [
      'has a last backup by a command',
      { last_backup_at: 1_700_000_000_000 },
      'backup',
      finding('note', 'a command took the last one', '--backup-dir'),
    ],
    [
      'is asked for node:http',
      { server: 'node:http 20', server_asked: 'node' },
      'server',
      finding('ok', 'because --server node asks for it', null),
    ],
  ])('%s', async (_what, changes, id, found) => {
    expect((await examined(await answering(changes))).of(id)).toMatchObject(found);
  });

  test('lets anybody in whom a proxy brings, or invited hosts alone', async () => {
    const storeDir = await usedStore();
    const open = await examined(storeDir, ['--trust-proxy', 'xff']);
    expect(open.of('admission')).toMatchObject(finding('note', 'Anybody who reaches this relay', '--admission'));
    for (const closed of [[], ['--trust-proxy', 'xff', '--admission', 'invite']]) {
      const { document } = await examined(storeDir, closed);
      expect(document.checks.map(({ id }) => id)).not.toContain('admission');
    }
  });

  test('may open too few files for the connections that are asked for', async () => {
    const { of } = await examined(await usedStore(), ['--max-connections', '100000000']);
    expect(of('files')).toMatchObject(finding('broken', '--max-connections says 100000000', 'ulimit -n'));
  });
});

describe('the store', () => {
  test('lost its database', async () => {
    const storeDir = await usedStore();
    await rm(join(storeDir, 'log'), { recursive: true });
    expect((await examined(storeDir)).of('store')).toMatchObject(
      finding('broken', 'is missing, although the relay has run here before', 'poste relay restore <backup>'),
    );
  });

  test('has a restore under way', async () => {
    const storeDir = await usedStore();
    await writeFile(join(storeDir, 'restore.json'), '{}');
    expect((await examined(storeDir)).of('store')).toMatchObject(finding('note', 'a restore was decided', 'serve'));
  });

  test('is damaged, or cannot be read', async () => {
    const storeDir = await usedStore();
    await rm(join(storeDir, 'log', 'CURRENT'));
    await mkdir(join(storeDir, 'log', 'CURRENT'));
    expect((await examined(storeDir)).of('store')).toMatchObject(finding('broken', 'cannot be read', 'ls -la '));
    const other = await usedStore();
    await withRawLevel(other, (level) => level.put(logKey(1), Buffer.of(1, 2, 3)));
    expect((await examined(other)).of('store')).toMatchObject(
      finding('broken', 'is damaged (log record 1 has no known format)', 'poste relay log verify'),
    );
  });

  test.each<[number, object]>([
    [
      SCHEMA_VERSION + 1,
      finding('broken', `has schema ${SCHEMA_VERSION + 1}, and this software knows`, 'poste --version'),
    ],
    [SCHEMA_VERSION - 1, finding('note', `the next start brings it to schema ${SCHEMA_VERSION}`, 'poste relay backup')],
    [0, finding('broken', 'holds no schema version', 'poste relay log verify')],
  ])('is of schema %i', async (schema, found) => {
    const storeDir = await usedStore();
    const value = Buffer.alloc(4);
    value.writeUInt32BE(schema);
    await withRawLevel(storeDir, (level) => (schema === 0 ? level.del(SCHEMA_KEY) : level.put(SCHEMA_KEY, value)));
    expect((await examined(storeDir)).of('store')).toMatchObject(found);
  });

  test('is a view of a log elsewhere, and no --log is given', async () => {
    const storeDir = await usedStore();
    const mark = { logId: 'l', no: 0, lastLsn: 1, effects: Buffer.of(), tenure: undefined, bootId: '', isClosed: true };
    const [, value] = viewMarkPair({ ...mark, place: 'db.example:5432/mail' });
    await withRawLevel(storeDir, (level) => level.put(VIEW_KEY, value ?? Buffer.of()));
    expect((await examined(storeDir)).of('store')).toMatchObject(
      finding('broken', 'is a view of a log that is kept at db.example:5432/mail', '--log'),
    );
    const log = `postgres://u@127.0.0.1:${await freePort()}/mail`;
    expect((await examined(storeDir, ['--log', log])).of('store').state).toBe('ok');
  });

  test('cannot prove that it is current: its position is gone, or it is old', async () => {
    const storeDir = await usedStore();
    await rm(join(storeDir, 'position'));
    const gone = finding('note', 'position is missing or unreadable', "--position-file '<file>'");
    expect((await examined(storeDir)).of('position')).toMatchObject(gone);
    const old = await examined(await usedStore(20 * 60_000));
    expect(old.of('position')).toMatchObject(
      finding('note', 'minutes old: it may be an older copy: the next start begins a new epoch', 'log verify'),
    );
  });

  test('has a position that cannot be read', async () => {
    const storeDir = await usedStore();
    const { of } = await examined(storeDir, ['--position-file', await temporaryFolder()]);
    expect(of('position')).toMatchObject(finding('broken', 'cannot be read (EISDIR)', 'ls -l '));
    expect(of('store').state).toBe('ok');
  });

  test('runs with a position that is gone', async () => {
    const storeDir = await answering({ position_file: '/nowhere/position' });
    expect((await examined(storeDir)).of('position')).toMatchObject(finding('note', 'missing', 'kill 4711; '));
  });

  test('has a key that is open to all, no key, or the key of another', async () => {
    const storeDir = await usedStore();
    const key = join(storeDir, 'relay.key');
    await chmod(key, 0o644);
    const open = finding('broken', `every user of this machine may open ${key} (mode 0644)`, `chmod o= ${key}`);
    expect((await examined(storeDir)).of('key')).toMatchObject(open);
    await chmod(key, 0o600);
    const text = await readFile(key, 'utf8');
    await writeFile(key, OTHER_KEY);
    const others = await examined(storeDir);
    expect(others.of('key')).toMatchObject(
      finding('broken', "is another relay's: the store is of SHA256:", '--key-file'),
    );
    expect(others.ended.stdout).not.toContain(OTHER_KEY.slice(0, 12));
    await writeFile(key, 'none');
    expect((await examined(storeDir)).of('key')).toMatchObject(
      finding('broken', 'does not hold a relay key', 'ls -l '),
    );
    await rm(key);
    expect((await examined(storeDir)).of('key')).toMatchObject(finding('broken', 'there is no key at', '--key-file'));
    const environment = { MAIL_RELAY_KEY: text.trim() };
    expect((await examined(storeDir, [], environment)).document.checks.some(({ id }) => id === 'key')).toBe(false);
  });
});

describe('the machine', () => {
  test('has less room than the floor, or little more', async () => {
    const storeDir = await usedStore();
    const mebibytes = (await freeBytes(storeDir)) / 1_048_576;
    const low = await examined(storeDir, ['--disk-floor', String(Math.ceil(mebibytes * 2))]);
    expect(low.of('disk')).toMatchObject(finding('broken', 'pushes are refused', 'du -xh --max-depth=1'));
    const near = await examined(storeDir, ['--disk-floor', String(Math.floor(mebibytes * 0.75))]);
    expect(near.of('disk')).toMatchObject(finding('note', 'below', 'du -xh'));
  });

  test('has no room for another backup', async () => {
    const storeDir = await usedStore();
    const backups = await temporaryFolder();
    const file = join(backups, backupName(Date.now() - 1000));
    await writeFile(file, '');
    // It takes no room itself.
    await truncate(file, (await freeBytes(backups)) * 2);
    const { document } = await examined(storeDir, ['--backup-dir', backups]);
    expect(document.checks.find(({ about, id }) => id === 'disk' && about === backups)).toMatchObject(
      finding('broken', 'the next file there may take', 'ls -lhtr'),
    );
  });

  test('has a clock that was set back since the relay wrote', async () => {
    const storeDir = await usedStore();
    const ahead = new Date(Date.now() + 2 * DAY_MS);
    await utimes(join(storeDir, 'log', 'CURRENT'), ahead, ahead);
    const file = await examined(storeDir);
    expect(file.of('clock')).toMatchObject(finding('broken', 'CURRENT lies ', 'timedatectl set-ntp true'));
    const event = await examined(await usedStore(-2 * DAY_MS));
    expect(event.of('clock')).toMatchObject(
      finding('broken', 'the newest event of the log lies 47 hours ahead of this clock', 'timedatectl'),
    );
  });
});

/** The flags of a certificate and a key. */
async function pair(cert = SELF_SIGNED.cert, key = SELF_SIGNED.key): Promise<string[]> {
  const folder = await temporaryFolder();
  const [certFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  await writeFile(certFile, cert);
  await writeFile(keyFile, key, { mode: 0o600 });
  return ['--tls-cert', certFile, '--tls-key', keyFile];
}

describe('the certificate', () => {
  test.each<[string, number, object]>([
    ['is good', 0, finding('ok', 'is valid until 2126-', null)],
    [
      'ends soon',
      CERTIFICATES_UNTIL - 5 * DAY_MS,
      finding('note', 'days yet: put a renewed one into its place', 'openssl x509'),
    ],
    ['has ended', CERTIFICATES_UNTIL + 5 * DAY_MS, finding('broken', 'expired on 2126-', 'openssl x509')],
    ['has not begun', Date.UTC(2020, 0, 1), finding('broken', 'is not valid before 2026-', 'openssl x509')],
  ])('%s', async (_what, nowMs, found) => {
    const args = await pair();
    const storeDir = join(await temporaryFolder(), 'none');
    if (nowMs > 0) vi.useFakeTimers({ toFake: ['Date'], now: nowMs });
    const { of } = await examined(storeDir, args);
    expect(of('certificate')).toMatchObject(found);
    expect(of('tls-key').state).toBe('ok');
  });

  test('is not there, or of another key, or its key is open to all', async () => {
    const storeDir = join(await temporaryFolder(), 'none');
    const [flag = '', , ...key] = await pair();
    const missing = await examined(storeDir, [flag, '/nowhere/tls.crt', ...key]);
    expect(missing.of('certificate')).toMatchObject(
      finding('broken', '/nowhere/tls.crt cannot be read (it is not there)', 'ls -l'),
    );
    const mixed = await examined(storeDir, await pair(SELF_SIGNED.cert, SERVER.key));
    expect(mixed.of('certificate')).toMatchObject(finding('broken', 'is not that of the certificate', 'ls -l'));
    const open = await pair();
    await chmod(open.at(-1) ?? '', 0o644);
    expect((await examined(storeDir, open)).of('tls-key')).toMatchObject(
      finding('broken', 'tls.key (mode 0644)', `chmod o= ${open.at(-1)}`),
    );
  });

  test('of a running relay is the one that it was started with', async () => {
    const storeDir = await temporaryFolder();
    const args = await pair();
    await relayHere(storeDir, args);
    await rm(args[1] ?? '');
    expect((await examined(storeDir)).of('certificate')).toMatchObject(
      finding('broken', `${args[1]} cannot be read`, 'ls'),
    );
  });
});

describe('backups of a relay that does not run', () => {
  test.each<[string, number | undefined, object]>([
    ['there is none', undefined, finding('note', 'none has been written to', 'poste relay backup ')],
    ['the newest is fresh', 60_000, finding('ok', 'the newest is 60 seconds old, and one is due every 24 hours', null)],
    ['the newest is old', 3 * DAY_MS, finding('broken', 'the newest is 3 days old', 'poste relay backup ')],
  ])('%s', async (_what, agoMs, found) => {
    const backups = await temporaryFolder();
    if (agoMs !== undefined) await writeFile(join(backups, backupName(Date.now() - agoMs)), '');
    const { of } = await examined(await usedStore(), ['--backup-dir', backups]);
    expect(of('backup')).toMatchObject(found);
    expect(of('backup-folder')).toMatchObject(finding('ok', 'can be written to', null));
  });

  test('their folder is not there, is none, or cannot be used', async () => {
    const [storeDir, folder] = [await usedStore(), await temporaryFolder()];
    const of = async (dir: string): Promise<unknown> =>
      (await examined(storeDir, ['--backup-dir', dir])).of('backup-folder');
    expect(await of(join(folder, 'none'))).toMatchObject(finding('note', 'there is no folder', 'install -d -m 0700'));
    expect(existsSync(join(folder, 'none'))).toBe(false);
    await writeFile(join(folder, 'file'), '');
    expect(await of(join(folder, 'file'))).toMatchObject(finding('broken', 'is no folder', 'mv '));
    expect(await of(join(folder, 'file', 'below'))).toMatchObject(finding('broken', '(ENOTDIR)', 'ls -ld'));
  });
});

describe('a shared log', () => {
  test('whose server does not answer, or whose password cannot be read', async () => {
    const storeDir = join(await temporaryFolder(), 'none');
    const log = ['--log', `postgres://relay@127.0.0.1:${await freePort()}/mail`];
    expect((await examined(storeDir, log)).of('log-reach')).toMatchObject(
      finding('broken', 'cannot be reached', '--log'),
    );
    const { of } = await examined(storeDir, [...log, '--log-password-file', '/nowhere/password']);
    expect(of('log-reach')).toMatchObject(
      finding('broken', '/nowhere/password cannot be read (it is not there)', '--log'),
    );
    expect((await examined(storeDir, [], { MAIL_RELAY_LOG: log[1] ?? '' })).of('log-reach').state).toBe('broken');
  });

  test.each<[string, Partial<SharedLogShown>, string, object]>([
    ['is not named to the command', {}, 'log-reach', finding('note', 'is not asked', 'poste relay doctor --log')],
    ['has a leader', {}, 'log-leader', finding('ok', 'alpha-00000001 leads, in term 7', null)],
    ['has none', { leader: null }, 'log-leader', finding('broken', 'No relay leads', 'ls -la')],
    [
      'is in doubt',
      { doubt: 'it lacks batch 3' },
      'log-doubt',
      finding('broken', 'in doubt: it lacks batch 3', 'ls -la'),
    ],
    ['is not in doubt', {}, 'log-doubt', finding('ok', 'not in doubt', null)],
    [
      'does not answer the relay',
      { is_reached: false },
      'log-lag',
      finding('broken', 'does not reach its shared log', 'ls -la'),
    ],
    ['takes nothing', { is_stalled: true }, 'log-lag', finding('broken', 'takes nothing', 'pg_stat_replication')],
    [
      'would have one copy of a batch',
      { is_stalled: true, copy_fault: 'it names no standby' },
      'log-lag',
      finding('broken', 'pushes are refused: it names no standby', 'pg_stat_replication'),
    ],
    [
      'is ahead of the relay',
      { behind_batches: 9, behind_ms: 60_000 },
      'log-lag',
      finding('broken', '60 seconds behind its shared log', 'ls -la'),
    ],
    ['is a little ahead', { behind_batches: 2, behind_ms: 50 }, 'log-lag', finding('ok', '2 batches behind', null)],
    [
      'is led with other settings',
      { settings_differ: ['max_batch', 'authority'] },
      'log-settings',
      finding('note', 'leads: max_batch, authority', 'poste relay serve --print-config'),
    ],
  ])('%s', async (_what, changes, id, found) => {
    const shared = { ...SHARED, ...changes };
    const wrong = faults({ isReady: undefined, sharedLog: shared });
    const storeDir = await answering({ role: 'following', is_ready: false, shared_log: shared, ...wrong });
    expect((await examined(storeDir)).of(id)).toMatchObject(found);
  });

  test('every alert of a relay has a check of its own kind', () => {
    const subject = { status: { ...HEALTHY }, storeDir: '/s', unit: undefined } as RelaySubject;
    const configFile = { path: '/c', isThere: false, isNamed: false };
    const checked = RULES.map(({ what: _what, ...rule }) => {
      const status = { ...HEALTHY, faults: [{ ...rule, what: 'It is so.' }] };
      return [rule.alert, withFaults({ ...subject, configFile, status }, []).map(({ id }) => id)] as const;
    });
    const elsewhere = checked.filter(([, ids]) => ids.length === 0).map(([alert]) => alert);
    expect(elsewhere).toEqual(['PosteRelayNotReady', 'PosteRelayDiskLow']);
    expect(checked.filter(([, ids]) => ids.includes('log-settings')).map(([alert]) => alert)).toEqual([null]);
  });
});

async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}
