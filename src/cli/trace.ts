/** `poste trace`: everything that is known of one message, from the outbox to the receipts, the relay's proof included. */
import { Command } from 'commander';
import { countText } from '../host/core/doctor/words.ts';
import { type DaemonFlags, ask, withDaemonFlags } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { jsonLine } from './text.ts';
import { type CheckedRow, checkRow } from './trace-proof.ts';
import { traceText } from './trace-text.ts';

const NOTES = `
Of a message that was sent here: each row of the outbox, the receipt of the relay that took it, the relay's proof that
it is in its log, verified as poste relay log check-proof does, and what each recipient confirmed. Of one that came:
from whom, over which way, who has it, and the receipts that were sent. A relay that cannot be reached hides nothing of
the rest; a proof that does not verify ends the command with 1.

Times are those of the host that each thing happened on: clocks may differ.

Examples:
  $ poste trace 06EXAMPLE0000000000000000
  $ poste trace 06EXAMPLE0000000000000000 --json`;

export function traceCommand(): Command {
  const command = new Command('trace')
    .description('Follow one message across outbox, relay, receiver and receipts.')
    .argument('<message-id>', 'its id, here or at its sender');
  return withDaemonFlags(command, 'print it as one JSON document')
    .addHelpText('after', NOTES)
    .action(async (messageId: string, flags: DaemonFlags) => {
      const trace = await ask('trace', { message_id: messageId }, flags);
      const checked = trace.rows.map(checkRow);
      const rows = trace.rows.map((row, at) => ({ ...row, checked: checked[at] }));
      process.stdout.write(flags.json ? jsonLine({ ...trace, rows }) : traceText(trace, checked));
      refuseUnproven(checked);
    });
}

function refuseUnproven(checked: readonly CheckedRow[]): void {
  const reasons = checked.flatMap((one) => (one.state === 'failed' ? [one.reason] : []));
  if (reasons.length === 0) return;
  const rows = `${countText(reasons.length, 'row')} ${reasons.length === 1 ? 'is' : 'are'}`;
  throw new CommandFailed('failure', 'NOT_VERIFIED', `${rows} not proven: ${reasons.join('; ')}`, { reasons });
}
