/** `poste mcp`: the mail tools of one agent, for a program that speaks MCP over standard input and output. */
import { Command } from 'commander';
import { OWNER_NAME } from '../../host/core/address.ts';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import { agentHere } from '../lib/agent-here.ts';
import { type CommandContext, agentOption } from '../lib/context.ts';
import { CommandFailed, stopSignal, usageFailure } from '../lib/exit.ts';
import { requireAgentName, startOption } from '../lib/daemon-call.ts';

interface McpFlags {
  agent?: string;
  program?: string;
  defaultAgent?: string;
  start?: boolean;
  wakeUnattended?: boolean;
}

const NOTES = `
An MCP client starts this command and talks to it over standard input and output; errors go to standard error. The agent
counts as live while the command runs. The tools are mail_send, mail_reply, mail_agents and mail_inbox. The resource
poste://inbox lists the unread mail, and clients can subscribe to it.

The agent is the one of --agent; else of POSTE_AGENT; else the one that poste setup --project gave to --program in the
working folder, or in the nearest folder above it; else the one of --default-agent.

Examples:
  $ poste agent add builder
  $ claude mcp add poste -- poste mcp --agent builder
  $ codex mcp add poste -- poste mcp --agent builder`;

export function mcpCommand(context: CommandContext): Command {
  return new Command('mcp')
    .addOption(agentOption(context, '--agent <name>', 'the agent whose mail the tools read and send'))
    .option('--program <name>', 'the program that runs the agent, as poste setup --project calls it')
    .option('--default-agent <name>', 'the agent where neither POSTE_AGENT nor the project names one')
    .addOption(startOption(context))
    .option('--wake-unattended', 'let mail begin turns of a Claude Code that nobody attends (claude -p)')
    .addHelpText('after', NOTES)
    .action(async (flags: McpFlags) => serve(context, flags));
}

async function serve(context: CommandContext, flags: McpFlags): Promise<void> {
  const { agent: given, program, defaultAgent: byDefault, start, wakeUnattended } = flags;
  const signalled = stopSignal(context);
  const paths = ownPaths(context);
  const fault = daemonSocketFault(paths);
  if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
  const options = {
    paths,
    agent: agentOf(agentHere(context, { given, program, byDefault })),
    start: start === true,
    wakeUnattended: wakeUnattended === true,
  };
  const { serveMailTools } = await import('./serve-mail-tools.ts');
  await serveMailTools(context, { ...options, signalled, answered: new Set() });
}

function agentOf(name: string | undefined): string {
  if (name === undefined || name === '') {
    throw usageFailure('no agent given: use --agent NAME or POSTE_AGENT');
  }
  requireAgentName(name, '--agent or POSTE_AGENT');
  if (name.toLowerCase() === OWNER_NAME) {
    const message = 'owner is a person, who reads mail with poste inbox --as owner: name an agent with --agent';
    throw usageFailure(message);
  }
  return name;
}
