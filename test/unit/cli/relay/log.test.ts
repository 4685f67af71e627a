/** `poste relay log` against store folders and backup files. */
import { cp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { writeBackup } from '../../../../src/relay/image/backup.ts';
import { PREFIX, SCHEMA_KEY, logKey, prefixRange, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { positionPathOf, PositionFile } from '../../../../src/relay/store/position.ts';
import { type Level, LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { decodeRow } from '../../../../src/relay/store/row-codec.ts';
import { collected } from '../../../support/collected.ts';
import { alice, bob, carol } from '../../../support/hosts.ts';
import { liveALife } from '../../../support/life.ts';
import { itemTo } from '../../../support/mail.ts';
import { relayHere, runHere } from '../../../support/command-run.ts';
import type { Ended } from '../../../support/poste-process.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { EXIT, clientOf, sentenceOf } from '../../../support/relay-command.ts';
import { disposableFolder, temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { TestRelay } from '../../../support/test-relay.ts';

let store: string;
let backup: string;
let remove: () => Promise<void>;

beforeAll(async () => {
  const disposable = await disposableFolder();
  ({ remove } = disposable);
  store = join(disposable.folder, 'store');
  backup = join(disposable.folder, 'poste.backup');
  const relay = new TestRelay(store, {});
  await relay.open();
  await liveALife(relay.engine, relay.clock);
  await relay.close();
  const offline = await openOffline(store);
  const { level, store: opened } = offline;
  const row = opened.get('relay', '');
  const header = {
    relay_pubkey: row?.relayPubkey ?? '',
    epoch: row?.epoch ?? '',
    schema_version: SCHEMA_VERSION,
    lsn: opened.lastLsn,
    created_at: NOON_MS,
    version: '0.1.0',
  };
  await writeFile(backup, Buffer.concat(await collected(writeBackup(level, header))));
  await offline.close();
});

afterAll(() => remove());

/** `poste relay log <args>`. */
function log(...args: string[]): Promise<Ended> {
  return runHere(['relay', 'log', ...args]);
}

function jsonOf({ stdout, stderr, code }: Ended): Record<string, unknown> {
  expect([code, stderr]).toEqual([EXIT.ok, '']);
  return JSON.parse(stdout) as Record<string, unknown>;
}

/** A copy of the store that may be damaged. */
async function copied(): Promise<string> {
  const folder = join(await temporaryFolder(), 'store');
  await cp(store, folder, { recursive: true });
  return folder;
}

const places = (): [string, string[]][] => [
  ['a store folder', ['--store-dir', store]],
  ['a backup file', ['--backup', backup]],
];

describe.each([0, 1])('of %#: folder, backup', (at) => {
  const place = (): string[] => places()[at]?.[1] ?? [];

  test('verify says that all is well, in words and as one document', async () => {
    const ended = await log('verify', ...place());
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(ended.stdout).toMatch(/^Verified: 36 log records, [0-9]+ rows and 4 payloads \(.* MB\/s\)\.\n$/);
    expect(jsonOf(await log('verify', ...place(), '--json'))).toMatchObject({
      verified: true,
      first_bad_lsn: null,
      found: 0,
      findings: [],
      lsn: 36,
      records: 36,
    });
  });

  test('show is a line an event, or a document a line', async () => {
    const ended = await log('show', ...place(), '--host', 'bob', '--type', 'ItemAccepted', '--limit', '2');
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    const lines = ended.stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(
      /^ +12 {2}2025-11-20T21:48:24\.000Z {2}ItemAccepted +envelope m1 of alice\/\S{8} accepted/,
    );
    const asJson = await log('show', ...place(), '--json', '--item', 'm2');
    const documents = asJson.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
    expect(documents).toMatchObject([
      { lsn: 13, type: 'ItemAccepted', item_id: 'm2', sender_pubkey: alice.key, targets: [{ host_pubkey: bob.key }] },
      { type: 'ItemsExpired', target_pubkey: bob.key },
    ]);
  });

  test('trace tells a life, and what no log can know', async () => {
    const ended = await log('trace', 'c1', ...place());
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(ended.stdout).toMatch(/^envelope c1 of alice\/\S{8} for carol\/\S{8}: expired\n/);
    expect(ended.stdout).toContain(`moved from seq ${NOON_MS + 1001} to seq ${NOON_MS + 2001} of carol/`);
    expect(ended.stdout).toContain('A repeated push that was answered duplicate changed nothing');
    const { items } = jsonOf(await log('trace', 'both', '--target', carol.key, '--json', ...place()));
    expect(items).toMatchObject([{ item_id: 'both', target_pubkey: carol.key, state: 'expired' }]);
  });

  test('at shows what was, after a record or at a time', async () => {
    const document = jsonOf(await log('at', '--lsn', '15', '--queue', 'bob', '--hosts', '--json', ...place()));
    expect(document).toMatchObject({ lsn: 15, queues: [{ host_pubkey: bob.key, queue_items: 3 }] });
    expect((document['hosts'] as object[]).length).toBe(5);
    const ended = await log('at', '--time', '2025-11-20T21:48:24Z', '--queue', 'bob', '--quota', 'acme', ...place());
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(ended.stdout).toMatch(/^After log record 17, /);
    expect(ended.stdout).toContain('Charged to the account acme: 1 item, 13 bytes.');
    expect(ended.stdout).toMatch(/m2 .*\n.*m3 /);
    const listed = await log(
      'at',
      '--lsn',
      '36',
      '--allowlist',
      displayFingerprint(bob.key),
      '--quota',
      'bob',
      ...place(),
    );
    expect(listed.stdout).toContain('took mail of 2 senders');
    expect(listed.stdout).toMatch(/Charged to bob\/\S{8}: 1 item, 12 bytes\.\n {2}alice/);
  });
});

test('an audit leaves store and backup as they were', async () => {
  const folder = await copied();
  const before = await readFile(backup);
  await log('verify', '--store-dir', folder);
  await log('trace', 'm1', '--store-dir', folder);
  await log('verify', '--backup', backup);
  expect((await readFile(backup)).equals(before)).toBe(true);
  const relay = new TestRelay(folder, {});
  relay.clock.move((await withRawLevel(folder, heartbeatOf)) - relay.clock.nowMs);
  await relay.open();
  expect(relay.notices).toEqual([]);
  await relay.close();
});

async function heartbeatOf(level: Level): Promise<number> {
  const key = rowKeyBytes('heartbeat', '');
  return decodeRow('heartbeat', key, (await level.get(key)) as Buffer).atMs;
}

describe('a damaged store', () => {
  test('is told by verify, with the first bad LSN, and exit code 1', async () => {
    const folder = await copied();
    await withRawLevel(folder, (level) => level.del(logKey(12)));
    const ended = await log('verify', '--store-dir', folder);
    expect(ended).toMatchObject({ code: EXIT.failure, stderr: '' });
    expect(ended.stdout).toMatch(/^RECORD_MISSING: log record 12 is missing: /);
    expect(ended.stdout).toMatch(/\nNot verified: 1 found in 35 log records, /);
    const asJson = await log('verify', '--store-dir', folder, '--json');
    expect(asJson).toMatchObject({ code: EXIT.failure, stderr: '' });
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      verified: false,
      first_bad_lsn: 12,
      found: 1,
      findings: [{ code: 'RECORD_MISSING', details: { lsn: 12 } }],
    });
  });

  test('is read by the others as far as the log goes', async () => {
    const folder = await copied();
    await withRawLevel(folder, (level) => level.del(logKey(12)));
    const shown = await log('show', '--store-dir', folder);
    expect(shown.code).toBe(EXIT.failure);
    expect(shown.stdout.trimEnd().split('\n')).toHaveLength(11);
    expect(shown.stderr).toMatch(/^poste: the log of .* cannot be read any further \(log record 12 is missing\): /);
    expect((await log('show', '--from', '13', '--store-dir', folder)).code).toBe(EXIT.ok);
    for (const args of [
      ['at', '--lsn', '20'],
      ['trace', 'm1'],
      ['rebuild', '--yes'],
    ]) {
      const ended = await log(...args, '--store-dir', folder);
      expect(ended).toMatchObject({ code: EXIT.failure, stdout: '' });
      expect(ended.stderr).toContain('log record 12 is missing');
    }
    expect((await log('at', '--lsn', '11', '--store-dir', folder)).code).toBe(EXIT.ok);
  });

  test('whose rows are damaged is mended by rebuild', async () => {
    const folder = await copied();
    await withRawLevel(folder, (level) => level.clear(prefixRange(PREFIX.queue)));
    expect((await log('verify', '--store-dir', folder)).stdout).toContain('ROW_MISSING: the queue row of ');
    const unasked = await log('rebuild', '--store-dir', folder);
    expect(unasked.code).toBe(EXIT.usage);
    expect(sentenceOf(unasked)).toContain('give --yes');
    const ended = await log('rebuild', '--store-dir', folder, '--yes');
    expect(ended).toMatchObject({ code: EXIT.ok, stderr: '' });
    expect(ended.stdout).toMatch(/^Rebuilt: [0-9]+ rows of 36 events \([0-9]+ events\/s\), 4 payloads kept\.\n/);
    expect(ended.stdout).toContain('log.replaced-');
    expect((await log('verify', '--store-dir', folder)).code).toBe(EXIT.ok);
    expect(jsonOf(await log('rebuild', '--store-dir', folder, '--yes', '--json'))).toMatchObject({
      events: 36,
      lost: 0,
      lost_items: [],
    });
  });

  test.each([
    ['torn', (path: string) => writeFile(path, 'MANIF')],
    ['empty', (path: string) => writeFile(path, '')],
    ['of another database', (path: string) => writeFile(path, 'MANIFEST-999999\n')],
    ['lost', (path: string) => rm(path)],
  ])(
    'whose CURRENT is %s is rebuilt where all else is there, and a log that was set back still shows',
    async (_what, tear) => {
      const folder = await copied();
      const current = join(folder, LEVEL_FOLDER, 'CURRENT');
      const named = await readFile(current, 'utf8');
      await tear(current);
      const verified = await log('verify', '--store-dir', folder);
      expect(verified.code).toBe(EXIT.failure);
      expect(sentenceOf(verified)).toContain('poste relay log rebuild');
      const unasked = await log('rebuild', '--store-dir', folder);
      expect(unasked.stderr).toContain(`names ${named.trim()} again`);
      const rebuilt = await log('rebuild', '--store-dir', folder, '--yes');
      expect([rebuilt.code, rebuilt.stderr, rebuilt.stdout]).toEqual([
        EXIT.ok,
        '',
        expect.stringContaining('of 36 ev'),
      ]);
      expect((await log('verify', '--store-dir', folder)).code).toBe(EXIT.ok);
      const { file, position } = await PositionFile.open(positionPathOf(folder, undefined));
      if (!position) throw new Error('the store has a position');
      await file.write({ ...position, lsn: position.lsn + 1 });
      await file.close();
      await tear(join(folder, LEVEL_FOLDER, 'CURRENT'));
      expect((await log('rebuild', '--store-dir', folder, '--yes')).code).toBe(EXIT.ok);
      expect((await log('verify', '--store-dir', folder)).stdout).toContain('POSITION_DIFFERS: the store ends before');
    },
  );

  test.each(['flip', 'remove', 'cut', 'newer one that was never ended'])(
    'whose CURRENT is lost, and whose MANIFEST has a %s, is left as it is',
    async (how) => {
      const folder = await copied();
      const database = join(folder, LEVEL_FOLDER);
      await rm(join(database, 'CURRENT'));
      const manifest = join(database, (await readdir(database)).find((one) => one.startsWith('MANIFEST')) ?? 'none');
      const bytes = await readFile(manifest);
      if (how === 'remove') await rm(manifest);
      else if (how.startsWith('newer')) {
        // LevelDB writes the tables first, and which log belongs to them next.
        await writeFile(join(database, 'MANIFEST-999999'), bytes.subarray(0, 7 + bytes.readUInt16LE(4)));
      } else {
        if (how === 'flip') bytes.writeUInt8(bytes.readUInt8(20) ^ 1, 20);
        await writeFile(manifest, how === 'cut' ? bytes.subarray(0, 10) : bytes);
      }
      const before = await readdir(database);
      const ended = await log('rebuild', '--store-dir', folder, '--yes');
      expect(ended.code).toBe(EXIT.failure);
      expect(sentenceOf(ended)).toMatch(/lost its CURRENT file .* restore a backup/);
      expect((await readdir(database)).filter((name) => !before.includes(name) && !name.startsWith('LO'))).toEqual([]);
    },
  );

  test('whose table file, CURRENT or MANIFEST is damaged is one sentence', async () => {
    const sentences: string[] = [];
    for (const [name, damage] of [
      [/\.ldb$/, 'flip'],
      [/\.ldb$/, 'remove'],
      [/\.ldb$/, 'cut'],
      [/^CURRENT$/, 'remove'],
      [/^MANIFEST/, 'remove'],
      [/^MANIFEST/, 'flip'],
    ] as const) {
      const folder = await copied();
      // Opened twice, so that all of it is in a table.
      for (const _time of [1, 2]) await withRawLevel(folder, (level) => level.get(SCHEMA_KEY));
      const file = (await readdir(join(folder, LEVEL_FOLDER))).find((one) => name.test(one)) ?? 'none';
      const path = join(folder, LEVEL_FOLDER, file);
      if (damage === 'remove') await rm(path);
      else {
        const bytes = await readFile(path);
        bytes.writeUInt8(bytes.readUInt8(20) ^ 1, 20);
        await writeFile(path, damage === 'cut' ? bytes.subarray(0, 60) : bytes);
      }
      const ended = await log('verify', '--store-dir', folder);
      expect(ended.code).toBe(EXIT.failure);
      sentences.push(sentenceOf(ended));
    }
    expect(sentences[0]).toContain('has a block that does not match its checksum');
    for (const sentence of sentences) expect(sentence).toMatch(/restore/);
  });
});

describe('what goes wrong is one sentence and an exit code', () => {
  test('a relay that runs', async () => {
    const storeDir = await temporaryFolder();
    await relayHere(storeDir);
    for (const args of [['show'], ['verify'], ['rebuild', '--yes'], ['at', '--lsn', '1'], ['trace', 'x']]) {
      const ended = await log(...args, '--store-dir', storeDir);
      expect(ended.code).toBe(EXIT.conflict);
      expect(sentenceOf(ended)).toContain('another process is using the store');
    }
  });

  test('no store, no backup, a file that is none, a newer schema', async () => {
    const none = await log('verify', '--store-dir', join(store, 'none'));
    expect(none.code).toBe(EXIT.notFound);
    expect(sentenceOf(none)).toContain('there is no store at');
    expect((await log('show', '--backup', join(store, 'none'))).code).toBe(EXIT.notFound);
    const foreign = await log('verify', '--backup', import.meta.filename);
    expect(foreign.code).toBe(EXIT.failure);
    expect(sentenceOf(foreign)).toContain('it is no backup of a relay');
    const folder = await copied();
    await withRawLevel(folder, (level) => level.put(SCHEMA_KEY, Buffer.from([0, 0, 0, SCHEMA_VERSION + 1])));
    const newer = await log('verify', '--store-dir', folder, '--json');
    expect(newer).toMatchObject({ code: EXIT.refused, stdout: '' });
    expect(JSON.parse(newer.stderr)).toMatchObject({ code: 'STORE_NEWER_SCHEMA' });
  });

  test('what is not in the log', async () => {
    for (const [args, said] of [
      [['trace', 'never'], 'no item never was ever accepted'],
      [['trace', 'm1', '--sender', 'nobody'], 'no host is known as nobody'],
      [['show', '--host', 'nobody'], 'no host is known as nobody'],
      [['at', '--lsn', '37'], 'the log ends at record 36'],
      [['at', '--time', '2001-01-01'], 'the log begins later'],
      [['at', '--lsn', '2', '--queue', 'bob'], 'no host is known as bob'],
      [['at', '--lsn', '36', '--quota', 'umbrella'], 'no host and no account'],
    ] as const) {
      const ended = await log(...args, '--backup', backup);
      expect(ended.code).toBe(EXIT.notFound);
      expect(sentenceOf(ended)).toContain(said);
    }
  });
});

test('the first characters of an id mean the one item that begins with them', async () => {
  const folder = await temporaryFolder();
  const relay = await relayHere(folder);
  for (const host of [alice, bob]) await clientOf(relay, host).enrol();
  await clientOf(relay, alice).push(['report-1', 'report-1a', 'report-2'].map((id) => itemTo([bob], id)));
  await relay.process.stop();
  const ofIt = (...args: string[]): Promise<Ended> => log(...args, '--store-dir', folder);
  expect((await ofIt('trace', 'report-1')).stdout).toMatch(/^envelope report-1 of /);
  expect((await ofIt('trace', 'report-1a')).stdout).toMatch(/^envelope report-1a of /);
  expect((await ofIt('trace', 't-1a')).stdout).toMatch(/^envelope report-1a of /);
  const several = await ofIt('trace', 'report');
  expect(several.code).toBe(EXIT.conflict);
  expect(several.stderr).toMatch(
    /report-1 \(record \d+\), report-1a \(record \d+\), report-2 \(record \d+\); give more/,
  );
  // Too few, none, and one.
  for (const text of ['repor', 'report-3']) expect((await ofIt('trace', text)).code).toBe(EXIT.notFound);
  expect((await ofIt('show', '--item', 'repor')).stdout).toBe('');
  expect((await ofIt('show', '--item', 'report-2')).stdout).toContain('envelope report-2 of alice');
  expect((await ofIt('show', '--item', 'report')).code).toBe(EXIT.conflict);
});
