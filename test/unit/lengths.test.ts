/** No file of src is longer than 400 lines, no function longer than 80, and no line of code than 120 columns. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const FILE_LINES_MAX = 400;
const FUNCTION_LINES_MAX = 80;
/** The formatter keeps code to it, and leaves texts, templates, comments and the names of tests as they are. */
const LINE_COLUMNS_MAX = 120;

interface Finding {
  filename: string;
  message: string;
}

/**
 * Returns what is too long in the folder `src` below `root`, with its lines: files by path, functions by path and name.
 */
async function tooLong(root: string): Promise<Record<string, number>> {
  const config = join(await temporaryFolder(), 'lengths.json');
  const rules = { 'max-lines': ['error', FILE_LINES_MAX], 'max-lines-per-function': ['error', FUNCTION_LINES_MAX] };
  writeFileSync(config, JSON.stringify({ categories: { correctness: 'off' }, rules }));
  const oxlint = join(ROOT, 'node_modules/oxlint/bin/oxlint');
  const output = await new Promise<string>((resolve, reject) => {
    const ran = [oxlint, '-c', config, '-f', 'json', 'src'];
    // The linter ends with 1 when it found something; what it prints is the whole answer.
    execFile(process.execPath, ran, { cwd: root }, (error, stdout, stderr) =>
      stdout === '' ? reject(new Error(stderr, { cause: error })) : resolve(stdout),
    );
  });
  const { diagnostics } = JSON.parse(output) as { diagnostics: Finding[] };
  const found = diagnostics.map(({ filename, message }): [string, number] => {
    const [, what = message, lines] = /^(?:File|The (.+)) has too many lines \((\d+)\)/.exec(message) ?? [];
    return [what === message ? filename : `${filename}: ${what.replaceAll('`', '')}`, Number(lines)];
  });
  return Object.fromEntries(found);
}

test('the files and functions of src are short', async () => {
  expect(await tooLong(ROOT)).toEqual({});
});

function sourceOf(name: string, lines: number): string {
  return `function ${name}() {\n${'//\n'.repeat(lines - 2)}}\n`;
}

test('a file of 401 lines and a function of 81 are found, and shorter ones are not', async () => {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'src'));
  writeFileSync(join(root, 'src/short.ts'), sourceOf('short', 80) + '//\n'.repeat(320));
  writeFileSync(join(root, 'src/long.ts'), sourceOf('long', 81) + '\n'.repeat(320));
  expect(await tooLong(root)).toEqual({ 'src/long.ts': 401, 'src/long.ts: function long': 81 });
});

/** The lines of code below `root` that are too wide, each with its path and number. */
function wideLines(root: string, folders: readonly string[]): string[] {
  const files = folders.flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }));
  const paths = files.map(({ parentPath, name }) => join(parentPath, name)).filter((path) => /\.(ts|mjs)$/.test(path));
  return paths.toSorted().flatMap((path) => {
    const lines = readFileSync(path, 'utf8').split('\n');
    // A character counts once, however many units it has in UTF-16.
    return lines.flatMap((line, at) =>
      Array.from(line).length > LINE_COLUMNS_MAX ? [`${relative(root, path)}:${at + 1}`] : [],
    );
  });
}

test('no line of code is wider than 120 columns, in src, test, bench and scripts', () => {
  expect(wideLines(ROOT, ['src', 'test', 'bench', 'scripts'])).toEqual([]);
});

test('a line of 121 columns is found, also in a comment, and one of 120 is not', async () => {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'src/deep'), { recursive: true });
  writeFileSync(join(root, 'src/narrow.ts'), `${'x'.repeat(120)}\n${'─'.repeat(120)}\n${'😀'.repeat(120)}\n`);
  writeFileSync(join(root, 'src/deep/wide.ts'), `x\n// ${'x'.repeat(118)}\n`);
  writeFileSync(join(root, 'src/page.md'), 'x'.repeat(200));
  expect(wideLines(root, ['src'])).toEqual(['src/deep/wide.ts:2']);
});
