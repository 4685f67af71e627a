/** `poste relay set`, `add`, `status` and `unset`: the relays that carry the mail of this host, each with its key. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { RelayAddResult, RelaySetInput, RelaySetResult, RelayStatusResult } from '../../host/contract/relays.ts';
import { CA_CHARACTERS_MAX } from '../../host/contract/limits.ts';
import { countText } from '../../host/core/spans.ts';
import { certificatesOf } from '../../lib/certificates.ts';
import { printable } from '../../protocol/printable.ts';
import { confirm, confirmation, givenText, isInteractive } from '../lib/input.ts';
import type { FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, daemonCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatFields } from '../lib/format.ts';
import { formatMoment, formatTime, type Screen } from '../lib/screen.ts';
import { oneMore, withoutUndefined } from '../lib/values.ts';
import { relayListText } from './relay-list.ts';

const SET_NOTES = `
With --key, the relay must show exactly this key. Without --key, this host trusts the first key that the relay shows:
compare the fingerprint with the one that its operator names. If the relay shows another key later, this host stops
using it until you run this command again and confirm the new key.

A relay that admits hosts by invite or by account asks for a token. This host reads it for every enrolment, from a file
or from the output of a command. It is an invite, or JSON with "token" and "cloud_key". Put no token into
--token-command itself: every user of a machine can read its command lines.

If a private authority signed the certificate of the relay, pass that authority's certificate as a PEM file. This host
keeps a copy; pass the file again when the authority gets a new certificate.

A witness vouches that the relay shows everybody one log. Name those that you trust by the keys that their owners gave
you; one that the relay's operator names proves nothing. poste doctor says which of them cosigned the log. --witness
none names nobody any more.

Examples:
  $ poste relay set https://relay.example
  $ poste relay set https://relay.example --key SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpKZIDTMczCvj3tD2s
  $ poste relay set https://relay.example --token-file ~/relay-invite
  $ poste relay set https://relay.internal --ca /etc/ssl/our-authority.pem
  $ poste relay set https://relay.example --token-command 'account-tool token --for relay.example'`;

export const TRUST: Readonly<Record<RelaySetResult['trust'], string>> = {
  same: 'This host had pinned this key before.',
  named: 'It is the key that you named with --key.',
  'first-use':
    'Nothing proves this key yet: compare the fingerprint with the one that the operator of the relay names.',
};

const V1_TRUST = `The relay speaks only v1, the earlier protocol: it does not prove its key, and signs no receipts.
Mail is sealed nevertheless. This host pins the key as soon as the relay speaks v2.`;

export function relaySetText({ relay, trust }: RelaySetResult): string {
  const trusted = relay.protocol === 1 ? V1_TRUST : TRUST[trust];
  return `This host uses ${printable(relay.url)} with the key\n  ${relay.fingerprint}\n${trusted}\n`;
}

/** A command that names a relay by its address, and says what to trust and to show there. */
export function relayCommand(context: CommandContext, name: string) {
  return daemonCommand(context, name)
    .argument('<url>', 'the URL of the relay: https, or http on this machine')
    .option('--key <fingerprint>', 'the key that the relay must show')
    .option('--token-file <file>', 'a file with the enrolment token')
    .option('--token-command <command>', 'a command that prints the enrolment token, run by sh')
    .option('--ca <file>', 'the certificate of the private authority that signed the certificate of the relay')
    .option('--witness <vkey>', 'the verifier key of a witness that is to cosign its log; may be repeated', oneMore);
}

type SetFlags = FlagsOf<typeof relayCommand>;

export function relaySetCommand(context: CommandContext): Command {
  return relayCommand(context, 'set')
    .notes(SET_NOTES)
    .answers((url, flags) => setRelay(context, url, flags))
    .prints(relaySetText);
}

/** Reads the file of `--ca`. Throws `CommandFailed`. */
export async function relayInput(context: CommandContext, url: string, flags: SetFlags): Promise<RelaySetInput> {
  const { key, tokenFile, tokenCommand, ca, witness } = flags;
  return {
    url,
    ...withoutUndefined({ key, token_file: tokenFile && resolve(tokenFile), token_command: tokenCommand }),
    ...(ca !== undefined && { ca: await certificatesIn(context, resolve(ca)) }),
    ...(witness && { witnesses: witness.filter((vkey) => vkey !== 'none') }),
  };
}

async function setRelay(context: CommandContext, url: string, flags: SetFlags): Promise<RelaySetResult> {
  const input = await relayInput(context, url, flags);
  try {
    return await ask(context, 'relay-set', input, flags);
  } catch (error) {
    const shown = changedKey(error);
    if (shown === undefined || flags.json || !isInteractive(context)) throw error;
    context.stderr.write(`${printable((error as CommandFailed).message)}\n`);
    await confirm(context, `Trust the key ${shown} from now on?`);
    return ask(context, 'relay-set', { ...input, key: shown }, flags);
  }
}

async function certificatesIn(context: CommandContext, path: string): Promise<{ pem: string; path: string }> {
  const advice = 'name another file with --ca';
  const text = await givenText(context, path, { code: 'BAD_INPUT', advice, bytesMax: CA_CHARACTERS_MAX });
  if (certificatesOf(text) !== undefined) return { pem: text, path };
  const fault = 'holds no readable certificate: it must be PEM, with -----BEGIN CERTIFICATE-----';
  throw new CommandFailed('usage', 'BAD_INPUT', `${path} ${fault}`);
}

/** The fingerprint that a relay shows instead of its pinned one; undefined for any other error. */
function changedKey(error: unknown): string | undefined {
  if (!(error instanceof CommandFailed) || error.code !== 'RELAY_KEY_MISMATCH') return undefined;
  const { shown, pinned } = error.details;
  return typeof shown === 'string' && typeof pinned === 'string' ? shown : undefined;
}

const ADD_NOTES = `
Mail goes over the first relay that works and that the other host uses, and over the next one when that one does not
answer. Paired hosts learn the addresses of your home relays, at most 4, with your mail. With --guest this host only
writes to hosts that live at that relay, and no host learns of it. Nothing is added by itself: neither an agent nor
another host can do it.

The operator of each relay sees addresses, subjects, sizes and times of the mail that goes there, never a body. Mail
that nobody confirmed for an hour goes to a second relay too, so a second operator sees its subject:
relay.second_copy_s in the config file changes the time, or turns that off.

On a terminal this command shows the address and the fingerprint and asks you. Elsewhere it takes --key or --yes.

Examples:
  $ poste relay add https://relay2.example
  $ poste relay add https://relay2.example --key SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpKZIDTMczCvj3tD2s
  $ poste relay add https://theirs.example --guest --token-file ~/their-invite`;

export function relayAddCommand(context: CommandContext): Command {
  return relayCommand(context, 'add')
    .option('--guest', 'only write to hosts that live there; no host learns of it')
    .option('--yes', 'do not ask for confirmation')
    .notes(ADD_NOTES)
    .answers(async (url, flags) => {
      const input = { ...(await relayInput(context, url, flags)), ...(flags.guest && { guest: true }) };
      return withConsent(context, flags, {
        take: (more) => ask(context, 'relay-add', { ...input, ...more }, flags),
        shown: questionText,
        question: ({ role, number }) => `Add it as ${role} relay ${number}?`,
      });
    })
    .prints(addedText);
}

interface Consent<Found> {
  take: (more: { dry_run?: true; key?: string }) => Promise<Found>;
  /** The relay that answers, and who learns what of this host. */
  shown: (found: Found) => string;
  question: (found: Found) => string;
}

/** Takes a relay once its owner agrees to what it shows; by `--yes` or a named key where nobody can be asked. */
export async function withConsent<Found extends Pick<RelaySetResult, 'relay'>>(
  context: CommandContext,
  flags: { yes?: boolean; key?: string },
  { take, shown, question }: Consent<Found>,
): Promise<Found> {
  const isSaid = flags.yes === true || (flags.key !== undefined && !isInteractive(context));
  const stake = 'nothing proves the key of the relay';
  const confirmIt = confirmation(context, { yes: isSaid, stake, advice: ', or name it with --key' });
  if (isSaid) return take({});
  const found = await take({ dry_run: true });
  await confirmIt(question(found), shown(found));
  // The key that was shown, should another one answer now.
  return take({ key: found.relay.fingerprint });
}

const SEEN_BY_OPERATOR: Readonly<Record<RelayAddResult['role'], string>> = {
  home: `Its operator sees when this host is there and from which address, and of each message that goes there the
addresses, subject, size and time, never the body. Mail that another relay of yours holds unconfirmed for an hour goes
there too, so a second operator sees its subject. Paired hosts learn that you take mail there.`,
  guest: `Its operator sees the key, the name and the address of this host, and of each message that you send there
the addresses, subject, size and time, never the body. No paired host learns that this host is there.`,
};

/** Shown before the owner is asked. */
export function questionText({ relay, role, trust, hosts }: RelayAddResult): string {
  const isNamed = hosts.length > 0 && trust === 'first-use';
  const trusted = isNamed ? `${hosts.join(', ')} takes mail at a relay with this key.` : TRUST[trust];
  return `${foundText(relay)}${printable(trusted)}\n${SEEN_BY_OPERATOR[role]}\n`;
}

export function foundText({ url, fingerprint }: RelaySetResult['relay']): string {
  const fields = [
    ['address', url],
    ['key', fingerprint],
  ];
  return formatFields(fields, 12);
}

export function addedText({ relay, number, role, trust }: RelayAddResult): string {
  const use = role === 'home' ? 'uses' : 'writes to hosts that live at';
  const head = `This host ${use} ${printable(relay.url)}, as its relay ${number}, with the key`;
  return `${head}\n  ${relay.fingerprint}\n${TRUST[trust]}\n`;
}

/** A larger difference of clocks is shown; the relay refuses 5 minutes. */
const CLOCK_NOTE_MS = 30_000;

export function relayStatusCommand(context: CommandContext): Command {
  return daemonCommand(context, 'status')
    .notes('\nExamples:\n  $ poste relay status\n  $ poste relay status --json')
    .answers((flags) => ask(context, 'relay-status', {}, flags))
    .prints((status, screen) => relayStatusText(screen, status));
}

export function relayStatusText(screen: Screen, status: RelayStatusResult): string {
  const { relay, relays } = status;
  if (!relay) return relays ? relayListText(screen, relays) : 'No relay is set: choose one with poste relay set.\n';
  const ahead = status.clock_ahead_ms ?? 0;
  const clock = `${Math.round(Math.abs(ahead) / 1000)} s ${ahead > 0 ? 'ahead of' : 'behind'} the relay's`;
  const rows = [
    ['key', relay.fingerprint],
    relay.protocol === 1 && ['protocol', 'v1: it signs nothing and carries no receipts'],
    relay.ca_file !== null && ['authority', relay.ca_file],
    ['state', stateText(status)],
    ['epoch', epochText(status)],
    ['enrolled', enrolmentText(screen, status)],
    ['senders', sendersText(screen, status)],
    ['received', receivedText(status)],
    ['outbox', outboxText(status)],
    ['quarantine', `${countText(status.quarantined, 'item')} from relays`],
    status.evidence > 0 && ['evidence', `${status.evidence} against this relay: poste relay evidence`],
    Math.abs(ahead) > CLOCK_NOTE_MS && ['clock', clock],
  ];
  const all = relays ? `\n${relayListText(screen, relays)}` : '';
  return `Relay ${printable(relay.url)}\n${formatFields(rows, 12)}${all}`;
}

function outboxText({ outbox }: RelayStatusResult): string {
  const { pending, relay_accepted: accepted, receipts_pending: receipts } = outbox;
  const waiting = receipts === 0 ? '' : `, ${countText(receipts, 'delivery receipt')} waiting`;
  return `${pending} waiting, ${accepted} accepted but not confirmed${waiting}`;
}

function stateText({ state, problem }: RelayStatusResult): string {
  if (state === 'two-histories') return `${state}: it signed what cannot belong to one log`;
  return problem ? `${state}: ${problem.message}` : state;
}

function epochText({ epoch, epochs_left: left }: RelayStatusResult): string {
  if (epoch === null) return 'not known yet';
  return left === 0 ? epoch : `${epoch}, after ${countText(left, 'other')}`;
}

function enrolmentText(screen: Screen, { enrolment }: RelayStatusResult): string {
  if (!enrolment) return 'not yet';
  const { account, crowded, valid_until: until } = enrolment;
  return [
    `seen ${formatTime(screen, enrolment.checked_at)}`,
    ...(account === null ? [] : [`account ${account}`]),
    ...(until === null ? [] : [`until ${formatMoment(screen, until)}`]),
    ...(enrolment.enc_key ? [] : ['encryption key not published yet']),
    ...(crowded ? ['many hosts have this name on the relay'] : []),
  ].join(', ');
}

function sendersText(screen: Screen, { enrolment, relay }: RelayStatusResult): string {
  if (relay?.protocol === 1) return 'not in v1: it accepts mail from every host';
  const senders = enrolment?.senders;
  return senders
    ? `${countText(senders.count, 'key')} of paired hosts, published ${formatTime(screen, senders.checked_at)}`
    : 'not published yet';
}

function receivedText(status: RelayStatusResult): string {
  const { relay, received_through: through, head_seq: head, long_poll: isHeldBack } = status;
  if (isHeldBack !== null && relay?.protocol === 1) return 'by polling';
  const all = head !== null && head <= through ? 'everything' : 'not everything yet';
  const how = isHeldBack === null ? '' : isHeldBack ? ', by long poll' : ', by polling';
  return head === null ? 'not asked yet' : `${all}${how}`;
}

const UNSET_NOTES = `
From then on, mail waits in the outbox until a paired host answers on the LAN. Receivers can still fetch and confirm
what the relay accepted. Mail that waits on the relay for this host stays there until you set the relay again, or until
it expires.

Example:
  $ poste relay unset`;

export function relayUnsetCommand(context: CommandContext): Command {
  return daemonCommand(context, 'unset')
    .notes(UNSET_NOTES)
    .answers((flags) => ask(context, 'relay-unset', {}, flags))
    .prints(({ relay, relay_accepted: accepted }) => {
      const rest = accepted > 0 ? ` It accepted ${countText(accepted, 'message')} that no host has confirmed yet.` : '';
      return `This host does not use ${printable(relay.url)} any more.${rest}\n`;
    });
}
