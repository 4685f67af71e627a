/**
 * The relay's key where a deployment keeps it, outside the store folder: in MAIL_RELAY_KEY, or in a file that
 * `--key-file` or MAIL_RELAY_KEY_FILE names, as a systemd credential or a mounted secret.
 *
 * Never on a command line, which every user of the machine may read. No sentence holds any of the key.
 */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Signer } from '../../protocol/ed25519.ts';
import { StoreRefused } from '../../relay/store/refused.ts';
import { generateRelayKey, readKeyFile, relaySigner } from '../../relay/store/relay-key.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';

export interface DeployKey {
  signer: Signer;
  place: string;
  /** A sentence for the operator when others can read it too. */
  notices: string[];
}

/** The permissions of users who are neither owner nor group. */
const OTHERS = 0o007;

/** Undefined when the deployment sets no key. Throws `StoreRefused` or `CommandFailed`. */
export async function deployKey({ env }: CommandContext, keyFile: string | undefined): Promise<DeployKey | undefined> {
  const secret = env['MAIL_RELAY_KEY'];
  const named = keyFile ?? env['MAIL_RELAY_KEY_FILE'];
  if (secret && named) {
    const message = 'MAIL_RELAY_KEY and a key file are both set: set only one of them';
    throw new CommandFailed('usage', 'USAGE', message);
  }
  if (secret) return { signer: relaySigner(secret, 'MAIL_RELAY_KEY'), place: 'MAIL_RELAY_KEY', notices: [] };
  if (!named) return undefined;
  const path = resolve(named);
  const signer = await readKeyFile(path);
  if (!signer)
    throw new StoreRefused('missing-key-file', `there is no key file at ${path}: name the key file of this relay`);
  const { mode } = await stat(path);
  const open = `Every user of this machine may open the key file ${path}: remove that permission (chmod o= ${path}).`;
  return { signer, place: path, notices: mode & OTHERS ? [open] : [] };
}

export function relayKeygenCommand(context: CommandContext): Command {
  return new Command('keygen')
    .addHelpText('after', '\nExample:\n  $ poste relay keygen > relay.key && chmod 600 relay.key')
    .action(() => {
      context.stdout.write(`${generateRelayKey()}\n`);
    });
}
