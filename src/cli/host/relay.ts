/** `poste relay set`, `status` and `unset`: the relay that carries the mail of this host, pinned by its key. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { RelaySetResult, RelayStatusResult } from '../../host/contract/relays.ts';
import { CA_CHARACTERS_MAX } from '../../host/contract/limits.ts';
import { countText } from '../../host/core/spans.ts';
import { certificatesOf } from '../../lib/certificates.ts';
import { printable } from '../../protocol/printable.ts';
import { confirm, isInteractive, givenText } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, type DaemonFlags, daemonCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatFields, jsonLine } from '../lib/format.ts';
import { formatMoment, formatTime, type Screen, screenOf } from '../lib/screen.ts';
import { oneMore } from '../lib/values.ts';

interface SetFlags extends DaemonFlags {
  key?: string;
  tokenFile?: string;
  tokenCommand?: string;
  ca?: string;
  witness?: readonly string[];
}

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

const TRUST: Readonly<Record<RelaySetResult['trust'], string>> = {
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

export function relaySetCommand(context: CommandContext): Command {
  return daemonCommand(context, 'set')
    .argument('<url>', 'the URL of the relay: https, or http on this machine')
    .option('--key <fingerprint>', 'the key that the relay must show')
    .option('--token-file <file>', 'a file with the enrolment token')
    .option('--token-command <command>', 'a command that prints the enrolment token, run by sh')
    .option('--ca <file>', 'the certificate of the private authority that signed the certificate of the relay')
    .option('--witness <vkey>', 'the verifier key of a witness that is to cosign its log; may be repeated', oneMore)
    .addHelpText('after', SET_NOTES)
    .action(async (url: string, flags: SetFlags) => {
      const set = await setRelay(context, url, flags);
      context.stdout.write(flags.json ? jsonLine(set) : relaySetText(set));
    });
}

async function setRelay(context: CommandContext, url: string, flags: SetFlags): Promise<RelaySetResult> {
  const { key, tokenFile, tokenCommand, ca, witness } = flags;
  const input = {
    url,
    ...(key !== undefined && { key }),
    ...(tokenFile !== undefined && { token_file: resolve(tokenFile) }),
    ...(tokenCommand !== undefined && { token_command: tokenCommand }),
    ...(ca !== undefined && { ca: await certificatesIn(context, resolve(ca)) }),
    ...(witness && { witnesses: witness.filter((vkey) => vkey !== 'none') }),
  };
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

/** A larger difference of clocks is shown; the relay refuses 5 minutes. */
const CLOCK_NOTE_MS = 30_000;

export function relayStatusCommand(context: CommandContext): Command {
  return daemonCommand(context, 'status')
    .addHelpText('after', '\nExamples:\n  $ poste relay status\n  $ poste relay status --json')
    .action(async (flags: DaemonFlags) => {
      const status = await ask(context, 'relay-status', {}, flags);
      context.stdout.write(flags.json ? jsonLine(status) : relayStatusText(screenOf(context), status));
    });
}

type Row = [name: string, value: string];

export function relayStatusText(screen: Screen, status: RelayStatusResult): string {
  const { relay } = status;
  if (!relay) return 'No relay is set: choose one with poste relay set.\n';
  const rows: Row[] = [
    ['key', relay.fingerprint],
    ...(relay.protocol === 1 ? [['protocol', 'v1: it signs nothing and carries no receipts'] as Row] : []),
    ...(relay.ca_file === null ? [] : [['authority', relay.ca_file] as Row]),
    ['state', stateText(status)],
    ['epoch', epochText(status)],
    ['enrolled', enrolmentText(screen, status)],
    ['senders', sendersText(screen, status)],
    ['received', receivedText(status)],
    ['outbox', outboxText(status)],
    ['quarantine', `${countText(status.quarantined, 'item')} from relays`],
    ...(status.evidence === 0
      ? []
      : [['evidence', `${status.evidence} against this relay: poste relay evidence`] as Row]),
  ];
  const ahead = status.clock_ahead_ms ?? 0;
  if (Math.abs(ahead) > CLOCK_NOTE_MS) {
    rows.push(['clock', `${Math.round(Math.abs(ahead) / 1000)} s ${ahead > 0 ? 'ahead of' : 'behind'} the relay's`]);
  }
  return `Relay ${printable(relay.url)}\n${formatFields(rows, 12)}`;
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
    .addHelpText('after', UNSET_NOTES)
    .action(async (flags: DaemonFlags) => {
      const { relay, relay_accepted: accepted } = await ask(context, 'relay-unset', {}, flags);
      if (flags.json) context.stdout.write(jsonLine({ relay, relay_accepted: accepted }));
      else {
        const rest =
          accepted > 0 ? ` It accepted ${countText(accepted, 'message')} that no host has confirmed yet.` : '';
        context.stdout.write(`This host does not use ${printable(relay.url)} any more.${rest}\n`);
      }
    });
}
