/** `poste relay log take-lead`: a relay that follows a shared log takes the lead from the one that has it. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { Command } from 'commander';
import { NODE_FILE } from '../../relay/shared-log/open-view.ts';
import { type LogState, type SharedLog, copied } from '../../relay/shared-log/shared-log.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { jsonLine } from '../lib/format.ts';
import {
  type SharedLogFlags,
  durabilityOption,
  logFailure,
  logOption,
  logPasswordFileOption,
  sharedLogOf,
} from './shared-log-options.ts';
import { type StoreDirFlags, storeDirOption } from './store-dir.ts';

/** A relay that lives notes itself more often. */
const SEEN_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 50;
/** The relay that leads finishes its requests first, and that may take 20 s. */
const TAKEN_WITHIN_MS = 40_000;

interface TakeLeadFlags extends SharedLogFlags, StoreDirFlags {
  node?: string;
  json?: boolean;
}

const NOTES = `
Give it on the machine of the relay that is to lead, or name that relay with --node. The one that leads finishes its requests,
gives the lead back and follows; no process ends. Hosts are refused for a moment meanwhile, and try again.

Environment:
  MAIL_RELAY_LOG  the address of the log, instead of --log

Examples:
  $ poste relay log take-lead --store-dir /var/lib/poste --log postgres://relay@db.example/mail --log-password-file log.password
  $ poste relay log take-lead --node alpha-0c1d2e3f --json`;

export function relayLogTakeLeadCommand(context: CommandContext): Command {
  return new Command('take-lead')
    .addOption(storeDirOption('the store folder of the relay that is to lead'))
    .option('--node <name>', 'its name, when its folder is on another machine')
    .addOption(logOption())
    .addOption(logPasswordFileOption())
    .addOption(durabilityOption())
    .option('--json', 'print one JSON document')
    .addHelpText('after', NOTES)
    .action(async (flags: TakeLeadFlags) => takeLead(context, flags));
}

async function takeLead(context: CommandContext, flags: TakeLeadFlags): Promise<void> {
  const shared = await sharedLogOf(context, flags);
  if (!shared)
    throw new CommandFailed('usage', 'USAGE', 'name the database of the log with --log, or in MAIL_RELAY_LOG');
  try {
    const name = flags.node ?? (await nodeOf(resolve(flags.storeDir)));
    const before = await leaderFor(shared.log, name);
    await taken(shared.log, name);
    const document = { leader: name, before };
    context.stdout.write(flags.json ? jsonLine(document) : `${name} leads.\n`);
  } catch (error) {
    throw logFailure(error);
  } finally {
    await shared.log.close();
  }
}

async function nodeOf(storeDir: string): Promise<string> {
  const name = await readFile(join(storeDir, NODE_FILE), 'utf8').catch(() => '');
  if (name.trim() !== '') return name.trim();
  throw new CommandFailed(
    'notFound',
    'NO_NODE',
    `${storeDir} is no folder of a relay with a shared log: name one with --store-dir, or a relay with --node`,
  );
}

/** Asks for the lead, unless the node of that name has it; returns who had it. */
async function leaderFor(log: SharedLog, name: string): Promise<string> {
  const { state, nowMs } = copied(await log.open());
  if (!state)
    throw new CommandFailed(
      'notFound',
      'NO_LOG',
      'nobody has begun a log in this database: start a relay with --log, or move one there with poste relay log publish',
    );
  if (leads(state, name)) return state.holder;
  const seen = (await log.nodes(state.logId)).find((node) => node.name === name);
  if (!seen || nowMs - seen.seenMs > SEEN_WITHIN_MS)
    throw new CommandFailed('refused', 'NODE_AWAY', `the relay ${name} does not follow the log now: start it first`);
  await log.want(state.logId, name);
  return state.holder;
}

async function taken(log: SharedLog, name: string): Promise<void> {
  for (const untilMs = performance.now() + TAKEN_WITHIN_MS; performance.now() < untilMs; ) {
    const { state } = await log.open();
    if (state && leads(state, name)) return;
    await elapsed(LOOK_EVERY_MS);
  }
  throw new CommandFailed('temporary', 'LEAD_NOT_TAKEN', `the relay ${name} did not take the lead: its log says why`);
}

function leads({ holder, isFree }: LogState, name: string): boolean {
  return holder === name && !isFree;
}
