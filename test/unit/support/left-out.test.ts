/** The parts of the program that the negative controls leave out: each is found in the sources as they are. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LEFT_OUT } from '../../support/history/controls.ts';

const SOURCES = join(import.meta.dirname, '../../../src');

test.each(Object.entries(LEFT_OUT))('%s stands once in its file', async (_name, { file, from }) => {
  expect((await readFile(join(SOURCES, file), 'utf8')).split(from)).toHaveLength(2);
});
