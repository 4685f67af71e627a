/**
 * Every command by name: what it does in one sentence, and the module that builds it.
 *
 * A module is loaded only when its command is named. Help, the version and a mistyped name need nothing but this table
 * (test/unit/cli/commands.test.ts); most of the time of a short command would go into loading what others need.
 */
import { Command } from 'commander';
import { softwareVersion } from '../lib/package-root.ts';
import type { CommandContext } from './lib/context.ts';

interface CommandEntry {
  summary: string;
  /** Under which help shows it. */
  heading?: string;
  load: (context: CommandContext) => Promise<Command>;
}

interface CommandGroup {
  summary: string;
  heading?: string;
  /** Shown below the commands of the group. */
  examples: string;
  commands: CommandTable;
}

export type CommandTable = Readonly<Record<string, CommandEntry | CommandGroup>>;

/** The commands of a table, under a heading of the help. */
function under(heading: string, table: CommandTable): CommandTable {
  return Object.fromEntries(Object.entries(table).map(([name, entry]) => [name, { ...entry, heading }]));
}

const LOG_READERS: CommandTable = {
  show: {
    summary: 'Show the events of the log: all of them, or those that you choose.',
    load: async (context) => (await import('./relay/log-show.ts')).relayLogShowCommand(context),
  },
  verify: {
    summary: 'Check the log, and everything that is kept of it, byte by byte.',
    load: async (context) => (await import('./relay/log-verify.ts')).relayLogVerifyCommand(context),
  },
  at: {
    summary: 'Show queues, quotas, allowlists and hosts as they were at a point of the log.',
    load: async (context) => (await import('./relay/log-at.ts')).relayLogAtCommand(context),
  },
  trace: {
    summary: 'Show the life of one item: accepted, moved, acked, expired, lost, forgotten.',
    load: async (context) => (await import('./relay/log-trace.ts')).relayLogTraceCommand(context),
  },
  'check-proof': {
    summary: 'Verify offline what a relay proved about its log.',
    load: async (context) => (await import('./relay/log-check-proof.ts')).checkProofCommand(context),
  },
};

const LOG_REPAIRS: CommandTable = {
  archive: {
    summary: 'Write log records into one file.',
    load: async (context) => (await import('./relay/log-archive.ts')).relayLogArchiveCommand(context),
  },
  rebuild: {
    summary: 'Rebuild the rows of a stopped relay from its log alone.',
    load: async (context) => (await import('./relay/log-rebuild.ts')).relayLogRebuildCommand(context),
  },
};

const SHARED_LOG: CommandTable = {
  init: {
    summary: 'Make the tables of a log in PostgreSQL that relays share.',
    load: async (context) => (await import('./relay/log-init.ts')).relayLogInitCommand(context),
  },
  publish: {
    summary: 'Move the log of a stopped relay into PostgreSQL, with everything as it is.',
    load: async (context) => (await import('./relay/move-log.ts')).relayLogPublishCommand(context),
  },
  withdraw: {
    summary: 'Move a log from PostgreSQL back into the store of one relay.',
    load: async (context) => (await import('./relay/move-log.ts')).relayLogWithdrawCommand(context),
  },
  'take-lead': {
    summary: 'Make a relay that follows a shared log lead it.',
    load: async (context) => (await import('./relay/log-take-lead.ts')).relayLogTakeLeadCommand(context),
  },
};

const LOG_COMMANDS: CommandTable = {
  ...under('Read and check:', LOG_READERS),
  ...under('Archive and repair:', LOG_REPAIRS),
  ...under('A log in PostgreSQL, which relays share:', SHARED_LOG),
};

const LOG_EXAMPLES = `
Examples:
  $ poste relay log show --host laptop --since 2025-11-20
  $ poste relay log verify --backup poste.backup
  $ poste relay log at --time 2025-11-20T21:48Z --queue laptop
  $ poste relay log trace 0197f3a2-55d1-7c60-8c55-2b1f0f6b8c11`;

const RELAY_OF_HOST: CommandTable = {
  set: {
    summary: 'Choose the relay that carries the mail of this host where the LAN does not reach.',
    load: async (context) => (await import('./host/relay.ts')).relaySetCommand(context),
  },
  unset: {
    summary: 'Stop using a relay for the mail of this host.',
    load: async (context) => (await import('./host/relay.ts')).relayUnsetCommand(context),
  },
  status: {
    summary: 'Show the relay that this host uses, and whether it works.',
    load: async (context) => (await import('./host/relay.ts')).relayStatusCommand(context),
  },
  quarantine: {
    summary: 'List what came over a relay and is held in quarantine.',
    load: async (context) => (await import('./mail/quarantine.ts')).quarantineCommand(context, 'relay'),
  },
};

const RELAY_SERVER: CommandTable = {
  serve: {
    summary: 'Run a relay, which keeps sealed mail for hosts until they fetch it.',
    load: async (context) => (await import('./relay/serve.ts')).relayServeCommand(context),
  },
  doctor: {
    summary: 'Check a relay and its machine, and show how to mend what is wrong.',
    load: async (context) => (await import('./relay/doctor.ts')).relayDoctorCommand(context),
  },
  keygen: {
    summary: 'Print a new base64 private relay key.',
    load: async (context) => (await import('./relay/relay-key.ts')).relayKeygenCommand(context),
  },
  console: {
    summary: 'Print a URL that opens the console of the running relay, once.',
    load: async (context) => (await import('./relay/hosts.ts')).relayConsoleCommand(context),
  },
};

const RELAY_HOSTS: CommandTable = {
  hosts: {
    summary: 'List the hosts of the running relay.',
    load: async (context) => (await import('./relay/hosts.ts')).relayHostsCommand(context),
  },
  admit: {
    summary: 'Print an invite token that lets one host enrol.',
    load: async (context) => (await import('./relay/hosts.ts')).relayAdmitCommand(context),
  },
  revoke: {
    summary: 'Revoke a host of the running relay, for good.',
    load: async (context) => (await import('./relay/hosts.ts')).relayRevokeCommand(context),
  },
};

const RELAY_DATA: CommandTable = {
  backup: {
    summary: 'Back up a relay into one file, also while it runs.',
    load: async (context) => (await import('./relay/backup.ts')).relayBackupCommand(context),
  },
  restore: {
    summary: 'Replace the store of a stopped relay by a backup, and keep what must not be undone.',
    load: async (context) => (await import('./relay/restore.ts')).relayRestoreCommand(context),
  },
  log: {
    summary: 'Read, verify and replay the log of a stopped relay or of a backup, and check proofs.',
    examples: LOG_EXAMPLES,
    commands: LOG_COMMANDS,
  },
  'rotate-epoch': {
    summary: 'Start a new epoch, after the store was restored by other means.',
    load: async (context) => (await import('./relay/rotate-epoch.ts')).relayRotateEpochCommand(context),
  },
};

const RELAY_COMMANDS: CommandTable = {
  ...under('The relay that carries the mail of this host:', RELAY_OF_HOST),
  ...under('Run a relay for others:', RELAY_SERVER),
  ...under('Its hosts:', RELAY_HOSTS),
  ...under('Its data:', RELAY_DATA),
};

const RELAY_EXAMPLES = `
Examples:
  $ poste relay serve
  $ poste relay hosts
  $ poste relay set https://relay.example`;

const MAIL: CommandTable = {
  inbox: {
    summary: 'Read and search the mail of an agent, or your own.',
    load: async (context) => (await import('./mail/mailbox.ts')).inboxCommand(context),
  },
  send: {
    summary: 'Send a message as an agent.',
    load: async (context) => (await import('./mail/send.ts')).sendCommand(context),
  },
  reply: {
    summary: 'Answer a message as an agent.',
    load: async (context) => (await import('./mail/send.ts')).replyCommand(context),
  },
  sent: {
    summary: 'Show what an agent sent, and how far each message came.',
    load: async (context) => (await import('./mail/mailbox.ts')).sentCommand(context),
  },
  agents: {
    summary: 'List the agents that mail can be sent to, here and on paired hosts.',
    load: async (context) => (await import('./mail/agents.ts')).agentsCommand(context),
  },
  trace: {
    summary: 'Follow one message through outbox, relay, receiver and receipts.',
    load: async (context) => (await import('./mail/trace.ts')).traceCommand(context),
  },
  outbox: {
    summary: 'Show what waits for paired hosts, and cancel it.',
    load: async (context) => (await import('./mail/outbox.ts')).outboxCommand(context),
  },
  quarantine: {
    summary: 'Show what this host received and did not let in.',
    load: async (context) => (await import('./mail/quarantine.ts')).quarantineCommand(context),
  },
};

const THIS_HOST: CommandTable = {
  setup: {
    summary: 'Set up this machine for the programs found on it, or undo that.',
    load: async (context) => (await import('./host/setup.ts')).setupCommand(context),
  },
  init: {
    summary: 'Create this host: its keys, its store and its config file.',
    load: async (context) => (await import('./host/init.ts')).initCommand(context),
  },
  daemon: {
    summary: 'Run the daemon, which keeps and delivers the mail of this host.',
    load: async (context) => (await import('./host/daemon.ts')).daemonCommand(context),
  },
  status: {
    summary: 'Show at a glance whether mail flows: hosts, relay, what waits.',
    load: async (context) => (await import('./host/host.ts')).statusCommand(context),
  },
  doctor: {
    summary: 'Check everything about this host, and show how to repair what is broken.',
    load: async (context) => (await import('./host/doctor.ts')).doctorCommand(context),
  },
  host: {
    summary: 'Rename this host, or give it a new key.',
    load: async (context) => (await import('./host/host.ts')).hostCommand(context),
  },
  backup: {
    summary: 'Back up this host into one file.',
    load: async (context) => (await import('./host/backup.ts')).backupCommand(context),
  },
  restore: {
    summary: 'Replace the store of this host by a backup.',
    load: async (context) => (await import('./host/restore.ts')).restoreCommand(context),
  },
};

const OTHER_HOSTS: CommandTable = {
  pair: {
    summary: 'Pair this host with another one on the LAN.',
    load: async (context) => (await import('./host/peers.ts')).pairCommand(context),
  },
  peers: {
    summary: 'Show the hosts that this host is paired with.',
    load: async (context) => (await import('./host/peers.ts')).peersCommand(context),
  },
  unpair: {
    summary: 'End the pairing with a host.',
    load: async (context) => (await import('./host/peers.ts')).unpairCommand(context),
  },
  relay: {
    summary: 'Use a relay for the mail of this host, or run one for others.',
    examples: RELAY_EXAMPLES,
    commands: RELAY_COMMANDS,
  },
};

const AGENTS: CommandTable = {
  agent: {
    summary: 'Add, rename, list and remove the agents of this host.',
    load: async (context) => (await import('./mail/agents.ts')).agentCommand(context),
  },
  session: {
    summary: 'Register the session of an agent, and wait for its doorbell.',
    load: async (context) => (await import('./mail/session.ts')).sessionCommand(context),
  },
  hooks: {
    summary: 'Let Claude Code, Codex, Gemini CLI or OpenCode report its sessions, and be woken by mail.',
    load: async (context) => (await import('./mail/hooks.ts')).hooksCommand(context),
  },
  mcp: {
    summary: 'Serve the mail tools of an agent over MCP, on standard input and output.',
    load: async (context) => (await import('./mail/mcp.ts')).mcpCommand(context),
  },
};

/** Where the command `help` stands too. */
const HELP = 'Help:';

const SHELL: CommandTable = {
  completion: {
    summary: 'Print a script by which bash, zsh or fish completes poste.',
    load: async (context) => (await import('./host/completion.ts')).completionCommand(context, commandTree),
  },
};

export const COMMANDS: CommandTable = {
  ...under('Mail:', MAIL),
  ...under('This host:', THIS_HOST),
  ...under('Other hosts:', OTHER_HOSTS),
  ...under('Agents and the programs that run them:', AGENTS),
  ...under(HELP, SHELL),
};

/** Taken anywhere on the command line, as --help is, and known to every command. */
export const NO_COLOR_FLAG = '--no-color';

/** `poste` with the commands loaded that `words` name, as `addCommands` takes them. */
export async function commandTree(words: readonly string[] | undefined, context: CommandContext): Promise<Command> {
  const poste = new Command('poste')
    .description('Mail between coding agents on different machines.')
    .version(softwareVersion())
    .option(NO_COLOR_FLAG, 'print no colours, as with NO_COLOR; any command takes it')
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExamples:\n  $ poste init\n  $ poste daemon\n  $ poste status\n  $ poste doctor\n  $ poste relay serve',
    );
  await addCommands(poste, COMMANDS, context, words);
  return poste;
}

/**
 * Adds the commands of a table to `parent`. The one that `words` name is loaded; the others have a name and a summary
 * only. Without `words` all of them are loaded.
 *
 * @param words - the arguments after `parent` that are no flags: the names of commands come first among them.
 */
async function addCommands(
  parent: Command,
  table: CommandTable,
  context: CommandContext,
  words: readonly string[] | undefined,
): Promise<void> {
  const [wanted, ...rest] = words?.[0] === 'help' ? words.slice(1) : (words ?? []);
  for (const [name, entry] of Object.entries(table)) {
    const isWanted = words === undefined || name === wanted;
    const command = await commandOf(name, entry, context, isWanted, words && rest);
    if (entry.heading !== undefined) command.helpGroup(entry.heading);
    parent.addCommand(command.description(entry.summary));
  }
  if (Object.values(table).some(({ heading }) => heading !== undefined)) {
    parent.commandsGroup(HELP).helpCommand('help [command]', 'Show the help of a command.');
  }
}

async function commandOf(
  name: string,
  entry: CommandEntry | CommandGroup,
  context: CommandContext,
  isWanted: boolean,
  words: readonly string[] | undefined,
): Promise<Command> {
  if (!isWanted) return new Command(name).action(refuseUnloaded);
  if ('load' in entry) return entry.load(context);
  const group = new Command(name).addHelpText('after', entry.examples);
  await addCommands(group, entry.commands, context, words);
  return group;
}

/** Commander runs the command that the first words name, and that one is loaded. */
function refuseUnloaded(): never {
  throw new Error('this command is not loaded');
}
