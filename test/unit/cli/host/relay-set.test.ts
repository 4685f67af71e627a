/** `poste relay set --ca`: what is wrong with the file is said before anybody is asked. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { CA_CHARACTERS_MAX } from '../../../../src/host/contract/limits.ts';
import { runHere } from '../../../support/command-run.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { AUTHORITY } from '../../../support/test-authority.ts';

test.each([
  ['is not there', undefined, /none\.pem cannot be read \(it is not there\)/, EXIT.notFound],
  ['holds no certificate', 'words', /none\.pem holds no readable certificate: it must be PEM/, EXIT.usage],
  [
    'is too long',
    AUTHORITY.padEnd(CA_CHARACTERS_MAX + 1),
    /none\.pem cannot be read \(it has more than 524288 bytes\)/,
    EXIT.usage,
  ],
])('a file that %s is one sentence', async (_what, text, words, exit) => {
  const folder = await temporaryFolder();
  const path = join(folder, 'none.pem');
  if (text !== undefined) await writeFile(path, text);
  const environment = { POSTE_HOME: folder };
  const { code, stderr } = await runHere(['relay', 'set', 'https://relay.example', '--ca', path], { environment });
  expect(code).toBe(exit);
  expect(stderr).toMatch(words);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});

test('a good file is taken, whatever the daemon says then', async () => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'ca.pem'), AUTHORITY);
  const environment = { POSTE_HOME: folder };
  const given = ['relay', 'set', 'https://relay.example', '--ca', join(folder, 'ca.pem')];
  const { stderr } = await runHere(given, { environment });
  expect(stderr).not.toContain('ca.pem');
});
