/** `poste mcp`: the mail tools of one agent, for a program that speaks MCP over standard input and output. */
import { Command, Option } from 'commander';
import { OWNER_NAME } from '../host/core/address.ts';
import { CallFailed, DaemonClient } from '../host/local/client.ts';
import { serveMcp } from '../host/mcp/serve.ts';
import { daemonSocketFault } from '../host/paths.ts';
import { isAgentName } from '../protocol/names.ts';
import { printable } from '../protocol/printable.ts';
import { CommandFailed } from './exit.ts';
import { ownPaths } from './host-place.ts';
import { startInBackground } from './start-daemon.ts';
import { stopSignal } from './stop-signal.ts';
import { softwareVersion } from './version.ts';

interface McpFlags {
  agent?: string;
  start?: boolean;
}

const NOTES = `
An MCP client starts this command and speaks to it over standard input and output; what it has to say itself goes to
stderr. It asks the daemon for everything, and its agent counts as live while it runs. The tools are mail_send,
mail_reply, mail_agents and mail_inbox; the resource poste://inbox says what is unread, and can be subscribed to.

Examples:
  $ poste agent add builder
  $ claude mcp add poste -- poste mcp --agent builder --start
  $ codex mcp add poste -- poste mcp --agent builder --start`;

export function mcpCommand(): Command {
  return new Command('mcp')
    .description('Serve the mail tools of an agent over MCP, on standard input and output.')
    .addOption(new Option('--agent <name>', 'whose mail it is').env('POSTE_AGENT'))
    .option('--start', 'start the daemon when none is running')
    .addHelpText('after', NOTES)
    .action(serve);
}

async function serve({ agent, start }: McpFlags): Promise<void> {
  const signalled = stopSignal();
  const paths = ownPaths();
  const fault = daemonSocketFault(paths);
  if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
  const served = serveMcp({
    client: new DaemonClient(paths.socket, paths.store),
    agent: agentOf(agent),
    version: softwareVersion(),
    log: (message) => process.stderr.write(`poste mcp: ${printable(message)}.\n`),
    start: start ? () => startInBackground(paths).catch(refuse) : undefined,
  });
  await Promise.race([served.ended, signalled]);
  await served.close();
}

function agentOf(name: string | undefined): string {
  if (name === undefined || name === '') {
    throw new CommandFailed('usage', 'USAGE', 'it is not said whose tools these are: give --agent or POSTE_AGENT');
  }
  if (!isAgentName(name)) {
    const message =
      '--agent and POSTE_AGENT name an agent: letters, digits, points, hyphens and underlines, at most 64';
    throw new CommandFailed('usage', 'USAGE', message);
  }
  if (name.toLowerCase() === OWNER_NAME) {
    const message = 'mail to owner is for a person, who reads it with poste inbox --owner: name an agent with --agent';
    throw new CommandFailed('usage', 'USAGE', message);
  }
  return name;
}

function refuse(error: unknown): never {
  if (!(error instanceof CommandFailed)) throw error;
  throw new CallFailed(error.code, 0, error.message, error.details);
}
