import { expect, test } from 'vitest';
import { thoroughFiles } from '../../support/thorough-files.ts';

test('a thorough run finds the files that try more then: by an import, through a helper, and by their servers', () => {
  const files = thoroughFiles();
  expect(files).toContain('test/property/relay.test.ts');
  expect(files).toContain('test/crash/kill.test.ts');
  expect(files).toContain('test/http/items.test.ts');
  for (const file of ['unit/support/programs', 'unit/import-rules', 'http/framing', 'unit/protocol/digest']) {
    expect(files).not.toContain(`test/${file}.test.ts`);
  }
});
