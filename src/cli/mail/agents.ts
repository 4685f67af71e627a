/** `poste agent`: lists whom mail can be sent to, here and on paired hosts, and manages the agents of this host. */
import { Command } from 'commander';
import type { AgentDocument } from '../../host/contract/agents.ts';
import type { AgentsResult } from '../../host/contract/mail.ts';
import { countText } from '../../host/core/spans.ts';
import { isSameName, OWNER_NAME } from '../../host/core/address.ts';
import { printable } from '../../protocol/printable.ts';
import { confirmed } from '../lib/input.ts';
import type { CommandContext } from '../lib/context.ts';
import { type ActingFlags, ask, type DaemonFlags, actingCommand, daemonCommand } from '../lib/daemon-call.ts';
import { withoutUndefined } from '../lib/values.ts';
import { applyStyle, formatTime, type Screen, screenOf } from '../lib/screen.ts';
import { table } from '../lib/table.ts';

const AGENT_NOTES = `
Mail to a former name of an agent is forwarded to it. A removed agent's mail is dropped. The list has the agents of this
host, with their mail, and those of paired hosts: HEARD is the age of the list that such a host sent.

Examples:
  $ poste agent add reviewer --role review
  $ poste agent rename reviewer critic
  $ poste agent roles critic review security
  $ poste agent
  $ poste agent list --host laptop --role review --json
  $ poste agent remove critic`;

export function agentCommand(context: CommandContext): Command {
  const agent = new Command('agent').addHelpText('after', AGENT_NOTES);
  daemonCommand(context, 'add')
    .childOf(agent, 'Add an agent, with a mailbox of its own.')
    .argument('<name>', "the agent's name")
    .option('--role <role...>', 'a role of the agent: mail to role:<role> reaches it')
    .notes('\nExample:\n  $ poste agent add reviewer --role review')
    .answers((name, { role: roles, ...flags }) => ask(context, 'add-agent', { name, ...(roles && { roles }) }, flags))
    .prints(({ address }) => `Added ${address}.\n`);
  daemonCommand(context, 'rename')
    .childOf(agent, 'Rename an agent, and forward mail for its old name.')
    .argument('<name>', 'its current name')
    .argument('<new-name>', 'its new name')
    .notes('\nExample:\n  $ poste agent rename reviewer critic')
    .answers((name, new_name, flags) => ask(context, 'rename-agent', { name, new_name }, flags))
    .prints(({ address }) => `Renamed to ${address}.\n`);
  daemonCommand(context, 'roles')
    .childOf(agent, 'Replace the roles of an agent.')
    .argument('<name>', "the agent's name")
    .argument('[roles...]', 'its new roles; without any, it has none')
    .notes('\nExample:\n  $ poste agent roles critic review security')
    .answers((name, roles, flags) => ask(context, 'set-agent-roles', { name, roles }, flags))
    .prints(({ address, roles }) => `${address} has ${roles.length === 0 ? 'no role' : roles.join(', ')}.\n`);
  actingCommand(context, 'list')
    .childOf(agent, 'List the agents that mail can be sent to, here and on paired hosts.', { isDefault: true })
    .option('--host <name>', 'only agents of this host')
    .option('--role <role>', 'only agents with this role')
    .notes('\nExample:\n  $ poste agent list --json')
    .answers(async ({ host, role, ...flags }) => {
      const { you, agents } = await ask(context, 'mail-agents', withoutUndefined({ host, role }), flags);
      const own = await ask(context, 'list-agents', {}, flags);
      const mailboxes = new Map(own.agents.map((agent) => [agent.address, agent]));
      const listed: ListedAgent[] = [];
      for (const agent of agents) listed.push({ ...mailboxes.get(agent.address), ...agent });
      return { you, agents: listed };
    })
    .prints(({ agents }, screen) => agentTable(screen, agents));
  daemonCommand(context, 'remove')
    .childOf(agent, 'Remove an agent and delete its mailbox.')
    .argument('<name>', "the agent's name")
    .option('--yes', 'do not ask for confirmation')
    .notes('\nExamples:\n  $ poste agent remove critic\n  $ poste agent remove --yes critic')
    .answers(async (name, flags) => {
      if (!flags.yes) await confirmRemoval(context, name, flags);
      return ask(context, 'remove-agent', { name }, flags);
    })
    .prints(({ name, dropped, dropped_unread: unread }) => `Removed ${name}, with ${messagesText(dropped, unread)}.\n`);
  return agent;
}

/** An agent that mail can be sent to; of this host with its mailbox. */
type ListedAgent = AgentsResult['agents'][number] & Partial<Omit<AgentDocument, 'presence'>>;

/** More would fill the screen. */
const AGENTS_NAMED_MAX = 8;

/** Names the agents to an owner who gave no `--as` and was shown nothing; `next` begins the command for one's mail. */
export async function nameAgents(context: CommandContext, command: Command, next: string): Promise<void> {
  const flags = command.opts<ActingFlags>();
  const isByDefault = flags.as === OWNER_NAME && command.getOptionValueSource('as') === 'default';
  if (!isByDefault || flags.json) return;
  const { agents } = await ask(context, 'list-agents', {}, flags);
  const [first] = agents;
  const named = agents.slice(0, AGENTS_NAMED_MAX).map(({ name }) => name);
  const more = agents.length > named.length ? `, and ${agents.length - named.length} more` : '';
  const said = first
    ? `Agents here: ${named.join(', ')}${more}. ${next} --as ${first.name}`
    : 'There is no agent here yet: add one with poste agent add.';
  context.stdout.write(applyStyle(screenOf(context), 'dim', `\n${printable(said)}\n`));
}

function agentTable(screen: Screen, agents: readonly ListedAgent[]): string {
  if (agents.length === 0) return 'There is no such agent: add one with poste agent add.\n';
  return table<ListedAgent>(screen, agents, [
    { title: 'ADDRESS', cell: ({ address }) => address },
    { title: 'ROLES', cell: ({ roles }) => roles.join(',') },
    {
      title: 'PRESENCE',
      cell: ({ presence }) => presence,
      style: ({ presence }) => (presence === 'live' ? 'green' : 'dim'),
    },
    { title: 'UNREAD', cell: ({ unread }) => String(unread ?? ''), isNumber: true },
    { title: 'MAIL', cell: ({ total }) => String(total ?? ''), isNumber: true },
    { title: 'SINCE', time: ({ created_at }) => created_at ?? null },
    { title: 'FORMERLY', cell: ({ former_names: names = [] }) => names.join(',') },
    {
      title: 'HEARD',
      cell: ({ directory_age_seconds: age }) => (age === null ? '' : formatTime(screen, screen.nowMs - age * 1000)),
    },
  ]);
}

/** Asks, and says what would be lost. For an unknown agent the daemon answers, and suggests similar names. */
async function confirmRemoval(context: CommandContext, name: string, flags: DaemonFlags): Promise<void> {
  const { agents } = await ask(context, 'list-agents', {}, flags);
  const agent = agents.find((one) => isSameName(one.name, name));
  if (!agent) return;
  const lost = messagesText(agent.total, agent.unread);
  const stake = `removing ${agent.name} deletes its mailbox with ${lost}`;
  await confirmed(context, `Remove ${agent.name} and delete its mailbox with ${lost}? This cannot be undone.`, {
    stake,
  });
}

function messagesText(total: number, unread: number): string {
  if (total === 0) return 'no message';
  return `${countText(total, 'message')} (${unread} unread)`;
}
