import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { signerFromSeed } from '../../../../src/protocol/ed25519.ts';
import { HEARTBEAT_STALE_MS } from '../../../../src/protocol/limits.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { reduce } from '../../../../src/relay/core/reduce.ts';
import { SCHEMA_KEY, logKey, rowKeyBytes } from '../../../../src/relay/store/keys.ts';
import { LEVEL_FOLDER } from '../../../../src/relay/store/level.ts';
import { SCHEMA_VERSION } from '../../../../src/relay/store/marks.ts';
import { type OpenStoreOptions, type OpenedStore, openStore } from '../../../../src/relay/store/open.ts';
import { POSITION_FILE } from '../../../../src/relay/store/position.ts';
import { StoreRefused } from '../../../../src/relay/store/refused.ts';
import { RELAY_KEY_FILE } from '../../../../src/relay/store/relay-key.ts';
import type { RelayStore } from '../../../../src/relay/store/relay-store.ts';
import { collected } from '../../../support/collected.ts';
import { damageTables, intoTables } from '../../../support/damaged-tables.ts';
import { epochNumbered, epochSource } from '../../../support/epochs.ts';
import { accepted, enrolled } from '../../../support/events.ts';
import { alice, bob, relay } from '../../../support/hosts.ts';
import { withRawLevel } from '../../../support/raw-level.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import type { RelayEvent } from '../../../../src/relay/core/event.ts';

interface Opening extends Partial<OpenStoreOptions> {
  folder: string;
}

const HEARTBEAT_KEY = rowKeyBytes('heartbeat', '');
const newEpoch = epochSource(1);

function open(opening: Opening): Promise<OpenedStore> {
  return openStore({ nowMs: NOON_MS, newEpoch, ...opening });
}

/** Opens and closes again, and answers what was found. */
async function look(opening: Opening): Promise<{ epoch: string; notices: string[]; lastLsn: number; types: string[] }> {
  const { store, notices } = await open(opening);
  const epoch = store.get('relay', '')?.epoch ?? '';
  const types = (await collected(store.read(1))).map(({ event }) => event.type);
  const { lastLsn } = store;
  await store.close();
  return { epoch, notices, lastLsn, types };
}

async function append(store: RelayStore, ...events: RelayEvent[]): Promise<void> {
  for (const event of events) {
    const changes = reduce({ lsn: store.lastLsn + 1, event }, store);
    await store.append({
      entries: [{ lsn: store.lastLsn + 1, event }],
      changes,
      payloads: [],
    });
  }
}

/** A store that was initialised, took `events` and was closed; its epoch. */
async function storeWith(folder: string, ...events: RelayEvent[]): Promise<string> {
  const { store } = await open({ folder });
  await append(store, ...events);
  const epoch = store.get('relay', '')?.epoch ?? '';
  await store.close();
  return epoch;
}

/** Says why the store was refused. */
async function refusalOf(opening: Opening): Promise<StoreRefused> {
  const opened = open(opening);
  const error: unknown = await opened.then(
    ({ store }) => store.close(),
    (reason: unknown) => reason,
  );
  if (error instanceof StoreRefused) return error;
  throw new Error('the store was not refused', { cause: error });
}

const twoEvents = [enrolled(bob), accepted(alice, 'm1', [[bob, NOON_MS, 'x']])];
const later = accepted(alice, 'm2', [[bob, NOON_MS + 1, 'y']]);

describe('the first start', () => {
  test('initialises a store with an epoch, a schema and a heartbeat', async () => {
    const folder = join(await temporaryFolder(), 'deep', 'store');
    const opened = await open({ folder });
    expect(opened).toMatchObject({ initialised: true, notices: [] });
    expect(await collected(opened.store.read(1))).toEqual([
      {
        lsn: 1,
        event: {
          type: 'RelayInitialised',
          relayPubkey: opened.signer.publicKey,
          epoch: opened.store.get('relay', '')?.epoch,
          schemaVersion: SCHEMA_VERSION,
          atMs: NOON_MS,
        },
      },
    ]);
    expect(opened.store.get('heartbeat', '')).toEqual({ atMs: NOON_MS });
    await opened.store.close();
  });

  test('makes relay.key for its owner only: the base64 of 32 bytes and a newline', async () => {
    const folder = await temporaryFolder();
    const { store, signer } = await open({ folder });
    await store.close();
    const path = join(folder, RELAY_KEY_FILE);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const text = await readFile(path, 'utf8');
    expect(text).toMatch(/^[A-Za-z0-9+/]{43}=\n$/);
    expect(signerFromSeed(Buffer.from(text, 'base64')).publicKey).toBe(signer.publicKey);
    expect(await readdir(folder)).toEqual(expect.arrayContaining([LEVEL_FOLDER, POSITION_FILE, RELAY_KEY_FILE]));
    expect(await readdir(folder)).toHaveLength(3);
  });

  test('makes the store folder for its owner only', async () => {
    const folder = join(await temporaryFolder(), 'store');
    await storeWith(folder);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
  });

  test('with the deploy secret makes no relay.key', async () => {
    const folder = await temporaryFolder();
    const { store, signer } = await open({ folder, signer: relay.signer });
    await store.close();
    expect(signer.publicKey).toBe(relay.key);
    expect(existsSync(join(folder, RELAY_KEY_FILE))).toBe(false);
  });

  test('takes a relay.key that is there already', async () => {
    const folder = await temporaryFolder();
    const seed = Buffer.alloc(32, 7);
    await writeFile(join(folder, RELAY_KEY_FILE), `${seed.toString('base64')}\n`, { mode: 0o600 });
    const { store, signer } = await open({ folder });
    await store.close();
    expect(signer.publicKey).toBe(signerFromSeed(seed).publicKey);
  });

  test('shuts its database to others, also in a folder that is open to them', async () => {
    const folder = await temporaryFolder();
    await chmod(folder, 0o755);
    await storeWith(folder);
    expect((await stat(join(folder, LEVEL_FOLDER))).mode & 0o777).toBe(0o700);
    expect((await stat(folder)).mode & 0o777).toBe(0o755);
  });

  test('that was cut short is begun again', async () => {
    const folder = await temporaryFolder();
    // LevelDB was made, nothing was written.
    await mkdir(join(folder, LEVEL_FOLDER), { recursive: true });
    await writeFile(join(folder, LEVEL_FOLDER, 'LOCK'), '');
    expect((await look({ folder })).types).toEqual(['RelayInitialised']);
    const made = await temporaryFolder();
    await storeWith(made);
    await withRawLevel(made, (level) => level.clear());
    await rm(join(made, POSITION_FILE));
    expect((await look({ folder: made })).types).toEqual(['RelayInitialised']);
  });

  test('in a place that cannot be used is refused with the place', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    const refusal = await refusalOf({ folder: join(folder, 'file', 'store') });
    expect(refusal).toMatchObject({ reason: 'unusable' });
    expect(refusal.message).toContain(join(folder, 'file', 'store'));
    const elsewhere = await refusalOf({ folder: join(folder, 's'), positionFile: join(folder, 'none', 'position') });
    expect(elsewhere).toMatchObject({ reason: 'unusable' });
  });
});

describe('a restart', () => {
  test('keeps epoch, key, log and rows, and writes nothing', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    const { store, initialised, notices, signer } = await open({ folder, nowMs: NOON_MS + 60_000 });
    expect({ initialised, notices, lastLsn: store.lastLsn }).toEqual({ initialised: false, notices: [], lastLsn: 3 });
    expect(store.get('relay', '')).toMatchObject({ epoch, relayPubkey: signer.publicKey });
    expect(store.get('target', bob.key)?.headSeq).toBe(NOON_MS);
    expect(store.get('heartbeat', '')).toEqual({ atMs: NOON_MS });
    await store.close();
  });

  test('a second opening while the first is open is refused, and the first goes on', async () => {
    const folder = await temporaryFolder();
    const { store } = await open({ folder });
    for (let time = 0; time < 2; time++) {
      expect(await refusalOf({ folder })).toMatchObject({ reason: 'locked' });
    }
    await append(store, ...twoEvents);
    expect(store.get('target', bob.key)?.headSeq).toBe(NOON_MS);
    await store.close();
    expect((await look({ folder })).lastLsn).toBe(3);
  });
});

describe('the key', () => {
  test('of another relay is refused, naming the right fingerprint and no key material', async () => {
    const folder = await temporaryFolder();
    const { store, signer } = await open({ folder });
    await store.close();
    const seed = (await readFile(join(folder, RELAY_KEY_FILE), 'utf8')).trim();
    const refusal = await refusalOf({ folder, signer: relay.signer });
    expect(refusal.reason).toBe('foreign-key');
    expect(refusal.message).toContain(displayFingerprint(signer.publicKey));
    for (const secret of [seed, signer.publicKey, relay.key]) expect(refusal.message).not.toContain(secret);
    await writeFile(join(folder, RELAY_KEY_FILE), `${Buffer.alloc(32, 9).toString('base64')}\n`);
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'foreign-key' });
  });

  test('that is missing is refused, and none is made in its place', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder);
    const path = join(folder, RELAY_KEY_FILE);
    await rename(path, `${path}.aside`);
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'missing-key' });
    expect(existsSync(path)).toBe(false);
    await rename(`${path}.aside`, path);
    expect((await look({ folder })).epoch).toBe(epoch);
  });

  test.each([
    ['not base64', 'this is not a key at all'],
    ['too short', Buffer.alloc(31, 0x41).toString('base64')],
    ['too long', Buffer.alloc(33, 0x41).toString('base64')],
    ['not canonical', `${'A'.repeat(42)}B=`],
    ['empty', ''],
  ])('that is %s is refused without a word of it', async (_what, text) => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    await writeFile(join(folder, RELAY_KEY_FILE), text);
    const refusal = await refusalOf({ folder });
    expect(refusal.reason).toBe('unreadable-key');
    expect(refusal.message).toContain(RELAY_KEY_FILE);
    expect(text === '' || !refusal.message.includes(text)).toBe(true);
  });

  test('that every user may open is refused with the command that mends it', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    const path = join(folder, RELAY_KEY_FILE);
    for (const mode of [0o604, 0o644, 0o602]) {
      await chmod(path, mode);
      const refusal = await refusalOf({ folder });
      expect(refusal.reason).toBe('unreadable-key');
      expect(refusal.message).toContain(`run chmod 600 ${path}`);
    }
    // A group is an operator's choice, as with a key file of a service.
    await chmod(path, 0o640);
    expect((await look({ folder })).epoch).toBeDefined();
  });

  test('that is a folder is refused', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    await rm(join(folder, RELAY_KEY_FILE));
    await mkdir(join(folder, RELAY_KEY_FILE));
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'unreadable-key' });
  });
});

describe('the schema', () => {
  test('of newer software is refused and left as it is', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    const newer = Buffer.alloc(4);
    newer.writeUInt32BE(SCHEMA_VERSION + 1);
    await withRawLevel(folder, (level) => level.put(SCHEMA_KEY, newer));
    const refusal = await refusalOf({ folder });
    expect(refusal.reason).toBe('newer-schema');
    expect(refusal.message).toContain(`schema ${SCHEMA_VERSION + 1}`);
    newer.writeUInt32BE(SCHEMA_VERSION);
    await withRawLevel(folder, (level) => level.put(SCHEMA_KEY, newer));
    expect(await look({ folder })).toMatchObject({ epoch, lastLsn: 3, notices: [] });
  });

  test.each([
    ['missing', undefined],
    ['cut', Buffer.of(0, 0)],
  ])('that is %s is damage', async (_what, value) => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    await withRawLevel(folder, (level) => (value ? level.put(SCHEMA_KEY, value) : level.del(SCHEMA_KEY)));
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'damaged' });
  });
});

/** Every file of the store and its bytes. */
async function filesOf(folder: string): Promise<Map<string, string>> {
  const names = await readdir(folder, { recursive: true });
  const files = new Map<string, string>();
  for (const name of names.toSorted()) {
    // LevelDB's own diary of openings is rewritten by every try.
    if (/LOG(?:\.old)?$|LOCK$/.test(name) || !(await stat(join(folder, name))).isFile()) continue;
    files.set(name, (await readFile(join(folder, name))).toString('hex'));
  }
  return files;
}

describe('damage refuses the store, and nothing is deleted', () => {
  test('when CURRENT is missing', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    const current = join(folder, LEVEL_FOLDER, 'CURRENT');
    await rename(current, join(folder, 'CURRENT.aside'));
    const before = await filesOf(folder);
    for (let time = 0; time < 2; time++) expect(await refusalOf({ folder })).toMatchObject({ reason: 'damaged' });
    expect(await filesOf(folder)).toEqual(before);
    await rename(join(folder, 'CURRENT.aside'), current);
    expect(await look({ folder })).toMatchObject({ epoch, lastLsn: 3 });
  });

  test('when CURRENT is missing and the position file with it', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    await rm(join(folder, LEVEL_FOLDER, 'CURRENT'));
    await rm(join(folder, POSITION_FILE));
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'damaged' });
  });

  test('when the whole database is gone and the position file says it was there', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    await rm(join(folder, LEVEL_FOLDER), { recursive: true });
    const position = await readFile(join(folder, POSITION_FILE));
    for (let time = 0; time < 2; time++) expect(await refusalOf({ folder })).toMatchObject({ reason: 'damaged' });
    expect((await readFile(join(folder, POSITION_FILE))).equals(position)).toBe(true);
    // No empty database was put in its place.
    expect(existsSync(join(folder, LEVEL_FOLDER, 'CURRENT'))).toBe(false);
  });

  test('when the database is gone and the position file lies elsewhere', async () => {
    const folder = await temporaryFolder();
    const positionFile = join(await temporaryFolder(), 'position');
    const { store } = await open({ folder, positionFile });
    await store.close();
    expect(existsSync(join(folder, POSITION_FILE))).toBe(false);
    await rm(join(folder, LEVEL_FOLDER), { recursive: true });
    expect(await refusalOf({ folder, positionFile })).toMatchObject({ reason: 'damaged' });
  });

  test('when a log record is missing', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    await withRawLevel(folder, (level) => level.del(logKey(2)));
    const refusal = await refusalOf({ folder });
    expect(refusal.reason).toBe('damaged');
    expect(refusal.message).toContain('log record 2 is missing');
  });

  test('when any byte of any log record was changed', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    for (const lsn of [1, 2, 3]) {
      const record = await withRawLevel(folder, (level) => level.get(logKey(lsn)));
      const damaged = Buffer.from(record!);
      damaged[damaged.length - 1]! ^= 4;
      await withRawLevel(folder, (level) => level.put(logKey(lsn), damaged));
      const refusal = await refusalOf({ folder });
      expect(refusal.reason).toBe('damaged');
      expect(refusal.message).toContain(`log record ${lsn} does not match its checksum`);
      await withRawLevel(folder, (level) => level.put(logKey(lsn), record!));
    }
    expect((await look({ folder })).lastLsn).toBe(3);
  });

  test('when log records were exchanged', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    await withRawLevel(folder, async (level) => {
      const [second, third] = await level.getMany([logKey(2), logKey(3)]);
      await level.batch([
        { type: 'put', key: logKey(2), value: third! },
        { type: 'put', key: logKey(3), value: second! },
      ]);
    });
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'damaged' });
  });

  test('when the relay row is missing', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    await withRawLevel(folder, (level) => level.del(Buffer.of(0x02)));
    expect(await refusalOf({ folder })).toMatchObject({ reason: 'damaged' });
  });

  test.each([
    ['the relay row', Buffer.of(0x02), 'the relay row of the relay does not match its checksum'],
    ['a target row', Buffer.concat([Buffer.of(0x30), Buffer.alloc(32, 7)]), 'does not match its checksum'],
  ])('when %s cannot be read', async (what, key, said) => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    await withRawLevel(folder, (level) => level.put(key, Buffer.from('no row')));
    const { reason, message } = await refusalOf({ folder });
    expect(reason).toBe('damaged');
    expect(message).toContain(said);
    expect(message).toContain(what.replace(/^an? /, 'the '));
    expect(message).toContain('poste relay log rebuild');
  });

  test('when LevelDB cannot read one of its tables', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    await intoTables(folder);
    await damageTables(folder);
    const { reason, message } = await refusalOf({ folder });
    expect(reason).toBe('damaged');
    expect(message).toContain('restore a backup');
  });

  test('a refused store is closed again: it can be opened when it is mended', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    expect(await refusalOf({ folder, signer: relay.signer })).toMatchObject({ reason: 'foreign-key' });
    expect((await look({ folder })).notices).toEqual([]);
  });
});

/** Copies the database, lets the store go on, and puts the copy back; the newer position file stays. */
async function rolledBack(folder: string, ...since: RelayEvent[]): Promise<string> {
  const epoch = await storeWith(folder, ...twoEvents);
  const levelFolder = join(folder, LEVEL_FOLDER);
  await cp(levelFolder, `${levelFolder}.copy`, { recursive: true });
  const { store } = await open({ folder });
  await append(store, ...since);
  await store.close();
  await rm(levelFolder, { recursive: true });
  await rename(`${levelFolder}.copy`, levelFolder);
  return epoch;
}

describe('doubt begins a new epoch and says why', () => {
  test('when the store is an older copy of itself', async () => {
    const folder = await temporaryFolder();
    const epoch = await rolledBack(folder, later);
    const { notices, types, ...found } = await look({ folder });
    expect(found.epoch).not.toBe(epoch);
    expect(notices).toEqual([expect.stringContaining('ends before log record 4')]);
    expect(types.at(-1)).toBe('EpochRotated');
    expect(await look({ folder })).toMatchObject({ epoch: found.epoch, notices: [], lastLsn: 4 });
  });

  test('when the store is an older copy that went on to another history', async () => {
    const folder = await temporaryFolder();
    await rolledBack(folder, later, accepted(alice, 'm3', [[bob, NOON_MS + 2, 'z']]));
    const position = join(folder, POSITION_FILE);
    const newer = await readFile(position);
    await rm(position);
    // The copy runs without the position file, and comes to as many records as the original had.
    await look({ folder });
    const { store } = await open({ folder });
    await append(store, accepted(bob, 'other', [[bob, NOON_MS + 9, 'o']]));
    await store.close();
    await writeFile(position, newer);
    const { notices, types } = await look({ folder });
    expect(notices).toEqual([expect.stringContaining('is not the one that was committed')]);
    expect(types.filter((type) => type === 'EpochRotated')).toHaveLength(2);
  });

  test('when the position file is missing, once', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    await rm(join(folder, POSITION_FILE));
    const found = await look({ folder });
    expect(found.epoch).not.toBe(epoch);
    expect(found.notices).toEqual([expect.stringContaining('position file is missing')]);
    expect((await look({ folder })).notices).toEqual([]);
  });

  test('when both position slots are damaged', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    await writeFile(join(folder, POSITION_FILE), Buffer.alloc(1024, 0x55));
    const found = await look({ folder });
    expect(found.epoch).not.toBe(epoch);
    expect((await look({ folder })).epoch).toBe(found.epoch);
  });

  test('but not when one slot is damaged, or the store is a record ahead of its position', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    const path = join(folder, POSITION_FILE);
    const bytes = await readFile(path);
    for (const at of [30, 512 + 30]) {
      const damaged = Buffer.from(bytes);
      damaged[at]! ^= 1;
      await writeFile(path, damaged);
      expect(await look({ folder })).toMatchObject({ epoch, notices: [] });
    }
  });

  test('when a copy lacks the last record of a relay that ended before noting its position, then served', async () => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    const path = join(folder, POSITION_FILE);
    const before = await readFile(path);
    const levelFolder = join(folder, LEVEL_FOLDER);
    await cp(levelFolder, `${levelFolder}.copy`, { recursive: true });
    const { store } = await open({ folder });
    await append(store, later);
    await store.close();
    await writeFile(path, before);
    // It tells whoever asks again that the item is known, and writes no record for that.
    expect(await look({ folder })).toMatchObject({ epoch, notices: [] });
    await rm(levelFolder, { recursive: true });
    await rename(`${levelFolder}.copy`, levelFolder);
    const { notices, ...found } = await look({ folder });
    expect(notices).toEqual([expect.stringContaining('ends before log record 4')]);
    expect(found.epoch).not.toBe(epoch);
  });

  test.each([
    ['more than 10 minutes old', HEARTBEAT_STALE_MS + 1, 'stale-heartbeat', '10 minutes old'],
    ['days old', 3 * 86_400_000, 'stale-heartbeat', '4320 minutes old'],
    ['more than a minute ahead', -60_001, 'future-heartbeat', 'lies in the future'],
  ])('when the heartbeat is %s', async (_what, ageMs, reason, sentence) => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    const { store, notices } = await open({ folder, nowMs: NOON_MS + ageMs });
    expect(store.get('relay', '')?.epoch).not.toBe(epoch);
    expect((await collected(store.read(4))).map(({ event }) => event)).toMatchObject([
      { type: 'EpochRotated', reason, atMs: NOON_MS + ageMs },
    ]);
    expect(notices).toEqual([expect.stringContaining(sentence)]);
    // The new epoch is written with a heartbeat, so that the next start does not doubt again.
    expect(store.get('heartbeat', '')).toEqual({ atMs: NOON_MS + ageMs });
    await store.close();
  });

  test.each([
    ['missing', undefined],
    ['no row', Buffer.from('no row')],
    ['of no time', Buffer.from('9101', 'hex')],
  ])('when the heartbeat is %s', async (_what, bytes) => {
    const folder = await temporaryFolder();
    const before = await storeWith(folder);
    await withRawLevel(folder, (level) => (bytes ? level.put(HEARTBEAT_KEY, bytes) : level.del(HEARTBEAT_KEY)));
    const { epoch, notices, types } = await look({ folder });
    expect(epoch).not.toBe(before);
    expect(notices).toEqual([expect.stringContaining('The heartbeat in the store is missing or unreadable')]);
    expect(types.at(-1)).toBe('EpochRotated');
    expect((await look({ folder })).notices).toEqual([]);
  });

  test.each([
    ['9 minutes old', 540_000],
    ['10 minutes old', HEARTBEAT_STALE_MS],
    ['a minute ahead', -60_000],
  ])('but not when the heartbeat is %s', async (_what, ageMs) => {
    const folder = await temporaryFolder();
    const epoch = await storeWith(folder, ...twoEvents);
    expect(await look({ folder, nowMs: NOON_MS + ageMs })).toMatchObject({ epoch, notices: [], lastLsn: 3 });
  });

  test('keeps queues, seqs and enrolments', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder, ...twoEvents);
    const { store } = await open({ folder, nowMs: NOON_MS + HEARTBEAT_STALE_MS + 1 });
    expect(store.get('target', bob.key)).toMatchObject({ headSeq: NOON_MS, queueItems: 1 });
    expect(store.get('enrolment', bob.key)).toMatchObject({ hostName: 'bob' });
    await store.close();
  });

  test('twice in a row begins two epochs', async () => {
    const folder = await temporaryFolder();
    await storeWith(folder);
    const epochs = [];
    for (let day = 1; day <= 2; day++) epochs.push((await look({ folder, nowMs: NOON_MS + day * 86_400_000 })).epoch);
    expect(new Set(epochs).size).toBe(2);
  });
});

test('a store folder that cannot be written is refused in one sentence', async () => {
  const folder = await temporaryFolder();
  await storeWith(folder);
  await chmod(join(folder, POSITION_FILE), 0o400);
  const opened = await open({ folder }).then(
    ({ store }) => store.close().then(() => 'opened'),
    (error: unknown) => (error instanceof StoreRefused ? error.reason : error),
  );
  // The superuser may write anything.
  expect(opened).toBe(process.getuid?.() === 0 ? 'opened' : 'unusable');
  expect(epochNumbered(1)).toHaveLength(26);
});
