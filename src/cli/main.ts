#!/usr/bin/env node
/** The `poste` command. Data goes to stdout, everything else to stderr; errors are one sentence and an exit code. */
import { Command, CommanderError } from 'commander';
import { printable } from '../protocol/printable.ts';
import { CommandFailed, EXIT } from './exit.ts';
import { relayAdmitCommand } from './relay-admit.ts';
import { relayHostsCommand } from './relay-hosts.ts';
import { relayKeygenCommand } from './relay-keygen.ts';
import { relayLogCommand } from './relay-log.ts';
import { relayRevokeCommand } from './relay-revoke.ts';
import { relayServeCommand } from './relay-serve.ts';
import { jsonLine } from './text.ts';
import { softwareVersion } from './version.ts';

const asJson = process.argv.includes('--json');

function program(): Command {
  const relay = new Command('relay').description('Run and keep a relay.');
  relay.addCommand(relayServeCommand());
  relay.addCommand(relayKeygenCommand());
  relay.addCommand(relayHostsCommand());
  relay.addCommand(relayRevokeCommand());
  relay.addCommand(relayAdmitCommand());
  relay.addCommand(relayLogCommand());
  const poste = new Command('poste')
    .description('Mail between coding agents on different machines.')
    .version(softwareVersion())
    .addCommand(relay)
    .addHelpText('after', '\nExamples:\n  $ poste relay serve\n  $ poste relay hosts\n  $ poste relay keygen');
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

// Whoever reads the output may stop early, as head does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(EXIT.ok);
});

try {
  await program().parseAsync();
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
