import { expect, test } from 'vitest';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { LONG_FILES } from '../../support/long-files.ts';
import { thoroughFiles } from '../../support/thorough-files.ts';

test('a thorough run finds the files that try more then: by an import, through a helper, and by their servers', () => {
  const files = thoroughFiles();
  expect(files).toContain('test/property/relay.test.ts');
  expect(files).toContain('test/crash/kill.test.ts');
  expect(files).toContain('test/http/items.test.ts');
  for (const file of ['unit/support/programs', 'unit/import-rules', 'http/errors', 'unit/protocol/digest']) {
    expect(files).not.toContain(`test/${file}.test.ts`);
  }
});

test('the long files that npm test leaves out are there, none holds a rule of the specification, and a thorough run has them', () => {
  expect(LONG_FILES.filter((file) => !existsSync(resolve(import.meta.dirname, '../../..', file)))).toEqual([]);
  expect(LONG_FILES.filter((file) => file.startsWith('test/spec/'))).toEqual([]);
  expect(thoroughFiles()).toEqual(expect.arrayContaining([...LONG_FILES]));
});
