/** The pictures of the docs: small, shown with words, and not in the package. */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
const FOLDER = join(ROOT, 'docs/pictures');
const BYTES_MAX = 800_000;

test('each is shown in the docs with a text for those who do not see it, and there are no others', () => {
  const pages = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
  const shown = pages.flatMap((name) => {
    const text = readFileSync(join(ROOT, 'docs', name), 'utf8');
    return Array.from(text.matchAll(/!\[(.*?)\]\(pictures\/(.*?)\)/g), ([, words = '', file = '']) => ({
      words,
      file,
    }));
  });
  expect(shown.map(({ file }) => file).toSorted()).toEqual(readdirSync(FOLDER).toSorted());
  for (const { words, file } of shown) expect([file, words.length > 20]).toEqual([file, true]);
  for (const page of ['console', 'mail'])
    for (const device of ['desktop', 'phone'])
      for (const scheme of ['light', 'dark'])
        expect(shown.map(({ file }) => file)).toContain(`${page}-${device}-${scheme}.png`);
});

test('together they are small, and the package does not hold them', () => {
  const sizes = readdirSync(FOLDER).map((name) => statSync(join(FOLDER, name)).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(BYTES_MAX);
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
  expect(files).toContain('!docs/pictures');
});
