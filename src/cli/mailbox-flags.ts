/** What commands that read a mailbox share: whose it is, `--as` or the owner's own, and pages of it. */
import type { Command } from 'commander';
import { type ActingFlags, withActingFlags } from './daemon-call.ts';
import { CommandFailed } from './exit.ts';
import { wholeNumber } from './values.ts';

export interface MailboxFlags extends ActingFlags {
  owner?: boolean;
}

export interface PageFlags {
  limit?: number;
  cursor?: string;
}

/** `--owner` beside `--as`, `--start` and `--json`. */
export function withMailboxFlags(command: Command): Command {
  const ours = command.option('--owner', 'your own mailbox').hook('preAction', refuseTwoNames);
  return withActingFlags(ours, 'print the answer as one JSON document');
}

/** `--limit` and `--cursor`. */
export function withPageFlags(command: Command): Command {
  return command
    .option('--limit <n>', 'at most so many', wholeNumber(1))
    .option('--cursor <cursor>', 'go on after an earlier answer');
}

/** In whose name the daemon is asked. */
export function actingFlagsOf({ owner, ...flags }: MailboxFlags): ActingFlags {
  return owner ? { ...flags, as: 'owner' } : flags;
}

/** The members that were given. */
export function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

/** `POSTE_AGENT` may be set where the owner asks for their own mail. */
function refuseTwoNames(command: Command): void {
  const { owner, web } = command.opts<MailboxFlags & { web?: boolean }>();
  if ((owner || web) && command.getOptionValueSource('as') === 'cli') {
    throw new CommandFailed('usage', 'USAGE', `${web ? '--web' : '--owner'} means your own mailbox: leave out --as`);
  }
}
