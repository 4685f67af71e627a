/**
 * The relay's key where a deployment keeps it, outside the store folder: in MAIL_RELAY_KEY, or in a file that
 * `--key-file` or MAIL_RELAY_KEY_FILE names, as a systemd credential or a mounted secret.
 *
 * Never on a command line, which every user of the machine may read. No sentence holds any of the key.
 */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Option } from 'commander';
import type { Signer } from '../protocol/ed25519.ts';
import { StoreRefused } from '../relay/store/refused.ts';
import { readKeyFile, relaySigner } from '../relay/store/relay-key.ts';
import { CommandFailed } from './exit.ts';

export interface DeployKey {
  signer: Signer;
  /** The variable or the file that it came from. */
  place: string;
  /** A sentence for the operator when others can read it too. */
  notices: string[];
}

/** What everybody who is neither owner nor group may do with a file. */
const OTHERS = 0o007;

export function keyFileOption(): Option {
  return new Option(
    '--key-file <file>',
    "the file that holds the relay's key, instead of relay.key in the store folder",
  );
}

/** `undefined` when a deployment gives none. Throws `StoreRefused` or `CommandFailed`. */
export async function deployKey(keyFile: string | undefined): Promise<DeployKey | undefined> {
  const secret = process.env['MAIL_RELAY_KEY'];
  const named = keyFile ?? process.env['MAIL_RELAY_KEY_FILE'];
  if (secret && named) {
    const message = 'MAIL_RELAY_KEY and a key file are two keys for one relay: give its key in one way';
    throw new CommandFailed('usage', 'USAGE', message);
  }
  if (secret) return { signer: relaySigner(secret, 'MAIL_RELAY_KEY'), place: 'MAIL_RELAY_KEY', notices: [] };
  if (!named) return undefined;
  const path = resolve(named);
  const signer = await readKeyFile(path);
  if (!signer) throw new StoreRefused('unreadable-key', `there is no key file at ${path}: name the one of this relay`);
  const { mode } = await stat(path);
  const open = `Every user of this machine may open the key file ${path}: take that right away (chmod o= ${path}).`;
  return { signer, place: path, notices: mode & OTHERS ? [open] : [] };
}
