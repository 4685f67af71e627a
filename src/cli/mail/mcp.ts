/** `poste mcp`: the mail tools of one agent, for a program that speaks MCP over standard input and output. */
import type { Command } from 'commander';
import { daemonSocketFault, ownPaths } from '../../host/base/paths.ts';
import { agentHere } from '../lib/agent-here.ts';
import { CommandDraft } from '../lib/command-draft.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, stopSignal } from '../lib/exit.ts';
import { requireAgent, startOption } from '../lib/daemon-call.ts';

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

const OWNER = 'owner is a person, who reads mail with poste inbox --as owner';

export function mcpCommand(context: CommandContext): Command {
  return new CommandDraft(context, 'mcp')
    .agent('--agent <name>', 'the agent whose mail the tools read and send')
    .option('--program <name>', 'the program that runs the agent, as poste setup --project calls it')
    .option('--default-agent <name>', 'the agent where neither POSTE_AGENT nor the project names one')
    .takes<{ start?: boolean }>(startOption(context))
    .option('--wake-unattended', 'let mail begin turns of a Claude Code that nobody attends (claude -p)')
    .notes(NOTES)
    .action(async (flags) => {
      const { agent: given, program, defaultAgent: byDefault, start = false, wakeUnattended = false } = flags;
      const signalled = stopSignal(context);
      const paths = ownPaths(context);
      const fault = daemonSocketFault(paths);
      if (fault !== undefined) throw new CommandFailed('failure', 'SOCKET_PATH_TOO_LONG', fault);
      const agent = requireAgent(agentHere(context, { given, program, byDefault }), '--agent', OWNER);
      const { serveMailTools } = await import('./serve-mail-tools.ts');
      await serveMailTools(context, { paths, agent, start, wakeUnattended, signalled, answered: new Set() });
    });
}
