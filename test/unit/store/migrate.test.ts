import { cp, readFile, readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SCHEMA_KEY, rowKeyBytes } from '../../../src/relay/store/keys.ts';
import type { Migration } from '../../../src/relay/store/migrate.ts';
import { LEVEL_FOLDER, type OpenedStore, POSITION_FILE, openStore } from '../../../src/relay/store/open.ts';
import { collected } from '../../support/collected.ts';
import { epochSource } from '../../support/epochs.ts';
import { bob, relay } from '../../support/hosts.ts';
import { withRawLevel } from '../../support/raw-level.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { NOON_MS } from '../../support/test-clock.ts';

/** No software has these; they stand for the rows of schemas to come. */
const KEPT = rowKeyBytes('encKey', bob.key);
const ADDED = rowKeyBytes('senders', bob.key);

/** To schema 2: puts one row in another's place. */
const toTwo: Migration = {
  from: 1,
  async *pairs(level) {
    const before = await level.get(KEPT);
    yield [KEPT, null];
    yield [ADDED, Buffer.concat([before ?? Buffer.of(), Buffer.from(' of schema 2')])];
  },
};
const toThree: Migration = {
  from: 2,
  async *pairs(level) {
    const before = await level.get(ADDED);
    yield [ADDED, Buffer.concat([before ?? Buffer.of(), Buffer.from(' and 3')])];
  },
};

function open(folder: string, ...migrations: Migration[]): Promise<OpenedStore> {
  const schema = { version: 1 + migrations.length, migrations };
  return openStore({ folder, signer: relay.signer, nowMs: NOON_MS, newEpoch: epochSource(), schema });
}

/** A closed store of schema 1 with one row that is to change. */
async function storeOfOne(): Promise<string> {
  const folder = await temporaryFolder();
  const { store } = await open(folder);
  await store.close();
  await withRawLevel(folder, (level) => level.put(KEPT, Buffer.from('row')));
  return folder;
}

interface Looked {
  schema: number | undefined;
  kept: string | undefined;
  added: string | undefined;
  epoch: string | undefined;
  types: string[];
  notices: string[];
}

async function look(folder: string, ...migrations: Migration[]): Promise<Looked> {
  const { store, notices } = await open(folder, ...migrations);
  const epoch = store.get('relay', '')?.epoch;
  const types = (await collected(store.read(1))).map(({ event }) => event.type);
  await store.close();
  return withRawLevel(folder, async (level) => ({
    schema: (await level.get(SCHEMA_KEY))?.readUInt32BE(),
    kept: (await level.get(KEPT))?.toString(),
    added: (await level.get(ADDED))?.toString(),
    epoch,
    types,
    notices,
  }));
}

const epoch = epochSource()();

describe('a store of an older schema', () => {
  test('is brought to the newer one by one batch with its event, and keeps its epoch', async () => {
    const folder = await storeOfOne();
    const migrated = {
      schema: 2,
      kept: undefined,
      added: 'row of schema 2',
      epoch,
      types: ['RelayInitialised', 'SchemaMigrated'],
    };
    expect(await look(folder, toTwo)).toEqual({
      ...migrated,
      notices: ['The store was brought from schema 1 to 2; its epoch goes on.'],
    });
    expect(await look(folder, toTwo)).toEqual({ ...migrated, notices: [] });
  });

  test('takes every step there is, one after the other', async () => {
    const folder = await storeOfOne();
    expect(await look(folder, toTwo, toThree)).toMatchObject({
      schema: 3,
      added: 'row of schema 2 and 3',
      types: ['RelayInitialised', 'SchemaMigrated', 'SchemaMigrated'],
    });
  });

  test('that is newer than the software is refused, and stays as it is', async () => {
    const folder = await storeOfOne();
    await look(folder, toTwo);
    await expect(open(folder)).rejects.toMatchObject({ reason: 'newer-schema' });
    expect(await look(folder, toTwo)).toMatchObject({ schema: 2, epoch, notices: [] });
  });
});

describe('a crash in the middle of a migration leaves the old schema, and the next start goes on', () => {
  test('while its rows are read', async () => {
    const folder = await storeOfOne();
    const failing: Migration = {
      from: 1,
      async *pairs(level) {
        yield [KEPT, null];
        await level.get(ADDED);
        throw new Error('the lights went out');
      },
    };
    await expect(open(folder, failing)).rejects.toThrow('the lights went out');
    expect(await look(folder)).toMatchObject({ schema: 1, kept: 'row', types: ['RelayInitialised'], notices: [] });
    expect(await look(folder, toTwo)).toMatchObject({ schema: 2, added: 'row of schema 2', epoch });
  });

  test('between two steps', async () => {
    const folder = await storeOfOne();
    const failing: Migration = {
      from: 2,
      // oxlint-disable-next-line require-yield
      async *pairs() {
        throw new Error('the lights went out');
      },
    };
    await expect(open(folder, toTwo, failing)).rejects.toThrow('the lights went out');
    expect(await look(folder, toTwo)).toMatchObject({ schema: 2, added: 'row of schema 2', epoch, notices: [] });
    expect(await look(folder, toTwo, toThree)).toMatchObject({ schema: 3, added: 'row of schema 2 and 3', epoch });
  });

  test('with its batch torn off, at every byte that matters', async () => {
    const folder = await storeOfOne();
    const position = await readFile(join(folder, POSITION_FILE));
    const before = join(await temporaryFolder(), 'before');
    await cp(folder, before, { recursive: true });
    const { store } = await open(folder, toTwo);
    await store.close();
    const log = (await readdir(join(folder, LEVEL_FOLDER))).find((name) => name.endsWith('.log')) ?? '';
    const { length } = await readFile(join(folder, LEVEL_FOLDER, log));
    const schemas = new Set<number | undefined>();
    for (let cut = 1; cut < length; cut += 17) {
      const torn = join(await temporaryFolder(), 'torn');
      await cp(folder, torn, { recursive: true });
      // The batch was not whole, so its position was not noted.
      await writeFile(join(torn, POSITION_FILE), position);
      await truncate(join(torn, LEVEL_FOLDER, log), length - cut);
      const looked = await look(torn);
      expect(looked).toMatchObject({ schema: 1, kept: 'row', added: undefined, epoch, notices: [] });
      schemas.add((await look(torn, toTwo)).schema);
    }
    expect(schemas).toEqual(new Set([2]));
  });

  test('after its batch and before its position was noted', async () => {
    const folder = await storeOfOne();
    const position = await readFile(join(folder, POSITION_FILE));
    await (await open(folder, toTwo)).store.close();
    await writeFile(join(folder, POSITION_FILE), position);
    expect(await look(folder, toTwo)).toMatchObject({ schema: 2, epoch, notices: [] });
  });
});

test('a migration may not touch the log, the wire bytes or the relay row', async () => {
  const folder = await storeOfOne();
  const greedy: Migration = {
    from: 1,
    async *pairs() {
      yield [rowKeyBytes('relay', ''), null];
    },
  };
  await expect(open(folder, greedy)).rejects.toThrow('leaves keys under 2 alone');
  expect(await look(folder)).toMatchObject({ schema: 1 });
});
