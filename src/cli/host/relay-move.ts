/** `poste relay move`: leaves the first relay for another one, in steps that the daemon takes by itself. */
import { Command } from 'commander';
import type { RelayMoveStarted, RelayMoveView } from '../../host/contract/relay-move.ts';
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import type { CommandContext } from '../lib/context.ts';
import { ask, daemonCommand } from '../lib/daemon-call.ts';
import { formatFields } from '../lib/format.ts';
import { formatMoment, formatTime, type Screen } from '../lib/screen.ts';
import { foundText, relayCommand, relayInput, TRUST, withConsent } from './relay.ts';

const NOTES = `
The daemon goes on by itself, also after a restart:

  adding   it enrols at the new relay and waits until that works
  both     paired hosts learn of the new relay, which comes before the old
  told     every host showed that it knows
  leaving  paired hosts learn that the old relay is left
  closing  the old relay refuses mail for this host; what waits there is taken
  done     the old relay is not used any more

It closes the old relay when every host showed what it knows, nothing came there for 24 hours, and no message of yours
waits there. A host with older software shows nothing, nor does one that is away: after 7 days its owner gets one
message, in your name, with the new address. Such hosts hold the old relay for 60 days after its last item. Nothing is
lost on the way: what the old relay refuses waits at its sender, and goes over the new one.

Until it is closing you can cancel it: the old relay is the first again, and the new one stays the second if paired
hosts were told of it.

On a terminal this command shows the address and the fingerprint and asks you. Elsewhere it takes --key or --yes.

Examples:
  $ poste relay move https://relay2.example --key SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpKZIDTMczCvj3tD2s
  $ poste relay move status
  $ poste relay move cancel`;

export function relayMoveCommand(context: CommandContext): Command {
  const move = new Command('move').addHelpText('after', NOTES);
  relayCommand(context, 'to')
    .childOf(move, 'Move from the first relay of this host to another one.', { isDefault: true })
    .option('--yes', 'do not ask for confirmation')
    .notes('\nExample:\n  $ poste relay move to https://relay2.example')
    .answers(async (url, flags) => {
      const input = await relayInput(context, url, flags);
      return withConsent(context, flags, {
        take: (more) => ask(context, 'relay-move', { ...input, ...more }, flags),
        shown: moveQuestion,
        question: ({ from }) => `Leave ${printable(from.url)} for it?`,
      });
    })
    .prints(({ move }, screen) => (move ? moveText(screen, move) : ''));
  daemonCommand(context, 'status')
    .childOf(move, 'Show how far the move is, or how the last one ended.')
    .notes('\nExample:\n  $ poste relay move status --json')
    .answers((flags) => ask(context, 'relay-move-status', {}, flags))
    .prints(({ move }, screen) => (move ? moveText(screen, move) : 'This host moves to no other relay.\n'));
  daemonCommand(context, 'cancel')
    .childOf(move, 'Stay at the old relay.')
    .notes('\nExample:\n  $ poste relay move cancel')
    .answers((flags) => ask(context, 'relay-move-cancel', {}, flags))
    .prints(({ move: { from, to }, kept }) => {
      const other = `Paired hosts may know ${printable(to.url)}: it stays in use. poste relay remove lets it go.\n`;
      return `This host stays at ${printable(from.url)}.\n${kept ? other : ''}`;
    });
  return move;
}

/** Shown before the owner is asked. */
export function moveQuestion({ relay, trust }: RelayMoveStarted): string {
  return `${foundText(relay)}${TRUST[trust]}
Paired hosts learn that you take mail there. Its operator sees when this host is there and from which address, and of
each message that goes there the addresses, subject, size and time, never the body.
`;
}

const STEPS: Readonly<Record<RelayMoveView['state'], string>> = {
  adding: 'the new relay does not work yet',
  both: 'paired hosts are told of the new relay',
  told: 'every paired host was told',
  leaving: 'paired hosts are told that the old relay is left',
  closing: 'the old relay is closed, and what waits there is taken',
  done: 'the old relay is not used any more',
};

export function moveText(screen: Screen, move: RelayMoveView): string {
  const { state, from, to, since, waiting_for: hosts, written_to: written, held, last_item_at: last } = move;
  const isOver = state === 'done';
  const rows = [
    ['from', from.url],
    ['to', `${to.url}, ${to.fingerprint}`],
    ['state', `${state}: ${STEPS[state]}`],
    ['since', formatTime(screen, since)],
    hosts.length > 0 && ['waits for', hosts.join(', ')],
    written.length > 0 && ['written to', `the owners of ${written.join(', ')}`],
    !isOver && last !== null && ['last item', `${formatTime(screen, last)}, at the old relay`],
    !isOver && held > 0 && ['unconfirmed', `${countText(held, 'message')} at the old relay`],
    move.next_at !== null && ['next step', `${formatMoment(screen, move.next_at)} at the earliest`],
  ];
  return formatFields(rows, 13);
}
