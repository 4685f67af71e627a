/** `poste relay revoke <host>`: admits a host no longer, for good. */
import { Command } from 'commander';
import { printable } from '../protocol/printable.ts';
import type { FoundHostDocument, HostDocument, RevokedHostDocument } from '../relay/control/documents.ts';
import { confirm, isInteractive } from './confirm.ts';
import { CommandFailed } from './exit.ts';
import { type StoreDirFlags, relayOf, storeDirOption } from './store-dir.ts';
import { jsonLine } from './text.ts';
import { hostReference } from './values.ts';

interface RevokeFlags extends StoreDirFlags {
  yes?: boolean;
  json?: boolean;
}

const NOTES = `
A host is named by its fingerprint (SHA256:... or 64 hex digits), by its base64 public key, or by its name if no other
host has the same. A revoked key is refused from then on and can never enrol again; what waits for it expires.

Examples:
  $ poste relay revoke laptop
  $ poste relay revoke --yes SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y`;

export function relayRevokeCommand(): Command {
  return new Command('revoke')
    .description('Admit a host no longer. This is for good.')
    .argument('<host>', 'fingerprint, public key or name', hostReference)
    .addOption(storeDirOption())
    .option('--yes', 'do not ask')
    .option('--json', 'print the host as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (reference: string, flags: RevokeFlags) => revoke(reference, flags));
}

async function revoke(reference: string, flags: RevokeFlags): Promise<void> {
  const terminal = { input: process.stdin, output: process.stderr };
  if (!flags.yes && !isInteractive(terminal)) {
    throw new CommandFailed(
      'usage',
      'NOT_CONFIRMED',
      'there is no terminal to ask on, and a revocation is for good: say --yes if it is meant',
    );
  }
  const relay = relayOf(flags);
  const found = (await relay.get(`/v1/hosts/find?${new URLSearchParams({ host: reference }).toString()}`)) as unknown;
  const { host, is_former_key } = found as FoundHostDocument;
  if (is_former_key) process.stderr.write(`That is a former key of ${described(host)}.\n`);
  if (!flags.yes && host.revoked_at === null) {
    await confirm(`Revoke ${described(host)}? It can never enrol again under this key.`, terminal);
  }
  // By its key: another host may carry the name by now.
  const answer = (await relay.post('/v1/hosts/revoke', { host: host.host_pubkey })) as unknown as RevokedHostDocument;
  if (flags.json) process.stdout.write(jsonLine(answer));
  else process.stdout.write(revokedText(answer));
}

function revokedText({ host, is_new }: RevokedHostDocument): string {
  if (!is_new) return `${described(host)} was revoked before; nothing has changed.\n`;
  const waiting = host.queue_items === 0 ? '' : ` What waits for it (${host.queue_items} items) expires in time.`;
  return `Revoked ${described(host)}, for good.${waiting}\n`;
}

function described({ host, fingerprint, account }: HostDocument): string {
  return `${printable(host)} (${fingerprint}${account === null ? '' : `, account ${printable(account)}`})`;
}
