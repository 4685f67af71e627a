/**
 * The vector files are what the script makes, and what each says is true: by cryptography that is not ours, and where
 * our code reads or answers the like, by our code. The checks lie in test/support/vectors, a list for each file.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { VECTOR_FOLDER, vectorFiles } from '../../../scripts/make-vectors.ts';
import { BINARY_FORM } from '../../support/vectors/binary-form.ts';
import { COSIGNATURE } from '../../support/vectors/cosignature.ts';
import { DOCUMENTS } from '../../support/vectors/documents.ts';
import { SEALED } from '../../support/vectors/envelope.ts';
import { HOME_RELAYS } from '../../support/vectors/home-relays.ts';
import { HOPS } from '../../support/vectors/hops.ts';
import { LOG } from '../../support/vectors/log.ts';
import { type VectorChecks, readVectors } from '../../support/vectors/oracle.ts';
import { LAN_PAIRING } from '../../support/vectors/pairing.ts';
import { RECEIPT_TREE } from '../../support/vectors/receipt-tree.ts';
import { SESSION } from '../../support/vectors/session.ts';

const TABLE: readonly VectorChecks[] = [
  ...DOCUMENTS,
  ...HOPS,
  LAN_PAIRING,
  ...SEALED,
  HOME_RELAYS,
  BINARY_FORM,
  RECEIPT_TREE,
  LOG,
  COSIGNATURE,
  SESSION,
];

const files = await vectorFiles();

describe('vector files', () => {
  it.each([...files])('%s is what the script makes (npm run vectors)', (name, text) => {
    expect(readFileSync(join(VECTOR_FOLDER, name), 'utf8')).toBe(text);
  });

  it('a second run makes the same bytes, and there is no file that it does not make', async () => {
    expect(await vectorFiles()).toEqual(files);
    const entries = readdirSync(VECTOR_FOLDER, { withFileTypes: true }).filter((entry) => entry.isFile());
    expect(entries.map(({ name }) => name).toSorted()).toEqual([...files.keys()].toSorted());
  });

  it('each tells somebody without this repository what it holds', () => {
    for (const name of files.keys()) {
      const { description, cases } = readVectors(name) as { description: string[]; cases: { name: string }[] };
      expect(description.join(' ').length).toBeGreaterThan(200);
      expect(new Set(cases.map((one) => one.name)).size).toBe(cases.length);
      expect(cases.length).toBeGreaterThan(1);
    }
  });
});

it('each file has its checks, one for each case at least', () => {
  expect(TABLE.map(({ file }) => file).toSorted()).toEqual([...files.keys()].toSorted());
  for (const { file, checks } of TABLE) {
    const { cases } = readVectors(file) as { cases: unknown[] };
    expect(checks.length).toBeGreaterThanOrEqual(cases.length);
  }
});

describe.each(TABLE.map(({ file, checks }) => [file, checks] as const))('%s', (_file, checks) => {
  it.each(checks.map(({ name, run }) => [name, run] as const))('%s', async (_name, run) => {
    expect.hasAssertions();
    await run();
  });
});
