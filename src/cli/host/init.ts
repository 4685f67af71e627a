/** `poste init`: creates this host: its keys, its store, its config file. */
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { type InitialisedHost, defaultHostName, initialiseHost } from '../../host/init.ts';
import { ownPaths } from '../../host/base/paths.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { formatFields, JSON_FLAG } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { hostName } from '../lib/values.ts';

const NOTES = `
The keys are in the store, which only you can read: back it up with poste backup. Paired hosts recognize this host by
its key, and address its agents as agent@name.

Environment:
  POSTE_HOME  one folder for everything; else ~/.config/poste and
              ~/.local/share/poste (XDG)

Examples:
  $ poste init
  $ poste init --host laptop
  $ POSTE_HOME=/srv/poste poste init --json`;

export function initCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'init')
    .option('--host <name>', 'the name of this host (default: the name of this machine)', hostName)
    .option(...JSON_FLAG)
    .notes(NOTES)
    .action(async ({ host = defaultHostName(hostname()), ...flags }) => {
      const made = await initialiseHost(ownPaths(context), host, Date.now()).catch((error: unknown) => {
        throw hostFailure(error);
      });
      const { publicKey, store, configFile: config, keptConfig: config_kept } = made;
      const key = { host_pubkey: publicKey, fingerprint: displayFingerprint(publicKey) };
      print(context, flags, { host: made.hostName, ...key, store, config, config_kept }, () => textOf(made));
    });
}

function textOf({ hostName: host, publicKey, store, configFile, keptConfig }: InitialisedHost): string {
  const rows = [
    ['fingerprint', displayFingerprint(publicKey)],
    ['store', store],
    ['config', `${configFile}${keptConfig ? ' (already there)' : ''}`],
  ];
  const next = 'Its daemon starts with the first command that needs it, or as a service by poste daemon install.';
  return `Host ${host} is created.\n${formatFields(rows, 12)}${next}\n`;
}
