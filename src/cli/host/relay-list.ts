/** `poste relay list`, `remove` and `prefer`: the relays of a host that has several. */
import type { Command } from 'commander';
import type { RelayOfHost, RelayRemoveResult, RelayView } from '../../host/contract/relays.ts';
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, type DaemonFlags, daemonCommand } from '../lib/daemon-call.ts';
import type { Screen } from '../lib/screen.ts';
import { table } from '../lib/table.ts';
import { ownRelay } from '../lib/values.ts';

export function relayListCommand(context: CommandContext): Command {
  return daemonCommand(context, 'list')
    .notes('\nExamples:\n  $ poste relay list\n  $ poste relay list --json')
    .answers((flags) => ask(context, 'relay-list', {}, flags))
    .prints(({ relays }, screen) => relayListText(screen, relays));
}

const REMOVE_NOTES = `
This host takes what waits there for it first, for at most 30 seconds. Messages that only this relay had go over the
others. Paired hosts learn that it is gone with your next mail: what they put there meanwhile reaches you as a second
copy over another relay that you share, after an hour. The last home relay needs --last: after that only the LAN
reaches this host.

Examples:
  $ poste relay remove 2
  $ poste relay remove https://relay2.example`;

export function relayRemoveCommand(context: CommandContext): Command {
  return whichCommand(context, 'remove')
    .option('--last', 'also when it is the last home relay')
    .notes(REMOVE_NOTES)
    .answers((relay, flags) => ask(context, 'relay-remove', { relay, ...(flags.last && { last: true }) }, flags))
    .prints(removedText);
}

export function removedText({ relay, held_alone: alone, left_behind: left }: RelayRemoveResult): string {
  const moved =
    alone === 0
      ? ''
      : `${countText(alone, 'message')} lay only there and ${alone === 1 ? 'goes' : 'go'} elsewhere now.\n`;
  const behind =
    left === null
      ? 'It did not answer a last time: what waits there for this host stays there.\n'
      : left === 0
        ? ''
        : `${countText(left, 'item')} for this host still ${left === 1 ? 'waits' : 'wait'} there.\n`;
  return `This host does not use ${printable(relay.url)} any more.\n${moved}${behind}`;
}

const PREFER_NOTES = `
It becomes relay 1: mail goes over it where the other host uses it and does not prefer another one, and paired hosts
learn that you prefer mail there.

Example:
  $ poste relay prefer 2`;

export function relayPreferCommand(context: CommandContext): Command {
  return whichCommand(context, 'prefer')
    .notes(PREFER_NOTES)
    .answers((relay, flags) => ask(context, 'relay-prefer', { relay }, flags))
    .prints(({ relays }, screen) => relayListText(screen, relays));
}

function whichCommand(context: CommandContext, name: string): CommandDraft<[string], DaemonFlags> {
  const about = 'its number, as poste relay list shows it, or its URL';
  return daemonCommand(context, name).argument('<relay>', about, ownRelay);
}

/** A line for each relay, without titles. */
export function relayListText(screen: Screen, relays: readonly RelayView[]): string {
  if (relays.length === 0) return 'No relay is set: choose one with poste relay set.\n';
  const listed = table<RelayView>(screen, relays, [
    { title: '', cell: ({ number }) => String(number) },
    { title: '', cell: ({ relay }) => relay.url },
    { title: '', cell: ({ role }) => role },
    { title: '', cell: stateText, style: (view) => (isWell(view) ? 'green' : 'red') },
    { title: '', id: ({ relay }) => relay.fingerprint },
    { title: '', cell: (view) => notesOf(view).join(', ') },
  ]);
  return listed.slice(listed.indexOf('\n') + 1);
}

function isWell({ state, is_down: isDown }: RelayView): boolean {
  return state === 'ready' && !isDown;
}

/** A relay that gave no answer for this long is not heard; of one that was silent for less the list has the state. */
export const UNHEARD_SECONDS = 300;

function stateText({ state, is_down: isDown, unheard_seconds: unheard }: RelayView): string {
  if (state === 'key-changed' || state === 'two-histories') return state;
  if (unheard >= UNHEARD_SECONDS) return `not heard ${shortSpan(unheard)}`;
  return isDown && state === 'ready' ? 'down' : state;
}

const UNITS = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'm'],
] as const;

/** `7 m`: one number in the largest unit that fits. */
function shortSpan(seconds: number): string {
  const [unit, name] = UNITS.find(([least]) => seconds >= least) ?? [1, 's'];
  return `${Math.floor(seconds / unit)} ${name}`;
}

function notesOf(view: RelayView): string[] {
  const { held, held_alone: alone, copies_at: at, heard_seconds: heard, long_poll: isLong, role, hosts } = view;
  const isHome = role === 'home';
  const guested = isHome || hosts.length === 0 ? [] : [`for ${hosts.join(', ')}`];
  if (isWell(view)) {
    const polled = isHome && isLong ? ['long poll'] : [];
    return [...polled, ...(isHome && heard !== null ? [`heard ${shortSpan(heard)} ago`] : []), ...guested];
  }
  const copied = held - alone;
  const copies = copied === 1 ? 'has a second copy' : 'have second copies';
  return [
    ...guested,
    ...(copied > 0 ? [`${countText(copied, 'message')} there ${copies} at ${at.join(' and ')}`] : []),
    ...(alone > 0 ? [`${countText(alone, 'message')} there alone`] : []),
    ...(view.problem ? [view.problem.message] : []),
  ];
}

/** A line where a host takes mail, as it says, while this host uses no relay of it that works. */
export function elsewhereLines({ host, takes_mail_at: at }: { host: string; takes_mail_at?: RelayOfHost[] }): string[] {
  if (!at) return [];
  if (at.length === 0) return [`${host}: takes mail over the LAN alone`];
  const others = at.filter((one) => !one.is_shared).map(({ url, fingerprint }) => `${url} (${fingerprint})`);
  const lack = others.length === at.length ? 'no common relay' : 'no common relay works';
  return others.length === 0 ? [] : [`${host}: ${lack}; ${host} takes mail at ${others.join(', ')}`];
}
