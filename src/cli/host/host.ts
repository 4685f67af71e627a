/** `poste status` and `poste host`: the daemon of this host, and its name and key. */
import { setTimeout } from 'node:timers/promises';
import { Command } from 'commander';
import type { Check, StatusResult } from '../../host/contract/daemon.ts';
import { RELAY_STATE_TEXTS } from '../../host/contract/relay-states.ts';
import { countText, spanText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import { confirmed } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, type DaemonFlags, daemonCommand, startingNone } from '../lib/daemon-call.ts';
import { installedChecks } from './installed.ts';
import { elsewhereLines, UNHEARD_SECONDS } from './relay-list.ts';
import { formatFields, formatLines } from '../lib/format.ts';
import { formatTime, type Screen, type Style, applyStyle } from '../lib/screen.ts';
import { table } from '../lib/table.ts';
import { hostName } from '../lib/values.ts';

const STATUS_NOTES = `
Asks the daemon what it knows, and calls no other host: poste doctor does, and checks everything.

Examples:
  $ poste status
  $ poste status --json`;

export function statusCommand(context: CommandContext): Command {
  return startingNone(daemonCommand(context, 'status'))
    .notes(STATUS_NOTES)
    .answers(async (flags) => {
      const asked = await ask(context, 'status', {}, flags);
      const here = installedChecks(context).filter(({ state }) => state === 'broken');
      return { ...asked, problems: [...asked.problems, ...here] };
    })
    .prints((status, screen) => statusText(screen, status));
}

/** Like `tailscale status`: one look tells whether mail flows, and what to do where it does not. */
export function statusText(screen: Screen, status: StatusResult): string {
  const { host, version, pid, started_at, fingerprint, owner_unread, agents, peers, problems } = status;
  const lost = countText(status.log_lines_lost, 'line');
  const rows = [
    ['daemon', `${version}, process ${pid}, started ${formatTime(screen, started_at)}`],
    ['fingerprint', fingerprint],
    ['listener', listenerText(status)],
    ['page', pageText(status)],
    ['relay', relayText(status)],
    ['agents', `${agents}, and ${countText(owner_unread, 'unread message')} for you`],
    ['outbox', outboxText(status)],
    ['quarantine', status.quarantined === 0 ? 'empty' : countText(status.quarantined, 'item')],
    status.log_lines_lost > 0 && ['log', `${lost} lost: make room where it goes, or let its reader read`],
  ];
  const listed = peers.length === 0 ? 'Paired with no host: see poste peer --help.\n' : peerTable(screen, peers);
  const hosts = `${listed}${laneTexts(status)}`;
  return `Host ${host}\n${formatFields(rows, 12)}\n${hosts}${problems.map((one) => problemText(screen, one)).join('')}`;
}

function listenerText({ listener: { listen, port }, peers }: StatusResult): string {
  if (port !== null) return `up at port ${port}`;
  return peers.length === 0 ? `off, as no host is paired (${listen})` : `down: ${listen} cannot be listened at`;
}

function pageText({ page: { url, problem } }: StatusResult): string {
  if (problem !== null) return `down: ${problem}`;
  return url === null ? 'not open: poste inbox --web opens it' : `${url} (poste inbox --web signs you in)`;
}

function relayText({ relay, relays }: StatusResult): string {
  if (relays)
    return relays.map((one) => `${one.number} ${one.url} ${RELAY_STATE_TEXTS[one.state]}${silence(one)}`).join('; ');
  return relay ? `${relay.url} ${RELAY_STATE_TEXTS[relay.state]}` : 'none: where the LAN does not reach, mail waits';
}

type Relay = NonNullable<StatusResult['relays']>[number];

function silence({ unheard_seconds: seconds }: Relay): string {
  return seconds < UNHEARD_SECONDS ? '' : `, not heard for ${spanText(seconds * 1000)}`;
}

function outboxText({ outbox: { waiting, unconfirmed } }: StatusResult): string {
  if (waiting + unconfirmed === 0) return 'empty';
  return `${countText(waiting, 'message')} waiting, ${unconfirmed} taken and not confirmed yet`;
}

type Peer = StatusResult['peers'][number];

const REACH: Readonly<Record<Peer['reach'], { text: string; style: Style }>> = {
  lan: { text: 'LAN', style: 'green' },
  relay: { text: 'relay', style: 'green' },
  none: { text: 'not reached', style: 'red' },
  unknown: { text: 'not known yet', style: 'yellow' },
};

function peerTable(screen: Screen, peers: readonly Peer[]): string {
  return table<Peer>(screen, peers, [
    { title: 'HOST', cell: ({ host }) => host },
    { title: 'REACHED OVER', cell: ({ reach }) => REACH[reach].text, style: ({ reach }) => REACH[reach].style },
    { title: 'LAST SEEN ON THE LAN', time: ({ reached_at }) => reached_at },
    { title: 'WAITING', cell: ({ waiting }) => String(waiting), isNumber: true },
    { title: 'OLDEST', time: ({ oldest_at }) => oldest_at },
  ]);
}

/** A line for each host whose mail takes another relay than the first, or that takes mail where this host does not. */
function laneTexts({ peers, relays = [] }: StatusResult): string {
  const others = peers.filter(({ relay }) => relay && relay.number > 1);
  const width = Math.max(0, ...others.map(({ host }) => host.length));
  const lanes = others.map(({ host, relay, waiting }) => {
    const better = relays.filter(({ number }) => number < (relay?.number ?? 0)).map(lackText);
    const why = [new URL(relay?.url ?? '').host, ...better.filter((text) => text !== '')].join('; ');
    return `${host.padEnd(width)}   relay ${relay?.number} (${why})${waiting === 0 ? '' : `   ${waiting} waiting`}`;
  });
  return formatLines([...lanes, ...peers.flatMap(elsewhereLines)]);
}

function lackText({ number, state, is_down: isDown, unheard_seconds: seconds }: Relay): string {
  if (seconds >= UNHEARD_SECONDS) return `${number} is not heard for ${spanText(seconds * 1000)}`;
  if (state !== 'ready' && state !== 'two-histories') return `${number} ${RELAY_STATE_TEXTS[state]}`;
  return isDown ? `${number} is down` : '';
}

function problemText(screen: Screen, { sentence, command }: Check): string {
  const mend = command === null ? '' : formatLines([command], '    ');
  return `\n${applyStyle(screen, 'red', 'Broken:')} ${printable(sentence)}.\n${mend}`;
}

/** The time within which paired hosts may learn the new key. */
const TOLD_WITHIN_MS = 1_000;
const LOOK_AGAIN_MS = 100;

const ROTATE_NOTES = `
The old key signs the new one, so paired hosts accept it without pairing again. Hosts that answer learn the new key at
once; the others learn it when they answer, or from the relay with the next mail. This command lists the hosts that do
not know the new key yet, and poste doctor lists them until they do. Mail that was sealed for the old key can be read
for 60 days. Make a backup afterwards: an older one holds the old key, which no host accepts any more.

A relay that is away learns the new key when it answers. Until then it takes who has the old key for this host: with
--stolen, poste status and poste doctor report that as broken.

Examples:
  $ poste host rotate-key
  $ poste host rotate-key --stolen
  $ poste host rotate-key --yes --json`;

export function hostCommand(context: CommandContext): Command {
  const host = new Command('host').addHelpText(
    'after',
    '\nExamples:\n  $ poste host rename server\n  $ poste host rotate-key',
  );
  daemonCommand(context, 'rename')
    .childOf(host, 'Give this host another name, while it is paired with no host.')
    .argument('<name>', 'its new name', hostName)
    .notes(RENAME_NOTES)
    .answers((name, flags) => ask(context, 'rename-host', { name }, flags))
    .prints(({ host, former_host: former, renamed }) =>
      renamed
        ? `This host was ${former} and is ${host} now: its agents have the addresses agent@${host}.\n`
        : `This host is called ${host} already: nothing was changed.\n`,
    );
  daemonCommand(context, 'rotate-key')
    .childOf(host, 'Replace the key of this host, and tell paired hosts.')
    .option('--stolen', 'somebody else may have the old key: say which relays still go by it')
    .option('--yes', 'do not ask for confirmation')
    .notes(ROTATE_NOTES)
    .answers(async (flags) => {
      const stake = 'a new key cannot be undone';
      await confirmed(context, 'Give this host a new key? It never uses the old one again.', { ...flags, stake });
      const rotated = await ask(context, 'rotate-key', flags.stolen ? { stolen: true } : {}, flags);
      return { ...rotated, unaware: rotated.peers === 0 ? [] : await hostsNotTold(context, flags) };
    })
    .prints(({ peers, unaware, fingerprint }) => {
      const told = peers === 0 ? '' : `  paired hosts ${toldText(peers, unaware)}\n`;
      return `This host has a new key.\n  fingerprint  ${fingerprint}\n${told}`;
    });
  return host;
}

const RENAME_NOTES = `
The agents of this host have the addresses agent@name from then on. Messages that are here keep the addresses that they
came with, and replies to agents of this host find them all the same. A relay learns the new name when this host next
enrols: at once, unless the relay asks for a proof.

A host that is paired keeps its name, because the others know it by that name: unpair on both sides, rename, and pair
again. What is in quarantine is addressed to the former name and cannot be let in any more, so look at it first.

Examples:
  $ poste host rename server
  $ poste host rename server --json`;

/** The paired hosts that do not know the new key, once those that answer have been told. */
async function hostsNotTold(context: CommandContext, flags: DaemonFlags): Promise<string[]> {
  for (let waitedMs = 0; ; waitedMs += LOOK_AGAIN_MS) {
    const { peers } = await ask(context, 'peers', {}, flags);
    const unaware = peers.filter((peer) => !peer.knows_our_key).map(({ host }) => host);
    if (unaware.length === 0 || waitedMs >= TOLD_WITHIN_MS) return unaware;
    await setTimeout(LOOK_AGAIN_MS);
  }
}

function toldText(peers: number, unaware: readonly string[]): string {
  if (unaware.length === 0) return `${peers}, all of them know it`;
  return `${peers}, not told yet: ${unaware.join(', ')}. They learn it over the LAN when they answer, or
               from the relay with the next mail. poste doctor lists those that do not know it.`;
}
