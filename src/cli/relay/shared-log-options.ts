/** The place where a relay keeps its log when not in its store: `--log`, `MAIL_RELAY_LOG`, and what belongs to them. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { LEASE_MS } from '../../relay/shared-log/leadership.ts';
import { type LogEndpoint, logEndpoints, shownAddress } from '../../relay/shared-log/log-address.ts';
import type { SharedLogOptions } from '../../relay/shared-log/node-options.ts';
import type { Durability } from '../../relay/shared-log/durability.ts';
import { PostgresLog } from '../../relay/shared-log/postgres-log.ts';
import { LogRefused, type SharedLog } from '../../relay/shared-log/shared-log.ts';
import type { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { usageFailure } from '../lib/exit.ts';
import { jsonLine } from '../lib/format.ts';
import { givenText } from '../lib/input.ts';
import { flagOf, optionOf, SETTINGS, type ServeFlags } from './settings.ts';

/** The flags that belong to `--log`. */
const LOG_FLAGS = ['logPasswordFile', 'durability', 'leaseSeconds', 'snapshotBatches', 'acceptSettings'] as const;

type SharedLogFlags = Pick<ServeFlags, 'log' | (typeof LOG_FLAGS)[number]>;

/** `--log`, and what every command with it takes. */
export function withLogOptions<Flags extends object>(context: CommandContext, draft: CommandDraft<[], Flags>) {
  warningOfPassword(context, draft.command);
  return draft.takes<SharedLogFlags>(optionOf('log'), optionOf('logPasswordFile'), optionOf('durability'));
}

/** A command with `--log` that warns when the password stands there. */
export function warningOfPassword({ stderr }: CommandContext, command: Command): Command {
  return command.hook('preAction', () => {
    const warning = passwordWarning(command);
    if (warning === undefined) return;
    stderr.write(command.opts<{ json?: boolean }>().json ? jsonLine({ warning }) : `poste: warning: ${warning}.\n`);
  });
}

/** Warns of a password that stands on the command line: of none in the environment or a file. */
export function passwordWarning(command: Command): string | undefined {
  const { log = '' } = command.opts<SharedLogFlags>();
  if (command.getOptionValueSource('log') !== 'cli' || shownAddress(log)?.isWhole !== false) return undefined;
  return (
    'the password in --log is shown to every user of this machine: put it into a file, and name that with ' +
    '--log-password-file'
  );
}

interface LogPlace {
  endpoints: LogEndpoint[];
  /** The same, with what the password file holds then. */
  currentEndpoints: () => Promise<LogEndpoint[]>;
  durability: Durability;
}

/** The place of the log; `undefined` when neither flags nor environment name one. Throws `CommandFailed`. */
export async function sharedLogPlace(context: CommandContext, flags: SharedLogFlags): Promise<LogPlace | undefined> {
  const address = flags.log ?? context.env['MAIL_RELAY_LOG'];
  if (address === undefined || address === '') {
    refuseIdle(flags, LOG_FLAGS, '--log');
    return undefined;
  }
  const { logPasswordFile: file, durability = 'standby' } = flags;
  const currentEndpoints = async (): Promise<LogEndpoint[]> => {
    const password = file === undefined ? undefined : await passwordIn(context, file);
    try {
      return logEndpoints(address, password);
    } catch (error) {
      throw error instanceof LogRefused ? usageFailure(error.message) : error;
    }
  };
  return { endpoints: await currentEndpoints(), currentEndpoints, durability };
}

/** The log that the flags or the environment name; `undefined` when they name none. Throws `CommandFailed`. */
export async function sharedLogOf(
  context: CommandContext,
  flags: SharedLogFlags,
): Promise<SharedLogOptions | undefined> {
  const place = await sharedLogPlace(context, flags);
  return (
    place && {
      log: new PostgresLog(place),
      durability: place.durability,
      leaseMs: flags.leaseSeconds === undefined ? LEASE_MS : flags.leaseSeconds * 1000,
      acceptsSettings: flags.acceptSettings ?? false,
      ...(flags.snapshotBatches !== undefined && { snapshotDue: [{ batches: flags.snapshotBatches, ageMs: 0 }] }),
    }
  );
}

/** Throws `CommandFailed` when neither the flags nor the environment name a log. */
export async function neededLog(context: CommandContext, flags: SharedLogFlags): Promise<SharedLogOptions> {
  const shared = await sharedLogOf(context, flags);
  if (shared) return shared;
  throw usageFailure('name the database of the log with --log, or in MAIL_RELAY_LOG');
}

/** Lets `use` work with the log that the flags or the environment name, and closes it. Throws `CommandFailed`. */
export async function withSharedLog<T>(
  context: CommandContext,
  flags: SharedLogFlags,
  use: (log: SharedLog) => Promise<T>,
): Promise<T> {
  const { log } = await neededLog(context, flags);
  try {
    return await use(log);
  } finally {
    await log.close();
  }
}

/** Throws `CommandFailed` when one of these is set, which has no effect without `needed`. */
export function refuseIdle(flags: Partial<ServeFlags>, names: readonly (keyof ServeFlags)[], needed: string): void {
  const idle = names.find((name) => flags[name] !== undefined && flags[name] !== false);
  if (idle === undefined) return;
  throw usageFailure(`${flagOf(SETTINGS[idle].flags)} has no effect without ${needed}`);
}

async function passwordIn(context: CommandContext, file: string): Promise<string> {
  const path = resolve(file);
  const advice = 'name one that you can read with --log-password-file';
  const text = await givenText(context, path, { code: 'PASSWORD_FILE', what: `the password file ${path}`, advice });
  return text.replace(/\r?\n$/, '');
}
