/**
 * Makes a host (`poste init`): a new store with its keys, and a config file.
 *
 * The store is made under another name and renamed when it is complete, so that an interruption leaves no
 * half of a host. An existing config file is kept.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SEED_BYTES } from '../protocol/ed25519.ts';
import { type HostName, parseHostName } from '../protocol/names.ts';
import type { PublicKey } from '../protocol/public-key.ts';
import { syncFolder } from '../lib/files.ts';
import { configText } from '../lib/config-file.ts';
import { fileFault } from '../lib/file-fault.ts';
import { configOfToml, newConfigText } from './base/config.ts';
import { newIdentityRow } from './peers/identity.ts';
import { type HostPaths, makePrivateFolder } from './base/paths.ts';
import { generateSealKey } from './wire/sealing.ts';
import { finishRestore } from './store/restored.ts';
import { HostStoreRefused, createHostStore, holdsStore, openHostStore } from './store/open.ts';

export interface InitialisedHost {
  hostName: HostName;
  publicKey: PublicKey;
  store: string;
  configFile: string;
  /** True when the config file existed before. */
  keptConfig: boolean;
}

const HOST_NAME_CHARACTERS_MAX = 63;

/** The name of the machine as a host name, as near as the pattern allows. */
export function defaultHostName(machineName: string): HostName {
  const [label = ''] = machineName.split('.');
  const fitting = label
    .normalize('NFKD')
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, HOST_NAME_CHARACTERS_MAX)
    .replace(/[^A-Za-z0-9]+$/, '');
  return parseHostName(fitting) ?? ('host' as HostName);
}

/** Throws `HostStoreRefused`, `ConfigRefused` for a config file that cannot be used, or errors of the disk. */
export async function initialiseHost(paths: HostPaths, hostName: HostName, nowMs: number): Promise<InitialisedHost> {
  const { store, dataFolder, configFile } = paths;
  await finishRestore(store);
  if (holdsStore(store)) throw exists(store);
  const keptConfig = existsSync(configFile);
  if (keptConfig) configOfToml(configText(configFile) ?? '', configFile);
  const aside = `${store}.making-${randomBytes(4).toString('hex')}`;
  try {
    makePrivateFolder(dataFolder);
    await removeLeftovers(store);
    const publicKey = await makeStore(aside, hostName, nowMs);
    if (!keptConfig) await writeConfig(configFile);
    takeName(aside, store);
    await syncFolder(dataFolder);
    return { hostName, publicKey, store, configFile, keptConfig };
  } catch (error) {
    if (existsSync(aside)) rmSync(aside, { recursive: true, force: true });
    throw unusable(error, dataFolder);
  }
}

async function makeStore(folder: string, hostName: HostName, nowMs: number): Promise<PublicKey> {
  const { enc_pub: encPub, secret } = await generateSealKey();
  const row = newIdentityRow({ hostName, seed: randomBytes(SEED_BYTES), sealKey: { encPub, secret }, nowMs });
  const store = await createHostStore(folder, () => undefined);
  try {
    await store.transact((tx) => tx.put('identity', [], row));
  } finally {
    await store.close();
  }
  const [key] = row.keys;
  if (!key) throw new Error('invariant: a new host has a key');
  return key.publicKey;
}

/** Removes what killed inits left behind; an init under way holds its store's lock. */
async function removeLeftovers(store: string): Promise<void> {
  const prefix = `${basename(store)}.making-`;
  for (const name of readdirSync(dirname(store)).filter((found) => found.startsWith(prefix))) {
    const path = join(dirname(store), name);
    try {
      await (await openHostStore(path, () => undefined)).close();
    } catch (error) {
      if (error instanceof HostStoreRefused && error.fault === 'locked') throw exists(store);
    }
    rmSync(path, { recursive: true, force: true });
  }
}

async function writeConfig(file: string): Promise<void> {
  makePrivateFolder(dirname(file));
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(newConfigText());
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function takeName(aside: string, store: string): void {
  try {
    renameSync(aside, store);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code)) throw exists(store);
    throw error;
  }
}

function exists(store: string): HostStoreRefused {
  return new HostStoreRefused('exists', `there is a host already, with its store at ${store}: poste status shows it`);
}

function unusable(error: unknown, folder: string): unknown {
  const { code, syscall, path } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string' || typeof syscall !== 'string') return error;
  const what = `${path ?? folder} cannot be used (${fileFault(error)}): mend that and try again`;
  return new HostStoreRefused('unusable', what, error);
}
