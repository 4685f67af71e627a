/** `poste relay cluster init`: makes the tables of a shared log in an empty database. */
import { countText } from '../../host/core/spans.ts';
import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import { printable } from '../../protocol/printable.ts';
import { GRANTS } from '../../relay/shared-log/pg-statements.ts';
import { type LogState, copied } from '../../relay/shared-log/shared-log.ts';
import type { CommandContext } from '../lib/context.ts';
import { JSON_FLAG } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { type SharedLogFlags, withLogOptions, withSharedLog } from './shared-log-options.ts';

interface LogInitFlags extends SharedLogFlags {
  json?: boolean;
}

const NOTES = `
Run it once, as a user who may create tables, and again before the relays get a newer version: it adds what that needs. It
prints the statement that grants a user of relays their fewer rights. A relay makes the tables itself, if its user may.

Examples:
  $ poste relay cluster init --log postgres://owner@db.example/mail --log-password-file owner.password
  $ poste relay cluster init --log postgres://postgres@127.0.0.1/mail --durability single`;

export function clusterInitCommand(context: CommandContext): Command {
  return withLogOptions(context, new Command('init'))
    .option(...JSON_FLAG)
    .addHelpText('after', NOTES)
    .action(async (flags: LogInitFlags) => initLog(context, flags));
}

async function initLog(context: CommandContext, flags: LogInitFlags): Promise<void> {
  await withSharedLog(context, flags, async (log) => {
    const { state: before } = copied(await log.open());
    await log.initialise(randomUUID());
    const { state } = await log.open();
    if (!state) throw new Error('invariant: a log that was begun has a state');
    const isNew = before === undefined;
    const document = { log_id: state.logId, initialised: isNew, state: state.state, last_batch: state.lastNo };
    print(context, flags, document, () => initText(state, isNew));
  });
}

function initText({ logId, lastNo }: LogState, isNew: boolean): string {
  const what = isNew
    ? `The log ${logId} is ready.`
    : `The log ${logId} was begun before and has ${countText(lastNo, 'batch', 'batches')}; it has every table.`;
  return `${what}\nThe user of the relays needs these rights (put its name for relay):\n  ${printable(GRANTS('relay'))}\n`;
}
