/**
 * The relay's own Ed25519 key: from the deploy secret, or from `relay.key` beside the store.
 *
 * The file holds the base64 of the 32-byte seed and a newline, mode 0600. No error ever holds any of it.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { decodeBase64, encodeBase64 } from '../../protocol/encodings.ts';
import { SEED_BYTES, type Signer, signerFromSeed } from '../../protocol/ed25519.ts';
import { syncFolder } from '../../lib/files.ts';
import { fileFault } from '../../lib/file-fault.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { readAllText } from '../../lib/user-text.ts';
import { StoreRefused } from './refused.ts';

export const RELAY_KEY_FILE = 'relay.key';
/** The rights of everybody but the owner and the group, which an operator gives on purpose. */
const OTHERS = 0o007;
/** More than any key file has; nothing behind it is read. */
const KEY_FILE_BYTES_MAX = 1024;

/** A new seed, as `relay keygen` prints it and the file holds it. */
export function generateRelayKey(): string {
  return encodeBase64(randomBytes(SEED_BYTES));
}

/** The signer of a base64 seed. Throws `StoreRefused`, naming `source` and nothing of the text. */
export function relaySigner(text: string, source: string): Signer {
  const seed = decodeBase64(text.trim());
  if (seed?.length !== SEED_BYTES) {
    throw new StoreRefused(
      'unreadable-key',
      `${source} does not hold a relay key: it must be the base64 of 32 bytes, as poste relay keygen prints it`,
    );
  }
  return signerFromSeed(seed);
}

/**
 * The signer of `relay.key` in `folder`, or of another name, or `undefined` when there is no such file. Throws
 * `StoreRefused`, also when every user of the machine may open it: who has the key can pretend to be its owner.
 */
export async function readRelayKey(folder: string, name = RELAY_KEY_FILE): Promise<Signer | undefined> {
  const path = join(folder, name);
  const signer = await readKeyFile(path);
  if (!signer) return undefined;
  const open = await openToAll(path);
  if (open === undefined) return signer;
  throw new StoreRefused('unreadable-key', `${open}: run chmod 600 ${shellWord(path)}`);
}

/** The clause that says that every user may open the file; `undefined` when it is closed to other users. */
export async function openToAll(path: string): Promise<string | undefined> {
  const { mode } = await stat(path);
  if ((mode & OTHERS) === 0) return undefined;
  return `every user of this machine may open ${path} (mode ${(mode & 0o777).toString(8).padStart(4, '0')})`;
}

/** The signer of the key file at `path`, or `undefined` when there is no such file. Throws `StoreRefused`. */
export async function readKeyFile(path: string): Promise<Signer | undefined> {
  let text: string;
  try {
    text = await readAllText(createReadStream(path, { end: KEY_FILE_BYTES_MAX - 1 }));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    if (code === 'EISDIR')
      throw new StoreRefused(
        'unreadable-key',
        `${path} is a folder, and no key file: name the file that holds the relay's key with --key-file`,
      );
    throw new StoreRefused(
      'unreadable-key',
      `${path} cannot be read (${fileFault(error)}): give the relay's user the right to read it`,
    );
  }
  return relaySigner(text, path);
}

/** Makes `relay.key` in `folder`, or a key file of another name, durably, and answers its signer. */
export async function createRelayKey(folder: string, name = RELAY_KEY_FILE): Promise<Signer> {
  const path = join(folder, name);
  const aside = `${path}.new`;
  const text = generateRelayKey();
  const file = await open(aside, 'w', 0o600);
  try {
    await file.writeFile(`${text}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(aside, path);
  await syncFolder(dirname(path));
  return relaySigner(text, path);
}
