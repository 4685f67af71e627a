/**
 * A program that tests need: found, or its tests are skipped and the end of the run says so; with CI=true they fail.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readText } from '../../support/doc-pages.ts';
import * as programs from '../../support/programs.ts';
import { type Program, findProgram, neededProgram } from '../../support/programs.ts';
import { skippedLine } from '../../support/run-notes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const NAMES = ['poste-no-such-program', 'poste-none-either'];

/** A program of that description, which is nowhere on this machine until a test writes it. */
function absent(places: readonly string[] = []): Program {
  return { title: 'Nothing', variable: 'POSTE_NOTHING', names: NAMES, places, install: 'write it' };
}

async function written(path: string): Promise<string> {
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, '#!/bin/sh\n');
  await chmod(path, 0o700);
  return path;
}

/** Returns what a test that needs `program` notes when it is skipped; undefined when it is not. */
function noteOf(program: Program, environment: NodeJS.ProcessEnv): string | undefined {
  let note: string | undefined;
  const skip = (given?: boolean | string): never => {
    note = String(given);
    throw new Error('skipped');
  };
  try {
    neededProgram({ skip }, program, environment);
  } catch (error) {
    if (note === undefined) throw error;
  }
  return note;
}

describe('a program is found', () => {
  test('by its environment variable before all else', async () => {
    const folder = await temporaryFolder();
    const named = await written(join(folder, 'named'));
    await written(join(folder, NAMES[0] ?? ''));
    expect(findProgram(absent(), { PATH: folder, POSTE_NOTHING: named })).toBe(named);
  });

  test('on PATH, by the likeliest of its names in the first folder that has one', async () => {
    const folder = await temporaryFolder();
    const second = await written(join(folder, 'a', NAMES[1] ?? ''));
    expect(findProgram(absent(), { PATH: `relative::${folder}/no:${folder}/a` })).toBe(second);
    const first = await written(join(folder, 'a', NAMES[0] ?? ''));
    await written(join(folder, 'b', NAMES[0] ?? ''));
    expect(findProgram(absent(), { PATH: `${folder}/a:${folder}/b`, POSTE_NOTHING: '' })).toBe(first);
  });

  test('in its usual places, as an application of macOS has one, never a folder or a file that is none', async () => {
    const folder = await temporaryFolder();
    const place = await written(join(folder, 'Nothing.app/Contents/MacOS/Nothing'));
    await mkdir(join(folder, NAMES[0] ?? ''));
    await writeFile(join(folder, NAMES[1] ?? ''), '');
    expect(findProgram(absent([join(folder, 'no'), place]), { PATH: folder })).toBe(place);
  });

  test('or its environment variable is wrong, which is said and skips nothing', () => {
    const environment = { PATH: '', POSTE_NOTHING: '/no/such/file' };
    const wrong = 'POSTE_NOTHING names /no/such/file, which is no program that can be run; it should be Nothing';
    expect(() => findProgram(absent(), environment)).toThrow(wrong);
    expect(() => noteOf(absent(), environment)).toThrow(wrong);
  });
});

describe('without a program', () => {
  test('a test that needs it is skipped, and notes what it needs', () => {
    expect(noteOf(absent(), { PATH: '' })).toBe('needs Nothing (write it, or POSTE_NOTHING=<its file>)');
  });

  test('with CI=true it fails, with a sentence that says how to get it', () => {
    const sentence =
      'With CI=true nothing is skipped, and this test needs Nothing (write it, or POSTE_NOTHING=<its file>).';
    expect(() => noteOf(absent(), { PATH: '', CI: 'true' })).toThrow(sentence);
  });

  test('one line at the end of the run names what was skipped, and how to get it', () => {
    const note = noteOf(absent(), { PATH: '' });
    const other = noteOf({ ...absent(), title: 'Another' }, { PATH: '' });
    expect(skippedLine([undefined, note, other, 'another reason', note])).toBe(
      'Skipped: 2 tests need Nothing (write it, or POSTE_NOTHING=<its file>); ' +
        '1 test needs Another (write it, or POSTE_NOTHING=<its file>).',
    );
    expect(skippedLine([undefined, 'another reason'])).toBeUndefined();
  });
});

test('.ci/run has every program that a test needs, skips nothing, and runs the command of the README', () => {
  const script = readText('.ci/run');
  const [, installed = ''] = /^for program in (.+); do$/m.exec(script) ?? [];
  const [, interpreter = ''] = /^#!\/usr\/bin\/env (\S+)$/m.exec(script) ?? [];
  const there = new Set([...installed.split(' '), interpreter]);
  const needed = Object.values(programs).filter((one) => typeof one === 'object' && 'variable' in one);
  expect(needed.length).toBeGreaterThan(2);
  expect(needed.filter(({ names }) => !names.some((name) => there.has(name)))).toEqual([]);
  const ran = script.split('\n').filter((line) => /^\s*(?:export|\(?npm|if .*npm) /.test(line));
  expect(ran.map((line) => line.trim())).toEqual([
    'export CI=true',
    'npm ci',
    'npm run --silent build',
    '(npm ci && npm test)',
    'if [ "$part" = all ]; then npm run --silent test:newer-node; fi',
    'if [ "$part" != test ]; then npm run --silent test:rest; fi',
  ]);
  expect(readText('README.md')).toContain('npm ci && npm test');
});
