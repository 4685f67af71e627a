/** `poste init`: makes this host: its keys, its store, its config file. */
import { hostname } from 'node:os';
import { Command, InvalidArgumentError, Option } from 'commander';
import { type InitialisedHost, defaultHostName, initialiseHost } from '../host/init.ts';
import { type HostName, parseHostName } from '../protocol/names.ts';
import { displayFingerprint } from '../protocol/public-key.ts';
import { hostFailure, ownPaths } from './host-place.ts';
import { jsonLine } from './text.ts';

interface InitFlags {
  host?: HostName;
  json?: boolean;
}

const NOTES = `
The keys lie in the store, which is yours alone: back it up with poste backup. Paired hosts know this host by its key;
its name is what they write behind the @.

Environment:
  POSTE_HOME  one folder for everything; else the XDG folders (~/.config/poste, ~/.local/share/poste)

Examples:
  $ poste init
  $ poste init --host laptop
  $ POSTE_HOME=/srv/poste poste init --json`;

export function initCommand(): Command {
  return new Command('init')
    .description('Make this host: its keys, its store and its config file.')
    .addOption(
      new Option('--host <name>', "what other hosts call this one (default: this machine's name)").argParser(hostName),
    )
    .option('--json', 'print what was made as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: InitFlags) => init(flags));
}

function hostName(text: string): HostName {
  const name = parseHostName(text);
  if (name === undefined) {
    throw new InvalidArgumentError(
      'It must be letters, digits, points, hyphens and underlines, at most 63, the first and last a letter or digit.',
    );
  }
  return name;
}

async function init({ host = defaultHostName(hostname()), json }: InitFlags): Promise<void> {
  let made: InitialisedHost;
  try {
    made = await initialiseHost(ownPaths(), host, Date.now());
  } catch (error) {
    throw hostFailure(error);
  }
  process.stdout.write(json ? jsonLine(documentOf(made)) : textOf(made));
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
    ['config', `${configFile}${keptConfig ? ' (was there)' : ''}`],
  ];
  const lines = rows.map(([name = '', value = '']) => `  ${name.padEnd(12)} ${value}\n`);
  return `Host ${host} is made.\n${lines.join('')}Start it with poste daemon, or poste daemon install.\n`;
}
