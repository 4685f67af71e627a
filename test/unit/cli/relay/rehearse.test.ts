/** `poste relay rehearse`: the commands, their verdicts, and what they leave behind. */
import { chmod, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Rehearsal } from '../../../../src/relay/replay/answers.ts';
import { openBackup } from '../../../../src/relay/replay/offline.ts';
import { writeBackup } from '../../../../src/relay/image/backup.ts';
import { PREFIX, prefixRange } from '../../../../src/relay/store/keys.ts';
import { runHere, type CommandEnded } from '../../../support/command-run.ts';
import { collected } from '../../../support/collected.ts';
import { fixtureBackup } from '../../../support/fixture-stores.ts';
import { diskAt, hasOwnDisks } from '../../../support/own-disks.ts';
import { patchedProgram } from '../../../support/patched-program.ts';
import { EXIT, sentenceOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { IS_THOROUGH } from '../../../support/thorough.ts';
import { found } from '../../../support/found.ts';

const BACKUP = fixtureBackup(3);
/** The disks of this machine may be mounted by root alone. */
const HAS_DISKS = IS_THOROUGH && (await hasOwnDisks());

function rehearse(...args: string[]): Promise<CommandEnded> {
  return runHere(['relay', 'rehearse', ...args]);
}

/** The lines of a verdict but the last, which says how long it took. */
function findingsIn(text: string): string[] {
  return text.split('\n').filter((line) => !line.startsWith('Not verified'));
}

/** Makes the folder for temporary files one of the test's own. */
async function ownTemporary(folder?: string): Promise<string> {
  const own = folder ?? (await temporaryFolder());
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = own;
  onTestFinished(() => {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  });
  return own;
}

/** What a rehearsal of a backup printed first; it is the same each time, as a test says. */
const documents = new Map<string, Promise<CommandEnded>>();

async function documentOf(backup = BACKUP): Promise<Rehearsal> {
  const printed = documents.get(backup) ?? rehearse('--backup', backup, '--json');
  documents.set(backup, printed);
  const { code, stdout } = await printed;
  expect(code).toBe(EXIT.ok);
  return JSON.parse(stdout) as Rehearsal;
}

async function written(content: string | Buffer): Promise<string> {
  const file = join(await temporaryFolder(), 'file');
  await writeFile(file, content);
  return file;
}

/** The backup with one pair of it changed. */
async function changedBackup(
  change: (value: Buffer) => Buffer,
  prefix: number,
  header: { schema_version?: number } = {},
): Promise<string> {
  const offline = await openBackup(BACKUP);
  try {
    const [first] = await offline.level.iterator({ ...prefixRange(prefix), limit: 1 }).all();
    if (!first || !offline.header) throw new Error('the fixture holds no such row');
    await offline.level.put(first[0], change(first[1]));
    return await written(Buffer.concat(await collected(writeBackup(offline.level, { ...offline.header, ...header }))));
  } finally {
    await offline.close();
  }
}

test.each([1, 2, 3])('a backup of schema %i is rehearsed in one sentence, and nothing stays', async (schema) => {
  const folder = await ownTemporary();
  const before = await readFile(fixtureBackup(schema));
  const { code, stdout, stderr } = await rehearse('--backup', fixtureBackup(schema));
  expect({ code, stdout, stderr }).toEqual({
    code: EXIT.ok,
    stdout: 'Rehearsed: 13 answers of Poste 0.1.0 for 3 hosts are what the verified log says.\n',
    stderr: '',
  });
  expect(await readdir(folder)).toEqual([]);
  expect((await readFile(fixtureBackup(schema))).equals(before)).toBe(true);
});

test('two rehearsals of one backup answer the same, and the document holds no mail', async () => {
  const document = await documentOf();
  expect(document).toMatchObject({ rehearsed: true, version: '0.1.0', lsn: 39, tree_size: 3, hosts: 3 });
  const ended = await rehearse('--backup', BACKUP, '--against', await written(JSON.stringify(document)));
  expect(ended).toMatchObject({
    code: EXIT.ok,
    stdout: 'Rehearsed: 13 answers of Poste 0.1.0 for 3 hosts are those of Poste 0.1.0.\n',
  });
  const values = document.answers.flatMap(({ members }) => Object.values(members));
  expect(values.every((value) => /^[0-9a-f]{64}$/.test(value))).toBe(true);
  expect(values.length).toBeGreaterThan(20);
});

test('an answer that differs is named, and a member that only this version answers is no difference', async () => {
  const document = await documentOf();
  const page = found(
    document.answers.find(({ members }) => members['items'] !== undefined),
    'no page was pulled',
  );
  const kept = { ...page.members };
  page.members['items'] = '0'.repeat(64);
  const differing = await rehearse('--backup', BACKUP, '--against', await written(JSON.stringify(document)));
  expect(differing).toMatchObject({
    code: EXIT.failure,
    stdout: `${page.asked}: items is another.\nDo not upgrade yet: 1 found in 13 answers of Poste 0.1.0 for 3 hosts.\n`,
  });
  const { more: _more, ...others } = kept;
  page.members = others;
  const file = await written(JSON.stringify(document));
  const added = await rehearse('--backup', BACKUP, '--against', file, '--json');
  expect(added.code).toBe(EXIT.ok);
  expect(JSON.parse(added.stdout)).toMatchObject({ differences: [], added_members: ['more'] });
});

test('the other version is a program, which rehearses the same backup', async () => {
  const answer = await written(JSON.stringify(await documentOf()));
  const script = [
    '#!/usr/bin/env node',
    `import { readFileSync } from 'node:fs';`,
    `const args = process.argv.slice(2).join(' ');`,
    `if (args !== 'relay rehearse --backup ${BACKUP} --json') throw new Error(args);`,
    `process.stdout.write(readFileSync('${answer}', 'utf8').replace('"version":"0.1.0"', '"version":"0.0.9"'));`,
  ].join('\n');
  const program = join(await temporaryFolder(), 'poste.mjs');
  await writeFile(program, script);
  for (const mode of [0o644, 0o755]) {
    await chmod(program, mode);
    const { code, stdout } = await rehearse('--backup', BACKUP, '--against', program);
    expect([code, stdout]).toEqual([
      EXIT.ok,
      'Rehearsed: 13 answers of Poste 0.1.0 for 3 hosts are those of Poste 0.0.9.\n',
    ]);
  }
});

test.skipIf(!IS_THOROUGH)('a program whose pages lack an item is found out', async () => {
  const other = await patchedProgram(await temporaryFolder(), [
    {
      file: 'relay/engine/engine.ts',
      from: '{ epoch: this.epoch, headSeq, ...page }',
      to: '{ epoch: this.epoch, headSeq, ...page, rows: page.rows.slice(1) }',
    },
  ]);
  const { code, stdout } = await rehearse('--backup', BACKUP, '--against', other);
  expect(code).toBe(EXIT.failure);
  expect(stdout).toMatch(/\/v2\/relay\/items\?after=0 of SHA256:\S+: items is another\.\n/);
});

test('a damaged backup is not rehearsed: what verify finds is said', async () => {
  const flipped = await changedBackup(
    (value) => Buffer.concat([value.subarray(0, -1), Buffer.of((value.at(-1) ?? 0) ^ 1)]),
    PREFIX.target,
  );
  const cut = await written((await readFile(BACKUP)).subarray(0, -20));
  const verified = await runHere(['relay', 'log', 'verify', '--backup', flipped]);
  const folder = await ownTemporary();
  const { code, stdout } = await rehearse('--backup', flipped);
  expect(code).toBe(EXIT.failure);
  expect(findingsIn(stdout)).toEqual(findingsIn(verified.stdout));
  expect(stdout).toContain('Not verified: ');
  const ended = await rehearse('--backup', cut);
  expect([ended.code, sentenceOf(ended)]).toEqual([EXIT.failure, expect.stringContaining('cannot be used')]);
  expect(await readdir(folder)).toEqual([]);
});

test('a backup of a newer schema, and a file that is not there, are refused', async () => {
  const newer = await changedBackup((value) => value, PREFIX.target, { schema_version: 99 });
  const refused = await rehearse('--backup', newer);
  expect([refused.code, sentenceOf(refused)]).toEqual([EXIT.refused, expect.stringContaining('is of schema 99')]);
  const missing = await rehearse('--backup', join(await temporaryFolder(), 'none'));
  expect([missing.code, sentenceOf(missing)]).toEqual([EXIT.notFound, expect.stringContaining('it is not there')]);
});

test('wrong arguments, and what cannot be compared, are one sentence', async () => {
  expect((await rehearse()).code).toBe(EXIT.usage);
  expect((await rehearse('--backup', BACKUP, 'more')).code).toBe(EXIT.usage);
  const against = (path: string) => rehearse('--backup', BACKUP, '--against', path);
  const missing = await against(join(await temporaryFolder(), 'none'));
  expect([missing.code, sentenceOf(missing)]).toEqual([EXIT.notFound, expect.stringContaining('name a poste program')]);
  const document = await against(await written('{"some":"document"}'));
  expect([document.code, sentenceOf(document)]).toEqual([EXIT.failure, expect.stringContaining('is no document of')]);
  const older = await against(
    await written(`process.stderr.write('{"message":"unknown command \\'rehearse\\'"}\\n'); process.exit(2);`),
  );
  expect([older.code, sentenceOf(older)]).toEqual([
    EXIT.failure,
    expect.stringContaining("did not rehearse: unknown command 'rehearse'."),
  ]);
  const found = await against(await written(`console.log('{"rehearsed":false,"found":3}'); process.exitCode = 1;`));
  expect(sentenceOf(found)).toContain('it does not verify the backup, in which it found 3 wrong');
  const silent = await against(await written('process.exitCode = 1;'));
  expect(sentenceOf(silent)).toMatch(/ did not rehearse: it said nothing\.\n$/);
  const other = await against(await written(JSON.stringify(await documentOf(fixtureBackup(2)))));
  expect(sentenceOf(other)).toContain('the other version rehearsed another backup');
});

test('a folder for temporary files with too long a path is said, and nothing stays', async () => {
  const long = join(await temporaryFolder(), 'f'.repeat(100));
  await mkdir(long);
  await ownTemporary(long);
  const ended = await rehearse('--backup', BACKUP);
  expect([ended.code, sentenceOf(ended)]).toEqual([EXIT.failure, expect.stringContaining('with TMPDIR')]);
  expect(await readdir(long)).toEqual([]);
});

test.skipIf(!HAS_DISKS)('without room on the disk it says so, and nothing stays', async () => {
  const folder = await temporaryFolder();
  const ends: (number | null)[] = [];
  for (let kib = 8; ends.at(-1) !== EXIT.ok; kib += 8) {
    const disk = join(folder, String(kib));
    await mkdir(disk);
    await diskAt(disk, kib << 10);
    await ownTemporary(disk);
    const { code, stdout, stderr } = await rehearse('--backup', BACKUP);
    ends.push(code);
    expect(`${stdout}${stderr}`).toMatch(/^(?:Rehearsed: |poste: [^\n]*(?:make room|free some space)[^\n]*\.\n$)/);
    expect(await readdir(disk)).toEqual([]);
  }
  expect(ends.slice(0, -1)).toEqual(ends.slice(1).map(() => EXIT.failure));
  expect(ends.length).toBeGreaterThan(4);
});
