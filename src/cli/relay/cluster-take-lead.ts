/** `poste relay cluster take-lead`: a relay that follows a shared log takes the lead from the one that has it. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import type { Command } from 'commander';
import { suggestions } from '../../host/core/suggestions.ts';
import { printable } from '../../protocol/printable.ts';
import { phaseOf, whyNotServed } from '../../relay/shared-log/log-phase.ts';
import { NODE_FILE } from '../../relay/shared-log/open-view.ts';
import { type LogState, type SharedLog, copied } from '../../relay/shared-log/shared-log.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { formatLines } from '../lib/format.ts';
import { print } from '../lib/output.ts';
import { type SharedLogFlags, withLogOptions, withSharedLog } from './shared-log-options.ts';
import { folderRefused } from '../../relay/store/refused.ts';
import { relayCommand, type RelayFlags } from './relay-command.ts';

/** A relay that lives notes itself more often. */
const SEEN_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 50;
/** The relay that leads finishes its requests first, and that may take 20 s. */
const TAKEN_WITHIN_MS = 40_000;

interface TakeLeadFlags extends SharedLogFlags, RelayFlags {
  node?: string;
}

const NOTES = `
Give it on the machine of the relay that is to lead, or name that relay with --node. The one that leads finishes its requests
and follows; no process ends. Hosts are refused for a moment, and try again.

Examples:
  $ poste relay cluster take-lead --store-dir /var/lib/poste --log postgres://relay@db.example/mail
  $ poste relay cluster take-lead --node alpha-0c1d2e3f --json`;

export function clusterTakeLeadCommand(context: CommandContext): Command {
  return withLogOptions(context, relayCommand(context, 'take-lead'))
    .option('--node <name>', 'its name, when its folder is on another machine')
    .addHelpText('after', NOTES)
    .action(async (flags: TakeLeadFlags) => takeLead(context, flags));
}

async function takeLead(context: CommandContext, flags: TakeLeadFlags): Promise<void> {
  await withSharedLog(context, flags, async (log) => {
    const name = flags.node ?? (await nodeOf(resolve(flags.storeDir)));
    const before = await askForLead(log, name);
    await waitForLead(log, name, before);
    print(context, flags, { leader: name, before: before.holder }, () => formatLines([`${name} leads.`]));
  });
}

async function nodeOf(storeDir: string): Promise<string> {
  const name = await readFile(join(storeDir, NODE_FILE), 'utf8').catch((error: unknown) => {
    const refused = folderRefused(storeDir, error);
    if (refused) throw refused;
    return '';
  });
  if (name.trim() !== '') return name.trim();
  throw new CommandFailed(
    'notFound',
    'NO_NODE',
    `${storeDir} is no folder of a relay with a shared log: name one with --store-dir, or a relay with --node`,
  );
}

/** Asks for the lead, unless the node of that name has it; returns the row as it was. */
async function askForLead(log: SharedLog, name: string): Promise<LogState> {
  const { state, nowMs } = copied(await log.open());
  if (!state)
    throw new CommandFailed(
      'notFound',
      'NO_LOG',
      'nobody has begun a log in this database: start a relay with --log, or move one there with poste relay cluster publish',
    );
  const why = whyNotServed(phaseOf(state.state));
  if (why !== undefined) throw new CommandFailed('refused', 'LOG_REFUSED', why);
  if (leads(state, name)) return state;
  const present = (await log.nodes(state.logId)).filter(({ seenMs }) => nowMs - seenMs <= SEEN_WITHIN_MS);
  const names = present.map((node) => node.name);
  if (!names.includes(name))
    throw new CommandFailed(
      'refused',
      'NODE_AWAY',
      `the relay ${printable(name)} does not follow the log now: start it first${didYouMean(name, names)}`,
    );
  await log.want(state.logId, name);
  return state;
}

/** Resolves when the node of that name leads. */
async function waitForLead(log: SharedLog, name: string, before: LogState): Promise<void> {
  for (const untilMs = performance.now() + TAKEN_WITHIN_MS; performance.now() < untilMs; ) {
    const { state } = await log.open();
    if (state && leads(state, name)) return;
    // Who takes the lead ends every wish for it.
    if (state && !state.isFree && state.tenure !== before.tenure && state.wantedBy !== name)
      throw new CommandFailed(
        'temporary',
        'LEAD_TAKEN',
        `the relay ${state.holder} took the lead meanwhile, and not ${name}: give the command again if ${name} is to lead`,
      );
    await elapsed(LOOK_EVERY_MS);
  }
  throw new CommandFailed('temporary', 'LEAD_NOT_TAKEN', `the relay ${name} did not take the lead: its log says why`);
}

function didYouMean(name: string, names: readonly string[]): string {
  const near = suggestions(name, names);
  if (near.length > 0) return ` (did you mean ${near.join(' or ')}?)`;
  return names.length === 0 ? '' : ` (these do: ${names.join(', ')})`;
}

function leads({ holder, isFree }: LogState, name: string): boolean {
  return holder === name && !isFree;
}
