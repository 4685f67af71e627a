/**
 * Finds which test files try more in a thorough run than in `npm test`: those that it leaves out
 * (support/long-files.ts), those that import support/thorough.ts, themselves or through a helper, and those that run
 * with ANY_ADAPTER (support/adapters.ts, which most of the others import as well).
 */
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { LONG_FILES } from './long-files.ts';

const TESTS = resolve(import.meta.dirname, '..');
const THOROUGH = join(import.meta.dirname, 'thorough.ts');
const ADAPTERS = join(import.meta.dirname, 'adapters.ts');
const IMPORT = /^(?:(?:import|export)\b.*|\}) from '(?<path>\.{1,2}\/[^']+)';$/gm;

/** Their paths from the root of the repository, sorted. */
export function thoroughFiles(): string[] {
  const answers = new Map<string, boolean>([
    [THOROUGH, true],
    [ADAPTERS, false],
  ]);
  const isThorough = (file: string): boolean => {
    const known = answers.get(file);
    if (known !== undefined) return known;
    // In a circle of imports the rest of it decides.
    answers.set(file, false);
    const text = readFileSync(file, 'utf8');
    const imported = [...text.matchAll(IMPORT)].map(({ groups }) => resolve(dirname(file), groups?.['path'] ?? ''));
    const is = /\bANY_ADAPTER\b/.test(text) || imported.filter((path) => path.startsWith(TESTS)).some(isThorough);
    answers.set(file, is);
    return is;
  };
  return readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .filter((name) => LONG_FILES.includes(`test/${name.replaceAll('\\', '/')}`) || isThorough(join(TESTS, name)))
    .map((name) => `test/${name.replaceAll('\\', '/')}`)
    .toSorted();
}
