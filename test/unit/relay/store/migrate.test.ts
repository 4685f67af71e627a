/**
 * "Versioning", rule 4: an older store is migrated, whatever cuts that short; an older software refuses a newer store.
 */
import { cp, readFile, readdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { verify } from '../../../../src/relay/replay/verify.ts';
import { PREFIX, SCHEMA_KEY, lsnOf, prefixRange, queueKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { type Level, LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { MIGRATIONS, type Migration, type Schema } from '../../../../src/relay/store/migrate.ts';
import { type OpenedStore, appendAtOnce, openStore } from '../../../../src/relay/store/open.ts';
import { POSITION_FILE } from '../../../../src/relay/store/position.ts';
import { openOffline } from '../../../../src/relay/replay/offline.ts';
import { ROW_PREFIXES, verifiedBytes } from '../../../../src/relay/store/checksum.ts';
import { rebuilt, resultOf, verified } from '../../../support/audits.ts';
import { collected } from '../../../support/collected.ts';
import { epochNumbered, epochSource } from '../../../support/epochs.ts';
import { fixtureStore } from '../../../support/fixture-stores.ts';
import { bob, relay } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

/** No software has these; they stand for the rows of schemas to come. */
const KEPT = rowKeyBytes('encKey', bob.key);
const ADDED = rowKeyBytes('senders', bob.key);
const [FIRST, SECOND, THIRD] = [SCHEMA_VERSION, SCHEMA_VERSION + 1, SCHEMA_VERSION + 2];

/** Puts one row in another's place. */
const toSecond: Migration = {
  from: FIRST,
  async *batches(level) {
    const before = await level.get(KEPT);
    if (!before) return;
    yield [
      [KEPT, null],
      [ADDED, Buffer.concat([before, Buffer.from(' of the second')])],
    ];
  },
};
const toThird: Migration = {
  from: SECOND,
  async *batches(level) {
    const before = await level.get(ADDED);
    if (before && !before.toString().endsWith(' and third'))
      yield [[ADDED, Buffer.concat([before, Buffer.from(' and third')])]];
  },
};

function open(folder: string, ...migrations: Migration[]): Promise<OpenedStore> {
  const schema = { version: FIRST + migrations.length, migrations };
  return openStore({ folder, signer: relay.signer, nowMs: NOON_MS, newEpoch: epochSource(), schema });
}

/** A closed store of the first schema with one row that is to change. */
async function storeOfFirst(): Promise<string> {
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
    schema: await schemaOf(level),
    kept: (await level.get(KEPT))?.toString(),
    added: (await level.get(ADDED))?.toString(),
    epoch,
    types,
    notices,
  }));
}

async function schemaOf(level: Level): Promise<number | undefined> {
  return (await level.get(SCHEMA_KEY))?.readUInt32BE();
}

const epoch = epochSource()();

describe('a store of an older schema', () => {
  test('is brought to the newer one, with an event, and keeps its epoch', async () => {
    const folder = await storeOfFirst();
    const migrated = {
      schema: SECOND,
      kept: undefined,
      added: 'row of the second',
      epoch,
      types: ['RelayInitialised', 'SchemaMigrated'],
    };
    expect(await look(folder, toSecond)).toEqual({
      ...migrated,
      notices: [`The store was brought from schema ${FIRST} to ${SECOND}; its epoch goes on.`],
    });
    expect(await look(folder, toSecond)).toEqual({ ...migrated, notices: [] });
  });

  test('takes every step there is, one after the other', async () => {
    const folder = await storeOfFirst();
    expect(await look(folder, toSecond, toThird)).toMatchObject({
      schema: THIRD,
      added: 'row of the second and third',
      types: ['RelayInitialised', 'SchemaMigrated', 'SchemaMigrated'],
    });
  });

  test('that is newer than the software is refused, and stays as it is', async () => {
    const folder = await storeOfFirst();
    await look(folder, toSecond);
    await expect(open(folder)).rejects.toMatchObject({ reason: 'newer-schema' });
    expect(await look(folder, toSecond)).toMatchObject({ schema: SECOND, epoch, notices: [] });
  });

  test('is refused where the schema that it declares contradicts its relay row', async () => {
    const folder = await storeOfFirst();
    const older = Buffer.from([0, 0, 0, FIRST - 1]);
    await withRawLevel(folder, (level) => level.put(SCHEMA_KEY, older));
    await expect(open(folder)).rejects.toThrow(
      `it declares schema ${FIRST - 1}, and its relay row has schema ${FIRST}`,
    );
  });
});

/** Gives those batches, and no more. */
const failing = (from: number, ...first: Awaited<ReturnType<typeof batchesOf>>): Migration => ({
  from,
  async *batches() {
    yield* first;
    throw new Error('the lights went out');
  },
});

function lightsOut(): never {
  throw new Error('the lights went out');
}

describe('a crash in the middle of a migration: the next start goes on, and older software refuses the store', () => {
  test('before, between and after its batches', async () => {
    for (const batches of [0, 1]) {
      const folder = await storeOfFirst();
      const taken = (await withRawLevel(folder, (level) => batchesOf(toSecond, level))).slice(0, batches);
      await expect(open(folder, failing(FIRST, ...taken))).rejects.toThrow('the lights went out');
      await expect(open(folder)).rejects.toMatchObject({ reason: 'newer-schema' });
      expect(await look(folder, toSecond)).toMatchObject({
        schema: SECOND,
        kept: undefined,
        added: 'row of the second',
        epoch,
        types: ['RelayInitialised', 'SchemaMigrated'],
      });
    }
  });

  test('between two steps', async () => {
    const folder = await storeOfFirst();
    await expect(open(folder, toSecond, failing(SECOND))).rejects.toThrow('the lights went out');
    await expect(open(folder, toSecond)).rejects.toMatchObject({ reason: 'newer-schema' });
    expect(await look(folder, toSecond, toThird)).toMatchObject({
      schema: THIRD,
      added: 'row of the second and third',
      epoch,
    });
  });

  test('with its batches torn off, at every byte that matters', async () => {
    const folder = await storeOfFirst();
    const position = await readFile(join(folder, POSITION_FILE));
    const { store } = await open(folder, toSecond);
    await store.close();
    const log = (await readdir(join(folder, LEVEL_FOLDER))).find((name) => name.endsWith('.log')) ?? '';
    const { length } = await readFile(join(folder, LEVEL_FOLDER, log));
    const before = new Set<string>();
    for (let cut = 1; cut < length; cut += 17) {
      const torn = join(await temporaryFolder(), 'torn');
      await cp(folder, torn, { recursive: true });
      // The last batch was not whole, so its position was not noted.
      await writeFile(join(torn, POSITION_FILE), position);
      await truncate(join(torn, LEVEL_FOLDER, log), length - cut);
      before.add(
        await withRawLevel(torn, async (level) => `${await schemaOf(level)} ${String(await level.get(KEPT))}`),
      );
      expect(await look(torn, toSecond)).toMatchObject({ schema: SECOND, added: 'row of the second', epoch });
    }
    expect(before).toEqual(new Set([`${SECOND} undefined`, `${SECOND} row`, `${FIRST} row`]));
  });

  test('after its last batch and before its position was noted', async () => {
    const folder = await storeOfFirst();
    const position = await readFile(join(folder, POSITION_FILE));
    await (await open(folder, toSecond)).store.close();
    await writeFile(join(folder, POSITION_FILE), position);
    expect(await look(folder, toSecond)).toMatchObject({ schema: SECOND, epoch, notices: [] });
  });

  test('of an older copy of a store: that it is one is still seen', async () => {
    const folder = await storeOfFirst();
    const copy = join(await temporaryFolder(), 'copy');
    await cp(folder, copy, { recursive: true });
    const { store } = await open(folder);
    for (const number of [5, 6])
      await appendAtOnce(
        store,
        { type: 'EpochRotated', epoch: epochNumbered(number), reason: 'reset', atMs: NOON_MS },
        NOON_MS,
      );
    await store.close();
    await cp(join(folder, POSITION_FILE), join(copy, POSITION_FILE));
    const schema = { version: SECOND, migrations: [toSecond] };
    const opening = openStore({ folder: copy, signer: relay.signer, nowMs: NOON_MS, newEpoch: lightsOut, schema });
    await expect(opening).rejects.toThrow('the lights went out');
    expect(await look(copy, toSecond)).toMatchObject({
      schema: SECOND,
      types: ['RelayInitialised', 'SchemaMigrated', 'EpochRotated'],
      notices: [expect.stringContaining('it is an older copy')],
    });
  });
});

test.each([
  ['relay row', rowKeyBytes('relay', '')],
  ['schema', SCHEMA_KEY],
])('a migration may not touch the %s', async (_name, key) => {
  const folder = await storeOfFirst();
  const greedy: Migration = {
    from: FIRST,
    async *batches() {
      yield [[key, null]];
    },
  };
  await expect(open(folder, greedy)).rejects.toThrow('a migration leaves keys under');
  expect(await look(folder, toSecond)).toMatchObject({ schema: SECOND, added: 'row of the second' });
});

async function batchesOf(
  migration: Migration,
  level: Level,
): Promise<(readonly (readonly [Buffer, Buffer | null])[])[]> {
  return collected(migration.batches(level));
}

/** Returns how many rows of the store have no checksum, or one that is not theirs. */
async function rowsWithout(folder: string): Promise<number> {
  return withRawLevel(folder, async (level) => {
    let bare = 0;
    for (const prefix of ROW_PREFIXES)
      for await (const [key, value] of level.iterator(prefixRange(prefix))) if (!verifiedBytes(key, value)) bare++;
    return bare;
  });
}

describe('from schema 1 to 2', () => {
  const toTwo = MIGRATIONS[0] as Migration;

  /** As this software, but the process ends when so many batches are written. */
  async function openAndDie(folder: string, batches: number): Promise<void> {
    const dying: Migration = {
      from: 1,
      async *batches(level) {
        let left = batches;
        for await (const batch of toTwo.batches(level)) {
          if (left-- === 0) throw new Error('the lights went out');
          // One row of several, so that a batch of another size would do as well.
          yield batch.slice(0, Math.max(1, batch.length - 1));
        }
        throw new Error('the lights went out');
      },
    };
    const schema = { version: 2, migrations: [dying] };
    const opening = openStore({ folder, signer: relay.signer, nowMs: NOON_MS, newEpoch: epochSource(9), schema });
    await expect(opening).rejects.toThrow('the lights went out');
  }

  test('every row gets a checksum, and the store is what its log says', async () => {
    const { folder, header } = await fixtureStore(1);
    expect(await rowsWithout(folder)).toBeGreaterThan(30);
    const nowMs = header.created_at;
    const opened = await openStore({ folder, signer: relay.signer, nowMs, newEpoch: epochSource(9) });
    expect(opened).toMatchObject({ epochBegun: undefined, notices: [expect.stringContaining('from schema 1 to 3')] });
    await opened.store.close();
    expect(await rowsWithout(folder)).toBe(0);
    const offline = await openOffline(folder);
    expect((await resultOf(verify(offline))).findings).toEqual([]);
    await offline.close();
  });

  test('a crash after every batch: it goes on; until its end only a start of this software opens it', async () => {
    const whole = await fixtureStore(1);
    const batches = await withRawLevel(whole.folder, async (level) => (await batchesOf(toTwo, level)).length);
    expect(batches).toBeGreaterThan(10);
    for (let died = 0; died <= batches; died++) {
      const folder = join(await temporaryFolder(), 'cut short');
      await cp(whole.folder, folder, { recursive: true });
      await openAndDie(folder, died);
      const schema = { version: 1, migrations: [] };
      const older = openStore({ folder, signer: relay.signer, nowMs: NOON_MS, newEpoch: epochSource(), schema });
      await expect(older).rejects.toMatchObject({ reason: 'newer-schema' });
      await expect(openOffline(folder)).rejects.toThrow('is of schema 1 and this software reads schema 2');
      // Twice, the second time without any batch more.
      if (died === 3) await openAndDie(folder, 0);
      const { header } = whole;
      const opened = await openStore({
        folder,
        signer: relay.signer,
        nowMs: header.created_at,
        newEpoch: epochSource(9),
      });
      expect(opened.store.get('relay', '')).toMatchObject({ epoch: header.epoch, schemaVersion: SCHEMA_VERSION });
      await opened.store.close();
      expect(await rowsWithout(folder)).toBe(0);
    }
  });

  test('a row that cannot be read gets none, and is damaged from then on', async () => {
    const { folder, header } = await fixtureStore(1);
    const key = queueKey(bob.key, 5);
    await withRawLevel(folder, (level) => level.put(key, Buffer.from('no row')));
    const { store } = await openStore({
      folder,
      signer: relay.signer,
      nowMs: header.created_at,
      newEpoch: epochSource(9),
    });
    expect(() => store.get('queue', `${bob.key}5`)).toThrow('a queue row does not match its checksum');
    await store.close();
  });

  test('once it is over, a row without checksum is read by nobody', async () => {
    const { folder, header } = await fixtureStore(1);
    const nowMs = header.created_at;
    const key = rowKeyBytes('target', bob.key);
    const bare = await withRawLevel(folder, (level) => level.get(key));
    const open = () => openStore({ folder, signer: relay.signer, nowMs, newEpoch: epochSource(9) });
    await (await open()).store.close();
    await withRawLevel(folder, (level) => level.put(key, bare!));
    await expect(open()).rejects.toThrow(/the target row of SHA256:\S+ does not match its checksum/);
  });

  test('a relay row without checksum is read of no later schema', async () => {
    const { folder } = await fixtureStore(1);
    await withRawLevel(folder, (level) => level.put(SCHEMA_KEY, Buffer.from([0, 0, 0, 2])));
    await expect(open(folder)).rejects.toThrow('the relay row of the relay does not match its checksum');
    expect(await withRawLevel(folder, (level) => level.keys(prefixRange(PREFIX.relay)).all())).toHaveLength(1);
  });
});

/** Every stored pair but those that the step is about: declared schema, relay row, its record, the tree's edge. */
async function others(folder: string, throughLsn: number): Promise<Map<string, string>> {
  const own = new Set<number>([PREFIX.schema, PREFIX.relay]);
  return withRawLevel(folder, async (level) => {
    const pairs = (await level.iterator().all()).filter(
      ([key]) => !own.has(key[0]!) && !(key[0] === PREFIX.log && lsnOf(key) > throughLsn),
    );
    return new Map(pairs.map(([key, value]) => [key.toString('hex'), value.toString('hex')]));
  });
}

function opened(folder: string, nowMs: number, schema?: Schema): Promise<OpenedStore> {
  return openStore({ folder, signer: relay.signer, nowMs, newEpoch: lightsOut, ...(schema && { schema }) });
}

describe('from schema 2 to 3', () => {
  /** As this software, but the process ends when the new schema is declared. */
  const dying: Schema = { version: 3, migrations: [failing(2)] };

  test('nothing is rewritten: the store declares it, its log says it, and all else stays to the byte', async () => {
    const { folder, header } = await fixtureStore(2);
    const before = await others(folder, header.lsn);
    expect(before.size).toBeGreaterThan(70);
    const { store, notices } = await opened(folder, header.created_at);
    expect(notices).toEqual(['The store was brought from schema 2 to 3; its epoch goes on.']);
    expect([store.lastLsn, await store.entry(store.lastLsn)]).toEqual([
      header.lsn + 1,
      { lsn: header.lsn + 1, event: { type: 'SchemaMigrated', schemaVersion: 3, atMs: header.created_at } },
    ]);
    await store.close();
    expect(await others(folder, header.lsn)).toEqual(before);
    expect(await withRawLevel(folder, schemaOf)).toBe(3);
    expect((await verified(folder)).findings).toEqual([]);
  });

  test('a crash when it is declared: the next start goes on, and older software refuses it', async () => {
    const { folder, header } = await fixtureStore(2);
    const before = await others(folder, header.lsn);
    for (let times = 0; times < 2; times++) {
      await expect(opened(folder, header.created_at, dying)).rejects.toThrow('the lights went out');
      expect(await others(folder, header.lsn)).toEqual(before);
      // What is half in its schema is all of one that this software reads.
      expect((await verified(folder)).findings).toEqual([]);
    }
    const older: Schema = { version: 2, migrations: MIGRATIONS.slice(0, 1) };
    const refusal = {
      reason: 'newer-schema',
      message: 'the store has schema 3 and this software knows schemas up to 2: start the newer software',
    };
    await expect(opened(folder, header.created_at, older)).rejects.toMatchObject(refusal);
    const { store, notices } = await opened(folder, header.created_at);
    expect(notices).toEqual(['The store was brought from schema 2 to 3; its epoch goes on.']);
    expect(store.get('relay', '')).toMatchObject({ epoch: header.epoch, schemaVersion: 3 });
    await store.close();
    await expect(opened(folder, header.created_at, older)).rejects.toMatchObject(refusal);
  });

  test('a crash at any byte of what it writes: the next start goes on', async () => {
    const { folder, header } = await fixtureStore(2);
    const position = await readFile(join(folder, POSITION_FILE));
    await withRawLevel(folder, (level) => level.compactRange(Buffer.of(), Buffer.of(0xff)));
    await (await opened(folder, header.created_at)).store.close();
    const log = (await readdir(join(folder, LEVEL_FOLDER))).find((name) => name.endsWith('.log')) ?? '';
    const { length } = await readFile(join(folder, LEVEL_FOLDER, log));
    const declared = new Set<unknown>();
    for (let cut = 1; cut < length; cut += 29) {
      const torn = join(await temporaryFolder(), 'torn');
      await cp(folder, torn, { recursive: true });
      await writeFile(join(torn, POSITION_FILE), position);
      await truncate(join(torn, LEVEL_FOLDER, log), length - cut);
      declared.add(await withRawLevel(torn, schemaOf));
      const { store } = await opened(torn, header.created_at);
      expect(store.get('relay', '')).toMatchObject({ epoch: header.epoch, schemaVersion: 3 });
      await store.close();
    }
    expect(declared).toEqual(new Set([2, 3]));
  });

  test('a store that is not migrated yet is verified as it lies there, and rebuilt', async () => {
    const { folder, header } = await fixtureStore(2);
    expect(await verified(folder)).toMatchObject({ findings: [], lsn: header.lsn });
    await rebuilt(folder);
    const { store, notices } = await opened(folder, header.created_at);
    expect(notices).toEqual(['The store was brought from schema 2 to 3; its epoch goes on.']);
    await store.close();
    expect((await verified(folder)).findings).toEqual([]);
  });

  test('a store that declares less than its log says is found', async () => {
    const { folder, header } = await fixtureStore(2);
    await (await opened(folder, header.created_at)).store.close();
    await withRawLevel(folder, (level) => level.put(SCHEMA_KEY, Buffer.from([0, 0, 0, 2])));
    const { findings } = await verified(folder);
    expect(findings.map(({ code }) => code)).toEqual(['IDENTITY_DIFFERS']);
  });
});
