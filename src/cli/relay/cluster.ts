/** `poste relay cluster`: makes a shared log, hands its lead over, and moves a log into PostgreSQL and back. */
import { countText } from '../../host/core/spans.ts';
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { printable } from '../../protocol/printable.ts';
import { GRANTS } from '../../relay/shared-log/pg-statements.ts';
import { copied, type LogState, type SharedLog } from '../../relay/shared-log/shared-log.ts';
import { CommandDraft, type FlagsOf } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { formatLines, JSON_FLAG } from '../lib/format.ts';
import { atWork, print } from '../lib/output.ts';
import { neededLog, withLogOptions, withSharedLog } from './shared-log-options.ts';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as elapsed } from 'node:timers/promises';
import { suggestions } from '../../host/core/suggestions.ts';
import { phaseOf, whyNotServed } from '../../relay/shared-log/log-phase.ts';
import { NODE_FILE } from '../../relay/shared-log/open-view.ts';
import { CommandFailed } from '../lib/exit.ts';
import { folderRefused, StoreRefused, unusableStore } from '../../relay/store/refused.ts';
import { deployKey, newEpoch, relayCommand, type RelayFlags, requireIdle, withKeyOptions } from './relay-command.ts';
import { existsSync } from 'node:fs';
import { softwareVersion } from '../../lib/package-root.ts';
import { systemClock, systemTimers } from '../../lib/clock.ts';
import type { Signer } from '../../protocol/ed25519.ts';
import type { MoveOptions } from '../../relay/shared-log/move-log.ts';
import { abortPublish, type PublishReport, publishStore } from '../../relay/shared-log/publish.ts';
import { withdrawLog } from '../../relay/shared-log/withdraw.ts';
import { readRelayKey, RELAY_KEY_FILE } from '../../relay/store/relay-key.ts';
import { confirmation } from '../lib/input.ts';
import { commandLog } from '../lib/log.ts';
import { withoutUndefined } from '../lib/values.ts';

const INIT_NOTES = `
Run it once, as a user who may create tables, and again before the relays get a newer version: it adds what that
needs. It prints the statement that grants a user of relays their fewer rights. A relay makes the tables itself, if
its user may.

Examples:
  $ poste relay cluster init --log postgres://owner@db.example/mail --log-password-file owner.password
  $ poste relay cluster init --log postgres://postgres@127.0.0.1/mail --durability single`;

export function clusterInitCommand(context: CommandContext): Command {
  return withLogOptions(context, new CommandDraft(context, 'init'))
    .option(...JSON_FLAG)
    .notes(INIT_NOTES)
    .action((flags) =>
      // Begins the log in this database if nobody has, and shows the log that is there then.
      withSharedLog(context, flags, async (log) => {
        const { state: before } = copied(await log.open());
        await log.initialise(randomUUID());
        const { state } = await log.open();
        if (!state) throw new Error('invariant: a log that was begun has a state');
        const isNew = before === undefined;
        const document = { log_id: state.logId, initialised: isNew, state: state.state, last_batch: state.lastNo };
        print(context, flags, document, () => initText(state, isNew));
      }),
    );
}

function initText({ logId, lastNo }: LogState, isNew: boolean): string {
  const what = isNew
    ? `The log ${logId} is ready.`
    : `The log ${logId} was begun before and has ${countText(lastNo, 'batch', 'batches')}; it has every table.`;
  const needs = 'The user of the relays needs these rights (put its name for relay):';
  return `${what}\n${needs}\n  ${printable(GRANTS('relay'))}\n`;
}

/** A relay that lives notes itself more often. */
const SEEN_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 50;
/** The relay that leads finishes its requests first, and that may take 20 s. */
const TAKEN_WITHIN_MS = 40_000;

const LEAD_NOTES = `
Give it on the machine of the relay that is to lead, or name that relay with --node. The one that leads finishes its
requests and follows; no process ends. Hosts are refused for a moment, and try again.

Examples:
  $ poste relay cluster take-lead --store-dir /var/lib/poste --log postgres://relay@db.example/mail
  $ poste relay cluster take-lead --node alpha-0c1d2e3f --json`;

export function clusterTakeLeadCommand(context: CommandContext): Command {
  return withLogOptions(context, relayCommand(context, 'take-lead'))
    .option('--node <name>', 'its name, when its folder is on another machine')
    .notes(LEAD_NOTES)
    .action((flags) =>
      withSharedLog(context, flags, async (log) => {
        const name = flags.node ?? (await nodeOf(resolve(flags.storeDir)));
        const before = await askForLead(log, name);
        await waitForLead(log, name, before);
        print(context, flags, { leader: name, before: before.holder }, () => formatLines([`${name} leads.`]));
      }),
    );
}

async function nodeOf(storeDir: string): Promise<string> {
  const name = await readFile(join(storeDir, NODE_FILE), 'utf8').catch((error: unknown) => {
    const refused = folderRefused(storeDir, error);
    if (refused) throw refused;
    return '';
  });
  if (name.trim() !== '') return name.trim();
  const remedy = 'name one with --store-dir, or a relay with --node';
  throw new CommandFailed('notFound', 'NO_NODE', `${storeDir} is no folder of a relay with a shared log: ${remedy}`);
}

/** Asks for the lead, unless the node of that name has it; returns the row as it was. */
async function askForLead(log: SharedLog, name: string): Promise<LogState> {
  const { state, nowMs } = copied(await log.open());
  const remedy = 'start a relay with --log, or move one there with poste relay cluster publish';
  if (!state) throw new CommandFailed('notFound', 'NO_LOG', `nobody has begun a log in this database: ${remedy}`);
  const why = whyNotServed(phaseOf(state.state));
  if (why !== undefined) throw new CommandFailed('refused', 'LOG_REFUSED', why);
  if (leads(state, name)) return state;
  const present = (await log.nodes(state.logId)).filter(({ seenMs }) => nowMs - seenMs <= SEEN_WITHIN_MS);
  const names = present.map((node) => node.name);
  const away = `the relay ${printable(name)} does not follow the log now: start it first${didYouMean(name, names)}`;
  if (!names.includes(name)) throw new CommandFailed('refused', 'NODE_AWAY', away);
  await log.want(state.logId, name);
  return state;
}

/** Resolves when the node of that name leads. */
async function waitForLead(log: SharedLog, name: string, before: LogState): Promise<void> {
  for (const untilMs = performance.now() + TAKEN_WITHIN_MS; performance.now() < untilMs; ) {
    const { state } = await log.open();
    if (state && leads(state, name)) return;
    // A relay that takes the lead ends every wish for it.
    if (state && !state.isFree && state.tenure !== before.tenure && state.wantedBy !== name) {
      const taken = `the relay ${state.holder} took the lead meanwhile, and not ${name}`;
      throw new CommandFailed('temporary', 'LEAD_TAKEN', `${taken}: give the command again if ${name} is to lead`);
    }
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

const PUBLISH_NOTES = `
Stop the relay first. Epoch, sequence numbers, hash tree, receipts and waiting mail stay as they are; the folder
becomes the view of the first relay of the log, and its older records stay in it. The database serves nothing until
the move is whole; after it, poste relay serve without --log refuses the folder and says where its log is.

A command that was interrupted begins anew when it is given again, or is given up with --abort; the folder serves in
either case. A database that holds another log is refused.

Examples:
  $ poste relay cluster publish --log postgres://relay@db.example/mail --log-password-file log.password \\
      --store-dir /var/lib/poste
  $ poste relay cluster publish --log postgres://relay@db.example/mail --abort`;

export function clusterPublishCommand(context: CommandContext): Command {
  return moveCommand(context, 'publish')
    .option('--abort', 'give up a move that was interrupted')
    .notes(PUBLISH_NOTES)
    .action(async (flags) => {
      if (flags.abort) {
        const isOwn = await withLog(context, flags, abortPublish);
        return print(context, flags, { aborted: true, store_serves: isOwn }, () => abortText(flags, isOwn));
      }
      const moved = await withLog(context, flags, async (options) => {
        return { ...(await publishStore(options)), place: options.log.place };
      });
      const { logId, place, loaded, notices } = moved;
      const [items, damaged_items] = [loaded?.items ?? null, loaded?.damaged ?? null];
      const document = { log_id: logId, log: place, items, damaged_items, notices };
      return print(context, flags, document, () => publishText(moved, place, flags));
    });
}

function publishText({ logId, loaded, notices }: PublishReport, place: string, { storeDir }: RelayFlags): string {
  const { items = 0, damaged = 0 } = loaded ?? {};
  const waiting = `, with ${countText(items, 'item')} that ${items === 1 ? 'waits' : 'wait'}`;
  const lines = [
    ...notices,
    `The log is at ${place} as ${logId}${loaded ? waiting : ''}.`,
    ...(damaged > 0 ? [`${damaged} more were damaged in the store already: their senders push them again.`] : []),
    `Start the relay of ${storeDir} with --log, and others on other machines with the same key and the same settings.`,
  ];
  return formatLines(lines);
}

function abortText({ storeDir }: RelayFlags, isOwn: boolean): string {
  return isOwn
    ? formatLines([`The move was given up: start the relay of ${storeDir} without --log, as before.`])
    : `The move was given up: the log that the database held before serves again.\n`;
}

const WITHDRAW_NOTES = `
Stop the relay of this folder first; the command stops every other relay of the log. Epoch, sequence numbers, hash
tree, receipts and waiting mail stay as they are. Afterwards the folder holds the log: start its relay without --log.
The other relays refuse to start and say where the log went. Delete the database, which serves no more, when you have
a backup of the store. A command that was interrupted goes on when it is given again.

Examples:
  $ poste relay cluster withdraw --log postgres://relay@db.example/mail --log-password-file log.password \\
      --key-file relay.key --yes`;

export function clusterWithdrawCommand(context: CommandContext): Command {
  return moveCommand(context, 'withdraw')
    .option('--yes', 'do not ask for confirmation')
    .notes(WITHDRAW_NOTES)
    .action(async (flags) => {
      const { logId, isDone, notices } = await withLog(context, flags, withdrawLog);
      print(context, flags, { log_id: logId, was_done: isDone, notices }, () => {
        const went = `The log ${logId} ${isDone ? `went to ${flags.storeDir} before` : `is in ${flags.storeDir} now`}.`;
        return formatLines([...notices, went, 'Start its relay without --log.']);
      });
    });
}

/** A command that moves a log, with the options that these have alike. */
function moveCommand(context: CommandContext, name: string) {
  return withKeyOptions(withLogOptions(context, relayCommand(context, name)));
}

type MoveFlags = FlagsOf<typeof moveCommand> & { yes?: boolean };

const INTERRUPTED = 'the command was interrupted: give it again, and it ends what it began';

/** Moves the log that the flags name, and ends as a command does. Nothing runs on the folder meanwhile. */
function withLog<T>(context: CommandContext, flags: MoveFlags, move: (options: MoveOptions) => Promise<T>): Promise<T> {
  const folder = resolve(flags.storeDir);
  return atWork(
    context,
    async (work) => {
      const shared = await neededLog(context, flags);
      const { signal } = work;
      // A statement may wait in the server for a standby: nothing else ends it.
      const clients = [shared.log];
      signal.addEventListener('abort', () => clients.forEach((log) => void log.close()));
      try {
        await requireIdle(folder);
        return await move({
          log: shared.log,
          newLog: async () => {
            const { log } = await neededLog(context, flags);
            clients.push(log);
            if (signal.aborted) await log.close();
            return log;
          },
          durability: shared.durability,
          folder,
          ...withoutUndefined({ positionFile: flags.positionFile }),
          signer: await signerOf(context, flags, folder),
          clock: systemClock,
          timers: systemTimers,
          newEpoch,
          version: softwareVersion(),
          logger: commandLog(context, 'error'),
          signal,
          confirm: async (stake) => {
            work.end();
            await confirmation(context, { yes: flags.yes, stake })('Go on?', formatLines([`${stake}.`]));
          },
          step: async (step) => work.say(`${step} ...`),
        });
      } catch (error) {
        throw error instanceof CommandFailed ? error : unusableStore(error, folder);
      } finally {
        for (const log of clients) await log.close();
      }
    },
    INTERRUPTED,
  );
}

async function signerOf(context: CommandContext, { keyFile }: MoveFlags, folder: string): Promise<Signer> {
  const signer = (await deployKey(context, keyFile))?.signer ?? (await readRelayKey(folder));
  if (signer) return signer;
  if (!existsSync(folder))
    throw new StoreRefused(
      'missing',
      `there is no store folder at ${folder}: name it with --store-dir, or the key of the relay with --key-file ` +
        'for a folder that is to be made',
    );
  throw new StoreRefused(
    'missing-key',
    `there is no ${RELAY_KEY_FILE} in ${folder}: name the key of the relay with --key-file, or set MAIL_RELAY_KEY`,
  );
}
