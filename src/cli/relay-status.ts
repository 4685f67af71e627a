/** `poste relay status`: the relay that this host uses, and what it was made to know of this host. */
import { Command } from 'commander';
import type { RelayStatusResult } from '../host/documents/relay.ts';
import { printable } from '../protocol/printable.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { jsonLine, timeText } from './text.ts';

/** A clock that is off by more is worth a word: the relay refuses 5 minutes. */
const CLOCK_NOTE_MS = 30_000;

export function relayStatusCommand(): Command {
  const command = new Command('status').description('Show the relay that this host uses.');
  return withDaemonFlags(command, 'print it as one JSON document')
    .addHelpText('after', '\nExamples:\n  $ poste relay status\n  $ poste relay status --json')
    .action(async (flags: DaemonFlags) => {
      const status = await ask('relay-status', {}, flags);
      process.stdout.write(flags.json ? jsonLine(status) : relayStatusText(status));
    });
}

type Row = [name: string, value: string];

export function relayStatusText(status: RelayStatusResult): string {
  const { relay } = status;
  if (!relay) return 'No relay is set: poste relay set sets one.\n';
  const rows: Row[] = [
    ['key', relay.fingerprint],
    ...(relay.protocol === 1 ? [['protocol', 'v1: it signs nothing, and carries no receipts'] as Row] : []),
    ['state', stateText(status)],
    ['epoch', status.epoch ?? 'not known yet'],
    ['enrolled', enrolmentText(status)],
    ['senders', sendersText(status)],
    ['received', receivedText(status)],
    ['outbox', `${status.outbox.pending} waiting, ${status.outbox.relay_accepted} taken and not confirmed`],
    ['quarantine', `${status.quarantined} from relays`],
  ];
  const ahead = status.clock_ahead_ms ?? 0;
  if (Math.abs(ahead) > CLOCK_NOTE_MS) {
    rows.push(['clock', `${Math.round(Math.abs(ahead) / 1000)} s ${ahead > 0 ? 'ahead of' : 'behind'} the relay's`]);
  }
  const lines = rows.map(([name, value]) => `  ${name.padEnd(12)} ${printable(value)}\n`);
  return `Relay ${printable(relay.url)}\n${lines.join('')}`;
}

function stateText({ state, problem }: RelayStatusResult): string {
  return problem ? `${state}: ${problem.message}` : state;
}

function enrolmentText({ enrolment }: RelayStatusResult): string {
  if (!enrolment) return 'not yet';
  const { account, crowded, valid_until: until } = enrolment;
  return [
    `seen ${timeText(enrolment.checked_at)}`,
    ...(account === null ? [] : [`account ${account}`]),
    ...(until === null ? [] : [`until ${timeText(until)}`]),
    ...(enrolment.enc_key ? [] : ['encryption key not published yet']),
    ...(crowded ? ['many hosts have this name there'] : []),
  ].join(', ');
}

function sendersText({ enrolment, relay }: RelayStatusResult): string {
  if (relay?.protocol === 1) return 'not in v1: it takes mail of every host';
  const senders = enrolment?.senders;
  return senders
    ? `${senders.count} keys of paired hosts, published ${timeText(senders.checked_at)}`
    : 'not published yet';
}

function receivedText(status: RelayStatusResult): string {
  const { relay, received_through: through, head_seq: head, long_poll: isHeldBack } = status;
  if (isHeldBack !== null && relay?.protocol === 1) return 'by polling';
  const all = head !== null && head <= through ? 'everything that came' : 'not everything yet';
  const how = isHeldBack === null ? '' : isHeldBack ? ', by long poll' : ', by polling';
  return head === null ? 'not asked yet' : `${all}${how}`;
}
