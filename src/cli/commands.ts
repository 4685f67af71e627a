/**
 * Every command by name: what it does in one sentence, and the module that builds it.
 *
 * A module is loaded only when its command is named. Help, the version and a mistyped name need nothing but this table
 * (test/unit/cli/commands.test.ts); most of the time of a short command would go into loading what others need.
 */
import { Command } from 'commander';
import { softwareVersion } from '../lib/package-root.ts';
import type { CommandTree } from './lib/complete.ts';
import type { CommandContext } from './lib/context.ts';

interface CommandEntry {
  summary: string;
  /** Help shows it under this. */
  heading?: string;
  /** True of a command that programs call, and no person types: help and completion leave it out. */
  isHidden?: boolean;
  load: (context: CommandContext) => Promise<Command>;
}

interface CommandGroup {
  summary: string;
  heading?: string;
  /** They stand below the commands of the group. */
  examples: string;
  commands: CommandTable;
}

export type CommandTable = Readonly<Record<string, CommandEntry | CommandGroup>>;

type Builder = (context: CommandContext, tree: CommandTree) => Command;

/** A command, and the function of its module that builds it. */
function from<Name extends string>(
  module: () => Promise<Readonly<Record<Name, Builder>>>,
  name: Name,
  summary: string,
): CommandEntry {
  return { summary, load: async (context) => (await module())[name](context, commandTree) };
}

/** The commands of a table, under a heading of the help. */
function under(heading: string, table: CommandTable): CommandTable {
  return Object.fromEntries(Object.entries(table).map(([name, entry]) => [name, { ...entry, heading }]));
}

const agents = () => import('./mail/agents.ts');
const hooks = () => import('./mail/hooks.ts');
const mailbox = () => import('./mail/mailbox.ts');
const mcp = () => import('./mail/mcp.ts');
const outbox = () => import('./mail/outbox.ts');
const quarantine = () => import('./mail/quarantine.ts');
const run = () => import('./mail/run.ts');
const send = () => import('./mail/send.ts');
const session = () => import('./mail/session.ts');
const trace = () => import('./mail/trace.ts');
const waiting = () => import('./mail/waiting.ts');
const backup = () => import('./host/backup.ts');
const completion = () => import('./host/completion.ts');
const daemon = () => import('./host/daemon.ts');
const doctor = () => import('./host/doctor.ts');
const host = () => import('./host/host.ts');
const init = () => import('./host/init.ts');
const peers = () => import('./host/peers.ts');
const relay = () => import('./host/relay.ts');
const relayList = () => import('./host/relay-list.ts');
const relayMove = () => import('./host/relay-move.ts');
const relayEvidence = () => import('./host/relay-evidence.ts');
const setup = () => import('./host/setup.ts');
const relayBackup = () => import('./relay/backup.ts');
const cluster = () => import('./relay/cluster.ts');
const relayDoctor = () => import('./relay/doctor.ts');
const relayHosts = () => import('./relay/hosts.ts');
const logAt = () => import('./relay/log-at.ts');
const logCheckProof = () => import('./relay/log-check-proof.ts');
const logShow = () => import('./relay/log-show.ts');
const logVerify = () => import('./relay/log-verify.ts');
const relayCommand = () => import('./relay/relay-command.ts');
const relayRehearse = () => import('./relay/rehearse.ts');
const relayRotateEpoch = () => import('./relay/rotate-epoch.ts');
const relayServe = () => import('./relay/serve.ts');
const relayWitness = () => import('./relay/witness.ts');

const LOG_COMMANDS: CommandTable = {
  ...under('Read and check:', {
    show: from(logShow, 'showCommand', 'Show the events of the log: all of them, or those that you choose.'),
    verify: from(logVerify, 'verifyCommand', 'Check the log, and everything that is kept of it, byte by byte.'),
    at: from(logAt, 'atCommand', 'Show queues, quotas, allowlists and hosts as they were at a point of the log.'),
    trace: from(
      logShow,
      'traceCommand',
      'Show the life of one item: accepted, moved, acked, expired, lost, forgotten.',
    ),
    'check-proof': from(logCheckProof, 'checkProofCommand', 'Verify offline what a relay proved about its log.'),
  }),
  ...under('Archive and repair:', {
    archive: from(relayBackup, 'archiveCommand', 'Write log records into one file.'),
    rebuild: from(logVerify, 'rebuildCommand', 'Rebuild the rows of a stopped relay from its log alone.'),
  }),
};

const LOG_EXAMPLES = `
Examples:
  $ poste relay log show --host laptop --since 2025-11-20
  $ poste relay log verify --backup poste.backup
  $ poste relay log at --time 2025-11-20T21:48Z --queue laptop
  $ poste relay log trace 0197f3a2-55d1-7c60-8c55-2b1f0f6b8c11`;

const CLUSTER_COMMANDS: CommandTable = {
  init: from(cluster, 'clusterInitCommand', 'Make the tables of the shared log.'),
  publish: from(cluster, 'clusterPublishCommand', 'Move the log of a stopped relay into PostgreSQL, as it is.'),
  withdraw: from(cluster, 'clusterWithdrawCommand', 'Move a log from PostgreSQL back into the store of one relay.'),
  'take-lead': from(cluster, 'clusterTakeLeadCommand', 'Make a relay that follows a shared log lead it.'),
};

const CLUSTER_EXAMPLES = `
Environment:
  MAIL_RELAY_LOG  the address of the log, instead of --log

Examples:
  $ poste relay cluster init --log postgres://owner@db.example/mail --log-password-file owner.password
  $ poste relay cluster take-lead --node alpha-0c1d2e3f`;

const RELAY_COMMANDS: CommandTable = {
  ...under('The relays that carry the mail of this host:', {
    set: from(relay, 'relaySetCommand', 'Choose the relay for the mail of this host where the LAN does not reach.'),
    unset: from(relay, 'relayUnsetCommand', 'Stop using a relay for the mail of this host.'),
    status: from(relay, 'relayStatusCommand', 'Show the relay that this host uses, and whether it works.'),
    add: from(relay, 'relayAddCommand', 'Use one more relay, so that mail flows while another one is away.'),
    list: from(relayList, 'relayListCommand', 'List the relays that this host uses, in the order of preference.'),
    remove: from(relayList, 'relayRemoveCommand', 'Stop using one of several relays.'),
    prefer: from(relayList, 'relayPreferCommand', 'Make one of several relays the first.'),
    move: from(relayMove, 'relayMoveCommand', 'Leave a relay for another one, without losing mail on the way.'),
    evidence: from(relayEvidence, 'evidenceCommand', 'Show and check what a relay signed that does not fit together.'),
    quarantine: from(quarantine, 'relayQuarantineCommand', 'List what came over a relay and is held in quarantine.'),
  }),
  ...under('Run a relay for others:', {
    serve: from(relayServe, 'serveCommand', 'Run a relay, which keeps sealed mail for hosts until they fetch it.'),
    doctor: from(relayDoctor, 'doctorCommand', 'Check a relay and its machine, and show how to mend what is wrong.'),
    keygen: from(relayCommand, 'keygenCommand', 'Print a new base64 private relay key.'),
    witness: from(relayWitness, 'witnessCommand', 'Run a witness, which cosigns what relays sign of their logs.'),
    console: from(relayHosts, 'consoleCommand', 'Print a URL that opens the console of the running relay, once.'),
  }),
  ...under('Its hosts:', {
    hosts: from(relayHosts, 'hostsCommand', 'List the hosts of the running relay.'),
    admit: from(relayHosts, 'admitCommand', 'Print an invite token that lets one host enrol.'),
    revoke: from(relayHosts, 'revokeCommand', 'Revoke a host of the running relay, for good.'),
  }),
  ...under('Its data:', {
    backup: from(relayBackup, 'backupCommand', 'Back up a relay into one file, also while it runs.'),
    restore: from(
      relayBackup,
      'restoreCommand',
      'Replace the store of a stopped relay by a backup, and keep what must not be undone.',
    ),
    rehearse: from(
      relayRehearse,
      'rehearseCommand',
      'Rehearse an upgrade on a backup: verify it, serve a copy, and compare the answers of two versions.',
    ),
    log: {
      summary: 'Read, verify and replay the log of a stopped relay or of a backup, and check proofs.',
      examples: LOG_EXAMPLES,
      commands: LOG_COMMANDS,
    },
    cluster: {
      summary: 'Keep the log in PostgreSQL, where several relays share it.',
      examples: CLUSTER_EXAMPLES,
      commands: CLUSTER_COMMANDS,
    },
    'rotate-epoch': from(
      relayRotateEpoch,
      'rotateEpochCommand',
      'Start a new epoch, after the store was restored by other means.',
    ),
  }),
};

const RELAY_EXAMPLES = `
Examples:
  $ poste relay serve
  $ poste relay hosts
  $ poste relay set https://relay.example`;

/** The heading of the command `help` too. */
const HELP = 'Help:';

export const COMMANDS: CommandTable = {
  ...under('Mail:', {
    inbox: from(mailbox, 'inboxCommand', 'Read and search the mail of an agent, or your own.'),
    send: from(send, 'sendCommand', 'Send a message, as an agent or as yourself.'),
    reply: from(send, 'replyCommand', 'Answer a message, as an agent or as yourself.'),
    sent: from(send, 'sentCommand', 'Show what an agent or you sent, and how far each message came.'),
    waiting: from(waiting, 'waitingCommand', 'Show who owes an answer to whom, and since when.'),
    trace: from(trace, 'traceCommand', 'Follow one message through outbox, relay, receiver and receipts.'),
    outbox: from(outbox, 'outboxCommand', 'Show what waits for paired hosts, and cancel it.'),
    quarantine: from(quarantine, 'quarantineCommand', 'Show what this host received and did not let in.'),
  }),
  ...under('This host:', {
    setup: from(setup, 'setupCommand', 'Set up this machine for the programs found on it, or undo that.'),
    init: from(init, 'initCommand', 'Create this host: its keys, its store and its config file.'),
    daemon: from(daemon, 'daemonCommand', 'Run the daemon, which keeps and delivers the mail of this host.'),
    status: from(host, 'statusCommand', 'Show at a glance whether mail flows: hosts, relay, what waits.'),
    doctor: from(doctor, 'doctorCommand', 'Check everything about this host, and show how to repair what is broken.'),
    host: from(host, 'hostCommand', 'Rename this host, or give it a new key.'),
    backup: from(backup, 'backupCommand', 'Back up this host into one file.'),
    restore: from(backup, 'restoreCommand', 'Replace the store of this host by a backup.'),
  }),
  ...under('Other hosts:', {
    peer: from(peers, 'peerCommand', 'Pair this host with others on the LAN, and list those.'),
    relay: {
      summary: 'Use a relay for the mail of this host, or run one for others.',
      examples: RELAY_EXAMPLES,
      commands: RELAY_COMMANDS,
    },
  }),
  ...under('Agents and the programs that run them:', {
    agent: from(agents, 'agentCommand', 'List agents, here and on paired hosts, and manage those of this host.'),
    run: from(run, 'runCommand', 'Run a command for each mail of an agent, and wait for the next.'),
    session: {
      ...from(session, 'sessionCommand', 'Register the session of an agent, and wait for its doorbell.'),
      isHidden: true,
    },
    hooks: from(
      hooks,
      'hooksCommand',
      'Let Claude Code, Codex, Gemini CLI, Qwen Code or OpenCode report its sessions, and be woken by mail.',
    ),
    mcp: from(mcp, 'mcpCommand', 'Serve the mail tools of an agent over MCP, on standard input and output.'),
  }),
  ...under(HELP, {
    completion: from(completion, 'completionCommand', 'Print a script by which bash, zsh or fish completes poste.'),
  }),
};

/** Every command knows these, and takes them anywhere on the command line, as --help. */
export const COMMON_FLAGS = {
  '--no-color': 'print no colours, as with NO_COLOR; any command takes it',
  '--no-start': 'start no daemon where none runs, as with POSTE_NO_START=1; any command takes it',
  '--quiet': 'do not say that the daemon is started, or has another version; any command takes it',
};
export type CommonFlag = keyof typeof COMMON_FLAGS;

/** `poste` with the command loaded that `argv` names; without `argv` every command is loaded. */
export async function commandTree(argv: readonly string[] | undefined, context: CommandContext): Promise<Command> {
  const poste = new Command('poste')
    .description('Mail between coding agents on different machines.')
    .version(softwareVersion())
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExamples:\n  $ poste setup\n  $ poste inbox\n  $ poste status\n  $ poste doctor\n  $ poste relay serve',
    );
  for (const [flag, meaning] of Object.entries(COMMON_FLAGS)) poste.option(flag, meaning);
  const words = argv?.filter((word) => !word.startsWith('-'));
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
    parent.addCommand(command.description(entry.summary), { hidden: 'isHidden' in entry && entry.isHidden });
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
