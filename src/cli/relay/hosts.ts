/**
 * The requests of an operator to the running relay: `poste relay hosts`, `admit`, `revoke` and `console`.
 */
import type { Command } from 'commander';
import { countText } from '../../host/core/spans.ts';
import { suggestions } from '../../host/core/suggestions.ts';
import { foldHostName } from '../../protocol/names.ts';
import { printable } from '../../protocol/printable.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import type { HostDocument, InviteDocument, RevokedHostDocument } from '../../relay/operator/documents.ts';
import { confirmation } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { print } from '../lib/output.ts';
import { formatMoment, formatTime, type Screen, screenOf } from '../lib/screen.ts';
import { type Column, table } from '../lib/table.ts';
import { fingerprintMeant, isFingerprintStart } from '../lib/short-id.ts';
import { hostReference, inviteLabel, span } from './values.ts';
import { type ControlClient, relayOf } from './control-client.ts';
import { relayCommand, type RelayFlags } from './relay-command.ts';

const HOSTS_EXAMPLES = `
Examples:
  $ poste relay hosts --store-dir /var/lib/poste --name 'build-*' --all`;

export function hostsCommand(context: CommandContext): Command {
  return relayCommand(context, 'hosts')
    .option('--name <pattern>', 'only hosts with this name; * matches any text, and ? one character')
    .option('--account <account>', 'only hosts of this proven account')
    .option('--live', 'only hosts that are not revoked (the default)', { conflicts: ['revoked', 'all'] })
    .option('--revoked', 'only hosts that are revoked or changed their key', { conflicts: ['all'] })
    .option('--all', 'every host key that was ever admitted')
    .notes(HOSTS_EXAMPLES)
    .action(async (flags) => {
      const all = await relayOf(flags).list('/v1/hosts');
      const { name, account, revoked, all: isAll } = flags;
      const hosts = chosenHosts(all, { name, account, which: isAll ? 'all' : revoked ? 'revoked' : 'live' });
      const none = all.length === 0 ? 'No host has enrolled yet.' : 'No host matches.';
      printList(context, flags, { hosts }, hosts, hostTable, none);
    });
}

/** Prints a table, or that it would be empty. */
function printList<Row>(
  context: CommandContext,
  flags: RelayFlags,
  document: object,
  rows: readonly Row[],
  tableOf: (screen: Screen, rows: readonly Row[]) => string,
  none: string,
): void {
  if (flags.json || rows.length > 0) print(context, flags, document, () => tableOf(screenOf(context), rows));
  else context.stderr.write(`${none}\n`);
}

export interface HostFilter {
  /** `*` stands for any text and `?` for one character; letters of either case are the same. */
  name: string | undefined;
  account: string | undefined;
  which: 'live' | 'revoked' | 'all';
}

/** Sorts by name, then the oldest first. */
export function chosenHosts(hosts: readonly HostDocument[], filter: HostFilter): HostDocument[] {
  const pattern = foldHostName(filter.name ?? '*');
  return hosts
    .filter(({ host, account, revoked_at }) => {
      if (filter.which !== 'all' && (revoked_at === null) !== (filter.which === 'live')) return false;
      return isMatch(pattern, foldHostName(host)) && (filter.account === undefined || account === filter.account);
    })
    .toSorted((a, b) => {
      const [first, second] = [foldHostName(a.host), foldHostName(b.host)];
      if (first !== second) return first < second ? -1 : 1;
      return a.enrolled_at - b.enrolled_at || (a.host_pubkey < b.host_pubkey ? -1 : 1);
    });
}

export function hostTable(screen: Screen, hosts: readonly HostDocument[]): string {
  return table<HostDocument>(screen, hosts, [
    { title: 'NAME', cell: ({ host }) => host },
    { title: 'FINGERPRINT', id: ({ fingerprint }) => fingerprint },
    { title: 'ACCOUNT', cell: ({ account }) => account ?? '-' },
    { title: 'AUTHORITY', cell: ({ authorized_by }) => authorized_by },
    { title: 'ENROLLED', time: ({ enrolled_at }) => enrolled_at },
    {
      title: 'STATE',
      cell: (host) => hostState(screen, host),
      style: ({ state }) => (state === 'live' ? 'green' : state === 'rotated' ? 'dim' : 'red'),
    },
    { title: 'ITEMS', cell: ({ queue_items }) => String(queue_items), isNumber: true },
    { title: 'BYTES', cell: ({ queue_bytes }) => String(queue_bytes), isNumber: true },
    { title: 'ACKED', cell: ({ acked_through }) => String(acked_through), isNumber: true },
  ]);
}

export function hostState(screen: Screen, { state, valid_until, revoked_at, rotated_to }: HostDocument): string {
  if (state === 'rotated') return `rotated to ${rotated_to === null ? 'another key' : displayFingerprint(rotated_to)}`;
  if (state === 'revoked') return `revoked ${formatTime(screen, revoked_at ?? Number.NaN)}`;
  return state === 'expired' ? `expired token ${formatTime(screen, valid_until ?? Number.NaN)}` : 'live';
}

/** Takes a time that grows with pattern times name. */
function isMatch(pattern: string, name: string): boolean {
  // The places in the name where the part of the pattern that was read can end.
  let ends = [0];
  for (const sign of pattern) {
    if (sign === '*') ends = [...Array(name.length + 1).keys()].slice(ends[0] ?? Number.POSITIVE_INFINITY);
    else ends = ends.filter((at) => at < name.length && (sign === '?' || sign === name[at])).map((at) => at + 1);
  }
  return ends.at(-1) === name.length;
}

const LIFETIME_DEFAULT = '7d';
const lifetimeMs = span('30m, 12h or 7d');

const ADMIT_NOTES = `
A relay that serves with --admission invite admits a new host only with such a token, which admits one host. A host
that was admitted enrols again without.

Examples:
  $ poste relay admit --label "laptop of Ada" > invite.txt
  $ poste relay admit --expires 12h
  $ poste relay admit --list`;

export function admitCommand(context: CommandContext): Command {
  const expires = 'how long it is valid: minutes, hours or days, for example 30m, 12h or 7d';
  const lifetime = { parse: lifetimeMs, byDefault: lifetimeMs(LIFETIME_DEFAULT), defaultText: LIFETIME_DEFAULT };
  const label = 'a label for the list, for example the person who gets it';
  return relayCommand(context, 'admit')
    .option('--label <text>', label, { parse: inviteLabel, byDefault: '' })
    .option('--expires <time>', expires, lifetime)
    .option('--list', 'list the open invites instead', { conflicts: ['label', 'expires'] })
    .notes(ADMIT_NOTES)
    .action(async (flags) => {
      if (flags.list) return listInvites(context, flags);
      const request = { label: flags.label, lifetime_ms: flags.expires };
      const invite = await relayOf(flags).post('/v1/invites', request);
      print(context, flags, invite, () => `${invite.token}\n`);
      if (flags.json) return;
      const until = formatMoment(screenOf(context, context.stderr), invite.expires_at);
      context.stderr.write(`The token admits one host until ${until}. It is not shown again.\n`);
      if (invite.admission === 'open')
        context.stderr.write('This relay serves with --admission open: hosts can enrol without an invite too.\n');
    });
}

const INVITE_COLUMNS: readonly Column<InviteDocument>[] = [
  { title: 'ISSUED', time: ({ issued_at }) => issued_at },
  { title: 'EXPIRES', time: ({ expires_at }) => expires_at },
  { title: 'LABEL', cell: ({ label }) => (label === '' ? '-' : label) },
];

async function listInvites(context: CommandContext, flags: RelayFlags): Promise<void> {
  const open = await relayOf(flags).list('/v1/invites');
  const invites = open.toSorted((a, b) => a.expires_at - b.expires_at || a.issued_at - b.issued_at);
  const tableOf = (screen: Screen): string => table(screen, invites, INVITE_COLUMNS);
  printList(context, flags, { invites }, invites, tableOf, 'No invite is open.');
}

const REVOKE_NOTES = `
Name a host by its fingerprint (SHA256:... or 64 hex digits), by its base64 public key, or by its name if no other
host has the same. From then on the relay refuses the key, which can never enrol again. Mail that waits for it
expires.

Examples:
  $ poste relay revoke laptop
  $ poste relay revoke --yes SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y`;

export function revokeCommand(context: CommandContext): Command {
  return relayCommand(context, 'revoke')
    .argument('<host>', 'fingerprint or its first characters, public key, or name', hostReference)
    .option('--yes', 'do not ask for confirmation')
    .notes(REVOKE_NOTES)
    .answers(async (reference, flags) => {
      const ask = confirmation(context, { yes: flags.yes, stake: 'a revocation cannot be undone' });
      const relay = relayOf(flags);
      const known = isFingerprintStart(reference) ? await relay.list('/v1/hosts') : [];
      const query = new URLSearchParams({ host: fingerprintMeant(reference, known) }).toString();
      const found = relay.get(`/v1/hosts/find?${query}`);
      const { host, is_former_key } = await found.catch((error: unknown) => withNearNames(error, reference, relay));
      if (is_former_key) context.stderr.write(`That is a former key of ${hostText(host)}.\n`);
      const question = `Revoke ${hostText(host)}? It can never enrol again under this key.`;
      if (host.revoked_at === null) await ask(question);
      // By its key: another host may have taken the name since.
      return relay.post('/v1/hosts/revoke', { host: host.host_pubkey });
    })
    .prints(revokedText);
}

/** Throws `error`, for a name that nobody has with the names that are near it. */
async function withNearNames(error: unknown, reference: string, relay: ControlClient): Promise<never> {
  if (!(error instanceof CommandFailed) || error.exit !== 'notFound') throw error;
  const hosts = await relay.list('/v1/hosts');
  const live = hosts.filter(({ revoked_at }) => revoked_at === null).map(({ host }) => host);
  const near = suggestions(reference, live)
    .map((name) => printable(name))
    .join(' or ');
  if (near === '') throw error;
  throw new CommandFailed(error.exit, error.code, `${error.message} (did you mean ${near}?)`, error.details);
}

function revokedText({ host, is_new }: RevokedHostDocument): string {
  if (!is_new) return `${hostText(host)} was revoked before; nothing has changed.\n`;
  const waiting =
    host.queue_items === 0 ? '' : ` What waits for it (${countText(host.queue_items, 'item')}) expires in time.`;
  return `Revoked ${hostText(host)}, for good.${waiting}\n`;
}

function hostText({ host, fingerprint, account }: HostDocument): string {
  return `${printable(host)} (${fingerprint}${account === null ? '' : `, account ${printable(account)}`})`;
}

const CONSOLE_NOTES = `
The console is a web page of the running relay that shows activity, hosts and log, for a browser on the same machine.
To open it from another, forward the port: ssh -L 8788:127.0.0.1:8788 <machine>. Paste the URL into the browser; on a
command line every user of the machine could read it and use it first.

Example:
  $ poste relay console --json`;

export function consoleCommand(context: CommandContext): Command {
  return relayCommand(context, 'console')
    .notes(CONSOLE_NOTES)
    .action(async (flags) => {
      const issued = await relayOf(flags).post('/v1/console', {});
      print(context, flags, issued, () => `${issued.url}\n`);
      if (!flags.json) context.stderr.write('The URL opens the console once, within a minute.\n');
    });
}
