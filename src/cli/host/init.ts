/** `poste init`: creates this host: its keys, its store, its config file. */
import { hostname } from 'node:os';
import { Command, Option } from 'commander';
import { type InitialisedHost, defaultHostName, initialiseHost } from '../../host/init.ts';
import { ownPaths } from '../../host/base/paths.ts';
import type { HostName } from '../../protocol/names.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { CommandContext } from '../lib/context.ts';
import { hostFailure } from '../lib/host-paths.ts';
import { formatFields, JSON_FLAG, jsonLine } from '../lib/format.ts';
import { hostName } from '../lib/values.ts';

interface InitFlags {
  host?: HostName;
  json?: boolean;
}

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
  return new Command('init')
    .addOption(
      new Option('--host <name>', 'the name of this host (default: the name of this machine)').argParser(hostName),
    )
    .option(...JSON_FLAG)
    .addHelpText('after', NOTES)
    .action(async (flags: InitFlags) => init(context, flags));
}

async function init(context: CommandContext, { host = defaultHostName(hostname()), json }: InitFlags): Promise<void> {
  let made: InitialisedHost;
  try {
    made = await initialiseHost(ownPaths(context), host, Date.now());
  } catch (error) {
    throw hostFailure(error);
  }
  context.stdout.write(json ? jsonLine(documentOf(made)) : textOf(made));
}

function documentOf({ hostName: host, publicKey, store, configFile, keptConfig }: InitialisedHost): object {
  return {
    host,
    host_pubkey: publicKey,
    fingerprint: displayFingerprint(publicKey),
    store,
    config: configFile,
    config_kept: keptConfig,
  };
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
