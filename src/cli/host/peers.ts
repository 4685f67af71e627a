/** `poste peer`: pairs this host with others, and shows, moves and removes those. */
import { Command } from 'commander';
import { INVITE_MS, PAIR_WAIT_MS_MAX } from '../../host/contract/limits.ts';
import type { InviteResult, PairWaitResult, PeerView } from '../../host/contract/peers.ts';
import { confirm, confirmed, dropTyped, isInteractive, secretGiven } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, type DaemonFlags, daemonCommand } from '../lib/daemon-call.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatLines } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { formatMoment, formatTime, type Screen, screenOf } from '../lib/screen.ts';
import { table } from '../lib/table.ts';
import { fingerprintMeant, isFingerprintStart } from '../lib/short-id.ts';
import { lanAddress } from '../lib/values.ts';
import { elsewhereLines } from './relay-list.ts';

/** The other host answers when its owner has confirmed the pairing, at most when the code ends; and may be slow. */
const ACCEPT_SILENCE_MS = INVITE_MS + 90_000;

const NOTES = `
One host invites; the other accepts, with the code and the address of the first. A code pairs one host within ten
minutes. The command that invites shows which host came with the code, and asks you to confirm its fingerprint, which
the other command shows. Give the code where nobody else can read it, and never on a command line, which every user of a
machine can read.

Name a host by its name or its fingerprint (SHA256:...). Poste learns the new address of a host when that host connects.
If neither host can reach the other any more, set the address yourself.

Examples:
  $ poste peer invite
  $ poste peer accept 192.168.1.7:8789
  $ poste peer
  $ poste peer address laptop 192.168.1.9:8789
  $ poste peer remove laptop`;

export function peerCommand(context: CommandContext): Command {
  const peer = new Command('peer').addHelpText('after', NOTES);
  daemonCommand(context, 'invite')
    .childOf(peer, 'Print a code that lets one host pair with this one.')
    .option('--fingerprint <fingerprint>', 'the host that will accept; without it you confirm the host that came')
    .notes(INVITE_NOTES)
    .action(async ({ fingerprint, ...flags }) => {
      if (fingerprint === undefined && !isInteractive(context)) {
        const message =
          'there is no terminal to confirm the other host on: ' +
          'name it with --fingerprint, as poste status shows it there';
        throw new CommandFailed('usage', 'NOT_CONFIRMED', message);
      }
      const named = fingerprint === undefined ? {} : { fingerprint };
      const invitation = await ask(context, 'pair-invite', named, flags);
      print(context, flags, invitation, () => invitationText(screenOf(context), invitation));
      if (fingerprint !== undefined) return;
      const peer = await confirmedPeer(context, invitation, flags);
      print(context, flags, peer, () => pairedText(peer));
    });
  daemonCommand(context, 'accept')
    .childOf(peer, 'Pair with the host that printed the code.')
    .argument('<address>', 'where that host listens, host:port', lanAddress)
    .notes(ACCEPT_NOTES)
    .answers(async (address, flags) => {
      const code = await secretGiven(context, 'the code');
      if (!flags.json) {
        const { fingerprint } = await ask(context, 'status', {}, flags);
        context.stderr.write(`This host is ${fingerprint}. The other one waits until its owner has confirmed that.\n`);
      }
      return ask(context, 'pair-accept', { code, address }, flags, { silenceMs: ACCEPT_SILENCE_MS });
    })
    .prints(pairedText);
  daemonCommand(context, 'list')
    .childOf(peer, 'List the paired hosts.', { isDefault: true })
    .notes('\nExample:\n  $ poste peer list --json')
    .answers((flags) => ask(context, 'peers', {}, flags))
    .prints(({ peers }, screen) => peerTable(screen, peers));
  daemonCommand(context, 'address')
    .childOf(peer, 'Set the address of a paired host.')
    .argument('<host>', 'its name or fingerprint, or the first characters of that')
    .argument('<address>', 'host:port', lanAddress)
    .notes('\nExample:\n  $ poste peer address laptop 192.168.1.9:8789')
    .answers(async (text, address, flags) => {
      return ask(context, 'peer-address', { host: await peerMeant(context, text, flags), address }, flags);
    })
    .prints(({ host, address }) => `${host} is now at ${address}.\n`);
  daemonCommand(context, 'remove')
    .childOf(peer, 'End the pairing with a host.')
    .argument('<host>', 'its name or fingerprint, or the first characters of that')
    .option('--yes', 'do not ask for confirmation')
    .notes(REMOVE_NOTES)
    .answers(async (text, flags) => {
      const host = await peerMeant(context, text, flags);
      const stake = 'unpairing cancels the mail that waits for that host';
      await confirmed(context, `Unpair ${host}? The mail that waits for it is cancelled.`, { ...flags, stake });
      return ask(context, 'unpair', { host }, flags);
    })
    .prints(({ host }) => `This host is not paired with ${host} any more.\n`);
  return peer;
}

const INVITE_NOTES = `
It waits for the host that accepts, and asks you to confirm it; any other answer than yes makes the code void, as
somebody else has it. With --fingerprint it prints the code and ends: that host alone is paired, when it accepts. poste
status shows the fingerprint of a host.

Examples:
  $ poste peer invite
  $ poste peer invite --fingerprint SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y --json`;

/** Waits for the host that comes with the code, and pairs with it when its owner says so. */
async function confirmedPeer(context: CommandContext, { code }: InviteResult, flags: DaemonFlags): Promise<PeerView> {
  context.stderr.write('Waiting for the host that accepts. Ctrl-c makes the code void.\n');
  let acceptor: PairWaitResult['acceptor'] = null;
  while (!acceptor) ({ acceptor } = await ask(context, 'pair-wait', { code, wait_ms: PAIR_WAIT_MS_MAX }, flags));
  const { host, fingerprint, address } = acceptor;
  const from = address === null ? '' : `, from ${address}`;
  context.stderr.write(`${host} came with the code${from}:\n  fingerprint  ${fingerprint}\n`);
  try {
    await dropTyped(context);
    await confirm(context, `Pair with ${host}, if it shows this fingerprint there? Else the code is void.`);
  } catch (error) {
    await ask(context, 'pair-decline', { code }, flags);
    throw error;
  }
  return ask(context, 'pair-confirm', { code, fingerprint }, flags);
}

const ACCEPT_NOTES = `
It asks for the code; without a terminal it reads standard input. Then it waits until the owner of the other host has
confirmed this one.

Examples:
  $ poste peer accept 192.168.1.7:8789
  $ poste peer accept 192.168.1.7:8789 < code.txt`;

function invitationText(
  screen: Screen,
  { code, expires_at, addresses, fingerprint, voids_earlier }: InviteResult,
): string {
  const [address = ''] = addresses;
  const others = addresses.slice(1).map((other) => `  or at        ${other}\n`);
  return [
    `On the other host, until ${formatMoment(screen, expires_at)}, and once:\n`,
    `  poste peer accept ${address}\n`,
    ...others,
    'It asks for the code:\n',
    `  ${code}\n`,
    `This host is ${fingerprint}.\n`,
    ...(voids_earlier ? ['The code that you printed before is void now.\n'] : []),
  ].join('');
}

function pairedText({ host, fingerprint, address }: PeerView): string {
  return `Paired with ${host}.\n  fingerprint  ${fingerprint}\n  address      ${address ?? 'unknown'}\n`;
}

/** A paired host as the daemon takes it: by its name, or by its whole fingerprint. */
async function peerMeant(context: CommandContext, text: string, flags: DaemonFlags): Promise<string> {
  if (!isFingerprintStart(text)) return text;
  return fingerprintMeant(text, (await ask(context, 'peers', {}, flags)).peers);
}

function peerTable(screen: Screen, peers: readonly PeerView[]): string {
  if (peers.length === 0) return 'This host is not paired with any host: see poste peer --help.\n';
  const listed = table<PeerView>(screen, peers, [
    { title: 'HOST', cell: ({ host }) => host },
    { title: 'ADDRESS', cell: ({ address }) => address ?? '-' },
    {
      title: 'REACHED',
      cell: (peer) => reachedText(screen, peer),
      style: ({ lan_failures }) => (lan_failures === 0 ? 'green' : 'yellow'),
    },
    { title: 'AGENTS', cell: ({ agents }) => (agents === null ? '-' : String(agents)), isNumber: true },
    { title: 'PAIRED', time: ({ paired_at }) => paired_at },
    { title: 'FINGERPRINT', id: ({ fingerprint }) => fingerprint },
    { title: 'OUR KEY', cell: ({ knows_our_key }) => (knows_our_key ? 'known' : 'not known') },
  ]);
  return `${listed}${formatLines(peers.flatMap(elsewhereLines))}`;
}

function reachedText(screen: Screen, { reached_at, lan_failures }: PeerView): string {
  const reached = reached_at === null ? 'never' : formatTime(screen, reached_at);
  return lan_failures === 0 ? reached : `${reached}, ${lan_failures} failed since`;
}

const REMOVE_NOTES = `
Mail that waits for the host is not sent, and its senders are notified. Mail from the host goes into quarantine. The
other host is not notified: remove this one there too. To pair again you need a new code.

Examples:
  $ poste peer remove laptop
  $ poste peer remove --yes SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y`;
