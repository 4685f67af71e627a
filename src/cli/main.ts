#!/usr/bin/env node
/** The `poste` command. Data goes to stdout, everything else to stderr; errors are one sentence and an exit code. */
import { Command, CommanderError } from 'commander';
import { printable } from '../protocol/printable.ts';
import { CommandFailed, EXIT } from './exit.ts';
import { type LazyCommands, addCommands } from './lazy.ts';
import { letReadersLeave } from './stdout.ts';
import { jsonLine } from './text.ts';
import { softwareVersion } from './version.ts';

const asJson = process.argv.includes('--json');
/** The arguments that are no options: the names of commands come first among them. */
const WORDS = process.argv.slice(2).filter((word) => !word.startsWith('-'));

const RELAY_COMMANDS: LazyCommands = {
  serve: async () => (await import('./relay-serve.ts')).relayServeCommand(),
  keygen: async () => (await import('./relay-keygen.ts')).relayKeygenCommand(),
  hosts: async () => (await import('./relay-hosts.ts')).relayHostsCommand(),
  revoke: async () => (await import('./relay-revoke.ts')).relayRevokeCommand(),
  admit: async () => (await import('./relay-admit.ts')).relayAdmitCommand(),
  log: async () => (await import('./relay-log.ts')).relayLogCommand(WORDS),
  console: async () => (await import('./relay-console.ts')).relayConsoleCommand(),
  backup: async () => (await import('./relay-backup.ts')).relayBackupCommand(),
  restore: async () => (await import('./relay-restore.ts')).relayRestoreCommand(),
  set: async () => (await import('./relay-set.ts')).relaySetCommand(),
  unset: async () => (await import('./relay-unset.ts')).relayUnsetCommand(),
  status: async () => (await import('./relay-status.ts')).relayStatusCommand(),
  quarantine: async () => (await import('./quarantine.ts')).quarantineCommand(),
  'rotate-epoch': async () => (await import('./relay-rotate-epoch.ts')).relayRotateEpochCommand(),
};

const COMMANDS: LazyCommands = {
  init: async () => (await import('./init.ts')).initCommand(),
  daemon: async () => (await import('./daemon.ts')).daemonCommand(),
  status: async () => (await import('./status.ts')).statusCommand(),
  doctor: async () => (await import('./doctor.ts')).doctorCommand(),
  trace: async () => (await import('./trace.ts')).traceCommand(),
  session: async () => (await import('./session.ts')).sessionCommand(),
  hooks: async () => (await import('./hooks.ts')).hooksCommand(),
  agent: async () => (await import('./agent.ts')).agentCommand(),
  send: async () => (await import('./send.ts')).sendCommand(),
  reply: async () => (await import('./reply.ts')).replyCommand(),
  agents: async () => (await import('./agents.ts')).agentsCommand(),
  inbox: async () => (await import('./inbox.ts')).inboxCommand(),
  sent: async () => (await import('./sent.ts')).sentCommand(),
  mcp: async () => (await import('./mcp.ts')).mcpCommand(),
  pair: async () => (await import('./pair.ts')).pairCommand(),
  peers: async () => (await import('./peers.ts')).peersCommand(),
  unpair: async () => (await import('./unpair.ts')).unpairCommand(),
  outbox: async () => (await import('./outbox.ts')).outboxCommand(),
  quarantine: async () => (await import('./quarantine.ts')).quarantineCommand(),
  host: async () => (await import('./host.ts')).hostCommand(),
  backup: async () => (await import('./backup.ts')).backupCommand(),
  restore: async () => (await import('./restore.ts')).restoreCommand(),
  relay: async () => {
    const relay = new Command('relay').description('Run and keep a relay, and choose the one that this host uses.');
    await addCommands(relay, RELAY_COMMANDS, WORDS);
    return relay;
  },
};

async function program(): Promise<Command> {
  const poste = new Command('poste')
    .description('Mail between coding agents on different machines.')
    .version(softwareVersion())
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExamples:\n  $ poste init\n  $ poste daemon\n  $ poste status\n  $ poste doctor\n  $ poste relay serve',
    );
  await addCommands(poste, COMMANDS, WORDS);
  return withErrors(poste);
}

/** Usage errors end as exceptions, all the way down, and hint at what was meant. */
function withErrors(command: Command): Command {
  // As JSON the error is one document, printed below.
  if (asJson) command.configureOutput({ writeErr: () => undefined });
  command.exitOverride().showSuggestionAfterError().showHelpAfterError('(--help shows what there is)');
  for (const child of command.commands) withErrors(child);
  return command;
}

function report(error: CommandFailed): void {
  const { code, message, details } = error;
  process.stderr.write(asJson ? jsonLine({ code, message, details }) : `poste: ${printable(message)}.\n`);
  process.exitCode = EXIT[error.exit];
}

letReadersLeave();

try {
  const poste = await program();
  await poste.parseAsync();
} catch (error) {
  if (error instanceof CommandFailed) {
    report(error);
    // A relay whose store failed may hold handles that never close.
    process.exit();
  }
  // Commander has said it already; help and version are no errors.
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    if (asJson && error.exitCode !== 0) {
      const message = error.message.replace(/^error: /, '');
      process.stderr.write(`${JSON.stringify({ code: 'USAGE', message, details: {} })}\n`);
    }
  } else throw error;
}
