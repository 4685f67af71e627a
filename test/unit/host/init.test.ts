import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { defaultHostName, initialiseHost } from '../../../src/host/init.ts';
import { identityOf, loadIdentity, signedEncKey } from '../../../src/host/peers/identity.ts';
import { type HostPaths, ownPaths } from '../../../src/host/base/paths.ts';
import { openHostStore } from '../../../src/host/store/open.ts';
import { canonicalBytes, encKeyAdvertisement } from '../../../src/protocol/documents.ts';
import { verifySignature } from '../../../src/protocol/ed25519.ts';
import type { HostName } from '../../../src/protocol/names.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const NAME = 'laptop' as HostName;

async function pathsOfHost(): Promise<HostPaths> {
  return ownPaths({ env: { POSTE_HOME: join(await temporaryFolder(), 'poste') } });
}

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;

describe('initialiseHost', () => {
  test('makes keys that sign and a config, for the owner alone', async () => {
    const paths = await pathsOfHost();
    const made = await initialiseHost(paths, NAME, 1_700_000_000_000);

    expect(made).toMatchObject({ hostName: NAME, keptConfig: false });
    expect(await modeOf(paths.dataFolder)).toBe(0o700);
    expect(await modeOf(paths.store)).toBe(0o700);
    expect(await modeOf(paths.configFile)).toBe(0o600);
    expect(await readdir(paths.dataFolder)).toEqual(['config.toml', 'store']);
    const store = await openHostStore(paths.store, () => undefined);
    const identity = await loadIdentity(store);
    await store.close();
    expect(identity.hostName).toBe(NAME);
    expect(identity.signer.publicKey).toBe(made.publicKey);
    const { hostPubkey, encPub, at, sig } = signedEncKey(identity);
    expect({ hostPubkey, at }).toEqual({ hostPubkey: made.publicKey, at: 1_700_000_000_000 });
    const advertisement = encKeyAdvertisement({ host_pubkey: hostPubkey, enc_pub: encPub, at });
    expect(verifySignature(made.publicKey, canonicalBytes(advertisement), sig)).toBe(true);
  });

  test('two hosts share no key', async () => {
    const [one, other] = [await pathsOfHost(), await pathsOfHost()];
    const keys = [await initialiseHost(one, NAME, 1), await initialiseHost(other, NAME, 1)];
    expect(keys[0]?.publicKey).not.toBe(keys[1]?.publicKey);
  });

  test('a host that is there is not made anew', async () => {
    const paths = await pathsOfHost();
    const { publicKey } = await initialiseHost(paths, NAME, 1);
    await expect(initialiseHost(paths, 'other' as HostName, 2)).rejects.toMatchObject({ fault: 'exists' });
    const store = await openHostStore(paths.store, () => undefined);
    expect((await loadIdentity(store)).signer.publicKey).toBe(publicKey);
    await store.close();
    expect(await readdir(paths.dataFolder)).toEqual(['config.toml', 'store']);
  });

  test('two at the same time make one host', async () => {
    const paths = await pathsOfHost();
    const results = await Promise.allSettled([initialiseHost(paths, NAME, 1), initialiseHost(paths, NAME, 2)]);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await readdir(paths.dataFolder)).toEqual(['config.toml', 'store']);
  });

  test('a config file that is there is kept, unless it cannot be used', async () => {
    const paths = await pathsOfHost();
    await mkdir(paths.dataFolder);
    await writeFile(paths.configFile, 'retention_days = "x"\n');
    await expect(initialiseHost(paths, NAME, 1)).rejects.toThrow(/config\.toml, line 1: retention_days/);
    expect(await readdir(paths.dataFolder)).toEqual(['config.toml']);
    await writeFile(paths.configFile, 'retention_days = 3\n');
    expect(await initialiseHost(paths, NAME, 1)).toMatchObject({ keptConfig: true });
    expect(await readFile(paths.configFile, 'utf8')).toBe('retention_days = 3\n');
  });

  test('what a killed init left behind is removed', async () => {
    const paths = await pathsOfHost();
    await mkdir(join(paths.dataFolder, 'store.making-0badcafe'), { recursive: true });
    await writeFile(join(paths.dataFolder, 'store.making-0badcafe', 'CURRENT'), 'x');
    await initialiseHost(paths, NAME, 1);
    expect(await readdir(paths.dataFolder)).toEqual(['config.toml', 'store']);
  });

  test('a place where nothing can be made is told in one sentence, and nothing is left', async () => {
    const paths = await pathsOfHost();
    await writeFile(paths.dataFolder, 'a file');
    await expect(initialiseHost(paths, NAME, 1)).rejects.toMatchObject({ fault: 'unusable' });
  });
});

test.each([
  ['laptop', 'laptop'],
  ['build-7.example.org', 'build-7'],
  ["Ada's MacBook Pro", 'Ada-s-MacBook-Pro'],
  ['_x_', 'x'],
  ['Zoë', 'Zoe'],
  ['', 'host'],
  ['---', 'host'],
  [`${'a'.repeat(62)}-b`, 'a'.repeat(62)],
])('a machine called %j is the host %s', (machine, host) => {
  expect(defaultHostName(machine)).toBe(host);
});

test('an identity with two living keys, or the seed of another key, is none', () => {
  const life = { sinceMs: 1, retiredAtMs: null };
  const key = { publicKey: 'x' as never, seed: Buffer.alloc(32, 1).toString('base64'), ...life };
  const row = { hostName: NAME, createdAtMs: 1, keys: [key], sealKeys: [], rotations: [], receiptFloor: 0 };
  expect(() => identityOf(row)).toThrow('the seed of the host key is that of another key');
  expect(() => identityOf({ ...row, keys: [key, key] })).toThrow('exactly one key');
  expect(() => identityOf({ ...row, keys: [{ ...key, retiredAtMs: 2 }] })).toThrow('exactly one key');
});
