/** `poste relay set`: pins the relay that carries mail where the LAN does not reach, by its key. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import type { RelaySetResult } from '../host/documents/relay.ts';
import { printable } from '../protocol/printable.ts';
import { confirm, isInteractive } from './confirm.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { jsonLine } from './text.ts';

interface SetFlags extends DaemonFlags {
  key?: string;
  tokenFile?: string;
  tokenCommand?: string;
}

const NOTES = `
Without --key the first key that the relay shows is trusted: compare the fingerprint with what its operator says.
If the relay shows another key later, it is not used until you give this command again and confirm the new key.

A relay that admits by invitation, or for an account, asks for a token. It is read anew for every enrolment: from a
file, or from what a command prints. It is an invite as it is, or JSON with "token" and "cloud_key".

Examples:
  $ poste relay set https://relay.example
  $ poste relay set https://relay.example --key SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpKZIDTMczCvj3tD2s
  $ poste relay set https://relay.example --token-file ~/relay-invite
  $ poste relay set https://relay.example --token-command 'account-tool token --for relay.example'`;

const TRUST: Readonly<Record<RelaySetResult['trust'], string>> = {
  same: 'It is the key that was pinned before.',
  named: 'It is the key that you named.',
  'first-use': 'Nobody vouched for this key: compare the fingerprint with what the operator of the relay says.',
};

const V1_TRUST = `It speaks only v1, the earlier protocol: nothing proves that it has this key, and it signs no receipts.
Mail is sealed all the same. As soon as the relay speaks v2 under this key, it is pinned.`;

export function relaySetText({ relay, trust }: RelaySetResult): string {
  const trusted = relay.protocol === 1 ? V1_TRUST : TRUST[trust];
  return `${printable(relay.url)} is used, with the key\n  ${relay.fingerprint}\n${trusted}\n`;
}

export function relaySetCommand(): Command {
  const command = new Command('set')
    .description('Use a relay for the mail of this host that the LAN cannot carry.')
    .argument('<url>', 'its address: https, or http on this machine')
    .option('--key <fingerprint>', 'the key that it must have')
    .option('--token-file <file>', 'where the token for its enrolment is read from')
    .option('--token-command <command>', 'what prints the token, run by sh');
  return withDaemonFlags(command, 'print it as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (url: string, flags: SetFlags) => {
      const set = await setRelay(url, flags);
      process.stdout.write(flags.json ? jsonLine(set) : relaySetText(set));
    });
}

async function setRelay(url: string, flags: SetFlags): Promise<RelaySetResult> {
  const { key, tokenFile, tokenCommand } = flags;
  const input = {
    url,
    ...(key !== undefined && { key }),
    ...(tokenFile !== undefined && { token_file: resolve(tokenFile) }),
    ...(tokenCommand !== undefined && { token_command: tokenCommand }),
  };
  try {
    return await ask('relay-set', input, flags);
  } catch (error) {
    const shown = changedKey(error);
    const terminal = { input: process.stdin, output: process.stderr };
    if (shown === undefined || flags.json || !isInteractive(terminal)) throw error;
    process.stderr.write(`${printable((error as CommandFailed).message)}\n`);
    await confirm(`Trust the key ${shown} from now on?`, terminal);
    return ask('relay-set', { ...input, key: shown }, flags);
  }
}

/** The fingerprint that a pinned relay shows instead of its own; nothing when it is something else that failed. */
function changedKey(error: unknown): string | undefined {
  if (!(error instanceof CommandFailed) || error.code !== 'RELAY_KEY_MISMATCH') return undefined;
  const { shown, pinned } = error.details;
  return typeof shown === 'string' && typeof pinned === 'string' ? shown : undefined;
}
